"""Has the buckets of a streaming query visited, and makes rows of what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from mtlmon.engine.pending import decision_delay
from mtlmon.spark.streaming.bucket_state import BucketMonitors
from mtlmon.spark.streaming.key_streams import KeyStreams
from mtlmon.spark.streaming.lateness import Admission
from mtlmon.spark.streaming.nodes import Host
from mtlmon.spark.streaming.shared_monitors import digest_of, monitors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.bucket_state import Answers, OwnedRecords
    from mtlmon.spark.streaming.nodes import Sent, Visit

KIND = "mtlmon_kind"
"""The column with the number of the policy of the verdicts, or `LATE` for late events."""

KEYS = "mtlmon_keys"
"""The column with the keys, as a record batch of Arrow."""

OWNERS = "mtlmon_owners"
"""The column with the indices of the keys of records, as bytes of integers of 32 bits."""

RECORDS = "mtlmon_records"
"""The column with the bytes of records of verdicts, of changes of verdicts, or of late events.

It is null in rows that only say what is final.
"""

MESSAGES = "mtlmon_messages"
"""The column with the messages of the false verdicts among the records; null if there are none."""

BATCH = "mtlmon_batch"
"""The column with the number of the batch."""

FINAL_BELOW = "mtlmon_final_below"
"""The column with the time-stamp below which verdicts are final; null if there is none."""

LATE = -1

RESULTS = StructType(
    [
        StructField(KIND, IntegerType()),
        StructField(KEYS, BinaryType()),
        StructField(OWNERS, BinaryType()),
        StructField(RECORDS, BinaryType()),
        StructField(MESSAGES, ArrayType(StringType())),
        StructField(BATCH, LongType()),
        StructField(FINAL_BELOW, LongType()),
    ]
)
"""The columns of results."""


class BucketHost(Host):
    """Has buckets of keys visited.

    A bucket is visited when the watermark has passed the first of the waiting events of any of its
    keys, or when the passing of time can decide a verdict. Where late events correct verdicts,
    bucket 0 also says what is final, whenever the horizon has moved.

    Args:
        policies: the policies to monitor.
        records: how blocks and segments are encoded.
        source: how rows become events, if there are streams; else None.
        lateness: how far below the horizon events are taken in; None if they correct nothing.
    """

    state_name = "bucket"
    results = RESULTS

    def __init__(
        self,
        policies: Policies,
        records: BucketRecords,
        source: EventSource | None = None,
        lateness: int | None = None,
    ) -> None:
        self._policies = policies
        self._records = records
        self._source = source
        self._admission = Admission(lateness)
        self._digest = digest_of(policies)
        # what is in memory was made with the same settings by the same policies
        self.held_as = records.settings + self._digest
        self._delays = [
            decision_delay(one.program.rows, one.program.root) for one in policies.policies
        ]

    def open(self) -> BucketMonitors:
        shared = monitors_of(self._policies, self._digest)
        streams = None
        if self._source is not None:
            streams = KeyStreams(self._source, self._records.events)
        lateness = self._admission.lateness
        return BucketMonitors(self._policies, self._records, shared, streams, lateness)

    def rows(self, sent: Sent, visit: Visit[Answers]) -> Iterator[Row]:
        bounds = self._admission.final_below(self._delays, sent.horizon)
        verdicts, late = visit.answers
        for number, found in verdicts.items():
            yield self._row(sent, number, bounds[number], found)
        if late is not None:
            yield self._row(sent, LATE, None, late)
        if self._admission.corrects and sent.key == (0,) and visit.was_due:
            for number, bound in enumerate(bounds):
                if bound is not None:
                    yield self._row(sent, number, bound)

    def _row(
        self, sent: Sent, kind: int, bound: int | None, found: OwnedRecords | None = None
    ) -> Row:
        row: dict[str, object] = dict.fromkeys(RESULTS.names)
        row |= {KIND: kind, BATCH: sent.batch, FINAL_BELOW: bound}
        if found is not None:
            keys = pa.RecordBatch.from_arrays(found.keys, schema=self._records.keys)
            row |= {
                KEYS: keys.serialize().to_pybytes(),
                OWNERS: found.owners.tobytes(),
                RECORDS: found.records,
                MESSAGES: found.messages,
            }
        return Row(**row)
