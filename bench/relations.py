"""Relations over validity intervals: groups, joins and look-ups, beside DuckDB if installed.

Rows of a log come in the order of time. A group tells each aggregate for as long as it is the same;
DuckDB, which has no such groups, tells it at each row instead. Both join the same ranges. A policy
looks up the limit of the row's key at its time, and DuckDB joins the last one that began.
"""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import mtlmon
from bench.commands import BenchmarkError
from bench.compare import progress
from mtlmon.policy.predicates.parser import parse_expression
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.relations.algebra import Aggregation, Group, Join, Source, ValidFor
from mtlmon.relations.evaluation import evaluate
from mtlmon.relations.incremental import Query
from mtlmon.relations.lookup import LookUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report import Result, Row
    from bench.settings import Settings
    from mtlmon.relations.algebra import Node

GROUPS = (100, 10_000)
WIDTH = 60_000
"""The width of windows in milliseconds; a row comes every tenth of a second."""

BATCH = 65_536
_PERIOD = 100
# How many rows the results are compared on before anything is timed.
_COMPARED = 20_000
_AGGREGATES = ("count", "sum", "avg", "max")
_JOINS = ((1000, 1000), (1000, 10_000), (100_000, 100_000))
"""The number of keys, and how long records are valid at most."""

_LOOK_UPS = (1000, 10_000, 100_000)
"""The number of keys."""

_LIMITS = 10
"""How many limits a key has, one after the other."""


def relations(settings: Settings) -> Result:
    """Rows per second of groups over windows, whole and in batches, of joins, and of look-ups."""
    rows: list[Row] = []
    notes = [
        "Millions of rows in a second; rows of joins are those of both relations.",
        "For look-ups, mtlmon reads the table of limits from a Parquet file, and has an index of "
        "it, in the same time; DuckDB has it in memory.",
    ]
    has_duckdb = find_spec("duckdb") is not None
    if not has_duckdb:
        notes.append("DuckDB is not installed.")
    for groups in GROUPS:
        log = _log(settings.events, groups, settings.seed)
        for word in _AGGREGATES:
            argument = None if word == "count" else _predicate("value")
            node = Group(
                ValidFor(Source("rows"), WIDTH), ("key",), (Aggregation("found", word, argument),)
            )
            contenders: dict[str, Callable[[], int]] = {
                "mtlmon": partial(_count, evaluate, node, {"rows": log}),
                "in batches": partial(_count, _in_batches, node, log),
            }
            if has_duckdb:
                contenders["DuckDB"] = partial(_count, _windows, word, log)
            row: Row = {"relation": f"{word} of {groups} groups", "rows": settings.events}
            _compare_groups(node, log.slice(0, _COMPARED), word, has_duckdb=has_duckdb)
            _timed(row, contenders, settings)
            rows.append(row)
    for keys, length in _JOINS:
        rows.append(_join(keys, length, settings, has_duckdb=has_duckdb))
    for keys in _LOOK_UPS:
        rows.append(_look_up(keys, settings, has_duckdb=has_duckdb))
    return {"rows": rows, "notes": notes}


def _join(keys: int, length: int, settings: Settings, *, has_duckdb: bool) -> Row:
    count = settings.events // 2
    tables = {
        name: _ranges(count, keys, length, settings.seed + place)
        for place, name in enumerate(("one", "other"))
    }
    node = Join(Source("one"), Source("other"), _predicate("k = k2"), ("k2", "v2"))
    contenders: dict[str, Callable[[], int]] = {"mtlmon": partial(_count, evaluate, node, tables)}
    if has_duckdb:
        contenders["DuckDB"] = partial(_count, _range_join, tables)
    row: Row = {"relation": f"join of {keys} keys, up to {length} ms", "rows": settings.events}
    if has_duckdb:
        few = {name: table.slice(0, _COMPARED) for name, table in tables.items()}
        one, other = (
            sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
            for table in (evaluate(node, few), _range_join(few))
        )
        if one != other:
            raise BenchmarkError(f"DuckDB finds other pairs for {row['relation']}")
    found = _timed(row, contenders, settings)
    if len(set(found.values())) > 1:
        raise BenchmarkError(f"DuckDB finds other pairs for {row['relation']}: {found}")
    row["records"] = found["mtlmon"]
    return row


def _look_up(keys: int, settings: Settings, *, has_duckdb: bool) -> Row:
    """Time a policy that compares each row with the limit of its key that is valid then."""
    log = _log(settings.events, keys, settings.seed).drop_columns(["to"])
    log = log.rename_columns(["ts", "key", "value"])
    limits = _limits(keys, settings.events * _PERIOD, settings.seed)
    row: Row = {"relation": f"look-up in a policy, {keys} keys", "rows": settings.events}
    with TemporaryDirectory(prefix="mtlmon-bench-") as folder:
        path = Path(folder, "limits.parquet")
        parquet.write_table(limits, path)
        text = (
            f'unit ms\nrelation limits = table "{path}" valid [start, end) key key\n'
            "policy low: value <= limits[key].most\n"
        )
        contenders: dict[str, Callable[[], int]] = {"mtlmon": partial(_violations, log, text)}
        if has_duckdb:
            contenders["DuckDB"] = partial(_above_limit, log, limits)
        found = _timed(row, contenders, settings)
    if len(set(found.values())) > 1:
        raise BenchmarkError(f"DuckDB finds other violations for {row['relation']}: {found}")
    row["records"] = limits.num_rows
    return row


