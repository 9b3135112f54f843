"""Streams: windows per key and per instance, beside Polars and DuckDB where they are installed."""

from __future__ import annotations

import re
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import mtlmon
from bench.ceiling import load_native
from bench.commands import BenchmarkError
from bench.compare import progress
from mtlmon.policy import parse_policies
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.parser import parse_expression
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.streams.atoms import streams_of
from mtlmon.streams.program import StreamProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from bench.report import Result, Row
    from bench.settings import Settings

KEYS = (1_000, 100_000)
WIDTH = 600
"""The width of the windows in seconds; a row comes every hundredth of a second."""

BATCH = 65_536
_UNITS = 100

# How each aggregate is written for DuckDB and for Polars, which has no rolling count.
WINDOWS = {
    "count": ("count(*)", None),
    "sum": ("sum(value)", "rolling_sum_by"),
    "avg": ("avg(value)", "rolling_mean_by"),
    "min": ("min(value)", "rolling_min_by"),
    "median": ("median(value)", "rolling_median_by"),
}

_COUNT = f"stream n = count[0,{WIDTH * _UNITS}]() per key"
# Streams with an instance for each key.
INSTANCES = {
    "count per instance": _COUNT,
    "any over instances": f"{_COUNT}\nstream hot = any(n > 100 over n)",
    "sum over instances": "stream n = value per key\nstream total = sum(n over n)",
    "max over instances": "stream n = value per key\nstream most = max(n over n)",
    "views until": "stream n = n.last(or: 0) + 1 per key as id until other = id",
    "one instance": "stream n = value per key\nstream found = n[other]",
}

Log = dict[str, "NDArray[Any]"]


def streams(settings: Settings) -> Result:
    """Rows per second of windows per key: whole numbers, of which all must find the same."""
    rows: list[Row] = []
    notes = ["Millions of rows in a second of processor time, of all threads."]
    contenders: dict[str, Callable[[Log, str], Any]] = {"mtlmon": _mtlmon}
    for name, other in {"Polars": _polars, "DuckDB": _duckdb}.items():
        if find_spec(name.lower()) is None:
            notes.append(f"{name} is not installed.")
        else:
            contenders[name] = other
    # Imports and the like are not timed.
    for run in contenders.values():
        run(_log(1000, 10, settings.seed), "sum")
    for keys in KEYS:
        log = _log(settings.events, keys, settings.seed)
        for window in WINDOWS:
            found: dict[str, NDArray[np.float64]] = {}
            row: Row = {"window": f"{window}[0,{WIDTH}s]", "keys": keys, "rows": settings.events}
            for name, run in contenders.items():
                times = []
                for _ in progress(settings.repeats, f"streams {window} {keys} {name}"):
                    start = time.process_time()
                    result = run(log, window)
                    times.append(time.process_time() - start)
                    if result is not None:
                        found[name] = np.asarray(result, np.float64)
                if name in found:
                    row[f"{name} M rows/s"] = settings.events / min(times) / 1e6
            for name, result in found.items():
                if not np.array_equal(result, found["mtlmon"]):
                    raise BenchmarkError(f"{name} has other results for {window}, {keys} keys")
            rows.append(row)
        rows += _instances(log, keys, settings)
        rows += _panes(keys, settings)
    rows.append(_ratings(settings))
    return {"rows": rows, "notes": notes}


