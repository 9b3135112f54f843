"""Looks at the beginning of standard input, and gives it back to what reads it afterwards.

A pipe cannot be read twice, so what has been read of it is kept here. Standard input belongs to the
process as a whole, and so does what is kept of it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class FollowedFile(Protocol):
        """A file that is followed by its name, whose lines come through standard input.

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


__all__ = [
    "STANDARD_INPUT",
    "STANDARD_STREAM",
    "Piece",
    "follow_input",
    "followed_input",
    "has_begun",
    "input_name",
    "look_at_input",
    "name_input",
    "read_ready",
    "resume_in_input",
    "take_begin",
]

STANDARD_INPUT = 0
STANDARD_STREAM = "-"
"""The file name for standard input and output."""
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


class _Begin:
    """What has been read of standard input, and not given back; and its name in messages."""

    content = b""
    name = "<stdin>"
    followed: FollowedFile | None = None


def input_name() -> str:
    """The name of standard input in messages."""
    return _Begin.name


def name_input(name: str) -> None:
    """Give standard input a name for messages, if it stands for a file."""
    _Begin.name = name


def follow_input(followed: FollowedFile) -> None:
    """Let standard input be what is written to a file that is followed."""
    _Begin.followed = followed


def followed_input(descriptor: int) -> FollowedFile | None:
    """Return the file that is followed, if a descriptor is that of its lines; else None."""
    return _Begin.followed if descriptor == STANDARD_INPUT else None


def resume_in_input() -> None:
    """Drop what has been read of the beginning of a followed file, and go on at its place."""
    _Begin.content = b""
    if _Begin.followed is not None:
        _Begin.followed.resume()


def look_at_input(is_enough: Callable[[bytes], bool], most: int) -> bytes:
    """Return the first bytes of standard input, and leave them to be read.

    Args:
        is_enough: whether the caller wants no more bytes than these; otherwise, this function waits
            for more.
        most: how many bytes to look at, or a few more.

    Returns:
        All bytes if there are fewer.

    Raises:
        OSError: standard input cannot be read.
    """
    try:
        position = os.lseek(STANDARD_INPUT, 0, os.SEEK_CUR)
    except OSError:
        while not is_enough(_Begin.content) and len(_Begin.content) < most:
            block = _read()
            if not block:
                break
            _Begin.content += block
        return _Begin.content
    return os.pread(STANDARD_INPUT, most, position)


def has_begun(descriptor: int) -> bool:
    """Whether bytes of a file have been looked at, and not been read."""
    return descriptor == STANDARD_INPUT and bool(_Begin.content)


def take_begin(descriptor: int, most: int | None = None) -> bytes:
    """Return the bytes of a file that have been looked at, at most so many, as read."""
    if descriptor != STANDARD_INPUT:
        return b""
    taken, _Begin.content = _Begin.content[:most], b"" if most is None else _Begin.content[most:]
    return taken


def read_ready(descriptor: int, block: memoryview) -> int:
    """Read a file, beginning with what has been looked at; return the number of bytes.

    Raises:
        BlockingIOError: reading would wait, and the file does not wait.
        OSError: the file cannot be read.
    """
    if has_begun(descriptor):
        taken = take_begin(descriptor, len(block))
        block[: len(taken)] = taken
        return len(taken)
    return os.readv(descriptor, [block])


def _read() -> bytes:
    while True:
        try:
            return os.read(STANDARD_INPUT, _BLOCK_BYTES)
        except BlockingIOError:
            import select

            poll = select.poll()
            poll.register(STANDARD_INPUT, select.POLLIN)
            poll.poll()
