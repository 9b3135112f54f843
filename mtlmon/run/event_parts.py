"""The part of a log of events that has been checked: how a later run knows it, and goes on.

The position is a number of events, which may end anywhere in a batch. The source notes *places*
between batches: a number of bytes, and the reader's state there (`ReaderPlace`). A checkpoint has
the last place before the position, and a digest of the few events between; these are read again. It
contains the keys that were not forgotten, with their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.checking.event_digest import DigestPair, EventDigest
from mtlmon.checking.sources import LogPlaces, ReaderPlace
from mtlmon.checking.text_logs import TextLog
from mtlmon.run.read_parts import LogDiffers, LogEnds, ReadPart, digest_mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.policy_work import Source

__all__ = ["EventPart"]

MOST_EVENTS = 1 << 20
"""How many events behind a place are kept for their digest."""


class EventPart:
    """Knows the events again that have been checked.

    In a file, a run goes on where a reader has noted its state: at the last such place before the
    position. The few events behind it are read again.

    Args:
        source: the log, from which nothing has been read.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        if isinstance(source, TextLog) and source.note_block is not None:
            # somebody else wants all lines
            source.start = None
        self.part = ReadPart(source)
        self.digest = EventDigest()
        source.digest = self.digest
        if source.start is not None:
            source.places = LogPlaces()

    def mark(self, position: int) -> LogMark:
        """Return how the first events are known again; `position` must not decrease."""
        place = self.forget_until(position)
        digest = self.digest.up_to(position).hex()
        if place is None:
            return digest_mark(digest, self.source.followed)
        mark = self.part.mark(place.size)
        return mark._replace(reader=place.state, before=place.events, events=digest)

    def forget_until(self, position: int) -> ReaderPlace | None:
        """Forget what is not needed once so many events have been checked.

        Returns:
            The last place before the position; None if no run can go on in the file.
        """
        places = self.source.places
        if places is None:
            self.digest.up_to(min(position, self.digest.size))
            return None
        place = places.before(position)
        self.digest.begin_at(place.events)
        if position - place.events > MOST_EVENTS:
            # they are not kept until there is a next place
            self.digest.up_to(position)
        return place

    def skip(self, mark: LogMark, position: int) -> Iterator[None]:
        """Go to the position, or read the events up to there; yield now and then.

        Args:
            mark: how the events are known again.
            position: their number.

        Raises:
            LogEnds: the log has fewer events.
            LogDiffers: it has other events.
            SnapshotError: the reader cannot go on.
        """
        source = self.source
        if self.part.seek(mark):
            place = ReaderPlace(mark.before, mark.position, mark.reader)
            if place.size:
                source.resume_at(place)
            source.places = LogPlaces(place)
            again = source.digest = self.digest = EventDigest(mark.before, mark.before)
            yield from source.skip(position - mark.before)
        else:
            again = EventDigest(mark.before)
            source.digest = DigestPair(self.digest, again)
            yield from self.read_again(mark, position, again)
            source.digest = self.digest
        if again.size < position:
            raise LogEnds
        if again.up_to(position).hex() != (mark.events if mark.digest is None else mark.digest):
            raise LogDiffers

    def read_again(self, mark: LogMark, position: int, again: EventDigest) -> Iterator[None]:
        """Read the events up to the position without checking them; yield now and then.

        Raises:
            LogEnds: the log has fewer bytes.
            LogDiffers: it has other bytes.
        """
        source = self.source
        before = source.note_block
        if mark.digest is None:
            self.part.read_again(mark)
            source.note_block = self.part.add
        for _ in source.skip(position):
            self.forget_until(min(position, self.digest.size))
            again.up_to(min(position, again.size))
            yield
        source.note_block = before
        if mark.digest is None:
            self.part.check_again(mark, position)
