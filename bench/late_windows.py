"""Windows over rows that come late: `--lateness 5m` beside the rows in order without it.

The command reads CSV with a hundred rows a second of all keys together, from a file in large
batches and through a pipe in small ones, and counts and sums the rows of a minute of each key. With
one percent of the rows late by up to five minutes, verdicts are corrected. The ratios are to the
ordered run of the same rows, whole commands with their start.
"""

from __future__ import annotations

import os
import shlex
import statistics
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.arrivals import arrivals
from bench.compare import in_turn
from bench.contenders import script
from bench.logs import cache_directory

if TYPE_CHECKING:
    from pathlib import Path

    from bench.report import Result, Row
    from bench.settings import Settings

POLICIES = "policy few: count[0,60s]() < 90000\npolicy low: sum[0,60s](v, or: 0) < 90000000\n"
_KEYS = (1, 1000, 100_000)
_ROWS_PER_SECOND = 100
_SHARE = 0.01
_DELAY = 300


class Case(NamedTuple):
    """How rows are read.

    Attributes:
        keys: the number of keys.
        way: "file" or "pipe".
    """

    keys: int
    way: str


def late_windows(settings: Settings) -> Result:
    """Processor seconds of the whole command, medians over the repeats, and their ratios."""
    rows: list[Row] = []
    notes: list[str] = []
    policies = cache_directory() / "late-windows.mtl"
    policies.parent.mkdir(parents=True, exist_ok=True)
    policies.write_text(POLICIES)
    for case in (Case(keys, way) for keys in _KEYS for way in ("file", "pipe")):
        in_order, late = (_log(case.keys, share, settings) for share in (0.0, _SHARE))
        lateness = ("--lateness", "5m")
        commands = {
            "ordered": _command(case, policies, in_order),
            "none late": _command(case, policies, in_order, *lateness),
            "1% late": _command(case, policies, late, *lateness),
        }
        label = f"late windows, {case.keys:,} keys, {case.way}"
        runs = in_turn(commands, settings.repeats, settings.limit, notes, label)
        seconds = {
            name: statistics.median(run.cpu_seconds for run in some) for name, some in runs.items()
        }
        row: Row = {"keys": case.keys, "read from": f"a {case.way}"}
        row |= {f"{name}, CPU s": found for name, found in seconds.items()}
        for name in ("none late", "1% late"):
            if {"ordered", name} <= seconds.keys():
                row[f"{name}, ratio"] = seconds[name] / seconds["ordered"]
        rows.append(row)
    return {"rows": rows, "notes": notes}


def _command(case: Case, policies: Path, log: Path, *options: str) -> list[str]:
    arguments = [script(), "--unit", "s", "--key", "key", "--verdicts", "false", *options]
    arguments += ["-o", os.devnull, str(policies)]
    if case.way == "file":
        return [*arguments, str(log)]
    pipeline = f"cat {shlex.quote(str(log))} | {shlex.join([*arguments, '--format', 'csv', '-'])}"
    return ["/bin/sh", "-c", pipeline]


def _log(keys: int, share: float, settings: Settings) -> Path:
    """The rows as they come, so many of which are late."""
    path = cache_directory() / f"late-windows-{keys}-{share}-{settings.events}-{settings.seed}.csv"
    if path.exists():
        return path
    stamps = np.arange(settings.events) // _ROWS_PER_SECOND
    source = np.random.default_rng(settings.seed)
    table = pa.table(
        {
            "ts": stamps,
            "key": source.integers(0, keys, settings.events),
            "v": source.integers(0, 1000, settings.events),
        }
    )
    if share:
        table = table.take(pa.array(arrivals(stamps, share, _DELAY, "uniform", settings.seed)))
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    pyarrow.csv.write_csv(table, unfinished)
    unfinished.replace(path)
    return path
