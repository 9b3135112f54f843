"""Write tables of verdicts and of streams as CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.kinds import is_text
from mtlmon.tables.json_rows import GUESSED, JsonRowsOutput
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BatchOutput",
    "ByteWriter",
    "CsvOutput",
    "ParquetOutput",
    "RowOutput",
    "RowTable",
    "row_output",
]

_Rows = TypeVar("_Rows")
_Rows_contra = TypeVar("_Rows_contra", contravariant=True)

# The rows of a Parquet group, which are in memory until the group is full.
_GROUP_ROWS = 1 << 18


class RowTable(Protocol[_Rows_contra]):
    """Creates record batches of what is to be written."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the first batches."""

    def batches(self, rows: _Rows_contra, /) -> Iterator[pa.RecordBatch]:
        """Return the rows as record batches; their columns may change their types."""


class CsvOutput(Generic[_Rows]):
    """Writes comma-separated values with a header; both null and the empty text are empty cells.

    Args:
        table: makes the rows.
        is_safe: whether texts that a spreadsheet would take for formulas begin with an apostrophe:
            those that begin with `=`, `+`, `-`, `@`, a tab or a carriage return.

    Attributes:
        has_header: whether the header is written; set it to continue a file that has one.
    """

    lines = None

    def __init__(self, table: RowTable[_Rows], *, is_safe: bool = False) -> None:
        self.has_header = False
        self._is_safe = is_safe
        self.writer = ByteWriter()
        self.table = table
        self._csv: arrow_csv.CSVWriter | None = None
        self._schema: pa.Schema | None = None

    def put(self, rows: _Rows) -> None:
        """Write the rows."""
        for batch in self.table.batches(rows):
            written = _without_formulas(batch) if self._is_safe else batch
            self._opened(written.schema).write_batch(written)

    def close(self) -> None:
        """Rows need no end, but the header is written even without rows."""
        self._opened(self.table.schema if self._schema is None else self._schema).close()

    def _opened(self, schema: pa.Schema) -> arrow_csv.CSVWriter:
        """The writer of rows with these types."""
        if self._csv is None or schema != self._schema:
            if self._csv is not None:
                self._csv.close()
            self._schema = schema
            if not self.has_header:
                header = io.StringIO()
                names = schema.names
                if self._is_safe:
                    names = [_FORMULA.sub(r"'\1", name) for name in names]
                csv.writer(header, lineterminator="\n").writerow(names)
                self.writer.write(header.getvalue().encode())
                self.has_header = True
            options = arrow_csv.WriteOptions(include_header=False, quoting_style="needed")
            self._csv = arrow_csv.CSVWriter(self.writer, schema, write_options=options)
        return self._csv


# What a cell begins with that spreadsheets compute.
_FORMULA = re.compile(r"\A([=+\-@\t\r])")


def _without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put an apostrophe before the texts that spreadsheets would compute."""
    columns = [_without_formula(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _without_formula(column: pa.Array) -> pa.Array:
    whole = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if not is_text(whole.type):
        return whole
    return pc.replace_substring_regex(whole, _FORMULA.pattern, r"'\1")


class ParquetOutput(Generic[_Rows]):
    """Writes Parquet, in groups of some hundred thousand rows."""

    lines = None

    def __init__(self, table: RowTable[_Rows]) -> None:
        self.writer = ByteWriter()
        self.table = table
        self._parquet: parquet.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def put(self, rows: _Rows) -> None:
        """Take the rows; they are written once there are enough of them."""
        for batch in self.table.batches(rows):
            self._waiting.append(_with_floats(batch))
            self._rows += batch.num_rows
            if self._rows >= _GROUP_ROWS:
                self._write()

    def close(self) -> None:
        """Write the waiting rows and the end of the file."""
        if self._waiting:
            self._write()
        self._opened(self.table.schema).close()

    def _write(self) -> None:
        tables = [pa.Table.from_batches([batch]) for batch in self._waiting]
        self._waiting = []
        self._rows = 0
        try:
            group = pa.concat_tables(tables, promote_options="permissive")
            writer = self._opened(group.schema)
            writer.write_table(group.cast(writer.schema))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            reason = " ".join(str(error).split())
            raise MtlmonError(
                "a column changes its type, but Parquet needs one type for each: declare the types "
                f"of streams, or write jsonl or csv ({reason})"
            ) from None

    def _opened(self, schema: pa.Schema) -> parquet.ParquetWriter:
        """The writer of groups, which is created with the types of the first one."""
        if self._parquet is None:
            self._parquet = parquet.ParquetWriter(self.writer, schema)
        return self._parquet


def _with_floats(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make the columns that have integers or floats by their rows floats.

    Raises:
        MtlmonError: no float is one of the integers.
    """
    columns = list(batch.columns)
    fields = list(batch.schema)
    for place, (field, column) in enumerate(zip(fields, columns, strict=True)):
        if field.metadata != GUESSED:
            continue
        fields[place] = pa.field(field.name, pa.float64())
        try:
            columns[place] = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            reason = " ".join(str(error).split())
            raise MtlmonError(
                f"the numbers of {field.name} may have fractions, and no float is one of them: "
                f"declare the stream, as in stream {field.name}: int = ..., or write jsonl or csv "
                f"({reason})"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


class BatchOutput(Generic[_Rows]):
    """Keeps the rows of a table as record batches until they are taken.

    Args:
        table: makes the rows.
        is_wanted: whether there are any batches; else rows are dropped.

    Attributes:
        schema: the columns; known once the run has ended, or the first rows have come.
    """

    lines = None

    def __init__(self, table: RowTable[_Rows], *, is_wanted: bool = True) -> None:
        self.table = table
        self._is_wanted = is_wanted
        # nothing is written
        self.writer = ByteWriter()
        self.schema: pa.Schema | None = None
        self._batches: list[pa.RecordBatch] = []

    def put(self, rows: _Rows) -> None:
        """Take the rows."""
        if not self._is_wanted:
            cast("Any", rows).take()
            return
        for batch in self.table.batches(rows):
            self.schema = self.schema or batch.schema
            self._batches.append(batch)

    def close(self) -> None:
        """Note the columns of a table without rows."""
        if self.schema is None:
            self.schema = self.table.schema

    def take(self) -> list[pa.RecordBatch]:
        """Return the batches, and forget them."""
        batches, self._batches = self._batches, []
        return batches


RowOutput = CsvOutput[_Rows] | JsonRowsOutput[_Rows] | ParquetOutput[_Rows] | BatchOutput[_Rows]
"""Something that writes a table."""


def row_output(
    table: RowTable[_Rows], output_format: str, *, csv_safe: bool = False
) -> RowOutput[_Rows]:
    """Return what writes a table as `jsonl`, `csv` or `parquet`; `csv_safe` as for `CsvOutput`."""
    if output_format == "jsonl":
        return JsonRowsOutput(table)
    if output_format == "parquet":
        return ParquetOutput(table)
    return CsvOutput(table, is_safe=csv_safe)
