"""What time brings without events: `Monitor.next_change` and `Monitor.settled_from`."""

from __future__ import annotations

from copy import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, Monitor
from tests.engines import programs_of, with_expressions, with_network
from tests.strategies import compounds, formulas, sandwiches, traces
from tests.traces import MAXIMUM_TIME_STAMP, MODES, Advance, Event, Mode, Step


def take(monitor: Monitor, step: Step) -> None:
    if isinstance(step, Advance):
        monitor.advance(step.time_stamp)
    else:
        monitor.step(step.time_stamp, step.atoms)


@given(
    formula=st.one_of(formulas(), sandwiches(), compounds()),
    trace=traces(advances=True),
    mode=st.sampled_from(MODES),
)
def test_nothing_before_it(formula: Formula, trace: tuple[Step, ...], mode: Mode) -> None:
    for program in programs_of(formula, mode):
        monitor = Monitor(program, mode)
        for step in trace:
            take(monitor, step)
            change = monitor.next_change
            assert change is None or change > step.time_stamp
            latest = MAXIMUM_TIME_STAMP if change is None else change - 1
            assert copy(monitor).advance(latest) == []


@given(formula=formulas(), trace=traces(advances=True), mode=st.sampled_from(MODES))
def test_following_it_brings_what_time_brings(
    formula: Formula, trace: tuple[Step, ...], mode: Mode
) -> None:
    end = trace[-1].time_stamp + 200
    for program in programs_of(formula, mode):
        monitor = Monitor(program, mode)
        for step in trace:
            take(monitor, step)
        at_once = copy(monitor)
        at_once.advance(end)
        while (change := monitor.next_change) is not None and change <= end:
            monitor.advance(change)
        assert list(map(tuple, monitor.pending)) == list(map(tuple, at_once.pending))


@pytest.mark.parametrize(
    ("formula", "change"),
    [
        ("EVENTUALLY[0,5] p", 16),
        ("EVENTUALLY[2,5] p", 12),
        ("NEXT[0,5] p", 16),
        ("NEXT[0,5] TRUE", 16),
        ("NEXT p", None),
        ("EVENTUALLY p", None),
        ("p", None),
        ("ONCE[0,5] EVENTUALLY[0,7] p", 18),
        ("(EVENTUALLY[0,5] p) AND ALWAYS[0,100] NOT q", 16),
    ],
)
def test_examples(formula: str, change: int | None) -> None:
    monitor = Monitor(formula)
    assert monitor.next_change is None
    monitor.step(10)
    assert monitor.next_change == change


@pytest.mark.parametrize(
    ("formula", "change"),
    [
        ("EVENTUALLY[2,5] p", 16),
        ("NEXT[0,5] p", 16),
        ("ONCE[0,5] EVENTUALLY[0,7] p", 18),
        ("PREVIOUS[0,3] p", None),
        ("(NEXT[0,9] p) AND ALWAYS[0,100] NOT q", 20),
    ],
)
def test_examples_in_a_network(formula: str, change: int | None) -> None:
    monitor = Monitor(with_network(formula))
    monitor.step(10)
    assert monitor.next_change == change


def test_only_expressions_change_where_a_window_opens() -> None:
    """From then on, obligations of other windows may be the same."""
    monitor = Monitor(with_network("EVENTUALLY[2,5] p"))
    monitor.step(10)
    assert monitor.next_change == 16
    monitor = Monitor(with_expressions("EVENTUALLY[2,5] p"))
    monitor.step(10)
    assert monitor.next_change == 12
    assert monitor.advance(12) == []
    assert monitor.next_change == 16


def test_what_is_decided_does_not_wait_for_time() -> None:
    monitor = Monitor("(EVENTUALLY[0,3] p) EQUIV q")
    monitor.step(21)
    monitor.step(22, {"p"})
    monitor.step(24, {"q"})
    assert monitor.next_change == 28
    restored = Monitor("(EVENTUALLY[0,3] p) EQUIV q")
    restored.restore(monitor.snapshot())
    assert restored.next_change == 28


@given(
    formula=st.one_of(formulas(), sandwiches(), compounds()),
    trace=traces(advances=True),
    mode=st.sampled_from(MODES),
    continuation=traces(start=st.integers(0, 2)),
)
def test_monitors_that_are_settled_answer_like_new_ones(
    formula: Formula, trace: tuple[Step, ...], mode: Mode, continuation: tuple[Step, ...]
) -> None:
    monitor = Monitor(formula, mode)
    for step in trace:
        take(monitor, step)
    start = monitor.settled_from
    if start is None:
        return
    start = max(start, trace[-1].time_stamp)
    # no event of before has the time-stamp at which the new ones start
    start += any(isinstance(step, Event) and step.time_stamp == start for step in trace)
    events = [
        (start + step.time_stamp, step.atoms) for step in continuation if isinstance(step, Event)
    ]
    assert list(monitor(events, "last")) == list(Monitor(formula, mode)(events, "last"))


@pytest.mark.parametrize(
    ("formula", "settled"),
    [
        ("p", 11),
        ("ONCE[0,5] p", 16),
        ("ONCE[0,5] q", 11),
        ("ONCE p", None),
        ("EVENTUALLY[0,5] q", None),
        ("PREVIOUS[0,3] p", 14),
        ("PREVIOUS p", None),
        ("ALWAYS (p IMPLIES EVENTUALLY[0,5] p)", None),
        ("p OR NEXT[0,3] EVENTUALLY[2,4] q", 11),
    ],
)
def test_examples_of_settled_monitors(formula: str, settled: int | None) -> None:
    monitor = Monitor(formula)
    assert monitor.settled_from == 0
    monitor.step(10, {"p"})
    assert monitor.settled_from == settled
