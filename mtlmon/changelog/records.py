"""Collapses revisions of records, as `mtlmon query --lateness` writes them, into the records."""

from __future__ import annotations

import heapq
import json
import re
from typing import TYPE_CHECKING, Any

from mtlmon.changelog.lines import HOW_TO_SAY
from mtlmon.errors import LogError
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    from mtlmon.engine.native import MemoryLimit

    Cell = str | int | float | None
    # the start, the end and the other cells
    Record = tuple[int, int, tuple[Cell, ...]]

__all__ = ["LatestRecords"]

_TIMES = ("start", "end")
_CHANGES = ("op", "revision", "final", "old_end")
_ARRIVAL = "arrival"
# what a record takes in a dictionary, about, besides its texts
_RECORD_BYTES = 300
_NO_END = 2**63 - 1
# so many outdated places in the order of ends are kept at least
_FEW = 1000
# Cells of CSV stay as they are written, as quotes tell an empty text from null. A quote within a
# text is doubled, so it stands between two parts in quotes.
_ROW = re.compile(rb'(?:[^"\n]++|"[^"]*+")*+\n')
_CELL = re.compile(r'(?:^|,)((?:[^",]++|"[^"]*+")*+)')


class LatestRecords:
    """Reads lines of revisions, and writes the records in the order of their ends.

    A record is written once it is final; those that can still change are written at the end.

    Args:
        path: the name of the changelog in errors.
        format: JSON lines or CSV.
        only_final: whether records that can still change are left out.
        as_of: how far the log had come when the last revision was told that counts; None if all do.
        memory: the memory limit, which counts the records that are not final.

    Attributes:
        event_count: how many revisions have been read.
        left_out: how many records were left out.
    """

    is_stopped = False

    def __init__(
        self,
        *,
        path: str,
        format: Literal["jsonl", "csv"],
        only_final: bool = False,
        as_of: int | None = None,
        memory: MemoryLimit | None = None,
    ) -> None:
        self.writer = ByteWriter()
        self.event_count = 0
        self.left_out = 0
        self._path = path
        self._format = format
        self._only_final = only_final
        self._as_of = as_of
        self._memory = memory
        self._text = bytearray()
        self._line = 0
        # of CSV: the names of columns, and how they are written
        self._header: dict[str, str] | None = None
        self._has_header = False
        # how often there are records
        self._records: dict[Record, int] = {}
        # those that have an end: by that, and what is behind the numbers of their other cells
        self._by_end: list[tuple[int, int, int]] = []
        self._cells: dict[int, tuple[Cell, ...]] = {}
        self._number = 0
        self._bytes = 0
        # the batch that comes, and below which time all is final once it has come
        self._revision: Cell = None
        self._final: int | None = None
        # which columns these are
        self._names: tuple[str, ...] = ()
        self._says_arrival = False

    # ---- lines -----------------------------------------------------------------------------

    def load(self, block: memoryview) -> None:
        """Take part of the changelog, which may end anywhere."""
        self._text += block

    def load_end(self) -> None:
        """Take the end of the changelog: its last line may lack a line feed."""
        if self._text and not self._text.endswith(b"\n"):
            self._text += b"\n"

    def unload(self) -> None:
        """Do nothing: blocks are copied."""

    def run(self) -> bool:
        """Take in the lines that are complete; there are no more then."""
        data = bytes(self._text)
        end = self._take_rows(data) if self._format == "csv" else self._take_lines(data)
        self._text = bytearray(data[end:])
        if self._memory is not None:
            self._memory.note("relations", self._bytes + len(self._text))
            self._memory.check()
        return False

    def _take_rows(self, data: bytes) -> int:
        """Take rows of CSV, in which texts can have line feeds; return where the others begin."""
        end = 0
        while found := _ROW.match(data, end):
            end = found.end()
            self._line += 1
            self._take_csv(_text(found[0]).removesuffix("\n").removesuffix("\r"))
            self._line += found[0].count(b"\n") - 1
        return end

    def _take_lines(self, data: bytes) -> int:
        """Take lines of JSON; return where the others begin."""
        whole, _, rest = data.rpartition(b"\n")
        for line in whole.split(b"\n") if len(rest) < len(data) else ():
            self._line += 1
            if line:
                self._take_json(_text(line))
        return len(data) - len(rest)

    def _take_csv(self, line: str) -> None:
        cells = _CELL.findall(line)
        if self._header is None:
            self._header = {_unquoted(cell): cell for cell in cells}
            self._names = self._names_among(list(self._header))
        elif len(cells) != len(self._header):
            raise self._error(f"{len(cells)} cells, but the header has {len(self._header)}")
        else:
            row = dict(zip(self._header, cells, strict=True))
            row |= {name: _unquoted(row[name]) for name in (*_TIMES, *_CHANGES) if name in row}
            self._revise(row)

    def _take_json(self, line: str) -> None:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self._error("this is no JSON object")
        if any(isinstance(value, list | dict) for value in row.values()):
            raise self._error("a cell of a record is no list and no object")
        self._revise(row)

    def _error(self, message: str) -> LogError:
        return LogError(message, path=self._path, line=self._line, column=1)

    # ---- records ---------------------------------------------------------------------------

    def _names_among(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The names of the record's own columns."""
        missing = [name for name in (*_TIMES, *_CHANGES) if name not in columns]
        if missing:
            raise self._error(
                f"a revision of a record has a column {missing[0]}: mtlmon query --lateness writes "
                "such revisions"
            )
        # a relation may have a column of that name, which is before those of the revision
        self._says_arrival = _ARRIVAL in columns[columns.index("op") :]
        added = (*_TIMES, *_CHANGES, *((_ARRIVAL,) if self._says_arrival else ()))
        return tuple(name for name in columns if name not in added)

    def _revise(self, row: Mapping[str, Cell]) -> None:
        names = self._names_among(list(row))
        if self._as_of is not None:
            if not self._says_arrival:
                raise self._error(f"this revision does not say when it was told: {HOW_TO_SAY}")
            arrival = self._time(row, _ARRIVAL)
            if arrival is None or arrival > self._as_of:
                return
        if row["revision"] != self._revision:
            # all of the last batch has come
            self._write_final()
            self._revision = row["revision"]
        start, end, old_end, final = (
            self._time(row, name) for name in ("start", "end", "old_end", "final")
        )
        assert start is not None
        self._final = final
        if self.event_count and names != self._names:
            raise self._error("this revision has other columns than those before")
        self._names = names
        cells = tuple(row[name] for name in self._names)
        operation = row["op"]
        if operation not in ("insert", "update", "delete"):
            raise self._error(f"op is insert, update or delete, not {operation}")
        if operation == "update":
            self._add((start, _time_of_end(old_end), cells), -1)
        self._add((start, _time_of_end(end), cells), -1 if operation == "delete" else 1)
        self.event_count += 1

    def _write_final(self) -> None:
        """Write the records that can change no longer."""
        if (bound := self._final) is not None:
            some: dict[Record, None] = {}
            while self._by_end and self._by_end[0][0] < bound:
                end, start, number = heapq.heappop(self._by_end)
                record = (start, end, self._cells.pop(number))
                if record in self._records:
                    some[record] = None
            self._write(some)

    def _time(self, row: Mapping[str, Cell], name: str) -> int | None:
        cell = row[name]
        if cell in ("", None) and name != "start":
            return None
        try:
            if not isinstance(cell, int | str) or isinstance(cell, bool):
                raise ValueError
            return int(cell)
        except ValueError:
            raise self._error(f"{name} is a time-stamp, not {cell}") from None

    def _add(self, record: Record, change: int) -> None:
        count = self._records.get(record, 0) + change
        if count < 0:
            raise self._error("there is no such record that could change")
        if record not in self._records and record[1] != _NO_END:
            self._place(record)
        if count:
            self._records[record] = count
        else:
            del self._records[record]
        self._bytes += change * _bytes_of(record)

    def _place(self, record: Record) -> None:
        """Give a record its place in the order of ends."""
        if len(self._by_end) > 2 * len(self._records) + _FEW:
            # most of them are of records that are there no longer
            self._by_end.clear()
            self._cells.clear()
            for one in self._records:
                if one[1] != _NO_END:
                    self._place(one)
        self._number += 1
        self._cells[self._number] = record[2]
        heapq.heappush(self._by_end, (record[1], record[0], self._number))

    def _write(self, some: Iterable[Record]) -> None:
        if self._format == "csv" and not self._has_header:
            self._has_header = True
            written = self._header or {}
            self.writer.write(_csv_line([written.get(one, one) for one in (*_TIMES, *self._names)]))
        for record in sorted(some, key=_in_order):
            count = self._records.pop(record)
            self._bytes -= count * _bytes_of(record)
            self.writer.write(count * self._line_of(*record))

    def _line_of(self, start: int, end: int, cells: tuple[Cell, ...]) -> bytes:
        known = None if end == _NO_END else end
        if self._format == "csv":
            return _csv_line([start, known, *cells])
        members = dict(zip((*_TIMES, *self._names), (start, known, *cells), strict=True))
        line = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
        return f"{line}\n".encode("utf-8", "surrogateescape")

    def end(self, end_time: object = None) -> None:
        """Write the records that are left, unless only final ones are wanted."""
        if self._text:
            self._line += 1
            raise self._error("a quote is not closed by the end of the changelog")
        self._write_final()
        if self._only_final:
            self.left_out = sum(self._records.values())
        else:
            self._write(list(self._records))


def _bytes_of(record: Record) -> int:
    return _RECORD_BYTES + sum(len(cell) for cell in record[2] if isinstance(cell, str))


def _in_order(record: Record) -> tuple[Any, ...]:
    start, end, cells = record
    # a column has values of one type, or the changelog is not of one query
    return end, start, [(cell is None, isinstance(cell, str), cell) for cell in cells]


def _csv_line(cells: Sequence[Cell]) -> bytes:
    """A line with cells as they are to be written."""
    line = ",".join("" if cell is None else str(cell) for cell in cells)
    return f"{line}\n".encode("utf-8", "surrogateescape")


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if cell[:1] == '"' else cell


def _time_of_end(end: int | None) -> int:
    return _NO_END if end is None else end
