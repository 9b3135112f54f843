"""The stateful processor that Spark calls for the groups of all streaming queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from mtlmon.errors import MtlmonError
from mtlmon.spark.streaming.exchange import (
    ARRIVED,
    EVENTS,
    LATEST,
    OF_RELATIONS,
    PLACE,
    RECORDS,
    RESULTS,
    TASK,
)
from mtlmon.spark.streaming.journal import Head, Holding, Journal
from mtlmon.spark.streaming.nodes import Sent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        MapState,
        StatefulProcessorHandle,
        TimerValues,
    )

    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.exchange import Pack
    from mtlmon.spark.streaming.nodes import Host, Visit

__all__ = ["ENTRY", "PLACE_OF_ENTRY", "NodeProcessor", "batch_number", "hosted"]

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


def hosted(
    rows: DataFrame,
    pack: Pack,
    host: Host,
    clock: EventClock,
    delay: int | None,
    others: DataFrame | None = None,
    *,
    behind: int = 0,
) -> DataFrame:
    """Return the results of the groups of rows.

    Args:
        rows: the rows.
        pack: packs them.
        host: has the groups visited.
        clock: the clock of the query.
        delay: that of the watermark in milliseconds; None if the rows have a watermark.
        others: other packed rows, without a time; None if there are none.
        behind: how far the watermark is behind the latest time, in milliseconds.
    """
    packed = rows.mapInArrow(pack, pack.schema)
    if delay is not None:
        packed = packed.withWatermark(LATEST, f"{delay} milliseconds")
    # without the column that has the watermark, as Spark would drop late rows
    sent = packed.drop(LATEST)
    if others is not None:
        sent = sent.union(others)
    return sent.groupBy(pack.schema.names[0]).transformWithState(
        statefulProcessor=NodeProcessor(host, clock, behind),
        outputStructType=RESULTS,
        outputMode="Append",
        timeMode="EventTime",
    )


class NodeProcessor(StatefulProcessor):
    """Visits the node of a group when packed rows come, or when its timer expires; picklable.

    The state is a journal. Each group has at most one timer, which expires when the watermark
    reaches its next wake-up.

    Args:
        host: what nodes are visited by.
        clock: the clock of the query.
        behind: how far the watermark is behind the latest time, in milliseconds.
    """

    def __init__(self, host: Host, clock: EventClock, behind: int = 0) -> None:
        self._host = host
        self._clock = clock
        self._behind = behind

    def init(self, handle: StatefulProcessorHandle) -> None:
        name = self._host.state_name
        self._handle = handle
        self._heads = handle.getValueState(f"{name}_head", _HEAD)
        self._entries = handle.getMapState(name, _PLACE, _ENTRY)
        self._machine = self._host.open()

    def close(self) -> None:
        self._machine.close()

    def handleInputRows(
        self, key: tuple[object, ...], rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        # the order of rows from several tasks is arbitrary
        ordered = sorted(rows, key=lambda row: (row[TASK], row[PLACE]))
        side = None
        blocks = []
        for row in ordered:
            if row[TASK] == OF_RELATIONS:
                side = bytes(row[EVENTS])
            else:
                blocks.append(bytes(row[EVENTS]))
        return self._results(key, blocks, side, timerValues.getCurrentWatermarkInMs(), None)

    def handleExpiredTimer(
        self,
        key: tuple[object, ...],
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        expired = expiredTimerInfo.getExpiryTimeInMs()
        return self._results(key, (), None, timerValues.getCurrentWatermarkInMs(), expired)

    def _results(
        self,
        key: tuple[object, ...],
        blocks: Sequence[bytes],
        side: bytes | None,
        watermark: int,
        expired: int | None,
    ) -> Iterator[Row]:
        found = self._heads.get()
        head = None if found is None else Head(bytes(found[0]), *found[1:])
        host = self._host
        name = (_property(_QUERY), host.state_name, host.held_as, key)
        journal = Journal(head, _Entries(self._entries), _HOLDING, name)
        horizon = self._clock.horizon(max(0, watermark))
        sent = Sent(blocks, horizon, key, side, batch_number())
        visit = self._machine.visit(journal, sent)
        if visit is None:
            return
        after = self._store(head, visit)
        if after is not None:
            journal.hold(visit.node, after)
        wakeup = None if after is None else after.wakeup
        self._set_timer(self._timer(journal.wakeup), self._timer(wakeup), expired)
        arrived = self._clock.horizon(watermark + self._behind) if watermark > 0 else None
        for content in host.results(sent, visit):
            yield Row(**{RECORDS: content, ARRIVED: arrived})

    def _store(self, head: Head | None, visit: Visit[Any]) -> Head | None:
        """Store what a visit leaves; return the head of the journal."""
        if visit.replaced is not None:
            if head is not None:
                self._entries.clear()
            if not visit.replaced:
                self._heads.clear()
                return None
            after = Head.of(visit.replaced, visit.wakeup)
            self._entries.updateValue((0,), (visit.replaced,))
        else:
            assert head is not None
            if visit.appended is not None:
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
