"""Tells which conjuncts calculate: a conjunct that does not guards them, wherever it stands.

Integers overflow, and in files of MonPoly a division by 0 is an error. So what calculates is
evaluated for the valuations that all other conjuncts leave, then in the order in which it is
written. The planner tries conditions earlier where rows are added or wait, and keeps rows for which
they overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import aggregates_of, terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from mtlmon.relational.binding import Definition
    from mtlmon.syntax.formula import Formula

_CALCULATING = frozenset(
    {*terms.ARITHMETIC, *terms.CONVERSIONS.values()} - {terms.SUBSTRING, terms.PATTERN_MATCHES}
    | {terms.ABS, terms.FLOOR, terms.ROUND}
    | {terms.OWN_FUNCTION}
    | terms.OF_FLOATS
)


class Arithmetic:
    """Knows which formulas of a file calculate.

    Args:
        lets: the lets with parameters by name.
        mixed: the equalities of numbers of two types, which bind nothing, by their `id`.
    """

    def __init__(self, lets: Mapping[str, Definition], mixed: Container[int]) -> None:
        self._lets = lets
        self._mixed = mixed
        self._known: dict[int, bool] = {}
        self._kept: list[Formula] = []

    def is_in(self, formula: Formula) -> bool:
        """Whether a conjunct calculates with values that are bound around it.

        What temporal operators remember has been calculated before, but for comparisons in left
        sides, which time does not change.
        """
        if id(formula) not in self._known:
            self._kept.append(formula)
            self._known[id(formula)] = self._is_in(formula)
        return self._known[id(formula)]

    def _is_in(self, formula: Formula) -> bool:
        stack = [formula]
        visited: list[int] = []
        seen: set[str] = set()
        while stack:
            node = stack.pop()
            known = self._known.get(id(node))
            if known is not None:
                if known:
                    return True
                continue
            visited.append(id(node))
            if any(one.operator in _CALCULATING for one in postorder(*terms_of(node))):
                return True
            if any(one.aggregate.word == "SUM" for one in aggregates_of(node)):
                return True
            name = node.name or ""
            if node.operator is ops.PREDICATE and name in self._lets and name not in seen:
                seen.add(name)
                stack.append(self._lets[name].formula)
            if not node.operator.is_temporal:
                stack += node.operands
            elif node.operator in (ops.SINCE, ops.UNTIL):
                stack += static_parts(node.operands[0])
        # nor do parts calculate, which are asked about next
        self._known |= dict.fromkeys(visited, False)
        return False

    def targets(self, waiting: Iterable[Formula]) -> frozenset[str]:
        """The variables to which conjuncts that calculate may give values."""
        found: set[str] = set()
        for node in waiting:
            if node.operator is not ops.COMPARISON or id(node) in self._mixed:
                continue
            (term,) = terms_of(node)
            if term.operator is terms.EQUAL and self.is_in(node):
                found |= {one.name for one in term.operands if one.operator is terms.VARIABLE}
        return frozenset(found)


def static_parts(formula: Formula) -> list[Formula]:
    """The conjuncts that are comparisons without aggregates, or NOT of one: time changes none."""
    found = []
    stack = [formula]
    while stack:
        node = stack.pop()
        if node.operator is ops.AND:
            stack += reversed(node.operands)
            continue
        inner = node.operands[0] if node.operator is ops.NOT else node
        if inner.operator is ops.COMPARISON and not inner.operands:
            found.append(node)
    return found
