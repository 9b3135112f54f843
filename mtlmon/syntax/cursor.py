"""A position in the tokens of a formula, and errors that point there."""

from __future__ import annotations

from mtlmon.syntax.lexer import END, INVALID, OPERATOR, Token, tokenize
from mtlmon.syntax.native import TokenCursor
from mtlmon.syntax.report import formula_error, shorten, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.errors import FormulaError
    from mtlmon.syntax.lexer import Conditions

_FOUND_WIDTH = 40


class Cursor(TokenCursor):
    """The tokens of text[start:end] and the index of the present one.

    Attributes:
        text: the whole text.
        source: the name of the text in errors.
        constants: the values of the names that can be bounds.
        tokens: all tokens; the last one is of the kind `END` or `INVALID`.
        index: the index of the present token.
    """

    __slots__ = ()

    def __init__(
        self,
        text: str,
        source: str,
        start: int = 0,
        end: int | None = None,
        conditions: Conditions | None = None,
        *,
        constants: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(text, source, tokenize(text, start, end, conditions), constants or {})

    def words(self, start: int, end: int) -> str:
        """Return the text of the tokens from index `start` up to `end`, without comments."""
        pieces: list[str] = []
        for index in range(start, end):
            token = self.tokens[index]
            if index > start and self.tokens[index - 1].end < token.start:
                pieces.append(" ")
            pieces.append(visible(self.text_of(token)))
        return "".join(pieces)

    def expected(self, what: str, hint: str | None = None) -> FormulaError:
        """Make the error that something other than the present token was expected."""
        token = self.token
        if token.kind == END:
            found = "the end"
        else:
            shown = shorten(visible(self.text_of(token)), _FOUND_WIDTH)
            found = f"the operator '{shown}'" if token.kind == OPERATOR else f"'{shown}'"
        return self.error(f"expected {what}, found {found}", token, hint)

    def error(self, message: str, token: Token, hint: str | None = None) -> FormulaError:
        """Make the error at a token; the message of an invalid token takes precedence."""
        if token.kind == INVALID:
            message, hint = token.value, token.hint or hint
        return formula_error(self.text, token.start, message, source=self.source, hint=hint)
