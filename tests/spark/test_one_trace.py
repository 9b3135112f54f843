"""One long trace cut into ranges: the verdicts of one machine, whatever is cut where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlmon.errors import ExecutorError, MtlmonError, TableError
from mtlmon.spark import monitor, monitor_trace, plain_errors
from tests.doors import RangeReader, compile_policies, event_source, ranges_of
from tests.spark.single import Row, collected, expected, random_rows, shuffled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.traces import EndTime

pytestmark = pytest.mark.xdist_group("spark")

POLICIES = """
policy answered: p IMPLIES EVENTUALLY[0,5] q
policy nested: ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)
policy neighbours: (PREVIOUS PREVIOUS p) OR NEXT q
policy past: p SINCE (q AND ONCE[3,*] r)
policy liveness: p IMPLIES EVENTUALLY q
policy deep: ALWAYS (p IMPLIES EVENTUALLY[2,*] (q AND HISTORICALLY[0,30] (r OR NOT r)))
policy mixed: (HISTORICALLY (p OR q OR r)) OR ONCE[0,9] (p UNTIL r)
"""


def frame(spark: SparkSession, rows: Sequence[Row], partitions: int = 3) -> DataFrame:
    table = pa.Table.from_pylist([row._asdict() for row in rows])
    return spark.createDataFrame(table).repartition(partitions)


def trace(seed: int, events: int) -> list[Row]:
    return random_rows(seed, keys=1, events=1, skew=events)


def one_machine(
    rows: Sequence[Row], policies: str, end_time: EndTime = None
) -> list[tuple[Any, ...]]:
    """The rows of verdicts, sorted, without a key."""
    whole = expected(rows, policies, end_time=end_time)
    return sorted(((row[0], *row[2:]) for row in whole), key=repr)


@pytest.mark.parametrize("end_time", [None, "inf"])
def test_verdicts_are_those_of_one_machine(spark: SparkSession, end_time: EndTime) -> None:
    rows = trace(7, 400)
    verdicts = monitor_trace(
        frame(spark, shuffled(rows, 1)),
        POLICIES,
        event="what",
        order_within="n",
        end_time=end_time,
        ranges=4,
    )
    assert collected(verdicts) == one_machine(rows, POLICIES, end_time)


@pytest.mark.parametrize("by_id", [True, False])
def test_ranges_may_share_partitions(
    spark: SparkSession, by_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    if not by_id:
        # as before Spark 4.1, when there was no such method
        monkeypatch.delattr("pyspark.sql.DataFrame.repartitionById", raising=False)
        monkeypatch.delattr(ClassicFrame, "repartitionById", raising=False)
    rows = trace(8, 300)
    policies = "policy x: p SINCE[2,*] q\npolicy y: ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)"
    verdicts = monitor_trace(
        frame(spark, rows), policies, event="what", order_within="n", ranges=13
    )
    assert collected(verdicts) == one_machine(rows, policies)
    assert verdicts.rdd.getNumPartitions() >= 10


def test_the_order_of_parquet_files_is_known(spark: SparkSession, tmp_path: Path) -> None:
    # nearly all order is within time-stamps, and files are longer than what is read at once
    rows = [row._replace(ts=row.ts // 400) for row in trace(9, 2999)]
    for number in range(3):
        part = rows[number * 1000 : (number + 1) * 1000]
        table = pa.Table.from_pylist([{"ts": row.ts, "what": row.what} for row in part])
        pq.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=170)
    events = spark.read.parquet(str(tmp_path))
    policies = "policy x: PREVIOUS (p AND NEXT NEXT q)"
    verdicts = monitor_trace(events.where("ts >= 0"), policies, event="what", ranges=4)
    assert collected(verdicts) == one_machine(rows, policies)


def test_an_order_that_matters_and_is_unknown_is_an_error(spark: SparkSession) -> None:
    query = "SELECT id DIV 2 AS ts, true AS p, id % 4 = 3 AS q FROM range(40)"
    verdicts = monitor_trace(spark.sql(query), "PREVIOUS (p AND q)")
    with pytest.raises(ExecutorError, match=r"which comes first: give .*within"), plain_errors():
        verdicts.collect()
    # where rows of one time are alike, their order does not matter
    alike = spark.sql("SELECT id DIV 2 AS ts, id DIV 2 = 3 AS p FROM range(40)")
    found = monitor_trace(alike, "PREVIOUS p", ranges=3).where("verdict").collect()
    assert sorted((row.time, row.offset) for row in found) == [(3, 1), (4, 0)]


def test_an_unknown_order_is_found_across_batches() -> None:
    source = event_source(compile_policies("p", "local"), time="ts")

    def batch(*letters: bool) -> pa.RecordBatch:
        count = len(letters)
        columns = [[2] * count, [0] * count, [5] * count, list(letters)]
        kinds = (pa.int32(), pa.int64(), pa.int64(), pa.bool_())
        arrays = [pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=list("rotp"))

    alike = [batch(True), batch(), batch(True, True)]
    reader = RangeReader(source, np.zeros(3, np.int64))
    assert [piece.place for piece in reader.pieces(iter(alike))] == [2, 2]
    with pytest.raises(TableError, match="two rows of time-stamp 5 are different events"):
        list(reader.pieces(iter([batch(True), batch(False)])))


def test_times_of_any_type(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT timestamp_millis(700 * id + 1) AS at, 0.7D * id AS seconds, id AS n, "
        "id % 5 = 0 AS p FROM range(60)"
    )
    whole = {
        (policy.time, policy.offset): policy.verdict
        for policy in monitor(rows, "p SINCE[1,*] p", time="at", order_within="n").collect()
    }
    assert len(whole) == 60
    for time, unit in (("at", None), ("seconds", "s")):
        verdicts = monitor_trace(
            rows, "p SINCE[1,*] p", time=time, order_within="n", ranges=4, time_unit=unit
        )
        found = {(row.time, row.offset): row.verdict for row in verdicts.collect()}
        assert found == whole


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 100])
def test_rows_are_given_to_every_range_that_reads_them(spark: SparkSession, count: int) -> None:
    first = np.arange(count, dtype=np.int64) * 10
    for last in (first + 9, first + 25):
        times = spark.range(10 * count + 16).selectExpr("id AS time")
        placed = times.where(f"time <= {last[-1]}").select("time", ranges_of(first, last))
        expected_rows = [
            (time, place) for place in range(count) for time in range(first[place], last[place] + 1)
        ]
        assert sorted(map(tuple, placed.collect())) == sorted(expected_rows)


def test_no_rows_have_no_verdicts(spark: SparkSession) -> None:
    rows = frame(spark, trace(4, 3)).where("ts < 0")
    ends: list[EndTime] = [None, "last", "inf"]
    for end_time in ends:
        verdicts = monitor_trace(rows, "ONCE p", event="what", end_time=end_time)
        assert verdicts.collect() == []


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"time": "tss"}, TableError, "no column 'tss' for the times"),
        ({"event": None}, TableError, "no column 'p' for the atom"),
        ({"ranges": 0}, MtlmonError, "at least one range, not 0"),
        ({"end_time": "first"}, MtlmonError, "'first'"),
        ({"mode": "fast"}, MtlmonError, "unknown mode"),
    ],
)
def test_mistakes_are_found_when_the_plan_is_built(
    spark: SparkSession, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    rows = frame(spark, trace(5, 3))
    with pytest.raises(kind, match=message):
        monitor_trace(rows, "p", **({"event": "what"} | arguments))


def test_a_row_at_fault_is_shown(spark: SparkSession) -> None:
    rows = spark.sql("SELECT nullif(id, 7) AS ts, id > 3 AS p FROM range(20)")
    message = "the time column 'ts' is empty in this row.*; the row is ts=None, p=True"
    verdicts = monitor_trace(rows, "p", ranges=2)
    with pytest.raises(ExecutorError, match=message), plain_errors():
        verdicts.collect()
    # passes over the ranges meet it when the plan is built
    with pytest.raises(ExecutorError, match=message):
        monitor_trace(rows, "ONCE p", ranges=2)


def test_time_stamps_are_never_cut(spark: SparkSession) -> None:
    rows = spark.sql("SELECT id DIV 500 AS ts, id AS n, id % 7 = 0 AS p FROM range(2000)")
    verdicts = monitor_trace(rows, "ONCE[0,1] p", order_within="n", ranges=16)
    found = sorted((row.time, row.offset) for row in verdicts.collect())
    assert found == [(time, offset) for time in range(4) for offset in range(500)]


def test_a_plan_has_no_more_ranges_than_asked_for(spark: SparkSession) -> None:
    rows = spark.sql("SELECT id AS ts, id % 7 = 0 AS p FROM range(1000)")
    for ranges in (1, 2, 7):
        verdicts = monitor_trace(rows, "ONCE[0,1] p", ranges=ranges)
        assert verdicts.rdd.getNumPartitions() == ranges
        assert verdicts.count() == 1000
