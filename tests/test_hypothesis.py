"""Larger formulas and traces than the exhaustive run reaches, drawn by hypothesis."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from tests import strategies
from tests.comparison import (
    compare,
    compare_at_the_end,
    compare_back_ends,
    compare_literally,
    compare_prefixes,
    shift,
    shifted_output,
)
from tests.engines import BLOCKS, ITERATOR, TEXT, Job, flattened, run_resolved
from tests.properties import Timeline, check_resolved
from tests.soak import LONG, Generator
from tests.traces import MODES, EndTime, Step

Steps = tuple[Step, ...]


@given(strategies.formulas(), strategies.traces())
def test_formulas_of_all_operators(formula: Formula, steps: Steps) -> None:
    timeline = Timeline(steps)
    compare_literally(formula, timeline, compare(formula, timeline))


@given(strategies.bounded_formulas(), strategies.traces())
def test_bounded_formulas(formula: Formula, steps: Steps) -> None:
    timeline = Timeline(steps)
    compare_literally(formula, timeline, compare(formula, timeline))


@given(strategies.sandwiches(), strategies.traces())
def test_past_inside_future_inside_past(formula: Formula, steps: Steps) -> None:
    timeline = Timeline(steps)
    compare_literally(formula, timeline, compare(formula, timeline))


@given(strategies.compounds(), strategies.traces())
def test_compounds_of_outermost_operators(formula: Formula, steps: Steps) -> None:
    timeline = Timeline(steps)
    compare_literally(formula, timeline, compare(formula, timeline))


@settings(max_examples=100)
@given(strategies.formulas(depth=5), strategies.traces(maximum_length=15))
def test_deeply_nested_formulas(formula: Formula, steps: Steps) -> None:
    compare(formula, Timeline(steps))


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_long_traces(seed: int) -> None:
    formula, steps, _ = Generator(seed).example(LONG)
    compare_at_the_end(formula, steps)


@given(strategies.formulas(), strategies.traces(advances=True), strategies.end_times())
def test_time_without_events_and_end_times(
    formula: Formula, steps: Steps, end_time: EndTime
) -> None:
    compare(formula, Timeline(steps, end_time))


@given(
    st.one_of(
        strategies.formulas(widths=strategies.huge_intervals()),
        strategies.sandwiches(widths=strategies.huge_intervals()),
    ),
    st.one_of(strategies.traces(), strategies.huge_traces()),
    strategies.end_times(),
)
def test_huge_bounds_and_time_stamps(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    compare(formula, Timeline(steps, end_time))


@given(strategies.formulas(), strategies.traces(advances=True), st.integers(1, 2**62))
def test_only_distances_matter(formula: Formula, steps: Steps, by: int) -> None:
    timeline = Timeline(steps)
    outputs = compare(formula, timeline)
    shifted = compare(formula, shift(timeline, by))
    for mode in MODES:
        assert shifted[mode] == shifted_output(outputs[mode], by)


@settings(max_examples=100)
@given(strategies.formulas(), strategies.traces(advances=True))
def test_output_of_a_prefix_is_a_prefix(formula: Formula, steps: Steps) -> None:
    timeline = Timeline(steps)
    compare_prefixes(formula, timeline, compare(formula, timeline))


@settings(max_examples=150)
@given(strategies.formulas(depth=4), strategies.traces(maximum_length=12, advances=True))
def test_back_ends_agree(formula: Formula, steps: Steps) -> None:
    timeline = Timeline(steps)
    compare_back_ends(formula, timeline, compare(formula, timeline))


@settings(max_examples=100)
@given(strategies.formulas(), strategies.traces(), strategies.end_times())
def test_every_way_in_gives_the_same(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    timeline = Timeline(steps, end_time)
    for mode, output in compare(formula, timeline).items():
        job = Job(formula, steps, mode, end_time)
        assert TEXT.run(job) == output
        assert flattened(ITERATOR.run(job)) == flattened(output)
        assert flattened(BLOCKS.run(job)) == flattened(output)
        check_resolved(run_resolved(job), output)
