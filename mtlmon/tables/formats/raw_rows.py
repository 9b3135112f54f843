"""The text of rows, as files have it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.support.table_formats import LINES
from mtlmon.tables.formats.delimited import FORMATS_WITH_DELIMITERS
from mtlmon.tables.formats.files import ByteStream
from mtlmon.tables.formats.rows import LINES_OF_TEXT, text_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.tables.formats.dialect import Dialect
    from mtlmon.tables.formats.files import TableFile

__all__ = ["RAW_FORMATS", "raw_rows"]

RAW_FORMATS = (*FORMATS_WITH_DELIMITERS, "jsonl", LINES)
"""The formats of files whose rows are text."""


def raw_rows(file: TableFile, dialect: Dialect) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a file in one of `RAW_FORMATS`: the line that each begins on, and its text.

    A header is a row, too, and of lines with a pattern, all lines are rows.
    """
    with ByteStream(file) as stream:
        if file.format == LINES:
            yield from _lines(stream)
            return
        is_delimited = file.format in FORMATS_WITH_DELIMITERS
        syntax = dialect.syntax_of(file.format) if is_delimited else LINES_OF_TEXT
        for block in text_blocks(stream, syntax):
            text = block.text.tobytes()
            for row, (first, end) in enumerate(pairwise(block.starts)):
                yield block.line_of(row), text[first:end]


def _lines(stream: ByteStream) -> Iterator[tuple[int, bytes]]:
    """Yield all lines of a stream with their numbers."""
    room = np.empty(1 << 18, np.uint8)
    rest = b""
    number = 1
    while count := stream.read_into(room):
        *lines, rest = (rest + room[:count].tobytes()).split(b"\n")
        for line in lines:
            yield number, line
            number += 1
    if rest:
        yield number, rest
