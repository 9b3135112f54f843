"""`Monitor.next_change`: up to it, the passing of time brings nothing."""

from __future__ import annotations

from copy import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Monitor
from mtlmon.syntax.formula import Formula
from tests.strategies import compounds, formulas, sandwiches, traces
from tests.traces import MAXIMUM_TIME_STAMP, MODES, Advance, Mode, Step


@given(
    formula=st.one_of(formulas(), sandwiches(), compounds()),
    trace=traces(advances=True),
    mode=st.sampled_from(MODES),
)
def test_nothing_before_it(formula: Formula, trace: tuple[Step, ...], mode: Mode) -> None:
    monitor = Monitor(formula, mode)
    for step in trace:
        if isinstance(step, Advance):
            monitor.advance(step.time_stamp)
        else:
            monitor.step(step.time_stamp, step.atoms)
        change = monitor.next_change
        latest = MAXIMUM_TIME_STAMP if change is None else change - 1
        assert copy(monitor).advance(latest) == []


@given(formula=formulas(), trace=traces(advances=True), mode=st.sampled_from(MODES))
def test_following_it_brings_what_time_brings(
    formula: Formula, trace: tuple[Step, ...], mode: Mode
) -> None:
    monitor = Monitor(formula, mode)
    for step in trace:
        if isinstance(step, Advance):
            monitor.advance(step.time_stamp)
        else:
            monitor.step(step.time_stamp, step.atoms)
    at_once = copy(monitor)
    at_once.advance(trace[-1].time_stamp + 200)
    while (change := monitor.next_change) is not None and change <= trace[-1].time_stamp + 200:
        monitor.advance(change)
    assert list(map(tuple, monitor.pending)) == list(map(tuple, at_once.pending))


@pytest.mark.parametrize(
    ("formula", "change"),
    [
        ("EVENTUALLY[0,5] p", 16),
        ("EVENTUALLY[2,5] p", 12),
        ("NEXT[0,5] p", 16),
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
