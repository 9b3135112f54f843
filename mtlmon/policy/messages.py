"""Messages of triggers: texts with expressions in braces, as in "{ip} failed {fails:.1f} times"."""

from __future__ import annotations

import re
from typing import NamedTuple

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, Offset
from mtlmon.policy.predicates.parser import parse_expression
from mtlmon.syntax.report import formula_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.policy.predicates.expression import Constant

__all__ = [
    "Message",
    "ShownMessage",
    "is_of_numbers",
    "read_message",
    "value_text",
    "with_held_columns",
]

_BRACE = re.compile(r"\{\{|\}\}|\{|\}")
_FORMAT = re.compile(r":([^:()\[\]]*)\Z")


class Message(NamedTuple):
    """A message.

    Attributes:
        texts: what stands before the first expression, between the others, and behind the last one.
        expressions: the expressions in braces.
        formats: for each expression how it is written, as for Python's `format`; "" for the usual
            way.
    """

    texts: tuple[str, ...]
    expressions: tuple[Expression, ...]
    formats: tuple[str, ...]

    def filled(self, values: Sequence[object]) -> str:
        """Insert the values of the expressions."""
        shown = (value_text(value, form) for value, form in zip(values, self.formats, strict=True))
        first, *others = self.texts
        return first + "".join(f"{value}{text}" for value, text in zip(shown, others, strict=True))


class ShownMessage(NamedTuple):
    """The message of a policy or trigger, with the names of `PolicyFile.shown` that it needs.

    Attributes:
        message: the message.
        names: the names of its expressions.
        violations: the name of what is true at the rows or ticks that violate the policy; None if
            an atom is, or if the message has no values and belongs to every violation.
        is_later: whether other rows decide which rows violate the policy. Then `violations` is true
            at those that can, and None if all can.
    """

    message: Message
    names: tuple[str, ...]
    violations: str | None
    is_later: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        """All of the names."""
        return self.names if self.violations is None else (*self.names, self.violations)

    @property
    def text(self) -> str | None:
        """The whole message if it has no values, else None."""
        return None if self.names else self.message.filled(())

    def at(self, values: Mapping[str, object]) -> str | None:
        """Return the message at a row; None if there are no values there.

        Args:
            values: the values at the row, by their names in `PolicyFile.shown`.
        """
        if any(name not in values for name in self.names):
            return None
        return self.message.filled([values[name] for name in self.names])


def value_text(value: object, form: str = "") -> str:
    """Write a value; what a format does not fit is written in the usual way.

    >>> value_text(0.25, ".1f"), value_text(True), value_text(None), value_text("a", ".1f")
    ('0.2', 'true', 'null', 'a')
    """
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    try:
        return format(value, form)
    except (TypeError, ValueError):
        return str(value)


def read_message(
    text: str,
    source: str,
    start: int,
    end: int,
    unit: str | None,
    constants: Mapping[str, Constant],
) -> Message:
    """Read the message that text[start:end] is, with its double quotes.

    Raises:
        FormulaError: an expression in braces or a format is not valid.
    """
    place, end = start + 1, end - 1
    texts, current = [], ""
    expressions: list[Expression] = []
    formats: list[str] = []

    def error(offset: int, message: str, hint: str) -> Exception:
        return formula_error(text, offset, message, source=source, hint=hint, kind=PolicyError)

    while (brace := _BRACE.search(text, place, end)) is not None:
        current += _plain(text[place : brace.start()])
        place = brace.end()
        if len(brace.group()) == 2:
            current += brace.group()[0]
            continue
        if brace.group() == "}":
            raise error(brace.start(), "this brace closes nothing", "write }} for a brace")
        behind = text.find("}", place, end)
        if behind < 0:
            raise error(brace.start(), "this brace is not closed", "write {{ for a brace")
        form = _format_in(text[place:behind])
        expression_end = behind if form is None else behind - len(form) - 1
        if form is not None and not _is_format(form):
            hint = "formats are those of Python, as in {speed:.1f}"
            raise error(expression_end + 1, f"'{form}' is not a format", hint)
        expression = parse_expression(text, source, place, expression_end, unit, constants)
        place = behind + 1
        texts.append(current)
        current = ""
        expressions.append(expression)
        formats.append(form or "")
    texts.append(current + _plain(text[place:end]))
    return Message(tuple(texts), tuple(expressions), tuple(formats))


def _format_in(written: str) -> str | None:
    """The format behind an expression, or None."""
    found = _FORMAT.search(written)
    if found is None or written.count("(", 0, found.start()) != written.count(")"):
        return None
    return found[1]


def _plain(written: str) -> str:
    """What a part of a text in double quotes stands for."""
    value = parse_expression(f'"{written}"').value if "\\" in written else written
    assert isinstance(value, str)
    return value


def _is_format(form: str) -> bool:
    """Whether numbers or texts can be written so."""
    for value in (0.5, 1, "a"):
        try:
            format(value, form)
        except ValueError:
            continue
        return True
    return False


def is_of_numbers(form: str) -> bool:
    """Whether a format is one of numbers only.

    >>> is_of_numbers(".1f"), is_of_numbers(""), is_of_numbers(">8")
    (True, False, False)
    """
    try:
        format("", form)
    except ValueError:
        return True
    return False


def with_held_columns(expression: Expression, time: str | None) -> Expression:
    """An expression at ticks, where a column by itself is its last value, as in `column.hold()`.

    Args:
        expression: the expression.
        time: the column of times, which is the time of the tick; None if there is none.
    """
    if expression.operator in ops.COLUMNS:
        if expression.name == time:
            return expression
        return Expression(ops.HOLD, (expression,), Offset(0), expression.span)
    if expression.operator in ops.WINDOWS or expression.operator in ops.OFFSETS.values():
        # these say by themselves which rows they look at
        return expression
    operands = tuple(with_held_columns(operand, time) for operand in expression.operands)
    if operands == expression.operands:
        return expression
    return Expression(expression.operator, operands, expression.value, expression.span)
