"""What policy files say of their policies, as columns of verdicts, compared with one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import mtlmon
from mtlmon.spark import monitor, monitor_files, monitor_partitions, monitor_stream, monitor_trace
from tests.spark.streams import state_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

POLICIES = """
unit s
policy soon "It's answered \\"soon\\"." severity high: p IMPLIES EVENTUALLY[0,5] q
policy calm severity low: NOT q
policy plain: p OR NOT p
"""
SCHEMA = "ts bigint, p boolean, q boolean, user string"
ROWS = [
    (1, True, False, "ann"),
    (4, False, True, "bob"),
    (5, True, False, "ann"),
    (30, True, True, "x"),
]
NAMES = ["policy", "time", "verdict", "severity", "text"]


def emitted(spark: SparkSession, policies: str, names: list[str], **options: Any) -> list[Any]:
    table = spark.createDataFrame(ROWS, SCHEMA).toArrow()
    found = mtlmon.check(policies, table, resolve=True, end_time="inf", **options).to_arrow()
    return sorted((tuple(row.values()) for row in found.select(names).to_pylist()), key=repr)


def collected(verdicts: DataFrame, names: list[str]) -> list[Any]:
    assert verdicts.columns[-2:] == names[-2:]
    return sorted((tuple(row) for row in verdicts.select(*names).collect()), key=repr)


def test_all_ways(spark: SparkSession, tmp_path: Path) -> None:
    expected = emitted(spark, POLICIES, NAMES)
    assert ("soon", 5, False, "high", 'It\'s answered "soon".') in expected
    assert ("plain", 1, True, None, None) in expected
    df = spark.createDataFrame(ROWS, SCHEMA)
    df.coalesce(1).write.parquet(str(tmp_path / "rows"))
    asked: dict[str, Any] = {"end_time": "inf"}
    assert collected(monitor(df, POLICIES, **asked), NAMES) == expected
    assert collected(monitor_partitions(df.coalesce(1), POLICIES, **asked), NAMES) == expected
    assert collected(monitor_trace(df, POLICIES, ranges=1, **asked), NAMES) == expected
    paths = str(tmp_path / "rows" / "*.parquet")
    assert collected(monitor_files(spark, paths, POLICIES, **asked), NAMES) == expected


def test_names_that_are_taken(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA).withColumnRenamed("user", "Severity")
    verdicts = monitor(df, POLICIES, key="Severity", end_time="inf")
    assert verdicts.columns[-2:] == ["policy_severity", "text"]


def test_policies_with_variables(spark: SparkSession) -> None:
    policies = """
    unit s
    atom a(user) = p
    policy known "Ann only." severity high: a(u) IMPLIES u = "ann"
    find seen "Who it was." : a(u)
    """
    names = ["policy", "time", "verdict", "u", "severity", "text"]
    df = spark.createDataFrame(ROWS, SCHEMA)
    for more in "", 'policy plain "Or not." severity low: q':
        expected = emitted(spark, policies + more, names, time_points="stamp")
        assert ("seen", 1, True, "ann", None, "Who it was.") in expected
        assert collected(monitor(df, policies + more, slices=2, end_time="inf"), names) == expected


@pytest.mark.dear("streaming queries")
def test_streams(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA)
    df.coalesce(1).write.parquet(str(tmp_path / "rows"))
    with state_store(spark):
        arrivals = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "rows"))
        verdicts = monitor_stream(arrivals, POLICIES, delay=0)
        query = (
            verdicts.writeStream.format("memory")
            .queryName("facts")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    found = collected(spark.table("facts"), NAMES)
    assert found
    assert set(found) <= set(emitted(spark, POLICIES, NAMES))
