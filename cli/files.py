"""The files of the command: formula, log, verdicts.

Logs and verdicts are file descriptors, read and written in large blocks.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys

from mtlmon.cli.arguments import STANDARD_STREAM
from mtlmon.cli.failure import ClosedPipe, Failure, WriteFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    class Writer(Protocol):
        """Bytes that wait to be written."""

        def __len__(self) -> int: ...
        def take(self) -> bytes: ...
        def flush(self, file_descriptor: int, /) -> None: ...

    from mtlmon.cli.terminal import EscapedLines


__all__ = ["LogFile", "VerdictFile", "open_log", "open_verdicts", "read_formula"]

STANDARD_INPUT = 0
STANDARD_OUTPUT = 1
# what pipes are asked to hold; Linux allows users so much
PIPE_BYTES = 1 << 20


def read_formula(path: str) -> str:
    """The text of a formula file.

    Raises Failure when it cannot be read.
    """
    name = "standard input" if path == STANDARD_STREAM else path
    if path == STANDARD_STREAM and sys.stdin is None:
        raise Failure("cannot read standard input: it is closed")
    try:
        with open(STANDARD_INPUT if path == STANDARD_STREAM else path, "rb") as file:
            return file.read().decode("utf-8-sig")
    except OSError as error:
        raise Failure(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Failure(f"cannot read {name}: not UTF-8 at byte {error.start}") from None


class LogFile:
    """A log open for reading.

    Attributes:
        name: for messages about its lines.
        is_regular: a file on disk, from which reading never waits.
        size: bytes left to read in a regular file, else 0.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self.descriptor = descriptor
        self.name = name
        self.status = os.fstat(descriptor)
        self.is_regular = stat.S_ISREG(self.status.st_mode)
        self.size = 0
        widen_pipe(descriptor, self.status)
        if self.is_regular:
            self.size = max(0, self.status.st_size - os.lseek(descriptor, 0, os.SEEK_CUR))

    def read_into(self, block: memoryview) -> int | None:
        """Read what there is, up to a block; 0 at the end, None when reading would wait.

        Raises Failure when the log cannot be read.
        """
        try:
            return os.readv(self.descriptor, [block])
        except BlockingIOError:
            return None
        except OSError as error:
            raise Failure(f"cannot read {self.name}: {error.strerror}") from None

    def close(self) -> None:
        """Close the log, unless it is standard input."""
        if self.descriptor != STANDARD_INPUT:
            os.close(self.descriptor)


def open_log(path: str) -> LogFile:
    """Open a log.

    Raises Failure when it cannot be opened.
    """
    if path == STANDARD_STREAM:
        if sys.stdin is None:
            raise Failure("cannot read standard input: it is closed")
        return LogFile(STANDARD_INPUT, "<stdin>")
    try:
        return LogFile(os.open(path, os.O_RDONLY), path)
    except (OSError, ValueError) as error:
        raise Failure(f"cannot read {path}: {reason(error)}") from None


