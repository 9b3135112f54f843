"""Find the files of tables, determine their formats, and read their bytes."""

from __future__ import annotations

import io
import os
import select
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError, TableError
from mtlmon.support.file_patterns import files_of
from mtlmon.support.inputs import STANDARD, STANDARD_STREAM, Input
from mtlmon.support.option_names import PYTHON
from mtlmon.support.table_formats import (
    COMPRESSION_BYTES,
    FORMAT_NAMES,
    FORMATS,
    LINES,
    compression_of,
    may_be_compressed,
    table_format,
)
from mtlmon.tables.given import GivenRows

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import IO, Protocol

    import polars
    from _typeshed import WriteableBuffer
    from numpy.typing import NDArray

    from mtlmon.support.option_names import OptionNames

    class SupportsArrowStream(Protocol):
        """A table that exports its rows through Arrow's C stream interface."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

    Tables = str | os.PathLike[str] | Input | SupportsArrowStream | polars.LazyFrame

_XZ_BYTES = 1 << 16


class TableFile(NamedTuple):
    """A file of a table.

    Attributes:
        path: the path of the file, or `-` for an input.
        name: the name of the file in messages.
        format: one of FORMAT_NAMES.
        input: the input; None if it is a file.
    """

    path: str
    name: str
    format: str
    input: Input | None = None


def table_files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    format: str | None = None,
    option_names: OptionNames = PYTHON,
) -> list[TableFile]:
    """The files that paths, patterns and directories refer to.

    A pattern such as `logs/*.csv` or `logs/**/*.csv` refers to the files that it matches, in
    alphabetical order. A directory refers to all tables in it, at any depth, except for those whose
    name, or the name of a directory on the way, begins with a dot or an underscore.

    Args:
        format: the format of all files; if not given, it follows from the names.
        option_names: how messages write this option.

    Raises:
        MtlmonError: a format is unknown or cannot be determined, or nothing is matched.
        OSError: a file does not exist.
    """
    if format is not None and format not in (*FORMAT_NAMES, LINES):
        known = ", ".join(FORMAT_NAMES)
        raise MtlmonError(f"no format of tables is called {format!r}: choose one of {known}")
    found: list[TableFile] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        text = os.fspath(path)
        if text == STANDARD_STREAM:
            found.append(_input_file(STANDARD, format, option_names))
        elif os.path.isdir(text):
            found += _in_directory(text, format, option_names)
        else:
            found += [_table_file(one, one, format, option_names) for one in files_of(text)]
    return found


def _in_directory(directory: str, format: str | None, option_names: OptionNames) -> list[TableFile]:
    found = []
    for path in sorted(Path(directory).rglob("*")):
        parts = path.relative_to(directory).parts
        if any(part.startswith((".", "_")) for part in parts) or not path.is_file():
            continue
        if table_format(path.name) is not None or format is not None:
            found.append(_table_file(str(path), str(path), format, option_names))
    if not found:
        option = option_names.written("format")
        advice = f"; {option} names the format of files with other names" if option else ""
        raise MtlmonError(
            f"{directory}: no table in this directory, whose name ends in {', '.join(FORMATS)}"
            f"{advice}"
        )
    return found


def _table_file(path: str, name: str, format: str | None, option_names: OptionNames) -> TableFile:
    if format is None:
        emitted = table_format(path)
        if emitted is None:
            raise _unknown_format(name, option_names)
        format = emitted[0]
    return TableFile(path, name, format)


def _input_file(stream: Input, format: str | None, option_names: OptionNames) -> TableFile:
    if format is None:
        raise _unknown_format(stream.name, option_names)
    return TableFile(STANDARD_STREAM, stream.name, format, stream)


def _unknown_format(name: str, option_names: OptionNames) -> MtlmonError:
    known = ", ".join(FORMAT_NAMES)
    option = option_names.written("format")
    advice = f": say it with {option}," if option else ":"
    return MtlmonError(f"{name}: the name does not tell the format{advice} one of {known}")


class TableObject(NamedTuple):
    """A table of a library that exports its rows through Arrow.

    Attributes:
        table: an object with `__arrow_c_stream__`; or `GivenRows`, which come one by one.
        name: the name of the table in messages.
    """

    table: SupportsArrowStream
    name: str


class _LazyTable:
    """The rows of a lazy frame of Polars, in batches as they are computed."""

    def __init__(self, frame: polars.LazyFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        schema = self._frame.clear().collect().to_arrow().schema
        batches = (
            batch
            for part in self._frame.collect_batches(maintain_order=True)
            for batch in part.to_arrow().to_batches()
        )
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return reader.__arrow_c_stream__(requested_schema)


def table_sources(
    tables: Tables | Sequence[Tables],
    format: str | None = None,
    option_names: OptionNames = PYTHON,
) -> list[TableFile | TableObject]:
    """The files and objects that tables refer to; files as in `table_files`.

    Raises:
        MtlmonError, OSError: as `table_files`.
    """
    if isinstance(tables, str) or not isinstance(tables, Sequence):
        tables = [tables]
    found: list[TableFile | TableObject] = []
    for table in tables:
        if isinstance(table, str | os.PathLike):
            found += table_files(table, format, option_names)
        elif isinstance(table, Input):
            found.append(_input_file(table, format, option_names))
        elif isinstance(table, GivenRows):
            found.append(TableObject(table, table.name))
        elif hasattr(table, "__arrow_c_stream__"):
            found.append(TableObject(table, f"<{type(table).__name__}>"))
        elif hasattr(table, "collect_batches"):
            found.append(TableObject(_LazyTable(table), f"<{type(table).__name__}>"))
        else:
            raise MtlmonError(
                "a table is the name of a file or has __arrow_c_stream__, as those of pyarrow, of "
                "pandas from 2.2 on and of polars have, or is a lazy frame of polars; not "
                f"{type(table).__name__}"
            )
    return found


class _LiveFile(io.FileIO):
    """A file that, unless it is regular, waits for its bytes by calling a function."""

    def __init__(self, path: str | int, wait: Callable[[int], None], *, closefd: bool) -> None:
        super().__init__(path, closefd=closefd)
        self._wait = wait
        self._is_regular = stat.S_ISREG(os.fstat(self.fileno()).st_mode)

    def read(self, size: int | None = -1, /) -> bytes:
        self._wait_for_bytes()
        return super().read(-1 if size is None else size) or b""

    def readinto(self, room: WriteableBuffer, /) -> int:
        self._wait_for_bytes()
        return super().readinto(room) or 0

    def _wait_for_bytes(self) -> None:
        if not self._is_regular:
            self._wait(self.fileno())


class ByteStream:
    """The bytes of a file or an input, decompressed.

    Args:
        file: the file.
        wait: called with the descriptor before every read from anything but a regular file, until
            there is something to read.

    Attributes:
        is_regular: whether it is a regular file, whose bytes all exist already.
        compression: "gzip", "zstd", "bz2", "xz" or None, according to the first bytes.
        size: the size of the file, or None if it is not regular.
        bytes_read: how many bytes of the file have been read, before decompression; 0 if it is not
            regular. Other threads may read this.
        raw: the Python file object.
        note_block: set this to a function that gets the bytes as they are read.
    """

    note_block: Callable[[memoryview], None] | None = None

    def __init__(self, file: TableFile, wait: Callable[[int], None] | None = None) -> None:
        self.name = file.name
        self._input = file.input
        path = file.path if file.input is None else file.input.descriptor
        is_own = file.input is None
        self.raw = (
            io.FileIO(path, closefd=is_own)
            if wait is None
            else _LiveFile(path, wait, closefd=is_own)
        )
        status = os.fstat(self.raw.fileno())
        self.is_regular = stat.S_ISREG(status.st_mode)
        self.size = status.st_size if self.is_regular else None
        self.bytes_read = 0
        self._poll = select.poll()
        self._poll.register(self.raw.fileno(), select.POLLIN)
        self._begin = self._first_bytes()
        self.compression = compression_of(self._begin)
        self._stream: pa.NativeFile | io.BufferedIOBase | None = None
        if self.compression is not None:
            self._stream = decompressed(
                cast("IO[bytes]", _Joined(self._begin, self.raw)), self.compression
            )
            self._begin = b""

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, unless it is an input."""
        self.bytes_read = self.size or 0
        self.raw.close()

    def check_size(self) -> None:
        """Check that a file is as long as it was when it was opened.

        Raises:
            TableError: the file has been truncated meanwhile, so rows may be missing.
        """
        if self.size is not None:
            left = os.fstat(self.raw.fileno()).st_size
            if left < self.size:
                raise TableError(
                    f"the file was cut from {self.size} to {left} bytes while it was read",
                    path=self.name,
                )

    def read_into(self, room: NDArray[np.uint8]) -> int:
        """Fill an array with the next bytes; return their number, which is 0 at the end.

        A stream that is not a file fills the array as far as it can without waiting.

        Raises:
            TableError: the compressed data is damaged, or a file has been truncated while it was
                read.
        """
        count = self._read_into(room.data)
        if self.note_block is not None:
            self.note_block(room.data[:count])
        if self.is_regular:
            self.bytes_read = self.raw.tell()
            if not count:
                # before the remaining bytes are taken for the last row
                self.check_size()
        return count

    def seek(self, position: int) -> None:
        """Go to a position in a file that is not compressed: a regular one, or one followed."""
        self._begin = b""
        if self.is_regular:
            self.raw.seek(position)
        elif self._input is not None:
            self._input.resume()

    def _read_into(self, view: memoryview) -> int:
        if self._stream is not None:
            try:
                return int(self._stream.readinto(view))
            except OSError as error:
                if error.errno is not None:
                    raise
                raise TableError(
                    f"the {self.compression} data is damaged or incomplete: {error}",
                    path=self.name,
                ) from None
        done = min(len(self._begin), len(view))
        view[:done] = self._begin[:done]
        self._begin = self._begin[done:]
        if done and not self.is_regular:
            return done + self._read_ready(view[done:])
        count = self.raw.readinto(view[done:]) or 0
        done += count
        if count and not self.is_regular:
            done += self._read_ready(view[done:])
        return done

    def _read_ready(self, view: memoryview) -> int:
        """Read what can be read without waiting."""
        done = 0
        while done < len(view) and self._poll.poll(0):
            count = self.raw.readinto(view[done:]) or 0
            if not count:
                break
            done += count
        return done

    def _first_bytes(self) -> bytes:
        """Enough of the first bytes to determine the compression."""
        if self.is_regular:
            return self.raw.read(COMPRESSION_BYTES) or b""
        found = b"" if self._input is None else self._input.take_begin()
        while len(found) < COMPRESSION_BYTES and may_be_compressed(found):
            read = self.raw.read(COMPRESSION_BYTES - len(found))
            if not read:
                break
            found += read
        return found


