"""Many streams in one table: a rule with a long window, rows at irregular milliseconds.

The command reads a Parquet file with a thousand keys. The base is a formula that any row decides by
itself; both leave out the start, measured on a file without rows.
"""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bench.compare import in_turn
from bench.contenders import Mtlmon
from bench.logs import cache_directory

if TYPE_CHECKING:
    from pathlib import Path

    from bench.commands import Run
    from bench.report import Result, Row
    from bench.settings import Settings

FORMULAS = {"base": "slow", "response": "slow IMPLIES EVENTUALLY[0,300s] brake"}
KEYS = 1000

# Of rows anywhere, so that a key has one every ten seconds.
_MEAN_GAP = 10
_SLOW, _BRAKE = 0.05, 0.01


def keyed(settings: Settings) -> Result:
    """Nanoseconds of the processors per row, medians over the repeats."""
    paths = {rows: _file(rows, settings.seed) for rows in (0, settings.events)}
    commands = {
        f"{name} {rows}": _command(formula, path)
        for name, formula in FORMULAS.items()
        for rows, path in paths.items()
    }
    notes: list[str] = []
    runs = in_turn(commands, settings.repeats, settings.limit, notes, "keyed")
    rows: list[Row] = []
    for name, formula in FORMULAS.items():
        start, whole = (runs.get(f"{name} {count}") for count in paths)
        if start and whole:
            seconds = _cpu_seconds(whole)
            engine = (seconds - _cpu_seconds(start)) / settings.events
            rows.append(
                {
                    "formula": formula,
                    "keys": KEYS,
                    "rows": settings.events,
                    "M rows/s": settings.events / 1e6 / statistics.median(r.seconds for r in whole),
                    "CPU ns per row": 1e9 * engine,
                }
            )
    return {"rows": rows, "notes": notes}


def table(rows: int, seed: int) -> pa.Table:
    """Rows of a thousand keys at random, at milliseconds whose gaps are geometrically distributed.

    A gap of 0 is possible: rows of different keys, or of one, may have the same time.
    """
    source = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(source.geometric(1 / (_MEAN_GAP + 1), rows) - 1),
            "key": source.integers(0, KEYS, rows),
            "slow": source.random(rows) < _SLOW,
            "brake": source.random(rows) < _BRAKE,
        }
    )


def _cpu_seconds(runs: list[Run]) -> float:
    return statistics.median(run.cpu_seconds for run in runs)


def _command(formula: str, path: Path) -> list[str]:
    options = ("--key", "key", "--unit", "ms", "-o", os.devnull)
    return Mtlmon("local", options=options).command(formula, path)


def _file(rows: int, seed: int) -> Path:
    path = cache_directory() / f"keyed-{rows}-{seed}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        pyarrow.parquet.write_table(table(rows, seed), unfinished)
        unfinished.replace(path)
    return path
