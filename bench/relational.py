"""Policies with variables: joins and totals over windows, with few and many time-points.

The logs of star, linear and triangle are like those of J. Schneider, D. Basin, F. Brix, S. Krstić,
D. Traytel, "Scalable Online First-Order Monitoring": three relations of pairs, one of them rare,
and windows of ten seconds. Some events are given values of an earlier one, so that joins have
results. Sums and maxima are those of all groups in a window, at each time-point. A peer reads
MonPoly's files: `--peer monpoly='monpoly -sig {signature} -formula {formula} -log {log}'`. Both
leave out the start, measured on a log of one time-point.
"""

from __future__ import annotations

import os
import shlex
import statistics
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.compare import in_turn
from bench.logs import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.commands import Run
    from bench.report import Result, Row
    from bench.settings import Settings

_PAIRS = ("A", "B", "C")
_SHARES = (0.01, 0.495, 0.495)
_SECONDS = 30
_PLANTED = 0.1
_USERS = 100


class Case(NamedTuple):
    """A policy and its log.

    Attributes:
        atoms: the number of arguments of each atom; all are integers.
        formula: what is found, in the language of policies.
        monpoly: the same in MonPoly's.
        rates: the numbers of time-points in a second; 0 for a log with one event a time-point.
    """

    atoms: dict[str, int]
    formula: str
    monpoly: str
    rates: tuple[int, ...] = (1, 100, 1000)


def _total(word: str) -> Case:
    return Case(
        {"paid": 2},
        f"(ONCE[0,9] EXISTS a. paid(u, a)) AND t = {word}(a OVER ONCE[0,9] paid(u, a) BY u)",
        f"t <- {word} a; u ONCE[0,10) paid(u, a)",
        (1, 100, 1000, 0),
    )


def _join(past: str, now: str, future: str) -> tuple[str, str]:
    ours = f"(ONCE[0,9] A({past})) AND B({now}) AND EVENTUALLY[0,9] C({future})"
    theirs = f"((ONCE[0,10) A({past})) AND B({now})) AND EVENTUALLY[0,10) C({future})"
    return ours, theirs


_THREE = dict.fromkeys(_PAIRS, 2)
_MANAGES = "(NOT ended(m, u)) SINCE began(m, u)"
CASES = {
    "star": Case(_THREE, *_join("a, b", "a, c", "a, d")),
    "linear": Case(_THREE, *_join("a, b", "b, c", "c, d")),
    "triangle": Case(_THREE, *_join("a, b", "b, c", "c, a")),
    "approved in a week": Case(
        {"publish": 1, "approve": 1},
        "publish(f) AND NOT ONCE[0,604800] approve(f)",
        "publish(f) AND NOT ONCE[0,7d] approve(f)",
        (0,),
    ),
    "approved by a manager": Case(
        {"publish": 2, "approve": 2, "began": 2, "ended": 2},
        f"publish(u, f) AND NOT ONCE[0,604800] EXISTS m. (approve(m, f) AND ({_MANAGES}))",
        f"publish(u, f) AND NOT ONCE[0,7d] EXISTS m. (approve(m, f) AND ({_MANAGES}))",
        (0,),
    ),
    "sums of groups": _total("SUM"),
    "maxima of groups": _total("MAX"),
}
# Which argument of B and of C has the value of which argument of an earlier event.
_PLANTS = {
    "star": (("B", 0, "A", 0), ("C", 0, "A", 0)),
    "linear": (("B", 0, "A", 1), ("C", 0, "B", 1)),
    "triangle": (("B", 0, "A", 1), ("C", 0, "B", 1), ("C", 1, "A", 0)),
}


def relational(settings: Settings) -> Result:
    """Seconds above the start and peak memory, medians over the repeats."""
    rows: list[Row] = []
    notes: list[str] = []
    for name, case in CASES.items():
        for rate in case.rates:
            log = log_file(name, case, rate, settings.events, settings.seed)
            empty = log_file(name, case, rate, 1, settings.seed)
            commands: dict[str, list[str]] = {}
            for who, template in _contenders(settings):
                commands[f"{who} start"] = _command(template, name, case, empty)
                commands[who] = _command(template, name, case, log)
            runs = in_turn(commands, settings.repeats, settings.limit, notes, f"{name} {rate}")
            for who, _ in _contenders(settings):
                whole, start = runs.get(who), runs.get(f"{who} start")
                if whole and start:
                    rows.append(_row(name, rate, who, settings.events, whole, start))
    return {"rows": rows, "notes": notes}


def _row(name: str, rate: int, who: str, events: int, whole: list[Run], start: list[Run]) -> Row:
    seconds = statistics.median(run.cpu_seconds for run in whole)
    seconds -= statistics.median(run.cpu_seconds for run in start)
    peak = max(run.peak_bytes for run in whole) - min(run.peak_bytes for run in start)
    return {
        "policy": name,
        "time-points a second": rate or "one an event",
        "monitor": who,
        "CPU s": seconds,
        "M events/s": events / 1e6 / max(seconds, 1e-9),
        "MB above the start": peak / 1e6,
    }


