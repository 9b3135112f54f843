"""Finds what a policy makes of time-points without rows, which slices need not get then.

A time-point can be left out for a formula that is *empty*, so that no valuation fulfils it there,
and *inert*, so that no operator remembers anything of it. Both are checked on the text alone.
Time-points have numbers, so that a gap is seen where one matters: for PREVIOUS and NEXT, and for a
left side of SINCE or UNTIL that is empty itself, and ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import aggregates_of, terms_of
from mtlmon.relational.binding import conjuncts
from mtlmon.relational.normal import normal_form
from mtlmon.relational.nothing import driving, is_total
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.syntax.formula import Formula

__all__ = ["asks_for_marks", "compares_numbers"]

_UNARY = (ops.ONCE, ops.EVENTUALLY, ops.PREVIOUS, ops.NEXT)


def lets_with_rows(lets: Mapping[str, Formula], built_in: Collection[str]) -> frozenset[str]:
    """Return the lets that use themselves which may hold at a time-point without rows.

    Args:
        lets: their formulas in normal form.
        built_in: the names of the atoms that have a row at each time-point.
    """
    found: frozenset[str] = frozenset()
    while True:
        # what is empty if all others are, is empty at the first time-point, and at each behind it
        made = {*built_in, *found}
        more = frozenset(name for name, one in lets.items() if not _is_empty(one, made))
        if more == found:
            return found
        found = more


def asks_for_marks(
    formula: Formula,
    built_in: Collection[str],
    is_alone: Callable[[Formula], bool],
    lets: Sequence[Formula] = (),
) -> list[Formula]:
    """Return the parts because of which a policy has to get every time-point.

    If there are none, time-points without rows can be left out: nothing is answered there, and
    nothing remembered.

    Args:
        formula: the formula in normal form.
        built_in: the names of the atoms that have a row at each time-point, and of such lets.
        is_alone: whether a formula binds its free variables.
        lets: the formulas of the lets that use themselves, and that it uses.
    """
    found = [] if _is_empty(formula, built_in) else [formula]
    for one in (formula, *lets):
        found += _remembering(one, built_in, is_alone)
    unique: dict[int, Formula] = {id(one): one for one in found}
    return list(unique.values())


def compares_numbers(formula: Formula, built_in: Collection[str]) -> bool:
    """Whether gaps between time-points matter for a formula that asks for no marks.

    Args:
        formula: the formula in normal form.
        built_in: the names of the atoms that have a row at each time-point.
    """
    return any(
        node.operator in (ops.PREVIOUS, ops.NEXT)
        or (
            node.operator in (ops.SINCE, ops.UNTIL)
            and not all(_lasts(one, built_in) for one in conjuncts(node.operands[0]))
        )
        for node in _parts(formula)
    )


def _is_empty(formula: Formula, built_in: Collection[str]) -> bool:
    """Whether no valuation fulfils a formula, in normal form, at a time-point without rows."""
    stack = [formula]
    while stack:
        node = stack.pop()
        operator = node.operator
        if operator is ops.AND:
            if not any(_is_empty(one, built_in) for one in conjuncts(node)):
                return False
        elif operator in (ops.OR, ops.EXISTS):
            stack += node.operands
        elif operator is ops.PREDICATE:
            if node.name in built_in:
                return False
        elif operator is ops.COMPARISON:
            if not any(_has_no_groups(node, one, built_in) for one in aggregates_of(node)):
                return False
        elif operator is ops.ATOM:
            if node.name in built_in:
                return False
        elif operator is not ops.FALSE:
            return False
    return True


def _has_no_groups(node: Formula, aggregate: Expression, built_in: Collection[str]) -> bool:
    """Whether an aggregate of a comparison has no value without rows, so that nothing holds."""
    _, number, by, _ = aggregate.aggregate
    if is_total(aggregate) and (by is None or aggregate not in driving(node)):
        return False
    return _is_empty(normal_form(node.operands[number]), built_in)


def _parts(formula: Formula) -> Iterator[Formula]:
    """Yield all subformulas; those of HISTORICALLY and ALWAYS of the negated operand."""
    stack = [formula]
    while stack:
        node = stack.pop()
        yield node
        if node.operator in (ops.HISTORICALLY, ops.ALWAYS):
            # NOT of ONCE or EVENTUALLY of the negation
            stack.append(normal_form(node.operands[0], negated=True))
        elif node.operator is ops.COMPARISON:
            stack += (normal_form(one) for one in reversed(node.operands))
        else:
            stack += reversed(node.operands)


def _remembering(
    formula: Formula, built_in: Collection[str], is_alone: Callable[[Formula], bool]
) -> Iterator[Formula]:
    """Yield the temporal subformulas that remember something of a time-point without rows."""
    for node in _parts(formula):
        operator = node.operator
        if operator in (ops.HISTORICALLY, ops.ALWAYS):
            if not _is_empty(normal_form(node.operands[0], negated=True), built_in):
                yield node
        elif operator in _UNARY:
            if not _is_empty(node.operands[0], built_in):
                yield node
        elif operator in (ops.SINCE, ops.UNTIL):
            left, right = node.operands
            if not _is_empty(right, built_in) or not all(
                _lasts(one, built_in) or _ends(one, built_in, is_alone) for one in conjuncts(left)
            ):
                yield node


def _lasts(part: Formula, built_in: Collection[str]) -> bool:
    """Whether a conjunct of a left side ends nothing at a time-point without rows."""
    if part.operator is ops.TRUE:
        return True
    negated = part.operator is ops.NOT
    inner = part.operands[0] if negated else part
    if inner.operator is ops.COMPARISON and not inner.operands and terms_of(inner):
        # time does not change it
        return True
    return negated and _is_empty(inner, built_in)


def _ends(part: Formula, built_in: Collection[str], is_alone: Callable[[Formula], bool]) -> bool:
    """Whether a conjunct of a left side ends everything at a time-point without rows.

    The engine notices that such a conjunct has no rows by the number of the next time-point, if it
    follows its rows, and not those of its negation.
    """
    return (
        _is_empty(part, built_in)
        and is_alone(part)
        and not is_alone(normal_form(part, negated=True))
    )
