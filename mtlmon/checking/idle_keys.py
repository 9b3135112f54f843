"""Forgets the keys of a check that have nothing left to remember.

A key is forgotten when its state can no longer be told apart from the initial state, whatever
events still come. This is the case when nothing is pending, the configuration remembers nothing
without bound (`is_transient` in `engine/table/configurations`), and the key has had no event for
the configuration's *settling distance*. The search for such keys visits all keys, so it only
happens when there are twice as many keys as after the last search. Each partition does so by
itself. The remaining keys get new numbers, so that states, keys and open equivalences stay dense.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking.row_offsets import RowOffsets
    from mtlmon.checking.row_tracking import RowTracker
    from mtlmon.checking.shown import Messages
    from mtlmon.checking.sources import EventSource
    from mtlmon.drive.native import PolicyMonitors

__all__ = ["IdleKeys"]

# Look for idle keys when there are this many, and twice as many as after the last time.
_IDLE_KEYS = 1 << 16


class IdleKeys:
    """Looks for idle keys whenever a partition has many.

    Args:
        native: the monitors.
        row_offsets: for each partition whose policies choose rows, the offsets of its rows.
        row_tracker: the rows of undecided time-points; None if they are not wanted.

    Attributes:
        limits: for each partition, the number of keys from which on idle ones are looked for.
        forgotten: for each partition, how many keys were forgotten.
    """

    def __init__(
        self,
        native: PolicyMonitors,
        row_offsets: Sequence[RowOffsets | None],
        row_tracker: RowTracker | None = None,
    ) -> None:
        self._native = native
        self._row_tracker = row_tracker
        self._row_offsets = row_offsets
        self.limits = [_IDLE_KEYS] * len(row_offsets)
        self.forgotten = [0] * len(row_offsets)

    def may_forget(self, source: EventSource) -> bool:
        """Whether keys may be forgotten after the events that have been read."""
        return source.can_forget_keys and any(
            keys is not None and len(keys) >= most
            for keys, most in zip(source.key_tables, self.limits, strict=True)
        )

    def forget(self, source: EventSource, clock: int, messages: Messages | None = None) -> None:
        """Forget the keys that have nothing left to remember, if there are many keys.

        Args:
            source: the log that the keys come from.
            clock: the last time-stamp.
            messages: the messages of the check, if it has any.
        """
        if not self.may_forget(source):
            return
        for partition, keys in enumerate(source.key_tables):
            if keys is None:
                continue
            count = self._native.stream_counts[partition]
            if count < self.limits[partition]:
                continue
            settled = source.settled_traces(partition, count)
            offsets = self._row_offsets[partition]
            if offsets is not None:
                # The next rows of these traces may have the same time-stamp.
                can_go = bytearray(settled or b"\1" * count)
                for number in offsets.traces:
                    can_go[number] = 0
                settled = bytes(can_go)
            numbers = self._native.forget_idle(clock, partition, settled)
            left = self._native.stream_counts[partition]
            if numbers is not None:
                source.keep_traces(partition, numbers)
                if offsets is not None:
                    offsets.keep(numbers)
                if self._row_tracker is not None:
                    self._row_tracker.keep(partition, numbers)
                if messages is not None:
                    messages.keep(partition, numbers)
                self.forgotten[partition] += count - left
            self.limits[partition] = max(_IDLE_KEYS, 2 * left)
