"""Operator precedence: which operands belong to which operator, in linear time.

What binds how tightly is in the table in `operators`; what may stand where is up to the grammar in
`parser`. Nothing here recurses, so that expressions may be as deep as one likes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.hints import where_operator_is_missing
from mtlmon.policy.predicates.lexer import COLUMN, FUNCTION, Token, scan
from mtlmon.syntax.formula import Span
from mtlmon.syntax.lexer import END, INVALID
from mtlmon.syntax.report import formula_error, shorten, visible

if TYPE_CHECKING:
    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.expression import Value
    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.syntax.interval import Interval

_FOUND_WIDTH = 40
_IN_BRACKETS = frozenset({ops.INSTANCE, ops.EXISTS})


class Waiting:
    """An operator whose last operand is not complete, or something open (operator None).

    Attributes:
        token: the operator, the parenthesis, the name before it, or `if`.
        operator: the operator, or None.
        opened: the function, aggregate, INSTANCE, EXISTS or IF that is open, or None for a
            parenthesis.
        depth: the number of operands before it.
        interval: for an aggregate, the interval of its window.
        over: for an aggregate over instances behind `by`, the name of the stream.
    """

    __slots__ = ("depth", "interval", "opened", "operator", "over", "token")

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
        self.over: str | None = None


class PrecedenceParser:
    """Reads tokens and keeps what waits for operands: operators, and what is open.

    A grammar reads an operand and pushes it, reads an operator, applies the waiting operators that
    end before it (`apply_before`), and lets it wait; or it opens something and closes it later.

    Args:
        text: a text of which a part is an expression.
        source: the name of the text in errors.
        start: where the part begins.
        end: where the part ends, or None for the end of the text.
        in_formula: whether what follows the expression may be a formula.
    """

    __slots__ = (
        *("bare", "end", "in_formula", "index", "open_count", "operands", "source", "starts"),
        *("text", "tokens", "unread", "waiting"),
    )

    def __init__(
        self, text: str, source: str, start: int, end: int | None, *, in_formula: bool
    ) -> None:
        self.text = text
        self.source = source
        self.end = len(text) if end is None else end
        self.in_formula = in_formula
        self.tokens: list[Token] = []
        self.index = 0
        self.read_tokens_from(start)
        self.waiting: list[Waiting] = []
        # How many of `waiting` are open: parentheses, brackets, and `if` before its `else`.
        self.open_count = 0
        self.operands: list[Expression] = []
        # Where each operand starts, including its parentheses, and how tightly it binds.
        self.starts: list[int] = []
        self.bare: list[int] = []

    @property
    def token(self) -> Token:
        tokens, index = self.tokens, self.index
        return tokens[index] if 0 <= index < len(tokens) else self.ahead(0)

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
        self.unread = scan(self.text, position, self.end, in_formula=self.in_formula)

    def word(self, token: Token) -> str:
        """The word of a name without backquotes, in lower case like a keyword, or nothing."""
        if token.kind not in {COLUMN, FUNCTION} or self.text[token.start] == "`":
            return ""
        word = str(token.value)
        return word.lower() if word in (word.lower(), word.upper()) else ""

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
        self.waiting.append(Waiting(token, len(self.operands), operator))
        self.index += 1

    def open(
        self, token: Token, opened: Operator | None = None, interval: Interval | None = None
    ) -> None:
        self.waiting.append(Waiting(token, len(self.operands), None, opened, interval))
        self.open_count += 1

    def push(self, expression: Expression, bare: int = ops.OPERAND) -> None:
        assert expression.span is not None
        self.operands.append(expression)
        self.starts.append(expression.span.start)
        self.bare.append(bare)

    def drop(self, depth: int) -> None:
        del self.operands[depth:], self.starts[depth:], self.bare[depth:]

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
            what = f"an operator or '{']' if opening.opened in _IN_BRACKETS else ')'}'"
        if self.token.kind == END and opening is not None and opening.opened is not ops.IF:
            is_bracket = opening.opened in _IN_BRACKETS
            what = "bracket" if is_bracket else "parenthesis"
            return self.error(f"this {what} is never closed", opening.token)
        span = self.operands[-1].span
        word = re.compile(r"\w*").match(self.text, span.start if span else len(self.text))
        name = word.group() if word else ""
        return self.expected(what, where_operator_is_missing(self.ahead(-1), self.token, name))

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
