"""Spark: rows a second through the monitor against the same plan without it, and memory.

Each row of a result is a Spark of its own, started by `bench.spark_runs` or
`bench.spark_stream_runs`, so that masters, cores and memory do not meet. A core means that all
processes are pinned to one.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import ROOT
from bench.commands import BenchmarkError
from bench.compare import progress
from bench.workloads import WORKLOADS
from mtlmon import Monitor

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

KEYS = (100, 1_000_000)
SCALES = (1, 2, 4)
TRACE_RATE = 250
STREAM_KEYS = (10_000, 100_000)
BUCKETS = (16, 64, 256)
WINDOW_ROWS = (10_000, 100_000, 1_000_000)
BATCH_ROWS = 10_000
ROWS_IN_ONE_KEY = (100_000, 1_000_000, 10_000_000)

# Enough of them that all windows have passed several times.
_COSTED_ROWS = 400_000

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


def spark_relations(settings: Settings) -> Result:
    """Rows a second with variables: sliced, sorted, and passed through Python or monitored there.

    Statistics are given. There are four slices for each processor.
    """
    rows: list[Row] = []
    for name in settings.workloads:
        asked = {
            "master": "local[2]",
            "case": name,
            "rows": settings.events,
            "slices": 8,
            "repeats": settings.repeats,
        }
        seconds = _run(asked, 2, settings.limit)["seconds"]
        passed, monitored = (statistics.median(seconds[way]) for way in ("pass", "monitor"))
        row: Row = {"formula": name}
        row["pass M rows/s"] = settings.events / passed / 1e6
        row["monitor M rows/s"] = settings.events / monitored / 1e6
        row["monitor %"] = 100 * passed / monitored
        rows.append(row)
    return {"rows": rows, "notes": []}


def spark_steps(settings: Settings) -> Result:
    """Where the time goes on one core: seconds a million rows, step by step."""
    rows: list[Row] = []
    notes: list[str] = []
    for keys in KEYS:
        asked = {
            "master": "local[1]",
            "formula": WORKLOADS[settings.workloads[0]].formula,
            "rows": settings.events,
            "keys": keys,
            "repeats": settings.repeats,
            "steps": True,
        }
        found = _run(asked, 1, settings.limit)
        before = 0.0
        for step, times in found["seconds"].items():
            taken = statistics.median(times) / settings.events * 1e6
            rows.append({"keys": keys, "step": step, "s in all": taken, "s more": taken - before})
            before = taken
        shuffled = found["shuffled"] / settings.events
        notes.append(f"With {keys:,} keys, {shuffled:.1f} bytes of a row go through the shuffle.")
    return {"rows": rows, "notes": notes}


def spark_trace(settings: Settings) -> Result:
    """Seconds for one trace, in one task and cut into two ranges, for dearer and dearer policies.

    The windows of a policy grow with its scale, and with them what monitoring a row costs.
    """
    rows: list[Row] = []
    for scale in SCALES:
        windows = [number * scale for number in (5, 30, 20, 4, 25)]
        formula = "(EVENTUALLY[{},{}] p) SINCE[0,{}] (EVENTUALLY[{},{}] q)".format(*windows)
        cost = _cost(formula)
        for place, (master, processors) in _PLACES.items():
            asked = {
                "master": master,
                "formula": formula,
                "rows": settings.events,
                "rate": TRACE_RATE,
                # devices are what tells the order of rows
                "keys": 2**31 - 1,
                "ranges": 2,
                "repeats": settings.repeats,
            }
            seconds = _run(asked, processors, settings.limit)["seconds"]
            medians = {way: statistics.median(times) for way, times in seconds.items()}
            row: Row = {"monitor us/row": cost, "on": place}
            row |= {f"{way} s": one for way, one in medians.items()}
            row["faster by"] = medians["one task"] / medians["ranges"]
            rows.append(row)
    return {"rows": rows, "notes": []}


def _cost(formula: str) -> float:
    """Microseconds a row in the monitor alone."""
    source = np.random.default_rng(1)
    time_stamps = np.arange(_COSTED_ROWS) // TRACE_RATE
    letters = source.integers(0, 4, _COSTED_ROWS).astype(np.uint64)
    monitor = Monitor(formula)
    start = time.process_time()
    for first in range(0, _COSTED_ROWS, 10_000):
        monitor.feed(time_stamps[first : first + 10_000], letters[first : first + 10_000])
    return (time.process_time() - start) / _COSTED_ROWS * 1e6


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


def spark_stream(settings: Settings) -> Result:
    """Rows a second of a streaming query: two rows of each key in a batch, in so many buckets.

    Beside it are a query that passes rows to Python and back, and one that keeps a state for each
    key, with the number of its rows. They have no buckets. Another one remembers the rows of three
    batches, and would correct verdicts if any came late. Processor time is that of all processes,
    those of Java and of Python. A batch writes to the state store of RocksDB.
    """
    rows: list[Row] = []
    queries = ("monitor", "corrections")
    ways = [("pass", None), ("states", None), *itertools.product(queries, BUCKETS)]
    for keys in STREAM_KEYS:
        for way, buckets in ways:
            asked = {
                "formula": WORKLOADS[settings.workloads[0]].formula,
                "keys": keys,
                "way": way,
                "buckets": buckets,
                "repeats": settings.repeats,
            }
            found = _run(asked, 2, settings.limit, module="bench.spark_stream_runs")
            medians = {name: statistics.median(one[name] for one in found) for name in found[0]}
            count = 2 * keys
            row: Row = {"keys": keys, "query": way, "buckets": buckets or ""}
            row["k rows/s"] = count / medians["seconds"] / 1e3
            for name in ("java", "python"):
                row[f"{name} us/row"] = medians[name] / count * 1e6
            row["MB a batch"] = medians["written"] / 1e6
            rows.append(row)
    return {"rows": rows, "notes": []}


def spark_slices(settings: Settings) -> Result:
    """What a batch of a policy with variables writes to the states of slices, by its window."""
    rows: list[Row] = []
    for window in WINDOW_ROWS:
        asked = {
            "way": "slices",
            "window": window,
            "batch": BATCH_ROWS,
            "slices": 4,
            "repeats": settings.repeats,
        }
        found = _run(asked, 2, settings.limit, module="bench.spark_stream_runs")
        medians = {name: statistics.median(one[name] for one in found) for name in found[0]}
        row: Row = {"rows in the window": window, "rows in a batch": BATCH_ROWS}
        row["MB a batch"] = medians["written"] / 1e6
        row["s a batch"] = medians["seconds"]
        for name in ("java", "python"):
            row[f"{name} us/row"] = medians[name] / BATCH_ROWS * 1e6
        rows.append(row)
    return {"rows": rows, "notes": []}


def _run(
    asked: dict[str, Any], processors: int, limit: float, module: str = "bench.spark_runs"
) -> Any:
    """What a module finds that is a process of its own, on so many processors."""
    allowed = sorted(os.sched_getaffinity(0))[:processors]
    command = [sys.executable, "-m", module, json.dumps(asked)]
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
