"""The stateful processor that Spark calls for the keys of a streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Row
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
from mtlmon.spark.streaming.packing import KEY
from mtlmon.spark.streaming.stateful import TimedProcessor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.event_records import EventRecords
    from mtlmon.spark.streaming.key_state import Outcome

KIND = "mtlmon_kind"
"""The column with the number of the policy of the verdicts, or `LATE` for late events."""

RECORDS = "mtlmon_records"
"""The column with the bytes of verdict records or of late events."""

MESSAGES = "mtlmon_messages"
"""The column with the messages of the false verdicts among the records; null if there are none."""

LATE = -1


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


class KeyProcessor(TimedProcessor[KeyState]):
    """Monitors keys; their state is in Spark's state store as bytes of `KeyState`; picklable.

    A key's timer expires when the watermark has passed the first of the waiting events, or when the
    passing of time can decide a verdict.

    Args:
        policies: the policies to monitor.
        records: how events are encoded.
        clock: the clock of the query.
        settings: digests of the settings that states depend on.
        source: how rows become events, if there are streams; else None.
    """

    STATE_NAME = "monitors"

    def __init__(
        self,
        policies: Policies,
        records: EventRecords,
        clock: EventClock,
        settings: bytes,
        source: EventSource | None = None,
    ) -> None:
        super().__init__(clock)
        self._policies = policies
        self._source = source
        self._settings = settings
        self._records = records

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._streams = None
        if self._source is not None:
            self._streams = KeyStreams(self._source, self._records)
        self._monitors = KeyMonitors(self._policies, self._records, self._settings, self._streams)

    def close(self) -> None:
        if self._streams is not None:
            self._streams.report()

    def decoded(self, encoded: bytes) -> KeyState:
        return KeyState.decoded(encoded)

    def visit(
        self,
        key: tuple[object, ...],
        state: KeyState | None,
        blocks: Sequence[bytes],
        horizon: int,
    ) -> tuple[KeyState | None, Iterable[Row]]:
        if self._streams is not None:
            self._streams.begin_key(key)
        outcome = self._monitors.visit(state, blocks, horizon)
        return outcome.state, _rows(key, outcome)


def _rows(key: tuple[object, ...], outcome: Outcome) -> Iterator[Row]:
    """The results of a visit."""
    keys = {KEY.format(number): value for number, value in enumerate(key)}
    for number, records in outcome.verdicts:
        messages = outcome.messages.get(number)
        yield Row(**keys, **{KIND: number, RECORDS: records, MESSAGES: messages})
    if outcome.late:
        yield Row(**keys, **{KIND: LATE, RECORDS: outcome.late, MESSAGES: None})
