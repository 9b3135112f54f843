"""The part of a log that has been read: how a later run knows it again, and goes on behind it.

A run goes on in a regular file without reading that part again. It knows the file by its *edges*,
digests of its first bytes and of the last ones before the place, which are read from the file when
a checkpoint is made. What can be read only once, and what has to be read again anyway, is known by
a digest of all that has been read; if the checkpoint is of a file, its edges are compared as the
bytes come. The log is read again by the same code.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from mtlmon.run.checkpoint import DIGEST_BYTES, Edges, LogMark, Place
from mtlmon.run.failure import RunError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from mtlmon.support.inputs import FollowedFile, Piece

    class OpenLog(Protocol):
        """A log that is open for reading."""

        @property
        def name(self) -> str:
            """The name of the log in messages."""

        @property
        def descriptor(self) -> int:
            """Its descriptor."""

        @property
        def followed(self) -> FollowedFile | None:
            """The file that is followed, if the bytes are its lines."""

        @property
        def start(self) -> int | None:
            """Where the log begins in its file; None if a run cannot go on within the file."""


__all__ = [
    "HEAD_BYTES",
    "TAIL_BYTES",
    "FileEdges",
    "LogDiffers",
    "LogEnds",
    "ReadPart",
    "digest_mark",
    "edges_of",
]

HEAD_BYTES = 1 << 16
"""How many of the first bytes have a digest."""

TAIL_BYTES = 1 << 13
"""How many of the last bytes have one, which is made anew for each checkpoint."""


class LogEnds(Exception):
    """The log is shorter than the part that an earlier run has read."""


class LogDiffers(Exception):
    """The log does not begin with the part that an earlier run has read."""


class FileEdges:
    """The edges of the first bytes of a file, which are read for that.

    Args:
        read: returns bytes of the file, from a position on and so many; fewer at its end only.
    """

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self.read = read
        # of the first bytes, once there are so many
        self.head: str | None = None

    def of(self, size: int) -> Edges:
        """Return the edges of the first `size` bytes."""
        if size < HEAD_BYTES:
            return Edges(size, hex_digest(self.all_of(0, size)), hex_digest(b""))
        if self.head is None:
            self.head = hex_digest(self.all_of(0, HEAD_BYTES))
        begin = max(HEAD_BYTES, size - TAIL_BYTES)
        return Edges(size, self.head, hex_digest(self.all_of(begin, size)))

    def all_of(self, begin: int, end: int) -> bytes:
        """Return the bytes from one position to another, as far as there are any."""
        parts = []
        while begin < end and (part := self.read(begin, end - begin)):
            parts.append(part)
            begin += len(part)
        return b"".join(parts)


class StreamEdges:
    """The edges of the first bytes of a log that comes block by block.

    Args:
        size: how many bytes that are; what comes behind them does not matter.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        self.head = bytearray()
        self.tail = bytearray()

    def add(self, block: memoryview) -> None:
        """Take the next block of the log."""
        block = block[: self.size - self.count]
        self.count += len(block)
        room = HEAD_BYTES - len(self.head)
        self.head += block[:room]
        self.tail += block[room:][-TAIL_BYTES:]
        del self.tail[:-TAIL_BYTES]

    def found(self) -> Edges:
        """Return the edges, once there have been that many bytes."""
        return Edges(self.size, hex_digest(self.head), hex_digest(self.tail))


class LogDigest:
    """The digest of the monitored part of a log; more than that part may have been read."""

    def __init__(self) -> None:
        # imported on use, as it loads OpenSSL
        from hashlib import blake2b

        self.digest = blake2b(digest_size=DIGEST_BYTES)
        self.size = 0
        self.ahead: deque[memoryview] = deque()

    def add(self, block: memoryview) -> None:
        """Add bytes that have been read, but not monitored yet; any thread may do so."""
        self.ahead.append(memoryview(bytes(block)))

    def up_to(self, position: int) -> str:
        """Return the digest of the first bytes; `position` must not decrease between calls."""
        while self.size < position:
            block = self.ahead.popleft()
            count = min(len(block), position - self.size)
            self.digest.update(block[:count])
            self.size += count
            if count < len(block):
                self.ahead.appendleft(block[count:])
        return self.digest.copy().hexdigest()


