"""One long trace cut into ranges, with windows and streams: the verdicts of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import TableError
from mtlmon.spark import RowCounts, SkippedRowsWarning, monitor_trace, plain_errors
from mtlmon.streams import register_aggregate
from tests.doors import RangeReader, compile_policies, event_source
from tests.doors import divided as _divided
from tests.spark.test_trace_streams import (
    TABLE,
    counted,
    frame,
    log_rows,
    rows_of,
    table,
    truth,
)
from tests.streams.programs import CELLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.doors import EndTime, EventSource

spark_group = pytest.mark.xdist_group("spark")

CUT = """
unit s
atom failed = what = "login" and code >= 400
stream fails = count[0,10s](failed)
stream worst = max[0,20s](fails)
let hot = fails >= 3
let recent = ONCE[0,2s] failed
policy brute: NOT (hot AND code = 200)
policy worst: worst < 5 OR EVENTUALLY[0,5s] failed
policy mean: avg[2s,9s](amount, or: 0.0) < 60.0
policy past: ONCE count[1s,4s](recent) > 2
policy plain: amount < 90 OR PREVIOUS failed
policy liveness: failed IMPLIES EVENTUALLY[1s,*] distinct[0,6s](what) > 3
policy text: min[0,4s](what) = "buy" OR NEXT[0,3s] median[0,5s](amount) < 40.0
"""
WHOLE = """
policy alive on every 5s: count[0,10s]() > 3
policy chosen on rows where failed: NOT PREVIOUS[0,1s] true
policy jump: amount.next(or: 0) < amount + 60
policy rising: amount - amount.last(or: 0) < 70
policy old: count(failed) < 60 OR count[50s,*](failed) > 2
policy users: count(seen > 2 over seen) < 3
stream seen = count[0,30s]() per user
trigger many: fails > 2 message "{fails} at {ts}"
""".replace("count(failed) < 60", "sum[0,*](amount) < 900")


ONE = st.sampled_from(
    [
        *("i", "count[0,3]()", "sum[0,2](i, or: 0)", "count[1,4](b)", "max[2,5](i)"),
        *("distinct[0,4](i)", "first[0,3](i)", "last[1,6](i)", "coalesce(i, 0)", "x0 + 1", "x0"),
    ]
)
TWO = st.builds(
    lambda name, low, length, one: f"{name}[{low},{low + length}]({one})",
    st.sampled_from(["sum", "max", "min", "first", "distinct"]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 3]),
    ONE,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Policies that tell values apart: those of windows, some of them over windows."""
    first = draw(TWO.filter(lambda one: "x0" not in one))
    values = [draw(TWO), draw(st.one_of(ONE, TWO))]
    policies = [
        f"policy p{number}_{limit + 1}: ({value}) > {limit}"
        for number, value in enumerate(values)
        for limit in range(-1, 5)
    ]
    return "\n".join([f"stream x0 = {first}", *policies])


