"""Hypothesis strategies: formulas and traces larger than the exhaustive run's, and odder."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from mtlmon import FALSE, TRUE, Formula, atom
from tests.doors import MAXIMUM_BOUND, Interval, Operator, make
from tests.doors import syntax_operators as ops
from tests.traces import MAXIMUM_TIME_STAMP, Advance, EndTime, Event, Step

ATOMS = ("p", "q", "r")

_LEAVES = st.sampled_from([*map(atom, ATOMS), *map(atom, ATOMS), TRUE, FALSE])
_BOOLEAN = [ops.NOT, ops.AND, ops.OR, ops.IMPLIES, ops.IFF]
_PAST = [operator for operator in ops.OPERATORS if operator.is_past]
_FUTURE = [operator for operator in ops.OPERATORS if operator.is_future]


@st.composite
def intervals(draw: st.DrawFn, *, unbounded: bool = True) -> Interval:
    """Small ones, points, `[0,0]`, and ones without upper bound."""
    lower = draw(st.integers(0, 4))
    width = draw(st.one_of(st.integers(0, 4), st.none()) if unbounded else st.integers(0, 4))
    return Interval(lower, None if width is None else lower + width)


def step_intervals(*, unbounded: bool = True) -> st.SearchStrategy[Interval]:
    """Intervals of NEXT and PREVIOUS: neighbours in `traces` miss them as often as they hit them.

    They miss them on either side: they are too near to each other, or too far apart.
    """
    bounds: list[tuple[int, int | None]] = [
        *((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 3), (2, 3), (2, 5), (3, 8), (4, 50))
    ]
    if unbounded:
        bounds += [(1, None), (2, None), (3, None)]
    return st.sampled_from([Interval(lower, upper) for lower, upper in bounds])


@st.composite
def huge_intervals(draw: st.DrawFn) -> Interval:
    """Bounds as large as they come."""
    bounds = st.one_of(st.integers(0, 5), st.integers(MAXIMUM_BOUND - 5, MAXIMUM_BOUND))
    lower = draw(bounds)
    upper = draw(st.one_of(st.none(), bounds))
    return Interval(lower, upper if upper is None else max(lower, upper))


class Widths(NamedTuple):
    """The intervals of NEXT and PREVIOUS, and those of all other temporal operators."""

    windows: st.SearchStrategy[Interval]
    steps: st.SearchStrategy[Interval]


def _widths(widths: st.SearchStrategy[Interval] | None = None) -> Widths:
    """The intervals of all operators, drawn from `widths` if that is given."""
    if widths is not None:
        return Widths(widths, widths)
    return Widths(intervals(), step_intervals())


def _applied(
    operators: list[Operator],
    operands: st.SearchStrategy[Formula],
    widths: Widths,
) -> st.SearchStrategy[Formula]:
    @st.composite
    def build(draw: st.DrawFn) -> Formula:
        operator = draw(st.sampled_from(operators))
        chosen = widths.steps if operator in (ops.NEXT, ops.PREVIOUS) else widths.windows
        interval = draw(chosen) if operator.is_temporal else None
        return make(operator, *(draw(operands) for _ in range(operator.arity)), interval=interval)

    return build()


def formulas(
    *, depth: int = 3, widths: st.SearchStrategy[Interval] | None = None
) -> st.SearchStrategy[Formula]:
    """Formulas of all operators, nested up to `depth`, constants in every position."""
    return _formulas(depth, _widths(widths))


def _formulas(depth: int, used: Widths) -> st.SearchStrategy[Formula]:
    result: st.SearchStrategy[Formula] = _LEAVES
    for _ in range(depth):
        result = st.one_of(
            _LEAVES,
            _applied(_BOOLEAN, result, used),
            _applied(_PAST, result, used),
            _applied(_FUTURE, result, used),
        )
    return result


def sandwiches(*, widths: st.SearchStrategy[Interval] | None = None) -> st.SearchStrategy[Formula]:
    """Past inside future inside past, and the other way round."""
    used = _widths(widths)
    inner = st.one_of(_LEAVES, _applied(_BOOLEAN, _LEAVES, used))

    def layers(*kinds: list[Operator]) -> st.SearchStrategy[Formula]:
        result = inner
        for operators in kinds:
            result = _applied(operators, st.one_of(result, result, inner), used)
        return result

    return st.one_of(layers(_PAST, _FUTURE, _PAST), layers(_FUTURE, _PAST, _FUTURE))


def compounds() -> st.SearchStrategy[Formula]:
    """Boolean combinations of outermost temporal formulas, some of them nested."""
    used = _widths()
    simple = _applied(_FUTURE, _LEAVES, used)
    nested = _applied(_PAST + _FUTURE, simple, used)
    part = st.one_of(simple, nested, _LEAVES)
    return _applied(_BOOLEAN, st.one_of(part, _applied(_BOOLEAN, part, used)), used)


def flat_formulas(*, lowest: int = 3) -> st.SearchStrategy[Formula]:
    """Boolean combinations of bounded windows over few operands, so that windows are in order.

    Args:
        lowest: the largest lower bound.
    """
    widths = _near_widths(lowest)
    p, q = map(atom, "pq")
    return st.recursive(
        st.one_of(
            st.builds(lambda width: make(ops.EVENTUALLY, p, interval=width), widths),
            st.builds(lambda width: make(ops.EVENTUALLY, p, interval=width), widths),
            st.builds(lambda width: make(ops.UNTIL, q, p, interval=width), widths),
            st.builds(lambda width: make(ops.NEXT, p, interval=width), widths),
            st.sampled_from([p, q, make(ops.ONCE, q, interval=Interval(1, 2))]),
        ),
        lambda below: _applied([ops.NOT, ops.AND, ops.OR, ops.IFF, ops.IFF], below, _widths()),
        max_leaves=6 if lowest else 3,
    )


def wanted_and_unwanted() -> st.SearchStrategy[Formula]:
    """Windows in both polarities below EVENTUALLY and others, and outside of them."""
    near = _near_widths(3)
    below = flat_formulas(lowest=0)
    wanted = st.builds(lambda f, q: make(ops.IFF, f, q), below, st.sampled_from([*map(atom, "qr")]))
    outer = _applied(
        [ops.EVENTUALLY, ops.EVENTUALLY, ops.ALWAYS, ops.ALWAYS, ops.ONCE, ops.RELEASE, ops.NEXT],
        st.one_of(wanted, wanted, wanted, below),
        Widths(near, near),
    )
    return st.one_of(
        outer, outer, _applied([ops.AND, ops.OR, ops.IFF], st.one_of(outer, below), _widths())
    )


def _near_widths(lowest: int) -> st.SearchStrategy[Interval]:
    return st.builds(
        lambda lower, width: Interval(lower, lower + width),
        st.integers(0, lowest),
        st.integers(0, 8),
    )


def bounded_formulas() -> st.SearchStrategy[Formula]:
    return _formulas(3, Widths(intervals(unbounded=False), step_intervals(unbounded=False)))


@st.composite
def traces(
    draw: st.DrawFn,
    *,
    start: st.SearchStrategy[int] | None = None,
    maximum_length: int = 9,
    advances: bool = False,
    leaps: tuple[int, ...] = (),
) -> tuple[Step, ...]:
    """Repeated time-stamps, steps of one, gaps larger than every bound, time without events."""
    clock = draw(st.integers(0, 3) if start is None else start)
    increments = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 50, *leaps])
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, maximum_length))):
        clock = min(clock + draw(increments), MAXIMUM_TIME_STAMP)
        if advances and draw(st.integers(0, 4)) == 4:
            steps.append(Advance(clock))
        else:
            steps.append(Event(clock, draw(st.frozensets(st.sampled_from(ATOMS)))))
    return tuple(steps)


def huge_traces() -> st.SearchStrategy[tuple[Step, ...]]:
    """Traces that come up to the largest time-stamp, some of them from 0 in one leap or two."""
    near_the_end = st.integers(MAXIMUM_TIME_STAMP - 60, MAXIMUM_TIME_STAMP)
    leaps = (2**62, MAXIMUM_TIME_STAMP - 5, MAXIMUM_TIME_STAMP)
    return st.one_of(traces(start=near_the_end), traces(advances=True, leaps=leaps))


def end_times() -> st.SearchStrategy[EndTime]:
    return st.one_of(st.none(), st.sampled_from(["last", "inf"]), st.integers(0, 60))
