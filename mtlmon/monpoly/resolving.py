"""Makes formulas of our language from parsed ones of MonPoly's, once their types are known.

Every variable gets a name of its own where another of that name is in scope, `/` becomes the
division that it is for its type, and aggregates get the values that they have for MonPoly where
there is nothing to aggregate.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.monpoly.types import FLOAT, INT, STRING
from mtlmon.policy.first_order.terms import Terms, free_variables, quantified, terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.support.generators import run
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from mtlmon.monpoly.types import Types
    from mtlmon.policy.predicates.expression import Constant

_DEFAULTS: dict[tuple[str, str], Constant] = {
    ("MIN", INT): 0,
    ("MAX", INT): 0,
    ("MIN", FLOAT): Decimal("Infinity"),
    ("MAX", FLOAT): Decimal("-Infinity"),
    ("MIN", STRING): "",
    ("MAX", STRING): "",
    ("SUM", INT): 0,
    ("SUM", FLOAT): Decimal("0.0"),
    ("AVG", INT): Decimal("0.0"),
    ("AVG", FLOAT): Decimal("0.0"),
    ("MEDIAN", INT): Decimal("0.0"),
    ("MEDIAN", FLOAT): Decimal("0.0"),
}
"""What an aggregate of nothing is, for the type of its argument."""


class _Names(NamedTuple):
    """The variables in scope.

    Attributes:
        new: the new name of each, by the name as written.
        taken: all names that have a meaning, also where another variable hides it.
        written: all names in the formula, which no other variable gets.
    """

    new: dict[str, str]
    taken: frozenset[str]
    written: frozenset[str]

    def extended(self, own: Iterable[str]) -> _Names:
        """Add variables, by other names if theirs are taken."""
        new, taken = dict(self.new), set(self.taken)
        for name in own:
            unique, number = name, 1
            while unique in taken or (unique in self.written and unique != name):
                number += 1
                unique = f"{name}_{number}"
            taken.add(unique)
            new[name] = unique
        return _Names(new, frozenset(taken), self.written)


def resolve(formula: Formula, types: Types) -> Formula:
    """Return a formula of our language.

    Args:
        formula: the formula as parsed; its free variables keep their names.
        types: the types of its expressions.
    """
    free = free_variables(formula)
    written = {name for names in free.values() for name in names}
    names = _Names({}, frozenset(), frozenset(written)).extended(free[id(formula)])
    return run(_Resolver(free, types).resolved(formula, names))


class _Resolver:
    def __init__(self, free: Mapping[int, tuple[str, ...]], types: Types) -> None:
        self.types = types
        self.free = free

    def resolved(self, node: Formula, names: _Names) -> Generator[Any, Any, Formula]:
        """Return a subformula with other names.

        Args:
            node: the subformula.
            names: the variables in scope.
        """
        if terms_of(node):
            part: Formula = yield self.leaf(node, names)
            return part
        own = quantified(node)
        inner = names.extended(own)
        operands = []
        for operand in node.operands:
            operands.append((yield self.resolved(operand, inner)))
        value = tuple(inner.new[name] for name in own) or None
        return Formula(node.operator, tuple(operands), node.interval, node.name, node.span, value)

    def leaf(self, node: Formula, names: _Names) -> Generator[Any, Any, Formula]:
        """Return a relation or comparison with other names."""
        operands: list[Formula] = []
        within: dict[int, _Names] = {}
        for aggregate in postorder(*terms_of(node)):
            if aggregate.operator not in terms.OF_FORMULAS:
                continue
            operand = node.operands[aggregate.aggregate.formula]
            groups = aggregate.aggregate.by or ()
            own = [name for name in self.free[id(operand)] if name not in groups]
            inner = names.extended(own)
            operands.append((yield self.resolved(operand, inner)))
            within |= {id(part): inner for part in postorder(*aggregate.operands)}
        written = [self.term(term, names, within) for term in terms_of(node)]
        value = Terms(*written)
        return Formula(node.operator, tuple(operands), None, node.name, node.span, value)

    def term(self, term: Expression, names: _Names, within: Mapping[int, _Names]) -> Expression:
        """Return a term with other names, and operators for its types."""
        done: dict[int, Expression] = {}
        for node in postorder(term):
            operator, value = node.operator, node.value
            if operator is terms.VARIABLE:
                value = within.get(id(node), names).new[node.name]
            elif operator is terms.DIVIDE:
                is_float = self.types.of(node) == FLOAT
                operator = terms.RATIO if is_float else terms.QUOTIENT
            elif operator in terms.OF_FORMULAS:
                aggregate = node.aggregate
                by = aggregate.by and tuple(names.new[name] for name in aggregate.by)
                value = aggregate._replace(by=by, default=self.default(node))
            operands = tuple(done[id(operand)] for operand in node.operands)
            done[id(node)] = Expression(operator, operands, value, node.span)
        return done[id(term)]

    def default(self, node: Expression) -> Constant:
        """The value of an aggregate of nothing."""
        if not node.operands or node.aggregate.by is not None:
            return None
        kind = self.types.of(node.operands[0])
        return _DEFAULTS.get((node.aggregate.word, kind), "")
