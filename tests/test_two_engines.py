"""The queue network and the engine of expressions: the same tests, and each against the other.

`python -m tests.soak --local` does the same for as long as one likes.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import Formula, parse
from tests import comparison, strategies
from tests.comparison import compare_at_moments, compare_engines, compare_restored, compare_saved
from tests.corpus import Case, check_output, load_cases
from tests.doors import choose_engine
from tests.engines import (
    Job,
    MakeMonitor,
    fits_network,
    make_with_expressions,
    make_with_network,
    run_steps,
    with_expressions,
    with_network,
)
from tests.properties import Output, Timeline, check_same_values
from tests.reference.folding import modes_are_alike
from tests.soak import GAPS, RATES, Generator
from tests.traces import EndTime, Mode, Trace, parse_step

CASES = [case for case in load_cases() if fits_network(parse(case.formula))]
ENGINES = {"network": make_with_network, "expressions": make_with_expressions}
LONG_BLOCK = 1000

MODES: tuple[Mode, ...] = ("naive", "local")
_by_mode = pytest.mark.parametrize("mode", MODES)


def test_both_engines_are_meant() -> None:
    formula = "ALWAYS[0,9] (p IMPLIES EVENTUALLY[0,5] q)"
    assert with_network(formula) != with_expressions(formula)
    # Of a log without events, a snapshot says no more than its program and mode.
    snapshots = {make(Job(parse(formula), (), "local")).snapshot() for make in ENGINES.values()}
    assert len(snapshots) == 2
    assert len(CASES) > 100


@_by_mode
@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES.keys())
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_corpus(case: Case, make: MakeMonitor, mode: Mode) -> None:
    formula = parse(case.formula)
    output = run_steps(Job(formula, case.trace, mode, case.end_time), make)
    if make is make_with_expressions and not modes_are_alike(formula):
        # Expressions know values as early as in mode global.
        check_same_values(output, case.expected["global"])
    else:
        check_output(case, mode, output)


@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("rate", RATES)
def test_event_rates_and_gaps(rate: int, gaps: str) -> None:
    generator = Generator(7000 * rate + len(gaps))
    for _ in range(12):
        formula, steps, end_time = generator.rated_example(rate, gaps)
        compare_engines(formula, Timeline(steps, end_time))


@pytest.mark.parametrize("gaps", GAPS)
def test_blocks_of_a_thousand(gaps: str) -> None:
    """A block has many time-points, few classes of them, and some of them a value at once."""
    generator = Generator(len(gaps))
    for _ in range(3):
        formula, steps, _ = generator.rated_example(LONG_BLOCK, gaps, 3 * LONG_BLOCK // 2)
        if not fits_network(formula):
            continue
        outputs: list[Output] = [
            run_steps(Job(formula, steps, "naive", "inf"), make) for make in ENGINES.values()
        ]
        assert outputs[0] == outputs[1]
        moments = [10, LONG_BLOCK - 50, LONG_BLOCK + 50, len(steps) - 1]
        compare_at_moments(formula, steps, moments, list(ENGINES.values()))


@settings(max_examples=200)
@given(
    st.one_of(strategies.bounded_formulas(), strategies.compounds(), strategies.sandwiches()),
    strategies.traces(maximum_length=14, advances=True),
    strategies.end_times(),
)
def test_formulas_of_all_operators(formula: Formula, steps: Trace, end_time: EndTime) -> None:
    compare_engines(formula, Timeline(steps, end_time))


@settings(max_examples=300)
@given(
    strategies.flat_formulas(),
    strategies.traces(maximum_length=14, advances=True),
    strategies.end_times(),
)
def test_flat_formulas_with_windows_in_order(
    formula: Formula, steps: Trace, end_time: EndTime
) -> None:
    """Of windows over the same operands that have begun, those that end first imply the others."""
    compare_engines(formula, Timeline(steps, end_time))
    for mode in MODES:
        compare_restored(with_network(formula), steps, mode)
        compare_saved(with_network(formula), steps, mode)


@settings(max_examples=300)
@given(
    strategies.wanted_and_unwanted(),
    strategies.traces(maximum_length=14, advances=True),
    strategies.end_times(),
)
def test_windows_wanted_and_unwanted(formula: Formula, steps: Trace, end_time: EndTime) -> None:
    compare_engines(formula, Timeline(steps, end_time))
    for mode in MODES:
        compare_restored(with_network(formula), steps, mode)
        compare_saved(with_network(formula), steps, mode)


@settings(max_examples=200)
@given(
    strategies.formulas(widths=strategies.huge_intervals()),
    st.one_of(strategies.traces(), strategies.huge_traces()),
    strategies.end_times(),
)
def test_huge_bounds_and_time_stamps(formula: Formula, steps: Trace, end_time: EndTime) -> None:
    compare_engines(formula, Timeline(steps, end_time))


@settings(max_examples=200)
@given(st.one_of(strategies.bounded_formulas(), strategies.compounds(), strategies.sandwiches()))
def test_what_the_network_is_chosen_for_fits(formula: Formula) -> None:
    program = with_expressions(formula)
    choice = choose_engine(program.rows, program.root, program.is_bounded, "local")
    assert choice.name == "expressions" or fits_network(formula)


def test_a_late_engine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions may know the value of a mixed formula earlier, but not that of another one."""
    formula = parse("HISTORICALLY[0,1] ((EVENTUALLY[0,1] r) IFF p)")
    timeline = Timeline((parse_step("@0 p"), parse_step("@1")))
    compare_engines(formula, timeline)
    monkeypatch.setattr(comparison, "modes_are_alike", lambda _: True)
    with pytest.raises(AssertionError, match=r"naive mode differ|known in one output only"):
        compare_engines(formula, timeline)
