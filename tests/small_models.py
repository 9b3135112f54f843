"""Every small formula on every short trace.

Formulas are enumerated by their number of operators, up to renaming of atoms (p occurs first) and
with the smaller operand first where the order does not matter; nodes are shared. Traces begin at
time-stamp 0 and speak only of the atoms that the formula has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from mtlmon import FALSE, TRUE, Formula, atom
from tests.doors import Interval, Operator, make
from tests.doors import syntax_operators as ops
from tests.formulas import atoms_of
from tests.traces import Advance, Event, Step, Trace

P, Q = atom("p"), atom("q")
COMMUTATIVE = frozenset({ops.AND, ops.OR, ops.IFF})
ALL_OPERATORS = tuple(operator for operator in ops.OPERATORS if operator.arity)
KERNEL = (ops.NOT, ops.AND, ops.PREVIOUS, ops.NEXT, ops.SINCE, ops.UNTIL)
UNARY = tuple(operator for operator in ALL_OPERATORS if operator.arity == 1)
SHORT = (ops.NOT, ops.AND, ops.ONCE, ops.PREVIOUS, ops.NEXT, ops.ALWAYS, ops.SINCE, ops.UNTIL)


class Family(NamedTuple):
    """Some formulas, and the traces each of them is run on.

    Attributes:
        operators: those allowed.
        intervals: those that temporal operators may have, None as upper bound for infinity.
        leaves: the operands to start from.
        size: exact number of operators.
        increments: distances between neighbouring time-stamps.
        length: of the traces.
        atoms: how many different atoms the formulas have.
        advances: whether any step may also be time passing without an event.
    """

    operators: Sequence[Operator]
    intervals: Sequence[tuple[int, int | None]]
    leaves: Sequence[Formula]
    size: int
    increments: Sequence[int]
    length: int
    atoms: int
    advances: bool = False


def formulas_of(family: Family) -> Iterator[Formula]:
    """The formulas of the family's size and number of atoms, each once."""
    by_size: list[list[Formula]] = [list(family.leaves)]
    for size in range(1, family.size + 1):
        by_size.append([f for op in family.operators for f in _applied(op, family, by_size, size)])
    return (f for f in by_size[-1] if len(atoms_of(f)) == family.atoms and _is_canonical(f))


def _applied(
    operator: Operator, family: Family, by_size: list[list[Formula]], size: int
) -> Iterator[Formula]:
    intervals: list[Interval | None] = [None]
    if operator.is_temporal:
        intervals = [Interval(lower, upper) for lower, upper in family.intervals]
    if operator.arity == 1:
        for interval, f in product(intervals, by_size[size - 1]):
            yield make(operator, f, interval=interval)
        return
    for left_size in range(size):
        right_size = size - 1 - left_size
        if operator in COMMUTATIVE and left_size > right_size:
            continue
        for interval, f, g in product(intervals, by_size[left_size], by_size[right_size]):
            yield make(operator, f, g, interval=interval)


def _is_canonical(formula: Formula) -> bool:
    return _first_atom(formula) in (None, "p")


def _first_atom(formula: Formula) -> str | None:
    if formula.name is not None:
        return formula.name
    return next(filter(None, map(_first_atom, formula.operands)), None)


def traces_of(family: Family) -> Iterator[Trace]:
    """The traces of the family's length over its atoms."""
    names = ("p", "q")[: family.atoms]
    letters: list[frozenset[str] | None] = [None] if family.advances else []
    letters += [
        frozenset(name for name, present in zip(names, choice, strict=True) if present)
        for choice in product((False, True), repeat=len(names))
    ]
    for increments in product(family.increments, repeat=family.length - 1):
        times = [sum(increments[:i]) for i in range(family.length)]
        for word in product(letters, repeat=family.length):
            yield tuple(map(_step, times, word))


def _step(time_stamp: int, letter: frozenset[str] | None) -> Step:
    return Advance(time_stamp) if letter is None else Event(time_stamp, letter)


_ALL_INTERVALS = ((0, 0), (0, 1), (1, 1), (1, 2), (0, None), (1, None))
_FEW_INTERVALS = ((0, 1), (1, 2), (1, None))
# Time-stamps that are neighbours can be too near to each other for NEXT[2,3] and PREVIOUS[2,3], as
# well as too far apart. All the intervals above take in the distance of 1, so that steps between
# different time-stamps are never too short for them.
_MISSED_INTERVALS = ((0, 3), (2, 3))
_MISSING = (1, 2, 4)
_STEPS = (ops.PREVIOUS, ops.NEXT, ops.SINCE, ops.UNTIL)
_LEAVES = (P, Q, TRUE, FALSE)

LEVELS: dict[int, tuple[Family, ...]] = {
    1: (
        Family(ALL_OPERATORS, _ALL_INTERVALS, _LEAVES, 1, (0, 1, 2), 3, 0),
        Family(ALL_OPERATORS, _ALL_INTERVALS, _LEAVES, 1, (0, 1, 2), 4, 1),
        Family(ALL_OPERATORS, _ALL_INTERVALS, _LEAVES, 1, (0, 1, 2), 3, 2),
        Family(ALL_OPERATORS, _FEW_INTERVALS, _LEAVES, 1, (0, 1, 2), 3, 1, advances=True),
        Family(SHORT, ((0, 1), (1, 2)), (P, Q), 2, (0, 1, 3), 3, 1, advances=True),
        Family(SHORT, ((0, 1), (1, None)), (P, Q), 2, (0, 1, 2), 3, 2),
        Family(_STEPS, _MISSED_INTERVALS, (P,), 3, _MISSING, 3, 1),
    ),
    2: (
        Family(ALL_OPERATORS, _ALL_INTERVALS, _LEAVES, 1, (0, 1, 2, 3), 5, 1),
        Family(ALL_OPERATORS, _ALL_INTERVALS, _LEAVES, 1, (0, 1, 2), 4, 2),
        Family(ALL_OPERATORS, _FEW_INTERVALS, _LEAVES, 2, (0, 1, 3), 3, 1),
        Family(SHORT, _FEW_INTERVALS, (P, Q), 2, (0, 1, 2), 4, 1, advances=True),
        Family(SHORT, _FEW_INTERVALS, (P, Q), 2, (0, 1, 3), 3, 2),
        Family(ALL_OPERATORS, _MISSED_INTERVALS, (P, Q), 2, (0, *_MISSING), 3, 1),
        Family(KERNEL, _MISSED_INTERVALS, (P,), 3, (0, *_MISSING), 3, 1),
    ),
    3: (
        Family(KERNEL, _FEW_INTERVALS, (P, Q, TRUE), 3, (0, 1, 3), 3, 1),
        Family(SHORT, ((0, 2), (1, 3)), (P, Q), 3, (0, 1), 4, 1),
        Family(SHORT, _FEW_INTERVALS, (P, Q), 2, (0, 1, 3), 4, 2),
        Family(ALL_OPERATORS, _MISSED_INTERVALS, (P,), 3, _MISSING, 3, 1),
        Family(KERNEL, _MISSED_INTERVALS, (P, Q), 3, _MISSING, 3, 2),
    ),
}
"""What each level of the exhaustive run adds to the levels below it."""
