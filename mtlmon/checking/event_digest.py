"""Digest the events of a log, to find out later whether the log is still the same."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from hashlib import blake2b

    from typing_extensions import Buffer

__all__ = ["DIGEST_BYTES", "DigestPair", "EventDigest", "Texts"]

DIGEST_BYTES = 32


class Texts(NamedTuple):
    """One text for each event of a batch.

    Attributes:
        starts: the start of each text and the end of the last text, as 64-bit integers.
        joined: the concatenated texts.
    """

    starts: bytes
    joined: bytes

    def part(self, first: int, last: int) -> memoryview:
        """Return the concatenated texts from number `first` to number `last`, exclusive."""
        starts = memoryview(self.starts).cast("q")
        return memoryview(self.joined)[starts[first] : starts[last]]


class EventDigest:
    """The digest of the events up to a position; it does not depend on how they are batched.

    Args:
        start: the number of events at the beginning that are not part of the digest.
        size: how many of these events are not added, as they are not read.

    Attributes:
        start: the number of events at the beginning that are not part of the digest.
        size: the number of events that have been added, and that were before them.
        position: the number of events that are part of the digest, and that were before them.
    """

    def __init__(self, start: int = 0, size: int = 0) -> None:
        self.start = start
        self.size = size
        self.position = start
        self._digests: list[blake2b] = []
        # the events after the position: for each batch, its first event, size and columns
        self._ahead: deque[tuple[int, int, tuple[Buffer | Texts, ...]]] = deque()

    def add(self, count: int, columns: Sequence[Buffer | Texts]) -> None:
        """Add a batch of events.

        Args:
            count: the number of events, at least one.
            columns: the data that the digest depends on. Every batch has the same number of
                columns. A column has a fixed number of bytes per event, or it consists of texts,
                whose lengths must be in another column.
        """
        if self.size + count > self.position:
            self._ahead.append((self.size, count, tuple(columns)))
        self.size += count

    def begin_at(self, start: int) -> None:
        """Leave out the events before a number, which is not below the position.

        Args:
            start: the number of the first event of a batch, or the number of all events.
        """
        if start == self.start:
            return
        self.start = start
        while self._ahead and self._ahead[0][0] < start:
            self._ahead.popleft()
        self.position = start
        self._digests = []

    def up_to(self, position: int) -> bytes:
        """Return the digest of the first `position` events, without those before the start.

        Args:
            position: a number of events, at most `size`; it must not decrease between calls.
        """
        # Imported on use, as it loads OpenSSL, which takes 8 ms and 3 MB.
        from hashlib import blake2b

        while self._ahead and self.position < position:
            start, count, columns = self._ahead[0]
            first, last = self.position - start, min(position - start, count)
            while len(self._digests) < len(columns):
                self._digests.append(blake2b(digest_size=DIGEST_BYTES))
            for digest, column in zip(self._digests, columns, strict=True):
                if isinstance(column, Texts):
                    digest.update(column.part(first, last))
                else:
                    block = memoryview(column).cast("B")
                    width = len(block) // count
                    digest.update(block[first * width : last * width])
            self.position = start + last
            if last == count:
                self._ahead.popleft()
        joined = b"".join(digest.digest() for digest in self._digests)
        return blake2b(joined, digest_size=DIGEST_BYTES).digest()


class DigestPair:
    """Two digests of the same events."""

    def __init__(self, first: EventDigest, second: EventDigest) -> None:
        self.pair = first, second

    def add(self, count: int, columns: Sequence[Buffer | Texts]) -> None:
        """Add a batch of events, as `EventDigest.add` does."""
        for one in self.pair:
            one.add(count, columns)
