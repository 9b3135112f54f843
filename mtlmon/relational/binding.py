"""Finds out whether a first-order formula can be evaluated, and what binds each variable.

A subformula is evaluated under some variables that are bound already, and binds others: a predicate
binds its arguments, an equality one side, and a negation or other comparison nothing. The operands
of temporal operators and aggregates are evaluated alone, as their rows are remembered. No function
is recursive: those that would be are generators, which `run` drives.

If a formula cannot be evaluated, equivalences move the conditions that an operand of a temporal
operator needs from outside out of the operand (`outside`). Errors still name a part that the user
wrote, and explanations show the text as written. A property compares the analysis with the
reference: a value that is nowhere in the log satisfies no formula that is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.first_order.terms import (
    aggregates_of,
    free_in,
    quantified,
    terms_of,
    variables_of,
)
from mtlmon.policy.predicates import operators as terms
from mtlmon.relational.arithmetic import Arithmetic
from mtlmon.relational.normal import normal_form
from mtlmon.relational.nothing import driving, is_total
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.traversal import operands_of_nested

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Mapping, Sequence

    from mtlmon.policy.predicates.expression import Expression

Names = frozenset[str]
NONE: Names = frozenset()

_PROBED = frozenset({ops.ONCE, ops.EVENTUALLY, ops.PREVIOUS, ops.NEXT})
# The costs of conjuncts that calculate, and of those that wait for values that are calculated.
_CALCULATES, _AWAITS = 4, 5
_CONSTANTS = frozenset({ops.TRUE, ops.FALSE, ops.ATOM})


class Unbound(NamedTuple):
    """Why a formula cannot be evaluated.

    Attributes:
        variable: the variable that lacks values.
        formula: the subformula, in normal form.
        reason: "unbound", or "sides" for an OR whose sides bind different variables.
        is_quantified: whether the quantifier of the variable stands right around the subformula.
    """

    variable: str
    formula: Formula
    reason: str = "unbound"
    is_quantified: bool = False


class Step(NamedTuple):
    """A step of the evaluation of a conjunction.

    Attributes:
        formula: the conjunct, in normal form.
        bound: the variables that are bound before it.
        binds: those that it binds.
        calculates: whether it is evaluated for what the others leave, as it calculates.
    """

    formula: Formula
    bound: Names
    binds: tuple[str, ...]
    calculates: bool = False


class Binding(NamedTuple):
    """How a formula is evaluated.

    Attributes:
        formula: the formula in normal form.
        steps: the conjuncts at the top, in the order of their evaluation.
        error: why it cannot be evaluated, or None.
    """

    formula: Formula
    steps: tuple[Step, ...]
    error: Unbound | None


class Definition(NamedTuple):
    """A let with parameters."""

    parameters: tuple[str, ...]
    formula: Formula


_Result = Names | Unbound
if TYPE_CHECKING:
    _Evaluation = Generator["_Evaluation", _Result, _Result]


class BindingAnalysis:
    """Analyses formulas of one file.

    Args:
        lets: the lets with parameters by name.
        mixed: the equalities of numbers of two types, which bind nothing, by their `id`.
    """

    def __init__(self, lets: Mapping[str, Definition], mixed: Container[int] = ()) -> None:
        self.lets = lets
        self.mixed = mixed
        self.arithmetic = Arithmetic(lets, mixed)
        self._free: dict[int, Names] = {}
        self._kept: list[Formula] = []
        self._known: dict[tuple[int, Names], _Result] = {}
        self._normal: dict[tuple[int, bool], Formula] = {}

    def analyse(
        self, formula: Formula, reported: Sequence[str], *, negated: bool = False
    ) -> Binding:
        """Find out how the valuations of a formula are found.

        Args:
            formula: the formula as written.
            reported: the variables that must be bound.
            negated: whether the valuations of its negation are wanted.
        """
        return self.of_normal(normal_form(formula, negated=negated), reported)

    def of_normal(self, normal: Formula, reported: Sequence[str]) -> Binding:
        """Find out how the valuations of a formula in normal form are found."""
        self._kept.append(normal)
        order: list[Step] = []
        found = run(self._conjunction(normal, NONE, order))
        error = found if isinstance(found, Unbound) else None
        if not isinstance(found, Unbound):
            lacking = next((name for name in reported if name not in found), None)
            if lacking is not None:
                error = Unbound(lacking, normal)
        return Binding(normal, tuple(order), error)

    def free(self, formula: Formula) -> Names:
        """The free variables of a formula."""
        found = self._free.get(id(formula))
        if found is None:
            self._kept.append(formula)
            found = self._free[id(formula)] = frozenset(free_in(formula))
        return found

    def _first(self, names: Names, formula: Formula) -> str | None:
        """The name that occurs first in a formula, or None if there are no names."""
        if not names:
            return None
        return next((name for name in free_in(formula) if name in names), min(names))

    def normal(self, formula: Formula, *, negated: bool = False) -> Formula:
        """The normal form of a formula, the same object each time."""
        key = (id(formula), negated)
        if key not in self._normal:
            self._normal[key] = normal_form(formula, negated=negated)
            self._kept += [formula, self._normal[key]]
        return self._normal[key]

    def is_alone(self, formula: Formula) -> bool:
        """Whether a formula binds all of its variables by itself."""
        found = run(self.evaluated(formula, NONE))
        return not isinstance(found, Unbound) and self.free(formula) <= found

    def evaluated(self, node: Formula, bound: Names) -> _Evaluation:
        """Evaluate a formula under bound variables; the result is what is bound afterwards."""
        relevant = bound & self.free(node)
        key = (id(node), relevant)
        if key not in self._known:
            self._known[key] = yield self._computed(node, relevant)
        known = self._known[key]
        return known if isinstance(known, Unbound) else known | bound

    def conjunct(self, node: Formula, bound: Names, others: Sequence[Formula]) -> _Evaluation:
        """Evaluate a conjunct; the others may say that an aggregate is not one of nothing."""
        found = yield self.evaluated(node, bound)
        if isinstance(found, Unbound) and node.operator is ops.COMPARISON and node.operands:
            beside = yield self._comparison(node, bound & self.free(node), others)
            return found if isinstance(beside, Unbound) else beside | bound
        return found

    def _computed(self, node: Formula, bound: Names) -> _Evaluation:
        operator, operands = node.operator, node.operands
        free = self.free(node)
        if operator in _CONSTANTS:
            return bound
        if operator is ops.PREDICATE:
            return (yield self._predicate(node, bound))
        if operator is ops.COMPARISON:
            return (yield self._comparison(node, bound))
        if operator is ops.NOT:
            return (yield self._filter(operands[0], node, bound))
        if operator is ops.AND:
            return (yield self._conjunction(node, bound, []))
        if operator is ops.OR:
            return (yield self._disjunction(node, bound))
        if operator is ops.EXISTS:
            return (yield self._exists(node, quantified(node), operands[0], bound))
        if operator in _PROBED:
            return (yield self._alone(operands[0]))
        if operator in (ops.SINCE, ops.UNTIL):
            left, right = operands
            found = yield self._alone(right)
            if isinstance(found, Unbound):
                return found
            return (yield self._filter(left, left, self.free(right)))
        # HISTORICALLY and ALWAYS: NOT ONCE NOT of the operand, else a filter with counts
        lacking = self._first(free - bound, node)
        if lacking is not None:
            return Unbound(lacking, node)
        negation = self.normal(operands[0], negated=True)
        found = yield self._alone(negation)
        if isinstance(found, Unbound):
            counted = yield self._alone(operands[0])
            if isinstance(counted, Unbound):
                return found
        return bound

    def _alone(self, formula: Formula) -> _Evaluation:
        """Evaluate what is remembered; all of its variables must be bound by itself."""
        found = yield self.evaluated(formula, NONE)
        if isinstance(found, Unbound):
            return found
        lacking = self._first(self.free(formula) - found, formula)
        return found if lacking is None else Unbound(lacking, formula)

    def _filter(self, formula: Formula, shown: Formula, bound: Names) -> _Evaluation:
        """Evaluate what binds nothing."""
        lacking = self._first(self.free(formula) - bound, formula)
        if lacking is not None:
            return Unbound(lacking, shown)
        found = yield self.evaluated(formula, bound)
        return found if isinstance(found, Unbound) else bound

    def _predicate(self, node: Formula, bound: Names) -> _Evaluation:
        arguments = terms_of(node)
        let = self.lets.get(node.name or "")
        if let is not None:
            return (yield self._let(let, node, bound))
        found = bound | {one.name for one in arguments if one.operator is terms.VARIABLE}
        for number in range(len(node.operands)):
            alone = yield self._alone(self.normal(node.operands[number]))
            if isinstance(alone, Unbound):
                return alone
        # an argument may have any value, that of nothing as well
        for one in aggregates_of(node):
            found |= set() if is_total(one) else set(one.aggregate.by or ())
        for argument in arguments:
            lacking = next((name for name in variables_of(argument) if name not in found), None)
            if lacking is not None:
                return Unbound(lacking, node)
        return found

    def _let(self, let: Definition, node: Formula, bound: Names) -> _Evaluation:
        """Evaluate the formula of a let, with the parameters for its arguments."""
        pairs = list(zip(let.parameters, terms_of(node), strict=True))
        known: set[str] = set()
        for parameter, argument in pairs:
            if argument.operator is not terms.WILDCARD and bound.issuperset(variables_of(argument)):
                known.add(parameter)
        body = self.normal(let.formula)
        found = yield self.evaluated(body, frozenset(known))
        if isinstance(found, Unbound):
            value = dict(pairs).get(found.variable)
            if value is None or value.operator is not terms.VARIABLE:
                return found
            return Unbound(value.name, node)
        for parameter, argument in pairs:
            if parameter not in found:
                name = argument.name if argument.operator is terms.VARIABLE else parameter
                return Unbound(name, node)
        plain = {one.name for _, one in pairs if one.operator is terms.VARIABLE}
        for _, argument in pairs:
            lacking = next(
                (name for name in variables_of(argument) if name not in plain | bound), None
            )
            if lacking is not None:
                return Unbound(lacking, node)
        return bound | plain

    def _comparison(
        self, node: Formula, bound: Names, others: Sequence[Formula] = ()
    ) -> _Evaluation:
        """Evaluate a comparison; an aggregate of nothing binds no groups for which it is true."""
        (expression,) = terms_of(node)
        for operand in node.operands:
            alone = yield self._alone(self.normal(operand))
            if isinstance(alone, Unbound):
                return alone
        found = bound
        if node.operands:
            drives = driving(node, others)
            found = bound.union(*(one.aggregate.by or () for one in drives))
            for one in aggregates_of(node):
                lacking = next((name for name in one.aggregate.by or () if name not in found), None)
                if lacking is not None:
                    return Unbound(lacking, node)
        target = None if id(node) in self.mixed else bound_by(expression, found)
        if target is not None:
            return found | {target}
        lacking = next((name for name in variables_of(expression) if name not in found), None)
        return found if lacking is None else Unbound(lacking, node)

    def _conjunction(self, node: Formula, bound: Names, order: list[Step]) -> _Evaluation:
        """Evaluate conjuncts in an order in which this is possible; filters come first.

        What calculates comes last, then in the order in which it is written.
        """
        waiting = parts = conjuncts(node)
        while waiting:
            targets = self.arithmetic.targets(waiting) - bound
            errors: list[Unbound] = []
            best: tuple[int, Formula, Names] | None = None
            for conjunct in waiting:
                found = yield self.conjunct(conjunct, bound, parts)
                if isinstance(found, Unbound):
                    errors.append(found)
                    continue
                cost = _cost(conjunct, binds=bool(found - bound))
                if self.arithmetic.is_in(conjunct):
                    cost = _CALCULATES
                elif targets & self.free(conjunct):
                    cost = _AWAITS
                if best is None or cost < best[0]:
                    best = (cost, conjunct, found)
                if cost == 0:
                    break
            if best is None:
                return errors[0]
            _, chosen, found = best
            binds = tuple(name for name in free_in(chosen) if name in found - bound)
            order.append(Step(chosen, bound, binds, self.arithmetic.is_in(chosen)))
            bound = found
            waiting = [one for one in waiting if one is not chosen]
        return bound

    def _disjunction(self, node: Formula, bound: Names) -> _Evaluation:
        results: list[tuple[Formula, Names]] = []
        for operand in node.operands:
            if operand.operator is ops.FALSE:
                continue
            found = yield self.evaluated(operand, bound)
            if isinstance(found, Unbound):
                return found
            results.append((operand, found))
        together = frozenset().union(*(found for _, found in results)) if results else bound
        for operand, found in results:
            lacking = self._first(together - found, node)
            if lacking is not None:
                return Unbound(lacking, operand, "sides")
        return together

    def _exists(
        self, node: Formula, names: tuple[str, ...], body: Formula, bound: Names
    ) -> _Evaluation:
        """Evaluate EXISTS; it is pushed into the sides of an OR, which need not bind the same."""
        hidden = bound - set(names)
        sides = [body]
        results: list[tuple[Formula, Names]] = []
        while sides:
            side = sides.pop()
            if side.operator is ops.OR:
                sides += reversed(side.operands)
                continue
            if side.operator is ops.FALSE:
                continue
            found = yield self.evaluated(side, hidden)
            if isinstance(found, Unbound):
                is_direct = found.variable in names and found.formula is side
                return found._replace(is_quantified=is_direct or found.is_quantified)
            lacking = next(
                (name for name in names if name in self.free(side) and name not in found), None
            )
            if lacking is not None:
                return Unbound(lacking, side, is_quantified=True)
            results.append((side, found - set(names)))
        together = frozenset().union(*(found for _, found in results)) if results else hidden
        for side, found in results:
            lacking = self._first(together - found, node)
            if lacking is not None:
                return Unbound(lacking, side, "sides")
        return together | bound


def bound_by(expression: Expression, bound: Names) -> str | None:
    """The variable that an equality or a list binds when others are bound, or None."""
    if expression.operator is terms.IN:
        (operand,) = expression.operands
        is_free = operand.operator is terms.VARIABLE and operand.name not in bound
        return operand.name if is_free else None
    if expression.operator is not terms.EQUAL:
        return None
    for one, other in (expression.operands, expression.operands[::-1]):
        if (
            one.operator is terms.VARIABLE
            and one.name not in bound
            and bound.issuperset(variables_of(other))
        ):
            return one.name
    return None


def conjuncts(node: Formula) -> list[Formula]:
    """The operands of nested ANDs, from left to right."""
    return operands_of_nested(node, ops.AND)


def _cost(formula: Formula, *, binds: bool) -> int:
    """Filters come first, then what this time-point has, then what is remembered."""
    if not binds:
        return 0
    if formula.operator is ops.COMPARISON and not formula.operands:
        return 1
    return 2 if is_transient(formula) else 3


def is_transient(formula: Formula) -> bool:
    """Whether the rows of a conjunct come from the events of its time-point."""
    while formula.operator is ops.EXISTS:
        formula = formula.operands[0]
    if formula.operator in (ops.AND, ops.OR):
        return any(is_transient_part(one) for one in formula.operands)
    return is_transient_part(formula)


def is_transient_part(formula: Formula) -> bool:
    """Whether a formula without connectives is an atom or a predicate."""
    return formula.operator in (ops.ATOM, ops.PREDICATE)
