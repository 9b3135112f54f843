"""What stateful processors of streaming queries share: blocks in order, a state, one timer."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

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

__all__ = ["StoredState", "TimedProcessor"]

_STATE = StructType([StructField("state", BinaryType())])


class StoredState(Protocol):
    """A state that rests in Spark's state store between two batches."""

    @property
    def next_wakeup(self) -> int | None:
        """The least horizon at which there is something to do without new rows, or None."""

    def encoded(self) -> bytes:
        """Encode the state as bytes."""


_State = TypeVar("_State", bound=StoredState)


class TimedProcessor(StatefulProcessor, Generic[_State]):
    """Visits the state of a group when packed rows come, or when its timer expires; picklable.

    Each group has at most one timer, which expires when the watermark reaches `next_wakeup`.

    Args:
        clock: the clock of the query.
    """

    STATE_NAME: ClassVar[str]
    """The name of the state in Spark's state store."""

    def __init__(self, clock: EventClock) -> None:
        self._clock = clock

    @abstractmethod
    def decoded(self, encoded: bytes) -> _State:
        """Decode a state from bytes.

        Raises:
            SnapshotError: the bytes are not a state, or belong to another version.
        """

    @abstractmethod
    def visit(
        self,
        key: tuple[object, ...],
        state: _State | None,
        blocks: Sequence[bytes],
        horizon: int,
    ) -> tuple[_State | None, Iterable[Row]]:
        """Let a group take packed rows, and the time up to a horizon.

        Args:
            key: the key of the group.
            state: its state, or None if there is none.
            blocks: its rows in this batch, packed, in the order in which tasks have packed them.
            horizon: rows with time-stamps below it are late; no more of them come.

        Returns:
            The new state, or None if there is nothing to remember, and rows of results.
        """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._stored = handle.getValueState(self.STATE_NAME, _STATE)

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
        stored = self._stored.get()
        before = None if stored is None else self.decoded(bytes(stored[0]))
        after, rows = self.visit(key, before, blocks, self._clock.horizon(max(0, watermark)))
        if after is None:
            self._stored.clear()
        elif after != before:
            self._stored.update((after.encoded(),))
        self._set_timer(self._timer(before), self._timer(after), expired)
        yield from rows

    def _timer(self, state: _State | None) -> int | None:
        """The watermark at which a state has to be visited again, or None."""
        if state is None or state.next_wakeup is None:
            return None
        return self._clock.timer(state.next_wakeup)

    def _set_timer(self, before: int | None, after: int | None, expired: int | None) -> None:
        if before == after:
            return
        # Spark removes the expired timer
        if before is not None and before != expired:
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)
