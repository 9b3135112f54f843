"""Relations over batches against the same relations over whole tables."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError, SnapshotError
from tests.doors import Query, evaluate
from tests.doors import relations_algebra as a
from tests.relations import programs
from tests.relations.programs import SCHEMAS, TABLES, found, predicate, table_of

ONE, OTHER = a.Source("one"), a.Source("other")
COUNT = (a.Aggregation("n", "count"),)
UNTIL = a.ValidUntil(ONE, predicate("k = 1"), ("t",))
NAMES_TIMED = (*programs.NAMES, "from", "to")
# an end that is not known as a record begins, but there in time
UNTIL_THEN = a.Where(a.Timed(UNTIL, None, "to"), predicate("to is not null"))
PAIRS = a.Join(a.ValidFor(ONE, 4), UNTIL, predicate("k = k2"), programs.NAMES)
# kinds of relations that random ones rarely are
CHOSEN = (
    a.Group(a.ValidFor(ONE, 4), ("k",), (*COUNT, a.Aggregation("v", "avg", predicate("x")))),
    a.Minus(UNTIL, a.ValidUntilNext(OTHER, 3)),
    a.Where(UNTIL, predicate("k = 1")),
    a.Union(a.Where(UNTIL, predicate("k != 1")), a.ValidFor(OTHER, 2)),
    a.Semijoin(a.Distinct(a.ValidFor(ONE, 5)), OTHER, predicate("k = k2"), programs.NAMES),
    a.ValidUntil(a.Union(UNTIL.of, OTHER), predicate("true")),
    a.ValidFor(a.Group(a.ValidFor(ONE, 4), ("k",), COUNT), 3),
    a.ValidUntil(a.Distinct(a.ValidFor(ONE, 3)), predicate("k = 1"), ("t",)),
    a.ValidLast(a.Select(a.Distinct(UNTIL), (("k", predicate("k")),)), 2, ("k",)),
    a.Shift(a.Coalesce(a.ValidFor(a.Coalesce(UNTIL), 3)), 1, 2),
    a.Every(a.Minus(UNTIL, a.ValidLast(OTHER, 1, ("k",))), 4),
    a.Timed(a.Group(a.Every(UNTIL, 2), ("t",), COUNT), "from"),
    a.ValidFor(UNTIL, 5),
    a.Where(a.Timed(UNTIL, "from", "to"), predicate("to - `from` > 2")),
    a.Group(a.Where(a.Timed(UNTIL, None, "to"), predicate("to > 4")), ("t",), COUNT),
    a.Shift(a.ValidFor(a.Shift(ONE, -2, 0), 4), -1, -2),
    a.Select(
        a.Timed(a.Coalesce(a.Where(a.Timed(UNTIL, None, "to"), predicate("to > 3"))), "at", "end"),
        (("k", predicate("end - at")), ("x", predicate("x"))),
    ),
    a.Semijoin(OTHER, a.Timed(a.Distinct(UNTIL), "from", "to"), predicate("k = k2"), NAMES_TIMED),
    a.Split(a.ValidFor(ONE, 5), 2),
    a.Coalesce(a.ValidFor(a.Select(ONE, (("k", predicate("k")),)), 5), 3),
    a.ValidFor(PAIRS, 3),
    a.ValidFor(a.Semijoin(a.ValidFor(ONE, 6), OTHER, predicate("k = k2"), programs.NAMES), 2),
    a.ValidUntil(a.Group(a.ValidFor(ONE, 3), ("k",), COUNT), predicate("n = 1"), ("k",)),
    a.ValidUntilNext(a.Where(UNTIL, predicate("k != 1")), 4),
    a.ValidFor(
        a.Join(a.Split(a.ValidFor(ONE, 7), 2), OTHER, predicate("k = k2"), programs.NAMES), 3
    ),
    a.Split(a.Coalesce(PAIRS, 4), 3),
    a.Group(a.ValidFor(a.Minus(a.ValidFor(ONE, 5), OTHER), 2), ("k",), COUNT),
    a.ValidFor(a.ValidUntil(ONE, predicate("k + 1 > 1"), ("t",)), 2),
    a.ValidFor(a.Every(UNTIL, 4), 3),
    a.ValidLast(a.Every(a.Join(ONE, UNTIL, predicate("k = k2"), programs.NAMES), 3), 1, ("t",)),
    a.ValidUntil(a.Union(a.Shift(ONE, 5, 5), OTHER), predicate("k = 1"), ("t",)),
    a.ValidLast(a.Shift(UNTIL, 3, 1), 1, ("t",)),
    a.Split(a.Semijoin(UNTIL_THEN, OTHER, predicate("k = k2"), programs.NAMES), 2),
    a.Split(
        a.Where(
            a.Split(a.Union(PAIRS.left, a.Shift(a.ValidFor(ONE, 5), 2, 6)), 3), predicate("k = 1")
        ),
        2,
    ),
    a.Timed(a.Semijoin(UNTIL, OTHER, predicate("k = k2"), programs.NAMES), "from", "to"),
    a.Shift(PAIRS, -2, -1),
)


MARKS = st.lists(st.integers(-4, 16), max_size=4).map(sorted)


@pytest.mark.parametrize("node", CHOSEN, ids=range(len(CHOSEN)))
@settings(max_examples=40)
@given(TABLES, MARKS, st.integers(0, 2), st.integers(0, 4))
def test_chosen_relations(
    node: a.Node, tables: Any, marks: list[int], early: int, saved: int
) -> None:
    come_in_batches(node, tables, marks, early, saved)


@settings(max_examples=120)
@given(programs.relations(), TABLES, MARKS, st.integers(0, 2), st.integers(0, 4))
def test_batches(node: a.Node, tables: Any, marks: list[int], early: int, saved: int) -> None:
    come_in_batches(node, tables, marks, early, saved)


def come_in_batches(node: a.Node, tables: Any, marks: list[int], early: int, saved: int) -> None:
    """Records come at some watermark before they are due; the state is saved in between."""
    running = Query(node, SCHEMAS)
    answers, told = [], []
    for number, mark in enumerate(marks):
        batch = {
            name: table_of([one for one in records if arrives(one[0], marks, early) == number])
            for name, records in tables.items()
        }
        if number == saved:
            snapshot = running.snapshot()
            running = Query(node, SCHEMAS)
            running.restore(snapshot)
        answers.append(running.push(batch, mark))
        told.append(found(pa.concat_tables(answers)))
        assert waits(node) or told[-1] == emitted(node, tables, mark)
    rest = {
        name: table_of([one for one in records if arrives(one[0], marks, early) == len(marks)])
        for name, records in tables.items()
    }
    answers += [running.push(rest, max([*marks, 40])), running.finish(), running.finish()]
    whole = evaluate(node, {name: table_of(records) for name, records in tables.items()})
    assert found(pa.concat_tables(answers)) == found(whole)
    assert all(one == found(whole)[: len(one)] for one in told)


def waits(node: a.Node) -> bool:
    """Whether records may come later, as ends are looked at that are not known before."""
    try:
        Query(node, SCHEMAS, waits=False)
    except MtlmonError:
        return True
    return False


def emitted(node: a.Node, tables: Any, mark: int) -> Any:
    """The records that are told by a watermark: those that have ended, in order of their starts,
    up to the first one that may go on.
    """
    before = {
        name: table_of([one for one in records if one[0] < mark])
        for name, records in tables.items()
    }
    records = evaluate(node, before)
    starts = records["start"].to_numpy()
    ends = records["end"].fill_null(2**62).to_numpy()
    goes_on = (starts < mark) & (ends >= mark)
    first = starts.min(where=goes_on, initial=2**62)
    return found(records.filter(pa.array((ends < mark) & (starts <= first))))


def arrives(start: int, marks: list[int], early: int) -> int:
    """The number of the batch that a record comes with."""
    due = sum(mark <= start for mark in marks)
    return max(0, due - early)


def test_records_are_told_when_they_are_final() -> None:
    running = Query(CHOSEN[0], {"one": programs.SCHEMA})
    row = (1, 2.0, "a")
    first = running.push({"one": table_of([(0, 1, row), (2, 3, row)])}, 3)
    assert first["end"].to_pylist() == [2]
    assert running.push({}, 4).num_rows == 0
    assert running.push({}, 5)["end"].to_pylist() == [4]
    assert running.finish().select(["start", "end", "n"]).to_pylist() == [
        {"start": 4, "end": 6, "n": 1}
    ]


def test_partners_that_touch_at_a_watermark_are_one() -> None:
    row = (1, 2.0, "a")
    tables = {"one": table_of([(0, 6, row)]), "other": table_of([(0, 3, row), (3, 6, row)])}
    node = a.ValidFor(a.Semijoin(ONE, OTHER, predicate("k = k2"), programs.NAMES), 2)
    running = Query(node, SCHEMAS)
    early = {"one": tables["one"], "other": tables["other"].slice(0, 1)}
    answers = [running.push(early, 3), running.push({"other": tables["other"].slice(1)}, 4)]
    whole = evaluate(node, tables)
    assert found(pa.concat_tables([*answers, running.finish()])) == found(whole)
    assert whole["end"].to_pylist() == [2]


def test_records_begin_with_the_first_of_partners_that_follow_each_other() -> None:
    row = (1, 2.0, "a")
    others = [table_of([(start, end, row)]) for start, end in ((0, 2), (2, 3), (3, 9))]
    one = {"one": table_of([(0, 9, row)])}
    running = Query(
        a.Split(a.Semijoin(ONE, OTHER, predicate("k = k2"), programs.NAMES), 4), SCHEMAS
    )
    answers = [running.push(one, 0)]
    answers += [
        running.push({"other": other}, mark) for other, mark in zip(others, (1, 3, 5), strict=True)
    ]
    ends = [answer["end"].to_pylist() for answer in [*answers, running.finish()]]
    assert ends == [[], [], [], [4], [8, 9]]


def test_records_that_vanish_before_they_begin() -> None:
    running = Query(a.ValidFor(a.Every(UNTIL, 4), 9), SCHEMAS)
    rows = [table_of([(start, start + 1, (k, 2.0, "a"))]) for start, k in ((1, 0), (3, 1))]
    assert running.push({"one": rows[0]}, 2).num_rows == 0
    running.push({"one": rows[1]}, 9)
    assert running.finish()["start"].to_pylist() == [4]


def test_what_has_expired_is_forgotten() -> None:
    running = Query(CHOSEN[0], {"one": programs.SCHEMA})
    sizes = []
    for mark in range(10, 2000, 10):
        rows = [(time, time + 1, (time % 3, 1.0, "a")) for time in range(mark - 10, mark)]
        running.push({"one": table_of(rows)}, mark)
        sizes.append(len(running.snapshot()))
    assert max(sizes[5:]) - min(sizes[5:]) < 1000
    assert all(one < 2 * sizes[5] for _, one in pairwise(sizes))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (a.Timed(UNTIL, None, "to"), "`with end()` does not work"),
        (a.Shift(ONE, -1, 0), "`shift start -1` does not work"),
    ],
)
def test_look_ups_that_need_whole_tables(node: a.Node, message: str) -> None:
    with pytest.raises(MtlmonError) as raised:
        Query(node, SCHEMAS, waits=False)
    assert message in str(raised.value)
    assert "evaluate the whole table" in str(raised.value)


def test_errors_change_nothing() -> None:
    row = (1, 2.0, "a")
    running = Query(a.ValidFor(ONE, 5), SCHEMAS)
    running.push({"one": table_of([(0, 1, row)])}, 3)
    before = running.snapshot()
    for tables, mark, message in (
        ({}, 2, "watermark 2 is below the last one, 3"),
        ({"one": table_of([(2, 3, row)])}, 9, "starts at 2, before the last watermark 3"),
        ({"on": table_of([])}, 9, "there is no table 'on'"),
        ({"one": table_of([]).select([0, 1, 2])}, 9, "not k (int64), x (double), t"),
    ):
        with pytest.raises(MtlmonError) as raised:
            running.push(tables, mark)
        assert message in str(raised.value)
    assert running.snapshot() == before


def test_snapshots_that_do_not_fit() -> None:
    running = Query(a.ValidFor(ONE, 5), SCHEMAS)
    running.push({"one": table_of([(0, 1, (1, 2.0, "a"))])}, 3)
    snapshot = running.snapshot()
    with pytest.raises(SnapshotError):
        Query(a.ValidFor(ONE, 6), SCHEMAS).restore(snapshot)
    for size in range(0, len(snapshot), 7):
        with pytest.raises(SnapshotError):
            Query(a.ValidFor(ONE, 5), SCHEMAS).restore(snapshot[:size])
    for place in range(0, len(snapshot), 5):
        changed = bytearray(snapshot)
        changed[place] ^= 4
        with pytest.raises(SnapshotError):
            running.restore(bytes(changed))
    with pytest.raises(SnapshotError):
        running.restore(snapshot + b"x")
    assert running.snapshot() == snapshot
