"""Writes predicates as text, with as few parentheses as possible."""

from __future__ import annotations

from decimal import Decimal

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Constant, Expression
from mtlmon.policy.predicates.lexer import is_plain_column
from mtlmon.policy.predicates.operators import Operator

_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def to_text(expression: Expression) -> str:
    """Write an expression as text from which the parser makes an equal expression."""
    pieces: list[str] = []
    stack: list[Expression | str] = [expression]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
        else:
            stack.extend(reversed(_parts(item)))
    return "".join(pieces)


def column_text(name: str) -> str:
    """Write the name of a column, in backquotes if it would otherwise be parsed differently."""
    if is_plain_column(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def constant_text(value: Constant) -> str:
    """Write a constant as in predicates."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_escaped, value))}"'
    written = str(value).lower()
    if isinstance(value, Decimal) and "." not in written and "e" not in written:
        written += ".0"
    return written


def _parts(node: Expression) -> list[Expression | str]:
    operator = node.operator
    if operator is ops.COLUMN:
        assert isinstance(node.value, str)
        return [column_text(node.value)]
    if operator is ops.CONSTANT:
        assert not isinstance(node.value, tuple)
        return [constant_text(node.value)]
    if operator.name in ops.FUNCTIONS:
        separated: list[Expression | str] = [operator.word, "("]
        for operand in node.operands:
            separated += [operand, ", "]
        return [*separated[:-1], ")"]
    if operator is ops.NEGATE:
        return ["-", *_operand(node.operands[0], is_bare=_may_follow_minus(node.operands[0]))]
    if operator is ops.NOT:
        return ["not ", *_operand(node.operands[0], is_bare=_binds(node.operands[0], operator))]
    left = node.operands[0]
    # comparisons do not chain, all other operators group to the left
    is_comparison = operator.binding == ops.COMPARISON
    is_left_bare = _binds(left, operator) and not (
        is_comparison and left.operator.binding == ops.COMPARISON
    )
    parts = _operand(left, is_bare=is_left_bare)
    if operator.arity == 1:
        return [*parts, f" {operator.word}", *_list(node)]
    right = node.operands[1]
    is_right_bare = right.operator.binding > operator.binding
    return [*parts, f" {operator.word} ", *_operand(right, is_bare=is_right_bare)]


def _binds(operand: Expression, operator: Operator) -> bool:
    return operand.operator.binding >= operator.binding


def _may_follow_minus(operand: Expression) -> bool:
    """Whether a minus before the operand is an operator; before a number it is part of that."""
    is_number = operand.operator is ops.CONSTANT and isinstance(operand.value, int | Decimal)
    return operand.operator.binding == ops.OPERAND and not is_number


def _operand(operand: Expression, *, is_bare: bool) -> list[Expression | str]:
    return [operand] if is_bare else ["(", operand, ")"]


def _list(node: Expression) -> list[str]:
    if not isinstance(node.value, tuple):
        return []
    return [" (", ", ".join(map(constant_text, node.value)), ")"]


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
