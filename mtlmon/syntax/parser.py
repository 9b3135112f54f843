"""Parses formulas by operator precedence, in linear time and without recursion.

The table in `mtlmon.syntax.operators` says how tightly operators bind. Two rules decide the rest:

- A prefix operator can be wherever an operand can, and extends as far to the right as possible. So
  `ONCE a SINCE b` is `ONCE (a SINCE b)`, `a AND ONCE b OR c` is `a AND ONCE (b OR c)`,
  `a SINCE ONCE b` is `a SINCE (ONCE b)`, and `NOT ONCE a AND b` is `NOT (ONCE (a AND b))`,
  whereas `NOT a AND b` is `(NOT a) AND b`, because AND binds less tightly than NOT.
- Only a parenthesis or the end of the text ends the operand of a temporal operator. A binary
  operator that would end it because it does not bind more tightly is an error, which shows both
  readings: `a SINCE b UNTIL c`, `ONCE a -> b`, `a AND ONCE b -> c`.
"""

from __future__ import annotations

from mtlmon.syntax import operators as ops
from mtlmon.syntax.bounds import LATER, opens_interval, read_interval, require_unit
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Formula, Span
from mtlmon.syntax.hints import (
    both_readings,
    where_operand_is_missing,
    where_operator_is_missing,
)
from mtlmon.syntax.lexer import ATOM, END, LeafToken, QuantifierToken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.errors import FormulaError
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


def parse_at(cursor: Cursor, unit: str | None) -> Formula:
    """Parse the tokens of a cursor as a formula; spans and errors refer to its text.

    Args:
        cursor: the cursor at its first token.
        unit: a valid unit, "later" or None, as for `parse`.

    Raises:
        FormulaError: the tokens are not a formula, as for `parse`.
    """
    return _Parser(cursor, unit).formula()


class _Waiting:
    """An operator whose last operand is not complete, or an open parenthesis (operator None)."""

    __slots__ = ("index", "interval", "operator")

    def __init__(self, index: int, operator: Operator | None, interval: Interval | None) -> None:
        self.index = index
        self.operator = operator
        self.interval = interval


class _Parser:
    __slots__ = ("cursor", "operands", "starts", "unit", "waiting")

    def __init__(self, cursor: Cursor, unit: str | None) -> None:
        self.cursor = cursor
        self.unit = unit
        self.waiting: list[_Waiting] = []
        self.operands: list[Formula] = []
        # The index of the first token of each operand, which can be a parenthesis.
        self.starts: list[int] = []

    def formula(self) -> Formula:
        if self.cursor.token.kind == END:
            raise self.cursor.expected("a formula", "the text is empty but for blanks and comments")
        self.read_operand()
        while self.read_operator():
            self.read_operand()
        return self.operands[0]

    def read_operand(self) -> None:
        """Read prefix operators and open parentheses, then an atom or a constant."""
        cursor = self.cursor
        while True:
            token, index = cursor.token, cursor.index
            operator = ops.ATOM if token.kind == ATOM else token.operator
            if token.kind == "(":
                cursor.index += 1
                self.waiting.append(_Waiting(index, None, None))
            elif operator is None or operator.arity == 2:
                if isinstance(token, LeafToken):
                    cursor.index += 1
                    self.operands.append(token.formula)
                    self.starts.append(index)
                    return
                raise self.operand_missing()
            elif operator.is_prefix:
                self.read_operator_at_cursor(operator)
            else:
                cursor.index += 1
                if operator is ops.ATOM:
                    self.skip_empty_parentheses()
                self.push_leaf(operator, index)
                return

    def read_operator(self) -> bool:
        """Read on after a complete operand; return False at the end of the text."""
        cursor = self.cursor
        while True:
            token = cursor.token
            if token.operator and token.operator.arity == 2:
                self.apply_before(token.operator)
                self.read_operator_at_cursor(token.operator)
                return True
            if token.kind not in {")", END}:
                raise self.operator_missing()
            self.apply_before(None)
            if token.kind == END:
                if self.waiting:
                    opening = cursor.tokens[self.waiting[-1].index]
                    raise cursor.error("this parenthesis is never closed", opening)
                return False
            if not self.waiting:
                raise cursor.error("this parenthesis closes nothing", token)
            self.starts[-1] = self.waiting.pop().index
            cursor.index += 1

    def read_operator_at_cursor(self, operator: Operator) -> None:
        index, interval = self.cursor.index, None
        self.cursor.index += 1
        if operator.is_temporal and opens_interval(self.cursor):
            interval = read_interval(self.cursor, self.unit)
        self.waiting.append(_Waiting(index, operator, interval))

    def skip_empty_parentheses(self) -> None:
        if self.cursor.token.kind == "(" and self.cursor.ahead(1).kind == ")":
            self.cursor.index += 2

    def push_leaf(self, operator: Operator, index: int) -> None:
        token = self.cursor.tokens[index]
        name = token.value if operator is ops.ATOM else None
        span = Span(token.start, self.cursor.ahead(-1).end)
        self.operands.append(Formula(operator, name=name, span=span))
        self.starts.append(index)

    def apply_before(self, incoming: Operator | None) -> None:
        """Apply the waiting operators that the incoming one ends; None ends all of them."""
        middle: int | None = None
        cut: Operator | None = None
        while self.waiting and (operator := self.waiting[-1].operator):
            if incoming and not _ends(incoming, operator):
                break
            if operator.is_temporal and cut is None:
                middle, cut = self.starts[-1], operator
            self.apply()
        if incoming and cut and middle is not None:
            raise self.ambiguous(cut, incoming, middle)
        if incoming and incoming.groups_right and self.waiting:
            self.require_beginning(incoming)

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

    def apply(self) -> None:
        """Apply the last waiting operator, whose last operand ends before the cursor."""
        waiting = self.waiting.pop()
        operator = waiting.operator
        assert operator is not None
        split = len(self.operands) - operator.arity
        operands = tuple(self.operands[split:])
        start = waiting.index if operator.is_prefix else self.starts[split]
        tokens, end = self.cursor.tokens, self.cursor.ahead(-1).end
        span = Span(tokens[start].start, end)
        value = None
        if operator.is_first_order:
            quantifier = tokens[waiting.index]
            assert isinstance(quantifier, QuantifierToken)
            value = quantifier.variables
        self.operands[split:] = [Formula(operator, operands, waiting.interval, None, span, value)]
        self.starts[split:] = [start]

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


def _ends(incoming: Operator, operator: Operator) -> bool:
    """Whether a binary operator ends the last operand of an earlier operator."""
    if incoming.binding == operator.binding:
        return not incoming.groups_right
    return incoming.binding < operator.binding
