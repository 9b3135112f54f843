"""Proofs: there is one for all that is decided, they are right, and none is smaller."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from mtlmon import FALSE, TRUE, Formula, parse
from mtlmon.explanation import Trace, check
from tests import strategies
from tests.corpus import Case, load_cases
from tests.doors import prove
from tests.doors import syntax_operators as ops
from tests.explanation.brute_force import Search
from tests.reference.evaluator import evaluate
from tests.sampling import thinned
from tests.small_models import ALL_OPERATORS, Family, P, Q, formulas_of, traces_of
from tests.traces import EndTime, Event, Step, ended, prefix_of

Steps = tuple[Step, ...]

# The trace that ends openly, is complete for a while, and is all there ever is.
_ENDS: tuple[EndTime, ...] = (None, "last", 4, "inf")


def events_of(steps: Sequence[Step]) -> list[Event]:
    return [step for step in steps if isinstance(step, Event)]


def check_all(formula: Formula, events: Sequence[Event], end_time: EndTime) -> None:
    """At every time-point there is a correct proof of what the semantics says."""
    trace = Trace.of(events, end_time)
    values = evaluate(formula, ended(prefix_of(events), end_time))
    for position, value in enumerate(values):
        proof = prove(formula, trace, position)
        found = None if proof is None else proof.value
        assert found is value, f"{formula} at {position} of {events}, {end_time}: {found}"
        if proof is not None:
            check(proof, formula, trace, position)


def check_sizes(formula: Formula, events: Sequence[Event], end_time: EndTime) -> None:
    """No proof that the checker accepts is smaller."""
    trace = Trace.of(events, end_time)
    search = Search(trace)
    for position in range(len(trace)):
        proof, smallest = prove(formula, trace, position), search.smallest(formula, position)
        sizes = [found and (found.value, found.size) for found in (proof, smallest)]
        assert sizes[0] == sizes[1], f"{formula} at {position} of {events}, {end_time}"


_OPERATOR_ON_CONSTANTS = Family(
    ALL_OPERATORS, ((0, 0), (0, 1), (1, 2), (1, None)), (P, Q, TRUE, FALSE), 1, (0, 1, 2), 3, 1
)
_OPERATOR = Family(ALL_OPERATORS, ((0, 0), (0, 1), (1, 2), (0, None)), (P, Q), 1, (0, 1, 2), 3, 2)
_NESTED = Family(
    (ops.NOT, ops.OR, ops.SINCE, ops.UNTIL, ops.RELEASE, ops.WEAK_UNTIL, ops.NEXT, ops.TRIGGER),
    ((0, 1), (1, None)),
    (P, TRUE),
    2,
    (0, 1),
    3,
    1,
)
_FAMILIES = pytest.mark.parametrize(
    "family", [_OPERATOR_ON_CONSTANTS, _OPERATOR, _NESTED], ids=["constants", "atoms", "nested"]
)


@_FAMILIES
def test_all_small_models(family: Family) -> None:
    formulas = list(formulas_of(family))
    stride = max(1, len(formulas) // 100)
    for count, steps in enumerate(traces_of(family)):
        for formula in formulas[count % stride :: stride]:
            check_all(formula, events_of(steps), _ENDS[count % len(_ENDS)])


@_FAMILIES
def test_small_models_have_no_smaller_proofs(family: Family, pytestconfig: pytest.Config) -> None:
    """On some pairs of formula and trace, ten times as many for each level of `--exhaustive`."""
    formulas, traces = list(formulas_of(family)), list(traces_of(family))
    pairs = 15 * 10 ** int(pytestconfig.getoption("--exhaustive"))
    everything = len(formulas) * len(traces)
    # no common factor with the number of traces, so that neither lags behind
    stride = max(1, everything // pairs) | 1
    for number in thinned(range(0, everything, stride)):
        formula, steps = formulas[number // len(traces)], traces[number % len(traces)]
        check_sizes(formula, events_of(steps), _ENDS[number % len(_ENDS)])


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_corpus(case: Case) -> None:
    check_all(parse(case.formula), events_of(case.trace), case.end_time)


@given(strategies.formulas(), strategies.traces(), strategies.end_times())
def test_formulas_of_all_operators(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    check_all(formula, events_of(steps), end_time)


@given(strategies.sandwiches(), strategies.traces(), strategies.end_times())
def test_past_inside_future(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    check_all(formula, events_of(steps), end_time)


@settings(max_examples=150)
@given(
    strategies.formulas(widths=strategies.huge_intervals()),
    strategies.huge_traces(),
    strategies.end_times(),
)
def test_huge_bounds_and_time_stamps(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    check_all(formula, events_of(steps), end_time)


@settings(max_examples=40)
@given(strategies.formulas(depth=2), strategies.traces(maximum_length=4), strategies.end_times())
def test_no_smaller_proofs(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    check_sizes(formula, events_of(steps), end_time)
