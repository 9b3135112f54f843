"""Policies with variables on streams: what one machine says about the rows behind the watermark."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from pyspark.errors import StreamingQueryException

import mtlmon
from mtlmon.errors import ExecutorError, MtlmonError, SnapshotError
from mtlmon.relational.slicing import Statistics
from mtlmon.spark import RowCounts, latest_verdicts, monitor_stream, plain_errors
from tests.spark.streams import put, state_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

FILE = """
unit s
atom publish(user, file) = what = "publish"
atom approve(file, level) = what = "approve"
atom quiet = what = "quiet"
policy approved per none: publish(u, f) IMPLIES ONCE[0,9] EXISTS n. approve(f, n) AND n > 1
policy soon per none: publish(u, f) IMPLIES EVENTUALLY[0,5] approve(f, _)
policy answered per none: ALWAYS (quiet IMPLIES EVENTUALLY EXISTS u, f. publish(u, f))
find pair per none: publish(u, f) AND (ONCE[0,4] publish(v, f)) AND NOT (u = v)
find many per none: COUNT(ONCE[0,9] publish(u, f) BY u) > 2
find some per none: EXISTS u, f. publish(u, f) AND ONCE[0,3] approve(f, _)
find after per none: publish(u, f) AND PREVIOUS quiet
"""
SCHEMA = "ts long, what string, user string, file string, level long"
ARROW = pa.schema(
    [
        ("ts", pa.int64()),
        ("what", pa.string()),
        ("user", pa.string()),
        ("file", pa.string()),
        ("level", pa.int64()),
    ]
)
DELAY = 3
WHATS = ("publish", "approve", "quiet")


def log_of(seed: int) -> list[list[dict[str, Any]]]:
    """Rows of several batches, out of order, but not too late; then one of a much later time."""
    draw = random.Random(seed)
    batches = []
    latest = 0
    for start in (0, 8, 16):
        rows: list[dict[str, Any]] = []
        for _ in range(30):
            time_stamp = max(0, latest - DELAY, start + draw.randrange(-DELAY, 9))
            is_usual = draw.random() < 0.5
            rows.append(
                {
                    "ts": time_stamp,
                    "what": draw.choice(["publish", "publish", "approve", "quiet", "other"]),
                    "user": "u0" if is_usual else draw.choice([None, "u1", "u2", "u3"]),
                    "file": draw.choice(["f é", "f1", "f2", None]),
                    "level": draw.choice([None, 1, 2, 3]),
                }
            )
        latest = max([latest, *(row["ts"] for row in rows)])
        batches.append(rows)
    batches.append([{**batches[0][0], "ts": 100, "what": "other"}])
    # so many that later batches are stored as rows
    many = {"ts": 0, "what": "approve", "user": None, "level": 1}
    batches[0] += [{**many, "file": f"old {number}"} for number in range(1000)]
    return batches


def truth(
    rows: list[dict[str, Any]], end: int, text: str = FILE, **options: Any
) -> Counter[tuple[Any, ...]]:
    """What one machine says that knows all rows, and that time goes on up to `end`."""
    ordered = sorted(rows, key=lambda row: row["ts"])
    table = pa.Table.from_pylist(ordered, ARROW)
    check = mtlmon.check(text, table, time_points="stamp", end_time=end, **options)
    return counted(check.to_arrow().to_pylist())


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    left_out = {"reference", "reference_time", "reference_offset", "late"}
    return Counter(
        tuple(sorted((name, str(value)) for name, value in row.items() if name not in left_out))
        for row in rows
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    directory.mkdir()
    return directory


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    with state_store(spark):
        yield


def run(spark: SparkSession, frame: DataFrame, root: Path) -> None:
    """Monitor all files that are there, one a batch, and end the query."""
    writer = frame.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    with plain_errors():
        writer.start(str(root / "verdicts")).awaitTermination()


def rows_of(spark: SparkSession, source: Path) -> DataFrame:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return stream.json(str(source))


def forget_end(root: Path) -> int:
    """Let the checkpoint be as if the query had been killed at the very end of its last batch."""
    commits = root / "checkpoint" / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()
    return last


def appended(spark: SparkSession, root: Path) -> int:
    """How many entries of journals are rows."""
    reader = spark.read.format("statestore").option("stateVarName", "slice")
    return reader.load(str(root / "checkpoint")).where("user_map_key.place > 0").count()


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_streams_say_what_one_machine_says(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    batches = log_of(1)
    late = [
        {"ts": 1, "what": what, "user": "u9", "file": "f9", "level": 3}
        for what in ("publish", "quiet", "other")
    ]
    skewed = Statistics({}, {("publish", 0): frozenset({"u0"})})
    marker = tmp_path / "failed"

    # workers cannot import the tests
    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 100 in batch.column(0).to_pylist() and not marker.exists():
                marker.touch()
                raise ValueError("a failure in the middle of a batch")
            yield batch

    def resume(slices: int | None, statistics: Statistics | None, *, knows: bool = True) -> None:
        rows = rows_of(spark, source)
        frame = monitor_stream(
            rows.mapInArrow(failing, rows.schema),
            FILE,
            delay=DELAY,
            slices=slices,
            statistics=statistics,
            checkpoint=str(tmp_path / "checkpoint") if knows else None,
        )
        run(spark, frame, tmp_path)

    for number, rows in enumerate(batches[:2]):
        put(source, f"{number:03}", rows)
    resume(4, skewed)
    assert appended(spark, tmp_path) > 0
    # the batch without rows, whose verdicts are written, is not executed again
    assert forget_end(tmp_path) == 2
    for number, rows in enumerate(batches[2:], 2):
        # the watermark is at 97 when later ones are read
        put(source, f"{number:03}", rows)
    with pytest.raises(StreamingQueryException, match="in the middle of a batch"):
        resume(2, None)
    resume(6, skewed)
    forget_end(tmp_path)
    put(source, "late", late)
    with pytest.raises(ExecutorError, match=r"was made with slices=6, not 5: give its checkpoint"):
        resume(5, skewed, knows=False)
    resume(None, Statistics())
    forget_end(tmp_path)
    resume(None, None)

    found = [row.asDict() for row in spark.read.parquet(str(tmp_path / "verdicts")).collect()]
    said = [row for row in found if row["late"] is None]
    rows = [row for batch in batches for row in batch]
    expected = truth([row for row in rows if row["ts"] < 97], 96)
    assert len(expected) > 30
    assert counted(said) == expected
    assert sorted((row["time"], *row["late"]) for row in found if row["late"]) == [
        (1, "publish"),
        (1, "quiet"),
    ]
    assert all(row["offset"] is None for row in found if row["late"])


OTHERS = """
key user
atom far(user, more = level * 3074457345618258603) = what = "publish"
find far per none: far(u, n) AND n > 0
policy calm: quiet IMPLIES (what = "publish") SINCE[0,9] (what = "approve")
policy few per file: count[0,9]() < 3
policy often on every 5s: count[0,9](what = "publish") > 0
trigger high: level > 1 message "{level} of {user}"
"""


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_policies_of_both_kinds_are_one_query(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Rows without a key, and those without an argument, are events for no policy."""
    text = FILE + OTHERS
    batches = log_of(2)
    good = {**batches[0][0], "user": "u1", "file": "f1", "level": 1}
    # those that cannot be events do not move the watermark
    batches[0] += [{**good, "ts": 90, "file": None}, {**good, "ts": 90, "level": 3}]
    batches[-1] = [{**good, "ts": 100}]
    late = [{**good, "ts": 1, "what": "quiet"}, {**good, "ts": 1, "what": "quiet", "user": None}]
    counts = RowCounts()

    def resume(slices: int) -> None:
        frame = monitor_stream(
            rows_of(spark, source),
            text,
            delay=DELAY,
            slices=slices,
            buckets=2,
            on_error="skip",
            counts=counts,
            checkpoint=str(tmp_path / "checkpoint"),
        )
        run(spark, frame, tmp_path)

    for number, rows in enumerate(batches[:2]):
        put(source, f"{number:03}", rows)
    resume(2)
    forget_end(tmp_path)
    for number, rows in enumerate([*batches[2:], late], 2):
        put(source, f"{number:03}", rows)
    resume(3)

    found = [row.asDict() for row in spark.read.parquet(str(tmp_path / "verdicts")).collect()]
    rows = [row for batch in batches for row in batch]
    expected = truth([row for row in rows if row["ts"] < 97], 96, text, on_error="skip")
    assert counted([row for row in found if row["late"] is None]) == expected
    names = {value for one in expected for name, value in one if name == "policy"}
    assert names >= {"far", "calm", "few", "often", "high", "pair"}
    # for each key, and as a row of an atom
    emitted = [
        (row["time"], row["user"], row["file"], row["late"])
        for row in found
        if row["late"] is not None
    ]
    keys = [("u1", None), (None, "f1"), (None, None)]
    assert sorted(emitted, key=str) == sorted([(1, *own, ["quiet"]) for own in keys], key=str)
    assert counts.skipped > 0


