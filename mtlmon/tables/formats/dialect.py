"""How the cells of delimited text are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError
from mtlmon.tables.native import RowSyntax

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LONGEST_ROW", "QUOTE", "Dialect"]

QUOTE = '"'
LONGEST_ROW = 1 << 26
"""How many bytes a row may have."""

NO_QUOTE = "none"
ON_LINES = "lines"
"""What `Dialect.quote` is besides characters."""

_FORBIDDEN = '"\r\n'


class Dialect(NamedTuple):
    """How the cells of delimited text are written.

    Attributes:
        null_values: the texts that mean null in cells without quotes.
        delimiter: the character between the cells of CSV; TSV has tabs.
        quote: the character around quoted cells; or "none"; or "lines", for quotes of which those
            that do not end their cell on the line are characters, as in TSV.
    """

    null_values: Sequence[str] = ("",)
    delimiter: str = ","
    quote: str = QUOTE

    def check(self) -> None:
        """Check the delimiter and the quote.

        Raises:
            MtlmonError: they cannot stand between and around cells.
        """
        character = self.delimiter
        if len(character) != 1 or not character.isascii() or character in _FORBIDDEN:
            raise MtlmonError(
                f"the delimiter of CSV is one character of ASCII that is neither a quote nor the "
                f"end of a line, not {character!r}"
            )

        quote = self.quote
        if quote not in (NO_QUOTE, ON_LINES) and (
            len(quote) != 1 or not quote.isascii() or quote in ("\r", "\n", character)
        ):
            raise MtlmonError(
                "the quote is one character of ASCII that is neither the delimiter nor the end of "
                f"a line, or {NO_QUOTE!r}, or {ON_LINES!r}, not {quote!r}"
            )

    def syntax_of(self, format: str) -> RowSyntax:
        """Return how the rows of a format are written."""
        return RowSyntax(
            "\t" if format == "tsv" else self.delimiter,
            {NO_QUOTE: "", ON_LINES: QUOTE}.get(self.quote, self.quote),
            spans_lines=format != "tsv" and self.quote != ON_LINES,
            longest=LONGEST_ROW,
        )
