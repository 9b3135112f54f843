"""Follow a log file by its name: what is appended to it goes into a pipe, which becomes the log.

As `tail -F` does, this goes on with the new file when the file is replaced, from the beginning when
it is cut, and waits while it does not exist. The pipe ends with the first SIGINT or SIGTERM.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
import time

from mtlmon.cli.signals import Signals
from mtlmon.cli.terminal import note
from mtlmon.run.failure import RunError
from mtlmon.support.standard_input import STANDARD_INPUT, name_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["follow"]

# How often to look at the file, in seconds.
STEP = 0.1
BLOCK_BYTES = 1 << 16
# The longest header that is recognised in the file that replaces another one.
HEADER_BYTES = 1 << 16
# `timeout` sends its signal twice, to the process and to its group, which counts as one signal
SAME_SECONDS = 0.3


def follow(path: str, is_header: Callable[[bytes], bool]) -> None:
    """Let standard input be what is written to a file, from its beginning on.

    Args:
        path: the file, which need not exist yet.
        is_header: whether the first line of the log is a header, which is not read again where a
            file begins with the same one.

    Raises:
        RunError: this is not a file, or cannot be read.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise RunError(f"--follow {path}: this is not a file")
        os.close(os.open(path, os.O_RDONLY))
    except FileNotFoundError:
        note(f"{path} does not exist yet: waiting for it")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise RunError(f"cannot read {path}: {reason}") from None
    reader, writer = os.pipe()
    if reader != STANDARD_INPUT:
        os.dup2(reader, STANDARD_INPUT)
        os.close(reader)
    if sys.stdin is None:
        # it was closed, and is open now
        sys.stdin = io.StringIO()
    name_input(path)
    follower = Follower(path, writer, is_header)
    Signals.end_log = staticmethod(follower.end)
    threading.Thread(target=follower.run, name="mtlmon-follow", daemon=True).start()


class Follower:
    """Writes what comes into a file to a pipe; a thread of its own runs it.

    Args:
        path: the file.
        writer: the descriptor of the pipe's end to write to, which is closed at the end.
        is_header: as for `follow`.
    """

    def __init__(self, path: str, writer: int, is_header: Callable[[bytes], bool]) -> None:
        self.path = path
        self.writer = writer
        self.is_header = is_header
        self.ended = threading.Event()
        self.ended_at = 0.0
        self.file: int | None = None
        # how many bytes of the file have been read
        self.position = 0
        # whether all lines that have been written are complete
        self.is_line_complete = True
        # the first line of the log; None as long as it is not complete
        self.first_line: bytes | None = None
        # what a file begins with, as long as it may be the header again
        self.begin: bytes | None = None

    def end(self) -> bool:
        """Let the log end with what the file has now; return False if it was asked to before."""
        now = time.monotonic()
        if self.ended.is_set():
            return now - self.ended_at <= SAME_SECONDS
        self.ended_at = now
        self.ended.set()
        return True

    def run(self) -> None:
        """Follow the file until the end is asked for, or nobody reads the pipe."""
        try:
            is_last = False
            while not is_last:
                is_last = self.ended.is_set()
                self.look()
                self.ended.wait(STEP)
            self.pass_begin()
        except BrokenPipeError:
            pass
        except OSError as error:
            note(f"cannot read {self.path}: {error.strerror}; the log ends here")
        finally:
            os.close(self.writer)
            if self.file is not None:
                os.close(self.file)

    def look(self) -> None:
        """Write what has come, and see whether there is another file of this name."""
        if self.file is None and not self.open():
            return
        self.read()
        while self.is_other():
            # what has been written to the old file before the new one came
            self.read()
            assert self.file is not None
            os.close(self.file)
            self.file = None
            self.start_again()
            if not self.open():
                return
            note(f"{self.path} has been replaced: going on with the new file")
            self.read()

    def open(self) -> bool:
        """Open the file, if it exists."""
        try:
            # A pipe of this name would make the call wait.
            self.file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        self.position = 0
        return True

    def is_other(self) -> bool:
        """Whether the name now belongs to another file."""
        assert self.file is not None
        try:
            return not os.path.samestat(os.stat(self.path), os.fstat(self.file))
        except FileNotFoundError:
            # A new one will come.
            return False

    def read(self) -> None:
        """Write what has been appended to the open file; start again if it has been cut."""
        assert self.file is not None
        if os.fstat(self.file).st_size < self.position:
            note(f"{self.path} has been cut: going on from its beginning")
            os.lseek(self.file, 0, os.SEEK_SET)
            self.position = 0
            self.start_again()
        while block := os.read(self.file, BLOCK_BYTES):
            self.position += len(block)
            self.add(block)

    def start_again(self) -> None:
        """End an incomplete line; the next bytes are the beginning of a file."""
        self.pass_begin()
        if not self.is_line_complete:
            self.write(b"\n")
        first = self.first_line or b""
        if first.endswith(b"\n") and self.is_header(first):
            self.begin = b""

    def add(self, block: bytes) -> None:
        """Write what comes next, unless it may be the header of the log again."""
        if self.first_line is None or not self.first_line.endswith(b"\n"):
            self.first_line = (self.first_line or b"") + block[
                : block.find(b"\n") + 1 or len(block)
            ]
            self.first_line = self.first_line[:HEADER_BYTES]
        if self.begin is None:
            self.write(block)
            return
        self.begin += block
        assert self.first_line is not None
        if self.begin.startswith(self.first_line):
            self.begin = self.begin[len(self.first_line) :]
            self.pass_begin()
        elif not self.first_line.startswith(self.begin):
            self.pass_begin()

    def pass_begin(self) -> None:
        """Write the beginning of a file, which is not the header again."""
        begin, self.begin = self.begin, None
        if begin:
            self.write(begin)

    def write(self, block: bytes) -> None:
        self.is_line_complete = block.endswith(b"\n")
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self.writer, rest) :]