def _limits(keys: int, end: int, seed: int) -> pa.Table:
    """Limits of each key, one after the other; each begins at a time of its own."""
    random = np.random.default_rng(seed)
    starts = np.cumsum(random.integers(1, 2 * end // _LIMITS, (keys, _LIMITS)), axis=1)
    starts[:, 0] = 0
    ends = np.append(starts[:, 1:], starts[:, -1:] + end, axis=1)
    return pa.table(
        {
            "start": starts.ravel(),
            "end": ends.ravel(),
            "key": np.repeat(np.arange(keys), _LIMITS),
            "most": random.integers(0, 1000, keys * _LIMITS) / 2,
        }
    )


def _violations(log: pa.Table, text: str) -> int:
    check = mtlmon.check(text, log, verdicts="none")
    check.finish()
    return check.counts["low"].false


def _above_limit(log: pa.Table, limits: pa.Table) -> int:
    query = """
        SELECT count(*) AS found FROM log ASOF JOIN limits
        ON log.key = limits.key AND log.ts >= limits.start WHERE value > most
    """
    found: int = _table(query, {"log": log, "limits": limits})["found"][0].as_py()
    return found


def _timed(
    row: Row, contenders: dict[str, Callable[[], int]], settings: Settings
) -> dict[str, int]:
    """Time each contender by the clock; all of them may use all processors."""
    found: dict[str, int] = {}
    for name, run in contenders.items():
        times = []
        for _ in progress(settings.repeats, f"relations {row['relation']} {name}"):
            start = time.perf_counter()
            found[name] = run()
            times.append(time.perf_counter() - start)
        row[f"{name} M rows/s"] = settings.events / min(times) / 1e6
    return found


def _predicate(text: str) -> Predicate:
    return Predicate(parse_expression(text), text, "<bench>")


def _log(events: int, groups: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, events * _PERIOD, events))
    return pa.table(
        {
            "from": times,
            "to": times + 1,
            "key": random.integers(0, groups, events),
            "value": random.integers(0, 4000, events) / 8,
        }
    )


def _ranges(count: int, keys: int, length: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 10 * count, count))
    ends = times + random.integers(1, length, count)
    return pa.table(
        {"from": times, "to": ends, "k": random.integers(0, keys, count), "v": np.arange(count)}
    )


def _count(compute: Callable[..., pa.Table], *arguments: object) -> int:
    count: int = compute(*arguments).num_rows
    return count


def _compare_groups(node: Group, log: pa.Table, word: str, *, has_duckdb: bool) -> None:
    """Compare all ways to compute groups.

    Raises:
        BenchmarkError: batches have other records, or DuckDB has another value at a row than that
            of the record that is valid then.
    """
    records = evaluate(node, {"rows": log})
    if not _in_batches(node, log, 1000).equals(records):
        raise BenchmarkError(f"batches have other records for {word}")
    if has_duckdb:
        look_up = LookUp(records, ["key"])
        rows = look_up.find(log["from"].to_numpy(), [log["key"].combine_chunks()])
        values = look_up.values("found", rows).to_pylist()
        places = pa.array(np.arange(log.num_rows))
        found = _windows(word, log.append_column("place", places), ", place").sort_by("place")
        if values != found["found"].to_pylist():
            raise BenchmarkError(f"DuckDB has other values for {word}")


def _in_batches(node: Node, log: pa.Table, size: int = BATCH) -> pa.Table:
    query = Query(node, {"rows": log.schema.remove(0).remove(0)})
    parts = []
    for place in range(0, log.num_rows, size):
        batch = log.slice(place, size)
        parts.append(query.push({"rows": batch}, batch["from"][-1].as_py()))
    parts.append(query.finish())
    return pa.concat_tables(parts).combine_chunks()


def _windows(word: str, log: pa.Table, more: str = "") -> pa.Table:
    aggregate = "count(*)" if word == "count" else f"{word}(value)"
    query = (
        f'SELECT {aggregate} OVER (PARTITION BY key ORDER BY "from" '
        f"RANGE BETWEEN {WIDTH - 1} PRECEDING AND CURRENT ROW) AS found{more} FROM log"
    )
    return _table(query, {"log": log})


def _range_join(tables: dict[str, pa.Table]) -> pa.Table:
    query = """
        SELECT greatest(one."from", other."from") s, least(one."to", other."to") e,
            one.k, one.v, other.k, other.v
        FROM one JOIN other
        ON one.k = other.k AND one."from" < other."to" AND other."from" < one."to"
        ORDER BY s, e
    """
    return _table(query, tables)


def _table(query: str, tables: dict[str, pa.Table]) -> pa.Table:
    import duckdb

    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(query).to_arrow_table()
