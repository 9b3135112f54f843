"""Relations of a stream's rows, and policies on changes of relations, without Spark."""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon import Verdict, resolve
from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.verdict_arrays import VerdictArray, verdict_type
from tests.doors import (
    NO_SETTINGS,
    BucketMonitors,
    BucketRecords,
    EventClock,
    EventRecords,
    Holding,
    Journal,
    KeyStreams,
    PackRelationRows,
    PackRows,
    RelationHost,
    RelationRecords,
    Sent,
    compile_policies,
    event_source,
    key_types,
    relations_of_rows,
    stream_columns,
    stream_settings,
)
from tests.spark.buckets import KeptJournal, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mtlmon.policy import Environment
    from tests.doors import Answers, EventSource, KnownRelation, LogRelation

TABLE = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.int64(), "n": pa.int64()})
OPEN = "k,from,to\nx,0,2\nx,5,9\ny,3,\nz,4,6\nz,6,7\nv,1,8\nw,2,16\nw,40,50\n"
RELATIONS = """unit s
relation open = table "open.csv" valid [from, to)
relation pace = rows valid 4s group k select sum(v) as v, count() as n
relation busy = rows where v > 1 valid 3s select k as k join open on k = open_k
relation high = rows valid until v < 2 per k where v > 2 select k as k, v as v distinct
relation whole = rows valid 5s group select count() as n
"""
AT_ROWS = f"""{RELATIONS}key k
policy known: exists pace[k] AND pace[k].n < 3
policy even: v - pace[k].v < 2 OR EVENTUALLY[0,3s] exists busy[k]
policy up: exists high[k = "x"] IMPLIES whole[].n < 4
stream most = max[0,6s](whole[].n)
policy few: most < 5
"""
KEYED = f"""{AT_ROWS}policy a on changes of open: exists open[k = k.hold()]
policy b on changes of pace: pace[k.hold()].n > 1 IMPLIES NEXT[0,4s] true
policy c on every 3s: exists pace[k = k.hold()] OR exists open[k = k.hold()]
policy d on changes of busy: count[0,5s]() < 3
trigger e on changes of high: count[0,5s](v > 2) > 0 message "{{k}} {{v}}"
"""
WHOLE = f"""{RELATIONS}
policy known: pace[k].n < 3
policy a on changes of whole: whole[].n > 2 IMPLIES NEXT[0,2s] true
policy b on changes of open: whole[].n < 3
policy c on rows where v > 2: exists high[k]
trigger e on changes of busy: count[0,3s]() > 2 message "{{count[0,3s]()}}"
"""
TABLES = f"""{RELATIONS}key k
policy a on changes of open: exists open[k = k.hold()]
policy known: exists open[k]
"""
KEYS = [*"wxyz", "x", None]
END = 60

Cell = tuple[int, str | None, int]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations")
    (folder / "open.csv").write_text(OPEN)
    return folder


class Rows:
    """The rows of a stream, as relations read them."""

    names = TABLE.names

    def known(self, relation: LogRelation, environment: Environment) -> KnownRelation:
        relation.read(pa.RecordBatch.from_pylist([], TABLE))
        return relation


def source_of(text: str, folder: Path, on_error: Literal["stop", "skip"] = "skip") -> EventSource:
    (folder / "keyed.mtl").write_text(text)
    policies = compile_policies(
        folder / "keyed.mtl",
        "local",
        "s",
        "s",
        has_keys=True,
        looks_up=True,
        log=lambda _: Rows(),
        has_changes=True,
    )
    keys = policies.key
    policies.watch(keys)
    source = event_source(
        policies, time="ts", keys=keys, time_unit="s", resolution="s", on_error=on_error
    )
    # as it comes to executors
    again: EventSource = pickle.loads(pickle.dumps(source))
    return again


