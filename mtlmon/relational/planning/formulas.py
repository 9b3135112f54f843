"""What the planner asks about formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import free_in, quantified, terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.relational.binding import conjuncts
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import STRICT, Formula
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from mtlmon.policy.predicates.expression import Expression

_FUTURES = (ops.EVENTUALLY, ops.ALWAYS, ops.UNTIL, ops.NEXT)


def is_late(formula: Formula, lets: Container[str] = ()) -> bool:
    """Whether later time-points decide about a formula.

    Args:
        formula: the formula.
        lets: the lets of which later time-points decide that have rows at each time-point.
    """
    return any(node.operator in _FUTURES or node.name in lets for node in postorder(formula))


def late_lets_of(lets: Mapping[str, Formula]) -> frozenset[str]:
    """The lets that use themselves about which later time-points decide."""
    found: frozenset[str] = frozenset()
    while True:
        more = frozenset(name for name, formula in lets.items() if is_late(formula, found))
        if more == found:
            return found
        found = more


def is_driven(formula: Formula) -> bool:
    """Whether the rows of a formula come from this time-point."""
    found = [formula]
    while found:
        node = found.pop()
        if node.operator is ops.PREDICATE:
            continue
        if node.operator is ops.AND:
            if not any(is_driven(one) for one in conjuncts(node)):
                return False
        elif node.operator in (ops.OR, ops.EXISTS):
            found += node.operands
        elif node.operator not in (ops.ATOM, ops.FALSE, ops.PREVIOUS):
            return False
    return True


def sides(formula: Formula) -> list[Formula]:
    """The operands of nested ORs; none if it is not an OR."""
    if formula.operator is not ops.OR:
        return []
    found: list[Formula] = []
    for one in formula.operands:
        found += sides(one) or [one]
    return found


def joined(operator: ops.Operator, parts: Sequence[Formula]) -> Formula:
    """The formulas, at least one, joined by AND or OR."""
    found = parts[0]
    for one in parts[1:]:
        found = Formula(operator, (found, one), None, None, found.span)
    return found


def exists_of(names: Iterable[str], formula: Formula, origin: Formula) -> Formula:
    free = free_in(formula)
    own = tuple(name for name in names if name in free)
    if not own:
        return formula
    return Formula(ops.EXISTS, (formula,), None, None, origin.span, own)


def shape(formula: Formula, names: Sequence[str]) -> object:
    """What formulas have in common that differ in the names of variables only."""
    numbers = {name: number for number, name in enumerate(names)}

    def of_term(term: Expression) -> object:
        if term.operator is terms.VARIABLE:
            return ("variable", numbers.setdefault(term.name, len(numbers)))
        if term.operator in terms.OF_FORMULAS:
            word, formula, by, _ = term.aggregate
            groups = (
                None if by is None else tuple(numbers.setdefault(name, len(numbers)) for name in by)
            )
            return (term.operator.name, word, formula, groups, *map(of_term, term.operands))
        value = (type(term.value).__name__, term.value)
        return (term.operator.name, value, *map(of_term, term.operands))

    def of(node: Formula) -> object:
        bounds = None if node.interval is None else (node.interval.lower, node.interval.upper)
        own = [numbers.setdefault(name, len(numbers)) for name in quantified(node)]
        found = tuple(map(of_term, terms_of(node)))
        name = f"{node.operator.name} strict" if node.value == STRICT else node.operator.name
        return (name, node.name, bounds, tuple(own), found, *map(of, node.operands))

    return of(formula), len(names)
