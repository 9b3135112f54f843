"""Open, read and write the files of a run: the formula, the log and the verdicts.

Logs and verdicts are read and written in large blocks through file descriptors.
"""

from __future__ import annotations

import os
import stat
import sys

from mtlmon.run.failure import ClosedPipe, RunError, WriteFailure, reason
from mtlmon.support.inputs import STANDARD, STANDARD_STREAM
from mtlmon.text.given import GivenText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from mtlmon.run.late_rows import TextOrder
    from mtlmon.run.spec import Log, RunSpec
    from mtlmon.support.inputs import FollowedFile, Input

    class Writer(Protocol):
        """A buffer of bytes to write."""

        def __len__(self) -> int: ...
        def take(self) -> bytes: ...
        def flush(self, file_descriptor: int, /) -> None: ...

    from mtlmon.run.terminal import EscapedLines


__all__ = [
    "LogFile",
    "OpenFile",
    "VerdictFile",
    "open_log",
    "open_text_log",
    "open_verdicts",
    "position_of_input",
    "read_content",
    "read_formula",
    "rewind",
    "text_of",
    "texts_of",
]

STANDARD_OUTPUT = 1
# the capacity that pipes are set to, the largest that Linux allows users by default
PIPE_BYTES = 1 << 20
# how much of a log is put into the order of time at once
ORDERED_BYTES = 1 << 18


def read_formula(path: str) -> str:
    """Return the text of a formula file.

    Raises:
        RunError: the file cannot be read.
    """
    return text_of(read_content(path), path)


def read_content(path: str) -> bytes:
    """Return the bytes of a formula file.

    Raises:
        RunError: the file cannot be read.
    """
    name = "standard input" if path == STANDARD_STREAM else path
    if path == STANDARD_STREAM and STANDARD.is_closed:
        raise RunError("cannot read standard input: it is closed")
    try:
        if path == STANDARD_STREAM:
            # it stays open: another file must not come to its place
            with open(STANDARD.descriptor, "rb", closefd=False) as file:
                return file.read()
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        meant = "; a formula itself follows -e" if _is_formula(path) else ""
        raise RunError(f"cannot read {name}: {error.strerror}{meant}") from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {name}: {reason(error)}") from None


def _is_formula(text: str) -> bool:
    """Whether what should be the name of a file is rather a formula: no names have operators."""
    from mtlmon.errors import MtlmonError
    from mtlmon.syntax import parse

    try:
        formula = parse(text)
    except MtlmonError:
        return any(sign in text for sign in "<>=")
    return bool(formula.operands)


def text_of(content: bytes, path: str) -> str:
    """Return the text of a formula file that has been read.

    Raises:
        RunError: it is no text.
    """
    from mtlmon.errors import MtlmonError
    from mtlmon.support.encodings import decoded

    try:
        return decoded(content)
    except MtlmonError as error:
        name = "standard input" if path == STANDARD_STREAM else path
        raise RunError(f"cannot read {name}: {error}") from None


def texts_of(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return the texts of policy files, and their names in errors.

    Raises:
        RunError: a file cannot be read.
    """
    return [(read_formula(one), "<stdin>" if one == STANDARD_STREAM else one) for one in paths]


def position_of_input(log: Log) -> int | None:
    """Return the present position of the input that is the log, if one can go back there."""
    if STANDARD_STREAM not in log.paths or log.input.is_closed:
        return None
    return log.input.position


def rewind(log: Log, position: int | None) -> None:
    """Go back to a position of the input, if that is the log."""
    if position is not None:
        log.input.seek(position)


class OpenFile:
    """A file of one run, which is closed at the latest when nothing uses it any more.

    An input stays open: it is not the run's own.

    Args:
        descriptor: the open file.
        input: the input that this is; None if it is a file of the run's own.
    """

    given: GivenText | None = None
    _is_owned = False

    def __init__(self, descriptor: int, input: Input | None = None) -> None:
        self.descriptor = descriptor
        self.input = input
        self._is_owned = input is None

    def close(self) -> None:
        """Close the file, unless that was done before or it is an input."""
        is_owned, self._is_owned = self._is_owned, False
        if is_owned:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        # a run can also end with an error between opening a log and reading it
        self.close()

    @property
    def followed(self) -> FollowedFile | None:
        """The file that is followed, if the bytes are its lines."""
        return None if self.input is None else self.input.followed

    @property
    def has_begun(self) -> bool:
        """Whether bytes have been looked at, and not been read."""
        return self.input is not None and self.input.has_begun

    def read_ready(self, block: memoryview) -> int:
        """Read bytes, beginning with what has been looked at; return their number.

        Raises:
            BlockingIOError: reading would wait, and the file does not wait.
            OSError: the file cannot be read.
        """
        if self.input is not None and self.input.has_begun:
            taken = self.input.take_begin(len(block))
            block[: len(taken)] = taken
            return len(taken)
        return os.readv(self.descriptor, [block])


class LogFile(OpenFile):
    """A log that is open for reading.

    Attributes:
        name: the name of the log in messages.
        is_regular: whether it is a file on disk, from which reading never waits.
        size: the number of bytes left to read in a regular file, or 0.
        start: where the log begins in the file; None if a run cannot go on within the file.
        given: the text that a program gives as it comes, in place of what is in the file.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        *,
        input: Input | None = None,
        given: GivenText | None = None,
    ) -> None:
        super().__init__(descriptor, input)
        self.name = name
        self.given = given
        self.status = os.fstat(descriptor)
        self.is_regular = stat.S_ISREG(self.status.st_mode)
        self.size = 0
        self.start: int | None = None
        widen_pipe(descriptor, self.status)
        if self.is_regular:
            self.start = os.lseek(descriptor, 0, os.SEEK_CUR)
            self.size = max(0, self.status.st_size - self.start)
        elif self.followed is not None:
            self.start = 0

    def read_into(self, block: memoryview) -> int | None:
        """Read the available bytes, at most a block.

        Returns:
            The number of bytes, 0 at the end of the log, or None if reading would wait.

        Raises:
            RunError: the log cannot be read.
        """
        try:
            return self.read_ready(block)
        except BlockingIOError:
            return None
        except OSError as error:
            raise RunError(f"cannot read {self.name}: {error.strerror}") from None

    @property
    def may_wait(self) -> bool:
        """Whether reading the next bytes may have to wait for them."""
        return not (self.is_regular or self.has_begun)

    def read_rest_into(self, block: memoryview) -> int:
        """At the end of the log, read lines that wait for earlier ones; return 0 if none do."""
        return 0


