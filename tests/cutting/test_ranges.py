"""Ranges of a trace have the verdicts of one monitor, whatever is cut where."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mtlmon import Monitor, atom, parse, resolve
from tests.corpus import load_cases
from tests.cutting.in_memory import verdicts_in_ranges
from tests.doors import make
from tests.doors import syntax_operators as ops
from tests.strategies import (
    compounds,
    end_times,
    formulas,
    huge_intervals,
    huge_traces,
    intervals,
    sandwiches,
    traces,
)
from tests.traces import MODES, Event, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon import Formula
    from tests.traces import EndTime, Step, TimePoint


def verdicts_of_one(
    formula: Formula | str, events: Sequence[Event], mode: Mode = "local", end_time: EndTime = None
) -> list[tuple[TimePoint, bool]]:
    monitor = Monitor(formula, mode)
    verdicts = [verdict for event in events for verdict in monitor.step(*event)]
    verdicts += monitor.finish(end_time)
    resolved = resolve(verdicts)
    return sorted(((one.time_stamp, one.offset), bool(one.value)) for one in resolved)


def random_events(seed: int, count: int) -> list[Event]:
    source = random.Random(seed)
    time_stamp = source.randint(0, 3)
    events = []
    for _ in range(count):
        time_stamp += source.choice([0, 0, 1, 1, 2, 3, 7])
        events.append(Event(time_stamp, frozenset(name for name in "pqr" if source.random() < 0.4)))
    return events


def literals() -> st.SearchStrategy[Formula]:
    return st.sampled_from([parse(text) for text in ("p", "q", "r", "NOT p", "NOT q", "true")])


@st.composite
def unbounded_formulas(draw: st.DrawFn) -> Formula:
    """Boolean combinations of operators that look as far as the stream goes, not nested."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        operator = draw(st.sampled_from([ops.UNTIL, ops.RELEASE, ops.WEAK_UNTIL, ops.SINCE]))
        operands = []
        for operand in (draw(literals()), draw(literals())):
            inner = draw(st.sampled_from([None, None, ops.ONCE, ops.EVENTUALLY, ops.PREVIOUS]))
            interval = draw(intervals(unbounded=False))
            operands.append(operand if inner is None else make(inner, operand, interval=interval))
        bounds = draw(intervals(unbounded=True))
        parts.append(make(operator, *operands, interval=type(bounds)(bounds.lower, None)))
    formula = parts[0]
    for part in parts[1:]:
        formula = make(draw(st.sampled_from([ops.AND, ops.OR, ops.IFF])), formula, part)
    return formula


CUTS = st.lists(st.integers(0, 60), max_size=6)


@settings(max_examples=3000, deadline=None)
@given(
    st.one_of(formulas(), sandwiches(), compounds(), unbounded_formulas()),
    traces(maximum_length=14),
    CUTS,
    st.sampled_from(MODES),
    end_times(),
    st.integers(1, 4),
)
# Existence of events is all that a constant asks for.
@example(
    parse("PREVIOUS true"), (Event(0, frozenset()), Event(1, frozenset())), [1], "local", None, 1
)
# Made anew from its formula, the program would be a constant and know more.
@example(parse("NEXT[0,0] (NOT p AND (p AND q))"), (Event(0, frozenset()),), [], "local", None, 1)
# Without what is always true, the future is bounded: another engine would know less.
@example(
    parse("(NOT EVENTUALLY[0,1] p) AND ((EVENTUALLY true) AND PREVIOUS[0,0] EVENTUALLY[0,0] p)"),
    (Event(0, frozenset()), Event(0, frozenset())),
    [],
    "naive",
    None,
    1,
)
# One family is masked while another one is read to the end of the trace.
@example(
    parse("EVENTUALLY[1,*) NEXT[2,*) ((q OR p) WEAK_UNTIL ALWAYS[0,3] r)"),
    (Event(45, frozenset("pqr")), Event(52, frozenset("pqr")), Event(55, frozenset("pqr"))),
    [54],
    "naive",
    "inf",
    1,
)
def test_verdicts_are_those_of_one_monitor(
    formula: Formula,
    steps: tuple[Step, ...],
    cuts: list[int],
    mode: Mode,
    end_time: EndTime,
    batch: int,
) -> None:
    events = [step for step in steps if isinstance(step, Event)]
    _, found = verdicts_in_ranges(formula, events, cuts, mode, end_time, batch)
    assert found == verdicts_of_one(formula, events, mode, end_time)


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(formulas(widths=huge_intervals()), formulas()),
    huge_traces(),
    st.lists(st.integers(2**63 - 65, 2**63 - 1), max_size=3),
    st.sampled_from([None, "last", "inf"]),
)
def test_up_to_the_end_of_time(
    formula: Formula, steps: tuple[Step, ...], cuts: list[int], end_time: EndTime
) -> None:
    events = [step for step in steps if isinstance(step, Event)]
    assume(events)
    _, found = verdicts_in_ranges(formula, events, cuts, "local", end_time)
    assert found == verdicts_of_one(formula, events, "local", end_time)


