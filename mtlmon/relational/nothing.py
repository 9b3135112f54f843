"""What comparisons are of groups without rows: COUNT and SUM are 0, other aggregates have no value.

A comparison with an aggregate binds the variables behind BY if it is false for all groups without
rows, as `COUNT(p(u, x) BY u) > 3` is. `COUNT(p(u, x) BY u) < 3` is true of them: of all values that
occur nowhere.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.first_order.terms import aggregates_of, comparison, terms_of, variables_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mtlmon.syntax.formula import Formula


class _Range(NamedTuple):
    """The numbers that a term may be; it may also be another value, or none."""

    lower: float = -inf
    upper: float = inf


_ANY = _Range()
_COMPLEMENTS = {
    terms.EQUAL: terms.NOT_EQUAL,
    terms.NOT_EQUAL: terms.EQUAL,
    terms.LESS: terms.GREATER_EQUAL,
    terms.GREATER_EQUAL: terms.LESS,
    terms.GREATER: terms.LESS_EQUAL,
    terms.LESS_EQUAL: terms.GREATER,
}
_STRICT = frozenset({*terms.ARITHMETIC, terms.ABS, terms.FLOOR, terms.ROUND, *terms.OF_FLOATS})


def is_total(aggregate: Expression) -> bool:
    """Whether an aggregate has a value where its formula has no rows."""
    word, _, by, is_of_rows = aggregate.aggregate
    return word in {"COUNT", "SUM"} and (by is None or not is_of_rows)


def complement(node: Formula) -> Formula | None:
    """The comparison that holds where one with a COUNT does not, if it is false for 0.

    It binds the groups of the COUNT then, if there are any. A COUNT always has a value. Other terms
    may have none, so that no comparison of them holds, and it is not said here what does.
    """
    (term,) = terms_of(node)
    if term.operator not in _COMPLEMENTS:
        return None
    for one in term.operands:
        is_count = one.operator is terms.COUNT_FORMULA and is_total(one)
        if not is_count and one.operator not in (terms.VARIABLE, terms.CONSTANT):
            return None
    turned = Expression(_COMPLEMENTS[term.operator], term.operands, None, term.span)
    found = comparison(turned, node.operands, node.span)
    counts = aggregates_of(found)
    return (
        found if any(_is_false(turned, {id(one): _of_nothing(one)}, ()) for one in counts) else None
    )


def driving(node: Formula, others: Iterable[Formula] = ()) -> list[Expression]:
    """The aggregates of a comparison that bind the variables behind their BY.

    Args:
        node: the comparison.
        others: the other conjuncts: `n = COUNT(p(u, x) BY u)` binds u beside `n > 3`.
    """
    if node.operator is not ops.COMPARISON:
        return []
    (term,) = terms_of(node)
    beside = [
        terms_of(one)[0]
        for one in others
        if one is not node and one.operator is ops.COMPARISON and not one.operands
    ]
    return [
        one
        for one in aggregates_of(node)
        if one.aggregate.by and _is_false(term, {id(one): _of_nothing(one)}, beside)
    ]


def _of_nothing(aggregate: Expression) -> _Range | None:
    return _Range(0, 0) if is_total(aggregate) else None


def _is_false(
    term: Expression, known: Mapping[int, _Range | None], beside: Iterable[Expression]
) -> bool:
    """Whether a comparison is false, or another one beside it, if some parts have known values."""
    values = _values(term, known, {})
    if _cannot_hold(term, values):
        return True
    if term.operator is not terms.EQUAL:
        return False
    for one, other in (term.operands, term.operands[::-1]):
        if one.operator is not terms.VARIABLE:
            continue
        found = {one.name: values[id(other)]}
        for condition in beside:
            names = variables_of(condition)
            if one.name in names and _cannot_hold(condition, _values(condition, {}, found)):
                return True
    return False


def _values(
    term: Expression,
    known: Mapping[int, _Range | None],
    variables: Mapping[str, _Range | None],
) -> dict[int, _Range | None]:
    """What the parts of a term may be; None if they have no value."""
    found: dict[int, _Range | None] = {}
    for node in postorder(term):
        if id(node) in known:
            found[id(node)] = known[id(node)]
            continue
        operands = [found[id(one)] for one in node.operands]
        if node.operator is terms.VARIABLE:
            found[id(node)] = variables.get(node.name, _ANY)
        elif node.operator in terms.OF_FORMULAS:
            found[id(node)] = _Range(0) if node.aggregate.word == "COUNT" else _ANY
        elif node.operator is terms.CONSTANT:
            found[id(node)] = _constant(node.value)
        elif node.operator in _STRICT and None in operands:
            found[id(node)] = None
        else:
            found[id(node)] = _calculated(node, [one or _ANY for one in operands])
    return found


def _constant(value: object) -> _Range:
    if isinstance(value, bool | str) or value is None:
        return _ANY
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return _ANY
    # a large integer is not exactly a float
    return _Range(number, number) if number == value else _ANY


def _calculated(node: Expression, operands: list[_Range]) -> _Range:
    """The numbers that a sum, difference or product may be."""
    operator = node.operator
    if operator is terms.NEGATE:
        return _Range(-operands[0].upper, -operands[0].lower)
    if operator is terms.ADD:
        (a, b), (c, d) = operands
        return _Range(a + c, b + d)
    if operator is terms.SUBTRACT:
        (a, b), (c, d) = operands
        return _Range(a - d, b - c)
    if operator is terms.MULTIPLY:
        one, other = operands
        if not all(map(isfinite, one)):
            one, other = other, one
        if one == _Range(0, 0):
            return one
        if all(map(isfinite, one)):
            ends = [0 if 0 in (a, b) else a * b for a in one for b in other]
            return _Range(min(ends), max(ends))
    if operator is terms.DIVIDE and operands[0] == _Range(0, 0):
        return operands[0]
    return _ANY


def _cannot_hold(term: Expression, values: Mapping[int, _Range | None]) -> bool:
    """Whether a comparison is false, whatever the values are."""
    operator = term.operator
    sides = [values[id(one)] for one in term.operands]
    if operator not in {*terms.COMPARISONS.values(), terms.IN, terms.NOT_IN}:
        return False
    if None in sides:
        return True
    one = sides[0] or _ANY
    if operator is terms.IN:
        return one.lower == one.upper and all(
            isinstance(member, int | float) and member != one.lower for member in term.members
        )
    if operator is terms.NOT_IN or len(sides) < 2:
        return False
    other = sides[1] or _ANY
    if operator is terms.EQUAL:
        return one.upper < other.lower or other.upper < one.lower
    if operator is terms.NOT_EQUAL:
        return one.lower == one.upper == other.lower == other.upper
    if operator in (terms.GREATER, terms.GREATER_EQUAL):
        one, other = other, one
    if operator in (terms.LESS, terms.GREATER):
        return one.lower >= other.upper
    return one.lower > other.upper
