"""The stateful processor that Spark calls for the buckets of a streaming query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from mtlmon.spark.streaming.bucket_state import BucketMonitors
from mtlmon.spark.streaming.key_streams import KeyStreams
from mtlmon.spark.streaming.packing import EVENTS, OF_RELATIONS, TASK
from mtlmon.spark.streaming.shared_monitors import digest_of, monitors_of
from mtlmon.spark.streaming.stateful import TimedProcessor, Visit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.bucket_state import Outcome, OwnedRecords
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

KIND = "mtlmon_kind"
"""The column with the number of the policy of the verdicts, or `LATE` for late events."""

KEYS = "mtlmon_keys"
"""The column with the keys, as a record batch of Arrow."""

OWNERS = "mtlmon_owners"
"""The column with the indices of the keys of records, as bytes of integers of 32 bits."""

RECORDS = "mtlmon_records"
"""The column with the bytes of verdict records or of late events."""

MESSAGES = "mtlmon_messages"
"""The column with the messages of the false verdicts among the records; null if there are none."""

LATE = -1

RESULTS = StructType(
    [
        StructField(KIND, IntegerType()),
        StructField(KEYS, BinaryType()),
        StructField(OWNERS, BinaryType()),
        StructField(RECORDS, BinaryType()),
        StructField(MESSAGES, ArrayType(StringType())),
    ]
)
"""The columns of results."""


class BucketProcessor(TimedProcessor):
    """Monitors buckets of keys, whose segments are in Spark's state store; picklable.

    The timer of a bucket expires when the watermark has passed the first of the waiting events of
    any of its keys, or when the passing of time can decide a verdict.

    Args:
        policies: the policies to monitor.
        records: how blocks and segments are encoded.
        clock: the clock of the query.
        source: how rows become events, if there are streams; else None.
    """

    STATE_NAME = "bucket"

    def __init__(
        self,
        policies: Policies,
        records: BucketRecords,
        clock: EventClock,
        source: EventSource | None = None,
    ) -> None:
        super().__init__(clock)
        self._policies = policies
        self._source = source
        self._records = records
        self._digest = digest_of(policies)
        # what is in memory was made with the same settings by the same policies
        self.held_as = records.settings + self._digest

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._streams = None
        if self._source is not None:
            self._streams = KeyStreams(self._source, self._records.events)
        self._monitors = self._bucket_monitors(monitors_of(self._policies, self._digest))

    def _bucket_monitors(self, shared: SharedMonitors) -> BucketMonitors:
        """Return what lets buckets take events."""
        return BucketMonitors(self._policies, self._records, shared, self._streams)

    def close(self) -> None:
        if self._streams is not None:
            self._streams.report()

    def handleInputRows(
        self, key: tuple[object, ...], rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        if self._streams is None:
            return super().handleInputRows(key, rows, timerValues)
        of_bucket, told = [], None
        for row in rows:
            if row[TASK] == OF_RELATIONS:
                told = bytes(row[EVENTS])
            else:
                of_bucket.append(row)
        self._streams.hear(told)
        return super().handleInputRows(key, iter(of_bucket), timerValues)

    def visit(
        self,
        key: tuple[object, ...],
        journal: Journal,
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        if journal.head is None and not blocks:
            # a bucket without keys hears of relations
            return Visit(None, None, None, ())
        found = self._monitors.visit(journal, blocks, horizon)
        return Visit(found.wakeup, found.appended, found.folded, self._rows(found), found.live)

    def _rows(self, outcome: Outcome) -> Iterator[Row]:
        """The results of a visit."""
        for number, verdicts in outcome.verdicts.items():
            yield self._row(number, verdicts)
        if outcome.late is not None:
            yield self._row(LATE, outcome.late)

    def _row(self, kind: int, found: OwnedRecords) -> Row:
        keys = pa.RecordBatch.from_arrays(found.keys, schema=self._records.keys)
        return Row(
            **{
                KIND: kind,
                KEYS: keys.serialize().to_pybytes(),
                OWNERS: found.owners.tobytes(),
                RECORDS: found.records,
                MESSAGES: found.messages,
            }
        )
