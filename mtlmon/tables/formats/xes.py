"""Read event logs of process mining (XES, IEEE 1849) as rows: each event of each trace is a row.

The attributes of an event are its columns, and those of its trace have the prefix `case:`, as in
data frames of pm4py. The rows are written as JSON lines and read again, so that types are found as
there, and errors of rows have one form.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from mtlmon.errors import TableError
from mtlmon.support.encodings import NOT_UTF_8
from mtlmon.tables.formats.rows import LINES_OF_TEXT, TextBlock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.blocks import BadRow, Block
    from mtlmon.tables.formats.files import ByteStream, TableFile
    from mtlmon.tables.formats.json_lines import JsonLinesReader

__all__ = ["CASE", "TIME", "XesReader", "XesRows"]

CASE = "case:"
"""What the columns of a trace's attributes begin with."""

# holds an attribute that an event has twice
_AGAIN = "\0again"

TIME = "time:timestamp"
"""The column of times, if none is given."""

_BLOCK_BYTES = 1 << 16
# The longest piece of markup.
_MOST_BYTES = 1 << 26
_MOST_DEPTH = 1000
_MOST_NAMES = 1000
_TEXTS = frozenset({"string", "date", "id"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# Attributes that hold others, which are not columns.
_NESTED = frozenset({"list", "container"})
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


class XesReader:
    """Reads the events of XES files as rows.

    Args:
        selection: the columns to read.
        lines: reads the rows as JSON lines.
    """

    def __init__(self, selection: Selection, lines: JsonLinesReader) -> None:
        self._selection = selection
        self._lines = lines

    def blocks(self, file: TableFile, stream: ByteStream) -> Iterator[Block | BadRow]:
        """Read the rows of a file.

        Raises:
            TableError: the file is not XML, or not XES, or declares entities.
        """
        rows = XesRows(file.name, self._selection.names)
        room = np.empty(_BLOCK_BYTES, np.uint8)
        row = 1
        while count := stream.read_into(room):
            try:
                rows.add(room[:count].tobytes())
            except TableError:
                yield from self._read(rows, file, row)
                raise
            for block in self._read(rows, file, row):
                yield block
                row = rows.count + 1
        rows.end()

    def _read(self, rows: XesRows, file: TableFile, row: int) -> Iterator[Block | BadRow]:
        if (block := rows.take()) is not None:
            yield from self._lines.read(block, file, row)


class XesRows:
    """Makes JSON lines of the events of an XES file, part by part.

    Args:
        name: the name of the file in messages.
        columns: the columns that are wanted; None means all.

    Attributes:
        count: the number of events so far.
    """

    def __init__(self, name: str, columns: Collection[str] | None) -> None:
        self.count = 0
        self._name = name
        self._columns = None if columns is None else frozenset(columns)
        self._written: list[str] = []
        self._numbers: list[int] = []
        # the elements around the present one
        self._path: list[str] = []
        self._trace: dict[str, object] = {}
        self._event: dict[str, object] = {}
        self._has_event = False
        self._given = 0
        self._line = 0
        self._present: dict[str, None] = {}
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        # Entities can make a short text huge, and name other files. XES has none.
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def add(self, part: bytes) -> None:
        """Parse the next part of the file.

        Raises:
            TableError: it is not XML, or not XES, or declares entities.
        """
        self._parse(part, is_last=False)

    def end(self) -> None:
        """End the file.

        Raises:
            TableError: the file is not complete.
        """
        self._parse(b"", is_last=True)

    def take(self) -> TextBlock | None:
        """Return the events that are complete as JSON lines; None if there are none."""
        if not self._written:
            return None
        text = "".join(self._written).encode()
        # in memory that Arrow allocated, as `TextBlock` wants it
        buffer = pa.allocate_buffer(len(text))
        np.frombuffer(buffer, np.uint8)[:] = np.frombuffer(text, np.uint8)
        numbers = np.array(self._numbers, np.int64)
        self._written, self._numbers = [], []
        return _EventLines(buffer, numbers)

    def _parse(self, part: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(part, is_last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            place = self._parser.ErrorByteIndex - self._given
            if part[place : place + 1] >= b"\x80":
                # Expat reads other encodings if the first line of the file names them.
                reason = f"{reason}: this text is {NOT_UTF_8}"
            raise TableError(
                f"not XML, or not complete: {reason} at column {error.offset + 1}",
                path=self._name,
                line=error.lineno,
            ) from None
        self._given += len(part)
        if self._given - self._parser.CurrentByteIndex > _MOST_BYTES:
            raise self._error(f"an attribute of more than {_MOST_BYTES >> 20} MiB")

    def _error(self, message: str) -> TableError:
        return TableError(message, path=self._name, line=self._parser.CurrentLineNumber)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._error(f"the entity {name!r} is declared, and XES has no entities")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        path = self._path
        # Names of elements can have a prefix, as in xes:event.
        tag = tag.rpartition(":")[2]
        if not path and tag != "log":
            raise self._error(f"the file begins with <{tag}>, but XES with <log>")
        path.append(tag)
        depth = len(path)
        if depth > _MOST_DEPTH:
            raise self._error(f"elements are nested more than {_MOST_DEPTH} deep")
        if tag == "trace" and depth == 2:
            self._trace, self._has_event = {}, False
        elif tag == "event" and path[:-1] in (["log"], ["log", "trace"]):
            self._event = dict(self._trace) if depth == 3 else {}
            self._has_event = True
            self._line = self._parser.CurrentLineNumber
        elif path[:-1] == ["log", "trace"]:
            if self._has_event:
                raise self._error("an attribute of a trace behind its first event")
            self._add(self._trace, CASE, tag, attributes)
        elif path[1:-1] in (["event"], ["trace", "event"]):
            self._add(self._event, "", tag, attributes)

    def _end(self, tag: str) -> None:
        path = self._path
        tag = path.pop()
        if tag == "event" and path in (["log"], ["log", "trace"]):
            again = self._event.pop(_AGAIN, None)
            text = json.dumps(self._event)
            if again is not None:
                # the reader of JSON lines refuses the row
                text = f"{text[:-1]}, {json.dumps(again)[1:]}"
            self._written.append(f"{text}\n")
            self._numbers.append(self._line)
            self.count += 1
        elif tag == "trace" and path == ["log"]:
            self._trace = {}

    def _add(
        self, found: dict[str, object], prefix: str, tag: str, attributes: dict[str, str]
    ) -> None:
        key, value = attributes.get("key"), attributes.get("value")
        if key is None or tag in _NESTED:
            return
        name = prefix + key
        if self._columns is None or name in self._columns:
            if name in found:
                found[_AGAIN] = {name: found[name]}
            else:
                found[name] = _value(tag, value)
        elif name not in self._present and len(self._present) < _MOST_NAMES:
            # for messages about columns that no event has
            self._present[name] = None
            found[name] = None


def _value(tag: str, text: str | None) -> object:
    """The value of an attribute in JSON; a text if it is not of the type that the tag says."""
    if text is None or tag in _TEXTS:
        return text
    if tag in ("int", "long") and _INTEGER.fullmatch(text.strip()):
        return int(text)
    if tag in ("float", "double"):
        try:
            number = float(text)
        except ValueError:
            return text
        return number if math.isfinite(number) else None
    if tag == "boolean":
        return _TRUTHS.get(text.strip().lower(), text)
    return text


class _EventLines(TextBlock):
    """JSON lines of events, each with the number of the line that its event begins in."""

    def __init__(self, buffer: pa.Buffer, numbers: NDArray[np.int64]) -> None:
        super().__init__(buffer, 1, LINES_OF_TEXT, None)
        self._numbers = numbers

    def line_of(self, row: int) -> int:
        return int(self._numbers[row])

    def head(self, size: int) -> TextBlock:
        end = int(np.searchsorted(np.array(self.starts), size, "right")) - 1
        return self.part(0, max(1, end))

    def part(self, first: int, last: int) -> TextBlock:
        starts = self.starts
        buffer = self.buffer.slice(starts[first], starts[last] - starts[first])
        return _EventLines(buffer, self._numbers[first:last])
