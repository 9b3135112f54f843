"""Delimited text, read slowly by what its cells are.

A quoted cell begins with a quote, has two for each one inside, and ends before a delimiter or the
end of a line. Where it must end on its line, a quote that begins a cell which does not is a
character. Where it may span lines, a row that does so must have as many cells as the header;
otherwise the first line alone is a row that cannot be read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Read", "read_delimited"]


class Read(NamedTuple):
    """What a text consists of.

    Attributes:
        rows: the cells of each row, without the header; None for a row that cannot be read.
        lines: the number of the line in which each row begins, from 1.
        spanning: how many rows span lines.
        strays: how many cells begin with a quote that is a character.
    """

    rows: list[list[str] | None]
    lines: list[int]
    spanning: int
    strays: int


def read_delimited(text: str, delimiter: str, quote: str, spans_lines: bool) -> Read:
    """Read a text whose first line is the header, and whose lines end with line feeds.

    Args:
        text: the text.
        delimiter: the character between cells.
        quote: the character around quoted cells; an empty text for none.
        spans_lines: whether quoted cells may span lines.
    """
    header, _, text = text.partition("\n")
    columns = header.count(delimiter) + 1
    found = Read([], [], 0, 0)
    spanning = strays = 0
    line = 2
    place = 0
    while place < len(text):
        first = text.find("\n", place) + 1 or len(text)
        row = _row(text, place, first, delimiter, quote, spans_lines)
        if row is not None and row.end > first and len(row.cells) != columns:
            row = None
        end = first if row is None else row.end
        if text[place:end] != "\n":
            is_right = row is not None and len(row.cells) == columns
            found.rows.append(row.cells if row is not None and is_right else None)
            found.lines.append(line)
            spanning += row is not None and end > first
            strays += 0 if row is None else row.strays
        line += text.count("\n", place, end)
        place = end
    return found._replace(spanning=spanning, strays=strays)


class _Row(NamedTuple):
    cells: list[str]
    end: int
    strays: int


def _row(
    text: str, place: int, first: int, delimiter: str, quote: str, spans_lines: bool
) -> _Row | None:
    """The row at a place, if its quotes are in order; `first` is where its first line ends."""
    comma, mark = re.escape(delimiter), re.escape(quote)
    inside = f"[^{mark}]" if spans_lines else f"[^{mark}\n]"
    quoted = re.compile(rf"{mark}((?:{inside}|{mark}{mark})*){mark}(?={comma}|\n|\Z)")
    plain = re.compile(rf"[^{comma}\n]*")
    cells: list[str] = []
    strays = 0
    while True:
        found = quoted.match(text, place) if quote else None
        if found is not None:
            cells.append(found[1].replace(quote * 2, quote))
        else:
            if quote and text.startswith(quote, place):
                if spans_lines:
                    return None
                strays += 1
            found = plain.match(text, place)
            assert found is not None
            cells.append(found[0])
        place = found.end()
        if not text.startswith(delimiter, place):
            # behind the line feed, if there is one
            return _Row(cells, min(place + 1, len(text)), strays)
        place += 1
