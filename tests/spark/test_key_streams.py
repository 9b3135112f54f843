"""Windows and streams of a key that rests as bytes between batches, against one machine."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon import SnapshotError, Verdict, resolve
from mtlmon.errors import TableError
from mtlmon.spark import RowCounts, SkippedRowsWarning, monitor_stream, resolve_verdicts
from mtlmon.verdict_arrays import VerdictArray, verdict_type
from tests.doors import (
    NO_SETTINGS,
    BucketMonitors,
    BucketRecords,
    EventClock,
    EventRecords,
    KeyStreams,
    PackRows,
    Sent,
    key_types,
    stream_columns,
    stream_settings,
)
from tests.spark.buckets import KeptJournal, Worker
from tests.spark.streams import put, state_store, streaming
from tests.spark.test_trace_streams import (
    LOG,
    POLICY,
    TABLE,
    counted,
    log_rows,
    logs,
    policy_texts,
    source_of,
    table,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.doors import EventSource
    from tests.streams.programs import Row

END = 2**62 + 10**6


class Query:
    """The buckets of a query: each is looked at when rows come, or when it wants to be.

    Args:
        source: the policies, and how rows become events.
        tasks: how many tasks read the rows of a batch, if their number is odd.
        buckets: how many buckets there are.
    """

    def __init__(
        self,
        source: EventSource,
        tasks: int = 2,
        buckets: int = 2,
        *,
        is_counted: bool = False,
    ) -> None:
        self.source = source
        self.tasks = tasks
        self.buckets = buckets
        self.visits = 0
        self.messages: dict[tuple[int, int], list[str | None]] = {}
        schema = pa.schema([TABLE.field(name) for name in source.selection.names])
        read = stream_columns(source, schema)
        events = EventRecords(source.policies.atoms, 0, read)
        self.records = BucketRecords(events, key_types(source.keys, schema), NO_SETTINGS)
        self.journals = [KeptJournal(is_counted=is_counted) for _ in range(buckets)]
        self.verdicts: dict[tuple[int, int], list[Verdict]] = {}
        self.late = 0
        self.restart()

    def restart(self) -> None:
        """Go on in another process."""
        streams = None
        if self.records.events.schema is not None:
            streams = KeyStreams(self.source, self.records.events)
        policies = self.source.policies
        self.worker = Worker.of(policies)
        self.monitors = BucketMonitors(policies, self.records, self.worker.shared, streams)

    def resume(self, rows: Sequence[Row], horizon: int) -> None:
        blocks: dict[int, list[bytes]] = {}
        packer = PackRows(self.source, self.records, EventClock(1, 1000), self.buckets)
        for part in (rows[::2], rows[1::2]) if len(rows) % 2 and self.tasks == 2 else (rows,):
            cells = [{"ts": time, "k": key, **one} for time, key, one in part]
            batch = pa.RecordBatch.from_pylist(cells, TABLE).select(self.source.selection.names)
            for packed in packer(iter([batch])):
                for bucket, block in zip(packed.column(0), packed.column(3), strict=True):
                    blocks.setdefault(bucket.as_py(), []).append(block.as_py())
        for bucket in range(self.buckets):
            head = self.journals[bucket].head
            is_due = head is not None and head.wakeup is not None and head.wakeup <= horizon
            if bucket in blocks or is_due:
                self._visit(bucket, blocks.get(bucket, []), horizon)

    def _visit(self, bucket: int, blocks: list[bytes], horizon: int) -> None:
        self.visits += 1
        journal = self.journals[bucket].seen_by(self.worker, bucket)
        visit = self.monitors.visit(journal, Sent(blocks, horizon))
        assert visit is not None
        self.journals[bucket].store(journal, visit)
        outcome = visit.answers
        for number, found in outcome.verdicts.items():
            keys = found.keys[0].to_pylist()
            verdicts = VerdictArray(np.frombuffer(found.records, verdict_type()))
            texts = iter(found.messages or ())
            for owner, verdict in zip(found.owners.tolist(), verdicts, strict=True):
                own = keys[owner], number
                self.verdicts.setdefault(own, []).append(verdict)
                if found.messages is not None and verdict.value is False:
                    self.messages.setdefault(own, []).append(next(texts))
            assert not list(texts)
        if outcome.late is not None:
            self.late += len(outcome.late.owners)

    @property
    def keys(self) -> set[int]:
        """The keys that something is remembered of."""
        return {key for one in self.journals for key in one.keys(self.records)}


@given(policy_texts(), logs(), st.data())
def test_each_key_is_monitored_as_on_one_machine(
    text: str, log: list[Row], data: st.DataObject
) -> None:
    query = Query(source_of(text, "skip"), is_counted=True)
    sent: list[Row] = []
    horizon = late = 0
    rest = log
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        batch, rest = data.draw(st.permutations(rest[:count])), rest[count:]
        if data.draw(st.booleans()):
            query.restart()
        query.resume(batch, horizon)
        on_time = [row for row in batch if row[0] >= horizon]
        # each task has every other row
        sent += (
            on_time
            if len(batch) % 2 == 0
            else [row for part in (batch[::2], batch[1::2]) for row in part if row[0] >= horizon]
        )
        late += len(batch) - len(on_time)
        horizon = max(horizon, max(row[0] for row in batch) - data.draw(st.integers(-1, 6)))
    query.resume([], END)
    rows = [{"ts": time, "k": key, **cells} for time, key, cells in sent]
    rows.sort(key=lambda row: row["ts"])
    expected = truth(pa.Table.from_pylist(rows, TABLE), text, key="k", on_error="skip")
    found = [
        {
            "policy": query.source.policies.policies[number].name,
            "k": key,
            "time": one.time_stamp,
            "offset": one.offset,
            "verdict": one.value,
        }
        for (key, number), verdicts in query.verdicts.items()
        for one in resolve(verdicts)
    ]
    assert counted(found) == expected
    assert query.late == late


@pytest.mark.parametrize(
    ("text", "forgotten_at"),
    [
        ("count[0,5](i > 2) < 2", 9),
        ("count[2,5](i > 2) < 2 AND ONCE[0,8] b", 12),
        ("i.last(or: 0) < 2", None),
        ("integral[0,5](i, or: 0) < 9", None),
        ("sum[0,inf](i) < 9", None),
        ("count[0,5](i > 7) < 2", 4),
    ],
)
def test_keys_are_forgotten_once_no_row_matters(text: str, forgotten_at: int | None) -> None:
    row = {"i": 5, "f": None, "b": True, "s": None}
    for now in range(4, 40, 3):
        query = Query(source_of(f"policy p: {text}"), buckets=1)
        query.resume([(3, 1, row)], 0)
        # the rows of another key let the segments be folded
        for _ in range(40):
            query.resume([(now + 100, 2, row)], now)
        is_removed = forgotten_at is not None and now >= forgotten_at
        assert (1 not in query.keys) is is_removed, now


def test_texts_of_rows_that_no_longer_matter_are_not_kept() -> None:
    query = Query(source_of('policy p: distinct[0,5](s) < 3 AND s.last(or: "") != "x"'), buckets=1)
    for number in range(300):
        row = {"i": None, "f": None, "b": None, "s": f"text {number}"}
        query.resume([(number, 1, row)], number)
    assert max(map(len, query.journals[0].entries)) < 4000
    assert sum(one.value is False for one in query.verdicts[1, 0]) > 200


def test_changed_streams_are_noticed() -> None:
    one = "stream s = count[0,5](i > 2)\npolicy p: s < 3"
    settings = []
    for text in (one, one.replace("> 2", "> 3"), one.replace("0,5", "0,6")):
        source = source_of(text)
        schema = pa.schema([TABLE.field(name) for name in source.selection.names])
        settings.append(stream_settings(source, [], schema, 2))
        place = schema.get_field_index("i")
        floats = schema.set(place, pa.field("i", pa.float64()))
        assert stream_settings(source, [], floats, 2) != settings[-1]
    assert len(set(settings)) == 3
    query = Query(source_of(one))
    query.resume([(3, 1, {"i": 5, "f": None, "b": None, "s": None})], 0)
    query.resume([], 5)
    other = Query(source_of("stream s = sum[0,5](i)\npolicy p: s < 3"))
    other.journals = query.journals
    other.resume([(6, 1, {"i": 5, "f": None, "b": None, "s": None})], 6)
    with pytest.raises(SnapshotError, match="does not fit the streams"):
        other.resume([], 7)


def test_rows_on_which_a_stream_overflows() -> None:
    rows: list[Row] = [
        (time, 1, {"i": value, "f": None, "b": None, "s": None})
        for time, value in ((1, 2**63 - 1), (2, 1), (3, 0))
    ]
    text = "policy p: sum[0,9](i) > 4"
    query = Query(source_of(text))
    query.resume(rows, 0)
    with pytest.raises(TableError, match=r"overflows 64 bits; the row is ts=2, i=1"):
        query.resume([], 9)
    query = Query(source_of(text, "skip"))
    query.resume(rows, 0)
    query.resume([], 9)
    assert [one.time_stamp for one in query.verdicts[1, 0]] == [1, 3]


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    with state_store(spark):
        yield


@pytest.mark.dear("streaming queries")
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("rocksdb")
def test_a_query_says_what_one_machine_says(spark: SparkSession, tmp_path: Path) -> None:
    """Also if it is started again after each batch, as another query with the same checkpoint."""
    source = tmp_path / "source"
    source.mkdir()
    rows = log_rows(3, 160)
    generator = random.Random(4)
    names = [field.split()[0] for field in LOG.split(", ")]
    asked: dict[str, Any] = {"order_within": "n", "delay": 30}
    for number in range(0, len(rows), 40):
        frame = spark.readStream.schema(LOG).json(str(source))
        verdicts = monitor_stream(frame, POLICY, **asked)
        part = generator.sample(rows[number : number + 40], 40)
        put(source, f"{number:03}", [dict(zip(names, row, strict=True)) for row in part])
        if number == 120:
            last = {"ts": 10**6, "n": 0, "user": "end", "host": 9, "what": "", "code": 0}
            put(source, "end", [{**last, "amount": 0}])
        writer = verdicts.writeStream.format("parquet").option("path", str(tmp_path / "verdicts"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        query.stop()
    given = spark.read.parquet(str(tmp_path / "verdicts"))
    assert given.where("late IS NOT NULL").count() == 0
    keys = ["user", "host"]
    resolved = [row.asDict() for row in resolve_verdicts(given, key=keys).collect()]
    # the row that ends the log is not decided yet
    assert counted([row for row in resolved if row["time"] < 10**6]) == truth(table(rows), POLICY)


@pytest.mark.dear("streaming queries")
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("rocksdb")
def test_rows_that_a_query_skips_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    counts = RowCounts()
    frame = spark.readStream.schema("ts long, k string, x long").json(str(source))
    text = "policy p: sum[0,9](x) > 4"
    verdicts = monitor_stream(frame, text, key="k", delay=0, on_error="skip", counts=counts)
    with (
        pytest.warns(SkippedRowsWarning),
        streaming(spark, verdicts, tmp_path, source) as stream,
    ):
        found = stream.send({"ts": 1, "k": "a", "x": 2**63 - 1}, {"ts": 2, "k": "a", "x": 1})
        found += stream.send({"ts": 9, "k": "b", "x": 1})
        found += stream.send({"ts": 20, "k": "b", "x": 1})
    assert counts.skipped == 1
    assert [(row["time"], row["verdict"]) for row in found] == [(1, True), (9, False)]
