"""Policies with streams, ticks and relations of rows whose verdicts late rows correct."""

from __future__ import annotations

import copy
import os
import random
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from pyspark.errors import StreamingQueryException

import mtlmon
from mtlmon.errors import SnapshotError
from mtlmon.policy import parse_policies
from mtlmon.spark import monitor_stream
from tests.doors import (
    DELETED,
    INSERTED,
    UPDATED,
    BucketMonitors,
    Head,
    RelationHost,
    change_type,
    relations_of_rows,
    stream_columns,
)
from tests.doors import pending_delay as decision_delay
from tests.doors import relations_revised as revised
from tests.reference import policies as reference
from tests.reference.late_stream import Row, history_of
from tests.spark.streams import put, state_store
from tests.spark.test_row_relations import (
    AT_ROWS,
    OPEN,
    RELATIONS,
    TABLE,
    Query,
    place_of,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.doors import Answers, EventSource
    from tests.spark.test_row_relations import Cell

CHANGES = f"""{RELATIONS}key k
policy a on changes of open: exists open[k = k.hold()]
policy b on changes of pace: pace[k.hold()].n > 1 IMPLIES NEXT[0,4s] true
policy d on changes of busy: count[0,5s]() < 3
policy e on changes of high: count[0,5s](v > 2) > 0 OR PREVIOUS[0,9s] true
"""
TICKS = f"""{RELATIONS}key k
policy c on every 2s: exists pace[k = k.hold()] AND coalesce(whole[].n, 0) < 3
"""
WHOLE = f"""{RELATIONS}
policy known: pace[k].n < 3
policy a on changes of whole: whole[].n > 2 IMPLIES NEXT[0,2s] true
policy b on changes of open: whole[].n < 3
policy c on rows where v > 2: exists high[k] OR PREVIOUS[0,3s] true
"""
STREAMS = """unit s
key k
stream former = v.last(1, or: 0)
policy windows: count[0,4s](v > 1) < 3 OR EVENTUALLY[0,3s] v > 3
policy streams: former < 4 SINCE[0,9s] v > 1
policy sum on every 2s: sum[0,5s](v) > 2
policy rows on rows where v > former: NOT PREVIOUS[0,2s] true
"""
CHOSEN = """unit s
key k
policy rows on rows where v > 2: NOT PREVIOUS[0,3s] true
policy all: NOT PREVIOUS[0,2s] v > 1
"""
TEXTS = [AT_ROWS, CHANGES, TICKS, WHOLE, STREAMS, CHOSEN]
LATENESS = 5
SEEDS = (5, 6)
END = 60

Point = tuple[str | None, str | None, int, int]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations")
    (folder / "open.csv").write_text(OPEN)
    return folder


class Corrected(Query):
    """States that take in late rows: each batch may be executed several times, and killed."""

    def __init__(
        self, source: EventSource, generator: random.Random, *, is_counted: bool = False
    ) -> None:
        self.generator = generator
        # each time-point with the kind of its verdict, and what it is equivalent to
        self.latest: dict[Point, tuple[int, int, int]] = {}
        self.operations: Counter[tuple[str | None, int]] = Counter()
        # by the number of a policy, the time below which verdicts do not change any more
        self.bounds: dict[int, int] = {}
        super().__init__(source, generator.randrange(1, 4), is_counted=is_counted)

    def columns_of(self, source: EventSource, schema: pa.Schema) -> pa.Schema | None:
        return stream_columns(source, schema, is_corrected=True)

    def restart(self) -> None:
        super().restart()
        policies = self.source.policies
        states = RelationHost(relations_of_rows(policies), self.of_rows, LATENESS)
        self.states = states
        self.monitors = BucketMonitors(
            policies, self.records, self.worker.shared, self.streams, LATENESS
        )

    def resume(self, rows: Sequence[Cell], horizon: int) -> None:
        while self.generator.random() < 0.3:
            kept = copy.deepcopy((self.relations, self.journals)), self.late
            found = dict(self.latest), self.operations.copy()
            super().resume(rows, horizon)
            # it was killed at the end, so what has been written and stored counts for nothing
            ((self.relations, self.journals), self.late) = kept
            self.latest, self.operations = found
            if self.generator.random() < 0.5:
                self.restart()
        super().resume(rows, horizon)
        for number, policy in enumerate(self.source.policies.policies):
            delay = decision_delay(policy.program.rows, policy.program.root)
            if delay is not None:
                self.bounds[number] = horizon - LATENESS - delay

    def take(self, outcome: Answers) -> None:
        for number, found in outcome.verdicts.items():
            name = self.source.policies.policies[number].name
            keys = found.keys[0].to_pylist() if self.source.keys else [None] * len(found.keys[0])
            changes = np.frombuffer(found.records, change_type())
            assert len(changes) == len(found.owners) > 0
            for owner, one in zip(found.owners.tolist(), changes, strict=True):
                point = name, keys[owner], int(one["time_stamp"]), int(one["offset"])
                assert point[2] >= self.bounds.get(number, 0)
                was = self.latest.pop(point, None)
                assert (was is None) == (one["operation"] == INSERTED)
                self.operations[name, int(one["operation"])] += 1
                if one["operation"] != DELETED:
                    fields = ("kind", "reference_time_stamp", "reference_offset")
                    self.latest[point] = now = tuple(int(one[field]) for field in fields)  # type: ignore[assignment]
                    assert was != now
        if outcome.late is not None:
            self.late += len(outcome.late.owners)

    def values(self) -> list[str]:
        """The latest value of each time-point that has one."""
        found = []
        for point in self.latest:
            kind, *reference = self.latest[point]
            while kind == 2:
                other = self.latest.get((*point[:2], *reference))  # type: ignore[arg-type]
                if other is None:
                    break
                kind, *reference = other
            else:
                found.append((*point, kind == 1))
        return sorted(map(repr, found))


def truth(text: str, folder: Path, rows: Sequence[Cell], end: int) -> list[str]:
    """The verdicts of one machine about rows that are in order, up to below a time."""
    cells = [{"ts": ts, "k": k, "v": v, "n": place_of(v)} for ts, k, v in rows]
    (folder / "truth.mtl").write_text(text)
    options: dict[str, Any] = {
        "resolve": True,
        "end_time": end - 1 if end else None,
        "time_unit": "s",
    }
    table = pa.Table.from_pylist(cells, TABLE)
    check = mtlmon.check(folder / "truth.mtl", table, **options)
    return sorted(
        repr((row["policy"], row.get("k"), row["time"], row["offset"], row["verdict"]))
        for row in check.to_arrow().to_pylist()
        if row["verdict"] is not None
    )


def judged(text: str, folder: Path, rows: Sequence[Cell], end: int) -> list[str]:
    """The same from the references alone."""
    if not rows:
        return []
    file = parse_policies(text, path=str(folder / "truth.mtl"))
    cells = [{"ts": ts, "k": k, "v": v, "n": place_of(v)} for ts, k, v in rows]
    bag, schema = reference.records_of(OPEN, "from", "to")
    log = reference.Log(cells, end - 1, {"open.csv": bag}, {"rows": TABLE, "open.csv": schema})
    return sorted(
        repr((file.policies[number].name, key[0] if key else None, *point, value))
        for (number, key, point), value in reference.said_of(file, log).values.items()
        if value is not None
    )


def run(folder: Path, text: str, seed: int, *, count: int = 10) -> Corrected:
    """Rows in any batches, late ones among them, and compare after each batch."""
    generator = random.Random(seed)
    query = Corrected(source_of(text, folder, "stop"), generator, is_counted=seed % 2 == 0)
    history: list[Cell] = []
    waiting: list[Cell] = []
    horizon = late = start = 0

    def batch(rows: list[Cell]) -> None:
        nonlocal history, waiting, late
        admitted = [row for row in rows if row[0] >= horizon - LATENESS]
        late += len(rows) - len(admitted)
        waiting += admitted
        due = [row for row in waiting if row[0] < horizon]
        waiting = [row for row in waiting if row[0] >= horizon]
        # those that are judged together are in their own order, behind others of their time
        history += sorted(due, key=lambda row: place_of(row[2]))
        history.sort(key=lambda row: row[0])
        query.resume(rows, horizon)
        is_judged = sample.random() < 0.2 or horizon == END
        assert query.values() == (judged if is_judged else truth)(text, folder, history, horizon)

    sample = random.Random(f"{seed} {text}")
    keys = ["x", "x", "y"]
    for _ in range(count):
        batch(
            [
                (max(0, start + generator.randrange(-6, 2)), generator.choice(keys), value)
                for value in generator.choices(range(5), k=generator.randrange(5))
            ]
        )
        start += 2
        if generator.random() < 0.4:
            query.restart()
        if generator.random() < 0.7:
            horizon = max(horizon, start - generator.randrange(0, 3))
        if generator.random() < 0.3:
            batch([])
    horizon = END
    batch([])
    assert query.late == late
    return query


@pytest.mark.parametrize("text", TEXTS)
def test_the_latest_verdicts_are_those_of_one_machine(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so that relations have several chunks
    monkeypatch.setattr(revised, "LEAST_SPACING", 2)
    operations: Counter[int] = Counter()
    for seed in SEEDS:
        query = run(folder, text, seed)
        for (_, operation), count in query.operations.items():
            operations[operation] += count
    assert operations[UPDATED] + operations[DELETED] > 0


def test_time_passes_at_the_end_where_the_last_time_point_is_taken_back(folder: Path) -> None:
    """What it has decided stays decided: a late row that hides it does not turn back time."""
    text = """unit s
key k
stream former = v.last(1, or: 0)
policy asked on rows where v > former: v = 3 IMPLIES EVENTUALLY[0,5s] v = 4
"""
    late = [(10, "x", 3), (40, "x", 5)]
    for horizons in ((41, 41), (41, 60), (12, 41), (12, 60)):
        query = Corrected(source_of(text, folder, "stop"), random.Random(0))
        query.resume(late, 0)
        query.resume([], horizons[0])
        shown = repr(("asked", "x", 40, 0, True))
        assert (shown in query.values()) == (horizons[0] > 40)
        query.resume([(39, "x", 7)], horizons[0])
        query.resume([], horizons[1])
        # by hand: 5 is not above 7, so 40 is no time-point, and nothing answers in 10 to 15
        assert query.values() == [
            repr(("asked", "x", 10, 0, False)),
            repr(("asked", "x", 39, 0, True)),
        ]
        rows: list[Cell] = [*late, (39, "x", 7)]
        rows.sort(key=lambda row: row[0])
        assert query.values() == truth(text, folder, rows, horizons[1])


def test_a_late_row_changes_a_relation_for_other_keys(folder: Path) -> None:
    """Also where nothing else happens to them."""
    text = f"{RELATIONS}key k\npolicy alone: whole[].n < 2\n"
    query = Corrected(source_of(text, folder, "stop"), random.Random(0))
    query.resume([(10, "x", 1)], 0)
    query.resume([], 12)
    assert query.values() == [repr(("alone", "x", 10, 0, True))]
    query.resume([(9, "y", 1)], 12)
    assert query.values() == [
        repr(("alone", "x", 10, 0, False)),
        repr(("alone", "y", 9, 0, True)),
    ]
    query.resume([], 10 + LATENESS + 1)
    # no longer
    query.resume([(11, "y", 1)], 10 + LATENESS + 1)
    assert query.latest[("alone", "x", 10, 0)][0] == 0


def test_a_late_row_changes_a_relation_at_ticks_of_other_keys(folder: Path) -> None:
    text = f"{RELATIONS}key k\npolicy alone on every 3s: whole[].n < 2\n"
    query = Corrected(source_of(text, folder, "stop"), random.Random(0))
    query.resume([(1, "x", 1)], 0)
    query.resume([], 7)
    assert query.latest[("alone", "x", 3, 0)][0] == 1
    query.resume([(2, "y", 1)], 7)
    assert query.latest[("alone", "x", 3, 0)][0] == 0


def test_a_relation_changes_as_time_passes(folder: Path) -> None:
    text = f"{RELATIONS}key k\npolicy ends on changes of pace: exists pace[k = k.hold()]\n"
    query = Corrected(source_of(text, folder, "stop"), random.Random(0))
    query.resume([(1, "x", 1)], 0)
    query.resume([], 4)
    assert query.values() == [repr(("ends", "x", 1, 0, True))]
    query.resume([], 6)
    assert query.values() == [
        repr(("ends", "x", 1, 0, True)),
        repr(("ends", "x", 5, 0, False)),
    ]


def test_keys_are_forgotten(folder: Path) -> None:
    """Those of which nothing can change any more, though time alone has decided about them."""
    text = "unit s\nkey k\npolicy p: count[0,4s](v > 1) < 3 AND EVENTUALLY[0,20s] v > 3\n"
    query = Corrected(source_of(text, folder, "stop"), random.Random(1), is_counted=True)
    for start in range(0, 400, 10):
        query.resume([(start, f"k{start}", 2)], max(0, start - 5))
    kept = {str(key) for one in query.journals for key in one.keys(query.records)}
    assert "k390" in kept
    assert len(kept) < 20
    assert max(map(len, (entry for one in query.journals for entry in one.entries))) < 9000


def test_damaged_states(folder: Path) -> None:
    source = source_of(AT_ROWS, folder, "stop")
    for skips in range(2):
        query = Corrected(source, random.Random(2))
        query.resume([(1, "x", 3), (2, "x", 3)], 0)
        query.resume([], 2)
        kept = query.relations if skips else query.journals[-1]
        kept.entries = [content[:-9] + b"123456789" for content in kept.entries]
        assert kept.head is not None
        kept.head = kept.kind(*Head.of(kept.entries[0], kept.head.wakeup))
        kept.entries = kept.entries[:1]
        query.restart()
        with pytest.raises(SnapshotError):
            query.resume([(1, "x", 3)], 2)


SCHEMA = "ts bigint, k string, v bigint, n bigint"
STREAM = """unit s
key k
relation pace = rows valid 4s group k select sum(v) as v, count() as n
relation busy = rows where v > 1 valid 3s select k as k distinct
policy known: pace[k].n < 2 OR EVENTUALLY[0,1s] exists busy[k = "y"]
policy windows: count[0,4s](v > 1) < 2
policy often on changes of busy: exists busy[k = k.hold()] OR PREVIOUS[0,4s] true
policy sum on every 5s: sum[0,9s](v) > 6
"""


@pytest.mark.dear("streaming queries")
@pytest.mark.xdist_group("spark")
def test_a_stream_says_what_one_machine_says(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """Its worker is killed while it writes changes."""
    source = tmp_path / "source"
    source.mkdir()
    batches = batches_of(18)
    for place, batch in enumerate(batches):
        put(
            source,
            f"{place}",
            [{"ts": one.time, "k": one.key, "v": int(one.names), "n": one.number} for one in batch],
        )
    marker = tmp_path / "died"

    # workers cannot import the tests
    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if "update" in batch.column("op").to_pylist() and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    with state_store(spark):
        rows_of = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = monitor_stream(
            rows_of.json(str(source)),
            STREAM,
            time="ts",
            order_within="n",
            delay=1,
            lateness=10,
            buckets=3,
        )
        frame = frame.mapInArrow(dying, frame.schema)
        writer = frame.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        with pytest.raises(StreamingQueryException):
            writer.start(str(tmp_path / "changes")).awaitTermination()
        assert marker.exists()
        writer.start(str(tmp_path / "changes")).awaitTermination()
        written = spark.read.parquet(str(tmp_path / "changes"))
        rows = [row.asDict() for row in written.collect()]
    expected = history_of(batches, 1, 10, is_quiet=False)
    late = sorted((row["k"], row["time"]) for row in rows if row["late"] is not None)
    assert late == expected.refused != []
    judged = sorted(
        (one for some in expected.rows.values() for one in some), key=lambda one: one.time
    )
    history: list[Cell] = [(one.time, one.key, int(one.names)) for one in judged]
    changes = [row for row in rows if row["op"] is not None]
    assert latest_values(changes) == truth(STREAM, folder, history, expected.horizon)
    assert {row["op"] for row in changes} >= {"insert", "update"}
    for name in ("known", "windows", "often", "sum"):
        bounds = [row["final"] for row in rows if row["op"] is None and row["policy"] == name]
        assert sorted(set(bounds)) == sorted(bounds) != []


def batches_of(seed: int) -> list[list[Row]]:
    """Rows of several batches, whose values are texts, and one of a much later time."""
    generator = random.Random(seed)
    batches = []
    number = 0
    for start in (12, 16, 20, 24):
        rows = []
        for _ in range(9):
            number += 1
            time = max(0, start + generator.randrange(-14, 3))
            rows.append(Row(generator.choice("xyz"), time, number, str(generator.randrange(5))))
        batches.append(rows)
    return [*batches, [Row("z", 50, 0, "1")]]


def latest_values(changes: Sequence[dict[str, Any]]) -> list[str]:
    """The latest value of each time-point, as `truth` has them."""
    latest: dict[Point, dict[str, Any]] = {}
    for row in sorted(changes, key=lambda row: row["revision"]):
        point = row["policy"], row["k"], row["time"], row["offset"]
        assert (point in latest) == (row["op"] != "insert")
        latest[point] = row
        if row["op"] == "delete":
            del latest[point]
    found = []
    for point, row in latest.items():
        decided = row
        while decided["verdict"] is None:
            reference = decided["reference_time"], decided["reference_offset"]
            decided = latest[(*point[:2], *reference)]
        found.append(repr((*point, decided["verdict"])))
    return sorted(found)