def _contenders(settings: Settings) -> Iterator[tuple[str, str]]:
    """Names and command lines."""
    script = Path(sysconfig.get_path("scripts"), "mtlmon")
    yield "mtlmon", f"{shlex.quote(str(script))} {{policy}} {{log}} -o {os.devnull}"
    for peer in settings.peers:
        yield peer.name, peer.template


def _command(template: str, name: str, case: Case, log: Path) -> list[str]:
    places = {kind: str(path) for kind, path in policy_files(name, case).items()}
    return [word.format_map({**places, "log": str(log)}) for word in shlex.split(template)]


def policy_files(name: str, case: Case) -> dict[str, Path]:
    """The files of a policy: ours, and MonPoly's."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    stem = f"relational-{name.replace(' ', '-')}"
    arguments = {
        atom: [f"a{number}" for number in range(count)] for atom, count in case.atoms.items()
    }
    declared = [
        f"atom {atom}({', '.join(f'{one}: int' for one in names)})"
        for atom, names in arguments.items()
    ]
    signature = [
        f"{atom}({', '.join(f'{one}:int' for one in names)})" for atom, names in arguments.items()
    ]
    contents = {
        "policy": ("mtl", ["unit s", *declared, f"find found: {case.formula}"]),
        "formula": ("mfotl", [case.monpoly]),
        "signature": ("sig", signature),
    }
    paths: dict[str, Path] = {}
    for kind, (suffix, lines) in contents.items():
        paths[kind] = directory / f"{stem}.{suffix}"
        paths[kind].write_text("\n".join([*lines, ""]), encoding="utf-8")
    return paths


def log_file(name: str, case: Case, rate: int, events: int, seed: int) -> Path:
    """The log of a case, in the form that MonPoly and mtlmon share."""
    stem = f"relational-{name.replace(' ', '-')}-{rate}-{events}-{seed}"
    path = cache_directory() / f"{stem}.log"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        source = np.random.default_rng(seed)
        make = _pairs if name in _PLANTS else _payments if "paid" in case.atoms else _approvals
        unfinished.write_text("".join(make(name, case, rate, events, source)), encoding="utf-8")
        unfinished.replace(path)
    return path


def _pairs(
    name: str, case: Case, rate: int, events: int, source: np.random.Generator
) -> Iterator[str]:
    """Events of three relations of pairs, evenly over time-points of some seconds."""
    kinds = source.choice(len(_PAIRS), events, p=_SHARES)
    values = source.integers(0, 10**9, (events, 2))
    planted = source.random(events) < _PLANTED
    latest: dict[str, tuple[int, int]] = {}
    rows: list[tuple[str, tuple[int, int]]] = []
    for kind, (first, second), is_planted in zip(kinds, values.tolist(), planted, strict=True):
        relation = _PAIRS[kind]
        pair = [first, second]
        for own, argument, other, place in _PLANTS[name]:
            if own == relation and is_planted and other in latest:
                pair[argument] = latest[other][place]
        if is_planted or relation == "A":
            latest[relation] = pair[0], pair[1]
        rows.append((relation, (pair[0], pair[1])))
    points = _SECONDS * rate
    for point in range(points):
        own_rows = rows[point * events // points : (point + 1) * events // points]
        words = [f"@{point // rate}"]
        for relation in case.atoms:
            found = [f"({a},{b})" for kind, (a, b) in own_rows if kind == relation]
            if found:
                words.append(f"{relation} {''.join(found)}")
        yield f"{' '.join(words)};\n"


def _approvals(
    _: str, case: Case, __: int, events: int, source: np.random.Generator
) -> Iterator[str]:
    """Files that are approved, mostly, and published; managers come and go."""
    atoms = list(case.atoms)
    weights = [0.5, 0.5] if len(atoms) == 2 else [0.45, 0.45, 0.06, 0.04]
    kinds = source.choice(len(atoms), events, p=weights).tolist()
    files = source.integers(0, max(events // 4, 1), events).tolist()
    people = source.integers(0, 100, events).tolist()
    managers = source.integers(0, 10, events).tolist()
    for number in range(events):
        atom = atoms[kinds[number]]
        if case.atoms[atom] == 1:
            values = [files[number]]
        elif atom == "approve":
            values = [managers[number], files[number]]
        elif atom == "publish":
            values = [people[number], files[number]]
        else:
            values = [managers[number], people[number]]
        yield f"@{number * 10} {atom} ({','.join(map(str, values))});\n"


def _payments(
    _: str, __: Case, rate: int, events: int, source: np.random.Generator
) -> Iterator[str]:
    """Payments of users, evenly over time-points of some seconds, or one a second."""
    users = source.integers(0, _USERS, events).tolist()
    amounts = source.integers(0, 10**6, events).tolist()
    points = _SECONDS * rate if rate else events
    for point in range(points):
        own = range(point * events // points, (point + 1) * events // points)
        rows = "".join([f"({users[number]},{amounts[number]})" for number in own])
        yield f"@{point // rate if rate else point}{' paid ' if rows else ''}{rows};\n"
