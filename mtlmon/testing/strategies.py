"""Hypothesis strategies for formulas of metric temporal logic and traces of events.

They shrink towards few operators, few events, few atoms, small bounds and small gaps of time.
Needs hypothesis: `pip install 'mtlmon[hypothesis]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import FALSE, TRUE, Formula, atom, make
from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
from mtlmon.syntax.traversal import postorder
from mtlmon.testing.recording import read_formula

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError(
        "mtlmon.testing.strategies needs hypothesis: pip install 'mtlmon[hypothesis]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.syntax.operators import Operator

__all__ = ["formulas", "intervals", "letters", "traces"]

_BOOLEAN = (ops.NOT, ops.AND, ops.OR, ops.IMPLIES, ops.IFF)
_PAST = tuple(operator for operator in ops.OPERATORS if operator.is_past)
_FUTURE = tuple(operator for operator in ops.OPERATORS if operator.is_future)
# Time-stamps that repeat, that follow each other, and gaps.
_GAPS = (0, 1, 2, 3, 5, 10)
_MAXIMUM_SIZE = 20


def intervals(*, max_bound: int = 10, unbounded: bool = True) -> st.SearchStrategy[Interval]:
    """Intervals, shrinking towards the one that need not be written, `[0,*)`, else `[0,0]`.

    Args:
        max_bound: the largest lower and upper bound.
        unbounded: whether there are also intervals without an upper bound.

    Raises:
        MtlmonError: `max_bound` is no bound.
    """
    if not 0 <= max_bound <= MAXIMUM_BOUND:
        raise MtlmonError(f"max_bound is an integer from 0 to 2^63-1, not {max_bound}")
    bounds = st.integers(0, max_bound)
    # Drawn as lower bound and width, of which each can shrink without the other.
    widths = st.one_of(st.none(), bounds) if unbounded else bounds
    return st.tuples(bounds, widths).map(lambda drawn: _interval(*drawn, max_bound))


def _interval(lower: int, width: int | None, max_bound: int) -> Interval:
    return Interval(lower, None if width is None else min(lower + width, max_bound))


def formulas(
    atoms: Sequence[str] = ("p", "q", "r"),
    *,
    past: bool = True,
    future: bool = True,
    bounded: bool = False,
    constants: bool = True,
    max_leaves: int = 6,
    intervals: st.SearchStrategy[Interval] | None = None,
) -> st.SearchStrategy[Formula]:
    """Formulas, shrinking towards the first atom.

    Args:
        atoms: the names to use, those preferred in small examples first.
        past: whether past operators are used.
        future: whether future operators are used.
        bounded: whether future operators get an upper bound, so that every time-point is decided
            once time has passed `formula.future_reach` and a little more; NEXT waits for one event.
        constants: whether `true` and `false` are used.
        max_leaves: how many atoms and constants there are at most, repetitions counted.
        intervals: of the temporal operators; by default `intervals()`, of future operators
            `intervals(unbounded=False)` when `bounded`.

    Raises:
        MtlmonError: no atoms and no constants, or atoms given as one string.
    """
    leaves = [atom(name) for name in _names(atoms)] + ([TRUE, FALSE] if constants else [])
    if not leaves:
        raise MtlmonError("formulas need atoms or constants")
    some = _intervals() if intervals is None else intervals
    ahead = _intervals(unbounded=False) if bounded and intervals is None else some
    operators = (*_BOOLEAN, *(_PAST if past else ()), *(_FUTURE if future else ()))

    def extend(operands: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        return st.one_of(
            [
                _applied(operator, operands, ahead if operator.is_future else some)
                for operator in operators
            ]
        )

    return st.recursive(st.sampled_from(leaves), extend, max_leaves=max_leaves)


_intervals = intervals


def _applied(
    operator: Operator,
    operands: st.SearchStrategy[Formula],
    widths: st.SearchStrategy[Interval],
) -> st.SearchStrategy[Formula]:
    # Mapped tuples, here and below, because what hypothesis builds it prints as a call.
    several = st.tuples(*[operands] * operator.arity)
    if not operator.is_temporal:
        return several.map(lambda chosen: make(operator, *chosen))
    return st.tuples(several, widths).map(
        lambda chosen: make(operator, *chosen[0], interval=chosen[1])
    )


def letters(atoms: Sequence[str] | Formula = ("p", "q", "r")) -> st.SearchStrategy[frozenset[str]]:
    """The atoms that hold at a time-point, shrinking towards none.

    Args:
        atoms: their names, or a formula whose atoms they are.
    """
    names = _names(atoms)
    # One choice for each atom, so that each can go without the others.
    choices = st.tuples(*[st.booleans()] * len(names))
    return choices.map(lambda chosen: frozenset(compress(names, chosen)))


def traces(
    atoms: Sequence[str] | Formula | str = ("p", "q", "r"),
    *,
    min_size: int = 0,
    max_size: int = _MAXIMUM_SIZE,
    gaps: st.SearchStrategy[int] | None = None,
    start: int | st.SearchStrategy[int] = 0,
    unit: str | None = None,
) -> st.SearchStrategy[list[tuple[int, frozenset[str]]]]:
    """Traces as `check` and `assert_holds` take them, shrinking towards few and early events.

    Args:
        atoms: the names to use; or a formula or its text: then its atoms, and gaps of time that
            come to the bounds of its intervals and just past them.
        min_size: how many events there are at least.
        max_size: how many there are at most.
        gaps: the differences of time-stamps that follow each other.
        start: the first time-stamp, or a strategy for it.
        unit: of the time-stamps, for bounds of the formula that carry one.

    Raises:
        FormulaError: `atoms` is a text that is no formula, or a bound is no whole number of units.
        UnitError: the unit is unknown.

    The time-stamps never exceed 2^63-1.
    """
    if isinstance(atoms, (str, Formula)):
        atoms = read_formula(atoms, unit)
    if gaps is None:
        gaps = st.sampled_from(_telling_gaps(atoms) if isinstance(atoms, Formula) else _GAPS)
    first = st.just(start) if isinstance(start, int) else start
    letter = letters(atoms)
    # None is time that passes without an event: an event can go without moving those after it.
    step = st.tuples(gaps, st.one_of(st.none(), letter, letter, letter))
    steps = st.lists(step, min_size=min_size, max_size=max_size)
    return st.tuples(first, steps).map(lambda drawn: _add_up(*drawn, min_size))


def _add_up(
    start: int, steps: list[tuple[int, frozenset[str] | None]], min_size: int
) -> list[tuple[int, frozenset[str]]]:
    events: list[tuple[int, frozenset[str]]] = []
    clock = start
    for left, (gap, letter) in zip(range(len(steps), 0, -1), steps, strict=True):
        if events:
            clock = min(clock + gap, MAXIMUM_BOUND)
        if letter is not None:
            events.append((clock, letter))
        elif len(events) + left <= min_size:
            events.append((clock, frozenset()))
    return events


def _telling_gaps(formula: Formula) -> list[int]:
    """Gaps that take time to where something changes for some operator."""
    bounds = {0}
    for node in postorder(formula):
        if node.interval is not None:
            bounds |= {node.interval.lower, node.interval.upper or 0}
    near = {bound + difference for bound in bounds for difference in (-1, 0, 1)}
    return sorted(gap for gap in near if 0 <= gap <= MAXIMUM_BOUND)


def _names(atoms: Sequence[str] | Formula) -> tuple[str, ...]:
    if isinstance(atoms, Formula):
        return atoms.atoms
    if isinstance(atoms, str):
        raise MtlmonError(f"atoms are several names, not the one string {atoms!r}")
    if isinstance(atoms, Mapping):
        raise MtlmonError(f"atoms are a sequence of names, not the mapping {atoms!r}")
    return tuple(atoms)