class OrderedLog(LogFile):
    """A text log whose lines are put into the order of time.

    Args:
        descriptor: the open file.
        name: the name of the log in messages.
        order: orders the lines.
    """

    def __init__(
        self, descriptor: int, name: str, order: TextOrder, *, input: Input | None = None
    ) -> None:
        super().__init__(descriptor, name, input=input)
        # lines that wait are not where they are in the file
        self.start = None
        self.order = order
        self.block = memoryview(bytearray(ORDERED_BYTES))

    def read_into(self, block: memoryview) -> int | None:
        while True:
            count: int | None = self.order.lines.take_into(block)
            if count:
                return count
            count = super().read_into(self.block)
            if not count:
                return count
            self.order.push(self.block[:count])
            if not self.is_regular and not self.order.lines.is_ready:
                return None

    @property
    def may_wait(self) -> bool:
        return not self.order.lines.is_ready and super().may_wait

    def read_rest_into(self, block: memoryview) -> int:
        self.order.finish()
        return self.order.lines.take_into(block)


def open_text_log(log: Log) -> LogFile:
    """Open the text log of a run, which a program may give as it comes."""
    if isinstance(log.given, GivenText):
        return LogFile(os.open(os.devnull, os.O_RDONLY), log.given.name, given=log.given)
    return open_log(log.path, log.input)


def open_log(path: str, input: Input = STANDARD, order: TextOrder | None = None) -> LogFile:
    """Open a log.

    Args:
        path: the path of the log, or "-" for the input.
        input: what takes the place of standard input.
        order: puts the lines of a text log into the order of time; None if they are in order.

    Raises:
        RunError: the log cannot be opened.
    """
    own = input if path == STANDARD_STREAM else None
    if own is not None:
        if own.is_closed:
            raise RunError("cannot read standard input: it is closed")
        descriptor, name = own.descriptor, own.name
    else:
        name = path
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {path}: {reason(error)}") from None
    if order is None:
        return LogFile(descriptor, name, input=own)
    return OrderedLog(descriptor, name, order, input=own)


class VerdictFile:
    """The file for the verdicts, or standard output.

    Args:
        descriptor: the open file.
        name: the name of the file in messages.
        is_new: whether this run has created the file.
    """

    is_open = False

    def __init__(self, descriptor: int, name: str, *, is_new: bool = False) -> None:
        self.descriptor = descriptor
        self.name = name
        self.is_new = is_new
        self.is_open = descriptor != STANDARD_OUTPUT
        self.lines: EscapedLines | None = None
        if os.isatty(descriptor):
            from mtlmon.run.terminal import EscapedLines

            self.lines = EscapedLines()
        widen_pipe(descriptor, os.fstat(descriptor))

    def flush(self, writer: Writer) -> None:
        """Write the content of the writer; on a terminal, escape characters that do not print.

        Raises:
            ClosedPipe: the reader has closed the pipe.
            RunError: the content cannot be written.
        """
        if self.lines is not None:
            self.lines.add(writer.take())
        waiting = writer if self.lines is None else self.lines
        while len(waiting) > 0:
            try:
                waiting.flush(self.descriptor)
            except BlockingIOError:
                import select

                poll = select.poll()
                poll.register(self.descriptor, select.POLLOUT)
                poll.poll()
            except BrokenPipeError:
                raise ClosedPipe from None
            except OSError as error:
                raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self.descriptor).st_size

    def size_written(self) -> int:
        """Return how many bytes of verdicts this run and the runs it continues have written."""
        return os.lseek(self.descriptor, 0, os.SEEK_CUR)

    def read_at(self, position: int, size: int) -> bytes:
        """Read at least one and at most `size` bytes that were written before.

        Raises:
            RunError: the bytes cannot be read.
        """
        try:
            block = os.pread(self.descriptor, size, position)
        except OSError as error:
            raise RunError(f"cannot read {self.name}: {error.strerror}") from None
        if not block:
            raise RunError(f"cannot read {self.name}: it has become shorter")
        return block

    def discard_new(self) -> None:
        """Remove the file if this run has created it, as nothing will be written to it."""
        if self.is_new:
            from contextlib import suppress

            with suppress(OSError):
                os.unlink(self.name)

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes, and continue from there.

        Raises:
            WriteFailure: the file cannot be truncated.
        """
        try:
            os.ftruncate(self.descriptor, size)
            os.lseek(self.descriptor, size, os.SEEK_SET)
        except OSError as error:
            raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None

    def sync(self) -> None:
        """Wait until all that is written is on disk.

        Raises:
            WriteFailure: it cannot be written.
        """
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file; some file systems report only now that it could not be written.

        Raises:
            RunError: the file could not be written.
        """
        if self.is_open:
            self.is_open = False
            try:
                os.close(self.descriptor)
            except OSError as error:
                raise WriteFailure(f"cannot write {self.name}: {error.strerror}") from None

    def abandon(self) -> None:
        """Close the file if it is open; nothing more is told of it."""
        try:
            self.close()
        except WriteFailure:
            # nothing is imported here, as the interpreter may be about to end
            pass

    def __del__(self) -> None:
        # a run can also end with an error between opening the file and writing it
        self.abandon()


