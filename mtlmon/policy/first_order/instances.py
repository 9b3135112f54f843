"""Formulas with variables for given values."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import Terms, quantified
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Aggregate, Expression
from mtlmon.syntax.formula import Formula

if TYPE_CHECKING:
    from collections.abc import Mapping

    Value = bool | int | float | str

__all__ = ["instance_of"]


def instance_of(formula: Formula, values: Mapping[str, Value]) -> Formula:
    """Return a formula whose free variables with a value are replaced by it.

    Args:
        formula: the formula. Formulas that nest deeper than those that an engine accepts are an
            error of Python's.
        values: values by name. Those of formulas that bind the same name again are not replaced.
    """
    constants = {name: _constant(value) for name, value in values.items()}
    return _instance(formula, constants)


def _constant(value: Value) -> Expression:
    return Expression(
        terms.CONSTANT, (), Decimal(repr(value)) if isinstance(value, float) else value
    )


def _instance(formula: Formula, constants: Mapping[str, Expression]) -> Formula:
    if bound := quantified(formula):
        constants = {name: one for name, one in constants.items() if name not in bound}
    operands = tuple(_instance(one, constants) for one in formula.operands)
    value = formula.value
    if isinstance(value, Terms):
        value = Terms(*(_term(one, constants) for one in value.expressions))
    return Formula(formula.operator, operands, formula.interval, formula.name, None, value)


def _term(term: Expression, constants: Mapping[str, Expression]) -> Expression:
    if term.operator is terms.VARIABLE:
        return constants.get(term.name, term)
    value = term.value
    if term.operator in terms.OF_FORMULAS:
        word, number, by, is_of_rows = term.aggregate
        others = tuple(name for name in by or () if name not in constants)
        value = Aggregate(word, number, others or None, is_of_rows)
    elif not term.operands:
        return term
    operands = tuple(_term(one, constants) for one in term.operands)
    return Expression(term.operator, operands, value, None)
