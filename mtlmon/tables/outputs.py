"""Write verdicts as CSV and Parquet."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer

    from mtlmon.checking.outputs import Output
    from mtlmon.drive.native import VerdictRows
    from mtlmon.tables.verdicts import VerdictTable

__all__ = ["OUTPUTS", "ByteWriter", "CsvOutput", "ParquetOutput"]

# The rows of a Parquet group, which are in memory until the group is full.
_GROUP_ROWS = 1 << 18


class ByteWriter(io.RawIOBase):
    """A buffer of bytes that are to be written to a file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        # how many bytes of the first part are written
        self._written = 0

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Append bytes."""
        part = bytes(data)
        if part:
            self._parts.append(part)
            self._size += len(part)
        return len(part)

    def take(self) -> bytes:
        """Remove the bytes and return them."""
        first, *others = self._parts or [b""]
        taken = b"".join([first[self._written :], *others])
        self._parts = []
        self._size = self._written = 0
        return taken

    def flush(self, file_descriptor: int | None = None) -> None:
        """Write the bytes to a file; without a file, do nothing.

        Raises:
            OSError: the file accepts no more bytes. The bytes that it accepted are not written
                again.
        """
        if file_descriptor is None:
            return
        while self._parts:
            count = os.write(file_descriptor, memoryview(self._parts[0])[self._written :])
            self._size -= count
            self._written += count
            if self._written == len(self._parts[0]):
                del self._parts[0]
                self._written = 0


class CsvOutput:
    """Writes comma-separated values with a header; both null and the empty text are empty cells.

    Attributes:
        has_header: whether the header is written; set it to continue a file that has one.
    """

    lines = None

    def __init__(self, table: VerdictTable) -> None:
        self.has_header = False
        self.writer = ByteWriter()
        self._table = table
        self._csv: arrow_csv.CSVWriter | None = None

    def put(self, rows: VerdictRows) -> None:
        """Write the verdicts."""
        for batch in self._table.batches(rows):
            self._opened().write_batch(batch)

    def close(self) -> None:
        """Rows need no end, but the header is written even without rows."""
        self._opened().close()

    def _opened(self) -> arrow_csv.CSVWriter:
        """The writer of rows, which is created once the table knows its columns."""
        if self._csv is None:
            if not self.has_header:
                header = io.StringIO()
                csv.writer(header, lineterminator="\n").writerow(self._table.schema.names)
                self.writer.write(header.getvalue().encode())
                self.has_header = True
            options = arrow_csv.WriteOptions(include_header=False, quoting_style="needed")
            self._csv = arrow_csv.CSVWriter(self.writer, self._table.schema, write_options=options)
        return self._csv


class ParquetOutput:
    """Writes Parquet, in groups of some hundred thousand rows."""

    lines = None

    def __init__(self, table: VerdictTable) -> None:
        self.writer = ByteWriter()
        self._table = table
        self._parquet: parquet.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def put(self, rows: VerdictRows) -> None:
        """Take the verdicts; they are written once there are enough of them."""
        for batch in self._table.batches(rows):
            self._waiting.append(batch)
            self._rows += batch.num_rows
            if self._rows >= _GROUP_ROWS:
                self._write()

    def close(self) -> None:
        """Write the waiting verdicts and the end of the file."""
        if self._waiting:
            self._write()
        self._opened().close()

    def _write(self) -> None:
        self._opened().write_table(pa.Table.from_batches(self._waiting))
        self._waiting = []
        self._rows = 0

    def _opened(self) -> parquet.ParquetWriter:
        """The writer of groups, which is created once the table knows its columns."""
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(self.writer, self._table.schema)
        return self._parquet


OUTPUTS: dict[str, Callable[[VerdictTable], Output]] = {
    "csv": CsvOutput,
    "parquet": ParquetOutput,
}
"""Output formats that are tables, by name."""
