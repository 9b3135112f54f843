"""Each rule for plans keeps all records, and equations that only hold for snapshots do not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doors import FoundPlan, Statistics, Types, evaluate, joins_by_size
from tests.doors import relations_algebra as a
from tests.doors import relations_rules as rules
from tests.reference import relations as reference
from tests.relations import programs
from tests.relations.programs import NAMES, SCHEMAS, TABLES, predicate

ONE, OTHER = a.Source("one"), a.Source("other")
WHERE = "k = 1 and x < 2.0"
COLUMNS = tuple((name, predicate(name)) for name in ("x", "k"))
COUNT = (a.Aggregation("n", "count"),)
SWAPPED = (("b", predicate("x")), ("a", predicate("k")), ("n", predicate("t is null")))

# for each rule, nodes over any relations that it fits
CASES: dict[str, list[Any]] = {
    "where_below_union": [
        lambda one, other, kind=kind: a.Where(kind(one, other), predicate(WHERE))
        for kind in (a.Union, a.UnionMax, a.Minus, a.MinusAll, a.Intersect)
    ],
    "select_below_union": [lambda one, other: a.Select(a.Union(one, other), COLUMNS)],
    "valid_below_union": [
        lambda one, other: a.ValidFor(a.Union(one, other), 3),
        lambda one, other: a.ValidUntilNext(a.Union(one, other), 3),
    ],
    "where_below_valid": [
        lambda one, _, kind=kind: a.Where(kind(one), predicate(WHERE))
        for kind in (
            lambda one: a.ValidFor(one, 2),
            lambda one: a.ValidUntilNext(one, 4),
            lambda one: a.Split(a.ValidFor(one, 5), 2),
            lambda one: a.Coalesce(a.ValidFor(one, 5), 3),
            a.Coalesce,
            a.Distinct,
            a.Inserts,
            a.Deletes,
        )
    ],
    "select_below_valid": [
        lambda one, _: a.Select(a.ValidFor(one, 2), COLUMNS),
        lambda one, _: a.Select(a.ValidUntilNext(one, 4), COLUMNS),
        lambda one, _: a.Select(a.Split(a.ValidFor(one, 5), 2), COLUMNS),
    ],
    "where_below_select": [
        lambda one, _: a.Where(a.Select(one, SWAPPED), predicate("a = 1 and b < 2.0")),
        lambda one, _: a.Where(a.Select(one, SWAPPED), predicate("n and a is null and b > 0.0")),
    ],
    "where_below_until": [
        lambda one, _, text=text: a.Where(
            a.ValidUntil(one, predicate("x > 0.0"), ("k", "t")), predicate(text)
        )
        for text in ("k = 1", 't = "a" and x < 2.0 and k is null')
    ],
    "where_into_join": [
        lambda one, other, on=on, text=text: a.Where(
            a.Join(one, other, predicate(on), NAMES), predicate(text)
        )
        for on, text in (
            ("true", "k = k2"),
            ("true", "k = k2 and x < x2 and k + 1 > 0"),
            ("k = k2 or x < x2", WHERE),
            ("k = k2", "true and x = x2 and t2 is null"),
        )
    ]
    + [
        lambda one, other: a.Where(
            a.Semijoin(one, other, predicate("k = k2"), NAMES), predicate(WHERE)
        )
    ],
    "on_below_join": [
        lambda one, other, kind=kind, text=text: kind(one, other, predicate(text), NAMES)
        for kind in (a.Join, a.Semijoin)
        for text in (
            "k = 1 and k2 = 1 and x2 < 2.0",
            "k = k2 and x < 2.0",
            "true and k2 is null and (k = k2 or x < x2)",
            "k > 0",
        )
    ],
    "where_below_group": [
        lambda one, _: a.Where(a.Group(one, ("t", "k"), COUNT), predicate("k = 1 and n > 1")),
        lambda one, _: a.Where(a.Group(one, ("k",), COUNT), predicate("k is null or k > 1")),
    ],
    "without_cuts": [
        lambda one, _: a.Distinct(a.Split(a.ValidFor(one, 4), 2)),
        lambda one, _: a.Coalesce(a.Distinct(one)),
        lambda one, _: a.Inserts(a.Coalesce(one)),
        lambda one, _: a.Coalesce(a.Deletes(a.Split(a.ValidFor(one, 4), 2))),
        lambda one, other: a.Minus(a.Coalesce(one), a.Split(a.ValidFor(other, 6), 5)),
        lambda one, _: a.Coalesce(a.Coalesce(a.ValidFor(one, 6), 3)),
        lambda one, _: a.Coalesce(a.Coalesce(a.ValidFor(one, 6)), 4),
        lambda one, _: a.Group(a.Coalesce(one), ("k",), COUNT),
    ],
    "distinct_once": [
        lambda one, _: a.Distinct(a.Distinct(one)),
        lambda one, _: a.Distinct(a.Group(one, ("k",), COUNT)),
    ],
    "distinct_below_join": [
        lambda one, other, kind=kind, text=text: a.Distinct(
            kind(one, other, predicate(text), NAMES)
        )
        for kind in (a.Join, a.Semijoin)
        for text in ("k = k2", "k = k2 and x < x2", "true")
    ],
    "presence_once": [
        lambda one, other, kind=kind, cut=cut: kind(one, cut(other))
        for kind in (
            a.MinusAll,
            lambda one, other: a.Semijoin(one, other, predicate("k = k2"), NAMES),
        )
        for cut in (a.Distinct, a.Coalesce, lambda of: a.Split(a.ValidFor(of, 5), 2))
    ],
}


def records(node: a.Node, tables: Any) -> Counter[Any]:
    known = {name: reference.relation(programs.SCHEMA.names, one) for name, one in tables.items()}
    found = reference.evaluate(node, known)
    return Counter((one.start, one.end, programs.shown(one.row)) for one in found.records)


def test_every_rule_has_cases() -> None:
    assert list(CASES) == [rule.__name__ for rule in rules.RULES]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25)
@given(data=st.data(), one=programs.full(), other=programs.full(), tables=TABLES)
def test_a_rule_keeps_the_records(
    name: str, data: Any, one: a.Node, other: a.Node, tables: Any
) -> None:
    node = data.draw(st.sampled_from(CASES[name]))(one, other)
    changed = getattr(rules, name)(node, Types(SCHEMAS))
    assert changed is not None
    assert records(changed, tables) == records(node, tables)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fits_its_cases(name: str) -> None:
    types = Types(SCHEMAS)
    for case in CASES[name]:
        node = case(ONE, OTHER)
        assert rules.optimized(node, types) != node
        assert types.of(rules.optimized(node, types)) == types.of(node)


@settings(max_examples=60)
@given(programs.relations(), TABLES)
def test_plans_keep_the_records(node: a.Node, tables: Any) -> None:
    assert records(rules.optimized(node, Types(SCHEMAS)), tables) == records(node, tables)


ROW = (1, 0.5, "a")
# Equations of the paper, and others like them, that hold for snapshots: where the records of
# both sides are told apart by what comes after, they do not hold.
OF_SNAPSHOTS: dict[str, Any] = {
    "coalesced": (a.Coalesce(ONE), ONE),
    "cut": (a.Split(ONE, 1), ONE),
    "joined in another order": (
        a.Select(a.Coalesce(a.Join(ONE, OTHER, predicate("k = k2"), NAMES)), COLUMNS),
        a.Select(a.Join(ONE, OTHER, predicate("k = k2"), NAMES), COLUMNS),
    ),
    "less nothing": (a.Minus(ONE, a.Where(ONE, predicate("k != k"))), ONE),
}
TABLES_OF_TWO = {
    "one": [(0, 1, ROW), (1, 2, ROW), (2, 4, ROW)],
    "other": [(0, 3, (1, 2.0, "b")), (1, 2, (1, 2.0, "b"))],
}


@pytest.mark.parametrize("name", OF_SNAPSHOTS)
@settings(max_examples=25)
@given(tables=TABLES)
def test_equations_of_snapshots(name: str, tables: Any) -> None:
    left, right = OF_SNAPSHOTS[name]
    finite = {
        table: [(start, end if end < 99 else start + 4, row) for start, end, row in one]
        for table, one in tables.items()
    }
    assert records(a.Coalesce(left), finite) == records(a.Coalesce(right), finite)


@pytest.mark.parametrize("name", OF_SNAPSHOTS)
def test_equations_of_snapshots_do_not_hold_below_valid(name: str) -> None:
    left, right = (a.Coalesce(a.ValidFor(side, 3)) for side in OF_SNAPSHOTS[name])
    assert records(left, TABLES_OF_TWO) != records(right, TABLES_OF_TWO)


def test_windows_of_stateful_operators_do_not_commute() -> None:
    """A window is not what is left of the windows of the operands."""
    tables = {"one": [(0, 1, ROW)], "other": [(1, 2, ROW)]}
    after = a.ValidFor(a.Minus(ONE, OTHER), 3)
    before = a.Minus(a.ValidFor(ONE, 3), a.ValidFor(OTHER, 3))
    assert records(after, tables) != records(before, tables)


CHAINS = (
    ("k = k2", "x = x3 and k2 = k3"),
    ("k = k2 or x < x2", "t = t3"),
    ("true", "k = k3 and t2 = t3 and 1 = 1"),
    ("t = t2", "k is null or x3 < x2"),
    ("k = k2", "1 = 2"),
)
NAMES_3 = ("k3", "x3", "t3")


def chain(of: list[a.Node], first: str, second: str) -> a.Node:
    inner = a.Join(of[0], of[1], predicate(first), NAMES)
    return a.Join(inner, of[2], predicate(second), NAMES_3)


@settings(max_examples=60)
@given(
    of=st.lists(programs.full(), min_size=3, max_size=3),
    on=st.sampled_from(CHAINS),
    tables=TABLES,
    sizes=st.lists(st.integers(0, 1000), min_size=3, max_size=3),
)
def test_any_order_of_joins_keeps_the_records(
    of: list[a.Node], on: tuple[str, str], tables: Any, sizes: list[int]
) -> None:
    node, types = chain(of, *on), Types(SCHEMAS)
    known = {name: programs.table_of(one) for name, one in tables.items()}

    class Guessed(Statistics):
        """Any sizes, whatever the tables are."""

        def count(self, node: a.Node) -> float:
            return float(sizes[of.index(node)]) if node in of else super().count(node)

    ordered = joins_by_size(node, types, Guessed(known, types))
    assert types.of(ordered) == types.of(node)
    assert records(ordered, tables) == records(node, tables)


def test_small_relations_are_joined_first() -> None:
    names = ("one", "other", "few")
    of: list[a.Node] = [a.Source(name) for name in names]
    node = chain(of, "k = k2", "k2 = k3 and x = x3")
    rows = [(1, 100, (number % 3, float(number), "a")) for number in range(300)]
    tables = {"one": rows, "other": rows, "few": rows[:2]}
    known = {name: programs.table_of(one) for name, one in tables.items()}
    types = Types(dict.fromkeys(names, programs.SCHEMA))
    ordered = joins_by_size(node, types, Statistics(known, types))
    assert isinstance(ordered, a.Select)
    assert isinstance(ordered.of, a.Join)
    assert a.Source("few") in a.nodes(ordered.of.left)
    told: list[FoundPlan] = []
    evaluate(node, known, tell=told.append)
    assert ("joins by size", 1) in told[0].rules
