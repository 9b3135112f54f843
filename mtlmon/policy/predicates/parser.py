"""Parses expressions by operator precedence, in linear time and without recursion.

The table in `operators` says how tightly operators bind. All operators group to the left, except
comparisons, which do not chain. `not` binds less tightly than comparisons, so to the right of one
it needs parentheses, and so does `if ... then ... else`, which extends as far to the right as
possible. A minus directly before a number is part of the number.

Tokens are read as they are needed, so that a part of a longer text costs no more than its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.calls import CONSTANTS, NUMBERS, CallParser
from mtlmon.policy.predicates.expression import Constant, Expression
from mtlmon.policy.predicates.keywords import CLAUSES
from mtlmon.policy.predicates.lexer import (
    COLUMN,
    FUNCTION,
    OFFSET,
    ROW_COLUMN,
    TEXT,
    Token,
    is_operator_of_formulas,
)
from mtlmon.syntax.formula import Span
from mtlmon.syntax.lexer import END

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Protocol

    from mtlmon.policy.predicates.operators import Operator

    class Aggregates(Protocol):
        """Reads the aggregates over formulas or groups that some expressions can have."""

        def reads(self, word: str) -> bool:
            """Whether a word before a parenthesis can be an aggregate."""

        def read_aggregate(self, position: int, end: int) -> tuple[Expression, int] | None:
            """Return the aggregate at a position, and the position behind it; None for a call."""


_NO_CONSTANTS: Mapping[str, Constant] = {}

# Where an expression may end: at the end of the part, before what follows it in a declaration, or
# where a formula goes on.
_WHOLE, _PREFIX, _COMPARISON = "whole", "prefix", "comparison"

# The kinds of tokens that make a condition of what follows `if`.
_AFTER_IF = {COLUMN, FUNCTION, ROW_COLUMN, *NUMBERS, TEXT, "(", *CONSTANTS}


def parse_expression(
    text: str,
    source: str = "<predicate>",
    start: int = 0,
    end: int | None = None,
    unit: str | None = None,
    constants: Mapping[str, Constant] = _NO_CONSTANTS,
) -> Expression:
    """Parse text[start:end]; spans and errors refer to the whole text.

    Args:
        text: a text of which a part is an expression.
        source: the name of the text in errors.
        start: where the part begins.
        end: where the part ends; by default, the end of the text.
        unit: the unit of the time-stamps, as for `mtlmon.parse`.
        constants: the values of names where only constants can be, as in lists; other names stay
            names.

    Raises:
        PolicyError: the part is not an expression.
        FormulaError: an interval in it is invalid.
    """
    return _Parser(text, source, start, end, unit, _WHOLE, constants).expression()


def parse_prefix(
    text: str,
    source: str,
    start: int = 0,
    end: int | None = None,
    unit: str | None = None,
    constants: Mapping[str, Constant] = _NO_CONSTANTS,
    aggregates: Aggregates | None = None,
    clauses: Collection[str] = CLAUSES,
) -> tuple[Expression, int]:
    """Parse the expression that text[start:end] begins with.

    It ends before `:`, a comma outside parentheses, or a word of `clauses` behind a complete
    expression. Takes the same arguments as `parse_expression`, and raises the same errors;
    `aggregates` reads aggregates, where these can be.

    Returns:
        The expression, and the position behind its last token.
    """
    parser = _Parser(text, source, start, end, unit, _PREFIX, constants, aggregates, clauses)
    return parser.expression(), parser.ahead(-1).end


def parse_comparison(
    text: str,
    source: str,
    start: int = 0,
    end: int | None = None,
    unit: str | None = None,
    constants: Mapping[str, Constant] = _NO_CONSTANTS,
    aggregates: Aggregates | None = None,
) -> tuple[Expression, int]:
    """Parse an atom of a formula: the expression that text[start:end] begins with.

    It binds more tightly than `not`: `and`, `or`, `not` and `if` stand in parentheses or leave the
    expression to the formula. It ends where nothing follows that goes on with it. So it may be no
    more than a name; the caller knows what that means. Names that formulas read as operators need
    backquotes. Takes the same arguments as `parse_prefix`, and raises the same errors.

    Returns:
        The expression, and the position behind its last token.
    """
    parser = _Parser(text, source, start, end, unit, _COMPARISON, constants, aggregates)
    return parser.expression(), parser.ahead(-1).end


class _Parser(CallParser):
    __slots__ = ("aggregates", "clauses", "mode")

    def __init__(
        self,
        text: str,
        source: str,
        start: int,
        end: int | None,
        unit: str | None,
        mode: str,
        constants: Mapping[str, Constant],
        aggregates: Aggregates | None = None,
        clauses: Collection[str] = CLAUSES,
    ) -> None:
        is_comparison = mode == _COMPARISON
        super().__init__(text, source, start, end, unit, constants, in_formula=is_comparison)
        self.mode = mode
        self.aggregates = aggregates
        self.clauses = clauses

    def expression(self) -> Expression:
        if self.token.kind == END:
            raise self.expected("a predicate", "such as speed > 120")
        self.read_operand()
        while self.read_operator():
            self.read_operand()
        return self.operands[0]

    def read_operand(self) -> None:
        """Read what can stand before a name or a constant, then one of these."""
        while True:
            token = self.token
            if token.kind == "(":
                self.open(token)
                self.index += 1
            elif token.kind in {COLUMN, FUNCTION}:
                self.require_name(token)
                if self.begins_if(token):
                    self.open_if(token)
                elif token.kind == FUNCTION:
                    if self.read_aggregate(token) or self.open_time(token):
                        return
                    self.open_call(token)
                elif self.begins_exists(token):
                    if self.open_exists(token):
                        return
                elif self.ahead(1).kind != "[":
                    self.push_leaf(ops.COLUMN, token)
                    return
                elif self.is_window(token):
                    if self.open_window(token):
                        return
                elif self.open_instance(token):
                    return
            elif token.kind == ROW_COLUMN:
                self.push_leaf(ops.ROW_COLUMN, token)
                return
            elif token.kind == "not" and not self.is_outside_in_formula:
                self.require_room("not", token, ops.NOT_BINDING)
                self.wait(token, ops.NOT)
            elif token.kind == "-" and self.ahead(1).kind not in NUMBERS:
                self.wait(token, ops.NEGATE)
            else:
                value = self.read_constant("a value")
                span = Span(token.start, self.ahead(-1).end)
                self.push(Expression(ops.CONSTANT, (), value, span))
                return

    @property
    def is_outside_in_formula(self) -> bool:
        """Whether `and`, `or`, `not` and `if` belong to the formula."""
        return self.in_formula and not self.open_count

    def require_name(self, token: Token) -> None:
        """Refuse the names that a formula would read as operators."""
        name = str(token.value)
        if (
            self.is_outside_in_formula
            and self.text[token.start] != "`"
            and is_operator_of_formulas(name)
        ):
            hint = f"a column of that name is written `{name}`"
            raise self.error(f"{name} is an operator", token, hint)

    def push_leaf(self, operator: Operator, token: Token) -> None:
        assert isinstance(token.value, str)
        self.push(Expression(operator, (), token.value, Span(token.start, token.end)))
        self.index += 1

    def read_aggregate(self, token: Token) -> bool:
        """Read an aggregate over a formula or a group; return whether one comes next."""
        if self.aggregates is None or not self.aggregates.reads(str(token.value)):
            return False
        found = self.aggregates.read_aggregate(token.start, self.end)
        if found is None:
            return False
        aggregate, behind = found
        self.push(aggregate)
        self.tokens[self.index] = Token(FUNCTION, token.start, behind, token.value)
        self.index += 1
        self.read_tokens_from(behind)
        return True

    def begins_if(self, token: Token) -> bool:
        """Whether an `if` begins a conditional expression; otherwise it is a column."""
        if self.word(token) != "if":
            return False
        following = self.ahead(1).kind
        if following == "not":
            return self.ahead(2).kind != "in"
        return following in _AFTER_IF

    def open_if(self, token: Token) -> None:
        if self.is_outside_in_formula:
            hint = "write (if ... then ... else ...)"
            raise self.error("if needs parentheses in a formula", token, hint)
        self.require_room("if", token, ops.IF_BINDING)
        self.open(token, ops.IF)
        self.index += 1

    def require_room(self, word: str, token: Token, binding: int) -> None:
        """Refuse a prefix operator behind an operator that binds more tightly."""
        before = self.waiting[-1].operator if self.waiting else None
        if before is not None and before.binding > binding:
            written = before.word if before.arity > 1 or before is ops.NOT else "a minus"
            shown = f"'{before.word}'" if written == before.word else written
            hint = f"write {before.word} ({word} ...)"
            raise self.error(f"{word} needs parentheses after {shown}", token, hint)

    def read_operator(self) -> bool:
        """Read on after a complete operand; return False where the expression ends."""
        while True:
            token = self.token
            kind = token.kind
            if not self.open_count and self.ends_at(token):
                self.apply_all()
                return False
            if kind in ops.BINARY:
                self.apply_before(ops.BINARY[kind], token)
                self.wait(token, ops.BINARY[kind])
                return True
            if kind == ",":
                if self.read_comma(token):
                    return True
            elif kind in {"is", "in", "not"}:
                if self.read_postfix(token):
                    return True
            elif kind == OFFSET:
                self.read_offset(token)
            elif kind == ")":
                self.close(token)
            elif kind == "]":
                self.close_instance(token)
            elif kind in {COLUMN, FUNCTION} and self.word(token) in {"then", "else", "over"}:
                if self.read_word(self.word(token), token):
                    return True
            else:
                raise self.operator_missing()

    def ends_at(self, token: Token) -> bool:
        """Whether an expression in which nothing is open ends before a token."""
        if token.kind == END:
            return True
        if self.mode == _PREFIX:
            return token.kind in {":", ","} or self.word(token) in self.clauses
        if self.in_formula:
            if token.kind == "not":
                return self.ahead(1).kind != "in"
            operator = ops.BINARY.get(token.kind)
            if operator is not None:
                return operator.binding <= ops.NOT_BINDING
            return token.kind not in {"is", "in", OFFSET}
        return False

    def read_word(self, word: str, token: Token) -> bool:
        """Read `then`, `else` or `over NAME`; return whether an operand follows."""
        self.apply_all()
        opening = self.waiting[-1] if self.waiting else None
        count = len(self.operands) - opening.depth if opening else 0
        if opening and opening.opened is ops.IF and count == (1 if word == "then" else 2):
            self.index += 1
            if word == "else":
                # from now on, it ends like an operator
                opening.opened, opening.operator = None, ops.IF
                self.open_count -= 1
            return True
        if word == "over" and opening and opening.interval is None and count == 1:
            name = opening.opened.word if opening.opened else ""
            if name in ops.OVER_AGGREGATES:
                self.index += 1
                return self.read_over(name)
        raise self.operator_missing()

    def read_postfix(self, token: Token) -> bool:
        """Read `is null`, `is not null`, `in (...)` or `not in (...)`.

        Return whether an operand follows: the column behind `in` or `not in`.
        """
        values: tuple[Constant, ...] | None = None
        self.index += 1
        if token.kind == "is":
            is_negated = self.token.kind == "not"
            self.index += is_negated
            if self.token.kind != "null":
                hint = "write is null or is not null; compare values with ="
                raise self.expected("null" if is_negated else "null or not null", hint)
            operator = ops.IS_NOT_NULL if is_negated else ops.IS_NULL
            self.index += 1
            self.apply_before(operator, token)
        else:
            if token.kind == "not":
                if self.token.kind != "in":
                    hint = "join two predicates by and or or"
                    raise self.expected("in after not", hint)
                self.index += 1
            is_name = self.token.kind == COLUMN and self.token.value not in self.constants
            if is_name or self.token.kind == ROW_COLUMN:
                operator = ops.NOT_IN_COLUMN if token.kind == "not" else ops.IN_COLUMN
                self.apply_before(operator, token)
                # the operand that follows is read next
                self.index -= 1
                self.wait(token, operator)
                return True
            operator = ops.NOT_IN if token.kind == "not" else ops.IN
            self.apply_before(operator, token)
            values = self.read_list(operator)
        operand, start = self.operands.pop(), self.starts.pop()
        self.bare.pop()
        span = Span(start, self.ahead(-1).end)
        self.push(Expression(operator, (operand,), values, span), ops.COMPARISON)
        return False

    def read_list(self, operator: Operator) -> tuple[Constant, ...]:
        if self.token.kind != "(":
            hint = "write a list of values in parentheses, as in lane in (1, 2)"
            raise self.expected(f"'(' after {operator.word}", hint)
        values: list[Constant] = []
        while True:
            self.index += 1
            if self.token.kind == ")" and not values:
                raise self.error("the list is empty", self.token, "name at least one value")
            is_name = self.token.kind == COLUMN and self.token.value not in self.constants
            if is_name or self.token.kind in {FUNCTION, ROW_COLUMN, "("}:
                hint = "compare with = and join by or, as in x = y or x = z"
                message = "a list holds constants: numbers, texts, true, false"
                raise self.error(message, self.token, hint)
            start = self.token
            value = self.read_constant("a constant")
            if value is None:
                raise self.error("nothing equals null", start, "join by or with 'is null'")
            values.append(value)
            if self.token.kind == ")":
                self.index += 1
                return tuple(values)
            if self.token.kind != ",":
                raise self.expected("',' or ')' in the list")