class Query:
    """The state of relations and those of buckets, which are visited as Spark does."""

    def __init__(self, source: EventSource, buckets: int = 2, *, is_counted: bool = False) -> None:
        self.source = source
        self.buckets = buckets if source.keys else 1
        relations = relations_of_rows(source.policies)
        names = list(dict.fromkeys(name for one in relations.values() for name in one.columns))
        schema = pa.schema([TABLE.field(name) for name in source.selection.names])
        events = EventRecords(source.policies.atoms, 1, self.columns_of(source, schema))
        self.records = BucketRecords(events, key_types(source.keys, schema), NO_SETTINGS)
        read = pa.schema([TABLE.field(name) for name in names])
        self.of_rows = RelationRecords(read, NO_SETTINGS)
        clock = EventClock(1000, 1)
        self.packers = (
            (PackRelationRows(source, self.of_rows, clock), [*source.selection.names, *names]),
            (PackRows(source, self.records, clock, self.buckets), [*source.selection.names, "n"]),
        )
        self.relations = KeptJournal(is_counted=is_counted)
        self.journals = [KeptJournal(is_counted=is_counted) for _ in range(self.buckets)]
        self.found: list[tuple[Any, ...]] = []
        self.verdicts: dict[tuple[str | None, int], list[Verdict]] = {}
        self.late = 0
        self.restart()

    def columns_of(self, source: EventSource, schema: pa.Schema) -> pa.Schema | None:
        """The columns that streams read."""
        return stream_columns(source, schema)

    def restart(self) -> None:
        """Go on in another process."""
        self.streams = KeyStreams(self.source, self.records.events)
        policies = self.source.policies
        self.worker = Worker.of(policies)
        self.monitors = BucketMonitors(policies, self.records, self.worker.shared, self.streams)
        # it is picklable, too
        states = RelationHost(relations_of_rows(policies), self.of_rows)
        self.states: RelationHost = pickle.loads(pickle.dumps(states))
        self.holding = Holding()

    def resume(self, rows: Sequence[Cell], horizon: int) -> None:
        cells = [{"ts": ts, "k": k, "v": v, "n": place_of(v)} for ts, k, v in rows]
        batch = pa.RecordBatch.from_pylist(cells, TABLE)
        blocks: dict[int, list[bytes]] = {}
        sent = [
            packed.select([0, 3])
            for packer, names in self.packers
            for packed in packer(iter([batch.select(names)]))
        ]
        has_relations = bool(relations_of_rows(self.source.policies))
        of_relations = [one[1][0].as_py() for one in sent[:1] if has_relations]
        for packed in sent[1:]:
            for bucket, block in zip(*packed.columns, strict=True):
                blocks.setdefault(bucket.as_py(), []).append(block.as_py())
        emitted = None
        head = self.relations.head
        if of_relations or (head is not None and (head.wakeup or 0) <= horizon):
            journal = Journal(self.relations.head, self.relations, self.holding, "relations")
            visit = self.states.visit(journal, Sent(of_relations, horizon))
            assert visit is not None
            self.relations.store(journal, visit)
            emitted = visit.answers
        for bucket in range(self.buckets):
            head = self.journals[bucket].head
            is_due = head is not None and head.wakeup is not None and head.wakeup <= horizon
            has_emitted = emitted is not None and head is not None
            if bucket in blocks or is_due or has_emitted:
                self._visit(bucket, Sent(blocks.get(bucket, []), horizon, side=emitted))

    def _visit(self, bucket: int, sent: Sent) -> None:
        journal = self.journals[bucket].seen_by(self.worker, bucket)
        visit = self.monitors.visit(journal, sent)
        assert visit is not None
        self.journals[bucket].store(journal, visit)
        self.take(visit.answers)

    def take(self, outcome: Answers) -> None:
        """Take what a bucket has found."""
        for number, found in outcome.verdicts.items():
            name = self.source.policies.policies[number].name
            keys = found.keys[0].to_pylist() if self.source.keys else [None] * len(found.keys[0])
            texts = iter(found.messages or ())
            verdicts = VerdictArray(np.frombuffer(found.records, verdict_type()))
            for owner, one in zip(found.owners.tolist(), verdicts, strict=True):
                is_shown = found.messages is not None and one.value is False
                message = next(texts) if is_shown else None
                self.verdicts.setdefault((keys[owner], number), []).append(one)
                if message is not None:
                    self.found.append((name, keys[owner], one.time_stamp, message))
        if outcome.late is not None:
            self.late += len(outcome.late.owners)

    def all(self) -> list[str]:
        """All verdicts, and the messages."""
        policies = self.source.policies.policies
        found = [
            (policies[number].name, key, one.time_stamp, one.offset, one.value)
            for (key, number), verdicts in self.verdicts.items()
            for one in resolve(verdicts)
            if one.value is not None
        ]
        return sorted(map(repr, [*found, *self.found]))


def place_of(value: int) -> int:
    """What orders a row among those of its time-stamp, which else are in the order of arrival."""
    return value * 3 % 5


