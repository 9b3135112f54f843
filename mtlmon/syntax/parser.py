"""Parses formulas by operator precedence, in linear time and without recursion.

The table in `mtlmon.syntax.operators` says how tightly operators bind. A prefix operator can be
wherever an operand can: `a SINCE ONCE b` is `a SINCE (ONCE b)`, and `NOT a AND b` is `(NOT a) AND
b`.

Where tools for temporal logic disagree on a reading, a formula is refused, and the error shows both
readings with parentheses:

- Only a parenthesis or the end of the text ends the operand of a temporal operator: `ONCE a AND b`,
  `ONCE a SINCE b`, `a SINCE b AND c`, `a SINCE b UNTIL c`, `ONCE a -> b`, `a AND ONCE b -> c`.
- AND and OR are no left operands of temporal operators without parentheses: `a OR b SINCE c`.

A quantifier inside a temporal operator reaches as far to the right as it can: `ONCE EXISTS x. a(x)
AND b(x)` has one reading.
"""

from __future__ import annotations

from mtlmon.syntax import operators as ops
from mtlmon.syntax.bounds import LATER, read_interval, require_unit
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.hints import (
    behind_interval,
    both_readings,
    where_operand_is_missing,
    where_operator_is_missing,
)
from mtlmon.syntax.native import OperatorParser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.errors import FormulaError
    from mtlmon.syntax.formula import Span
    from mtlmon.syntax.interval import Interval
    from mtlmon.syntax.operators import Operator


def parse(text: str, *, unit: str | None = None, source: str = "<formula>") -> Formula:
    """Parse a formula.

    Args:
        text: the formula.
        unit: the unit of the stream's time-stamps: "ns", "us", "ms", "s", "m", "h" or "d". Without
            a unit, bounds must be plain numbers. With "later", bounds keep their units until
            `formula.in_unit` or a monitor declares one.
        source: the name of the text in errors, a file name for instance.

    Raises:
        FormulaError: the text is not a formula; the error says where, why and how to correct it.
        UnitError: the unit is unknown.
    """
    if unit is not None and unit != LATER:
        require_unit(unit)
    return parse_at(Cursor(text, source), unit)


def parse_at(
    cursor: Cursor,
    unit: str | None,
    missing_parentheses: set[Span] | None = None,
    intervals: dict[str, Interval] | None = None,
) -> Formula:
    """Parse the tokens of a cursor as a formula; spans and errors refer to its text.

    Args:
        cursor: the cursor at its first token.
        unit: a valid unit, "later" or None, as for `parse`.
        missing_parentheses: None to refuse formulas with two readings; else operands of temporal
            operators are read as by version 0.2, and the places of those that need parentheses are
            added.
        intervals: the intervals of the text that have been read with this unit, by how they are
            written; others are added. None if this is all that is read.

    Raises:
        FormulaError: the tokens are not a formula, as for `parse`.
    """
    found: list[Span] | None = None if missing_parentheses is None else []
    known = {} if intervals is None else intervals
    parser = _Parser(cursor, unit, found, Formula, read_interval, known)
    formula = parser.formula()
    if missing_parentheses is not None:
        missing_parentheses.update(found or ())
    return formula


class _Parser(OperatorParser):
    """Reads a formula; this part makes its errors."""

    __slots__ = ()

    def empty(self) -> FormulaError:
        hint = "the text is empty but for blanks and comments"
        return self.cursor.expected("a formula", hint)

    def never_closed(self) -> FormulaError:
        opening = self.cursor.tokens[self.waiting[-1].index]
        return self.cursor.error("this parenthesis is never closed", opening)

    def closes_nothing(self) -> FormulaError:
        return self.cursor.error("this parenthesis closes nothing", self.cursor.token)

    def require_beginning(self, incoming: Operator) -> None:
        """Refuse an implication inside a quantifier that begins neither the text nor a parenthesis.

        What is quantified would include it, although the quantifier is part of something smaller.
        """
        quantifiers = 0
        for waiting in reversed(self.waiting):
            if waiting.operator is None or waiting.operator not in (ops.FORALL, ops.EXISTS):
                break
            quantifiers += 1
        begins = len(self.waiting) == quantifiers or self.waiting[~quantifiers].operator is None
        if begins or not quantifiers:
            return
        cursor, token = self.cursor, self.cursor.token
        first = self.waiting[-quantifiers]
        assert first.operator is not None
        message = (
            f"{first.operator.word} before '{cursor.text_of(token)}' needs parentheses: "
            "there are two readings"
        )
        hint = both_readings(cursor, first.index, self.starts[-1], incoming)
        raise cursor.error(message, token, hint)

    def first_prefix(self, place: int) -> int:
        """The index of the first token of the prefix operators up to a waiting one."""
        while place and (before := self.waiting[place - 1].operator) is not None:
            if not before.is_prefix or before.is_first_order:
                break
            place -= 1
        return self.waiting[place].index

    def two_readings(self, place: int, incoming: Operator) -> FormulaError:
        """The error for two operators, of which either could take the operand between them.

        Args:
            place: the place of the first one among those that wait for their last operand.
            incoming: the operator at the cursor.
        """
        cursor, waiting = self.cursor, self.waiting[place]
        operator = waiting.operator
        assert operator is not None
        middle = behind_interval(cursor.tokens, waiting.index + 1)
        if operator.is_temporal:
            first = self.first_prefix(place) if operator.is_prefix else self.starts[-2]
        else:
            self.apply_before(incoming)
            first = self.starts[-1]
        written = cursor.text_of(cursor.token)
        hint = both_readings(cursor, first, middle, incoming, outer_first=operator.is_temporal)
        message = f"{operator.word} before '{written}' needs parentheses: there are two readings"
        return cursor.error(message, cursor.token, hint)

    def ambiguous(self, cut: Operator, incoming: Operator, middle: int) -> FormulaError:
        """The error for an `incoming` operator that ends the temporal operator `cut`."""
        cursor = self.cursor
        written = cursor.text_of(cursor.token)
        if incoming.is_temporal:
            message = f"{cut.word} and {incoming.word} need parentheses to be chained"
        else:
            message = f"{cut.word} before '{written}' needs parentheses: there are two readings"
        hint = both_readings(cursor, self.starts[-1], middle, incoming)
        return cursor.error(message, cursor.token, hint)

    def operand_missing(self) -> FormulaError:
        hint = where_operand_is_missing(self.cursor)
        return self.cursor.expected("a formula", hint)

    def operator_missing(self) -> FormulaError:
        is_open = any(waiting.operator is None for waiting in self.waiting)
        what = "an operator or ')'" if is_open else "an operator or the end"
        return self.cursor.expected(what, where_operator_is_missing(self.cursor))