class VerdictFile:
    """Where the verdicts go.

    is_new: the file was not there before.
    """

    def __init__(self, descriptor: int, name: str, *, is_new: bool = False) -> None:
        self.descriptor = descriptor
        self.name = name
        self.is_new = is_new
        self.lines: EscapedLines | None = None
        if os.isatty(descriptor):
            from mtlmon.cli.terminal import EscapedLines

            self.lines = EscapedLines()
        widen_pipe(descriptor, os.fstat(descriptor))

    def flush(self, writer: Writer) -> None:
        """Write what the writer holds, to a terminal without characters that do not print.

        Raises ClosedPipe when nobody reads it, Failure when it cannot be written.
        """
        if self.lines is not None:
            self.lines.add(writer.take())
        waiting = writer if self.lines is None else self.lines
        while len(waiting) > 0:
            try:
                waiting.flush(self.descriptor)
            except BlockingIOError:
                poll = select.poll()
                poll.register(self.descriptor, select.POLLOUT)
                poll.poll()
            except BrokenPipeError:
                raise ClosedPipe from None
            except OSError as error:
                raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None

    def size(self) -> int:
        """How many bytes the file has."""
        return os.fstat(self.descriptor).st_size

    def size_written(self) -> int:
        """How many bytes of the file are this run's or were taken over by it."""
        return os.lseek(self.descriptor, 0, os.SEEK_CUR)

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes that were written, at least one.

        Raises Failure.
        """
        try:
            block = os.pread(self.descriptor, size, position)
        except OSError as error:
            raise Failure(f"cannot read {self.name}: {error.strerror}") from None
        if not block:
            raise Failure(f"cannot read {self.name}: it has become shorter")
        return block

    def discard_new(self) -> None:
        """Remove the file if it was not there before: nothing will be written to it."""
        if self.is_new:
            with contextlib.suppress(OSError):
                os.unlink(self.name)

    def cut(self, size: int) -> None:
        """Keep the first bytes of the file, and go on behind them.

        Raises WriteFailure.
        """
        try:
            os.ftruncate(self.descriptor, size)
            os.lseek(self.descriptor, size, os.SEEK_SET)
        except OSError as error:
            raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None

    def sync(self) -> None:
        """Wait until what is written is on disk.

        Raises WriteFailure.
        """
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None

    def close(self) -> None:
        """Close a file; some file systems report only now that it could not be written.

        Raises Failure.
        """
        if self.descriptor != STANDARD_OUTPUT:
            try:
                os.close(self.descriptor)
            except OSError as error:
                raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None


def open_verdicts(
    path: str | None,
    logs: Mapping[str, os.stat_result],
    formula_file: str,
    *,
    keeps: bool = False,
) -> VerdictFile:
    """Open the file for the verdicts, standard output for None.

    logs: what the logs are, by their names.
    keeps: leave to the caller how much of a file's content to keep, and let it read that.

    Raises Failure when it cannot be opened, or is a log or the formula.
    """
    if path is None:
        if sys.stdout is None:
            raise Failure("cannot write standard output: it is closed")
        for name, status in logs.items():
            if is_same_file(os.fstat(STANDARD_OUTPUT), status):
                raise Failure(f"{name} is both the log and the file for the verdicts")
        return VerdictFile(STANDARD_OUTPUT, "standard output")
    try:
        # opened without O_TRUNC: nothing is lost before it is known to be another file
        access = os.O_RDWR if keeps else os.O_WRONLY
        descriptor, is_new = open_or_create(path, access)
        found = os.fstat(descriptor)
        if any(is_same_file(found, status) for status in logs.values()):
            raise Failure(f"{path} is both the log and the file for the verdicts")
        if formula_file not in ("", STANDARD_STREAM) and is_same_file(found, os.stat(formula_file)):
            raise Failure(f"{path} is both the formula and the file for the verdicts")
        if stat.S_ISREG(found.st_mode) and not keeps:
            os.ftruncate(descriptor, 0)
    except (OSError, ValueError) as error:
        raise Failure(f"cannot write {path}: {reason(error)}") from None
    return VerdictFile(descriptor, path, is_new=is_new)


def open_or_create(path: str, access: int) -> tuple[int, bool]:
    """Open a file; also tell whether it was not there before.

    Raises OSError, or ValueError for a path that cannot be one.
    """
    try:
        return os.open(path, access), False
    except FileNotFoundError:
        pass
    try:
        return os.open(path, access | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        # it has come in between, or the path is a link to where no file is yet
        return os.open(path, access | os.O_CREAT, 0o666), False


def is_same_file(one: os.stat_result, other: os.stat_result) -> bool:
    return stat.S_ISREG(one.st_mode) and os.path.samestat(one, other)


def reason(error: OSError | ValueError) -> str:
    """Why a file could not be opened (a ValueError: NUL in its name)."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def widen_pipe(descriptor: int, status: os.stat_result) -> None:
    """Let a pipe hold more, where the system can.

    PERF: the processes at its ends then take turns less often. `cat log | mtlmon | cat` for
    10,000,000 events takes 0.25 s instead of 0.42 s, on two processors.
    """
    if not stat.S_ISFIFO(status.st_mode):
        return
    try:
        import fcntl

        if fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < PIPE_BYTES:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        # Another system, or the user's pipes hold all they may already.
        return