def test_the_corpus_cut_at_every_time_stamp() -> None:
    count = 0
    for case in load_cases():
        events = [step for step in case.trace if isinstance(step, Event)]
        if not events:
            continue
        count += 1
        cuts = sorted({event.time_stamp for event in events})
        for end_time in (None, "last", "inf"):
            _, found = verdicts_in_ranges(case.formula, events, cuts, "local", end_time)
            assert found == verdicts_of_one(case.formula, events, "local", end_time), case.formula
    assert count > 100


LONG = [
    "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)",
    "p SINCE[2,*] (q AND PREVIOUS r)",
    "HISTORICALLY (p OR q OR ONCE (q AND EVENTUALLY[0,4] r))",
    "p IMPLIES EVENTUALLY q",
    "(p UNTIL[5,*] r) AND ONCE[0,7] (q RELEASE NOT p)",
    "(EVENTUALLY (p AND q AND r)) IFF ALWAYS[3,*] (p OR q)",
]


@pytest.mark.parametrize("end_time", [None, "last", "inf", 3000])
@pytest.mark.parametrize("formula", LONG)
def test_long_traces_are_cut(formula: str, end_time: EndTime) -> None:
    events = random_events(len(formula), 1500)
    cuts = list(range(100, 2600, 400))
    plan, found = verdicts_in_ranges(formula, events, cuts, "local", end_time, batch=100)
    assert found == verdicts_of_one(formula, events, "local", end_time)
    assert plan.range_count >= 6


@pytest.mark.parametrize(
    "formula",
    ["ALWAYS (p IMPLIES EVENTUALLY q)", "HISTORICALLY (p IMPLIES EVENTUALLY q)"],
)
def test_what_stays_open_without_limit_is_cut_only_if_the_stream_ends(formula: str) -> None:
    events = random_events(3, 300)
    ends: list[tuple[EndTime, int]] = [(None, 1), ("last", 1), ("inf", 4)]
    for end_time, ranges in ends:
        plan, found = verdicts_in_ranges(formula, events, [100, 200, 300], "local", end_time)
        assert found == verdicts_of_one(formula, events, "local", end_time)
        assert plan.range_count == ranges


def test_values_that_depend_on_each_other_are_left_to_one_monitor() -> None:
    # What is open at 44 when the trace ends at 49 cannot hold of both.
    formula = "((EVENTUALLY[0,5] p) UNTIL q) IFF NOT ((NOT EVENTUALLY[0,5] p) UNTIL (q AND p))"
    events = [Event(time_stamp, frozenset()) for time_stamp in range(50)]
    for cuts, ranges in (([10, 43], 3), ([10, 44], 1)):
        plan, found = verdicts_in_ranges(formula, events, cuts)
        assert found == verdicts_of_one(formula, events)
        assert plan.range_count == ranges


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_values_that_depend_on_each_other_at_one_of_many_last_time_points(batch: int) -> None:
    """The last time-point of all tells, wherever the reading of its time-stamp pauses."""
    formula = "((EVENTUALLY[0,5] p) UNTIL q) IFF NOT ((NOT EVENTUALLY[0,5] p) UNTIL (q AND p))"
    events = [Event(time_stamp, frozenset()) for time_stamp in [*range(50), 49, 49, 49]]
    plan, found = verdicts_in_ranges(formula, events, [10, 44], batch=batch)
    assert found == verdicts_of_one(formula, events)
    assert plan.range_count == 1


