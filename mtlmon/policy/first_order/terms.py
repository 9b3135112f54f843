"""The terms of predicates and comparisons: expressions over variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.printer import FORMULA, pieces_of
from mtlmon.syntax import operators as formula_ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.syntax.formula import Span


class Terms:
    """The arguments of a predicate, or a comparison, which is a single expression.

    Attributes:
        expressions: at least one expression. The names in them are variables; the formulas of their
            aggregates are the operands of the formula that the terms belong to.
    """

    __slots__ = ("expressions",)

    expressions: tuple[Expression, ...]

    def __init__(self, *expressions: Expression) -> None:
        object.__setattr__(self, "expressions", expressions)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Terms are immutable, {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Terms):
            return NotImplemented
        return self.expressions == other.expressions

    def __hash__(self) -> int:
        return hash(self.expressions)

    def __reduce__(self) -> tuple[type[Terms], tuple[Expression, ...]]:
        return Terms, self.expressions

    def parts(self, operands: tuple[Formula, ...]) -> list[str | Formula]:
        """Return the text in pieces, with the formulas of aggregates among them."""
        parts: list[str | Formula] = []
        for expression in self.expressions:
            if parts:
                parts.append(", ")
            for piece in pieces_of(expression):
                if piece.startswith(FORMULA):
                    parts.append(operands[int(piece.removeprefix(FORMULA))])
                else:
                    parts.append(piece)
        return parts

    def nodes(self) -> list[Expression]:
        """Return all nodes of the expressions."""
        return postorder(*self.expressions)


def predicate(
    name: str,
    *arguments: Expression,
    formulas: tuple[Formula, ...] = (),
    span: Span | None = None,
) -> Formula:
    """Make an atom with arguments.

    Args:
        name: the name of the atom or let.
        arguments: at least one term.
        formulas: the formulas of the aggregates in the arguments.
        span: the place in the source text.
    """
    return Formula(formula_ops.PREDICATE, formulas, None, name, span, Terms(*arguments))


def comparison(
    expression: Expression, formulas: tuple[Formula, ...] = (), span: Span | None = None
) -> Formula:
    """Make a comparison of terms: an expression that is true or false, over variables.

    Args:
        expression: the comparison.
        formulas: the formulas of the aggregates in it.
        span: the place in the source text.
    """
    return Formula(formula_ops.COMPARISON, formulas, None, None, span, Terms(expression))


def terms_of(formula: Formula) -> tuple[Expression, ...]:
    """Return the terms of a predicate or comparison; () for other formulas."""
    return formula.value.expressions if isinstance(formula.value, Terms) else ()


def quantified(formula: Formula) -> tuple[str, ...]:
    """Return the variables of a quantifier; () for other formulas."""
    return formula.value if isinstance(formula.value, tuple) else ()


def aggregates_of(formula: Formula) -> Iterator[Expression]:
    """Yield the aggregates in the terms of a predicate or comparison."""
    for node in postorder(*terms_of(formula)):
        if node.operator in ops.OF_FORMULAS:
            yield node


def variables_of(expression: Expression) -> tuple[str, ...]:
    """Return the variables of a term in order; of an aggregate, those that it shares."""
    names: dict[str, None] = {}
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.operator is ops.VARIABLE:
            names[node.name] = None
        elif node.operator in ops.OF_FORMULAS:
            names |= dict.fromkeys(node.aggregate.by or ())
        else:
            stack += reversed(node.operands)
    return tuple(names)


def free_in(formula: Formula) -> tuple[str, ...]:
    """Return the free variables of a formula, in order of first occurrence."""
    if formula.known_free is None:
        for node in postorder(formula):
            if node.known_free is not None:
                continue
            names: dict[str, None] = {}
            if isinstance(node.value, Terms):
                for term in node.value.expressions:
                    names |= dict.fromkeys(variables_of(term))
            else:
                for operand in node.operands:
                    names |= dict.fromkeys(operand.known_free or ())
                for bound in quantified(node):
                    names.pop(bound, None)
            node.keep_free(tuple(names))
    assert formula.known_free is not None
    return formula.known_free


def free_variables(formula: Formula) -> dict[int, tuple[str, ...]]:
    """Find the free variables of each subformula, as `free_in` does.

    Returns:
        The names by the `id` of the subformula, valid as long as the formula exists.
    """
    return {id(node): free_in(node) for node in postorder(formula)}
