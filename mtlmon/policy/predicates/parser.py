"""Parses predicates by operator precedence, in linear time and without recursion.

The table in `operators` says how tightly operators bind. All operators group to the left, except
comparisons, which do not chain. `not` binds less tightly than comparisons, so to the right of one
it needs parentheses. A minus directly before a number is part of the number.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Constant, Expression
from mtlmon.policy.predicates.hints import where_operand_is_missing, where_operator_is_missing
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.policy.predicates.lexer import (
    COLUMN,
    FUNCTION,
    TEXT,
    Token,
    tokenize,
)
from mtlmon.support.guesses import nearest
from mtlmon.syntax.formula import Span
from mtlmon.syntax.lexer import END, INVALID, NUMBER
from mtlmon.syntax.report import formula_error, shorten, visible

if TYPE_CHECKING:
    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.operators import Operator

_FOUND_WIDTH = 40
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse_expression(
    text: str, source: str = "<predicate>", start: int = 0, end: int | None = None
) -> Expression:
    """Parse text[start:end]; spans and errors refer to the whole text.

    Args:
        text: a text of which a part is a predicate or another expression.
        source: the name of the text in errors.
        start: where the part begins.
        end: where the part ends; by default, the end of the text.

    Raises:
        PolicyError: the part is not an expression.
    """
    return _Parser(text, source, tokenize(text, start, end)).expression()


class _Waiting:
    """An operator whose last operand is not complete, or an open parenthesis (operator None).

    Attributes:
        token: the operator or parenthesis.
        operator: the operator, or None.
        function: the function that the parenthesis belongs to, or None.
        depth: the number of operands before it.
    """

    __slots__ = ("depth", "function", "operator", "token")

    def __init__(
        self, token: Token, operator: Operator | None, function: Operator | None, depth: int
    ) -> None:
        self.token = token
        self.operator = operator
        self.function = function
        self.depth = depth


class _Parser:
    __slots__ = ("bare", "index", "operands", "source", "starts", "text", "tokens", "waiting")

    def __init__(self, text: str, source: str, tokens: list[Token]) -> None:
        self.text = text
        self.source = source
        self.tokens = tokens
        self.index = 0
        self.waiting: list[_Waiting] = []
        self.operands: list[Expression] = []
        # Where each operand starts, including its parentheses, and how tightly it binds.
        self.starts: list[int] = []
        self.bare: list[int] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def ahead(self, distance: int) -> Token:
        return self.tokens[max(0, min(self.index + distance, len(self.tokens) - 1))]

    def expression(self) -> Expression:
        if self.token.kind == END:
            raise self.expected("a predicate", "such as speed > 120")
        self.read_operand()
        while self.read_operator():
            self.read_operand()
        return self.operands[0]

    def read_operand(self) -> None:
        """Read signs, `not` and open parentheses, then a column or a constant."""
        while True:
            token = self.token
            if token.kind == "(":
                self.wait(token, None, None)
            elif token.kind == FUNCTION:
                self.open_call(token)
            elif token.kind == "not":
                self.require_room_for_not(token)
                self.wait(token, ops.NOT, None)
            elif token.kind == "-" and self.ahead(1).kind != NUMBER:
                self.wait(token, ops.NEGATE, None)
            elif token.kind == COLUMN:
                assert isinstance(token.value, str)
                self.push(Expression(ops.COLUMN, (), token.value, Span(token.start, token.end)))
                self.index += 1
                return
            else:
                value = self.read_constant("a value")
                span = Span(token.start, self.ahead(-1).end)
                self.push(Expression(ops.CONSTANT, (), value, span))
                return

    def read_constant(self, what: str) -> Constant:
        token = self.token
        is_negative = token.kind == "-" and self.ahead(1).kind == NUMBER
        if is_negative:
            self.index += 1
            token = self.token
        self.index += 1
        if token.kind == TEXT:
            assert isinstance(token.value, str)
            return token.value
        if token.kind in _CONSTANTS:
            return _CONSTANTS[token.kind]
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

    def open_call(self, token: Token) -> None:
        assert isinstance(token.value, str)
        function = ops.FUNCTIONS.get(token.value)
        if function is None:
            guess = nearest(token.value, ops.FUNCTIONS)
            hint = f"did you mean {guess}?" if guess else ""
            hint += f"{' ' if hint else ''}the functions are {', '.join(ops.FUNCTIONS)}"
            raise self.error(f"there is no function {token.value}", token, hint)
        self.wait(token, None, function)
        self.index += 1
        if self.token.kind == ")":
            raise self.error(_count_message(function, 0), self.token, _call_hint(function))

    def require_room_for_not(self, token: Token) -> None:
        before = self.waiting[-1].operator if self.waiting else None
        if before is not None and before.binding > ops.NOT_BINDING:
            hint = f"write {before.word} (not ...)"
            raise self.error(f"not needs parentheses after '{before.word}'", token, hint)

    def read_operator(self) -> bool:
        """Read on after a complete operand; return False at the end of the text."""
        while True:
            token = self.token
            if token.kind in ops.BINARY:
                self.apply_before(ops.BINARY[token.kind], token)
                self.wait(token, ops.BINARY[token.kind], None)
                return True
            if token.kind == ",":
                self.read_comma(token)
                return True
            if token.kind in {"is", "in", "not"}:
                self.read_postfix(token)
            elif token.kind == ")":
                self.close(token)
            elif token.kind == END:
                self.apply_all()
                if self.waiting:
                    opening = self.waiting[-1].token
                    raise self.error("this parenthesis is never closed", opening)
                return False
            else:
                raise self.operator_missing()

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
            if self.token.kind in {COLUMN, FUNCTION, "("}:
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

    def read_comma(self, token: Token) -> None:
        self.apply_all()
        call = self.waiting[-1] if self.waiting else None
        if call is None or call.function is None:
            hint = "write a list of values after in, as in lane in (1, 2)"
            raise self.error("',' is outside a list or a function", token, hint)
        if len(self.operands) - call.depth >= call.function.arity:
            count = call.function.arity + 1
            message = _count_message(call.function, count)
            raise self.error(message, token, _call_hint(call.function))
        self.index += 1

    def close(self, token: Token) -> None:
        self.apply_all()
        if not self.waiting:
            raise self.error("this parenthesis closes nothing", token)
        opening = self.waiting.pop()
        self.index += 1
        if opening.function is None:
            self.starts[-1], self.bare[-1] = opening.token.start, ops.OPERAND
            return
        function, depth = opening.function, opening.depth
        arguments = tuple(self.operands[depth:])
        if len(arguments) != function.arity:
            message = _count_message(function, len(arguments))
            raise self.error(message, token, _call_hint(function))
        self.drop(depth)
        self.push(Expression(function, arguments, None, Span(opening.token.start, token.end)))

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
        start = waiting.token.start if operator.arity == 1 else self.starts[split]
        operands = tuple(self.operands[split:])
        self.drop(split)
        span = Span(start, self.ahead(-1).end)
        self.push(Expression(operator, operands, None, span), operator.binding)

    def wait(self, token: Token, operator: Operator | None, function: Operator | None) -> None:
        self.waiting.append(_Waiting(token, operator, function, len(self.operands)))
        self.index += 1

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
        is_open = any(waiting.operator is None for waiting in self.waiting)
        what = "an operator or ')'" if is_open else "an operator or the end"
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


def _count_message(function: Operator, count: int) -> str:
    arguments = "one argument" if function.arity == 1 else f"{function.arity} arguments"
    return f"{function.name} takes {arguments}, not {count}{' or more' if count > 1 else ''}"


def _call_hint(function: Operator) -> str:
    arguments = "column" if function.arity == 1 else 'column, "text"'
    return f"as in {function.name}({arguments})"
