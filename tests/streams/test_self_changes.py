"""Ticks at which values change without rows, but keys rest as soon as nothing changes any more."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon.errors import PolicyError
from mtlmon.policy import Environment
from tests.doors import StreamProgram
from tests.reference import streams as reference
from tests.streams.programs import (
    PERIODS,
    SCHEMA,
    Row,
    StreamText,
    Texts,
    Tick,
    evaluated,
    recursive_ticking_programs,
    rows,
)
from tests.streams.test_due_ticks import filled
from tests.streams.test_ticks import expected, require_same

TIMED = SCHEMA.append(pa.field("t", pa.int64()))


class TimedTexts(Texts):
    """The texts of a program that knows its time column."""

    def program(
        self, schema: pa.Schema = TIMED, *, only_due: bool = False, can_leave_out: bool = False
    ) -> StreamProgram:
        """Return a program whose column `t` has the time-stamps."""
        return StreamProgram(
            self.wanted,
            self.streams,
            schema,
            environment=Environment(time="t"),
            periods=self.periods,
            only_due=only_due,
            can_leave_out=can_leave_out,
        )

    def reference(self) -> reference.Program:
        """Return a new one."""
        found = super().reference()
        return reference.Program(found.wanted, found.streams, self.periods, "t")


def timed(log: list[Row]) -> list[Row]:
    """Rows with their time-stamps."""
    return [(time, trace, {**row, "t": time}) for time, trace, row in log]


# What depends on the time; `t - x` may overflow where `x` is a column.
CONDITIONS = [
    "t - t.hold() > 25",
    "t - seen.hold() >= 31",
    "t - due.hold() > 17 or t - seen.hold() > 40",
    "60 - t > due.hold()",
    "t - t.hold() > 4",
    "t - t.last(2, or: 0) <= 5",
    "7 < t - seen.hold()",
    "coalesce(t - seen.hold(), 3) >= 3",
    "t - due.hold() = 0",
    "due.hold() - t < 2",
    "due.hold() > t",
    "min(t - t.hold(), 5) * 2 > 6",
    "abs(t - due.hold()) < 3",
    "(t - t.hold()) / 2 > 2.5",
    "if count[0,3]() > 0 then t - t.hold() > 1 else due.hold() != t",
    "t - i.hold() > 6",
    "t * 3 - f.hold() < 40",
    "(t - due.hold() > 0) = (t - seen.hold() < 9)",
    "integral[0,40](t % 3) > 11",
    "n.last(or: 0) < 3 and t - t.hold() > 2",
    "t - t.hold() > 12 and count[0,2](b) = 0",
]
WANTED = [
    "quiet",
    "not quiet",
    "quiet is null",
    "gap > 3",
    "quiet and not quiet.last(or: true)",
    "quiet.at(-12, or: false)",
    "quiet.last(2)",
    "n",
    "n > 1 or m.last(or: 0.0) > 1.0",
    "m",
    "n.last()",
    "max[0,9](n)",
    "any[0,20](quiet)",
    "distinct[0,13](gap > 3)",
    "first[0,30](m)",
    "sum[0,9](n)",
    "avg[3,20](m)",
    "count[0,13](quiet)",
    "stddev[0,30](n.last())",
]


@st.composite
def timed_programs(draw: st.DrawFn) -> TimedTexts:
    period = draw(st.sampled_from(PERIODS))
    condition = st.sampled_from(CONDITIONS)
    streams: dict[str, StreamText] = {
        "seen": ("t", "b"),
        "due": ("t + i % 20", None),
        "quiet": (draw(condition), None, period),
        "gap": ("t - seen.hold()", None, period),
        "n": (
            draw(
                st.sampled_from(
                    [
                        "if c then min(n.last(or: 0) + 1, 3) else 0",
                        "n.last(or: 0) + (if c then 1 else 0)",
                        "if count[0,9]() > 0 then n.last(or: 0) + 1 else null",
                        "if c then 2 - n.last(2, or: 0) else n.last(3)",
                        "if n.last(2, or: 1) = 1 and c then null else coalesce(i.hold(), 1) % 3",
                        "if c then n.at(-13, or: 7) else 1 - n.last(2, or: 0)",
                        "if n.at(-9, or: 0) > 2 then null else min(n.at(-20, or: 0) + 1, 3)",
                        "if c then n.last(9, or: 0) else 4",
                        "if c then 2 - back.hold(1, or: 0) else n.last(3)",
                        "if back.hold(2) = 1 and c then null else n.last(or: 0) % 3 + 1",
                    ]
                )
            ),
            None,
            period,
        ),
        "back": ("if n.last() > 2 then null else n.last()", None, period),
        "c": (draw(st.sampled_from([one for one in CONDITIONS if "n." not in one])), None, period),
        "m": ("0.5 * m.last(or: 0.0) + coalesce(f.hold(), 1.0) * 0.5", None, period),
    }
    wanted: list[str | tuple[str, int]] = []
    for text in draw(st.lists(st.sampled_from(WANTED), min_size=1, max_size=3)):
        wanted.append((text, draw(st.sampled_from([period, period, 2 * period]))))
    return TimedTexts(streams, [*wanted, draw(st.sampled_from(["quiet.hold()", "n.hold()"]))])


def in_steps(
    texts: Texts,
    log: list[Row],
    until: int,
    *,
    step: int,
    size: int = 3,
    saved: int = -1,
    can_leave_out: bool = False,
    schema: pa.Schema = TIMED,
) -> tuple[list[dict[str, Any] | None], list[Tick]]:
    """What a program computes that only looks at some of the next ticks at once.

    Args:
        texts: the program.
        log: the rows.
        until: compute all ticks below this time.
        step: how much time passes at once where there are no rows.
        size: how many rows come at once.
        saved: which step a program takes that continues a snapshot of the one before.
        can_leave_out: whether all ticks are computed after an overflow.
        schema: the schema of the rows.
    """

    def new() -> StreamProgram:
        return texts.program(schema, only_due=True, can_leave_out=can_leave_out)

    program, steps = new(), 0
    found: list[dict[str, Any] | None] = []
    ticks: list[Tick] = []
    for some in [*(log[place : place + size] for place in range(0, len(log), size)), []]:
        end = some[0][0] if some else until
        while True:
            if steps == saved:
                snapshot, program = program.snapshot(), new()
                program.restore(snapshot)
                assert program.snapshot() == snapshot
            steps += 1
            clock = program.ticks_done
            # without ticks, which what reads itself need not have, there are no steps
            is_last = not found or not program.has_ticks or clock + step >= end
            found += evaluated(
                program,
                some if is_last else [],
                schema,
                periods=texts.periods,
                ticks=ticks,
                first=sum(one is not None for one in found),
                until=(None if some else until) if is_last else clock + step,
            )
            if is_last:
                break
    return found, ticks


STEPS = st.sampled_from([1, 2, 5, 12, 1000])


@settings(max_examples=150)
@given(timed_programs(), rows(12), STEPS, st.integers(1, 4), st.integers(0, 20), st.booleans())
def test_values_stay_while_keys_rest(
    texts: TimedTexts, log: list[Row], step: int, size: int, saved: int, can_leave_out: bool
) -> None:
    log = timed(spread(log))
    until = log[-1][0] + 60 if log else 7
    wanted = expected(texts, log, until)
    found, due = in_steps(
        texts, log, until, step=step, size=size, saved=saved, can_leave_out=can_leave_out
    )
    require_same((found, filled(due, wanted[1])), wanted, texts)


def spread(log: list[Row]) -> list[Row]:
    """The rows with longer silences between them, and traces in the order of their first rows."""
    order = list(dict.fromkeys(trace for _, trace, _ in log))
    return [(time + 9 * (time // 6), order.index(trace), row) for time, trace, row in log]


@st.composite
def filling_programs(draw: st.DrawFn) -> TimedTexts:
    """Windows of ticks, over each other, that tell how often a value is in them."""
    period = draw(st.sampled_from(PERIODS))
    aggregate = st.sampled_from(
        ["sum", "sum", "avg", "avg", "var", "stddev", "max", "last", "distinct"]
    )
    streams: dict[str, tuple[str, None, int]] = {"x": (draw(st.sampled_from(VALUES)), None, period)}
    for name in ["w0", "w1"]:
        lower, length = draw(st.integers(0, 15)), draw(st.integers(0, 20))
        argument = draw(st.sampled_from([*streams]))
        text = f"{draw(aggregate)}[{lower},{lower + length}]({argument})"
        if draw(st.integers(0, 3)) == 0:
            default = draw(st.sampled_from(["", ", or: 3"]))
            text = f"count[{lower},{lower + length}]({argument} > 0.5{default})"
        streams[name] = text, None, draw(st.sampled_from([period, period, 2 * period]))
        if streams[name][2] != period:
            break
    wanted: list[str | tuple[str, int]] = ["x.hold()"]
    wanted += [(name, stream[2]) for name, stream in streams.items() if name != "x"]
    return TimedTexts({**streams}, wanted)


VALUES = [
    "count[0,3]()",
    "i.hold() % 3",
    "if count[0,5](b) > 0 then null else i.hold() % 2",
    "avg[0,7](f, or: 0.0)",
    "if t - t.hold() > 12 then 2 else 1",
    "integral[0,6](i % 5)",
    "if t % 2 = 0 then 1 else 0",
]


@settings(max_examples=150)
@given(filling_programs(), rows(12), STEPS, st.integers(1, 4), st.integers(0, 20), st.booleans())
def test_windows_of_ticks_rest_when_they_are_full(
    texts: TimedTexts, log: list[Row], step: int, size: int, saved: int, can_leave_out: bool
) -> None:
    log = timed(spread(log))
    until = log[-1][0] + 90 if log else 7
    wanted = expected(texts, log, until)
    found, due = in_steps(
        texts, log, until, step=step, size=size, saved=saved, can_leave_out=can_leave_out
    )
    require_same((found, filled(due, wanted[1])), wanted, texts)


@settings(max_examples=60)
@given(recursive_ticking_programs(), rows(), STEPS, st.integers(1, 4), st.integers(0, 20))
def test_streams_that_read_themselves_rest(
    texts: Texts, log: list[Row], step: int, size: int, saved: int
) -> None:
    try:
        texts.program()
    except PolicyError as error:
        # the type of a stream that reads itself is not always found
        assume("both must have the same type" not in str(error))
        raise
    log = spread(log)
    until = log[-1][0] + 30 if log else 7
    wanted = expected(texts, log, until)
    found, due = in_steps(
        texts, log, until, step=step, size=size, saved=saved, can_leave_out=True, schema=SCHEMA
    )
    require_same((found, filled(due, wanted[1])), wanted, texts)


def computed(texts: Texts, log: list[Row], until: int, step: int = 10) -> dict[int, list[int]]:
    """The times of the ticks that are computed, by trace, if ticks come one after the other."""
    wanted = expected(texts, log, until)
    found, due = in_steps(texts, log, until, step=step, size=1)
    require_same((found, filled(due, wanted[1])), wanted, texts)
    times: dict[int, list[int]] = {}
    for time, trace in sorted({(time, trace) for time, trace, *_ in due}):
        times.setdefault(trace, []).append(time)
    return times


CELLS: dict[str, Any] = {"i": 1, "f": 1.0, "b": True, "s": "a"}


@pytest.mark.parametrize(
    ("text", "due"),
    [
        # one tick too many where limits are not whole numbers of ticks, as times are rounded
        ("t - t.hold() > 50", [10, 50, 60]),
        ("t - t.hold() > 55", [10, 60]),
        ("t.last() + 55 < t", [10, 60]),
        ("t - t.hold() > 500", [10, 500, 510]),
        ("i.hold() > t", [10]),
        ("x > 2.5", [10, 20, 30, 40, 50]),
        ("x.last() > 2.5", [10, 20, 30, 40, 50, 60]),
        ("n > 1", [10, 20]),
        ("integral[0,170](f) > 3.0", [*range(10, 190, 10)]),
        ("q and not q.last(or: true)", [10, 20, 60, 70]),
        ("x2 > 2.5", [10, 20, 30, 40, 50, 60, 70, 80, 90]),
        ("x3 > 2", [10, 20, 30, 40]),
        ("ago > 2", [10, 20, 30, 40, 50]),
        ("held > 3", [10, 20, 30]),
        ("h > 3", [10, 20, 30, 40, 50, 60]),
        ("any[0,40](q)", [10, *range(50, 110, 10)]),
        ("sum[0,40](x)", [*range(10, 100, 10)]),
        ("avg[10,40](n)", [*range(10, 70, 10)]),
        ("count[0,30](q)", [*range(10, 50, 10), *range(60, 100, 10)]),
    ],
)
def test_few_ticks_are_computed(text: str, due: list[int]) -> None:
    streams: dict[str, StreamText] = {
        "x": ("min(x.last(or: 0.0) + 1.0, 4.0)", None, 10),
        "n": ("if b.hold() then n.last(or: 5) else 0", None, 10),
        "q": ("t - t.hold() > 53", None, 10),
        "x2": ("min(x2.last(2, or: 0.0) + 1.0, 4.0)", None, 10),
        "x3": ("max(x3.last(3, or: 1), 3)", None, 10),
        "ago": ("max(ago.at(-25, or: 1), 3)", None, 10),
        "held": ("other.last(or: 2) + 1", None, 10),
        "other": ("min(held.hold(or: 1), 3)", None, 10),
        "h": ("g.hold(1, or: 2) + 1", None, 10),
        "g": ("min(h.last(or: 1), 3)", None, 10),
    }
    texts = TimedTexts(streams, [(text, 10)])
    assert computed(texts, timed([(2, 0, CELLS)]), 2000) == {0: due}


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        # The difference to the limit is more than 64 bits can hold, but the comparison is exact.
        ("t - t.hold() > -9223372036854775800 and t - t.hold() > 55", 2),
        # Times plus silences could be more than 64 bits can hold.
        ("t - t.hold() > 55", 2**62 - 150),
        ("t - t.hold() > 55", 2**63 - 200),
    ],
)
def test_all_ticks_are_computed_where_numbers_are_too_large(text: str, begin: int) -> None:
    texts = TimedTexts({}, [(text, 10)])
    found = computed(texts, timed([(begin, 0, CELLS)]), begin + 150)
    first = -(-begin // 10) * 10
    assert found == {0: [*range(first, begin + 150, 10)]}


def test_a_row_wakes_its_key_only() -> None:
    texts = TimedTexts({}, [("t - t.hold() > 50", 10)])
    log = timed([(2, 0, CELLS), (3, 1, CELLS), (42, 0, CELLS), (601, 1, CELLS)])
    found = computed(texts, log, 2000)
    assert found == {0: [10, 50, 90, 100], 1: [10, 50, 60, 610, 650, 660]}


def test_there_are_reasons_where_the_time_passes() -> None:
    for text, reason in {
        "(t - t.hold()) % 7 > 2": "changes with the time at ticks that are not known",
        "t - t.hold()": "changes at every tick",
    }.items():
        program = TimedTexts({}, [(text, 10)]).program(only_due=True)
        assert [one.reason for one in program.obstacles] == [f"{text} {reason}"]
    streams: dict[str, StreamText] = {"gap": ("t - t.hold()", None, 10)}
    program = TimedTexts(streams, [("gap.last()", 10)]).program(only_due=True)
    reason = "gap.last() takes a value that changes at every tick"
    assert [one.reason for one in program.obstacles] == [reason]
    assert not TimedTexts({}, [("t - t.hold() > 5", 10)]).program(only_due=True).obstacles


@pytest.mark.parametrize("distance", [2, 3, 7, 8, 9])
@pytest.mark.parametrize("earlier", ["z.last({}, or: 0)", "y.hold({}, or: 0)"])
def test_ticks_without_a_value_are_passed_over(earlier: str, distance: int) -> None:
    text = f"if i.hold() > 3 then null else ({earlier.format(distance)} * 2 + 3) % 7"
    before = "if i.at(-5) > 3 then null else z.last()"
    texts = TimedTexts({"z": (text, None, 10), "y": (before, None, 10)}, [("z", 10)])
    values = {2: 1, 5 + 10 * distance: 9, 25 + 10 * distance: 1, 600: 9, 620: 2}
    log = [(time, 0, {**CELLS, "i": value}) for time, value in values.items()]
    assert computed(texts, timed(log), 900)


@pytest.mark.parametrize("only_due", [True, False])
def test_traces_with_ticks_are_never_settled(only_due: bool) -> None:
    """Their ticks go on, so they must not be forgotten although their windows are empty."""
    texts = TimedTexts({}, [("count[0,3]() > 0", 10)])
    program = texts.program(only_due=only_due)
    log = timed([(2, 0, CELLS), (3, 1, CELLS), (900, 1, CELLS)])
    ticks: list[Tick] = []
    evaluated(program, log, TIMED, periods=texts.periods, ticks=ticks, until=990)
    assert ticks
    assert program.settled(3).tolist() == [False, False, True]