def test_one_monitor_has_all_events_beside_its_own() -> None:
    """In one piece nothing lies beyond what an event before, or after, is asked of."""
    dependent = "((EVENTUALLY[0,5] p) UNTIL q) IFF NOT ((NOT EVENTUALLY[0,5] p) UNTIL (q AND p))"
    formula = f"({dependent}) AND (PREVIOUS NEXT true) AND (NEXT PREVIOUS true)"
    events = [Event(time_stamp, frozenset()) for time_stamp in range(50)]
    plan, found = verdicts_in_ranges(formula, events, [10, 44])
    assert found == verdicts_of_one(formula, events)
    assert plan.range_count == 1


def test_values_at_a_boundary_that_is_not_where_the_last_range_begins() -> None:
    """At 42 both UNTILs are decided; they are asked for at 44, where both are open."""
    formula = "((EVENTUALLY[0,5] p) UNTIL[3,*] q) IFF NOT ((EVENTUALLY[0,5] s) UNTIL[3,*] r)"
    events = [Event(time_stamp, frozenset()) for time_stamp in range(50)]
    plan, found = verdicts_in_ranges(formula, events, [10, 42])
    assert found == verdicts_of_one(formula, events)
    assert plan.range_count == 3


@pytest.mark.parametrize(
    "formula",
    [
        "(EVENTUALLY q) IFF EVENTUALLY r",
        "(p UNTIL q) IFF (p UNTIL r)",
        "((EVENTUALLY[0,5] p) UNTIL q) IFF NOT ((EVENTUALLY[0,5] s) UNTIL r)",
        "((NOT p) UNTIL q) OR (s UNTIL r)",
    ],
)
@pytest.mark.parametrize("names", ["", "p", "ps"])
def test_values_that_do_not_depend_on_each_other_are_cut(formula: str, names: str) -> None:
    # All that is open at 44 can hold or fail, whatever the others do.
    events = [Event(number, frozenset(names if number % 5 else "ps")) for number in range(50)]
    plan, found = verdicts_in_ranges(formula, events, [10, 44])
    assert found == verdicts_of_one(formula, events)
    assert plan.range_count == 3


def test_more_atoms_than_bits() -> None:
    names = [f"a{number}" for number in range(130)]
    others = " OR ".join(names[::7])
    formula = f"(ONCE a129) OR EVENTUALLY[0,3] ((a64 AND a1) OR {others})"
    source = random.Random(1)
    events = [Event(number // 2, frozenset(source.sample(names[:129], 3))) for number in range(300)]
    _, found = verdicts_in_ranges(formula, events, [50, 100])
    assert found == verdicts_of_one(formula, events)


def test_deep_formulas() -> None:
    formula = atom("p")
    for depth in range(10_000):
        formula = formula.since(atom("q")) if depth % 1000 == 0 else ~(formula & atom("q"))
    events = random_events(5, 20)
    _, found = verdicts_in_ranges(formula, events, [10])
    assert found == verdicts_of_one(formula, events)


def test_names_of_atoms_do_not_collide() -> None:
    formula = 'ONCE ("mask outside 0" AND "mask\' witness 0")'
    names = frozenset(["mask outside 0", "mask' witness 0"])
    events = [Event(number, names if number == 3 else frozenset()) for number in range(20)]
    _, found = verdicts_in_ranges(formula, events, [2, 5, 10])
    assert found == verdicts_of_one(formula, events)
