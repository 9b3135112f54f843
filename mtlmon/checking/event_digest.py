"""A digest of the events of a log, to find out whether a log is still the same."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from hashlib import blake2b

    from typing_extensions import Buffer

__all__ = ["DIGEST_BYTES", "EventDigest", "Texts"]

DIGEST_BYTES = 32


class Texts(NamedTuple):
    """A text for each of some events.

    Attributes:
        starts: the start of each text, and the end of the last text: integers of 64 bits.
        joined: the texts one after the other.
    """

    starts: bytes
    joined: bytes

    def part(self, first: int, last: int) -> memoryview:
        """Some of the texts, one after the other."""
        starts = memoryview(self.starts).cast("q")
        return memoryview(self.joined)[starts[first] : starts[last]]


class EventDigest:
    """A digest of the events up to a position, however they were cut into batches.

    Attributes:
        size: the number of events that were added.
        position: the number of events that are digested.
    """

    def __init__(self) -> None:
        self.size = 0
        self.position = 0
        self._digests: list[blake2b] = []
        # the events behind the position: the number of the first of them, and their columns
        self._ahead: deque[tuple[int, int, tuple[Buffer | Texts, ...]]] = deque()

    def add(self, count: int, columns: Sequence[Buffer | Texts]) -> None:
        """Add some events.

        Args:
            count: the number of events, at least one.
            columns: what distinguishes the events: always as many columns, each with a fixed number
                of bytes for each event, or texts, whose lengths must be in another column.
        """
        self._ahead.append((self.size, count, tuple(columns)))
        self.size += count

    def up_to(self, position: int) -> bytes:
        """The digest of the first events, not fewer than the last time, and at most `size`."""
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
