"""Ticks at which values may change: between them, values stay as they are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import SnapshotError
from tests.doors import streams_kernels as kernels
from tests.doors import streams_native as native
from tests.streams.programs import Row, StreamText, Texts, Tick, evaluated, rows, ticking_programs
from tests.streams.test_ticks import CUTS, expected, in_batches, require_same

PERIODS = [2, 4, 6]


def filled(due: list[Tick], every: list[Tick]) -> list[Tick]:
    """Give each tick the value of the last due one; `every` says which ticks there are."""
    held: dict[tuple[str, int], Any] = {}
    known = {(name, trace, time): (place, value) for time, trace, place, name, value in due}
    found = []
    for time, trace, place, name, _ in every:
        if (name, trace, time) in known:
            own, held[name, trace] = known.pop((name, trace, time))
            assert own == place
        found.append((time, trace, place, name, held[name, trace]))
    assert not known
    return found


@given(ticking_programs(), rows(), CUTS, st.integers(0, 3), st.booleans())
def test_values_stay_between_due_ticks(
    texts: Texts, log: list[Row], cuts: list[int], saved: int, can_leave_out: bool
) -> None:
    until = log[-1][0] + 17 if log else 7
    wanted = expected(texts, log, until)
    found, due = in_batches(
        texts, log, cuts, saved, until, only_due=True, can_leave_out=can_leave_out
    )
    require_same((found, filled(due, wanted[1])), wanted, texts)


@st.composite
def due_programs(draw: st.DrawFn) -> Texts:
    """Programs whose due ticks are known."""
    windows = ["count[0,3]()", "avg[0,7](i)", "count[2,5](b)", "max[1,9](f)", "sum[0,*)(i % 7)"]
    windows += [
        "(i % 9).last(2)",
        "f.at(-3)",
        "integral[0,9](f)",
        "integral[2,7](i % 7)",
        "increase[0,9](f)",
        "mad[0,9](f)",
        "resets[2,7](i % 7)",
        "(i % 9).hold(or: 1)",
        "(i % 9).hold(1)",
        "median[4,4](f)",
    ]
    window = st.sampled_from(windows)
    period = draw(st.sampled_from(PERIODS))
    streams: dict[str, StreamText] = {
        "x": (f"coalesce({draw(window)}, 0) > 1", None, period),
        "n": (draw(window), None, period),
        "w": (f"if {draw(window)} > 1 then s.hold() else null", None, period),
    }
    of_ticks = [
        "any[0,9](x)",
        "all[0,12](x)",
        "max[0,30](n)",
        "min[0,7](n)",
        "first[0,20](n)",
    ]
    of_ticks += ["max[13,30](n)", "any[9,40](x)", "last[14,*)(w)", "first[17,31](w)"]
    of_ticks += ["distinct[7,19](n, or: 3)", "all[8,8](x)", "min[19,50](n)"]
    of_ticks += ["last[0,13](n)", "distinct[0,40](n, or: 9)", "max[0,15](w)", "min[0,*)(n)"]
    wanted: list[str | tuple[str, int]] = [
        ("x", period),
        ("x", 2 * period),
        (draw(window), draw(st.sampled_from(PERIODS))),
        "x.hold(or: false)",
        "x.at(-2)",
        "x.last(2)",
        (f"x.last({draw(st.integers(2, 4))}, or: true)", period),
        "x.hold(1)",
        (f"x.hold({draw(st.integers(1, 3))}, or: true)", period),
        (draw(st.sampled_from(of_ticks)), draw(st.sampled_from([period, 2 * period]))),
        (draw(st.sampled_from(of_ticks)), period),
    ]
    return Texts(streams, wanted)


@pytest.mark.parametrize(
    ("cuts", "before"), [([], [*range(10, 140, 10)]), ([1, 2, 3], [10, 20, 30, 40])]
)
def test_all_ticks_follow_one_that_is_left_out(cuts: list[int], before: list[int]) -> None:
    """The sum is too large at the ticks 140 and 150."""
    texts = Texts({"x": ("sum[0,19](i, or: 0)", None, 10)}, [("x", 10), ("x.last()", 10)])
    log = [
        (time, trace, {**row(0)[2], "i": value})
        for time, trace, value in [(5, 0, 1), (131, 0, 2**62), (132, 0, 2**62), (195, 0, 0)]
    ]
    wanted = expected(texts, log, 200)
    found, due = in_batches(texts, log, cuts, 2, 200, only_due=True, can_leave_out=True)
    require_same((found, filled(due, wanted[1])), wanted, texts)
    times = [time for time, _, _, name, _ in due if name == "x every 10"]
    assert times == [*before, 160, 170, 180, 190]


def test_all_ticks_are_computed_where_ticks_that_are_left_out_matter() -> None:
    texts = Texts({"x": ("count[0,19]()", None, 10)}, [("x.last(2)", 10)])
    assert texts.program(only_due=True).due_ticks
    assert not texts.program(only_due=True, can_leave_out=True).due_ticks


@given(due_programs(), rows(), CUTS, st.integers(0, 3))
def test_few_ticks_are_due(texts: Texts, log: list[Row], cuts: list[int], saved: int) -> None:
    log = [(time, trace, {**row, "i": (row["i"] or 0) % 100}) for time, trace, row in log]
    until = log[-1][0] + 100 if log else 7
    wanted = expected(texts, log, until)
    found, due = in_batches(texts, log, cuts, saved, until, only_due=True)
    require_same((found, filled(due, wanted[1])), wanted, texts)
    # for each row, window and period one when it enters and one when it leaves
    for name in texts.periods if "integral" not in str(texts) else ():
        assert len([tick for tick in due if tick[3] == name]) <= 90 * len(log)


@st.composite
def paned_programs(draw: st.DrawFn) -> Texts:
    """Sums of the ticks of a faster stream, which can rest."""
    windows = ["count[0,3]()", "sum[0,7](i % 9)", "max[1,9](f)", "avg[2,9](i % 7)", "f.hold()"]
    interval = st.sampled_from(["[0,12]", "[0,24]", "[12,24]", "[24,24]", "[0,0]", "[12,36]"])
    words = st.sampled_from(["sum", "avg", "var", "stddev", "count"])
    period = draw(st.sampled_from([1, 2, 6]))
    streams: dict[str, StreamText] = {"x": (draw(st.sampled_from(windows)), None, period)}
    wanted: list[str | tuple[str, int]] = []
    for _ in range(2):
        word = draw(words)
        argument = (
            draw(st.sampled_from(["(x > 1)", "(x > 1, or: 7)"])) if word == "count" else "(x)"
        )
        wanted.append((f"{word}{draw(interval)}{argument}", draw(st.sampled_from([12, 24]))))
    return Texts(streams, wanted)


@given(paned_programs(), rows(), CUTS, st.integers(0, 3))
def test_sums_of_faster_ticks_keep_panes(
    texts: Texts, log: list[Row], cuts: list[int], saved: int
) -> None:
    log = [(time, trace, {**row, "i": (row["i"] or 0) % 100}) for time, trace, row in log]
    # a trace rests at the end of a long silence
    log = [(time + 90 * (place > 20), trace, row) for place, (time, trace, row) in enumerate(log)]
    until = log[-1][0] + 100 if log else 7
    wanted = expected(texts, log, until)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_LEAST_TICKS", 2)
        program = texts.program(only_due=True)
        assert program.due_ticks
        names = [type(one).__name__ for one in program.natives]
        assert "TickPanes" in names
        found, due = in_batches(texts, log, cuts, saved, until, only_due=True)
    require_same((found, filled(due, wanted[1])), wanted, texts)


def test_only_what_does_not_rest_is_a_reason() -> None:
    streams: dict[str, StreamText] = {
        "own": ("min(sum[1,40](own, or: 0) + own.last(or: 0) + own.at(-20, or: 0), 9)", None, 10)
    }
    program = Texts(streams, [("own", 10)]).program(only_due=True)
    reason = "a stream reads itself by sum[1,40](own, or: 0)"
    assert [one.reason for one in program.obstacles] == [reason]


@pytest.mark.parametrize("text", ["x.last()", "x.last(2)", "x.last(3)", "x.hold(1)", "x.hold(2)"])
def test_rows_at_ticks_see_those_below(text: str) -> None:
    """The second tick below a row at 30 is that at 10, and that at 20 for a row at 31."""
    texts = Texts({"x": ("count[0,9]()", None, 10)}, [text, ("x", 10)])
    assert texts.program(only_due=True).due_ticks
    log = [row(time) for time in (5, 6, 10, 11, 19, 20, 30, 31, 39, 40, 41, 70, 71, 80)]
    wanted = expected(texts, log, 100)
    found, due = in_batches(texts, log, [3, 4, 9], 1, 100, only_due=True)
    require_same((found, filled(due, wanted[1])), wanted, texts)


def ticks_of(texts: Texts, log: list[Row], until: int) -> list[tuple[int, int]]:
    due: list[Tick] = []
    evaluated(texts.program(only_due=True), log, periods=texts.periods, ticks=due, until=until)
    return [(time, trace) for time, trace, *_ in due]


def row(time: int, trace: int = 0) -> Row:
    return time, trace, {"i": 1, "f": 1.0, "b": True, "s": "a"}


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("count[0,20]()", [10, 30]),
        ("count[0,19]()", [10, 30]),
        ("count[0,25]()", [10, 40]),
        ("count[15,25]()", [10, 30, 40]),
        ("sum[0,*)(i)", [10]),
        ("i.hold()", [10]),
        ("i.at(-12)", [10, 30]),
        ("count[0,20]() > i.last(1)", [10, 30]),
        ("integral[0,19](f)", [10, 20, 30]),
        ("integral[0,20](f)", [10, 20, 30]),
        ("integral[0,21](f)", [10, 20, 30]),
        ("integral[12,25](f)", [10, 20, 30, 40]),
        ("integral[5,5](f)", [10, 20]),
        # without a value below it, there is no line, and so no area
        ("integral[0,20](f, linear)", [10, 20, 30]),
        ("integral[0,21](f, linear)", [10, 20, 30, 40]),
        ("integral[0,0](f, linear)", [10]),
        ("integral[1,1](f, linear)", [10, 20]),
    ],
)
def test_a_row_is_due_when_it_enters_and_when_it_has_left(text: str, due: list[int]) -> None:
    assert ticks_of(Texts({}, [(text, 10)]), [row(9)], 100) == [(time, 0) for time in due]


def test_a_row_at_a_tick_leaves_later_than_one_before_it() -> None:
    texts = Texts({}, [("count[0,20]()", 10)])
    assert ticks_of(texts, [row(9), row(10)], 100) == [(10, 0), (30, 0), (40, 0)]


@pytest.mark.parametrize(
    "text",
    [
        "integral[0,170](f)",
        "integral[0,*)(f)",
        "sum[0,*)(x)",
        "max[12,18](x)",
        "z.last(2)",
        "x.at(-7)",
        "count[0,*)(x > 1)",
    ],
)
def test_every_tick_is_due_where_values_change_without_rows(text: str) -> None:
    streams: dict[str, StreamText] = {
        "x": ("count[0,3]()", None, 10),
        "z": ("sum[0,3](i)", None, 10),
    }
    texts = Texts(streams, [(text, 10)])
    assert ticks_of(texts, [row(9)], 60) == [(time, 0) for time in range(10, 60, 10)]


@pytest.mark.parametrize(
    ("text", "period", "reason"),
    [
        ("integral[0,*)(f)", 10, "integral[0,*)(f) goes back without limit"),
        ("sum[0,*)(x)", 10, "sum[0,*)(x) looks at ticks"),
        ("sum[3,7](x)", 10, "sum[3,7](x) looks at ticks"),
        ("median[0,20](x)", 10, "median[0,20](x) looks at ticks"),
        ("sum[0,9](x)", 0, "sum[0,9](x) looks at ticks"),
        ("z.last(2)", 10, "z.last(2) passes over ticks that have no value"),
        ("z.hold(1)", 10, "z.hold(1) passes over ticks that have no value"),
        ("x.at(-7)", 10, "x.at(-7) is not at ticks of its stream"),
        ("y.last()", 15, "y.last() is not at ticks of its stream"),
        ("own", 10, "a stream reads itself by sum[1,40](own, or: 0)"),
        ("a", 10, "a stream reads itself by a.last(or: 0)"),
        (" + ".join(f"count[0,{n}]()" for n in range(2, 80)), 10, "more than 64 lengths of time"),
    ],
)
def test_there_is_a_reason_for_computing_every_tick(text: str, period: int, reason: str) -> None:
    streams: dict[str, StreamText] = {
        "x": ("count[0,3]()", None, 10),
        "y": ("count[0,3]()", None, 6),
        "z": ("sum[0,3](i)", None, 10),
        "own": ("sum[1,40](own, or: 0) % 7 + 1", None, 10),
        "a": ("b2.last(or: 0) % 5 + 1", None, 10),
        "b2": ("a.last(or: 0) % 7", None),
    }
    program = Texts(streams, [(text, period) if period else text]).program(only_due=True)
    assert program.due_ticks is None
    assert [one.reason for one in program.obstacles if one.reason.endswith(reason)]


@pytest.mark.parametrize(
    ("text", "period", "due"),
    [
        ("x", 10, [10, 20]),
        ("x.hold()", 10, [10, 20]),
        ("x.last()", 10, [10, 20, 30]),
        ("x > x.last(or: 0)", 20, [10, 20, 30, 40]),
        ("x.at(-50)", 10, [10, 20, 60, 70]),
        ("x.last(2)", 10, [10, 20, 30, 40]),
        ("x.last(3, or: 5)", 20, [20, 40, 60]),
        ("x.hold(1)", 10, [10, 20, 30]),
        ("x.hold(2, or: 5)", 20, [20, 40]),
        ("y.last()", 10, [10, 20, 30, 40, 50, 60, 70]),
        ("max[0,40](x)", 10, [10, 20, 50, 60]),
        ("min[0,49](x)", 10, [10, 20, 50, 60]),
        ("any[0,25](x > 0)", 20, [20, 40]),
        ("all[0,*)(x < 2)", 10, [10, 20]),
        ("first[0,30](x, or: 7)", 10, [10, 20, 40, 50]),
        ("distinct[0,30](x, or: 7)", 10, [10, 20, 40, 50]),
        ("last[0,9](x)", 10, [10, 20]),
        ("max[0,20](low)", 10, [10, 20, 30, 40, 50]),
        ("max[0,40](maybe)", 10, [10, 20, 50, 60]),
        ("max[7,40](x)", 10, [10, 20, 30, 50, 60, 70]),
        ("max[10,40](x)", 20, [20, 40, 60, 80]),
        ("min[3,*)(x)", 10, [10, 20, 30]),
        ("max[15,39](x)", 10, [10, 20, 30, 40, 50]),
        ("max[20,60](maybe)", 20, [20, 40, 80]),
        ("all[25,*)(x < 2)", 10, [10, 20, 40, 50]),
        ("distinct[11,30](x, or: 7)", 10, [10, 20, 30, 40, 50]),
        ("last[40,49](maybe)", 10, [10, 20, 50, 60]),
        ("first[15,70](low)", 10, [10, 20, 30, 40, 50, 80, 90, 100]),
        ("sum[0,9](x)", 10, [10, 20]),
        ("sum[0,40](x)", 10, [10, 20, 30, 40, 50, 60]),
        ("avg[10,39](maybe)", 10, [10, 20, 30, 40, 50]),
        ("count[15,30](x > 0, or: 7)", 10, [10, 20, 30, 40, 50]),
        ("var[0,40](low)", 20, [20, 40, 60, 80, 100]),
        ("stddev[0,20](sum)", 10, [10, 20, 30, 40, 50, 60]),
        ("max[0,30](sum)", 10, [10, 20, 30, 40, 50, 60, 70]),
        ("sum[0,20](longest)", 10, [10, 20, 30, 40, 50, 60, 70]),
        ("sum[0,20](x) + avg[10,10](x)", 10, [10, 20, 30, 40]),
    ],
)
def test_what_reads_one_earlier_tick_changes_later(text: str, period: int, due: list[int]) -> None:
    streams: dict[str, StreamText] = {
        "x": ("count[0,3]()", None, 10),
        "y": ("x.last(or: 0) - x.at(-30, or: 7)", None, 10),
        "low": ("min[0,10](x)", None, 10),
        "maybe": ("if x > 0 then 5 else null", None, 10),
        "sum": ("sum[0,20](x)", None, 10),
        "longest": ("max[0,30](x)", None, 10),
    }
    texts = Texts(streams, [(text, period)])
    own = {time for time, _ in ticks_of(texts, [row(9)], 200)}
    assert own == {time for time in due if time % period == 0}
    log = [row(9), row(34, 1), row(150), row(171), row(175, 1), row(176, 1)]
    wanted = expected(texts, log, 400)
    for cuts in ([1], [2, 3, 5]):
        found, few = in_batches(texts, log, cuts, 1, 400, only_due=True)
        require_same((found, filled(few, wanted[1])), wanted, texts)


def test_ticks_of_one_time_are_in_the_order_of_traces() -> None:
    texts = Texts({}, [("count[0,20]()", 10)])
    for count in (3, 5000):
        log = [row(1, trace) for trace in reversed(range(count))]
        assert ticks_of(texts, log, 15) == [(10, trace) for trace in range(count)]


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 1, 5, 30]), st.integers(0, 3)), max_size=20),
    st.lists(st.integers(0, 20), max_size=3),
    st.integers(0, 20),
)
def test_dues_are_those_of_their_definition(
    steps: list[tuple[int, int]], cuts: list[int], undone: int
) -> None:
    delays, periods = [0, 3, 21], [6, 4]
    dues = native.Dues(delays, periods, 1)
    log, time = [], 0
    for step, trace in steps:
        time += step
        log.append((time, trace))
    found: list[tuple[int, int]] = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    for start, end in pairwise(edges):
        times = np.array([one for one, _ in log[start:end]], np.int64)
        numbers = np.array([trace for _, trace in log[start:end]], np.uint32)
        batch = native.Batch(times, numbers, end - start)
        limit = int(times[-1]) if end > start else 0
        counts = np.empty(end - start, np.int64)
        dues.counts(batch, counts)
        dues.begin()
        if undone % 3 == 0:
            dues.add(batch)
            dues.find(limit)
            dues.undo()
        if undone % 3 == 1:
            other = native.Dues(delays, periods, 1)
            other.restore(dues.snapshot())
            assert other.snapshot() == dues.snapshot()
            dues = other
        dues.add(batch)
        new = [np.frombuffer(some, kind) for some, kind in zip(dues.find(limit), "qI", strict=True)]
        found += zip(new[0].tolist(), new[1].tolist(), strict=True)
        if end > start:
            # two rows that are due at one tick count twice
            assert counts[-1] >= len(new[0])
            assert counts[0] >= np.count_nonzero(new[0] < times[0])
    wanted = {
        (-(-(time + delay) // period) * period, trace)
        for time, trace in log
        for delay in delays
        for period in periods
    }
    last = log[-1][0] if log else 0
    assert found == sorted(one for one in wanted if one[0] < last)


def test_rows_of_one_grain_are_kept_once() -> None:
    dues = native.Dues([0, 101], [10], 10)
    times = np.arange(1_000_000, dtype=np.int64) // 10_000
    dues.begin()
    dues.add(native.Batch(times, None, len(times)))
    dues.find(100)
    dues.begin()
    writer = dues.snapshot()
    assert len(writer) < 200


def test_traces_get_new_numbers() -> None:
    dues = native.Dues([0, 31], [10], 1)
    times, numbers = np.array([1, 2, 3, 4], np.int64), np.array([0, 1, 2, 0], np.uint32)
    dues.begin()
    dues.add(native.Batch(times, numbers, 4))
    dues.find(11)
    dues.keep(np.array([2**32 - 1, 0, 1], np.uint32).tobytes())
    assert dues.trace_count == 2
    found = dues.find(1000)
    assert np.frombuffer(found[0], np.int64).tolist() == [40, 40]
    assert np.frombuffer(found[1], np.uint32).tolist() == [0, 1]


def test_damaged_snapshots_are_refused() -> None:
    dues = native.Dues([0, 31], [10], 1)
    dues.begin()
    dues.add(native.Batch(np.array([1, 2], np.int64), np.array([0, 1], np.uint32), 2))
    snapshot = dues.snapshot()
    for place in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[place] ^= 0x7F
        other = native.Dues([0, 31], [10], 1)
        try:
            other.restore(bytes(damaged))
        except SnapshotError:
            continue
        other.find(10_000)
    with pytest.raises(ValueError, match="no such delays"):
        native.Dues([1], [10], 1)


def test_some_ticks_come_at_a_time() -> None:
    dues = native.Dues([0], [10], 1)
    dues.begin()
    times = np.arange(1, 1000, 10)
    dues.add(native.Batch(times, None, len(times)))
    behind = dues.time_behind(30)
    assert 200 <= behind <= 400
    dues.find(behind)
    assert dues.time_behind(0) > behind
    dues.find(10_000)
    assert dues.time_behind(5) == 2**63 - 1


def test_messages_are_repeated_where_values_stay() -> None:
    text = (
        "key k\nstream n = count[0,45]() every 10\n"
        'trigger busy on every 10: n > 0 message "has {n}"'
    )
    rows_of = pa.table({"ts": [5, 6, 22, 100, 190], "k": ["a", "b", "a", "a", "b"]})
    for size in (1, 2, 5):
        reader = pa.RecordBatchReader.from_batches(rows_of.schema, rows_of.to_batches(size))
        check = mtlmon.check(text, reader, verdicts="false")
        found = [
            (row["time"], row["message"]) for row in check.to_arrow().to_pylist() if row["k"] == "a"
        ]
        counts = {10: 1, 20: 1, 30: 2, 40: 2, 50: 2, 60: 1}
        counts |= {100: 1, 110: 1, 120: 1, 130: 1, 140: 1}
        assert found == [(time, f"has {count}") for time, count in counts.items()]