@st.composite
def dense_logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows at most time-stamps."""
    gaps = draw(st.lists(st.sampled_from([0, 1, 1, 1, 2, 5]), min_size=1, max_size=20))
    time = draw(st.sampled_from([0, 7]))
    log = []
    for line, gap in enumerate(gaps):
        time += gap
        cells = {"i": draw(st.sampled_from([None, 0, 1, 3])), "b": draw(st.booleans())}
        log.append({"ts": time, "line": line, **dict.fromkeys(CELLS), **cells})
    return log


def source_of(text: str) -> EventSource:
    return event_source(compile_policies(text, "local"), time="ts")


@settings(max_examples=40)
@given(
    texts(), dense_logs(), st.integers(1, 5), st.lists(st.integers(1, 9), min_size=1, max_size=6)
)
def test_ranges_have_the_atoms_of_the_whole_trace(
    text: str, rows: list[dict[str, Any]], step: int, sizes: list[int]
) -> None:
    source = source_of(text)
    schema = pa.schema([TABLE.field(name) for name in source.selection.names])
    in_ranges, whole, reach = _divided(source, schema)
    assert not whole and len(in_ranges) == 12
    first = np.arange(rows[0]["ts"], rows[-1]["ts"] + 1, step)

    def found(ranges: list[tuple[int, list[dict[str, Any]]]], firsts: Any) -> list[Any]:
        """The time-stamps and atoms of rows with their ranges."""
        flat = [(place, row) for place, some in ranges for row in some]
        batches = []
        numbers = iter(sizes * len(flat))
        while flat:
            size = next(numbers)
            part, flat = flat[:size], flat[size:]
            columns = pa.RecordBatch.from_pylist([row for _, row in part], schema).columns
            places = pa.array([place for place, _ in part], pa.int32())
            order = pa.array([row["line"] for _, row in part])
            names = ["range", "place", *schema.names]
            batches.append(pa.RecordBatch.from_arrays([places, order, *columns], names=names))
        result = []
        for piece in RangeReader(source, firsts).pieces(iter(batches)):
            words = piece.words.tolist()
            times = piece.time_stamps.tolist()
            result += [(piece.place, *one) for one in zip(times, words, strict=True)]
        return result

    wanted = [one[1:] for one in found([(0, rows)], first[:1])]
    last = [*(first[1:] - 1).tolist(), 2**63 - 1]
    cut = [
        (place, [row for row in rows if first[place] - reach <= row["ts"] <= last[place]])
        for place in range(len(first))
    ]
    in_parts = found(cut, first)
    assert [one[1:] for one in in_parts] == wanted
    assert [one[0] for one in in_parts] == sorted(one[0] for one in in_parts)


def test_which_policies_need_the_whole_trace() -> None:
    def reach(text: str) -> int | None:
        in_ranges, whole, found = _divided(source_of(text), TABLE)
        assert len(in_ranges) + len(whole) == 1
        return None if whole else found

    assert reach("policy p: i > 2") == 0
    assert reach("policy p: count[2,7]() > 2") == 7
    assert reach("stream x = count[0,3]()\npolicy p: max[1,5](x) > min[0,6](x) + i") == 9
    for text in (
        "policy p: i.last() > 2",
        "policy p: i.at(-3) > 2",
        "policy p: i.next() > 2",
        "policy p: count[2,*]() > 2",
        "policy p: integral[0,5](i) > 2.0",
        "stream x = sum[1,5](x, or: 0) + 1\npolicy p: x > 2",
        "stream x = count[0,3]() per i\npolicy p: any(x > 2 over x)",
        "stream x = count[0,3]() every 5\npolicy p: x.hold() > 2",
        "policy p on every 4: count[0,3]() > 1",
        "policy p on rows where b: count[0,3]() > 1",
        'trigger p: count[0,3]() > 1 message "{i}"',
    ):
        assert reach(text) is None, text


@spark_group
@pytest.mark.parametrize("end_time", [None, "last", "inf", 10_000])
def test_verdicts_are_those_of_one_machine(spark: SparkSession, end_time: EndTime) -> None:
    log = log_rows(11, 400)
    text = CUT + WHOLE
    verdicts = monitor_trace(frame(spark, log), text, order_within="n", end_time=end_time, ranges=4)
    found = rows_of(verdicts)
    assert counted(found) == truth(table(log), text, end_time=end_time)
    names = {row["policy"] for row in found}
    assert len(names) == 14
    assert {row["policy"] for row in found if not row["verdict"]} | {"liveness"} == names
    assert sum(row["message"] is not None for row in found) > 20


@spark_group
def test_windows_alone(spark: SparkSession) -> None:
    """Then no task has the whole trace."""
    log = log_rows(12, 300)
    verdicts = monitor_trace(frame(spark, log), CUT, order_within="n", end_time="inf", ranges=3)
    assert verdicts.columns[-1] == "reference_offset"
    assert counted(rows_of(verdicts)) == truth(table(log), CUT)


def test_own_aggregates(spark: SparkSession) -> None:
    register_aggregate(
        "spread",
        lambda value: (value, value),
        lambda one, other: (min(one[0], other[0]), max(one[1], other[1])),
        lambda state: state[1] - state[0],
    )
    log = log_rows(13, 200)
    text = "unit s\npolicy p: spread[0,7s](amount) < 80"
    found = rows_of(monitor_trace(frame(spark, log), text, order_within="n", ranges=3))
    assert counted(found) == truth(table(log), text, end_time=None)


@spark_group
def test_rows_at_fault(spark: SparkSession) -> None:
    rows = [(time, time, 2**62 if time in (40, 41) else 1) for time in range(60)]
    df = spark.createDataFrame(rows, "ts long, n long, x long")
    asked: dict[str, Any] = {"order_within": "n", "ranges": 3}
    text = "policy p: sum[0,4](x) > 2\n"
    with pytest.raises(Exception, match=r"overflows 64 bits; the row is ts=41"), plain_errors():
        monitor_trace(df, text, **asked).collect()
    message = "overflows 64 bits; such rows are skipped with ranges=1 only, as each range of the"
    with pytest.raises(Exception, match=message), plain_errors():
        monitor_trace(df, text, on_error="skip", **asked).collect()
    counts, asked_alone = RowCounts(), {**asked, "ranges": 1}
    both = f"{text}policy q: x < 2 or eventually[0,2] x > 9\n"
    with pytest.warns(SkippedRowsWarning):
        verdicts = monitor_trace(df, both, on_error="skip", counts=counts, **asked_alone)
        found = verdicts.collect()
    assert counts.skipped == 1
    logged = pa.Table.from_pylist([{"ts": time, "n": n, "x": x} for time, n, x in rows])
    wanted = truth(logged, both, on_error="skip", end_time=None)
    assert counted([row.asDict() for row in found]) == wanted
    counts = RowCounts()
    alone = "policy p: sum[0,*](x) > 2"
    with pytest.warns(SkippedRowsWarning):
        found = monitor_trace(df, alone, on_error="skip", counts=counts, **asked).collect()
    assert (len(found), counts.skipped) == (59, 1)
    # ticks can be left out, as they are no rows
    counts = RowCounts()
    ticks = "policy p on every 10: sum[0,1](x.hold()) > 2\npolicy q: x > 0 OR ONCE[0,3] false"
    ticks = ticks.replace("x.hold()", "x")
    bad = df.unionAll(spark.sql("SELECT null, 100L, 1L"))
    moved = bad.selectExpr("CASE WHEN ts = 41 THEN 40 ELSE ts END AS ts", "n", "x")
    with pytest.warns(SkippedRowsWarning):
        found = monitor_trace(moved, ticks, on_error="skip", counts=counts, **asked).collect()
    assert counts.skipped == 2
    assert sorted(row.time for row in found if row.policy == "p") == [0, 10, 20, 30, 50]


def test_a_sum_that_overflows_for_want_of_earlier_rows() -> None:
    """Rows before a range are there for windows, whose own windows are not complete."""
    text = "stream s = sum[0,9](i)\npolicy p: max[0,9](s) > 2"
    source = source_of(text)
    schema = pa.schema([TABLE.field(name) for name in source.selection.names])
    values = [(1, -(2**62)), (2, 2**62), (9, 2**62), (30, 0)]

    def found(first: int, start: int) -> int:
        rows = [{"ts": time, "i": value} for time, value in values if time >= start]
        columns = pa.RecordBatch.from_pylist(rows, schema).columns
        places = [pa.array([0] * len(rows), pa.int32()), pa.array(range(len(rows)), pa.int64())]
        batch = pa.RecordBatch.from_arrays(
            [*places, *columns], names=["range", "place", *schema.names]
        )
        reader = RangeReader(source, np.array([first], np.int64))
        return sum(len(piece.time_stamps) for piece in reader.pieces(iter([batch])))

    assert found(0, 0) == 4
    message = "overflows 64 bits without the rows before a cut; ranges=1 cuts nothing"
    with pytest.raises(TableError, match=message):
        found(20, 2)