class NoVerdictFile(VerdictFile):
    """Takes the place of a file for answers that a program takes by itself."""

    def __init__(self) -> None:
        self.descriptor = -1
        self.name = "nothing"
        self.is_new = self.is_open = False
        self.lines = None

    def flush(self, writer: Writer) -> None:
        """There is nothing to write."""

    def close(self) -> None:
        """There is nothing to close."""

    def abandon(self) -> None:
        """Likewise."""


def verdicts_of(
    options: RunSpec, logs: Mapping[str, os.stat_result], *, keeps: bool = False
) -> VerdictFile:
    """Open the file for the verdicts of a run; the arguments are those of `open_verdicts`."""
    if options.output.make_batches is not None or options.output.taker is not None:
        return NoVerdictFile()
    return open_verdicts(options.output.path, logs, options.policies.files, keeps=keeps)


def open_verdicts(
    path: str | None,
    logs: Mapping[str, os.stat_result],
    formula_files: Sequence[str],
    *,
    keeps: bool = False,
) -> VerdictFile:
    """Open the file for the verdicts.

    Args:
        path: the path of the file, or None for standard output.
        logs: the status of the logs by name.
        formula_files: the paths of the formula or policy files.
        keeps: whether to keep the present content, which the caller can read and truncate.

    Raises:
        RunError: the file cannot be opened, or it is a log or the formula.
    """
    if path is None:
        if sys.stdout is None:
            raise RunError("cannot write standard output: it is closed")
        for name, status in logs.items():
            if is_same_file(os.fstat(STANDARD_OUTPUT), status):
                raise RunError(f"{name} is both the log and the file for the verdicts")
        return VerdictFile(STANDARD_OUTPUT, "standard output")
    try:
        # without O_TRUNC, so that nothing is lost if the file turns out to be the log
        access = os.O_RDWR if keeps else os.O_WRONLY
        descriptor, is_new = open_or_create(path, access)
        verdicts = VerdictFile(descriptor, path, is_new=is_new)
        found = os.fstat(descriptor)
        if any(is_same_file(found, status) for status in logs.values()):
            raise RunError(f"{path} is both the log and the file for the verdicts")
        formulas = (os.stat(one) for one in formula_files if one != STANDARD_STREAM)
        if any(is_same_file(found, status) for status in formulas):
            raise RunError(f"{path} is both the formula and the file for the verdicts")
        if stat.S_ISREG(found.st_mode) and not keeps:
            os.ftruncate(descriptor, 0)
    except (OSError, ValueError) as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from None
    return verdicts


def open_or_create(path: str, access: int) -> tuple[int, bool]:
    """Open a file, and create it if it does not exist.

    Returns:
        The descriptor, and whether the file was created.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the path contains a null byte.
    """
    try:
        return os.open(path, access), False
    except FileNotFoundError:
        pass
    try:
        return os.open(path, access | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        # it was created in between, or the path is a link to a file that does not exist
        return os.open(path, access | os.O_CREAT, 0o666), False


def is_same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether two statuses belong to the same regular file."""
    return stat.S_ISREG(one.st_mode) and os.path.samestat(one, other)


def widen_pipe(descriptor: int, status: os.stat_result) -> None:
    """Increase the capacity of a pipe, if the system can.

    PERF: the processes at its ends then switch less often. `cat log | mtlmon | cat` for 10,000,000
    events takes 0.25 s instead of 0.42 s, on two processors.
    """
    if not stat.S_ISFIFO(status.st_mode):
        return
    try:
        import fcntl

        if fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < PIPE_BYTES:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        # The system cannot do this, or the user's pipes have reached their limit.
        return
