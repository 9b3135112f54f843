"""Conditions as the parts that must all be true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.syntax.formula import Span
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What has a value on every row, or null.
_TOTAL = frozenset(
    {
        *(ops.CONSTANT, ops.COLUMN, ops.ROW_COLUMN, ops.AND, ops.OR, ops.NOT, ops.IF),
        *(ops.EQUAL, ops.NOT_EQUAL, ops.LESS, ops.LESS_EQUAL, ops.GREATER, ops.GREATER_EQUAL),
        *(ops.IN, ops.NOT_IN, ops.IS_NULL, ops.IS_NOT_NULL, ops.COALESCE),
        *(ops.STARTSWITH, ops.ENDSWITH, ops.CONTAINS, ops.MATCHES),
        *(ops.LOWER, ops.UPPER, ops.LENGTH),
    }
)


def conjuncts(expression: Expression) -> list[Expression]:
    """Return the parts of an expression that must all be true, in order."""
    found: list[Expression] = []
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.operator is ops.AND:
            stack.extend(reversed(node.operands))
        else:
            found.append(node)
    return found


def conjunction(parts: Sequence[Expression]) -> Expression:
    """Return an expression that is true where all of some, at least one, are."""
    found = parts[0]
    for part in parts[1:]:
        found = Expression(ops.AND, (found, part), None, found.span)
    return found


def without_true(parts: Sequence[Expression]) -> Expression:
    """Return a conjunction without the parts that are always true."""
    found = [part for part in parts if part.operator is not ops.CONSTANT or part.value is not True]
    return conjunction(found or [Expression(ops.CONSTANT, (), True, Span(0, 0))])


def is_total(expression: Expression) -> bool:
    """Whether an expression has a value on every row: nothing in it overflows."""
    return all(node.operator in _TOTAL for node in postorder(expression))


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Return an expression with other names for columns."""
    found: dict[int, Expression] = {}
    for node in postorder(expression):
        value = names[node.name] if node.operator in ops.COLUMNS else node.value
        operands = tuple(found[id(operand)] for operand in node.operands)
        found[id(node)] = Expression(node.operator, operands, value, node.span)
    return found[id(expression)]