CORRECTED = """
key user
policy calm: quiet IMPLIES (what = "publish") SINCE[0,9] (what = "approve")
policy few per file: quiet IMPLIES PREVIOUS[0,3] true
"""
LATENESS = 12


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_late_rows_correct_policies_of_both_kinds(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """The latest verdicts are those of one machine, with other slices and after a failure."""
    text = FILE + CORRECTED
    batches = log_of(3)
    good = {**batches[0][0], "user": "u1", "file": "f1", "level": 1}
    for rows in batches:
        rows[:] = [
            {**good, **row, "user": row["user"] or "u4", "file": row["file"] or "f3"}
            for row in rows
        ]
    # late by up to the lateness, or too late
    latest = max(row["ts"] for rows in batches[:2] for row in rows)
    ages = LATENESS + 1, LATENESS, LATENESS - 1, LATENESS // 2
    late = [{**good, "ts": latest - age, "what": what} for age in ages for what in WHATS]
    refused = late[: len(WHATS)]
    first, second = [*batches[0], *batches[1]], [*batches[2], *late]
    batches = [first, second, [{**good, "ts": 60, "what": "quiet"}]]
    skewed = Statistics({}, {("publish", 0): frozenset({"u0"})})

    def resume(slices: int, **changed: Any) -> None:
        arguments = {"delay": DELAY, "lateness": LATENESS, "arrival": True, "buckets": 2, **changed}
        frame = monitor_stream(
            rows_of(spark, source),
            text,
            slices=slices,
            statistics=skewed,
            checkpoint=str(tmp_path / "checkpoint"),
            **arguments,
        )
        run(spark, frame, tmp_path)

    put(source, "0", batches[0])
    resume(3)
    for number, rows in enumerate(batches[1:], 1):
        put(source, f"{number}", rows)
    resume(2)
    with pytest.raises(SnapshotError, match="was made with another delay or lateness, which"):
        resume(2, lateness=LATENESS + 1)

    written = spark.read.parquet(str(tmp_path / "verdicts"))
    horizon = 60 - DELAY
    rows = [row for batch in batches for row in batch if row["ts"] < horizon]
    rows = [row for row in rows if row not in refused]
    # what is told next depends on rows up to there
    then = max(row["ts"] for row in second) - DELAY
    for as_of, end in ((latest, latest - DELAY), (59, then), (60, horizon)):
        known = latest_verdicts(written, as_of=as_of).drop("revision", "is_final", "arrival")
        found = [row.asDict() for row in known.collect()]
        assert counted(found) == truth([row for row in rows if row["ts"] < end], end - 1, text)
    assert not latest_verdicts(written, as_of=latest - 1).count()
    known = latest_verdicts(written).drop("revision", "is_final", "arrival")
    assert counted([row.asDict() for row in known.collect()]) == truth(rows, horizon - 1, text)
    said = [row.asDict() for row in written.collect()]
    assert {row["op"] for row in said} >= {"insert", "delete", None}
    emitted = {(row["policy"], row["final"]) for row in said if row["op"] is None}
    assert {("approved", 60 - LATENESS), ("soon", 60 - LATENESS - 5)} <= emitted
    late_ones = [
        (row["time"], *row["late"])
        for row in said
        if row["late"] and not (row["user"] or row["file"])
    ]
    assert sorted(late_ones) == sorted((row["ts"], row["what"]) for row in refused)


def test_what_streams_refuse(spark: SparkSession, source: Path) -> None:
    df = rows_of(spark, source)
    with state_store(spark):
        with pytest.raises(MtlmonError, match="slices and statistics are for policies with"):
            monitor_stream(df, "what", slices=2)
        with pytest.raises(MtlmonError, match="checkpoint is for policies with variables"):
            monitor_stream(df, "what", delay=1, checkpoint="somewhere")
        both = f"{FILE}policy other: ONCE quiet\n"
        with pytest.raises(MtlmonError, match="the delay is 3 and the lateness 2, but rows"):
            monitor_stream(df, FILE, delay=3, lateness=2)
        with pytest.raises(MtlmonError, match="mode 'global' is for policies without variables"):
            monitor_stream(df, both, delay=1, mode="global")
        with pytest.raises(MtlmonError, match="nothing says how late rows may be"):
            monitor_stream(df, FILE)