def decompressed(source: IO[bytes], compression: str) -> pa.NativeFile | io.BufferedIOBase:
    """Return a stream of what is compressed.

    Raises:
        MtlmonError: this Python cannot read the compression.

    Reading the stream raises OSError without a number if the data is damaged.
    """
    if compression == "xz":
        return io.BufferedReader(_Xz(source), _XZ_BYTES)
    return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), compression)


class _Xz(io.RawIOBase):
    """Decompressed data of xz, which Arrow does not read."""

    def __init__(self, source: IO[bytes]) -> None:
        try:
            import lzma
        except ImportError:
            raise MtlmonError("this Python has no lzma, which reads files of xz") from None
        self._errors = (lzma.LZMAError, EOFError)
        # closed with the file that it reads, by the owner of that
        self._file = lzma.LZMAFile(source)  # noqa: SIM115

    def readable(self) -> bool:
        return True

    def readinto(self, room: WriteableBuffer, /) -> int:
        try:
            return self._file.readinto(room)
        except self._errors as error:
            raise OSError(str(error)) from None


class _Joined(io.RawIOBase):
    """Bytes that have already been read, followed by the rest of the file."""

    def __init__(self, begin: bytes, rest: io.FileIO) -> None:
        self._begin = begin
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._begin:
            part = self._begin if size < 0 else self._begin[:size]
            self._begin = self._begin[len(part) :]
            return part
        return self._rest.read(size) or b""


def file_size(file: TableFile) -> int | None:
    """The size of a file in bytes, or None if it is not a regular file.

    Raises:
        OSError: the file does not exist.
    """
    status = os.stat(file.path) if file.input is None else os.fstat(file.input.descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None
