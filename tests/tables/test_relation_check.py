"""Policies with variables on tables from Python: `mtlmon.check` and `RelationalMonitor.feed`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon import MtlmonError, PolicyError, RelationalMonitor, SnapshotError, TimeStampError
from mtlmon.policy import parse_policies
from mtlmon.relational import Answer
from tests.doors import Value

POLICIES = """
unit s
atom publish(user, file) = what = "publish"
atom approve(file, level: int) = what = "approve"

policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,5] EXISTS n. approve(f, n) AND n > 1
policy soon: publish(u, f) IMPLIES EVENTUALLY[0,3] approve(f, _)
find again: publish(u, f) AND ONCE[1,9] publish(u, f)
"""

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("what", pa.string()),
        ("user", pa.string()),
        ("file", pa.string()),
        ("level", pa.int64()),
    ]
)


@st.composite
def _tables(draw: st.DrawFn) -> list[Row]:
    gaps = draw(st.lists(st.integers(0, 3), max_size=12))
    time, rows = 0, []
    for gap in gaps:
        time += gap
        rows.append(
            {
                "ts": time,
                "what": draw(st.sampled_from(["publish", "approve", "other"])),
                "user": draw(st.sampled_from(["ann", "bob", None])),
                "file": draw(st.sampled_from(["f", "g h", None])),
                "level": draw(st.sampled_from([1, 2, None])),
            }
        )
    return rows


def database_of(row: Row) -> dict[str, list[tuple[object, ...]]]:
    """The rows of atoms that a row of the table is, as the policies say."""
    arguments = {"publish": ("user", "file"), "approve": ("file", "level")}
    return {row["what"]: [tuple(row[name] for name in arguments.get(row["what"], ()))]}


def values_of(answer: Answer) -> tuple[Value, ...]:
    return tuple(answer.valuation.values())


def expected(rows: list[Row], *, by_stamp: bool) -> list[tuple[object, ...]]:
    """What a monitor says that is given the rows of atoms."""
    points: list[tuple[int, dict[str, list[tuple[object, ...]]]]] = []
    for row in rows:
        if not by_stamp or not points or points[-1][0] != row["ts"]:
            points.append((row["ts"], {}))
        for name, found in database_of(row).items():
            points[-1][1].setdefault(name, []).extend(found)
    monitor = RelationalMonitor(POLICIES)
    answers = [answer for point in points for answer in monitor.step(*point)]
    answers += monitor.finish()
    return sorted(
        (one.policy, one.time_stamp, one.offset, one.value is not False, *values_of(one))
        for one in answers
    )


@given(_tables(), st.booleans(), st.integers(0, 12))
def test_tables_mean_their_rows(rows: list[Row], by_stamp: bool, cut: int) -> None:
    wanted = expected(rows, by_stamp=by_stamp)
    table = pa.Table.from_pylist(rows, SCHEMA)
    points: Any = "stamp" if by_stamp else "row"
    parts = [table.slice(0, cut), table.slice(cut)] if cut < len(rows) else table
    check = mtlmon.check(POLICIES, parts, end_time="inf", time_points=points)
    found = sorted(
        (row["policy"], row["time"], row["offset"], row["verdict"], row["u"], row["f"])
        for row in check.to_arrow().to_pylist()
    )
    assert found == wanted
    stamps = len({row["ts"] for row in rows}) if by_stamp else len(rows)
    violated = {(one[0], *one[1:3]) for one in wanted}
    for name, counts in check.counts.items():
        at = sum(one[0] == name for one in violated)
        assert counts == (stamps, *((at, stamps - at) if name == "again" else (stamps - at, at)))
    monitor = RelationalMonitor(POLICIES)
    answers = []
    if not by_stamp or not 0 < cut < len(rows) or rows[cut - 1]["ts"] != rows[cut]["ts"]:
        answers += monitor.feed(table.slice(0, cut), time_points=points)
        saved = monitor.snapshot()
        monitor = RelationalMonitor(POLICIES)
        monitor.restore(saved)
        answers += monitor.feed(table.slice(cut), time_points=points)
        answers += monitor.finish()
        fed = sorted(
            (one.policy, one.time_stamp, one.offset, one.value is not False, *values_of(one))
            for one in answers
        )
        assert fed == wanted


def table_of(*rows: tuple[int, str, str, str]) -> pa.Table:
    return pa.table(dict(zip(("ts", "what", "user", "file"), zip(*rows, strict=True), strict=True)))


ONE = """
atom publish(user, file) = what = "publish"
policy never: publish(u, f) IMPLIES FALSE
"""


def test_verdicts_that_are_wanted() -> None:
    table = table_of((1, "read", "a", "f"), (2, "publish", "b", "f"), (3, "publish", "c", "g"))
    rows = {
        wanted: [
            (row["time"], row["verdict"], row["u"])
            for row in mtlmon.check(ONE, table, verdicts=wanted).to_arrow().to_pylist()
        ]
        for wanted in ("all", "boolean", "false", "first", "none", None)
    }
    false = [(2, False, "b"), (3, False, "c")]
    assert rows == {
        "all": [(1, True, None), *false],
        "boolean": [(1, True, None), *false],
        "false": false,
        "first": false[:1],
        "none": [],
        None: false,
    }


def test_rows_come_unsorted_and_with_times() -> None:
    moments = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (9, 2, 4)]
    table = pa.table({"at": moments, "what": ["publish", "approve", "publish"], "file": [*"fff"]})
    text = """
        time "at"
        unit s
        atom publish(file, when = at) = what = "publish"
        atom approve(file) = what = "approve"
        policy approved: publish(f, t) IMPLIES ONCE[0,3] approve(f)
    """
    (row,) = mtlmon.check(text, table, sort=True).to_arrow().to_pylist()
    assert row["f"] == "f"
    assert row["t"].to_pydatetime() == moments[0]
    monitor = RelationalMonitor(text)
    (answer,) = monitor.feed(table, sort=True)
    assert answer.valuation == {"f": "f", "t": int(moments[0].timestamp()) * 10**9}
    # a moment is a value of Python, too
    assert monitor.step(answer.time_stamp, {"publish": [("g", moments[0])]})[0].valuation == {
        "f": "g",
        "t": int(moments[0].timestamp()) * 10**9,
    }


def test_slices_say_the_same() -> None:
    rows = [
        {"ts": n // 2, "what": ["publish", "approve"][n % 3 == 0], "user": f"u{n % 4}"}
        | {"file": f"f{n % 5}", "level": n % 4}
        for n in range(60)
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    one, other = RelationalMonitor(POLICIES), RelationalMonitor(POLICIES, slices=3)
    found = one.feed(table) + one.finish()
    assert found
    assert Counter(map(str, other.feed(table) + other.finish())) == Counter(map(str, found))


def test_a_policy_file_can_be_used_again() -> None:
    file = parse_policies(ONE)
    for _ in range(2):
        assert mtlmon.check(file, table_of((1, "publish", "a", "f"))).to_arrow().num_rows == 1
        assert RelationalMonitor(file).step(1, {"publish": [("a", "f")]})


def test_time_goes_on_from_table_to_table() -> None:
    monitor = RelationalMonitor(ONE)
    monitor.step(5, {})
    with pytest.raises(TimeStampError, match="4 is below 5"):
        monitor.feed(table_of((4, "publish", "a", "f")))
    with pytest.raises(TimeStampError, match="the rows of a time-stamp come in one table"):
        monitor.feed(table_of((5, "publish", "a", "f")), time_points="stamp")
    assert len(monitor.feed(table_of((5, "publish", "a", "f")))) == 1


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        (ONE, {"mode": "global"}, "mode='global' is for policies without variables"),
        (ONE, {"time_points": "day"}, "time_points='day': it is one of 'row', 'stamp'"),
        (
            "atom publish(user) = b\npolicy p: publsh(u) IMPLIES FALSE",
            {},
            r"did you mean publish\? Else declare it with a condition: atom publsh\(COLUMN1\) =",
        ),
        ("policy p: publish(u) IMPLIES FALSE", {}, "nothing says which rows of a table are rows"),
        (f"{ONE}policy p: NOT (publish(u, f) AND point(i))", {"time_points": "stamp"}, "point"),
        ("a", {"time_points": "stamp"}, "time_points is for policies with variables"),
    ],
)
def test_what_is_refused(policies: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        mtlmon.check(policies, table_of((1, "publish", "a", "f")), **options).finish()


def test_what_feed_refuses() -> None:
    table = table_of((1, "publish", "a", "f"))
    with pytest.raises(PolicyError, match="nothing says which rows of a table"):
        RelationalMonitor("publish(u) IMPLIES FALSE").feed(table)
    with pytest.raises(MtlmonError, match="'row' or 'stamp', not 'day'"):
        RelationalMonitor(ONE).feed(table, time_points="day")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="no policy with variables"):
        RelationalMonitor("a IMPLIES b")


def test_damaged_snapshots() -> None:
    monitor = RelationalMonitor(ONE)
    monitor.feed(table_of((1, "publish", "a", "f")))
    saved = monitor.snapshot()
    RelationalMonitor(ONE).restore(saved)
    for bad in (b"", saved[:3], saved[:40], saved[:-1], saved[:4] + bytes(len(saved) - 4)):
        with pytest.raises(SnapshotError):
            RelationalMonitor(ONE).restore(bad)


def test_an_error_comes_behind_what_is_known() -> None:
    text = """
        atom publish(n) = what = "publish"
        policy small: publish(n) AND n + 1 > 0 IMPLIES FALSE
    """
    table = pa.table({"ts": [1, 2], "what": ["publish"] * 2, "n": [1, 2**63 - 1]})
    check = mtlmon.check(text, table)
    assert [row["n"] for row in next(check.batches()).to_pylist()] == [1]
    with pytest.raises(MtlmonError, match="2, time-point 1 of the log"):
        next(check.batches())


def test_values_of_another_type_are_refused() -> None:
    monitor = RelationalMonitor(ONE)
    message = r"argument 2 of publish: 1 is not a text: declare the argument's type, as in atom p"
    with pytest.raises(TypeError, match=message):
        monitor.step(1, {"publish": [("a", 1)]})
    assert monitor.step(1, {"publish": [("a", "f")]})


EMPTY_FIRST = """
atom publish(user: text, level: int, n) = what = "publish"
atom approve(user, level: int) = what = "approve" and user != "x"
policy a: publish(u, l, n) IMPLIES ONCE[0,9] approve(u, l)
find b: approve(u, l) AND NOT u = "c"
"""


@pytest.mark.parametrize("by_stamp", [False, True])
def test_columns_without_a_value_at_first(by_stamp: bool) -> None:
    """A column that is null in the first rows has no type yet; declarations have."""
    rows = [
        (1, "publish", None, None, None),
        (2, "approve", None, 1, None),
        (2, "approve", "a", 3, None),
        (3, "publish", "a", 3, "i"),
        (4, "publish", "c", 3, "j"),
        (5, "publish", "a", None, "k"),
        (5, "approve", "b", 4, None),
    ]
    names = ("ts", "what", "user", "level", "n")
    wanted_types = pa.schema({"ts": pa.int64(), **dict.fromkeys(names[1:], pa.string())})
    wanted_types = wanted_types.set(3, pa.field("level", pa.int64()))

    def table(some: list[tuple[Any, ...]], schema: pa.Schema | None) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in some], schema)

    options: dict[str, Any] = {"time_points": "stamp"} if by_stamp else {}
    found = mtlmon.check(EMPTY_FIRST, table(rows, wanted_types), **options)
    wanted = [row for batch in found.batches() for row in batch.to_pylist()]
    assert {row["policy"] for row in wanted} == {"a", "b"}
    for cuts in ([1, 2], [1, 4], [2]):
        parts = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
        tables = [table(part, None) for part in parts]
        assert pa.types.is_null(tables[0].schema.field("user").type)
        again = mtlmon.check(EMPTY_FIRST, tables, **options)
        assert [row for batch in again.batches() for row in batch.to_pylist()] == wanted
    # where nothing says the type, values are the texts that they are written as
    numbers = table([(9, "publish", "a", 3, 5)], None)
    list(mtlmon.check(EMPTY_FIRST, [table(rows[:1], None), numbers]))
    declared = EMPTY_FIRST.replace(", n) = ", ", n: int) = ")
    list(mtlmon.check(declared, [table(rows[:1], None), numbers]))
