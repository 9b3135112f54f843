"""The monitored part of a text log that is read once for policies with variables and others.

A place in it is a number of bytes, so that texts of the part already read get no numbers. `TextLog`
says that the log ends before it reads a line that may be incomplete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.run.read_parts import LogEnds, ReadPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.checking.text_logs import LineEvents, TextLog
    from mtlmon.run.checkpoint import LogMark

__all__ = ["RowPart"]


class RowPart:
    """Knows the monitored part of a text log again; its position is a number of bytes.

    Args:
        log: the open log.
        events: what reads its lines for both kinds of policies.
        has_streams: whether streams depend on earlier lines, so that a run has to read all.
    """

    def __init__(self, log: TextLog, events: LineEvents, *, has_streams: bool = False) -> None:
        self.log = log
        self.events = events
        # who wants all lines, apart from this part
        self.other = log.note_block
        if has_streams or self.other is not None:
            log.start = None
        self.part = ReadPart(log)
        log.note_block = self.note_block
        log.marks_end = True

    @property
    def position(self) -> int:
        """The number of bytes that have been read, up to the end of a line."""
        return int(self.events.rows.position)

    def note_block(self, block: memoryview) -> None:
        """Keep a block for a digest, which needs no bytes that are part of it."""
        if self.other is not None:
            self.other(block)
        self.part.add(block)
        self.part.forget_until(min(self.position, self.log.bytes_read))

    def mark(self) -> LogMark:
        """Return how the part is known again."""
        return self.part.mark(self.position)

    def skip(
        self,
        mark: LogMark,
        again: LineEvents | None = None,
        clock: int | None = None,
    ) -> Iterator[None]:
        """Go to the position, or read the log up to there; yield now and then.

        Args:
            mark: how the part is known again.
            again: what reads it once more for streams; None if there are none.
            clock: the largest time-stamp of the part; None if that is the last one.

        Raises:
            LogEnds: the log is shorter.
            LogDiffers: it has other bytes.
        """
        log, count, rows = self.log, self.position, self.events.rows.point_count
        clock = self.events.last_time_stamp if clock is None else clock
        if log.size is not None and log.size < count:
            raise LogEnds
        if self.part.seek(mark):
            log.resume_behind(count, rows, clock)
            return
        self.part.read_again(mark)
        yield from log.skip_bytes(count, rows, clock, again)
        if log.bytes_read < count:
            raise LogEnds
        self.part.check_again(mark, count)
