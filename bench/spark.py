"""Spark: rows a second through the monitor against the same plan without it, and memory.

Each row of a result is a Spark of its own, started by `bench.spark_runs`, so that masters, cores
and memory do not meet. A core means that all processes are pinned to one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from bench import ROOT
from bench.commands import BenchmarkError
from bench.compare import progress
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

KEYS = (100, 1_000_000)
JOINED_FORMULAS = (1, 4, 16)
ROWS_IN_ONE_KEY = (100_000, 1_000_000, 10_000_000)

# What a run is on: the master, and how many processors it may use.
_PLACES = {"one core": ("local[1]", 1), "local[1]": ("local[1]", 2), "local[2]": ("local[2]", 2)}


def spark(settings: Settings) -> Result:
    """Rows a second: sorted by key and time, and passed through Python or monitored there."""
    rows: list[Row] = []
    for name in settings.workloads:
        for keys in KEYS:
            for place, (master, processors) in _PLACES.items():
                if keys != KEYS[0] and place != "local[2]":
                    continue
                # a pass-through function and the monitor in turn, in one session
                asked = {
                    "master": master,
                    "formula": WORKLOADS[name].formula,
                    "rows": settings.events,
                    "keys": keys,
                    "repeats": settings.repeats,
                }
                seconds = _run(asked, processors, settings.limit)["seconds"]
                passed = statistics.median(seconds["pass"])
                row: Row = {"workload": name, "keys": keys, "on": place}
                row["pass M rows/s"] = settings.events / passed / 1e6
                for way in ("monitor", "equivalences"):
                    median = statistics.median(seconds[way])
                    row[f"{way} M rows/s"] = settings.events / median / 1e6
                    row[f"{way} %"] = 100 * passed / median
                rows.append(row)
    return {"rows": rows, "notes": []}


def spark_trace(settings: Settings) -> Result:
    """Rows a second of one trace: in one task, and cut into ranges of time.

    Formulas are made dearer by joining more of one kind, to find from which cost on cutting pays.
    """
    rows: list[Row] = []
    for joined in JOINED_FORMULAS:
        formula = " AND ".join(
            f"(ALWAYS[0,{10 + k}] (p IMPLIES EVENTUALLY[0,{3 + k}] q))" for k in range(joined)
        )
        for place, (master, processors) in _PLACES.items():
            asked = {
                "master": master,
                "formula": formula,
                "rows": settings.events,
                # devices are what tells the order of rows
                "keys": 2**31 - 1,
                "ranges": 2,
                "repeats": settings.repeats,
            }
            seconds = _run(asked, processors, settings.limit)["seconds"]
            medians = {way: statistics.median(times) for way, times in seconds.items()}
            row: Row = {"joined": joined, "on": place}
            row |= {f"{way} M rows/s": settings.events / one / 1e6 for way, one in medians.items()}
            row["ranges against one task"] = medians["one task"] / medians["ranges"]
            rows.append(row)
    return {"rows": rows, "notes": []}


def spark_memory(settings: Settings) -> Result:
    """The peak memory of the Python worker, all rows having one key."""
    rows: list[Row] = []
    for name in settings.workloads:
        for count in ROWS_IN_ONE_KEY:
            asked = {
                "master": "local[1]",
                "formula": WORKLOADS[name].formula,
                "rows": count,
                "keys": 1,
                "repeats": 0,
            }
            peaks = [
                _run(asked, 2, settings.limit)["peak"]
                for _ in progress(settings.repeats, f"{name} {count}")
            ]
            rows.append({"workload": name, "rows": count, "MB": statistics.median(peaks) / 1e6})
    return {"rows": rows, "notes": []}


def _run(asked: dict[str, Any], processors: int, limit: float) -> Any:
    """What `bench.spark_runs` finds, on so many processors."""
    allowed = sorted(os.sched_getaffinity(0))[:processors]
    command = [sys.executable, "-m", "bench.spark_runs", json.dumps(asked)]
    pinned = ["taskset", "--cpu-list", ",".join(map(str, allowed)), *command]
    try:
        done = subprocess.run(
            pinned, capture_output=True, text=True, timeout=limit, cwd=ROOT, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"Spark took longer than {limit} s") from None
    if done.returncode:
        raise BenchmarkError(f"Spark failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
