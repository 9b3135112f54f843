"""What stateful processors of streaming queries share: blocks in order, a state, one timer."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, StructField, StructType

from mtlmon.spark.streaming.packing import EVENTS, PLACE, TASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = ["TimedProcessor", "Visit"]

_STATE = StructType([StructField("state", BinaryType())])


class Visit(NamedTuple):
    """What a visit of a group leaves.

    Attributes:
        wakeup_before: the least horizon at which there was something to do without new rows, or
            None.
        wakeup: the same after the visit.
        appended: bytes to store behind those that are stored, or None.
        replaced: bytes to store in place of all that are stored, or None; without bytes, nothing is
            stored any more.
        rows: rows of results.
    """

    wakeup_before: int | None
    wakeup: int | None
    appended: bytes | None
    replaced: bytes | None
    rows: Iterable[Row]


class TimedProcessor(StatefulProcessor):
    """Visits the state of a group when packed rows come, or when its timer expires; picklable.

    The state is a list of bytes. Each group has at most one timer, which expires when the watermark
    reaches its next wake-up.

    Args:
        clock: the clock of the query.
    """

    STATE_NAME: ClassVar[str]
    """The name of the state in Spark's state store."""

    def __init__(self, clock: EventClock) -> None:
        self._clock = clock

    @abstractmethod
    def visit(
        self,
        key: tuple[object, ...],
        stored: Sequence[bytes],
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        """Let a group take packed rows, and the time up to a horizon.

        Args:
            key: the key of the group.
            stored: its state, which is empty at first.
            blocks: its rows in this batch, packed, in the order in which tasks have packed them.
            horizon: rows with time-stamps below it are late; no more of them come.
        """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._stored = handle.getListState(self.STATE_NAME, _STATE)

    def close(self) -> None:
        pass

    def handleInputRows(
        self, key: tuple[object, ...], rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        # the order of rows from several tasks is arbitrary
        ordered = sorted(rows, key=lambda row: (row[TASK], row[PLACE]))
        blocks = [bytes(row[EVENTS]) for row in ordered]
        return self._results(key, blocks, timerValues.getCurrentWatermarkInMs(), None)

    def handleExpiredTimer(
        self,
        key: tuple[object, ...],
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        expired = expiredTimerInfo.getExpiryTimeInMs()
        return self._results(key, (), timerValues.getCurrentWatermarkInMs(), expired)

    def _results(
        self,
        key: tuple[object, ...],
        blocks: Sequence[bytes],
        watermark: int,
        expired: int | None,
    ) -> Iterator[Row]:
        stored = [bytes(value) for (value,) in self._stored.get()]
        visit = self.visit(key, stored, blocks, self._clock.horizon(max(0, watermark)))
        if visit.replaced == b"":
            self._stored.clear()
        elif visit.replaced is not None:
            self._stored.put([(visit.replaced,)])
        elif visit.appended is not None:
            self._stored.appendValue((visit.appended,))
        self._set_timer(self._timer(visit.wakeup_before), self._timer(visit.wakeup), expired)
        yield from visit.rows

    def _timer(self, wakeup: int | None) -> int | None:
        """The watermark at which a group has to be visited again, or None."""
        return None if wakeup is None else self._clock.timer(wakeup)

    def _set_timer(self, before: int | None, after: int | None, expired: int | None) -> None:
        if before == after:
            return
        # Spark removes the expired timer
        if before is not None and before != expired:
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)
