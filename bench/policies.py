"""Many policies on one log: rules over 300 atoms, of which an event has one to three; and rules for
each of 1,000 keys of a CSV table, whose rows each have one of 300 texts.

They are checked in one pass, and only violations are written, to the null device. The start, with
the reading of the policies, is measured on a log without events and left out. What one policy takes
on the same log is mostly the reading of it.
"""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING

import numpy as np

from bench.compare import in_turn
from bench.contenders import script
from bench.logs import Log, cache_directory, piece_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.commands import Run
    from bench.logs import Piece
    from bench.report import Result, Row
    from bench.settings import Settings

COUNTS = (1, 10, 100, 1000)
ATOMS = tuple(f"a{number}" for number in range(300))
WINDOWS = (5, 10, 20, 50)
# what never occurs, so that rules hold everywhere
NEVER = "never"

_LOUD = (
    "{0} IMPLIES EVENTUALLY[0,{2}] {1}",
    "{0} IMPLIES ONCE[0,{2}] {1}",
    "{0} IMPLIES NOT ONCE[1,{2}] {1}",
    "{0} IMPLIES ALWAYS[0,{2}] NOT {1}",
    "{0} IMPLIES ((NOT {1}) SINCE[0,{2}] {0})",
)
_QUIET = (
    f"{{0}} IMPLIES NOT ONCE[1,{{2}}] ({NEVER} AND {{1}})",
    f"{{0}} IMPLIES ALWAYS[0,{{2}}] NOT ({NEVER} AND {{1}})",
)
KINDS = {"violated": _LOUD, "never violated": _QUIET, "violated, of keys": _LOUD}
KEYS = 1000


def policies(settings: Settings) -> Result:
    """Microseconds of the processors per event, medians over the repeats."""
    logs = {
        kind: [
            _table(events, settings.seed) if "keys" in kind else _log(events, settings.seed).path()
            for events in (settings.events, 0)
        ]
        for kind in KINDS
    }
    files = {(kind, count): _file(kind, count, settings.seed) for kind in KINDS for count in COUNTS}
    commands = {
        f"{kind} {count} {path.name}": [script(), "--verdicts", "false", str(file), str(path)]
        for (kind, count), file in files.items()
        for path in logs[kind]
    }
    notes: list[str] = []
    runs = in_turn(commands, settings.repeats, settings.limit, notes, "policies")
    rows: list[Row] = []
    for kind, count in files:
        whole, start = (runs.get(f"{kind} {count} {path.name}") for path in logs[kind])
        if whole and start:
            begun = _median(start)
            each = (_median(whole) - begun) / settings.events
            rows.append(
                {
                    "policies": count,
                    "which are": kind,
                    "CPU µs per event": 1e6 * each,
                    "ns per policy and event": 1e9 * each / count,
                    "start s": begun,
                    "peak MB": max(run.peak_bytes for run in whole) / 1e6,
                }
            )
    return {"rows": rows, "notes": notes}


def _median(runs: list[Run]) -> float:
    return statistics.median(run.cpu_seconds for run in runs)


def _file(kind: str, count: int, seed: int) -> Path:
    """A file with so many policies."""
    generator = random.Random(f"{kind} {seed}")
    name = kind.replace(", ", "-").replace(" ", "-")
    path = cache_directory() / f"policies-{name}-{count}-s{seed}.mtl"
    has_keys = "keys" in kind
    atoms = [f'(event = "{atom}")' for atom in ATOMS] if has_keys else ATOMS
    lines = (
        f"policy number{number}: "
        + generator.choice(KINDS[kind]).format(
            *generator.sample(atoms, 2), generator.choice(WINDOWS)
        )
        for number in range(count)
    )
    begin = "key user\n" if has_keys else ""
    path.write_text(begin + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _table(events: int, seed: int) -> Path:
    """A table with the columns ts, user and event; some keys have far more rows than others."""
    path = cache_directory() / f"policies-keys-n{events}-s{seed}.csv"
    if path.exists():
        return path
    generator = np.random.default_rng(seed)
    times = np.cumsum(generator.choice([0, 0, 1, 1, 1, 2], events))
    users = (KEYS * generator.random(events) ** 2).astype(np.int64)
    names = generator.integers(0, len(ATOMS), events)
    rows = zip(times.tolist(), users.tolist(), names.tolist(), strict=True)
    made = path.with_suffix(".part")
    with made.open("w", encoding="utf-8") as file:
        file.write("ts,user,event\n")
        file.writelines(f"{time},u{user},{ATOMS[name]}\n" for time, user, name in rows)
    made.replace(path)
    return path


def _log(events: int, seed: int) -> Log:
    return Log(f"policies-n{events}-s{seed}", ATOMS, events, lambda: _pieces(events, seed), False)


def _pieces(events: int, seed: int) -> Iterator[Piece]:
    """Events at gaps of 0, 1 and 2."""
    generator = np.random.default_rng(seed)
    done = clock = 0
    while done < events:
        count = min(piece_events(ATOMS), events - done)
        times = clock + np.cumsum(generator.choice([0, 0, 1, 1, 1, 2], count))
        letters = np.zeros((count, len(ATOMS)), np.bool_)
        for share in (1, 2 / 3, 1 / 3):
            some = generator.random(count) < share
            letters[some, generator.integers(0, len(ATOMS), some.sum())] = True
        yield times, letters
        done, clock = done + count, int(times[-1])