class ReadPart:
    """The part of a log that has been read, by its bytes.

    Args:
        log: the open log.
    """

    def __init__(self, log: OpenLog) -> None:
        self.log = log
        self.edges: FileEdges | None = None
        self.file: Place | None = None
        # the lines of a file that is followed come through a pipe
        self.followed = None if log.start is None else log.followed
        self.piece: Piece | None = None
        if log.start is not None and self.followed is None:
            self.edges = FileEdges(lambda *part: read_at(log, *part))
            self.file = Place.of(log.descriptor, log.name)
        # of all that is read; None in a file, whose edges are enough
        self.digest = None if log.start is not None else LogDigest()
        # of the part that an earlier run has read, while this run reads it again
        self.again: StreamEdges | LogDigest | None = None

    def add(self, block: memoryview) -> None:
        """Take the next block of the log as it is read; any thread may do so."""
        if self.digest is not None:
            self.digest.add(block)
        if self.again is not None:
            self.again.add(block)

    def forget_until(self, position: int) -> None:
        """Forget the bytes before a position, which must not decrease between calls."""
        for one in self.digest, self.again:
            if isinstance(one, LogDigest):
                one.up_to(position)

    def mark(self, position: int) -> LogMark:
        """Return how the first bytes are known again; `position` must not decrease."""
        if self.followed is not None:
            return self.mark_of_piece(self.followed, position)
        if self.edges is None:
            assert self.digest is not None
            return digest_mark(self.digest.up_to(position), self.log.followed)
        return LogMark(edges=self.edges.of(position), file=self.file)

    def mark_of_piece(self, followed: FollowedFile, position: int) -> LogMark:
        """Return how the first bytes are known again of a log that is followed."""
        piece = followed.piece_at(position)
        head = followed.head.decode("latin-1")
        if piece.descriptor is None or piece.shift is None or piece.start > position:
            # the next file is read from its beginning
            at_begin = FileEdges(lambda *part: b"").of(0)
            lost = piece.start - position
            return LogMark(edges=at_begin, shift=position, lost=lost, head=head)
        if piece is not self.piece:
            self.piece, self.edges = piece, edges_of(piece.descriptor)
            self.file = Place.of(piece.descriptor, piece.path)
        assert self.edges is not None
        # all that has been read tells the file apart from one that takes its place
        edges, shift = self.edges.of(piece.size), piece.shift
        back = edges.size - (position - shift)
        return LogMark(edges=edges, file=self.file, back=back, shift=shift, head=head)

    def seek(self, mark: LogMark) -> bool:
        """Go to the place of a mark in the file, if that is possible, and return whether it is.

        Raises:
            LogEnds: the file is shorter.
            LogDiffers: it is another one.
        """
        start, edges = self.log.start, mark.edges
        if self.followed is not None and edges is not None and mark.digest is None:
            if self.followed.begin != mark.position:
                raise LogDiffers
            return True
        if edges is None or start is None or self.edges is None or mark.digest is not None:
            return False
        if os.fstat(self.log.descriptor).st_size - start < edges.size:
            raise LogEnds
        if self.edges.of(edges.size) != edges:
            raise LogDiffers
        os.lseek(self.log.descriptor, start + edges.size, os.SEEK_SET)
        return True

    def read_again(self, mark: LogMark) -> None:
        """Prepare for reading the part once more; call `check_again` behind it."""
        if mark.digest is None and mark.edges is not None:
            self.again = StreamEdges(mark.edges.size)
        elif self.digest is None:
            self.again = LogDigest()

    def check_again(self, mark: LogMark, position: int) -> None:
        """Compare the part that was read once more, up to a position.

        Raises:
            LogEnds: the log is shorter.
            LogDiffers: it is another one.
        """
        again, self.again = self.again or self.digest, None
        if isinstance(again, StreamEdges):
            if again.count < again.size:
                raise LogEnds
            is_same = again.found() == mark.edges
        else:
            assert again is not None
            is_same = again.up_to(position) == mark.digest
        if not is_same:
            raise LogDiffers


def digest_mark(digest: str, followed: FollowedFile | None) -> LogMark:
    """Return how a log is known again of which all has to be read again, by the digest of that.

    Args:
        digest: the digest.
        followed: the file that is followed, if the log is that.
    """
    if followed is None:
        return LogMark(digest=digest)
    whole, head = followed.whole, followed.head.decode("latin-1")
    if whole is None or whole.descriptor is None:
        return LogMark(digest=digest, head=head)
    edges = edges_of(whole.descriptor).of(whole.size)
    file = Place.of(whole.descriptor, whole.path)
    return LogMark(digest, edges, file, back=edges.size, head=head)


def edges_of(descriptor: int) -> FileEdges:
    """Return what knows the edges of an open file."""
    return FileEdges(lambda begin, size: os.pread(descriptor, size, begin))


def read_at(log: OpenLog, position: int, size: int) -> bytes:
    """Return bytes of a log in a file, and fewer at its end only.

    Raises:
        RunError: they cannot be read.
    """
    assert log.start is not None
    try:
        return os.pread(log.descriptor, size, log.start + position)
    except OSError as error:
        raise RunError(f"cannot read {log.name}: {error.strerror}") from None


def hex_digest(data: bytes | bytearray) -> str:
    from hashlib import blake2b

    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
