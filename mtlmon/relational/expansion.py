"""Replaces lets with parameters, and names bound variables apart.

What is left has predicates of atoms only, whose arguments are variables, constants and `_`. Any
other argument becomes a variable of its own: `p(x + 1)` is `EXISTS y. p(y) AND y = x + 1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import LimitError
from mtlmon.policy.first_order.terms import (
    Terms,
    comparison,
    free_in,
    quantified,
    terms_of,
)
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Aggregate, Expression
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.relational.binding import Definition

DEEPEST = 120
"""How deeply formulas with variables can nest, lets included."""
_MOST_NODES = 100_000
_PLAIN = (terms.WILDCARD, terms.CONSTANT)

Names = dict[str, str]


class Expansion:
    """Expands formulas of one file.

    Args:
        lets: the lets with parameters by name.
    """

    def __init__(self, lets: Mapping[str, Definition]) -> None:
        self._lets = lets
        self._fresh = 0
        self._nodes = 0

    def expanded(self, formula: Formula, names: Names | None = None, depth: int = 0) -> Formula:
        """Return the formula with lets replaced and bound variables named apart.

        Args:
            formula: the formula.
            names: the new names of its free variables that have one.
            depth: how deep it stands.

        Raises:
            LimitError: it nests too deeply, or becomes too large.
        """
        names = names or {}
        self._nodes += 1
        if depth > DEEPEST:
            raise LimitError(
                f"a formula with variables nests more than {DEEPEST} operators, lets included"
            )
        if self._nodes > _MOST_NODES:
            raise LimitError(
                f"a formula with variables has more than {_MOST_NODES:,} operators, lets included"
            )
        if formula.operator is ops.PREDICATE:
            return self._predicate(formula, names, depth)
        if formula.operator is ops.COMPARISON:
            (term,) = terms_of(formula)
            return self._comparison(term, formula, names, depth)
        if bound := quantified(formula):
            names = names | {name: self.fresh(name) for name in bound}
            value = tuple(names[name] for name in bound)
            operand = self.expanded(formula.operands[0], names, depth + 1)
            return Formula(formula.operator, (operand,), None, None, formula.span, value)
        if not formula.operands:
            return formula
        operands = tuple(self.expanded(one, names, depth + 1) for one in formula.operands)
        return Formula(
            formula.operator, operands, formula.interval, formula.name, formula.span, formula.value
        )

    def fresh(self, name: str) -> str:
        """A name that no file can have."""
        self._fresh += 1
        return f"{name.partition(' ')[0]} {self._fresh}"

    def _predicate(self, formula: Formula, names: Names, depth: int) -> Formula:
        let = self._lets.get(formula.name or "")
        hidden: list[str] = []
        extra: list[Formula] = []
        arguments: list[Expression] = []
        for argument in terms_of(formula):
            if argument.operator is terms.VARIABLE:
                arguments.append(_variable(names.get(argument.name, argument.name)))
            elif (argument.operator is terms.WILDCARD and let is None) or (
                argument.operator is terms.CONSTANT and let is None
            ):
                arguments.append(argument)
            else:
                variable = self.fresh("argument")
                hidden.append(variable)
                arguments.append(_variable(variable))
                if argument.operator is not terms.WILDCARD:
                    equality = Expression(
                        terms.EQUAL, (_variable(variable), argument), None, argument.span
                    )
                    extra.append(self._comparison(equality, formula, names, depth))
        if let is None:
            found = Formula(ops.PREDICATE, (), None, formula.name, formula.span, Terms(*arguments))
        else:
            own = dict(zip(let.parameters, (one.name for one in arguments), strict=True))
            found = self.expanded(let.formula, own, depth + 1)
        for one in extra:
            found = Formula(ops.AND, (found, one), None, None, formula.span)
        if hidden:
            found = Formula(ops.EXISTS, (found,), None, None, formula.span, tuple(hidden))
        return found

    def _comparison(self, term: Expression, formula: Formula, names: Names, depth: int) -> Formula:
        """Expand a comparison, whose aggregates are over operands of a formula."""
        operands: list[Formula] = []
        renamed = self._term(term, formula, names, operands, depth)
        return comparison(renamed, tuple(operands), formula.span)

    def _term(
        self, term: Expression, formula: Formula, names: Names, operands: list[Formula], depth: int
    ) -> Expression:
        if term.operator is terms.VARIABLE:
            return _variable(names.get(term.name, term.name), term)
        if term.operator in terms.OF_FORMULAS:
            word, number, by, is_of_rows = term.aggregate
            operand = formula.operands[number]
            own = {name: names.get(name, name) for name in by or ()}
            for name in free_in(operand):
                if name not in own:
                    own[name] = self.fresh(name)
            value = tuple(self._term(one, formula, own, operands, depth) for one in term.operands)
            operands.append(self.expanded(operand, own, depth + 1))
            groups = None if by is None else tuple(dict.fromkeys(own[name] for name in by))
            found = Aggregate(word, len(operands) - 1, groups, is_of_rows)
            return Expression(term.operator, value, found, term.span)
        if not term.operands:
            return term
        inner = tuple(self._term(one, formula, names, operands, depth) for one in term.operands)
        return Expression(term.operator, inner, term.value, term.span)


def _variable(name: str, origin: Expression | None = None) -> Expression:
    return Expression(terms.VARIABLE, (), name, None if origin is None else origin.span)
