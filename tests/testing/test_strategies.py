"""The strategies: what they draw, and that it shrinks to what a person would write."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from mtlmon import Formula, MtlmonError, parse
from mtlmon.testing import check
from mtlmon.testing import strategies as mtl
from tests.doors import MAXIMUM_BOUND, Interval, postorder
from tests.doors import syntax_operators as ops
from tests.testing import FEWER

T = TypeVar("T")
Trace = list[tuple[int, frozenset[str]]]


def smallest(strategy: st.SearchStrategy[T], condition: Callable[[T], bool]) -> T:
    found = settings(
        max_examples=5000, database=None, phases=[Phase.generate, Phase.shrink], deadline=None
    )
    return find(strategy, condition, settings=found, random=random.Random(7))


def operators(formula: Formula) -> set[str]:
    return {node.operator.name for node in postorder(formula)}


@FEWER
@given(mtl.formulas())
def test_formulas_read_back(formula: Formula) -> None:
    assert parse(str(formula)) == formula
    assert set(formula.atoms) <= {"p", "q", "r"}


@FEWER
@given(mtl.formulas(["x"], future=False, constants=False))
def test_formulas_of_the_past(formula: Formula) -> None:
    assert formula.atoms == ("x",)
    assert not any(node.operator.is_future for node in postorder(formula))
    assert not {"TRUE", "FALSE"} & operators(formula)


@FEWER
@given(mtl.formulas(past=False, bounded=True))
def test_bounded_formulas_of_the_future(formula: Formula) -> None:
    assert formula.is_bounded
    assert formula.future_reach is not None
    assert not any(node.operator.is_past for node in postorder(formula))


@FEWER
@given(mtl.formulas(max_leaves=2, intervals=st.just(Interval(3, 4))))
def test_small_formulas_with_intervals_of_ones_own(formula: Formula) -> None:
    nodes = list(postorder(formula))
    assert len([node for node in nodes if not node.operands]) <= 2
    assert {node.interval for node in nodes} <= {None, Interval(3, 4)}


@pytest.mark.parametrize("operator", [op for op in ops.OPERATORS if op.arity])
def test_every_operator_occurs_and_shrinks_to_nothing_but_itself(operator: ops.Operator) -> None:
    formula = smallest(mtl.formulas(), lambda f: operator.name in operators(f))
    assert formula == Formula(operator, (Formula(ops.ATOM, name="p"),) * operator.arity)


def test_formulas_shrink() -> None:
    assert smallest(mtl.formulas(), lambda f: True) == parse("p")
    nested = smallest(mtl.formulas(), lambda f: {"ONCE", "EVENTUALLY"} <= operators(f))
    assert str(nested) in ("ONCE EVENTUALLY p", "EVENTUALLY ONCE p")


@FEWER
@given(mtl.intervals(max_bound=5))
def test_intervals(interval: Interval) -> None:
    assert interval.lower <= 5
    assert interval.upper is None or interval.upper <= 5


def test_intervals_shrink() -> None:
    assert smallest(mtl.intervals(), lambda i: True) == Interval.FULL
    assert smallest(mtl.intervals(unbounded=False), lambda i: True) == Interval(0, 0)
    assert smallest(mtl.intervals(), lambda i: 7 in i and 2 not in i) == Interval(3, None)


@FEWER
@given(mtl.traces(["x", "y"], min_size=2, max_size=6, start=st.integers(5, 7)))
def test_traces(trace: Trace) -> None:
    assert 2 <= len(trace) <= 6
    assert 5 <= trace[0][0] <= 7
    assert check("x OR NOT x", trace).event_count == len(trace)
    assert frozenset[str]().union(*(atoms for _, atoms in trace)) <= {"x", "y"}


@FEWER
@given(mtl.traces(min_size=3, max_size=3))
def test_traces_of_one_size(trace: Trace) -> None:
    assert len(trace) == 3


@FEWER
@given(mtl.traces(gaps=st.just(4), start=2, max_size=4))
def test_gaps_of_ones_own(trace: Trace) -> None:
    assert {time_stamp % 4 for time_stamp, _ in trace} <= {2}


@FEWER
@given(mtl.traces(start=MAXIMUM_BOUND - 3, min_size=5))
def test_time_stamps_end_at_the_largest(trace: Trace) -> None:
    assert check("true", trace).true_count == len(trace)


@FEWER
@given(mtl.traces("true"))
def test_formulas_without_atoms(trace: Trace) -> None:
    assert check("true", trace).holds


@pytest.mark.parametrize("formula", ["ONCE[300,700] p", parse("ONCE[300,700] p")])
def test_traces_for_a_formula_come_to_its_bounds(formula: Formula | str) -> None:
    def is_at(distance: int) -> Callable[[Trace], bool]:
        return lambda trace: len(trace) > 1 and trace[1][0] - trace[0][0] == distance

    for distance in (0, 299, 300, 301, 699, 700, 701):
        assert smallest(mtl.traces(formula), is_at(distance))[1][0] == distance


def test_traces_shrink_to_the_events_that_matter() -> None:
    policy = "response IMPLIES ONCE[0,5] request"
    trace = smallest(
        mtl.traces(policy), lambda trace: not check(policy, trace, unknown="ignore").holds
    )
    assert trace == [(0, frozenset({"response"}))]
    late = "request AND EVENTUALLY[6,9] response"
    trace = smallest(mtl.traces(policy), lambda trace: check(late, trace).true_count > 0)
    assert trace == [(0, frozenset({"request"})), (6, frozenset({"response"}))]


def test_bad_arguments() -> None:
    with pytest.raises(MtlmonError, match="atoms are several names"):
        mtl.formulas("pq")
    with pytest.raises(MtlmonError, match="need atoms or constants"):
        mtl.formulas([], constants=False)
    with pytest.raises(MtlmonError, match="max_bound is"):
        mtl.intervals(max_bound=-1)
