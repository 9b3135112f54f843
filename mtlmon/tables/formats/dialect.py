"""How the cells of delimited text are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Dialect"]

_FORBIDDEN = '"\r\n'


class Dialect(NamedTuple):
    """How the cells of delimited text are written.

    Attributes:
        null_values: the texts that mean null in cells without quotes.
        delimiter: the character between the cells of CSV; TSV has tabs.
    """

    null_values: Sequence[str] = ("",)
    delimiter: str = ","

    def check(self) -> None:
        """Check the delimiter.

        Raises:
            MtlmonError: it cannot stand between cells.
        """
        character = self.delimiter
        if len(character) != 1 or not character.isascii() or character in _FORBIDDEN:
            raise MtlmonError(
                f"the delimiter of CSV is one character of ASCII that is neither a quote nor the "
                f"end of a line, not {character!r}"
            )

    def delimiter_of(self, format: str) -> str:
        """Return the character between the cells of a format."""
        return "\t" if format == "tsv" else self.delimiter