def _panes(keys: int, settings: Settings) -> list[Row]:
    """Rows per second of windows at ticks, with about ten rows per key and tick, and the memory.

    Beside them is a bare loop that does the least: it has no batches, does not forget rows, and
    cannot undo anything.
    """
    rows: list[Row] = []
    period = max(1, 10 * keys // _UNITS)
    for window in ("count", "avg", "max"):
        times = []
        log = _log(settings.events, keys, settings.seed)
        seconds = log["t"] // _UNITS
        text = f"{window}[0,{10 * period}]({'' if window == 'count' else 'value'})"
        schema = pa.schema([("value", pa.float64())])
        values = log["value"] / 8 + 0.1
        numbers = log["key"].astype(np.uint32)
        bare = []
        for _ in progress(settings.repeats, f"streams {window} at ticks {keys}"):
            program = StreamProgram(
                {"x": Predicate(parse_expression(text), text, "<bench>")},
                {},
                schema,
                periods={"x": period},
                only_due=True,
            )
            held = 0
            start = time.process_time()
            for place in range(0, len(seconds), BATCH):
                part = slice(place, place + BATCH)
                batch = pa.RecordBatch.from_arrays([pa.array(values[part])], schema=schema)
                program.evaluate(batch, seconds[part], log["key"][part])
                held = max(held, program.held_bytes)
            times.append(time.process_time() - start)
            start = time.process_time()
            load_native().fill_panes(seconds, numbers, values, keys, period, window)
            bare.append(time.process_time() - start)
        rows.append(
            {
                "window": f"{text} every {period}",
                "keys": keys,
                "rows": settings.events,
                "mtlmon M rows/s": settings.events / min(times) / 1e6,
                "bare loop M rows/s": settings.events / min(bare) / 1e6,
                "bytes": held,
            }
        )
    return rows


RATINGS = """unit s
key pid
stream long = avg[0,100s](stars, or: 0.0) every 10s
stream short = avg[0,10s](stars, or: 0.0) every 10s
trigger rise on every 10s: long - short > 1.0 message "{pid}"
"""


def _ratings(settings: Settings) -> Row:
    """A check of ratings of millions of products, most of which are silent at any time."""
    count = settings.events
    products = max(1, count * 23 // 100)
    source = np.random.default_rng(settings.seed)
    table = pa.table(
        {
            "ts": np.arange(count) // 10,
            "pid": source.integers(0, products, count),
            "stars": source.integers(1, 6, count),
        }
    )
    start = time.process_time()
    check = mtlmon.check(RATINGS, table, verdicts="none")
    check.finish()
    seconds = time.process_time() - start
    return {
        "window": "ratings: two averages and a trigger every 10s",
        "keys": products,
        "rows": count,
        "mtlmon M rows/s": count / seconds / 1e6,
        "ticks": check.counts["rise"].events,
        "bytes": _peak(check.summary),
    }


def _peak(summary: str) -> int:
    """How much memory a run has held, from its summary."""
    found = re.search(r"^peak memory +([0-9,]+) +KiB", summary, re.MULTILINE)
    assert found is not None
    return int(found[1].replace(",", "")) << 10


def _instances(log: Log, keys: int, settings: Settings) -> list[Row]:
    """Rows per second of streams with instances, all in one trace, and the memory of each."""
    rows: list[Row] = []
    for name, text in INSTANCES.items():
        times = []
        for _ in progress(settings.repeats, f"streams {name} {keys}"):
            file = parse_policies(text, needs_policy=False)
            wanted = {
                one: file.predicate(Expression(ops.STREAM, (), one), one, "stream")
                for one in file.streams
            }
            schema = pa.schema([("key", pa.int64()), ("other", pa.int64()), ("value", pa.int64())])
            program = StreamProgram(wanted, streams_of(file), schema)
            others = (log["t"] * 7919 + log["value"]) % keys
            columns = [log["key"].astype(np.int64), others, log["value"]]
            start = time.process_time()
            for place in range(0, len(log["t"]), BATCH):
                part = slice(place, place + BATCH)
                arrays = [pa.array(column[part]) for column in columns]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                program.evaluate(batch, log["t"][part])
            times.append(time.process_time() - start)
        living = max(1, program.living_instances)
        rows.append(
            {
                "window": name,
                "keys": keys,
                "rows": settings.events,
                "mtlmon M rows/s": settings.events / min(times) / 1e6,
                "living instances": living,
                "bytes per instance": program.held_bytes / living,
            }
        )
    return rows


def _log(count: int, keys: int, seed: int) -> Log:
    random = np.random.default_rng(seed)
    return {
        "t": np.arange(count),
        "key": random.integers(0, keys, count).astype(np.uint32),
        "value": random.integers(0, 1000, count),
    }


def _mtlmon(log: Log, window: str) -> pa.ChunkedArray:
    argument = "" if window == "count" else "value"
    text = f"{window}[0,{WIDTH * _UNITS}]({argument})"
    schema = pa.schema([("value", pa.int64())])
    program = StreamProgram({"x": Predicate(parse_expression(text), text, "<bench>")}, {}, schema)
    found = []
    for start in range(0, len(log["t"]), BATCH):
        part = slice(start, start + BATCH)
        batch = pa.RecordBatch.from_arrays([pa.array(log["value"][part])], schema=schema)
        result = program.evaluate(batch, log["t"][part], log["key"][part])["x"]
        found.append(result)
    return pa.chunked_array(found)


def _polars(log: Log, window: str) -> Any:
    import polars

    method = WINDOWS[window][1]
    if method is None:
        return None
    rolling = getattr(polars.col("value"), method)
    window_size = f"{WIDTH * _UNITS}i"
    expression = rolling(by="t", window_size=window_size, closed="both").over("key")
    found = polars.DataFrame(log).select(expression).to_series()
    return found


def _duckdb(log: Log, window: str) -> Any:
    import duckdb

    table = pa.table(log)
    aggregate = WINDOWS[window][0]
    query = (
        f"SELECT CAST(x AS DOUBLE) AS x FROM (SELECT t, {aggregate} OVER (PARTITION BY key "
        f"ORDER BY t RANGE BETWEEN {WIDTH * _UNITS} PRECEDING AND CURRENT ROW) AS x FROM rows) "
        "ORDER BY t"
    )
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection.sql(query).fetchnumpy()["x"]
