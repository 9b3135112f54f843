"""Many policies on one text log: rules over 300 atoms, of which an event has one to three.

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
KINDS = {"violated": _LOUD, "never violated": _QUIET}


def policies(settings: Settings) -> Result:
    """Microseconds of the processors per event, medians over the repeats."""
    log, empty = _log(settings.events, settings.seed).path(), _log(0, settings.seed).path()
    files = {(kind, count): _file(kind, count, settings.seed) for kind in KINDS for count in COUNTS}
    commands = {
        f"{kind} {count} {path.name}": [script(), "--verdicts", "false", str(file), str(path)]
        for (kind, count), file in files.items()
        for path in (log, empty)
    }
    notes: list[str] = []
    runs = in_turn(commands, settings.repeats, settings.limit, notes, "policies")
    rows: list[Row] = []
    for kind, count in files:
        whole, start = (runs.get(f"{kind} {count} {path.name}") for path in (log, empty))
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
    path = cache_directory() / f"policies-{kind.replace(' ', '-')}-{count}-s{seed}.mtl"
    lines = (
        f"policy number{number}: "
        + generator.choice(KINDS[kind]).format(
            *generator.sample(ATOMS, 2), generator.choice(WINDOWS)
        )
        for number in range(count)
    )
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
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
