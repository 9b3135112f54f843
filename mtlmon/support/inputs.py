"""Streams that a log with the name `-` is read from, and what has been looked at of them.

A pipe cannot be read twice, so what has been read of its beginning is kept, and given back to what
reads it afterwards.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class FollowedFile(Protocol):
        """A file that is followed by its name, whose lines come through a pipe.

        The log may have pieces in several files, one behind the other. A position is a number of
        bytes of the log.

        Attributes:
            begin: the position that the log is read from.
        """

        begin: int

        @property
        def head(self) -> bytes:
            """The first lines of the log."""

        def piece_at(self, position: int) -> Piece:
            """Return the piece that has a position; positions must not decrease between calls.

            It begins behind the position if what was in between has been cut off since.
            """

        @property
        def whole(self) -> Piece | None:
            """The file that all of the log has come from; None if there were several, or none."""

        def resume(self) -> None:
            """Let what is behind `begin` come, in an empty pipe."""


__all__ = ["STANDARD", "STANDARD_STREAM", "FollowedFile", "Input", "Piece"]

STANDARD_STREAM = "-"
"""The file name for standard input, or what takes its place, and for standard output."""
_BLOCK_BYTES = 1 << 16


class Piece:
    """A piece of a log that is followed, which is in one file.

    Attributes:
        descriptor: the open file; None if there has been none.
        path: its path.
        start: the position in the log where the piece begins.
        shift: how many bytes more the log has up to a place than the file; None as long as nothing
            of the piece has come.
        size: how many bytes of the file have been read.
    """

    def __init__(self, descriptor: int | None, path: str, start: int) -> None:
        self.descriptor = descriptor
        self.path = path
        self.start = start
        self.shift: int | None = None
        self.size = 0


class Input:
    """A stream that is open for reading, and stays so when a run ends.

    Attributes:
        descriptor: the open file.
        name: its name in messages.
        followed: the file whose lines it brings, if a run can go on within that.
    """

    def __init__(self, descriptor: int, name: str, followed: FollowedFile | None = None) -> None:
        self.descriptor = descriptor
        self.name = name
        self.followed = followed
        # what has been looked at, and not given back
        self._content = b""

    @property
    def is_closed(self) -> bool:
        """Whether there is no such stream, as a process may begin without standard input.

        Another stream may have its descriptor then.
        """
        return self is STANDARD and sys.stdin is None

    @property
    def position(self) -> int | None:
        """The present position; None if this is no file in which one can go back."""
        try:
            return os.lseek(self.descriptor, 0, os.SEEK_CUR)
        except OSError:
            return None

    def seek(self, position: int) -> None:
        """Go to a position that there has been."""
        os.lseek(self.descriptor, position, os.SEEK_SET)

    def look(self, is_enough: Callable[[bytes], bool], most: int) -> bytes:
        """Return the first bytes, and leave them to be read.

        Args:
            is_enough: whether the caller wants no more bytes than these; otherwise, this function
                waits for more.
            most: how many bytes to look at, or a few more.

        Returns:
            All bytes if there are fewer.

        Raises:
            OSError: the stream cannot be read.
        """
        if (position := self.position) is not None:
            return os.pread(self.descriptor, most, position)
        while not is_enough(self._content) and len(self._content) < most:
            block = self._read()
            if not block:
                break
            self._content += block
        return self._content

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self.descriptor, _BLOCK_BYTES)
            except BlockingIOError:
                import select

                poll = select.poll()
                poll.register(self.descriptor, select.POLLIN)
                poll.poll()

    @property
    def has_begun(self) -> bool:
        """Whether bytes have been looked at, and not been read."""
        return bool(self._content)

    def take_begin(self, most: int | None = None) -> bytes:
        """Return the bytes that have been looked at, at most so many, as read."""
        taken = self._content[:most]
        self._content = b"" if most is None else self._content[most:]
        return taken

    def resume(self) -> None:
        """Drop what has been read of the beginning of a followed file, and go on at its place."""
        self._content = b""
        if self.followed is not None:
            self.followed.resume()


STANDARD = Input(0, "<stdin>")
"""Standard input, which belongs to the process as a whole, and so does what was looked at."""
