"""The operators of relations against their meaning at every instant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.errors import LimitError, MtlmonError, PolicyError
from tests.doors import (
    coalesced,
    evaluate,
    evaluate_all,
    multiplied,
    records_of,
    relations_joining,
    schema_of,
    table_of,
)
from tests.doors import relations_algebra as a
from tests.relations import programs
from tests.relations.programs import SCHEMAS, TABLES, predicate

ONE, OTHER = a.Source("one"), a.Source("other")


@settings(max_examples=80)
@given(programs.full(), TABLES)
def test_relations_of_the_columns_of_tables(node: a.Node, tables: Any) -> None:
    assert programs.evaluated(node, tables) == programs.expected(node, tables)


@settings(max_examples=80)
@given(programs.relations(), TABLES)
def test_relations(node: a.Node, tables: Any) -> None:
    assert programs.evaluated(node, tables) == programs.expected(node, tables)


@pytest.mark.parametrize("word", ["any", "all"])
@pytest.mark.parametrize("text", ["k = 1", "k = 0"])
def test_a_condition_of_a_group_has_no_count(word: str, text: str) -> None:
    """Rationale: two records, then one: the value is the same, so it is one record."""
    row = (0, 0.0, "a")
    tables = {"one": [(0, 1, row), (0, 1, row), (1, 2, row)], "other": []}
    found = a.Aggregation("v", word, predicate(text))
    node = a.Group(ONE, (), (found,))
    assert programs.evaluated(node, tables) == [(0, 2, (text == "k = 0",))]
    assert programs.expected(node, tables) == [(0, 2, (text == "k = 0",))]


@given(
    st.sampled_from([a.Union, a.UnionMax, a.Minus, a.MinusAll, a.Intersect]),
    st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(1, 4)), max_size=12),
)
def test_bags_of_one_record(kind: Any, records: list[tuple[bool, int, int]]) -> None:
    """Many equal records, whose multiplicities matter."""
    row = (1, None, "a")
    tables = {
        name: [(start, start + length, row) for found, start, length in records if found == is_one]
        for name, is_one in (("one", True), ("other", False))
    }
    node = kind(ONE, OTHER)
    assert programs.evaluated(node, tables) == programs.expected(node, tables)


@given(
    st.sampled_from([a.Inserts, a.Deletes]),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=12),
)
def test_changes_that_follow_each_other(kind: Any, records: list[tuple[int, int]]) -> None:
    """What changes again and again is one record, also for `valid`, as for the rules."""
    row = (1, None, "a")
    tables = {"one": [(start, start + length, row) for start, length in records], "other": []}
    for node in (kind(ONE), a.ValidFor(kind(ONE), 3)):
        assert programs.evaluated(node, tables) == programs.expected(node, tables)


@pytest.mark.parametrize("length", [2, 30, 3000])
@pytest.mark.parametrize("column", ["k", "x", "t", "b", "d", "w", "n"])
def test_few_records_that_follow_equal_ones(column: str, length: int) -> None:
    """Only records that touch equal ones are counted; all kinds of columns tell them apart."""
    random = np.random.default_rng(length)
    starts = random.integers(0, 4000, 400)
    ends = starts + random.integers(1, length, 400)
    numbers = random.integers(0, 40, 400)
    missing = random.random(400) < 0.1
    values = {
        "k": pa.array(numbers, mask=missing),
        "x": pa.array(np.where(missing, np.nan, numbers / 4), mask=random.random(400) < 0.1),
        "t": pa.array([f"t{number}" for number in numbers], mask=missing),
        "b": pa.array(numbers > 20, mask=missing),
        "d": pa.array(numbers.astype(np.int32), mask=missing).view(pa.date32()),
        "w": pa.array(numbers, mask=missing).cast(pa.timestamp("us")),
        "n": pa.nulls(400),
    }
    table = pa.table({"start": starts, "end": ends, column: values[column]})
    records = records_of(table)
    counted = table_of(multiplied("each", records))
    found = coalesced(records)
    assert found.is_coalesced
    # NaN equals NaN here
    assert str(table_of(found).to_pylist()) == str(counted.to_pylist())


@settings(max_examples=25)
@given(programs.relations(), programs.relations(), TABLES)
def test_relations_that_are_evaluated_together(first: a.Node, second: a.Node, tables: Any) -> None:
    both = {"first": first, "second": second, "again": first}
    found = evaluate_all(both, {name: programs.table_of(one) for name, one in tables.items()})
    for name, node in both.items():
        assert programs.found(found[name]) == programs.expected(node, tables)


@settings(max_examples=50)
@given(programs.relations())
def test_columns_are_known_before(node: a.Node) -> None:
    table = programs.table_of([])
    assert evaluate(node, {"one": table, "other": table}).schema.remove(0).remove(0) == schema_of(
        node, SCHEMAS
    )


def numbers(starts: Any, ends: Any, values: Any) -> pa.Table:
    columns = [pa.array(starts, pa.int64()), pa.array(ends, pa.int64()), pa.array(values)]
    return pa.table(columns, names=["from", "to", "n"])


def test_the_least_values_of_many_records_that_overlap() -> None:
    """More records than the heap of a group keeps after they have ended."""
    random = np.random.default_rng(5)
    count = 2000
    starts = np.sort(random.integers(0, 3000, count))
    ends = starts + random.integers(1, 200, count)
    values = random.integers(-50, 50, count)
    node = a.Group(
        ONE,
        (),
        (a.Aggregation("low", "min", predicate("n")), a.Aggregation("high", "max", predicate("n"))),
    )
    found = evaluate(node, {"one": numbers(starts, ends, values)})
    for start, end, low, high in zip(*(column.to_pylist() for column in found), strict=True):
        for time in (start, end - 1):
            valid = values[(starts <= time) & (time < ends)]
            assert (low, high) == (valid.min(), valid.max())


def test_sums_are_exact_after_great_values_have_ended() -> None:
    rows = numbers([0, 1, 2], [10, 3, 9], [0.1, 1e300, 1e-200])
    node = a.Group(ONE, (), (a.Aggregation("v", "sum", predicate("n")),))
    assert evaluate(node, {"one": rows})["v"].to_pylist() == [0.1, 1e300, 0.1]


@pytest.mark.parametrize(
    ("times", "length", "expected"),
    [
        ((2**63 - 3, None), 2, 2**63 - 1),
        ((2**63 - 3, None), 1, 2**63 - 2),
        ((-(2**63), 0), 5, -(2**63) + 5),
    ],
)
def test_times_at_the_limits(times: Any, length: int, expected: int) -> None:
    rows = numbers([times[0]], [times[1]], [1])
    found = evaluate(a.ValidFor(ONE, length), {"one": rows})["end"].to_pylist()
    assert found == [None if expected == 2**63 - 1 else expected]


def test_times_of_any_distance_are_cut() -> None:
    rows = numbers([-(2**63)], [2**63 - 2], [1])
    found = evaluate(a.Split(ONE, 2**62), {"one": rows})
    assert found["start"].to_pylist() == [-(2**63), -(2**62), 0, 2**62]
    assert found["end"].to_pylist() == [-(2**62), 0, 2**62, 2**63 - 2]


def test_records_that_are_never_valid_are_left_out() -> None:
    assert evaluate(ONE, {"one": numbers([3, 5], [3, 4], [1, 2])}).num_rows == 0


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        (a.Where(ONE, predicate('n = "a"')), PolicyError, "compare"),
        (a.Where(ONE, predicate("m > 1")), PolicyError, "no column"),
        (a.Where(ONE, predicate("n + 1")), PolicyError, "true or false"),
        (a.Group(ONE, ("N",), ()), MtlmonError, "there is no column 'N'; did you mean 'n'?"),
        (
            a.Group(ONE, (), (a.Aggregation("v", "sum", predicate('"a"')),)),
            PolicyError,
            "a text",
        ),
        (
            a.Group(ONE, (), (a.Aggregation("c", "count", predicate("n")),)),
            PolicyError,
            "as in count(not (n is null))",
        ),
        (a.Group(ONE, (), (a.Aggregation("v", "sum"),)), MtlmonError, "needs an argument"),
        (a.Group(ONE, (), (a.Aggregation("v", "avgs"),)), MtlmonError, "did you mean 'avg'?"),
        (
            a.Group(ONE, ("n",), (a.Aggregation("n", "count"),)),
            MtlmonError,
            "two columns 'n': rename",
        ),
        (a.Join(ONE, ONE, predicate("n = n"), ("n",)), MtlmonError, "two columns 'n'"),
        (a.Join(ONE, ONE, predicate("n = n"), ()), MtlmonError, "1 columns of a joined relation"),
        (
            a.Minus(ONE, a.Select(ONE, (("s", predicate('"a"')),))),
            MtlmonError,
            "column 'n' is an integer, but 's', which belongs to it, is a text",
        ),
        (
            a.Union(ONE, a.Select(ONE, (("s", predicate("n")), ("r", predicate("n"))))),
            MtlmonError,
            "select as many columns",
        ),
        (a.Select(ONE, (("start", predicate("n")),)), MtlmonError, "select start as"),
        (a.Source("on"), MtlmonError, "there is no table 'on'"),
        (a.Split(a.ValidUntil(ONE, predicate("n > 99")), 5), MtlmonError, "without end"),
        (a.Split(a.ValidFor(ONE, 2**60), 1), LimitError, "more than 2^31"),
        (
            a.Group(ONE, (), (a.Aggregation("v", "sum", predicate("n * 4")),)),
            MtlmonError,
            "v does not fit into 64 bits at time 1",
        ),
    ],
)
def test_errors(node: a.Node, error: type[Exception], message: str) -> None:
    rows = numbers([0, 1], [5, 6], [2**60, 2**60 + 5])
    with pytest.raises(error) as raised:
        evaluate(node, {"one": rows})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"from": [1]}), "not start and end"),
        (pa.table({"from": [1.0], "to": [2.0]}), "not start and end"),
        (numbers([None], [1], [1]), "no start"),
        (numbers([0], [1], [[1, 2]]), "column 'n' is of type list<item: int64>"),
        (numbers([0], [1], pa.array([2**64 - 1], pa.uint64())), "cannot hold the values"),
    ],
)
def test_tables_that_are_no_relations(table: pa.Table, message: str) -> None:
    with pytest.raises(MtlmonError) as raised:
        evaluate(ONE, {"one": table})
    assert message in str(raised.value)


def test_memory_that_begins_anywhere() -> None:
    """Columns of files may begin at any address."""
    moved = []
    for values in ([0, 4], [9, 12], [1, 2]):
        memory = pa.py_buffer(b"x" + np.array(values, np.int64).tobytes())
        moved.append(pa.Array.from_buffers(pa.int64(), 2, [None, memory.slice(1)]))
    table = pa.table(moved, names=["from", "to", "n"])
    node = a.Group(ONE, (), (a.Aggregation("v", "sum", predicate("n")),))
    found = evaluate(a.Minus(node, a.Where(node, predicate("v = 3"))), {"one": table})
    assert found.to_pydict() == {"start": [0, 9], "end": [4, 12], "v": [1, 2]}


@pytest.mark.parametrize("limit", [1, 2, 7, 50])
def test_pairs_that_are_found_some_at_a_time(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    random = np.random.default_rng(8)
    tables = {
        name: numbers(starts, starts + random.integers(1, 9, 60), random.integers(0, 4, 60))
        for name, starts in (("one", random.integers(0, 80, 60)), ("other", np.arange(60)))
    }
    nodes = [
        kind(ONE, OTHER, predicate(text), ("n2",))
        for kind in (a.Join, a.Semijoin)
        for text in ("n = n2", "n < n2", "n = n2 and n2 > 1")
    ]
    at_once = [evaluate(node, tables) for node in nodes]
    monkeypatch.setattr(relations_joining, "_PAIRS", limit)
    assert [evaluate(node, tables) for node in nodes] == at_once
    assert all(table.num_rows > 20 for table in at_once)


ORDERED = tuple(
    a.Aggregation(word, word, predicate("x"), None, own, "from")
    for word, own in (("first", None), ("last", None), ("strung", programs.STRUNG))
)


@pytest.mark.parametrize(
    "node",
    [
        a.Group(a.Timed(a.ValidFor(ONE, 4), "from"), ("k",), ORDERED),
        a.Group(a.Timed(a.Coalesce(a.Distinct(a.ValidFor(ONE, 4))), "from"), (), ORDERED),
        a.DistinctOn(a.Timed(a.ValidFor(ONE, 4), "from"), ("k",), "from"),
        a.DistinctOn(a.Timed(a.ValidLast(ONE, 2, ("k",)), "from"), (), "from"),
    ],
    ids=range(4),
)
@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.just(9),
            st.tuples(
                st.sampled_from([1, None]),
                st.sampled_from([0.5, 2.0, None, float("nan")]),
                st.sampled_from(["a", "b", None]),
            ),
        ),
        max_size=8,
    )
)
def test_records_that_begin_together(node: a.Node, records: Any) -> None:
    """Their values say which of them is the first, and which the last."""
    tables = {"one": records, "other": []}
    assert programs.evaluated(node, tables) == programs.expected(node, tables)
