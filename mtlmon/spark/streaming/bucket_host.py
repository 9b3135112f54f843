"""Has the buckets of a streaming query visited, and makes rows of what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.engine.pending import decision_delay
from mtlmon.history.changes import change_type
from mtlmon.spark.common.changelog import FINAL, REVISION
from mtlmon.spark.common.trace_monitors import Found
from mtlmon.spark.common.verdicts import LATE_ATOMS, POLICY, verdict_batches
from mtlmon.spark.streaming.bucket_state import BucketMonitors
from mtlmon.spark.streaming.changes import verdicts_of, with_changes
from mtlmon.spark.streaming.exchange import packed_rows
from mtlmon.spark.streaming.key_streams import KeyStreams
from mtlmon.spark.streaming.lateness import Admission
from mtlmon.spark.streaming.nodes import Host
from mtlmon.spark.streaming.shared_monitors import digest_of, monitors_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.bucket_state import Answers, OwnedRecords
    from mtlmon.spark.streaming.nodes import Sent, Visit


class BucketHost(Host):
    """Has buckets of keys visited.

    A bucket is visited when the watermark has passed the first of the waiting events of any of its
    keys, or when the passing of time can decide a verdict. Where late events correct verdicts,
    bucket 0 also says what is final, whenever the horizon has moved.

    Args:
        policies: the policies to monitor.
        records: how blocks and segments are encoded.
        keys: the names of the key columns.
        source: how rows become events, if there are streams; else None.
        lateness: how far below the horizon events are taken in; None if they correct nothing.
    """

    state_name = "bucket"

    def __init__(
        self,
        policies: Policies,
        records: BucketRecords,
        keys: Sequence[str],
        source: EventSource | None = None,
        lateness: int | None = None,
    ) -> None:
        self._policies = policies
        self._records = records
        self._keys = keys
        self._names = [one.name for one in policies.policies]
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

    def results(self, sent: Sent, visit: Visit[Answers]) -> Iterable[bytes]:
        return map(packed_rows, self._rows(sent, visit))

    def _rows(self, sent: Sent, visit: Visit[Answers]) -> Iterator[pa.RecordBatch]:
        """Rows of `stream_schema`, without columns in which they are null."""
        bounds = self._admission.final_below(self._delays, sent.horizon)
        verdicts, late = visit.answers
        for number, found in verdicts.items():
            if self._admission.corrects:
                yield from self._changes(number, found, sent.batch, bounds[number])
            else:
                yield from self._verdicts(number, found)
        if late is not None:
            events = self._records.events
            rows = events.read(late.records)
            columns = self._columns(late)
            columns |= {"time": pa.array(rows[:, 0]), LATE_ATOMS: events.atom_lists(rows)}
            yield pa.RecordBatch.from_pydict(columns)
        if self._admission.corrects and sent.key == (0,) and visit.was_due:
            for name, bound in zip(self._names, bounds, strict=True):
                if bound is not None:
                    row = {POLICY: name, REVISION: sent.batch, FINAL: bound}
                    yield pa.RecordBatch.from_pylist([row])

    def _columns(self, found: OwnedRecords) -> dict[str, pa.Array]:
        """The key columns; without keys, leave out the constant that takes their place."""
        return dict(zip(self._keys, found.keys, strict=False))

    def _verdicts(self, number: int, found: OwnedRecords) -> Iterator[pa.RecordBatch]:
        given = Found(self._names[number], found.records, found.owners, found.messages or ())
        has_messages = self._policies.has_messages
        return verdict_batches(given, self._columns(found), has_messages=has_messages)

    def _changes(
        self, number: int, found: OwnedRecords, revision: int, final: int | None
    ) -> Iterator[pa.RecordBatch]:
        changes = np.frombuffer(found.records, change_type())
        found = found._replace(records=verdicts_of(changes).tobytes())
        start = 0
        for verdicts in self._verdicts(number, found):
            operations = changes["operation"][start : start + verdicts.num_rows]
            start += len(operations)
            finals = pa.repeat(pa.scalar(final, pa.int64()), len(operations))
            yield with_changes(verdicts, operations, finals, revision)
