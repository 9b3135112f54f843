"""Formulas of every shape, with names and bounds that are hard to write."""

from __future__ import annotations

from hypothesis import strategies as st

from mtlmon import FALSE, TRUE, Formula, atom
from tests.doors import MAXIMUM_BOUND, Interval, make
from tests.doors import syntax_operators as ops

_AWKWARD_NAMES = ("U", "true", "inf", "p()", 'say "x"', "back\\slash", "#", "a b", "é", "日本", "²")
_BOUNDS = st.one_of(st.integers(0, 3), st.integers(MAXIMUM_BOUND - 3, MAXIMUM_BOUND))


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    lower = draw(_BOUNDS)
    upper = draw(st.one_of(st.none(), _BOUNDS))
    return Interval(lower, None if upper is None else max(lower, upper))


def names() -> st.SearchStrategy[str]:
    plain = st.sampled_from("abc")
    return st.one_of(plain, plain, st.sampled_from(_AWKWARD_NAMES), st.text(min_size=1))


def formulas(size: int = 20) -> st.SearchStrategy[Formula]:
    leaves = st.one_of(st.sampled_from([TRUE, FALSE]), names().map(atom))
    composed = [operator for operator in ops.OPERATORS if operator.arity]

    @st.composite
    def compose(draw: st.DrawFn, operands: st.SearchStrategy[Formula]) -> Formula:
        operator = draw(st.sampled_from(composed))
        interval = draw(intervals()) if operator.is_temporal else None
        return make(operator, *(draw(operands) for _ in range(operator.arity)), interval=interval)

    return st.recursive(leaves, compose, max_leaves=size)
