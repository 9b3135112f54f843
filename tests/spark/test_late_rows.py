"""Streams whose late rows correct verdicts, and the latest verdicts of what they have written."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from mtlmon import MtlmonError, UnitError
from mtlmon.spark import latest_verdicts, monitor_stream, resolve_verdicts
from tests.reference.late_stream import Row, history_of
from tests.spark.streams import put, state_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = "key string, ts bigint, number int, what string"
FORMULAS = {
    "answered": "EVENTUALLY[0,15] (response AND PREVIOUS request)",
    "lately": "PREVIOUS request",
}
POLICIES = "\n".join(f"policy {name}: {formula}" for name, formula in FORMULAS.items())
DELAY, LATENESS = 2, 12


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    with state_store(spark):
        yield


def files() -> list[list[Row]]:
    """Rows late by up to 16, and two rows that let the others be judged."""
    generator = random.Random(5)
    names = ["request", "response", "error", "request|error", "x"]
    batches = []
    number = 0
    for start in (20, 30, 40, 50):
        rows = []
        for _ in range(30):
            number -= 1
            time = start + generator.randrange(-18, 10)
            key = f"k{generator.randrange(4)}"
            rows.append(Row(key, time, number, generator.choice(names)))
        batches.append(rows)
    return [*batches, [Row("z", 100, 0, "x")], [Row("z", 130, 0, "x")]]


def changelog(
    spark: SparkSession, root: Path, buckets: int, restart_after: int | None = None
) -> DataFrame:
    """What a query writes about the files, perhaps restarted in between."""
    source = root / "source"
    source.mkdir(parents=True)
    rows = spark.readStream.schema(SCHEMA).json(str(source))
    found = monitor_stream(
        rows,
        POLICIES,
        key="key",
        event="what",
        order_within="number",
        delay=DELAY,
        lateness=LATENESS,
        arrival=True,
        buckets=buckets,
    )
    batches = files()
    edges = [0, *([] if restart_after is None else [restart_after]), len(batches)]
    for start, end in pairwise(edges):
        writer = found.writeStream.option("checkpointLocation", str(root / "checkpoint"))
        query = writer.format("parquet").start(str(root / "changes"))
        try:
            for number in range(start, end):
                put(source, f"{number:03}", [json_of(row) for row in batches[number]])
                query.processAllAvailable()
        finally:
            query.stop()
    return spark.read.parquet(str(root / "changes"))


def json_of(row: Row) -> dict[str, Any]:
    return {"key": row.key, "ts": row.time, "number": row.number, "what": row.names}


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_the_latest_verdicts_are_those_of_the_rows_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With several buckets, and restarted; neither changes any row that is written."""
    written = changelog(spark, tmp_path / "one", buckets=1)
    rows = [row.asDict() for row in written.collect()]
    others = changelog(spark, tmp_path / "other", buckets=5, restart_after=2)
    assert sorted(map(str, rows)) == sorted(str(row.asDict()) for row in others.collect())

    truth = history_of(files(), DELAY, LATENESS, is_quiet=True)
    late = sorted((row["key"], row["time"]) for row in rows if row["late"] is not None)
    assert late == truth.refused != []
    latest = latest_verdicts(written).cache()
    assert latest.columns == [
        *("policy", "key", "time", "offset", "verdict"),
        *("reference_time", "reference_offset", "revision", "arrival", "is_final"),
    ]
    resolved = resolve_verdicts(latest, key="key").collect()
    for name, formula in FORMULAS.items():
        found = {tuple(row)[1:5] for row in resolved if row.policy == name}
        assert found == truth.values(formula)
    assert len(resolved) == latest.count()

    # what was known when the log had come to a time depends on rows up to there
    clocks = [0, *accumulate((max(row.time for row in rows) for rows in files()), max)]
    assert {row["arrival"] for row in rows} == {*clocks[1:]}
    for count, clock in enumerate(clocks):
        for as_of in {clock, max([clock, *(one - 1 for one in clocks[count + 1 : count + 2])])}:
            later = [
                row for rows in files()[count : count + 1] for row in rows if row.time <= clock
            ]
            known = history_of([*files()[:count], later], DELAY, LATENESS, is_quiet=True)
            then = resolve_verdicts(latest_verdicts(written, as_of=as_of), key="key").collect()
            for name, formula in FORMULAS.items():
                assert {tuple(row)[1:5] for row in then if row.policy == name} == (
                    known.values(formula)
                )

    operations: dict[str, int] = defaultdict(int)
    state: dict[tuple[Any, ...], dict[str, Any]] = {}
    final: dict[str, int] = defaultdict(int)
    revised: dict[str, int] = defaultdict(int)
    for row in sorted(rows, key=lambda row: (row["revision"] or 0, row["op"] is not None)):
        if row["late"] is not None:
            assert (row["op"], row["revision"], row["final"]) == (None, None, None)
            continue
        if row["op"] is None:
            assert (row["key"], row["time"], row["verdict"]) == (None, None, None)
            assert row["final"] > final[row["policy"]]
            final[row["policy"]] = row["final"]
            revised[row["policy"]] = row["revision"]
            continue
        point = (row["policy"], row["key"], row["time"], row["offset"])
        was = state.pop(point, None)
        assert (was is None) == (row["op"] == "insert")
        assert was is None or was["revision"] < row["revision"]
        if row["revision"] > revised[row["policy"]]:
            assert row["time"] >= final[row["policy"]]
            assert row["final"] == (final[row["policy"]] or None)
        operations[row["op"]] += 1
        if row["op"] != "delete":
            state[point] = row
    assert operations.keys() == {"insert", "update", "delete"}
    assert final == {"answered": 130 - LATENESS - 15, "lately": 130 - LATENESS}
    for one in latest.collect():
        assert one.is_final == (one.time < final[one.policy])


