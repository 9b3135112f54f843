"""Hypothesis strategies for formulas of metric temporal logic and traces of events.

They shrink towards few operators, few events, few atoms, small bounds and small gaps of time.
This module needs hypothesis: `pip install 'mtlmon[hypothesis]'`.
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
from mtlmon.testing.subject import read_formula

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
# Repeated and consecutive time-stamps, and gaps.
_GAPS = (0, 1, 2, 3, 5, 10)
_MAXIMUM_SIZE = 20


def intervals(*, max_bound: int = 10, unbounded: bool = True) -> st.SearchStrategy[Interval]:
    """Generate intervals, shrinking towards `[0,*)`, or `[0,0]` if all are bounded.

    Args:
        max_bound: the largest lower and upper bound.
        unbounded: whether there are also intervals without an upper bound.

    Raises:
        MtlmonError: `max_bound` is not a valid bound.
    """
    if not 0 <= max_bound <= MAXIMUM_BOUND:
        raise MtlmonError(f"max_bound is an integer from 0 to 2^63-1, not {max_bound}")
    bounds = st.integers(0, max_bound)
    # Draw the lower bound and the width, which can shrink independently.
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
    """Generate formulas, shrinking towards the first atom.

    Args:
        atoms: the names to use; the first ones are preferred in small examples.
        past: whether to use past operators.
        future: whether to use future operators.
        bounded: whether future operators have an upper bound, so that every time-point is decided
            soon after time has passed `formula.future_reach`; NEXT waits for one event.
        constants: whether to use `true` and `false`.
        max_leaves: the largest number of atoms and constants, where repetitions count.
        intervals: a strategy for the intervals of temporal operators; by default `intervals()`,
            and `intervals(unbounded=False)` for future operators if `bounded` is set.

    Raises:
        MtlmonError: there are neither atoms nor constants, or the atoms are a single string.
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
    # Here and below, map tuples rather than use `builds`, which hypothesis prints as a call.
    several = st.tuples(*[operands] * operator.arity)
    if not operator.is_temporal:
        return several.map(lambda chosen: make(operator, *chosen))
    return st.tuples(several, widths).map(
        lambda chosen: make(operator, *chosen[0], interval=chosen[1])
    )


def letters(atoms: Sequence[str] | Formula = ("p", "q", "r")) -> st.SearchStrategy[frozenset[str]]:
    """Generate sets of atoms that hold at a time-point, shrinking towards none.

    Args:
        atoms: the names of the atoms, or a formula whose atoms to use.
    """
    names = _names(atoms)
    # One choice for each atom, so that each can be dropped without the others.
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
    """Generate traces for `check` and `assert_holds`, shrinking towards few and early events.

    Time-stamps never exceed 2^63-1.

    Args:
        atoms: the names to use; or a formula or its text, whose atoms are used, with gaps of time
            that reach the bounds of its intervals and just beyond.
        min_size: the least number of events.
        max_size: the largest number of events.
        gaps: a strategy for the differences of consecutive time-stamps.
        start: the first time-stamp, or a strategy for it.
        unit: the unit of the time-stamps, for bounds of the formula that have units.

    Raises:
        FormulaError: `atoms` is a text that is not a formula, or a bound is not a whole number of
            units.
        UnitError: the unit is unknown.
    """
    if isinstance(atoms, (str, Formula)):
        atoms = read_formula(atoms, unit)
    if gaps is None:
        gaps = st.sampled_from(_revealing_gaps(atoms) if isinstance(atoms, Formula) else _GAPS)
    first = st.just(start) if isinstance(start, int) else start
    letter = letters(atoms)
    # With None, time passes without an event: an event can be dropped without moving later ones.
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


def _revealing_gaps(formula: Formula) -> list[int]:
    """Gaps near the bounds of the formula's intervals, where values can change."""
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
