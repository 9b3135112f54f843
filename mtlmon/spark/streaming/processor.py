"""The stateful processor that Spark calls for the keys of a streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from mtlmon.spark.streaming.key_state import KeyMonitors, KeyState
from mtlmon.spark.streaming.key_streams import KeyStreams
from mtlmon.spark.streaming.packing import EVENTS, KEY, PLACE, TASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.event_records import EventRecords

KIND = "mtlmon_kind"
"""The column with the number of the policy of the verdicts, or `LATE` for late events."""

RECORDS = "mtlmon_records"
"""The column with the bytes of verdict records or of late events."""

MESSAGES = "mtlmon_messages"
"""The column with the messages of the false verdicts among the records; null if there are none."""

LATE = -1

_STATE = StructType([StructField("state", BinaryType())])


def results_schema(packed: StructType) -> StructType:
    """Return the columns of the processor's results for those of packed rows."""
    keys = [field for field in packed if field.name.startswith(KEY.format(""))]
    return StructType(
        [
            *keys,
            StructField(KIND, IntegerType()),
            StructField(RECORDS, BinaryType()),
            StructField(MESSAGES, ArrayType(StringType())),
        ]
    )


class KeyProcessor(StatefulProcessor):
    """Monitors keys; their state is in Spark's state store as bytes of `KeyState`; picklable.

    Each key has at most one timer. It expires when the watermark has passed the first of the
    waiting events, or when the passing of time can decide a verdict.

    Args:
        policies: the policies to monitor.
        records: how events are encoded.
        clock: the clock of the query.
        settings: digests of the settings that states depend on.
        source: how rows become events, if there are streams; else None.
    """

    def __init__(
        self,
        policies: Policies,
        records: EventRecords,
        clock: EventClock,
        settings: bytes,
        source: EventSource | None = None,
    ) -> None:
        self._policies = policies
        self._source = source
        self._settings = settings
        self._records = records
        self._clock = clock

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("monitors", _STATE)
        self._streams = None
        if self._source is not None:
            self._streams = KeyStreams(self._source, self._records)
        self._monitors = KeyMonitors(self._policies, self._records, self._settings, self._streams)

    def close(self) -> None:
        if self._streams is not None:
            self._streams.report()

    def handleInputRows(
        self, key: tuple[object, ...], rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        # the order of rows from several tasks is arbitrary
        blocks = [row[EVENTS] for row in sorted(rows, key=lambda row: (row[TASK], row[PLACE]))]
        return self._visit(key, blocks, timerValues.getCurrentWatermarkInMs(), None)

    def handleExpiredTimer(
        self,
        key: tuple[object, ...],
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        expired = expiredTimerInfo.getExpiryTimeInMs()
        return self._visit(key, (), timerValues.getCurrentWatermarkInMs(), expired)

    def _visit(
        self,
        key: tuple[object, ...],
        blocks: Sequence[bytes],
        watermark: int,
        expired: int | None,
    ) -> Iterator[Row]:
        if self._streams is not None:
            self._streams.begin_key(key)
        stored = self._state.get()
        state = None if stored is None else KeyState.decoded(bytes(stored[0]))
        outcome = self._monitors.visit(state, blocks, self._clock.horizon(max(0, watermark)))
        if outcome.state is None:
            self._state.clear()
        elif outcome.state != state:
            self._state.update((outcome.state.encoded(),))
        self._set_timer(self._timer(state), self._timer(outcome.state), expired)
        keys = {KEY.format(number): value for number, value in enumerate(key)}
        for number, records in outcome.verdicts:
            messages = outcome.messages.get(number)
            yield Row(**keys, **{KIND: number, RECORDS: records, MESSAGES: messages})
        if outcome.late:
            yield Row(**keys, **{KIND: LATE, RECORDS: outcome.late, MESSAGES: None})

    def _timer(self, state: KeyState | None) -> int | None:
        """The watermark at which a state has to be visited again, or None."""
        return (
            None
            if state is None or state.next_wakeup is None
            else self._clock.timer(state.next_wakeup)
        )

    def _set_timer(self, before: int | None, after: int | None, expired: int | None) -> None:
        if before == after:
            return
        # Spark removes the expired timer
        if before is not None and before != expired:
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)
