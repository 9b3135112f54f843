"""Makes formulas of our language from parsed ones of MonPoly's, once their types are known.

Every variable gets a name of its own where another of that name is in scope, `/` becomes the
division that it is for its type, and aggregates get the values that they have for MonPoly where
there is nothing to aggregate.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from mtlmon.monpoly.types import FLOAT, INT, REGEXP, STRING
from mtlmon.policy.first_order.terms import (
    Terms,
    comparison,
    free_in,
    free_variables,
    quantified,
    terms_of,
)
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
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
    **dict.fromkeys(product(("MIN", "MAX"), (STRING, REGEXP)), ""),
    **dict.fromkeys(product(("AVG", "MEDIAN"), (INT, FLOAT)), Decimal("0.0")),
}
"""What an aggregate of nothing is, for the type of its argument; COUNT and SUM are 0 anyway."""


class _Names(NamedTuple):
    """The variables in scope.

    Attributes:
        new: the new name of each, by the name as written.
        taken: all names that have a meaning, also where another variable hides it.
    """

    new: dict[str, str]
    taken: frozenset[str]

    def extended(self, own: Iterable[str]) -> _Names:
        """Add variables, by other names if theirs are taken.

        No variable of a file has a blank; people see what stands before it.
        """
        new, taken = dict(self.new), set(self.taken)
        for name in own:
            unique, number = name, 1
            while unique in taken:
                number += 1
                unique = f"{name} {number}"
            taken.add(unique)
            new[name] = unique
        return _Names(new, frozenset(taken))


def resolve(formula: Formula, types: Types) -> Formula:
    """Return a formula of our language.

    Args:
        formula: the formula as parsed; its free variables keep their names.
        types: the types of its expressions.
    """
    free = free_variables(formula)
    names = _Names({}, frozenset()).extended(free[id(formula)])
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
        found = Formula(node.operator, tuple(operands), None, node.name, node.span, Terms(*written))
        return self.of_nothing(found, node)

    def of_nothing(self, found: Formula, node: Formula) -> Formula:
        """Add what an aggregate without groups is if there is nothing to aggregate.

        Args:
            found: the comparison of a variable with the aggregate.
            node: the same as parsed.
        """
        (term, *_) = terms_of(node)
        if not node.operands or term.operator is not terms.EQUAL:
            return found
        aggregate = term.operands[1]
        default = self.default(aggregate)
        if default is None:
            return found
        (operand,) = found.operands
        names = free_in(operand)
        span = node.span
        exists = Formula(ops.EXISTS, (operand,), None, None, span, names)
        nothing = Formula(ops.NOT, (exists,), None, None, span)
        (equality,) = terms_of(found)
        value = Expression(terms.CONSTANT, (), default, aggregate.span)
        equal = Expression(terms.EQUAL, (equality.operands[0], value), None, term.span)
        of_nothing = Formula(ops.AND, (comparison(equal, (), span), nothing), None, None, span)
        return Formula(ops.OR, (found, of_nothing), None, None, span)

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
                value = aggregate._replace(by=by)
            operands = tuple(done[id(operand)] for operand in node.operands)
            done[id(node)] = Expression(operator, operands, value, node.span)
        return done[id(term)]

    def default(self, aggregate: Expression) -> Constant:
        """What an aggregate of nothing is, unless that is nothing or follows by itself."""
        if not aggregate.operands or aggregate.aggregate.by is not None:
            return None
        kind = self.types.of(aggregate.operands[0])
        return _DEFAULTS.get((aggregate.aggregate.word, kind))