def test_what_cannot_be_corrected_is_refused(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("value AS ts", "'a' AS key")
    with state_store(spark):

        def build(policy: str = "policy x: ts > 3", **changed: Any) -> None:
            arguments = {"key": "key", "time": "ts", "delay": 5, "lateness": 9, **changed}
            monitor_stream(frame, policy, **arguments)

        build()
        build(lateness=5)
        with pytest.raises(MtlmonError, match="arrival says when changes were told"):
            build(lateness=None, arrival=True)
        with pytest.raises(MtlmonError, match="the delay is 5 and the lateness 4"):
            build(lateness=4)
        with pytest.raises(MtlmonError, match="the lateness is -1, which is negative"):
            build(lateness=-1)
        with pytest.raises(UnitError, match="the lateness 9s has a unit of time"):
            build(lateness="9s")
        build("policy x on every 5: count[0,9]() < 3")
        with pytest.raises(MtlmonError, match=r"policy 'x' is on .* not corrected"):
            build("policy x: ts.next(or: 0) > 3")
        with pytest.raises(MtlmonError, match="'x' has a message, and messages are not"):
            build('trigger x: ts > 3 message "is"')
        with pytest.raises(MtlmonError, match=r"windows or streams .* skipped each time"):
            build("policy x: count[0,9]() < 3", on_error="skip")
        times = frame.withColumn("at", frame.ts.cast("timestamp"))
        frame = times.withWatermark("at", "7 seconds")
        build(time="at", delay=None, lateness="7s")
        with pytest.raises(MtlmonError, match="the watermark has a delay of 7000 milliseconds"):
            build(time="at", delay=None, lateness="6s")
        frame = frame.withColumnRenamed("key", "op")
        with pytest.raises(MtlmonError, match="'op' is called like a column of changes"):
            build(time="at", key="op", delay=None)
    with pytest.raises(MtlmonError, match="'time' is missing"):
        latest_verdicts(spark.sql("SELECT 1 AS policy, 2 AS offset"))
    text = "SELECT '' AS policy, 1 AS time, 2 AS offset, 'insert' AS op, 1 AS revision, 2 AS final"
    with pytest.raises(MtlmonError, match="as_of needs the column arrival"):
        latest_verdicts(spark.sql(text), as_of=3)
    with pytest.raises(MtlmonError, match=r"as_of is a time-stamp, a number, not '3'"):
        latest_verdicts(spark.sql(text), as_of="3")  # type: ignore[arg-type]
