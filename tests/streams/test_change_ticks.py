"""Time-points at which relations change, beside rows and ticks of periods."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.doors import Changes
from tests.streams.programs import PERIODS, Row, StreamText, Texts, Tick, Writer, rows
from tests.streams.test_due_ticks import filled
from tests.streams.test_ticks import CUTS, expected, in_batches, require_same

AT = Changes("r"), Changes("other")
# not a multiple of the periods of streams, which cannot be read at changes
_AT_CHANGES = 10**9 + 7

CHANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=12, unique=True)


@st.composite
def changing_programs(draw: st.DrawFn) -> Texts:
    """Streams at rows and ticks, and expressions that are wanted there and at changes."""
    kinds = st.sampled_from(["integer", "float", "boolean", "text"])
    streams: dict[str, StreamText] = {}
    known: dict[str, str] = {}
    periods: dict[str, int] = {}
    writer = Writer(draw, known, periods)
    for number in range(draw(st.integers(0, 2))):
        kind, writer.period = draw(kinds), draw(st.sampled_from([0, *PERIODS, *PERIODS]))
        name = f"x{number}"
        streams[name] = writer.expression(kind, 2), None, writer.period
        known[name], periods[name] = kind, writer.period
    wanted: list[tuple[str, int | Changes]] = []
    for where in (AT[0], draw(st.sampled_from(AT)), draw(st.sampled_from([0, *PERIODS]))):
        writer.period = where if isinstance(where, int) else _AT_CHANGES
        wanted.append((writer.expression(draw(kinds), 2), where))
    return Texts(streams, wanted, {one.relation: draw(CHANGES) for one in AT})


@given(changing_programs(), rows(20), CUTS, st.integers(0, 3))
def test_programs_are_those_of_the_reference(
    texts: Texts, log: list[Row], cuts: list[int], saved: int
) -> None:
    until = log[-1][0] + 7 if log else 7
    wanted = expected(texts, log, until)
    require_same(in_batches(texts, log, cuts, saved, until), wanted, texts)


def with_all_changes(due: list[Tick], every: list[Tick]) -> list[Tick]:
    """Fill in the ticks of periods that are left out; at changes, none is."""
    found = [one for one in due if "changes of" in one[3]]
    periodic = [one for one in every if "changes of" not in one[3]]
    return found + filled([one for one in due if "changes of" not in one[3]], periodic)


@given(changing_programs(), rows(20), CUTS, st.integers(0, 3), st.booleans())
def test_no_change_is_left_out_beside_due_ticks(
    texts: Texts, log: list[Row], cuts: list[int], saved: int, can_leave_out: bool
) -> None:
    until = log[-1][0] + 17 if log else 7
    wanted = expected(texts, log, until)
    found, due = in_batches(
        texts, log, cuts, saved, until, only_due=True, can_leave_out=can_leave_out
    )
    require_same((found, with_all_changes(due, wanted[1])), wanted, texts)


READ_AT_CHANGES = ["x.last()", "x.last(2)", "x.hold()", "x.at(-1)", "x.at(-3)", "count[0,3]()"]


@given(st.sampled_from(READ_AT_CHANGES), st.sampled_from(PERIODS), CHANGES, rows(20), CUTS)
@example("x.last()", 4, [(4, 0), (5, 0), (8, 0), (9, 0)], [(0, 0, {}), (9, 0, {})], [])
def test_earlier_values_of_ticks(
    text: str, period: int, changes: list[tuple[int, int]], log: list[Row], cuts: list[int]
) -> None:
    """A change sees the tick at its own time, whose value is left out where it stays as it was."""
    log = [(time, trace, dict.fromkeys("ifbs") | row) for time, trace, row in log]
    texts = Texts({"x": ("count[0,5]()", None, period)}, [(text, AT[0])], {"r": changes})
    assert texts.program(only_due=True).due_ticks is not None or "x" not in text
    until = log[-1][0] + 20 if log else 7
    wanted = expected(texts, log, until)
    require_same(in_batches(texts, log, cuts, 1, until, only_due=True), wanted, texts)


def test_ticks_and_changes_at_one_time_are_one_tick() -> None:
    texts = Texts(
        {"x": ("count[0,9]()", None, 10)},
        [("x", 10), ("x.hold()", AT[0])],
        {"r": [(10, 1), (10, 0), (15, 1), (20, 5)]},
    )
    log: list[Row] = [(time, trace, dict.fromkeys("ifbs")) for time, trace in [(3, 0), (9, 1)]]
    program = texts.program()
    assert program.has_ticks
    _, ticks = in_batches(texts, log, [1], 5, 21)
    at_changes = [one[:3] + one[4:] for one in ticks if "changes" in one[3]]
    assert at_changes == [(10, 0, 2, 1), (10, 1, 2, 1), (15, 1, 2, 1)]
    assert [one[:2] for one in ticks if "changes" not in one[3]] == [
        (10, 0),
        (10, 1),
        (20, 0),
        (20, 1),
    ]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_some_changes_at_a_time(count: int) -> None:
    """`time_behind` goes on, and `tick_count` says how many there are at most."""
    texts = Texts({}, [("true", AT[0])], {"r": [(time, 0) for time in range(5, 25)]})
    program = texts.program()
    log: list[Row] = [(0, 0, dict.fromkeys("ifbs"))]
    in_batches(texts, log, [], 1, 30)
    from tests.streams.programs import evaluated

    evaluated(program, log, periods=texts.periods, ticks=[])
    found: list[Tick] = []
    while program.ticks_end < 30:
        until = program.time_behind(count)
        assert until is not None
        assert until > program.ticks_done
        evaluated(program, [], periods=texts.periods, ticks=found, until=min(until, 30))
    assert [one[0] for one in found] == list(range(5, 25))
