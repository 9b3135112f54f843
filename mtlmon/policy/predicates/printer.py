"""Writes expressions as text, with as few parentheses as possible."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import ComputedColumn, Constant, Expression
from mtlmon.policy.predicates.keywords import CLAUSES
from mtlmon.policy.predicates.lexer import is_plain_column
from mtlmon.policy.predicates.operators import Operator
from mtlmon.syntax.durations import interval_text
from mtlmon.syntax.operators import SMALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMULA = "\0formula "
"""What a piece begins with that stands for the formula of an aggregate."""

# Words that go on with what is before them, if no bracket follows.
_BEHIND_EXISTS = frozenset({*CLAUSES, "then", "else", "over"})
_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def to_text(expression: Expression, unit: str | None = None) -> str:
    """Write an expression as text from which the parser makes an equal expression.

    Args:
        expression: the expression.
        unit: the unit of the bounds of windows, to write them with units, as in `count[0,7d](x)`;
            None writes bare numbers.
    """
    return "".join(pieces_of(expression, unit))


@lru_cache(maxsize=1000)
def condition_of(name: str) -> Expression | None:
    """Return the condition whose text is the name of an atom; None if it is another name."""
    from mtlmon.errors import MtlmonError
    from mtlmon.policy.predicates.parser import parse_expression

    try:
        expression = parse_expression(name)
    except MtlmonError:
        return None
    is_condition = expression.operator not in ops.COLUMNS and to_text(expression) == name
    return expression if is_condition else None


def condition_text(name: str, unit: str) -> str:
    """Write an atom that is a condition with units in its windows; other names remain as they are.

    Args:
        name: the name of the atom; that of a condition is its text.
        unit: the unit of the bounds.
    """
    condition = condition_of(name) if "[" in name else None
    return name if condition is None else to_text(condition, unit)


def pieces_of(expression: Expression, unit: str | None = None) -> list[str]:
    """Write an expression as pieces of text, with the unit of `to_text`.

    For the formula of an aggregate, there is a piece of `FORMULA` and its number.
    """
    pieces: list[str] = []
    stack: list[Expression | str] = [expression]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
        else:
            stack.extend(reversed(_parts(item, unit)))
    return pieces


@lru_cache(maxsize=1000)
def column_text(name: str) -> str:
    """Write the name of a column, in backquotes if it would otherwise be parsed differently."""
    if is_plain_column(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def constant_text(value: Constant) -> str:
    """Write a constant as in expressions."""
    if type(value) is int:
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_escaped, value))}"'
    written = str(value).lower()
    is_whole = not {".", "e", "y"} & set(written)  # infinity has a y
    if isinstance(value, Decimal) and is_whole:
        written += ".0"
    return written


def _parts(node: Expression, unit: str | None) -> list[Expression | str]:
    operator = node.operator
    if isinstance(node.value, ComputedColumn):
        computed = node.value.node
        return _operand(computed, is_bare=computed.operator.binding == ops.OPERAND)
    if operator is ops.ROW_COLUMN:
        return [f"row.{column_text(node.name)}"]
    if operator in ops.NAMES:
        return [column_text(node.name)]
    if operator is ops.CONSTANT:
        return [constant_text(node.constant)]
    if operator is ops.WILDCARD:
        return ["_"]
    if operator in ops.OF_FORMULAS:
        return _aggregate(node)
    if operator.binding == ops.OPERAND:
        return _call(node, unit)
    if operator is ops.IF:
        condition, then, otherwise = node.operands
        parts = _operand(condition, is_bare=not _may_begin_with_minus(condition))
        return ["if ", *parts, " then ", then, " else ", otherwise]
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


def _call(node: Expression, unit: str | None) -> list[Expression | str]:
    """The parts of what ends with a parenthesis or bracket."""
    operator = node.operator
    if operator in ops.OFFSETS.values():
        operand = node.operands[0]
        is_bare = operand.operator.binding == ops.OPERAND and operand.operator is not ops.CONSTANT
        return [*_operand(operand, is_bare=is_bare), f".{operator.word}({_offset(node)})"]
    if operator is ops.OVER:
        aggregate, stream, parameters, by = node.over
        behind = "".join(f", {constant_text(one)}" for one in parameters)
        groups: list[Expression | str] = []
        for name, value in zip(by, node.operands[1:], strict=True):
            groups += [", " if groups else " by ", column_text(name)]
            if not (_is_name(value) and value.name == name):
                is_bare = value.operator.binding > ops.COMPARISON
                groups += [" = ", *_operand(value, is_bare=is_bare)]
        over = f" over {column_text(stream)}"
        return [f"{aggregate}(", node.operands[0], over, *groups, f"{behind})"]
    if operator is ops.INSTANCE:
        return [f"{_before_bracket(node.name)}[", *_separated(node.operands), "]"]
    if operator in ops.LOOK_UPS:
        return _look_up(node)
    if operator is ops.MACHINE:
        called = f"machine({constant_text(node.machine.name)}"
        return [called, *(part for one in node.operands for part in (", ", one)), ")"]
    if operator is ops.OWN_FUNCTION:
        return [node.own_function.name, "(", *_separated(node.operands), ")"]
    if operator in ops.WINDOWS:
        interval, parameters, default, own, _ = node.window
        word = operator.word if own is None else own.name
        is_word = operator is ops.WINDOW_INTEGRAL
        constants = [f", {one if is_word else constant_text(one)}" for one in parameters]
        constants += [] if default is None else [f", or: {constant_text(default)}"]
        return [f"{word}{interval_text(interval, unit)}(", *node.operands, *constants, ")"]
    return [operator.word, "(", *_separated(_arguments(node)), ")"]


def _before_bracket(name: str) -> str:
    """A name that a bracket follows, where some words begin a window or an operator of formulas."""
    is_word = name in ops.AGGREGATES or name in SMALL_WORDS
    return f"`{name}`" if is_word else column_text(name)


def _look_up(node: Expression) -> list[Expression | str]:
    relation, column, names, _ = node.looked_up
    parts: list[Expression | str] = []
    for place, operand in enumerate(node.operands):
        if names:
            parts += [f"{column_text(names[place])} = "]
            is_bare = operand.operator.binding > ops.COMPARISON
        else:
            # a comparison of a name would name the column
            is_bare = operand.operator is not ops.EQUAL or not _is_name(operand.operands[0])
        parts += [*_operand(operand, is_bare=is_bare), ", "]
    name = _before_bracket(relation)
    if column is None and not parts:
        is_word = relation in _BEHIND_EXISTS or relation in SMALL_WORDS
        return [f"exists {f'`{relation}`' if is_word else column_text(relation)}"]
    looked_up = [f"{name}[", *parts[:-1], "]"]
    return ["exists ", *looked_up] if column is None else [*looked_up, f".{column_text(column)}"]


def _is_name(node: Expression) -> bool:
    return node.operator in ops.NAMES and node.operator is not ops.ROW_COLUMN


def _aggregate(node: Expression) -> list[Expression | str]:
    word, formula, by, _ = node.aggregate
    over: list[Expression | str] = [*node.operands, " OVER "] if node.operands else []
    groups = "" if by is None else f" BY {', '.join(by)}"
    return [f"{word}(", *over, f"{FORMULA}{formula}", f"{groups})"]


def _arguments(node: Expression) -> Sequence[Expression]:
    if node.operator is not ops.COALESCE:
        return node.operands
    last: list[Expression] = []
    while node.operator is ops.COALESCE:
        node, argument = node.operands
        last.append(argument)
    return [node, *reversed(last)]


def _separated(operands: Sequence[Expression]) -> list[Expression | str]:
    separated: list[Expression | str] = []
    for operand in operands:
        separated += [operand, ", "]
    return separated[:-1]


def _offset(node: Expression) -> str:
    distance, default, is_later = node.offset
    nearest = 0 if node.operator is ops.HOLD else 1
    written = [] if distance == nearest else [str(distance)]
    if node.operator is ops.AT:
        written = [f"{'+' if is_later else '-'}{distance}"]
    if default is not None:
        written.append(f"or: {constant_text(default)}")
    return ", ".join(written)


def _binds(operand: Expression, operator: Operator) -> bool:
    return operand.operator.binding >= operator.binding


def _may_follow_minus(operand: Expression) -> bool:
    """Whether a minus before the operand is an operator; before a number it is part of that."""
    is_number = operand.operator is ops.CONSTANT and isinstance(operand.value, int | Decimal)
    return operand.operator.binding == ops.OPERAND and not is_number


def _may_begin_with_minus(node: Expression) -> bool:
    """Whether the text may begin with a minus; `if -` would be a column and an operator."""
    while node.operands and ops.IF_BINDING < node.operator.binding < ops.OPERAND:
        if node.operator in {ops.NEGATE, ops.NOT}:
            return node.operator is ops.NEGATE
        node = node.operands[0]
    return isinstance(node.value, int | Decimal) and node.value < 0


def _operand(operand: Expression, *, is_bare: bool) -> list[Expression | str]:
    return [operand] if is_bare else ["(", operand, ")"]


def _list(node: Expression) -> list[str]:
    if node.operator not in {ops.IN, ops.NOT_IN}:
        return []
    return [" (", ", ".join(map(constant_text, node.members)), ")"]


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
