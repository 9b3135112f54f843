"""What stateful processors of streaming queries share: blocks in order, a journal, one timer."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from mtlmon.errors import MtlmonError
from mtlmon.spark.streaming.journal import Head, Holding, Journal
from mtlmon.spark.streaming.packing import EVENTS, PLACE, TASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        MapState,
        StatefulProcessorHandle,
        TimerValues,
    )

    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.journal import Held

__all__ = ["ENTRY", "PLACE_OF_ENTRY", "TimedProcessor", "Visit", "batch_number"]

PLACE_OF_ENTRY, ENTRY = "place", "state"
_PLACE = StructType([StructField(PLACE_OF_ENTRY, LongType())])
_ENTRY = StructType([StructField(ENTRY, BinaryType())])
_HEAD = StructType(
    [
        StructField("version", BinaryType()),
        StructField("entries", LongType()),
        StructField("first", LongType()),
        StructField("later", LongType()),
        StructField("wakeup", LongType()),
    ]
)

_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"

_HOLDING = Holding()
"""What this worker has in memory between batches."""


class Visit(NamedTuple):
    """What a visit of a group leaves.

    Attributes:
        wakeup: the least horizon at which there is something to do without new rows, or None.
        appended: bytes to store behind those that are stored, or None.
        replaced: bytes to store in place of all that are stored, or None; without bytes, nothing is
            stored any more.
        rows: rows of results.
        held: what stays in memory, which has all that is stored then; None if nothing does.
    """

    wakeup: int | None
    appended: bytes | None
    replaced: bytes | None
    rows: Iterable[Row]
    held: Held | None = None


class TimedProcessor(StatefulProcessor):
    """Visits the state of a group when packed rows come, or when its timer expires; picklable.

    The state is a journal. Each group has at most one timer, which expires when the watermark
    reaches its next wake-up.

    Args:
        clock: the clock of the query.
    """

    STATE_NAME: ClassVar[str]
    """The name of the entries of journals in Spark's state store."""

    held_as = b""
    """What is in memory between batches is used only by a processor that has the same."""

    def __init__(self, clock: EventClock) -> None:
        self._clock = clock

    @abstractmethod
    def visit(
        self,
        key: tuple[object, ...],
        journal: Journal,
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        """Let a group take packed rows, and the time up to a horizon.

        Args:
            key: the key of the group.
            journal: its state, which is empty at first.
            blocks: its rows in this batch, packed, in the order in which tasks have packed them.
            horizon: rows with time-stamps below it are late; no more of them come.
        """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._heads = handle.getValueState(f"{self.STATE_NAME}_head", _HEAD)
        self._entries = handle.getMapState(self.STATE_NAME, _PLACE, _ENTRY)

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
        found = self._heads.get()
        head = None if found is None else Head(bytes(found[0]), *found[1:])
        name = (_property(_QUERY), self.STATE_NAME, self.held_as, key)
        journal = Journal(head, _Entries(self._entries), _HOLDING, name)
        visit = self.visit(key, journal, blocks, self._clock.horizon(max(0, watermark)))
        after = self._store(head, visit)
        if visit.held is not None and after is not None:
            journal.hold(visit.held, after)
        wakeup = None if after is None else after.wakeup
        self._set_timer(self._timer(journal.wakeup), self._timer(wakeup), expired)
        yield from visit.rows

    def _store(self, head: Head | None, visit: Visit) -> Head | None:
        """Store what a visit leaves; return the head of the journal."""
        if visit.replaced is not None:
            if head is not None:
                self._entries.clear()
            if not visit.replaced:
                self._heads.clear()
                return None
            after = Head.of(visit.replaced, visit.wakeup)
            self._entries.updateValue((0,), (visit.replaced,))
        elif head is None:
            return None
        elif visit.appended is not None:
            after = head.followed(visit.appended, visit.wakeup)
            self._entries.updateValue((head.entries,), (visit.appended,))
        else:
            after = head._replace(wakeup=visit.wakeup)
        if after != head:
            self._heads.update(tuple(after))
        return after

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


class _Entries:
    """The entries of the present group in Spark's state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def read(self, first: int, count: int) -> list[bytes]:
        if first == 0 and count > 1:
            # in one message; in any order
            found = {place: content for (place,), (content,) in self._state.iterator()}
            return [bytes(found[place]) for place in range(count) if place in found]
        values = (self._state.getValue((place,)) for place in range(first, count))
        return [bytes(value[0]) for value in values if value is not None]


def _property(name: str) -> str | None:
    """A property of the task that is executed, or None."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def batch_number() -> int:
    """The number of the batch that is executed."""
    number = _property(_BATCH)
    if number is None:
        raise MtlmonError("Spark does not tell the number of the batch, which states need to know")
    return int(number)
