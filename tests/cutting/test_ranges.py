"""Ranges of a trace have the verdicts of one monitor, whatever is cut where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import Monitor, resolve
from tests.cutting.in_memory import verdicts_in_ranges
from tests.strategies import compounds, end_times, formulas, sandwiches, traces
from tests.traces import MODES, Event, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.syntax.formula import Formula
    from tests.traces import EndTime, Step, TimePoint


def verdicts_of_one(
    formula: Formula | str, events: Sequence[Event], mode: Mode, end_time: EndTime
) -> list[tuple[TimePoint, bool]]:
    monitor = Monitor(formula, mode)
    verdicts = [verdict for event in events for verdict in monitor.step(*event)]
    verdicts += monitor.finish(end_time)
    resolved = resolve(verdicts)
    return sorted(((one.time_stamp, one.offset), bool(one.value)) for one in resolved)


@settings(max_examples=3000, deadline=None)
@given(
    st.one_of(formulas(), sandwiches(), compounds()),
    traces(maximum_length=14),
    st.lists(st.integers(0, 60), max_size=6),
    st.sampled_from(MODES),
    end_times(),
    st.integers(1, 4),
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