def truth(text: str, folder: Path, rows: Sequence[Cell], end: int) -> list[str]:
    """The verdicts and messages of one machine, up to below a time."""
    rows = sorted(rows, key=lambda row: (row[0], place_of(row[2])))
    cells = [{"ts": ts, "k": k, "v": v, "n": place_of(v)} for ts, k, v in rows]
    (folder / "truth.mtl").write_text(text)
    check = mtlmon.check(
        folder / "truth.mtl",
        pa.Table.from_pylist(cells, TABLE),
        resolve=True,
        end_time=end - 1 if end else None,
        time_unit="s",
        on_error="skip",
    )
    found: list[tuple[Any, ...]] = []
    for row in check.to_arrow().to_pylist():
        key, time = row.get("k"), row["time"]
        if row["verdict"] is None:
            continue
        found.append((row["policy"], key, time, row["offset"], row["verdict"]))
        if row.get("message") is not None:
            found.append((row["policy"], key, time, row["message"]))
    return sorted(map(repr, found))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("text", [KEYED, WHOLE, TABLES])
def test_what_one_machine_says(folder: Path, text: str, seed: int) -> None:
    """Rows in any batches, some too late or without a key, and processes that begin anew."""
    generator = random.Random(seed)
    source = source_of(text, folder)
    query = Query(source, generator.randrange(1, 4), is_counted=seed % 2 == 0)
    sent: list[Cell] = []
    horizon = late = start = 0
    for number in range(8):
        batch = [
            (max(0, start + generator.randrange(-4, 4)), generator.choice(KEYS), value)
            for value in generator.choices(range(5), k=generator.randrange(1, 7))
        ]
        start += 2
        if generator.random() < 0.4:
            query.restart()
        query.resume(batch, horizon)
        sent += [row for row in batch if row[0] >= horizon]
        late += sum(row[0] < horizon and not (source.keys and row[1] is None) for row in batch)
        horizon = max(horizon, max(row[0] for row in batch) - 2)
        if number % 3 == 0:
            query.resume([], horizon)
            due = [row for row in sent if row[0] < horizon]
            assert query.all() == truth(text, folder, due, horizon)
    query.resume([], END)
    assert query.all() == truth(text, folder, sent, END)
    assert query.late == late


def test_other_relations_are_noticed(folder: Path) -> None:
    """By the settings, and by what relations remember."""
    texts = [WHOLE, WHOLE.replace("valid 5s", "valid 6s"), WHOLE.replace('"open.csv"', '"o.csv"')]
    (folder / "o.csv").write_text(OPEN)
    sources = [source_of(text, folder) for text in texts]
    schema = pa.schema([TABLE.field(name) for name in sources[0].selection.names])
    assert len({stream_settings(source, [], schema, 2) for source in sources}) == 3
    # where nobody looks
    unused = source_of(WHOLE.replace("\npolicy", "\nrelation x = rows valid 9s\npolicy", 1), folder)
    assert stream_settings(unused, [], schema, 2) == stream_settings(sources[0], [], schema, 2)
    query, other = Query(sources[0]), Query(sources[1])
    query.resume([(1, "x", 3), (2, "x", 3)], 0)
    other.relations = query.relations
    with pytest.raises(SnapshotError, match="of another relation"):
        other.resume([(3, "x", 1)], 2)


def test_relations_that_buckets_have_not_heard_of(folder: Path) -> None:
    query = Query(source_of(KEYED, folder))
    query.resume([(1, "x", 3)], 0)
    # the state of relations is not visited
    query.relations.head = None
    with pytest.raises(MtlmonError, match="known up to 0, but events up to 5 are to be"):
        query.resume([], 5)


def test_a_relation_that_overflows(folder: Path) -> None:
    query = Query(
        source_of(
            "unit s\nrelation r = rows valid 4s group select sum(v) as v\npolicy p: r[].v > 3",
            folder,
        )
    )
    query.resume([(1, "x", 2**63 - 1), (1, "x", 1)], 0)
    with pytest.raises(MtlmonError, match="relation r: v does not fit into 64 bits"):
        query.resume([], 2)


def test_a_state_is_as_large_as_what_is_valid(folder: Path) -> None:
    query = Query(source_of(KEYED, folder), is_counted=False)
    for number in range(0, 30):
        query.resume([(number, "xy"[number % 2], number % 5)], max(0, number - 1))
    assert max(map(len, query.relations.entries)) < 30_000
    assert len(query.relations.entries) < 20
