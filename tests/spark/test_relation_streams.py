"""Policies with variables on streams: what one machine says about the rows behind the watermark."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import ExecutorError, MtlmonError
from mtlmon.relational.slicing import Statistics
from mtlmon.spark import monitor_stream, plain_errors
from mtlmon.tables import check_tables
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
policy approved: publish(u, f) IMPLIES ONCE[0,9] EXISTS n. approve(f, n) AND n > 1
policy soon: publish(u, f) IMPLIES EVENTUALLY[0,5] approve(f, _)
policy answered: ALWAYS (quiet IMPLIES EVENTUALLY EXISTS u, f. publish(u, f))
find pair: publish(u, f) AND (ONCE[0,4] publish(v, f)) AND NOT (u = v)
find many: COUNT(ONCE[0,9] publish(u, f) BY u) > 2
find some: EXISTS u, f. publish(u, f) AND ONCE[0,3] approve(f, _)
find after: publish(u, f) AND PREVIOUS quiet
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
    return batches


def truth(rows: list[dict[str, Any]], end: int) -> Counter[tuple[Any, ...]]:
    """What one machine says that knows all rows, and that time goes on up to `end`."""
    ordered = sorted(rows, key=lambda row: row["ts"])
    table = pa.Table.from_pylist(ordered, ARROW)
    check = check_tables(table, FILE, time_points="stamp", end_time=end)
    return counted(check.to_arrow().to_pylist())


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    left_out = {"reference", "late"}
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


@pytest.mark.usefixtures("rocksdb")
def test_streams_say_what_one_machine_says(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    batches = log_of(1)
    late = [
        {"ts": 1, "what": what, "user": "u9", "file": "f9", "level": 3}
        for what in ("publish", "quiet", "other")
    ]
    statistics = Statistics({}, {("publish", 0): frozenset({"u0"})})

    def go_on(slices: int = 3, delay: int = DELAY) -> None:
        frame = monitor_stream(
            rows_of(spark, source),
            FILE,
            delay=delay,
            slices=slices,
            statistics=statistics,
        )
        run(spark, frame, tmp_path)

    # a query that is restarted between batches
    for number, rows in enumerate(batches):
        # the watermark is at 97 when these are read
        put(source, f"{number:03}", rows)
        if number in (1, 3):
            go_on()
    put(source, "late", late)
    go_on()
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

    put(source, "more", batches[0])
    with pytest.raises(ExecutorError, match="was made with slices=3, not 2: start the query"):
        go_on(slices=2)


def test_what_streams_refuse(spark: SparkSession, source: Path) -> None:
    df = rows_of(spark, source)
    with state_store(spark):
        with pytest.raises(MtlmonError, match="slices and statistics are for policies with"):
            monitor_stream(df, "what", slices=2)
        with pytest.raises(MtlmonError, match="key is for policies without variables"):
            monitor_stream(df, FILE, key="user", delay=1)
        with pytest.raises(MtlmonError, match="monitor them in two queries"):
            monitor_stream(df, f"{FILE}policy other: ONCE quiet\n", delay=1)
        with pytest.raises(MtlmonError, match="how late rows may be is not said"):
            monitor_stream(df, FILE)
