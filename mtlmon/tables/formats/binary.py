"""Read tables in Parquet and in the Arrow formats."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from mtlmon.checking.sources import Pause
from mtlmon.errors import TableError
from mtlmon.tables.columns.arrow_text import is_readable, is_text, without_views
from mtlmon.tables.formats.blocks import Block
from mtlmon.tables.formats.type_texts import types_of, types_text
from mtlmon.tables.given import GivenRows, NewRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import WriteableBuffer
    from pyarrow import parquet

    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.files import ByteStream, TableFile, TableObject

_ROWS = 1 << 16
_READ_BYTES = 1 << 20
_ARROW_MARK = b"ARROW1"
_MARK_BYTES = 8
_BUFFER_BYTES = 1 << 16
# the end of an Arrow file, after its footer: the size of the footer, and the mark
_END_MARK = len(_ARROW_MARK)
_FOOTER_END = 4 + _END_MARK
# The errors that libraries raise if a file is damaged.
_DAMAGES = (pa.ArrowException, OSError, ValueError)


class BinaryReader:
    """Reads the files of one table with typed columns.

    Predicates are checked against the types of the first file, or floats if that has integers where
    another one has floats. Columns of other types are converted to these, as long as no value
    changes. Numbers do not become texts, nor texts numbers, as `007` and 7 differ.

    Args:
        selection: the columns to read.
        schemas: the columns of the files, as far as they are known.
    """

    def __init__(self, selection: Selection, schemas: Iterable[pa.Schema] = ()) -> None:
        self._selection = selection
        self._types: dict[str, pa.DataType] = {}
        known = list(schemas)
        for name in selection.typed:
            types = [one.field(name).type for one in known if one.names.count(name) == 1]
            if any(map(pa.types.is_floating, types)) and any(map(pa.types.is_integer, types)):
                self._types[name] = pa.float64()

    def state(self) -> str:
        """Return the types that columns have, for `restore`."""
        return types_text(self._types)

    def restore(self, state: str) -> None:
        """Let columns have types that they had for another reader."""
        self._types = types_of(state)

    def blocks(self, file: TableFile, stream: ByteStream) -> Iterator[Block]:
        """Read the rows of a file.

        Raises:
            TableError: the file does not have this format, or is damaged; or a column is missing,
                or has another type than in the previous files.
        """
        batches = self._parquet if file.format == "parquet" else self._arrow
        yield from self._parts(batches(file, stream), file.name, file.format)

    def object_blocks(self, table: TableObject) -> Iterator[Block | Pause]:
        """Read the rows of another library's table, or those that are given as they come.

        Raises:
            TableError: the table does not export its rows; or a column is missing, or has another
                type than in the previous tables.
        """
        if isinstance(table.table, GivenRows):
            yield from self._given(table.table)
            return
        yield from self._parts(self._handed_on(table), table.name, "a table of Arrow")

    def _given(self, given: GivenRows) -> Iterator[Block | Pause]:
        """Read rows as they are given."""
        new = NewRows(given, self._selection)
        names, schema = list(self._selection.names), None
        for item in given.items():
            if isinstance(item, Pause):
                yield item
                continue
            if isinstance(item, pa.RecordBatch):
                if schema is None or not item.schema.equals(schema):
                    schema = item.schema
                    self._require(schema, given.name)
                given.unseen = set()
                batch = item.select(names)
                if not batch.num_rows:
                    # the types of its columns count
                    empty = self._cast(batch, given.name, is_given=True)
                    yield Block(empty, given.name, 1, None)
                parts = self._parts(iter([batch]), given.name, "a table of Arrow", is_given=True)
                for block in parts:
                    yield block._replace(first_row=given.count + 1)
                    given.count += block.batch.num_rows
                continue
            batch = self._cast(new.columns(item), given.name, is_given=True)
            first, given.count = given.count + 1, given.count + batch.num_rows
            yield Block(batch, given.name, first, None, new.absent())

    def _parts(
        self, batches: Iterator[pa.RecordBatch], name: str, format: str, *, is_given: bool = False
    ) -> Iterator[Block]:
        """Split the rows into blocks that are not too large."""
        row = 1
        try:
            for batch in batches:
                # Data that is read natively must be in place too, and texts must be UTF-8.
                batch.validate(full=True)
                for first in range(0, batch.num_rows, _ROWS):
                    part = self._cast(batch.slice(first, _ROWS), name, is_given=is_given)
                    yield Block(part, name, row, None)
                    row += part.num_rows
        except TableError:
            raise
        except _DAMAGES as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = " ".join(str(error).split())
            raise TableError(f"not {format}, or damaged: {reason}", path=name) from None

    def _handed_on(self, table: TableObject) -> Iterator[pa.RecordBatch]:
        with pa.RecordBatchReader.from_stream(table.table) as reader:
            self._require(reader.schema, table.name)
            names = list(self._selection.names)
            for batch in reader:
                yield batch.select(names)

    def _require(self, schema: pa.Schema, path: str) -> None:
        """Check that every wanted column occurs exactly once, with a type that can be read.

        Raises:
            TableError: a column does not.
        """
        self._selection.require(schema.names, path)
        for name in self._selection.names:
            kind = schema.field(name).type
            if not is_readable(kind):
                raise TableError(
                    f"of type {kind}; columns are read that have numbers, texts, Booleans, times, "
                    "or lists of texts",
                    path=path,
                    column=name,
                )

    def _parquet(self, file: TableFile, stream: ByteStream) -> Iterator[pa.RecordBatch]:
        if not stream.is_regular or stream.compression is not None:
            raise TableError(
                "Parquet is read from files that are not compressed as a whole: save it as a file, "
                "or write its columns compressed",
                path=file.name,
            )
        # PERF: tables of Arrow do without
        from pyarrow import parquet

        names = list(self._selection.names)
        source = file.path if file.input is None else stream.raw
        # Parts of columns are read as they are decoded, not whole row groups.
        with parquet.ParquetFile(
            source, pre_buffer=False, buffer_size=_READ_BYTES, page_checksum_verification=True
        ) as reader:
            self._require(reader.schema_arrow, file.name)
            for groups, rows in _groups(reader.metadata):
                found = 0
                for batch in reader.iter_batches(_ROWS, row_groups=groups, columns=names):
                    found += batch.num_rows
                    yield batch.select(names)
                if found != rows:
                    raise pa.ArrowInvalid(
                        f"{found} rows in the row groups {groups[0]} to {groups[-1]}, and not "
                        f"{rows}, as the footer says"
                    )

    def _arrow(self, file: TableFile, stream: ByteStream) -> Iterator[pa.RecordBatch]:
        """Read the batches of a stream; a file is a mark, such a stream, and a list of places in
        it.
        """
        if stream.is_regular and stream.compression is None and file.input is None:
            # Not mapped into memory: if a mapped file is truncated, reading it ends the process.
            source = pa.OSFile(file.path)
            begin = source.read(_MARK_BYTES)
            source.seek(0)
        else:
            readable = io.BufferedReader(_Readable(stream), _BUFFER_BYTES)
            begin = readable.peek(_MARK_BYTES)[:_MARK_BYTES]
            source = pa.PythonFile(readable, mode="r")
        if not begin:
            return
        is_file = begin.startswith(_ARROW_MARK)
        if is_file:
            source.read(_MARK_BYTES)
        with ipc.open_stream(source) as reader:
            self._require(reader.schema, file.name)
            names = list(self._selection.names)
            for batch in reader:
                yield batch.select(names)
        if is_file:
            # To read the rest at once, Arrow would go to its end, which a stream does not do.
            _check_footer(b"".join(iter(partial(source.read, _BUFFER_BYTES), b"")))
        elif stream.is_regular and source.read(1):
            raise pa.ArrowInvalid("there are more bytes after the end of the stream")

    def _cast(self, batch: pa.RecordBatch, path: str, *, is_given: bool = False) -> pa.RecordBatch:
        """Convert the columns for further processing: predicates' columns get their first types.

        Rows that are given one by one do not tell at first that integers are among floats, so such
        columns become floats, as they do in JSON lines.
        """
        columns = [without_views(column) for column in batch.columns]
        names = batch.schema.names
        for place, column in enumerate(columns):
            if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
                # so that only the rows determine what is null
                columns[place] = column.dictionary_decode()
        for name in self._selection.typed:
            place = names.index(name)
            column = columns[place]
            known = self._types.get(name, column.type)
            if pa.types.is_null(known) or (is_given and _is_wider(column.type, known)):
                known = column.type
            if is_given and self._selection.declared.get(name) == "float":
                known = pa.float64()
            self._types[name] = known
            if column.type != known:
                try:
                    if not _are_alike(column.type, known):
                        raise pa.ArrowInvalid(f"from {column.type} to {known}")
                    columns[place] = column.cast(known)
                except pa.ArrowException:
                    raise TableError(
                        f"of type {column.type}, but of type {known} before: make the types of "
                        f"this column the same in all {'rows' if is_given else 'files'}",
                        path=path,
                        column=name,
                    ) from None
        return pa.RecordBatch.from_arrays(columns, names)


def _is_wider(found: pa.DataType, known: pa.DataType) -> bool:
    """Whether a column of integers becomes one of floats."""
    return bool(pa.types.is_floating(found) and pa.types.is_integer(known))


def _are_alike(kind: pa.DataType, known: pa.DataType) -> bool:
    """Whether equal values of two types are those that one type converts to the other."""
    return pa.types.is_null(kind) or is_text(kind) == is_text(known)


def _groups(footer: parquet.FileMetaData) -> Iterator[tuple[list[int], int]]:
    """Group the row groups of a file, small ones together, with their numbers of rows.

    This does not read what the footer says about columns: if that is damaged, the library ends the
    process.

    Raises:
        pa.ArrowInvalid: the footer contradicts itself.
    """
    counts = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    if sum(counts) != footer.num_rows:
        raise pa.ArrowInvalid(
            f"the footer counts {footer.num_rows} rows, but {sum(counts)} in the row groups"
        )
    groups: list[int] = []
    rows = 0
    for number, count in enumerate(counts):
        groups.append(number)
        rows += count
        if rows >= _ROWS or number == len(counts) - 1:
            yield groups, rows
            groups = []
            rows = 0


def _check_footer(rest: bytes) -> None:
    """Check that only a footer follows the batches of an Arrow file.

    Otherwise, there are more batches, or the end of the file is missing.
    """
    size = int.from_bytes(rest[-_FOOTER_END:-_END_MARK], "little", signed=True)
    if not rest.endswith(_ARROW_MARK) or size != len(rest) - _FOOTER_END:
        raise pa.ArrowInvalid("no footer behind the last batch: the file is not complete")


class _Readable(io.RawIOBase):
    """A stream of bytes with the interface of Python's library."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, room: WriteableBuffer) -> int:
        return self._stream.read_into(np.frombuffer(memoryview(room), np.uint8))
