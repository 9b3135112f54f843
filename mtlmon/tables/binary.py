"""Tables in Parquet and in the formats of Arrow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

from mtlmon.errors import TableError
from mtlmon.tables.blocks import Block
from mtlmon.tables.files import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

    from mtlmon.tables.columns import Selection
    from mtlmon.tables.files import ByteStream, TableFile, TableObject

_ROWS = 1 << 16
_READ_BYTES = 1 << 20
_ARROW_MARK = b"ARROW1"
_MARK_BYTES = 8
_BUFFER_BYTES = 1 << 16


class BinaryReader:
    """Reads the files of one table whose columns have types.

    Predicates are about the types of the first file: columns of others are converted to them, as
    far as no value changes.

    Args:
        selection: the columns to read.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._types: dict[str, pa.DataType] = {}

    def blocks(self, file: TableFile, stream: ByteStream) -> Iterator[Block]:
        """The rows of a file.

        Raises:
            TableError: it is not of its format, or damaged; a column is missing, or of another type
                than in the files before.
        """
        batches = self._parquet if file.format == "parquet" else self._arrow
        try:
            yield from self._parts(batches(file, stream), file.name)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = " ".join(str(error).split())
            raise TableError(f"not {file.format}, or damaged: {reason}", path=file.name) from None

    def object_blocks(self, table: TableObject) -> Iterator[Block]:
        """The rows of a table of another library.

        Raises:
            TableError: it does not hand them on; a column is missing, or of another type than in
                the tables before.
        """
        try:
            with pa.RecordBatchReader.from_stream(table.table) as reader:
                self._selection.require(reader.schema.names, table.name)
                names = list(self._selection.names)
                yield from self._parts((batch.select(names) for batch in reader), table.name)
        except pa.ArrowException as error:
            raise TableError(f"not a table of Arrow: {error}", path=table.name) from None

    def _parts(self, batches: Iterator[pa.RecordBatch], name: str) -> Iterator[Block]:
        """The rows in blocks that are not too large."""
        row = 1
        for batch in batches:
            for first in range(0, batch.num_rows, _ROWS):
                part = self._cast(batch.slice(first, _ROWS), name)
                yield Block(part, name, row, None)
                row += part.num_rows

    def _parquet(self, file: TableFile, stream: ByteStream) -> Iterator[pa.RecordBatch]:
        if not stream.is_regular or stream.compression is not None:
            raise TableError(
                "Parquet is read from files that are not compressed as a whole", path=file.name
            )
        names = list(self._selection.names)
        source = stream.raw if file.path == STANDARD_INPUT else file.path
        # Parts of columns are read as they are decoded, not row groups as a whole.
        with parquet.ParquetFile(source, pre_buffer=False, buffer_size=_READ_BYTES) as reader:
            self._selection.require(reader.schema_arrow.names, file.name)
            for batch in reader.iter_batches(_ROWS, columns=names):
                yield batch.select(names)

    def _arrow(self, file: TableFile, stream: ByteStream) -> Iterator[pa.RecordBatch]:
        """Batches of a stream; a file is a mark, such a stream, and a list of places in it."""
        if stream.is_regular and stream.compression is None and file.path != STANDARD_INPUT:
            source = pa.memory_map(file.path)
            begin = source.read(_MARK_BYTES)
            source.seek(0)
        else:
            readable = io.BufferedReader(_Readable(stream), _BUFFER_BYTES)
            begin = readable.peek(_MARK_BYTES)[:_MARK_BYTES]
            source = pa.PythonFile(readable, mode="r")
        if not begin:
            return
        if begin.startswith(_ARROW_MARK):
            source.read(_MARK_BYTES)
        with ipc.open_stream(source) as reader:
            self._selection.require(reader.schema.names, file.name)
            names = list(self._selection.names)
            for batch in reader:
                chosen = batch.select(names)
                # what is read natively must be where it says
                chosen.validate(full=True)
                yield chosen

    def _cast(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """Columns as the rest wants them: those of predicates in the types that they had first."""
        columns = [_without_views(column) for column in batch.columns]
        names = batch.schema.names
        for place, column in enumerate(columns):
            if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
                # so that null is told by the rows alone
                columns[place] = column.dictionary_decode()
        for name in self._selection.predicates:
            place = names.index(name)
            column = columns[place]
            known = self._types.get(name, column.type)
            if pa.types.is_null(known):
                known = column.type
            self._types[name] = known
            if column.type != known:
                try:
                    columns[place] = column.cast(known)
                except pa.ArrowException:
                    raise TableError(
                        f"of type {column.type}, but of type {known} before",
                        path=path,
                        column=name,
                    ) from None
        return pa.RecordBatch.from_arrays(columns, names)


def _without_views(column: pa.Array) -> pa.Array:
    """A column without texts as views, of which polars makes use and few functions of pyarrow."""
    kind = column.type
    if str(kind) == "string_view":
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(kind) and str(kind.value_type) == "string_view":
        texts = column.dictionary.cast(pa.large_string())
        return pa.DictionaryArray.from_arrays(column.indices, texts)
    if pa.types.is_large_list(kind) and str(kind.value_type) == "string_view":
        return column.cast(pa.large_list(pa.large_string()))
    return column


class _Readable(io.RawIOBase):
    """A stream of bytes in the form that Python's library wants."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, room: WriteableBuffer) -> int:
        return self._stream.read_into(np.frombuffer(memoryview(room), np.uint8))
