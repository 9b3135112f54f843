"""Parses expressions by operator precedence, in linear time and without recursion.

The table in `operators` says how tightly operators bind. All operators group to the left, except
comparisons, which do not chain. `not` binds less tightly than comparisons, so to the right of one
it needs parentheses, and so does `if ... then ... else`, which extends as far to the right as
possible. A minus directly before a number is part of the number.

Tokens are read as they are needed, so that a part of a longer text costs no more than its length.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import (
    Constant,
    Expression,
    Offset,
    Over,
    Value,
    Window,
)
from mtlmon.policy.predicates.hints import (
    FORMULA_IN_EXPRESSION,
    where_operand_is_missing,
    where_operator_is_missing,
    without_window,
)
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.policy.predicates.keywords import CLAUSES
from mtlmon.policy.predicates.lexer import (
    COLUMN,
    DEFAULT,
    DURATION,
    FUNCTION,
    OFFSET,
    ROW_COLUMN,
    TEXT,
    Token,
    is_operator_of_formulas,
    is_temporal_word,
    scan,
)
from mtlmon.policy.predicates.own_aggregates import registered
from mtlmon.support.guesses import nearest
from mtlmon.syntax.bounds import read_bound, read_interval
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Span
from mtlmon.syntax.lexer import END, INVALID, NUMBER
from mtlmon.syntax.operators import SMALL_WORDS
from mtlmon.syntax.report import formula_error, shorten, visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.policy.predicates.own_aggregates import OwnAggregate
    from mtlmon.syntax.durations import Duration
    from mtlmon.syntax.interval import Interval

    class Formulas(Protocol):
        """Reads the aggregates over formulas that terms of first-order formulas can have."""

        def read_aggregate(self, position: int, end: int) -> tuple[Expression, int]:
            """Return the aggregate at a position, and the position behind it."""


_FOUND_WIDTH = 40
_CONSTANTS = {"true": True, "false": False, "null": None}

_NO_CONSTANTS: Mapping[str, Constant] = {}

# Where an expression may end: at the end of the part, before what follows it in a declaration, or
# where a formula goes on.
_WHOLE, _PREFIX, _COMPARISON = "whole", "prefix", "comparison"

# The kinds of tokens that make a condition of what follows `if`.
_NUMBERS = {NUMBER, DURATION}
_AFTER_IF = {COLUMN, FUNCTION, ROW_COLUMN, *_NUMBERS, TEXT, "(", *_CONSTANTS}

# An interval, or a bound, up to the bracket or comma that ends it, with comments.
_INTERVAL = re.compile(r"\[(?:/\*(?s:.)*?\*/|#[^\n]*|[^])])*[])]?")
_BOUND = re.compile(r"(?:/\*(?s:.)*?\*/|#[^\n]*|[^,)])*")


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
    formulas: Formulas | None = None,
) -> tuple[Expression, int]:
    """Parse the expression that text[start:end] begins with.

    It ends before `:`, a comma outside parentheses, or a word of `CLAUSES` behind a complete
    expression. Takes the same arguments as `parse_expression`, and raises the same errors;
    `formulas` reads aggregates over formulas, where these can be.

    Returns:
        The expression, and the position behind its last token.
    """
    parser = _Parser(text, source, start, end, unit, _PREFIX, constants, formulas)
    return parser.expression(), parser.ahead(-1).end


def parse_comparison(
    text: str,
    source: str,
    start: int = 0,
    end: int | None = None,
    unit: str | None = None,
    constants: Mapping[str, Constant] = _NO_CONSTANTS,
    formulas: Formulas | None = None,
) -> tuple[Expression, int]:
    """Parse an atom of a formula: the expression that text[start:end] begins with.

    It binds more tightly than `not`: `and`, `or`, `not` and `if` stand in parentheses or leave the
    expression to the formula. It ends where nothing follows that goes on with it. So it may be no
    more than a name; the caller knows what that means. Names that formulas read as operators need
    backquotes. Takes the same arguments as `parse_prefix`, and raises the same errors.

    Returns:
        The expression, and the position behind its last token.
    """
    parser = _Parser(text, source, start, end, unit, _COMPARISON, constants, formulas)
    return parser.expression(), parser.ahead(-1).end


class _Waiting:
    """An operator whose last operand is not complete, or something open (operator None).

    Attributes:
        token: the operator, the parenthesis, the name before it, or `if`.
        operator: the operator, or None.
        opened: the function, aggregate, INSTANCE or IF that is open, or None for a parenthesis.
        depth: the number of operands before it.
        interval: for an aggregate, the interval of its window.
    """

    __slots__ = ("depth", "interval", "opened", "operator", "token")

    def __init__(
        self,
        token: Token,
        depth: int,
        operator: Operator | None = None,
        opened: Operator | None = None,
        interval: Interval | None = None,
    ) -> None:
        self.token = token
        self.depth = depth
        self.operator = operator
        self.opened = opened
        self.interval = interval


class _Parser:
    __slots__ = (
        *(
            "bare",
            "constants",
            "end",
            "formulas",
            "index",
            "mode",
            "open_count",
            "operands",
            "source",
            "starts",
        ),
        *("text", "tokens", "unit", "unread", "waiting"),
    )

    def __init__(
        self,
        text: str,
        source: str,
        start: int,
        end: int | None,
        unit: str | None,
        mode: str,
        constants: Mapping[str, Constant],
        formulas: Formulas | None = None,
    ) -> None:
        self.constants = constants
        self.formulas = formulas
        self.text = text
        self.source = source
        self.end = len(text) if end is None else end
        self.unit = unit
        self.mode = mode
        self.tokens: list[Token] = []
        self.index = 0
        self.read_tokens_from(start)
        self.waiting: list[_Waiting] = []
        # How many of `waiting` are open: parentheses, brackets, and `if` before its `else`.
        self.open_count = 0
        self.operands: list[Expression] = []
        # Where each operand starts, including its parentheses, and how tightly it binds.
        self.starts: list[int] = []
        self.bare: list[int] = []

    @property
    def token(self) -> Token:
        return self.ahead(0)

    def ahead(self, distance: int) -> Token:
        """The token at a distance; if there are not so many, the first or the last one."""
        tokens, index = self.tokens, max(0, self.index + distance)
        while index >= len(tokens):
            token = next(self.unread, None)
            if token is None:
                return tokens[-1]
            tokens.append(token)
        return tokens[index]

    def read_tokens_from(self, position: int) -> None:
        """Go on with the token that begins at a position, in place of the present one."""
        del self.tokens[self.index :]
        is_formula = self.mode == _COMPARISON
        self.unread = scan(self.text, position, self.end, in_formula=is_formula)

    def word(self, token: Token) -> str:
        """The word of a name without backquotes, in lower case like a keyword, or nothing."""
        if token.kind not in {COLUMN, FUNCTION} or self.text[token.start] == "`":
            return ""
        word = str(token.value)
        return word.lower() if word in (word.lower(), word.upper()) else ""

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
                    if self.formulas and token.value in ops.FORMULA_AGGREGATES:
                        self.read_aggregate(token, self.formulas)
                        return
                    self.open_call(token)
                elif self.ahead(1).kind != "[":
                    self.push_leaf(ops.COLUMN, token)
                    return
                elif _is_aggregate(token.value) and self.text[token.start] != "`":
                    if self.open_window(token):
                        return
                else:
                    self.open_instance(token)
            elif token.kind == ROW_COLUMN:
                self.push_leaf(ops.ROW_COLUMN, token)
                return
            elif token.kind == "not" and not self.is_outside_in_formula:
                self.require_room("not", token, ops.NOT_BINDING)
                self.wait(token, ops.NOT)
            elif token.kind == "-" and self.ahead(1).kind not in _NUMBERS:
                self.wait(token, ops.NEGATE)
            else:
                value = self.read_constant("a value")
                span = Span(token.start, self.ahead(-1).end)
                self.push(Expression(ops.CONSTANT, (), value, span))
                return

    @property
    def is_outside_in_formula(self) -> bool:
        """Whether `and`, `or`, `not` and `if` belong to the formula."""
        return self.mode == _COMPARISON and not self.open_count

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

    def read_constant(self, what: str) -> Constant:
        token = self.token
        is_negative = token.kind == "-" and self.ahead(1).kind in _NUMBERS
        if is_negative:
            self.index += 1
            token = self.token
        self.index += 1
        if token.kind == TEXT:
            assert isinstance(token.value, str)
            return token.value
        if token.kind in _CONSTANTS:
            return _CONSTANTS[token.kind]
        if token.kind == COLUMN and token.value in self.constants:
            return self.constants[str(token.value)]
        if token.kind == DURATION:
            length = self.length_of_time(token)
            return -length if is_negative else length
        if token.kind != NUMBER:
            self.index -= 1
            raise self.expected(what, where_operand_is_missing(self.ahead(-1), token))
        assert isinstance(token.value, int | Decimal)
        if isinstance(token.value, Decimal):
            # unary minus would round
            return token.value.copy_negate() if is_negative and token.value else token.value
        if token.value > LARGEST and not is_negative:
            hint = f"write {token.value}.0 for a number with a fraction, which may be larger"
            raise self.error(f"integers are at most {LARGEST}", token, hint)
        return -token.value if is_negative else token.value

    def length_of_time(self, token: Token) -> int:
        """The number of units that a length of time like 10m stands for."""
        found = read_bound(Cursor(self.text, self.source, token.start, token.end), self.unit)
        # if the unit is not known yet, the file is read again when it is
        return found if isinstance(found, int) else 0

    def open_call(self, token: Token) -> None:
        """Begin a call of a function, or of an aggregate over instances."""
        name = str(token.value)
        function = ops.FUNCTIONS.get(name)
        if function is None and name in ops.OVER_WORDS:
            function = ops.AGGREGATES[name]
        if function is None:
            raise self.error(f"there is no function {name}", token, _function_hint(name))
        self.open(token, function)
        self.index += 2
        if self.token.kind == ")":
            if function in ops.WINDOWS:
                raise self.error(f"{name} has no window", token, without_window(name))
            raise self.error(_count_message(function, 0), self.token, _call_hint(function))

    def read_aggregate(self, token: Token, formulas: Formulas) -> None:
        """Read an aggregate over a formula."""
        aggregate, behind = formulas.read_aggregate(token.start, self.end)
        self.push(aggregate)
        self.tokens[self.index] = Token(FUNCTION, token.start, behind, token.value)
        self.index += 1
        self.read_tokens_from(behind)

    def open_window(self, token: Token) -> bool:
        """Begin a call of an aggregate; return whether it is complete, as `count[0,5]()` is."""
        word = str(token.value)
        aggregate = ops.AGGREGATES.get(word, ops.WINDOW_OWN)
        bracket = self.ahead(1)
        match = _INTERVAL.match(self.text, bracket.start, self.end)
        assert match is not None
        cursor = Cursor(self.text, self.source, match.start(), match.end())
        interval = read_interval(cursor, self.unit)
        self.index += 1
        self.read_tokens_from(cursor.ahead(-1).end)
        if self.token.kind != "(":
            hint = f"as in {word}{interval}(column)"
            raise self.expected("'(' after the window", hint)
        self.open(token, aggregate, interval)
        self.index += 1
        if self.token.kind != ")":
            return False
        if aggregate is not ops.WINDOW_COUNT:
            hint = f"only count has none: count{interval}() is the number of rows"
            raise self.error(f"{word} takes an argument", self.token, hint)
        self.close_call((), ops.COUNT_ROWS, Window(interval))
        return True

    def open_instance(self, token: Token) -> None:
        name = str(token.value)
        if self.text[token.start] != "`" and (is_temporal_word(name) or name in SMALL_WORDS):
            raise self.error(f"{name} is an operator of formulas", token, FORMULA_IN_EXPRESSION)
        self.open(token, ops.INSTANCE)
        self.index += 2
        if self.token.kind == "]":
            hint = "name the instance, as in views[7]"
            raise self.error("the brackets are empty", self.token, hint)

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
                self.read_postfix(token)
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
            return token.kind in {":", ","} or self.word(token) in CLAUSES
        if self.mode == _COMPARISON:
            if token.kind == "not":
                return self.ahead(1).kind != "in"
            operator = ops.BINARY.get(token.kind)
            if operator is not None:
                return operator.binding <= ops.NOT_BINDING
            return token.kind not in {"is", "in", OFFSET}
        return False

    def read_word(self, word: str, token: Token) -> bool:
        """Read `then`, `else` or `over NAME)`; return whether an operand follows."""
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
            if name in ops.OVER_WORDS:
                self.index += 1
                self.read_over(name)
                return False
        raise self.operator_missing()

    def read_over(self, aggregate: str) -> None:
        token = self.token
        if token.kind != COLUMN:
            hint = f"as in {aggregate}(views > 10 over views)"
            raise self.expected("the name of a stream after over", hint)
        self.index += 1
        if self.token.kind != ")":
            raise self.expected("')' after the name of the stream")
        self.close_call(self.arguments(), ops.OVER, Over(aggregate, str(token.value)))

    def read_postfix(self, token: Token) -> None:
        """Read `is null`, `is not null`, `in (...)` or `not in (...)`."""
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
            operator = ops.NOT_IN if token.kind == "not" else ops.IN
            self.apply_before(operator, token)
            values = self.read_list(operator)
        operand, start = self.operands.pop(), self.starts.pop()
        self.bare.pop()
        span = Span(start, self.ahead(-1).end)
        self.push(Expression(operator, (operand,), values, span), ops.COMPARISON)

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

    def read_offset(self, token: Token) -> None:
        """Read `.last(2, or: 0)` and the like behind an operand."""
        operator = ops.OFFSETS[str(token.value)]
        if self.bare[-1] != ops.OPERAND:
            hint = f"write (...).{operator.word}(...)"
            raise self.error(f".{operator.word} needs parentheses before it", token, hint)
        self.index += 2
        distance = self.read_distance(operator)
        default: Constant = None
        if self.token.kind == "," and operator is not ops.HOLD:
            self.index += 1
            if self.token.kind != DEFAULT:
                raise self.expected("or:", f"as in .{operator.word}({distance}, or: 0)")
        if self.token.kind == DEFAULT:
            default = self.read_default()
        if self.token.kind != ")":
            raise self.expected(f"')' at the end of .{operator.word}", _OFFSET_HINTS[operator])
        self.index += 1
        operand, start = self.operands.pop(), self.starts.pop()
        self.bare.pop()
        span = Span(start, self.ahead(-1).end)
        self.push(Expression(operator, (operand,), Offset(distance, default), span))

    def read_distance(self, operator: Operator) -> int | Duration:
        """Read how far an offset looks, and move to the token behind it."""
        token = self.token
        if operator is ops.AT:
            if token.kind != "-":
                raise self.expected("a minus and a length of time", _OFFSET_HINTS[operator])
            match = _BOUND.match(self.text, token.end, self.end)
            assert match is not None
            cursor = Cursor(self.text, self.source, match.start(), match.end())
            distance = read_bound(cursor, self.unit)
            self.index += 1
            self.read_tokens_from(cursor.ahead(-1).end)
            return distance
        if operator is ops.HOLD:
            return 0
        if token.kind in {DEFAULT, ")"}:
            return 1
        if token.kind != NUMBER or not isinstance(token.value, int):
            raise self.expected("a whole number", _OFFSET_HINTS[operator])
        if not 1 <= token.value <= LARGEST:
            hint = f"{operator.word}(1) is the nearest other value"
            message = f"the number after .{operator.word} is from 1 to {LARGEST}"
            raise self.error(message, token, hint)
        self.index += 1
        return token.value

    def read_default(self) -> Constant:
        """Read `or: CONSTANT`."""
        self.index += 1
        return self.read_constant("a constant after or:")

    def read_comma(self, token: Token) -> bool:
        """Read a comma in a call; return whether an operand follows."""
        self.apply_all()
        call = self.waiting[-1] if self.waiting else None
        if call is None or call.opened is None or call.opened is ops.IF:
            if call is not None and call.opened is ops.IF:
                raise self.operator_missing()
            hint = "write a list of values after in, as in lane in (1, 2)"
            raise self.error("',' is outside a list or a function", token, hint)
        function = call.opened
        if function in ops.WINDOWS:
            if call.interval is None:
                name = function.word
                raise self.error(f"{name} has no window", call.token, without_window(name))
            self.read_parameters(function, call.interval)
            return False
        count = len(self.operands) - call.depth
        if function is ops.COALESCE and count == function.arity:
            arguments = self.arguments()
            assert arguments[0].span is not None
            span = Span(arguments[0].span.start, self.ahead(-1).end)
            self.drop(call.depth)
            self.push(Expression(function, arguments, None, span))
        elif 0 <= function.arity <= count:
            message = _count_message(function, function.arity + 1)
            raise self.error(message, token, _call_hint(function))
        self.index += 1
        return True

    def read_parameters(self, aggregate: Operator, interval: Interval) -> None:
        """Read what follows the argument of an aggregate, and close it."""
        parameters: list[Constant] = []
        default: Constant = None
        while self.token.kind == ",":
            self.index += 1
            if self.token.kind == DEFAULT:
                default = self.read_default()
                break
            if len(parameters) == aggregate.constants:
                takes = f"{aggregate.constants + 1} arguments" if parameters else "one argument"
                hint = f"{_window_hint(aggregate)}; a value for an empty window follows or:"
                raise self.error(f"{aggregate.word} takes {takes}", self.token, hint)
            parameters.append(self.read_parameter(aggregate))
        if self.token.kind != ")":
            raise self.expected("')' at the end of the window", _window_hint(aggregate))
        self.require_parameters(aggregate, len(parameters))
        own = _own(aggregate, self.waiting[-1].token)
        window = Window(interval, tuple(parameters), default, own)
        self.close_call(self.arguments(), aggregate, window)

    def read_parameter(self, aggregate: Operator) -> Constant:
        """Read the constant of a quantile."""
        token = self.token
        value = self.read_constant("a constant")
        if isinstance(value, int | Decimal) and not isinstance(value, bool) and 0 <= value <= 1:
            return value
        raise self.error("a quantile is a number from 0 to 1", token, _window_hint(aggregate))

    def require_parameters(self, aggregate: Operator, count: int) -> None:
        if count < aggregate.constants:
            message = f"{aggregate.word} takes {aggregate.constants + 1} arguments, not {count + 1}"
            raise self.error(message, self.token, _window_hint(aggregate))

    def close(self, token: Token) -> None:
        """Close what the parenthesis at the present token closes."""
        self.apply_all()
        if not self.waiting:
            raise self.error("this parenthesis closes nothing", token)
        opening = self.waiting[-1]
        function = opening.opened
        if function in {ops.IF, ops.INSTANCE}:
            raise self.operator_missing()
        if function is None:
            self.waiting.pop()
            self.open_count -= 1
            self.index += 1
            self.starts[-1], self.bare[-1] = opening.token.start, ops.OPERAND
            return
        arguments = self.arguments()
        if function in ops.WINDOWS:
            if opening.interval is None:
                name = function.word
                raise self.error(f"{name} has no window", opening.token, without_window(name))
            self.require_parameters(function, 0)
            own = _own(function, opening.token)
            self.close_call(arguments, function, Window(opening.interval, own=own))
            return
        if len(arguments) != function.arity:
            message = _count_message(function, len(arguments))
            raise self.error(message, token, _call_hint(function))
        self.close_call(arguments, function, None)

    def close_instance(self, token: Token) -> None:
        self.apply_all()
        if not self.waiting or self.waiting[-1].opened is not ops.INSTANCE:
            raise self.operator_missing()
        self.close_call(self.arguments(), ops.INSTANCE, self.waiting[-1].token.value)

    def arguments(self) -> tuple[Expression, ...]:
        """The operands of what was opened last."""
        return tuple(self.operands[self.waiting[-1].depth :])

    def close_call(
        self, arguments: tuple[Expression, ...], operator: Operator, value: Value
    ) -> None:
        """Replace the arguments of what was opened last, which the present token closes."""
        opening = self.waiting.pop()
        self.open_count -= 1
        self.index += 1
        self.drop(opening.depth)
        span = Span(opening.token.start, self.ahead(-1).end)
        self.push(Expression(operator, arguments, value, span))

    def apply_before(self, incoming: Operator, token: Token) -> None:
        """Apply the waiting operators whose last operand ends before the incoming operator."""
        is_comparison = incoming.binding == ops.COMPARISON
        while self.waiting and (operator := self.waiting[-1].operator):
            if operator.binding < incoming.binding:
                break
            if is_comparison and operator.binding == ops.COMPARISON:
                raise self.chained(token)
            self.apply()
        if is_comparison and self.bare[-1] == ops.COMPARISON:
            raise self.chained(token)

    def apply_all(self) -> None:
        while self.waiting and self.waiting[-1].operator:
            self.apply()

    def apply(self) -> None:
        """Apply the last waiting operator, whose last operand ends before the present token."""
        waiting = self.waiting.pop()
        operator = waiting.operator
        assert operator is not None
        split = len(self.operands) - operator.arity
        # an operator before its first operand has as many operands before it as there are below
        start = waiting.token.start if waiting.depth == split else self.starts[split]
        operands = tuple(self.operands[split:])
        self.drop(split)
        span = Span(start, self.ahead(-1).end)
        self.push(Expression(operator, operands, None, span), operator.binding)

    def wait(self, token: Token, operator: Operator) -> None:
        self.waiting.append(_Waiting(token, len(self.operands), operator))
        self.index += 1

    def open(
        self, token: Token, opened: Operator | None = None, interval: Interval | None = None
    ) -> None:
        self.waiting.append(_Waiting(token, len(self.operands), None, opened, interval))
        self.open_count += 1

    def push(self, expression: Expression, bare: int = ops.OPERAND) -> None:
        assert expression.span is not None
        self.operands.append(expression)
        self.starts.append(expression.span.start)
        self.bare.append(bare)

    def drop(self, depth: int) -> None:
        del self.operands[depth:], self.starts[depth:], self.bare[depth:]

    def chained(self, token: Token) -> FormulaError:
        hint = "join two comparisons by and, as in 0 < x and x < 9, or set parentheses"
        return self.error("comparisons do not chain", token, hint)

    def operator_missing(self) -> FormulaError:
        """The error that something follows an operand that cannot follow it."""
        opening = next((one for one in reversed(self.waiting) if one.operator is None), None)
        if opening is None:
            what = "an operator or the end"
        elif opening.opened is ops.IF:
            self.apply_all()
            what = "then" if len(self.operands) - opening.depth == 1 else "else"
            what = f"an operator or {what}"
        else:
            what = f"an operator or '{']' if opening.opened is ops.INSTANCE else ')'}'"
        if self.token.kind == END and opening is not None and opening.opened is not ops.IF:
            is_bracket = opening.opened is ops.INSTANCE
            what = "bracket" if is_bracket else "parenthesis"
            return self.error(f"this {what} is never closed", opening.token)
        return self.expected(what, where_operator_is_missing(self.ahead(-1), self.token))

    def expected(self, what: str, hint: str | None = None) -> FormulaError:
        """The error that something other than the present token was expected."""
        token = self.token
        found = "the end"
        if token.kind != END:
            written = self.text[token.start : token.end]
            found = f"'{shorten(visible(written), _FOUND_WIDTH)}'"
        return self.error(f"expected {what}, found {found}", token, hint)

    def error(self, message: str, token: Token, hint: str | None = None) -> FormulaError:
        """The error at a token; the message of an invalid token takes precedence."""
        if token.kind == INVALID:
            assert isinstance(token.value, str)
            message, hint = token.value, token.hint or hint
        return formula_error(
            self.text, token.start, message, source=self.source, hint=hint, kind=PolicyError
        )


_OFFSET_HINTS = {
    ops.LAST: "as in x.last(), x.last(2) or x.last(or: 0)",
    ops.NEXT: "as in x.next(), x.next(2) or x.next(or: 0)",
    ops.AT: "as in x.at(-5s) or x.at(-5s, or: 0); x.hold() is the value now",
    ops.HOLD: "as in x.hold() or x.hold(or: 0)",
}


def _count_message(function: Operator, count: int) -> str:
    arguments = "one argument" if function.arity == 1 else f"{function.arity} arguments"
    return f"{function.name} takes {arguments}, not {count}{' or more' if count > 1 else ''}"


def _call_hint(function: Operator) -> str:
    if function in {ops.LEAST, ops.GREATEST}:
        name = function.word
        return f"as in {name}(x, y); of the values in a window it is {name}[0,5](x)"
    if function is ops.COALESCE:
        return "as in coalesce(x, 0)"
    arguments = "column" if function.arity == 1 else 'column, "text"'
    return f"as in {function.name}({arguments})"


def _window_hint(aggregate: Operator) -> str:
    return f"as in {aggregate.word}[0,5]({'x, 0.99' if aggregate.constants else 'x'})"


def _is_aggregate(word: object) -> bool:
    """Whether a word before a bracket is the name of an aggregate."""
    return word in ops.AGGREGATES or (isinstance(word, str) and registered(word) is not None)


def _own(function: Operator, token: Token) -> OwnAggregate | None:
    """The aggregate that a call is of, if a program defines it."""
    return registered(str(token.value)) if function is ops.WINDOW_OWN else None


def _function_hint(name: str) -> str:
    if name in ops.AGGREGATES:
        return without_window(name)
    guess = nearest(name, ops.FUNCTIONS)
    hint = f"did you mean {guess}?" if guess else ""
    return f"{hint}{' ' if hint else ''}the functions are {', '.join(ops.FUNCTIONS)}"
