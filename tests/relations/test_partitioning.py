"""Relations of parts of a table: together, they have the records of the whole table."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings

from tests.doors import Types, coalesced_plan, partitioning_columns
from tests.doors import relations_algebra as a
from tests.relations.programs import (
    NAMES,
    SCHEMA,
    SCHEMAS,
    TABLES,
    evaluated,
    predicate,
    relations,
    shown,
)

ONE, OTHER = a.Source("one"), a.Source("other")
COUNT = (a.Aggregation("n", "count"),)
BY_K = a.Select(ONE, (("k", predicate("k")), ("x", predicate("x")), ("t", predicate("lower(t)"))))


def columns_of(node: a.Node) -> tuple[str, ...]:
    types = Types(SCHEMAS)
    return partitioning_columns(coalesced_plan(node, types), "one", ["k", "t"], types)


def join(left: a.Node, right: a.Node, on: str) -> a.Node:
    return a.Join(left, right, predicate(on), NAMES)


@pytest.mark.parametrize(
    ("node", "columns"),
    [
        (a.Where(a.ValidFor(ONE, 3), predicate("x < 2.0")), ("k", "t")),
        (a.Group(ONE, ("t", "x"), COUNT), ("t",)),
        (a.Group(ONE, ("x",), COUNT), ()),
        (a.Group(a.Group(ONE, ("t", "k"), COUNT), ("k",), COUNT), ("k",)),
        (a.ValidUntil(ONE, predicate("x > 2.0"), ("k",)), ("k",)),
        (a.ValidUntil(ONE, predicate("x > 2.0")), ()),
        (BY_K, ("k",)),
        (a.Select(ONE, (("x", predicate("x")),)), ()),
        (join(ONE, ONE, "k = k2 and x < x2"), ("k",)),
        (join(ONE, ONE, "k2 + 0 = k or t = t2"), ()),
        (join(ONE, OTHER, "x < x2"), ("k", "t")),
        (join(OTHER, ONE, "x < x2"), ("k", "t")),
        (a.Semijoin(ONE, OTHER, predicate("k = k2"), NAMES), ("k", "t")),
        # each part would have records of the other table
        (a.Semijoin(OTHER, ONE, predicate("k = k2"), NAMES), ()),
        (a.Union(ONE, OTHER), ()),
        (a.UnionMax(ONE, OTHER), ()),
        (a.Minus(OTHER, ONE), ()),
        (a.Minus(ONE, OTHER), ("k", "t")),
        (a.MinusAll(ONE, BY_K), ("k",)),
        (a.Intersect(OTHER, ONE), ("k", "t")),
        (a.Union(ONE, BY_K), ("k",)),
        (OTHER, ()),
    ],
)
def test_columns(node: a.Node, columns: tuple[str, ...]) -> None:
    assert columns_of(node) == columns


@settings(max_examples=150)
@given(relations(), TABLES)
def test_parts_have_the_records_of_the_whole(node: a.Node, tables: Any) -> None:
    columns = columns_of(node)
    if not columns:
        return
    parts: defaultdict[Any, Any] = defaultdict(list)
    for record in tables["one"]:
        row = dict(zip(SCHEMA.names, record[2], strict=True))
        parts[shown([row[name] for name in columns])].append(record)
    found: Counter[Any] = Counter()
    for part in parts.values():
        found.update(evaluated(node, {**tables, "one": part}))
    assert found == Counter(evaluated(node, tables))
