"""Hypothesis strategies: relations over small tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mtlmon.policy import Predicate
from tests.doors import evaluate, parse_expression
from tests.doors import predicates_own_aggregates as own_aggregates
from tests.doors import relations_algebra as a
from tests.reference import relations as reference

SCHEMA = pa.schema({"k": pa.int64(), "x": pa.float64(), "t": pa.string()})
SCHEMAS = {"one": SCHEMA, "other": SCHEMA}
NAMES = ("k2", "x2", "t2")

_CELLS = (
    st.sampled_from([0, 1, 2, None]),
    st.sampled_from([0.0, -0.0, 0.5, -1.25, 1e300, 3.0e-5, None, float("nan"), float("inf")]),
    st.sampled_from(["a", "b", "", None]),
)
_RECORD = st.tuples(st.integers(-3, 9), st.sampled_from([1, 1, 2, 3, 6, None]), st.tuples(*_CELLS))
RECORDS = st.lists(_RECORD, max_size=7).map(
    lambda found: [
        (start, inf if length is None else start + length, row) for start, length, row in found
    ]
)
TABLES = st.fixed_dictionaries({"one": RECORDS, "other": RECORDS})

_CONDITIONS = ("k = 1", "x < 0.75", 't = "a"', "k is null", "k > 0 or x >= 0.0", 'not t = "b"')
_ON = ("k = k2", "k = k2 and t = t2", "x = x2 and k = k2", "x < x2", "t = t2 or k = k2", "x = k2")
_AGGREGATES = (
    *(("count", None), ("count", "k = 1"), ("sum", "k"), ("sum", "x"), ("avg", "k")),
    *(("avg", "x"), ("min", "x"), ("max", "x"), ("min", "t"), ("max", "k"), ("max", "t")),
    *(("var", "x"), ("stddev", "k"), ("median", "x"), ("median", "k"), ("mad", "k")),
    *(("distinct", "x"), ("distinct", "t"), ("any", "k = 1"), ("all", "k = 1")),
    *(("quantile", "x"), ("first", "x"), ("last", "t"), ("last", "k"), ("first", "t")),
    ("strung", "x"),
)
STRUNG = own_aggregates.OwnAggregate(
    "strung",
    lambda value: (repr(value),),
    lambda left, right: left + right,
    lambda state: "".join(state) or None,
    None,
    own_aggregates.RESULTS["text"],
)
"""An aggregate that depends on the order of values."""


def predicate(text: str) -> Predicate:
    return Predicate(parse_expression(text, "test"), text, "test")


def full() -> st.SearchStrategy[a.Node]:
    """Relations with the columns of the tables."""
    return st.recursive(
        st.sampled_from([a.Source("one"), a.Source("other")]), _of_full, max_leaves=4
    )


def _of_full(of: st.SearchStrategy[a.Node]) -> st.SearchStrategy[a.Node]:
    length = st.integers(1, 5)
    condition = st.sampled_from(_CONDITIONS).map(predicate)
    swapped = tuple((name, predicate(name)) for name in ("k", "x", "t"))
    per = st.sampled_from([(), ("k",), ("t", "k")])
    return st.one_of(
        st.builds(a.Where, of, condition),
        st.builds(a.Select, of, st.just((("k", predicate("k + 1")), *swapped[1:]))),
        st.builds(a.ValidFor, of, st.one_of(length, st.none())),
        st.builds(a.ValidTo, of, st.just(predicate("k"))),
        st.builds(a.ValidUntilNext, of, length),
        st.builds(a.ValidUntil, of, condition, per),
        st.builds(a.ValidLast, of, st.integers(1, 3), per),
        st.builds(lambda one, n: a.Every(records(one), n), of, length),
        st.builds(lambda one, by: a.Shift(records(one), *by), of, st.sampled_from(_SHIFTS)),
        st.builds(a.At, of, st.integers(-4, 12)),
        st.builds(
            lambda one, text: a.Select(
                a.Where(a.Timed(records(one), "from", "to"), predicate(text)), swapped
            ),
            of,
            st.sampled_from(("to - `from` > 2", "to is null", "`from` > 3")),
        ),
        st.builds(
            lambda one: a.Select(
                a.Timed(records(one), "from"), (("k", predicate("`from`")), *swapped[1:])
            ),
            of,
        ),
        st.builds(lambda one, on: a.DistinctOn(a.Timed(records(one), "from"), on, "from"), of, per),
        st.builds(a.Distinct, of),
        st.builds(lambda kind, one: kind(one), st.sampled_from([a.Inserts, a.Deletes]), of),
        st.builds(a.Coalesce, of),
        st.builds(lambda one, n: a.Split(a.ValidFor(one, 2 * n), n), of, length),
        st.builds(lambda one, n: a.Coalesce(a.ValidFor(one, 2 * n), n), of, length),
        st.builds(
            lambda kind, one, other: kind(one, other),
            st.sampled_from([a.Union, a.UnionMax, a.Minus, a.MinusAll, a.Intersect]),
            of,
            of,
        ),
        st.builds(lambda one, other, on: a.Semijoin(one, other, on, NAMES), of, of, _on()),
        st.builds(
            lambda one, other, on: a.Select(a.Join(one, other, on, NAMES), swapped), of, of, _on()
        ),
    )


_SHIFTS = ((2, 2), (2, 0), (0, 2), (-1, -1), (-2, 0), (0, -2))


def records(node: a.Node) -> a.Node:
    """A relation whose records can be looked at."""
    return node if a.is_of_records(node) else a.Coalesce(node)


def _on() -> st.SearchStrategy[Predicate]:
    return st.sampled_from(_ON).map(predicate)


def joins() -> st.SearchStrategy[a.Node]:
    return st.builds(lambda one, other, on: a.Join(one, other, on, NAMES), full(), full(), _on())


def groups() -> st.SearchStrategy[a.Node]:
    values = st.lists(st.sampled_from(_AGGREGATES), min_size=0, max_size=3).map(
        lambda found: tuple(
            a.Aggregation(
                f"v{place}",
                word,
                None if text is None else predicate(text),
                0.3 if word == "quantile" else None,
                STRUNG if word == "strung" else None,
                "from" if word in {"first", "last", "strung"} else "",
            )
            for place, (word, text) in enumerate(found)
        )
    )
    keys = st.sampled_from([(), ("k",), ("t", "k"), ("x",)])
    of = full().map(lambda one: a.Timed(records(one), "from"))
    grouped = st.builds(a.Group, of, keys, values)
    return grouped.filter(lambda node: bool(node.keys or node.values))


def relations() -> st.SearchStrategy[a.Node]:
    """Relations of all kinds."""
    return st.one_of(full(), joins(), groups(), st.builds(_above, joins()))


def _above(join: a.Node) -> a.Node:
    condition = "k2 = 1 and x < 2.0 and (k is null or x2 > 0.0) and k = 1"
    return a.Where(a.ValidFor(join, 3), predicate(condition))


def table_of(
    records: Sequence[tuple[int, float, tuple[Any, ...]]], schema: pa.Schema = SCHEMA
) -> pa.Table:
    """The table of records for the engine."""
    starts = pa.array([start for start, _, _ in records], pa.int64())
    ends = pa.array([None if end == inf else int(end) for _, end, _ in records], pa.int64())
    columns = [
        pa.array([row[place] for _, _, row in records], field.type)
        for place, field in enumerate(schema)
    ]
    return pa.Table.from_arrays([starts, ends, *columns], names=["from", "to", *schema.names])


def found(table: pa.Table) -> list[Any]:
    """The records of a table, where NaN is equal to NaN and 0.0 is not -0.0."""
    return [
        (start, end, shown(row))
        for start, end, *row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]


def shown(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        ("nan" if isnan(cell) else repr(cell)) if isinstance(cell, float) else cell for cell in row
    )


def expected(node: a.Node, tables: Mapping[str, Any]) -> list[Any]:
    known = {name: reference.relation(SCHEMA.names, one) for name, one in tables.items()}
    return [(start, end, shown(row)) for start, end, row in reference.answer(node, known)]


def evaluated(node: a.Node, tables: Mapping[str, Any]) -> list[Any]:
    return found(evaluate(node, {name: table_of(one) for name, one in tables.items()}))
