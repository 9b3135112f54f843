"""Follow a log file by its name: what is appended to it goes into a pipe, which becomes the log.

As `tail -F` does, this goes on with the new file when the file is replaced, from the beginning when
it is cut, and waits while it does not exist. The pipe ends with the first SIGINT or SIGTERM.

A run that goes on from a checkpoint begins at the place that the checkpoint has, in the same file:
under its name, or under another one in its directory, if it has been replaced since. First the pipe
has the first lines of the log, as readers find formats and types by them.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time

from mtlmon.run.checkpoint import AFRESH
from mtlmon.run.failure import RunError
from mtlmon.run.read_parts import edges_of
from mtlmon.run.report import plural
from mtlmon.support.inputs import STANDARD_STREAM, Input, Piece
from mtlmon.support.table_formats import table_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.run.checkpoint import LogMark, Place
    from mtlmon.run.spec import RunSpec

__all__ = ["Follower", "following"]

# How often to look at the file, in seconds.
STEP = 0.1
BLOCK_BYTES = 1 << 16
# The longest header that is recognised in the file that replaces another one.
HEADER_BYTES = 1 << 16
# How much of the first lines a checkpoint has, or two lines; a pipe has room for a header's bytes.
HEAD_BYTES = 1 << 12
# `timeout` sends its signal twice, to the process and to its group, which counts as one signal
SAME_SECONDS = 0.3


def following(options: RunSpec) -> tuple[RunSpec, Follower]:
    """Return options whose log is what is written to the file that is followed; and what does that.

    The file need not exist yet. It is read from its beginning, or from where a checkpoint is.

    Raises:
        RunError: this is not a file that can be followed, or cannot be read; or the checkpoint is
            of another one.
    """
    log, checkpoint, host = options.log, options.checkpoint, options.host
    assert log.follow is not None
    known = table_format(log.follow)
    format = log.format
    if format is None and known is not None and log.pattern is None:
        format = known[0]
    from mtlmon.run.recognition import format_of

    def is_header(line: bytes) -> bool:
        return (format or format_of(line)) in ("csv", "tsv")

    mark = None
    if checkpoint.path is not None and checkpoint.resume:
        from mtlmon.run.checkpoint import CheckpointFile

        before = CheckpointFile(checkpoint.path).read()
        mark = None if before is None else before.log
    require_file(log.follow, host.note)
    follower = Follower(log.follow, is_header, host.note, keeps=checkpoint.path is not None)
    try:
        if mark is not None:
            follower.begin_at(mark)
    except RunError:
        follower.close()
        raise
    if not follower.begin:
        follower.resume()
    return options.having(logs=[STANDARD_STREAM], input=follower.input, format=format), follower


def require_file(path: str, note: Callable[[str], None]) -> None:
    """Raise RunError if a path is not that of a file which can be read, or may come to be one."""
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


class Follower:
    """Writes what comes into a file to a pipe; a thread of its own runs it.

    Args:
        path: the file.
        is_header: whether the first line of the log is a header, which is not read again where a
            file begins with the same one.
        note: is told what becomes of the file.
        keeps: whether files stay open until all that was read of them has been checked.

    Attributes:
        begin: the position in the log, as a number of bytes, that it is read from.
        input: the end of the pipe that the log is read from.
    """

    def __init__(
        self,
        path: str,
        is_header: Callable[[bytes], bool],
        note: Callable[[str], None],
        *,
        keeps: bool = False,
    ) -> None:
        reader, self.writer = os.pipe()
        self.input = Input(reader, path, self if keeps else None)
        # the first bytes of the log
        self.lines = b""
        self.begin = 0
        self.keeps = keeps
        self.thread: threading.Thread | None = None
        # how many bytes the log has so far
        self.written = 0
        # the files that they come from; one that was cut is followed by another piece of it
        self.pieces = [Piece(None, path, 0)]
        self.path = path
        self.is_header = is_header
        self.note = note
        self.ended = threading.Event()
        self.ended_at = 0.0
        self.is_closed = False
        self.file: int | None = None
        # how many bytes of the file have been read
        self.position = 0
        # whether all lines that have been written are complete
        self.is_line_complete = True
        # the first line of the log; None as long as it is not complete
        self.first_line: bytes | None = None
        # what a file begins with, as long as it may be the header again
        self.held: bytes | None = None

    def end(self) -> bool:
        """Let the log end with what the file has now; return False if it was asked to before."""
        now = time.monotonic()
        if self.ended.is_set():
            return now - self.ended_at <= SAME_SECONDS
        self.ended_at = now
        self.ended.set()
        return True

    def close(self) -> None:
        """Follow the file no longer: nobody reads what comes any more."""
        if self.is_closed:
            return
        self.is_closed = True
        self.ended.set()
        # so that writing does not wait any more
        os.close(self.input.descriptor)
        if self.thread is None:
            os.close(self.writer)
        else:
            self.thread.join()
        for piece in [*self.pieces] if self.keeps else ():
            self.drop(piece)

    # ---- where a run goes on ---------------------------------------------------------------

    def begin_at(self, mark: LogMark) -> None:
        """Begin where a checkpoint has been written, with the first lines of the log before.

        Raises:
            RunError: the checkpoint is of another file.
        """
        self.begin = self.written = mark.position
        self.lines = mark.head.encode("latin-1")
        self.first_line = self.head[: self.head.find(b"\n") + 1] or None
        if self.begin:
            self.send(self.lines)
        if mark.lost:
            lost = plural(mark.lost, "byte")
            self.note(f"{self.path} was cut: {lost} had been read, not checked")
        if mark.file is None or mark.edges is None:
            if mark.digest is not None and mark.head:
                raise RunError(
                    f"this run has to read the log from its beginning, and {self.path} was "
                    f"replaced or cut before the checkpoint {AFRESH}"
                )
            self.start_again()
            return
        path = self.find(mark)
        if path is None:
            self.resume_without(mark)
            return
        self.file = os.open(path, os.O_RDONLY)
        self.position = os.lseek(self.file, mark.place, os.SEEK_SET)
        self.pieces = [Piece(self.file, path, self.written)]
        self.pieces[0].shift, self.pieces[0].size = mark.shift, mark.place
        if os.path.realpath(path) != os.path.realpath(self.path):
            since = f"{self.path} has been replaced since the checkpoint"
            self.note(f"{since}: reading the rest of {path}")
            for other in self.newer(path):
                self.note(f"{other} was written after {path}, and is not read")

    def resume_without(self, mark: LogMark) -> None:
        """Begin with the present file, as that of the mark is not there any more.

        Raises:
            RunError: the mark is of a log of another name, or a part of the file is needed again.
        """
        assert mark.file is not None and mark.edges is not None
        if mark.file.path != os.path.realpath(self.path):
            raise RunError(f"the checkpoint is of {mark.file.path}, not of {self.path} {AFRESH}")
        what = f"{self.path} has been replaced or cut since the checkpoint"
        if mark.events or mark.digest is not None:
            raise RunError(f"{what}, and the file before is not beside it any more {AFRESH}")
        self.note(
            f"{what}: going on from its beginning; what the file before had behind its first "
            f"{plural(mark.place, 'byte')} is not checked"
        )
        self.start_again()

    def find(self, mark: LogMark) -> str | None:
        """Return the path of the file that a mark is of; None if it is not there any more.

        A file that is replaced keeps its inode, and one that is cut leaves a copy of its bytes.
        """
        assert mark.file is not None and mark.edges is not None
        if has_mark(self.path, mark) and (mark.edges.size or is_at(self.path, mark.file)):
            return self.path
        name = os.path.basename(os.path.realpath(self.path))
        for one in self.beside():
            is_copy = mark.edges.size > 0 and os.path.basename(one).startswith(name)
            if (is_at(one, mark.file) or is_copy) and has_mark(one, mark):
                return one
        return None

    def newer(self, path: str) -> list[str]:
        """Return the files beside a replaced one that seem to be between it and the present one."""
        present = os.path.realpath(self.path)
        since = os.stat(path).st_mtime_ns
        return [
            one
            for one in self.beside()
            if os.path.basename(one).startswith(os.path.basename(present))
            and one not in {path, present}
            and os.stat(one).st_mtime_ns > since
        ]

    def beside(self) -> list[str]:
        """Return the paths of all that is in the folder of the file."""
        folder = os.path.dirname(os.path.realpath(self.path))
        return [os.path.join(folder, one) for one in sorted(os.listdir(folder))]

    def resume(self) -> None:
        """Drop the first lines, as far as they are in the pipe, and begin to follow."""
        if self.thread is not None:
            return
        poll = select.poll()
        poll.register(self.input.descriptor, select.POLLIN)
        while self.begin and poll.poll(0):
            os.read(self.input.descriptor, BLOCK_BYTES)
        self.thread = threading.Thread(target=self.run, name="mtlmon-follow", daemon=True)
        self.thread.start()

    @property
    def head(self) -> bytes:
        """The first lines of the log, by which readers find its format and types."""
        least = self.lines.find(b"\n", self.lines.find(b"\n") + 1)
        end = max(self.lines.rfind(b"\n", 0, HEAD_BYTES), least)
        return self.lines[: end + 1]

    @property
    def whole(self) -> Piece | None:
        """The file that all of the log has come from; None if there were several, or none."""
        known = [one for one in self.pieces if one.shift is not None]
        for before in known[:-1]:
            self.drop(before)
        only = known[-1] if known else None
        return only if only is not None and only.start == 0 else None

    def drop(self, piece: Piece) -> None:
        """Forget a piece, and close its file if no other piece is of it."""
        self.pieces.remove(piece)
        if piece.descriptor not in {None, *(one.descriptor for one in self.pieces)}:
            assert piece.descriptor is not None
            os.close(piece.descriptor)

    def piece_at(self, position: int) -> Piece:
        """Return the piece that has a position; positions must not decrease between calls."""
        pieces = self.pieces
        known = [one for one in pieces if one.start <= position and one.shift is not None]
        found = known[-1] if known else pieces[0]
        behind = pieces[pieces.index(found) + 1 :]
        if behind and behind[0].descriptor == found.descriptor and position <= behind[0].start:
            # that piece was cut off
            return behind[0]
        for before in pieces[: pieces.index(found)]:
            self.drop(before)
        return found

    # ---- what comes ------------------------------------------------------------------------

    def run(self) -> None:
        """Follow the file until the end is asked for, or nobody reads the pipe."""
        try:
            is_last = False
            while not is_last:
                is_last = self.ended.is_set()
                self.look()
                self.ended.wait(STEP)
            self.pass_held()
        except BrokenPipeError:
            pass
        except OSError as error:
            self.note(f"cannot read {self.path}: {error.strerror}; the log ends here")
        finally:
            os.close(self.writer)
            if self.file is not None and not self.keeps:
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
            if not self.keeps:
                os.close(self.file)
            self.file = None
            self.start_again()
            if not self.open():
                return
            self.note(f"{self.path} has been replaced: going on with the new file")
            self.read()

    def open(self) -> bool:
        """Open the file, if it exists."""
        try:
            # A pipe of this name would make the call wait.
            self.file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        self.position = 0
        self.begin_piece()
        return True

    def begin_piece(self) -> None:
        """Note that what comes from now on is from another file, or its beginning again."""
        self.pieces.append(Piece(self.file, self.path, self.written))
        if not self.keeps:
            del self.pieces[:-1]

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
            self.note(f"{self.path} has been cut: going on from its beginning")
            self.start_again()
            os.lseek(self.file, 0, os.SEEK_SET)
            self.position = 0
            self.begin_piece()
        while block := os.read(self.file, BLOCK_BYTES):
            self.position += len(block)
            self.add(block)

    def start_again(self) -> None:
        """End an incomplete line; the next bytes are the beginning of a file."""
        self.pass_held()
        if not self.is_line_complete:
            self.send(b"\n")
            self.written += 1
        first = self.first_line or b""
        if first.endswith(b"\n") and self.is_header(first):
            self.held = b""

    def add(self, block: bytes) -> None:
        """Write what comes next, unless it may be the header of the log again."""
        if self.first_line is None or not self.first_line.endswith(b"\n"):
            self.first_line = (self.first_line or b"") + block[
                : block.find(b"\n") + 1 or len(block)
            ]
            self.first_line = self.first_line[:HEADER_BYTES]
        if self.held is None:
            self.write(block)
            return
        self.held += block
        assert self.first_line is not None
        if self.held.startswith(self.first_line):
            self.held = self.held[len(self.first_line) :]
            self.pass_held()
        elif not self.first_line.startswith(self.held):
            self.pass_held()

    def pass_held(self) -> None:
        """Write the beginning of a file, which is not the header again."""
        held, self.held = self.held, None
        if held:
            self.write(held)

    def write(self, block: bytes) -> None:
        """Write the last bytes that were read of the file."""
        self.pieces[-1].shift = self.written - (self.position - len(block))
        self.pieces[-1].size = self.position
        if len(self.lines) < HEADER_BYTES and not self.begin:
            self.lines += block[: HEADER_BYTES - len(self.lines)]
        self.send(block)
        self.written += len(block)

    def send(self, block: bytes) -> None:
        self.is_line_complete = block.endswith(b"\n")
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self.writer, rest) :]


def has_mark(path: str, mark: LogMark) -> bool:
    """Whether a file begins with the bytes that a mark is behind."""
    assert mark.edges is not None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        is_long_enough = os.fstat(descriptor).st_size >= mark.edges.size
        return is_long_enough and edges_of(descriptor).of(mark.edges.size) == mark.edges
    finally:
        os.close(descriptor)


def is_at(path: str, place: Place) -> bool:
    """Whether a path is that of a file with the same inode."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == place[1:]
