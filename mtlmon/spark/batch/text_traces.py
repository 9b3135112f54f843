"""Text logs as traces, with what depends on other events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.checking.text_logs import TextBatch
from mtlmon.drive.native import TextEvents
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.spark.common.trace_monitors import tick_limit
from mtlmon.tables.text_atoms import text_streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from mtlmon.checking.text_streams import TextStreams
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.common.trace_monitors import EndTime


class TextTrace:
    """Reads the events and ticks of one text log, which is scanned once for all policies.

    Args:
        policies: the policies.
        path: the name of the log in messages.

    Attributes:
        clock: the last time-stamp so far; None before the first event.
    """

    def __init__(self, policies: Policies, path: str) -> None:
        named = policies.atoms
        self._streams: TextStreams | None = None
        file = policies.file
        if file is not None:
            computed = [name for name in named if name in file.atoms]
            if computed or policies.has_streams:
                at_ticks = {
                    period: names for period, names in policies.wanted.items() if period != ROWS
                }
                self._streams = text_streams(
                    file,
                    computed,
                    policies.unit,
                    path,
                    at_ticks,
                    policies.shown,
                    given=policies.given,
                )
                named = tuple(name for name in named if name not in file.atoms)
        self._events = TextEvents(named, path=path)
        self.clock: int | None = None

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms that events are read for, in the order of the bits of letters."""
        return tuple(self._events.scanner.atoms)

    def load(self, content: Buffer) -> Iterator[TextBatch]:
        """Yield the events of the next part of the log, and the ticks before them.

        Raises:
            LogError: a line is not an event.
            MtlmonError: integers overflow.
        """
        self._events.load(content)
        yield from self._loaded()

    def end(self, end_time: EndTime) -> Iterator[TextBatch]:
        """Yield the last event, the remaining ticks, and events that wait no longer.

        Args:
            end_time: what is known about the time after the log.

        Raises:
            LogError: the last line is not an event.
            MtlmonError: integers overflow.
        """
        self._events.load_end()
        yield from self._loaded()
        if self._streams is not None and self.clock is not None:
            yield from self._streams.ticks_until(tick_limit(self.clock, end_time))
            if end_time == "inf":
                yield from self._streams.released()

    def _loaded(self) -> Iterator[TextBatch]:
        while True:
            times, masks = self._events.read()
            if not times:
                return
            yield from self.take(TextBatch(times, masks, self.atoms))

    def take(self, batch: TextBatch) -> Iterator[TextBatch]:
        """Yield the next events, which are given, and the ticks before them.

        Raises:
            MtlmonError: integers overflow.
        """
        for part in [batch] if self._streams is None else self._streams.pieces(batch):
            if len(part.time_stamps):
                self.clock = part.time_stamps[-1]
            yield part
        if self._streams is not None and self._streams.error is not None:
            raise self._streams.error
