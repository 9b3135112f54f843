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
from mtlmon.syntax.bounds import LATER, opens_interval, read_interval, require_unit
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Formula, Span
from mtlmon.syntax.hints import (
    behind_interval,
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


def parse_at(
    cursor: Cursor, unit: str | None, missing_parentheses: set[Span] | None = None
) -> Formula:
    """Parse the tokens of a cursor as a formula; spans and errors refer to its text.

    Args:
        cursor: the cursor at its first token.
        unit: a valid unit, "later" or None, as for `parse`.
        missing_parentheses: None to refuse formulas with two readings; else operands of temporal
            operators are read as by version 0.2, and the places of those that need parentheses are
            added.

    Raises:
        FormulaError: the tokens are not a formula, as for `parse`.
    """
    parser = _Parser(cursor, unit, None if missing_parentheses is None else [])
    formula = parser.formula()
    if missing_parentheses is not None and parser.missing_parentheses:
        missing_parentheses.update(parser.missing_parentheses)
    return formula


class _Waiting:
    """An operator whose last operand is not complete, or an open parenthesis (operator None)."""

    __slots__ = ("index", "interval", "operator")

    def __init__(self, index: int, operator: Operator | None, interval: Interval | None) -> None:
        self.index = index
        self.operator = operator
        self.interval = interval


class _Parser:
    __slots__ = ("cursor", "missing_parentheses", "operands", "starts", "unit", "waiting")

    def __init__(
        self, cursor: Cursor, unit: str | None, missing_parentheses: list[Span] | None
    ) -> None:
        self.cursor = cursor
        self.unit = unit
        self.missing_parentheses = missing_parentheses
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
                if self.missing_parentheses is None:
                    self.require_one_reading(token.operator)
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

    def require_one_reading(self, incoming: Operator) -> None:
        """Refuse AND, OR and temporal operators beside an operand that could end before them."""
        if incoming.groups_right:
            return
        for place in range(len(self.waiting) - 1, -1, -1):
            waiting = self.waiting[place]
            operator = waiting.operator
            if operator is None or operator.is_first_order or operator.groups_right:
                return
            if operator.is_temporal:
                if incoming.is_temporal and operator.arity == 2:
                    # a chain, whose readings `apply_before` shows
                    return
                first = self.first_prefix(place) if operator.is_prefix else self.starts[-2]
                middle = behind_interval(self.cursor.tokens, waiting.index + 1)
                raise self.two_readings(operator, incoming, first, middle)
            if incoming.is_temporal and operator.arity == 2:
                middle = behind_interval(self.cursor.tokens, waiting.index + 1)
                self.apply_before(incoming)
                raise self.two_readings(operator, incoming, self.starts[-1], middle)

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

    def first_prefix(self, place: int) -> int:
        """The index of the first token of the prefix operators up to a waiting one."""
        while place and (before := self.waiting[place - 1].operator) is not None:
            if not before.is_prefix or before.is_first_order:
                break
            place -= 1
        return self.waiting[place].index

    def two_readings(
        self, operator: Operator, incoming: Operator, first: int, middle: int
    ) -> FormulaError:
        """The error for two operators, of which either could take the operand between them.

        Args:
            operator: the operator that waits for its last operand.
            incoming: the operator at the cursor.
            first: the index of the first token of the waiting operator with its operands.
            middle: the index of the first token between the operators.
        """
        cursor = self.cursor
        written = cursor.text_of(cursor.token)
        hint = both_readings(cursor, first, middle, incoming, outer_first=operator.is_temporal)
        message = f"{operator.word} before '{written}' needs parentheses: there are two readings"
        return cursor.error(message, cursor.token, hint)

    def apply(self) -> None:
        """Apply the last waiting operator, whose last operand ends before the cursor."""
        waiting = self.waiting.pop()
        operator = waiting.operator
        assert operator is not None
        split = len(self.operands) - operator.arity
        operands = tuple(self.operands[split:])
        if operator.is_temporal and self.missing_parentheses is not None:
            self.note_missing_parentheses(waiting, split)
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

    def note_missing_parentheses(self, waiting: _Waiting, split: int) -> None:
        """Note the operands of a temporal operator that `require_one_reading` refuses."""
        assert self.missing_parentheses is not None
        assert waiting.operator is not None
        tokens = self.cursor.tokens
        for place in range(split, len(self.operands)):
            operand, start = self.operands[place], tokens[self.starts[place]].start
            assert operand.span is not None
            is_in_parentheses = operand.span.start != start
            needs_them = operand.operator in _NEED_PARENTHESES or (
                operand.operator.is_temporal and operand.operator.arity == 2
            )
            if needs_them and not is_in_parentheses:
                self.missing_parentheses.append(operand.span)

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


_NEED_PARENTHESES = frozenset({ops.AND, ops.OR})
"""The operators that need parentheses in operands of temporal operators, beside temporal ones."""


def _ends(incoming: Operator, operator: Operator) -> bool:
    """Whether a binary operator ends the last operand of an earlier operator."""
    if incoming.binding == operator.binding:
        return not incoming.groups_right
    return incoming.binding < operator.binding
