"""The rows of tables as blocks of columns, one table after the other."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mtlmon.errors import MtlmonError, TableError
from mtlmon.tables.formats.blocks import BadRow, Block, BlockPlace, GoneOn
from mtlmon.tables.formats.delimited import FORMATS_WITH_DELIMITERS, DelimitedReader
from mtlmon.tables.formats.files import ByteStream, TableFile, TableObject, file_size
from mtlmon.tables.formats.line_patterns import LinePattern, LineReader
from mtlmon.tables.formats.schemas import read_schema
from mtlmon.tables.given import GivenRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence

    from mtlmon.checking.sources import Pause
    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.binary import BinaryReader
    from mtlmon.tables.formats.dialect import Dialect
    from mtlmon.tables.formats.files import SupportsArrowStream
    from mtlmon.tables.formats.json_lines import JsonLinesReader

__all__ = ["SourceBlocks"]

_TYPED = {"parquet", "arrow"}


class SourceBlocks:
    """Reads the rows of files and objects.

    Args:
        sources: the files and objects.
        selection: which columns are wanted.
        dialect: how the cells of delimited text are written.
        pattern: what lines of text look like that are rows; None if there are no such files.

    Attributes:
        size: the size of all files in bytes, or None if some source is not a regular file.
        note_block: set this to a function that gets the bytes of files as they are read.
        resume: set this to the place in the only file where to go on, behind its first rows; a
            `GoneOn` comes between.
    """

    note_block: Callable[[memoryview], None] | None = None
    resume: BlockPlace | None = None

    def __init__(
        self,
        sources: Sequence[TableFile | TableObject],
        selection: Selection,
        dialect: Dialect,
        pattern: LinePattern | None,
    ) -> None:
        self._sources = tuple(sources)
        self._selection = selection
        # read JSON lines, and columns with types, once there are such files
        self._json_lines: JsonLinesReader | None = None
        self._binary: BinaryReader | None = None
        self._delimited = DelimitedReader(selection, dialect)
        self._lines = None if pattern is None else LineReader(pattern, selection, self._delimited)
        self._stream: ByteStream | None = None
        self._bytes_done = 0
        sizes = [file_size(one) if isinstance(one, TableFile) else None for one in sources]
        self.size = None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def unmatched(self) -> int:
        """The number of lines that do not match the pattern, which are no rows."""
        return 0 if self._lines is None else self._lines.unmatched

    @property
    def spanning_rows(self) -> int:
        """The number of rows of delimited text that span lines."""
        return self._delimited.spanning_rows

    @property
    def stray_quotes(self) -> int:
        """The number of cells of delimited text that begin with a quote that is a character."""
        return self._delimited.stray_quotes

    def given_state(self) -> list[object]:
        """Return what is known by rows that are given, for `restore_given`; JSON can write it."""
        assert self._binary is not None
        return [self._binary.state(), *(one.state() for one in self._given)]

    def restore_given(self, state: Any) -> None:
        """Go on from a state."""
        assert self._binary is not None
        types, *given = state
        self._binary.restore(types)
        for one, own in zip(self._given, given, strict=True):
            one.restore(own)

    @property
    def _given(self) -> list[GivenRows]:
        found = (one.table for one in self._sources if isinstance(one, TableObject))
        return [one for one in found if isinstance(one, GivenRows)]

    def rounding_remarks(self) -> Iterator[str]:
        """Yield a sentence for each column in which integers became floats, and lost digits."""
        yield from self._delimited.rounded.remarks()
        if self._json_lines is not None:
            yield from self._json_lines.rounded.remarks()

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the files that have been read, before decompression."""
        stream = self._stream
        return self._bytes_done + (0 if stream is None else stream.bytes_read)

    @property
    def absent_columns(self) -> tuple[str, ...]:
        """Messages about columns that no row has had so far, where rows need not have them."""
        subject = "so far no row has a column"
        given = (one.absent(self._selection, subject) for one in self._given)
        of_json = () if self._json_lines is None else self._json_lines.absent(subject)
        return (*of_json, *(text for texts in given for text in texts))

    @property
    def absent_names(self) -> Collection[str]:
        """The columns that no row has had so far, if all sources are JSON lines."""
        is_json = all(isinstance(one, TableFile) and one.format == "jsonl" for one in self._sources)
        return self._reader_of_json().absent_names if is_json else ()

    def blocks(
        self, wait: Callable[[int], None] | None
    ) -> Generator[Block | BadRow | GoneOn | Pause, None, None]:
        """Yield the rows of all sources, one source after the other.

        There is a `Pause` where rows are given that have not come yet.

        Args:
            wait: blocks until there is something to read. It is called with a descriptor before
                every read from standard input or a pipe.
        """
        for place, file in enumerate(self._sources, 1):
            if isinstance(file, TableObject):
                yield from self._joined(self._reader_of_types().object_blocks(file))
                continue
            with ByteStream(file, wait) as stream:
                self._stream = stream
                stream.note_block = self.note_block
                blocks: Iterator[Block | BadRow | GoneOn | Pause]
                if file.format in FORMATS_WITH_DELIMITERS:
                    blocks = self._delimited.blocks(file, stream, self.resume)
                elif self._lines is not None:
                    blocks = self._lines.blocks(file, stream, self.resume)
                elif file.format == "jsonl":
                    blocks = self._reader_of_json().blocks(file, stream, self.resume)
                elif file.format == "xes":
                    from mtlmon.tables.formats.xes import XesReader

                    xes = XesReader(self._selection, self._reader_of_json())
                    blocks = xes.blocks(file, stream)
                else:
                    blocks = self._reader_of_types().blocks(file, stream)
                for block in self._joined(blocks):
                    if place < len(self._sources) and isinstance(block, Block) and block.is_tail:
                        yield block._replace(is_tail=False)
                    else:
                        yield block
                stream.check_size()
                self._stream = None
                self._bytes_done += stream.size or 0
        if self._json_lines is not None:
            self._json_lines.check_columns()
        for one in self._given:
            for message in one.absent(self._selection, "no row has a column"):
                raise TableError(message, path=one.name)
        if self._lines is not None:
            self._lines.check_matches()

    # PERF: the module of a format is imported for its files only. With all of them, which import
    # what reads Parquet from clouds, a command on CSV took 30 ms and 9 MB more.

    def _reader_of_json(self) -> JsonLinesReader:
        if self._json_lines is None:
            from mtlmon.tables.formats.json_lines import JsonLinesReader

            self._json_lines = JsonLinesReader(self._selection)
        return self._json_lines

    def _reader_of_types(self) -> BinaryReader:
        if self._binary is None:
            from mtlmon.tables.formats.binary import BinaryReader

            self._binary = BinaryReader(self._selection, self._schemas())
        return self._binary

    def _schemas(self) -> Iterator[pa.Schema]:
        """The columns of typed sources, if there are several; what fails here, fails later."""
        if len(self._sources) == 1 or not self._selection.typed:
            return
        for one in self._sources:
            with suppress(MtlmonError, OSError, pa.ArrowException):
                if isinstance(one, TableObject):
                    yield from _schema_of(one.table)
                elif one.format in _TYPED and file_size(one) is not None and one.path != "-":
                    yield read_schema(one.path, format=one.format)

    def _joined(
        self, blocks: Iterator[Block | BadRow | GoneOn | Pause]
    ) -> Iterator[Block | BadRow | GoneOn | Pause]:
        """The blocks, with the joined times if times have several columns."""
        for block in blocks:
            if not isinstance(block, Block) or len(self._selection.time_columns) == 1:
                yield block
                continue
            try:
                batch = self._selection.with_joined_times(block.batch)
            except TableError as error:
                raise TableError(error.message, path=block.path, column=error.column) from None
            # The joined times are absent where one of their columns is.
            absent = dict(block.absent)
            for name in self._selection.time_columns:
                if name in absent:
                    absent.setdefault(self._selection.time_name, absent[name])
            yield block._replace(batch=batch, absent=absent)


def _schema_of(table: SupportsArrowStream) -> Iterator[pa.Schema]:
    """Yield the columns of a table, if they can be known without its rows."""
    schema = getattr(table, "schema", None)
    if isinstance(schema, pa.Schema):
        yield schema
    elif hasattr(table, "head"):
        # a frame; other tables may be read only once
        with pa.RecordBatchReader.from_stream(table.head(0)) as reader:
            yield reader.schema
