"""Relations against what DuckDB says of the same tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.doors import LookUp, evaluate
from tests.doors import relations_algebra as a
from tests.relations.programs import predicate

duckdb = pytest.importorskip("duckdb", reason="duckdb (the extra test) is not installed")


def table(seed: int, count: int) -> pa.Table:
    random = np.random.default_rng(seed)
    starts = random.integers(0, 1000, count)
    return pa.table(
        {
            "from": starts,
            "to": starts + random.integers(1, 60, count),
            "k": random.integers(0, 20, count),
            "v": np.arange(count) + seed * 10**6,
        }
    )


TABLES = {"one": table(1, 800), "other": table(2, 700)}


def answer(query: str) -> list[tuple[int, ...]]:
    with duckdb.connect() as connection:
        for name, content in TABLES.items():
            connection.register(name, content)
        found: list[tuple[int, ...]] = connection.execute(query).fetchall()
    return found


def rows(node: a.Node) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.to_pylist() for column in evaluate(node, TABLES)), strict=True))


def test_joins_of_ranges() -> None:
    for condition in ("k = k2", "k < k2 and v + v2 < 3000400"):
        node = a.Join(a.Source("one"), a.Source("other"), predicate(condition), ("k2", "v2"))
        query = f"""
            select greatest(l."from", r."from") s, least(l."to", r."to") e, l.k, l.v, r.k2, r.v2
            from one l join (select "from", "to", k k2, v v2 from other) r
            on {condition} and l."from" < r."to" and r."from" < l."to"
            order by all
        """
        found = rows(node)
        assert len(found) > 1000
        assert found == answer(query)


def test_groups_at_every_instant() -> None:
    aggregates = [("n", "count", None), ("total", "sum", "v"), ("low", "min", "v")]
    node = a.Group(
        a.Source("one"),
        ("k",),
        tuple(
            a.Aggregation(name, word, None if text is None else predicate(text))
            for name, word, text in aggregates
        ),
    )
    each = a.Select(
        a.Split(node, 1), tuple((name, predicate(name)) for name in ("k", "n", "total", "low"))
    )
    # Split is below Select, so the records are coalesced again: count them by instants
    found = [(time, *row) for start, end, *row in rows(each) for time in range(start, end)]
    query = """
        select t, k, count(*)::bigint, sum(v)::bigint, min(v)
        from range(0, 1100) instants(t) join one on one."from" <= t and t < one."to"
        group by t, k order by all
    """
    assert sorted(found) == answer(query)


def test_look_ups() -> None:
    random = np.random.default_rng(3)
    cuts = [np.unique(random.integers(0, 1000, 12)) for _ in range(20)]
    # one record after the other for each key, some without an end, with gaps between them
    records = [
        (int(start), None if end is None else int(end) - key % 3, key)
        for key, times in enumerate(cuts)
        for start, end in zip(times, [*times[1:], None], strict=True)
    ]
    starts, ends, keys = zip(*records, strict=True)
    limits = pa.table({"from": starts, "to": ends, "k": keys, "max": np.arange(len(records))})
    times, wanted = np.sort(random.integers(0, 1100, 4000)), random.integers(0, 22, 4000)
    look_up = LookUp(limits, ["k"])
    found = [
        look_up.values("max", look_up.find(times[start:end], [pa.array(wanted[start:end])]))
        for start, end in ((0, 5), (5, 3000), (3000, 4000))
    ]
    log = pa.table({"row": np.arange(4000), "t": times, "k": wanted})
    with duckdb.connect() as connection:
        connection.register("limits", limits)
        connection.register("log", log)
        query = """
            select case when l."to" is null or log.t < l."to" then l.max end
            from log asof left join limits l on log.k = l.k and log.t >= l."from" order by log.row
        """
        answer = [value for (value,) in connection.execute(query).fetchall()]
    assert len(set(answer)) > 100
    assert pa.concat_arrays(found).to_pylist() == answer
