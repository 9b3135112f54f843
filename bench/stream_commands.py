"""Whole commands with windows: from Parquet to a table of verdicts, and memory by the rate."""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bench.compare import in_turn
from bench.contenders import script
from bench.logs import cache_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.report import Result, Row
    from bench.settings import Settings

KEYS = 1000
_STREAMS = """\
unit ms
key key
stream n = count[0,10m]()
stream mean = avg[0,10m](speed)
"""
POLICIES = {
    "threshold": f"{_STREAMS}policy low: n > 60 IMPLIES mean <= 44.0\n",
    "response": (
        f"{_STREAMS}policy load: n > 60 AND mean > 42.0 IMPLIES EVENTUALLY[0,1m] mean <= 42.0\n"
    ),
    "past": f"{_STREAMS}policy calm: n > 60 AND mean > 42.0 IMPLIES ONCE[0,5m] mean <= 42.0\n",
}
"""Count and average over ten minutes of each key, a threshold, and MTL on top."""

TICKS = """\
unit us
stream mean = avg[0,10s](speed) every 1s
stream n = count[0,10s]() every 1s
stream most = max[0,10s](speed) every 1s
stream before = speed.at(-1s, or: 0.0) every 1s
policy ok on every 1s: mean < 50.0 AND n >= 0 AND most < 500.0 AND before < 500.0
"""
"""Streams of a fixed rate, whatever the rate of the rows is."""

# Rows of any key in milliseconds: of each, 60 are in a window on average.
_MEAN_GAP = 10
_MICROSECONDS = 10**6


def stream_command(settings: Settings) -> Result:
    """Seconds of the whole command with one thread and as many as it uses; medians."""
    log = _file("keyed-values", settings, _keyed_rows)
    commands = {}
    for name, text in POLICIES.items():
        policy = _policy(f"stream-command-{name}", text)
        options = ("--verdicts", "false", "--output-format", "parquet", "-o", os.devnull)
        command = [script(), *options, str(policy), str(log)]
        commands[name] = command
        commands[f"{name}, one thread"] = [*command, "--threads", "1"]
    notes: list[str] = []
    runs = in_turn(commands, settings.repeats, settings.limit, notes, "stream-command")
    rows: list[Row] = []
    for name in commands:
        if found := runs.get(name):
            rows.append(
                {
                    "policy": name,
                    "keys": KEYS,
                    "rows": settings.events,
                    "seconds": statistics.median(run.seconds for run in found),
                    "CPU seconds": statistics.median(run.cpu_seconds for run in found),
                    "peak MB": statistics.median(run.peak_bytes for run in found) / 1e6,
                }
            )
    return {"rows": rows, "notes": notes}


def stream_rates(settings: Settings) -> Result:
    """The peak memory of a command with windows at ticks, above that of a log without rows."""
    policy = _policy("stream-rates", TICKS)
    command = [script(), "--verdicts", "none", str(policy)]

    def rows_at(rate: int) -> Callable[[int, int], pa.Table]:
        return lambda count, seed: _steady_rows(count, seed, rate)

    empty = _file("rate", settings, rows_at(1), count=0)
    logs = {rate: _file(f"rate-{rate}", settings, rows_at(rate)) for rate in settings.rates}
    commands = {str(rate): [*command, str(log)] for rate, log in logs.items()}
    commands["none"] = [*command, str(empty)]
    notes: list[str] = []
    runs = in_turn(commands, settings.repeats, settings.limit, notes, "stream-rates")
    rows: list[Row] = []
    before = statistics.median(run.peak_bytes for run in runs["none"])
    for rate in settings.rates:
        if found := runs.get(str(rate)):
            above = statistics.median(run.peak_bytes for run in found) - before
            rows.append(
                {
                    "rows per second": rate,
                    "rows": settings.events,
                    "rows per window": min(settings.events, 10 * rate),
                    "MB above an empty log": above / 1e6,
                    "CPU seconds": statistics.median(run.cpu_seconds for run in found),
                }
            )
    return {"rows": rows, "notes": notes}


def _policy(name: str, text: str) -> Path:
    path = cache_directory() / f"{name}.mtl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _keyed_rows(count: int, seed: int) -> pa.Table:
    """Rows of a thousand keys at random, at milliseconds whose gaps are geometric."""
    source = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(source.geometric(1 / (_MEAN_GAP + 1), count) - 1),
            "key": source.integers(0, KEYS, count),
            "speed": np.round(source.normal(40, 15, count), 2),
        }
    )


def _steady_rows(count: int, seed: int, rate: int) -> pa.Table:
    source = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.arange(count) * _MICROSECONDS // rate,
            "speed": np.round(source.normal(40, 15, count), 2),
        }
    )


def _file(
    name: str, settings: Settings, make: Callable[[int, int], pa.Table], count: int | None = None
) -> Path:
    count = settings.events if count is None else count
    path = cache_directory() / f"{name}-{count}-{settings.seed}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        pyarrow.parquet.write_table(make(count, settings.seed), unfinished)
        unfinished.replace(path)
    return path
