"""Small formulas and finite traces."""

from __future__ import annotations

from hypothesis import strategies as st

from mtlmon import FALSE, TRUE, Formula, atom
from tests.analysis.finite import Trace
from tests.doors import Interval, make
from tests.doors import syntax_operators as ops


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    lower = draw(st.integers(0, 4))
    width = draw(st.one_of(st.integers(0, 4), st.integers(0, 4), st.none()))
    return Interval(lower, None if width is None else lower + width)


def formulas(size: int = 4) -> st.SearchStrategy[Formula]:
    composed = [operator for operator in ops.OPERATORS if operator.arity]

    @st.composite
    def compose(draw: st.DrawFn, operands: st.SearchStrategy[Formula]) -> Formula:
        operator = draw(st.sampled_from(composed))
        interval = draw(intervals()) if operator.is_temporal else None
        return make(operator, *(draw(operands) for _ in range(operator.arity)), interval=interval)

    leaves = st.sampled_from([atom("p"), atom("q"), atom("p"), atom("q"), TRUE, FALSE])
    return st.recursive(leaves, compose, max_leaves=size)


@st.composite
def traces(draw: st.DrawFn, start: int = 0, size: int = 8) -> Trace:
    """Non-decreasing time-stamps from `start` on, at least one time-point."""
    clock, trace = start, []
    for step in draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 4, 9]), min_size=1, max_size=size)):
        clock += step
        trace.append((clock, draw(st.frozensets(st.sampled_from("pq")))))
    return trace
