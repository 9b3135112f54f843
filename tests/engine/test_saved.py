"""Saved states: loaded, they go on as the state itself would; equal ones answer alike."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import (
    Formula,
    LimitError,
    Monitor,
    MonitorBrokenError,
    MtlmonError,
    Program,
    SnapshotError,
    Verdict,
    parse,
)
from tests import strategies
from tests.comparison import compare_saved, shift
from tests.corpus import Case, load_cases
from tests.doors import SavedState
from tests.doors import expressions_bdd as bdd
from tests.engines import programs_of, with_expressions, with_network
from tests.properties import Timeline
from tests.soak import GAPS, RATES, Generator
from tests.traces import MODES, Advance, Event, Mode, Step, Trace

PENDING = "ALWAYS[0,9] (p IMPLIES EVENTUALLY[2,5] q)"
MIXED = "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))"


def resume(monitor: Monitor, step: Step) -> list[Verdict]:
    if isinstance(step, Advance):
        return monitor.advance(step.time_stamp)
    return monitor.step(step.time_stamp, step.atoms)


def after(program: Program, mode: Mode, steps: Trace) -> Monitor:
    monitor = Monitor(program, mode)
    for step in steps:
        resume(monitor, step)
    return monitor


# ---- copied, restored and undisturbed states ---------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_corpus(case: Case, mode: Mode) -> None:
    for program in programs_of(parse(case.formula), mode):
        compare_saved(program, case.trace, mode)


@given(
    st.one_of(strategies.formulas(), strategies.compounds(), strategies.sandwiches()),
    st.sampled_from(MODES),
    strategies.traces(maximum_length=14, advances=True),
)
def test_formulas_of_all_operators(formula: Formula, mode: Mode, steps: Trace) -> None:
    for program in programs_of(formula, mode):
        compare_saved(program, steps, mode)


@given(
    strategies.formulas(widths=strategies.huge_intervals()),
    st.sampled_from(MODES),
    st.one_of(strategies.traces(), strategies.huge_traces()),
)
def test_huge_bounds_and_time_stamps(formula: Formula, mode: Mode, steps: Trace) -> None:
    for program in programs_of(formula, mode):
        compare_saved(program, steps, mode)


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("rate", RATES)
def test_event_rates_and_gaps(rate: int, gaps: str) -> None:
    generator = Generator(900 * rate + len(gaps))
    for _ in range(5):
        formula, steps, _ = generator.rated_example(rate, gaps)
        for mode in MODES:
            for program in programs_of(formula, mode):
                compare_saved(program, steps, mode)


@pytest.mark.parametrize("make", [with_expressions, with_network])
@pytest.mark.parametrize("rate", [1, 40])
def test_more_undecided_time_points_than_a_configuration_takes(make: Any, rate: int) -> None:
    """They have no place in the transition table; nor have time-stamps beyond 2^48."""
    source = random.Random(rate)
    steps = tuple(
        Event(k // rate, frozenset(name for name in "pq" if source.random() < 0.1))
        for k in range(200)
    )
    for formula in ("ALWAYS[0,300] (p IMPLIES EVENTUALLY[100,200] q)", "EVENTUALLY[90,300] p"):
        compare_saved(make(formula), steps, "naive" if rate == 40 else "local")
    compare_saved(make(PENDING), shift(Timeline(steps), 2**50).steps, "local")


# ---- what equality means -----------------------------------------------------------------------


@st.composite
def same_ends(draw: st.DrawFn) -> tuple[Trace, Trace, Trace]:
    """Two traces with the same clock and name of the last event, and what may follow."""
    first, second = (draw(strategies.traces(maximum_length=5)) for _ in range(2))
    clock = max(first[-1].time_stamp, second[-1].time_stamp) + draw(st.integers(0, 12))
    suffix = tuple(
        Event(clock + step.time_stamp, step.atoms)
        for step in draw(strategies.traces(maximum_length=3, start=st.just(1)))
        if isinstance(step, Event)
    )
    last = suffix[-1].time_stamp
    following = tuple(
        step._replace(time_stamp=last + step.time_stamp)
        for step in draw(strategies.traces(advances=True))
    )
    return first + suffix, second + suffix, following


@settings(max_examples=400)
@given(
    st.one_of(strategies.formulas(depth=2), strategies.sandwiches()),
    st.sampled_from(MODES),
    same_ends(),
)
def test_equal_states_answer_alike(
    formula: Formula, mode: Mode, traces: tuple[Trace, Trace, Trace]
) -> None:
    *ends, following = traces
    for program in programs_of(formula, mode):
        one, other = (after(program, mode, steps) for steps in ends)
        is_equal = SavedState(one).is_state_of(other)
        assert SavedState(other).is_state_of(one) == is_equal
        if not is_equal:
            continue
        assert one.pending == other.pending
        for step in following:
            assert resume(one, step) == resume(other, step)
            assert SavedState(one).is_state_of(other)
        assert one.finish("inf") == other.finish("inf")


@settings(max_examples=200)
@given(
    st.one_of(strategies.bounded_formulas(), strategies.sandwiches()),
    st.sampled_from(MODES),
    strategies.traces(),
    strategies.traces(),
    st.integers(0, 2**32),
)
def test_what_is_too_old_makes_no_difference(
    formula: Formula, mode: Mode, first: Trace, second: Trace, seed: int
) -> None:
    """Events from before the reach of all operators together leave no trace."""
    source = random.Random(seed)
    for program in programs_of(formula, mode):
        if any(upper is None for _, _, _, _, upper, _ in program.rows):
            continue
        # Every operator looks back or ahead at most this far, one or two events included.
        reach = sum(upper + 1 for _, _, _, _, upper, _ in program.rows if upper is not None)
        clock = max(first[-1].time_stamp, second[-1].time_stamp) + 1
        suffix = []
        for _ in range(reach + 2 * len(program.rows) + 10):
            clock += source.choice([1, 1, 2])
            names = frozenset(name for name in "pqr" if source.random() < 0.4)
            suffix.append(Event(clock, names))
        one, other = (after(program, mode, (*steps, *suffix)) for steps in (first, second))
        assert SavedState(one).is_state_of(other)


@pytest.mark.parametrize(
    ("formula", "one", "other"),
    [
        ("p", "@5", "@6"),
        ("p", "@5", "@5; @5"),
        ("p", "@5", "@5; advance 7"),
        ("p", "", "@0"),
        ("p", "", "advance 1"),
        ("PREVIOUS p", "@5 p", "@5"),
        ("ONCE[0,9] p", "@1 p; @5", "@2 p; @5"),
        ("ONCE[0,9] p", "@1 p; @5", "@1; @5"),
        ("ONCE[3,*) p", "@1; @3 p; @5", "@1; @4 p; @5"),
        ("p SINCE[2,4] q", "@1 q; @2 p; @5 p", "@1; @2 q p; @5 p"),
        ("EVENTUALLY[0,9] p", "@5", "@5 p"),
        ("EVENTUALLY[0,9] p", "@4; @5", "@3; @5"),
        # The names and the numbers of undecided time-points.
        ("EVENTUALLY[0,9] p", "@4; @5", "@4; @4; @5"),
        ("NEXT[0,3] PREVIOUS[0,3] p", "@5; @5 p", "@5; @5"),
        (PENDING, "@1 p; @3 q; @4", "@1 p; @3; @4"),
        (MIXED, "@1 p; @2 q; @3", "@1 p; @2; @3"),
    ],
)
def test_states_that_differ(formula: str, one: str, other: str) -> None:
    mode: Mode = "local"
    for program in programs_of(parse(formula), mode):
        states = [Monitor(program, mode), Monitor(program, mode)]
        for monitor, trace in zip(states, (one, other), strict=True):
            for step in filter(None, trace.split("; ")):
                head, *names = step.split()
                if head == "advance":
                    monitor.advance(int(names[0]))
                else:
                    monitor.step(int(head[1:]), names)
        differ = [
            not SavedState(first).is_state_of(second) for first in states for second in states
        ]
        assert differ == [False, True, True, False], program.rows


@pytest.mark.parametrize(
    ("formula", "one", "other"),
    [
        ("PREVIOUS[0,3] p", "@1 p; @2", "@1; @2"),
        ("ONCE[0,3] p", "@1 p; @2 p; @5", "@1; @2 p; @5"),
        ("ONCE[2,3] p", "@1 p; @2 p; @6", "@1; @2; @6"),
        # A window of 2 to 5 cannot lie between the witnesses, whatever comes.
        ("ONCE[2,5] p", "@1 p; @3 p; @5 p; @6", "@1 p; @4 p; @5 p; @6"),
        ("ONCE[2,*) p", "@1 p; @3 p; @5", "@2 p; @5"),
        ("p SINCE q", "@1 q; @2 p; @3; @4", "@1; @2; @3; @4"),
        ("EVENTUALLY[0,3] p", "@1; @2; @3 p", "@1 p; @2; @3 p"),
        ("EVENTUALLY[0,9] (q AND ONCE[0,3] p)", "@1 p; @7", "@1; @7"),
        ("EVENTUALLY[0,3] PREVIOUS[2,9] p", "@1 p; @2; @7", "@1; @2; @7"),
    ],
)
def test_states_reached_in_other_ways(formula: str, one: str, other: str) -> None:
    mode: Mode = "naive"
    for program in programs_of(parse(formula), mode):
        states = [Monitor(program, mode), Monitor(program, mode)]
        for monitor, trace in zip(states, (one, other), strict=True):
            for step in trace.split("; "):
                head, *names = step.split()
                monitor.step(int(head[1:]), names)
        pending = [monitor.pending for monitor in states]
        if pending[0] == pending[1]:
            assert SavedState(states[0]).is_state_of(states[1]), program.rows


def test_bdds_with_their_variables_in_another_order() -> None:
    """A BDD keeps the order in which its monitor met the variables, and so does a snapshot."""
    others = 0
    for seed in range(30):
        source = random.Random(seed)
        one, other = Monitor(MIXED, "global"), Monitor(MIXED, "global")
        start = SavedState(one)
        for time_stamp in range(20):
            other.step(time_stamp, {name for name in "pq" if source.random() < 0.4})
        start.load(other)
        clock = 0
        for _ in range(25):
            clock += source.choice([0, 1, 1, 2])
            names = {name for name in "pq" if source.random() < 0.4}
            assert one.step(clock, names) == other.step(clock, names)
            assert SavedState(one).is_state_of(other)
            others += one.snapshot() != other.snapshot()
    assert others > 100


# ---- the interface -----------------------------------------------------------------------------


def test_a_state_outlives_its_monitor() -> None:
    monitor = Monitor(PENDING)
    monitor.step(1, {"p"})
    state = SavedState(monitor)
    pending = monitor.pending
    del monitor
    other = Monitor(PENDING)
    state.load(other)
    assert other.pending == pending
    assert state.held_bytes > 0


def test_a_finished_monitor_starts_again() -> None:
    monitor = Monitor(PENDING)
    monitor.step(1, {"p"})
    state = SavedState(monitor)
    monitor.finish("inf")
    for refused in (SavedState, state.save, state.is_state_of):
        with pytest.raises(MtlmonError, match="finished"):
            refused(monitor)
    state.load(monitor)
    assert state.is_state_of(monitor)
    assert monitor.step(1, ()) == []


def test_a_broken_monitor_goes_on_from_a_saved_state() -> None:
    """A BDD over more obligations than `dd` can recurse through breaks the monitor."""
    formula = "ALWAYS[0,9999] ((EVENTUALLY[0,9000] p) EQUIV EVENTUALLY[0,8000] q)"
    monitor = Monitor(formula, "global")
    monitor.step(0, ())
    state = SavedState(monitor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bdd, "SUPPORT_LIMIT", 1)
        with pytest.raises(LimitError):
            monitor.step(1, ())
    for refused in (SavedState, state.is_state_of):
        with pytest.raises(MonitorBrokenError):
            refused(monitor)
    state.load(monitor)
    assert state.is_state_of(monitor)
    twin = Monitor(formula, "global")
    assert twin.step(0, ()) == []
    assert monitor.step(1, {"p"}) == twin.step(1, {"p"})


def test_a_state_of_another_kind() -> None:
    monitor = Monitor("EVENTUALLY[0,5] p")
    state = SavedState(monitor)
    for other in (Monitor("EVENTUALLY[0,6] p"), Monitor("EVENTUALLY[0,5] p", "global")):
        for refused in (state.load, state.is_state_of):
            with pytest.raises(SnapshotError, match="another formula or mode"):
                refused(other)
        other.step(0, ())
    # The same formula, compiled again.
    assert state.is_state_of(Monitor("EVENTUALLY[0,5] p"))
    # What was saved last counts.
    another = Monitor("EVENTUALLY[0,6] p")
    state.save(another)
    assert state.is_state_of(another)
    for wrong in (None, 5, b"state"):
        with pytest.raises(TypeError):
            state.load(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [with_expressions, with_network])
def test_saving_leaves_the_transition_table_in_use(make: Any) -> None:
    monitor = Monitor(make("p IMPLIES EVENTUALLY[0,3] q"))
    state = SavedState(monitor)
    for time_stamp in range(200):
        monitor.step(time_stamp, {"p"} if time_stamp % 3 else {"q"})
        state.save(monitor)
        assert state.is_state_of(monitor)
    assert monitor.counters["table_hits"] > 150


def test_a_network_goes_on_with_the_transition_table() -> None:
    """A state that is loaded has its configuration at once, if the table knows it."""
    monitor = Monitor(with_network(PENDING))
    for time_stamp in range(200):
        monitor.step(time_stamp, {"p"} if time_stamp % 3 else {"q"})
    state = SavedState(monitor)
    monitor.step(200, {"p"})
    state.load(monitor)
    hits = monitor.counters["table_hits"]
    monitor.step(200, {"p"})
    assert monitor.counters["table_hits"] == hits + 1
