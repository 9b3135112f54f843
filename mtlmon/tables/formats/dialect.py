"""How the cells of delimited text are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError
from mtlmon.support.table_formats import LINES
from mtlmon.tables.native import RowSyntax

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["LONGEST_ROW", "QUOTE", "Dialect"]

QUOTE = '"'
LONGEST_ROW = 1 << 26
"""How many bytes a row may have."""

DECIMALS = (".", ",")
"""What can stand before the fraction of a number."""

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
        decimal: what stands before the fraction of a number, in patterns as well.
    """

    null_values: Sequence[str] = ("",)
    delimiter: str = ","
    quote: str = QUOTE
    decimal: str = "."

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

        if self.decimal not in DECIMALS:
            raise MtlmonError(f"the decimal separator is '.' or ',', not {self.decimal!r}")

    def check_decimal(self, formats: Collection[str | None], option: str | None) -> None:
        """Check that the decimal comma is for numbers in the formats of the logs.

        Raises:
            MtlmonError: it is not; or cells of CSV end at commas as well.
        """
        if self.decimal == ".":
            return
        if not {"csv", "tsv", LINES} & {*formats}:
            raise MtlmonError(f"{option} is for CSV, TSV and patterns, and no log is one of them")
        if "csv" in formats and self.delimiter == self.decimal:
            raise MtlmonError(
                f"{option}: cells of CSV end at commas, too; say which character stands between "
                "them, for instance ';'"
            )

    def syntax_of(self, format: str) -> RowSyntax:
        """Return how the rows of a format are written."""
        return RowSyntax(
            "\t" if format == "tsv" else self.delimiter,
            {NO_QUOTE: "", ON_LINES: QUOTE}.get(self.quote, self.quote),
            spans_lines=format != "tsv" and self.quote != ON_LINES,
            longest=LONGEST_ROW,
        )
