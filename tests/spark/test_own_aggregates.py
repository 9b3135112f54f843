"""Aggregates of the program's own functions, which go to Spark's workers with the policies."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon import streams
from mtlmon.spark import monitor, monitor_stream, resolve_verdicts
from tests.doors import predicates_own_aggregates as own_aggregates
from tests.spark.streams import put, state_store
from tests.spark.test_trace_streams import LOG, counted, frame, log_rows, rows_of, table, truth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

spark_group = pytest.mark.xdist_group("spark")

TEXT = """
unit s
key user
policy narrow: spread[0,10s](amount, or: 0) < 60
policy words: joined[0,6s](what, or: "") != "loginlogin"
policy ticks on every 5s: spread[0,15s](amount, or: 0) < 80
"""


@pytest.fixture(autouse=True)
def aggregates() -> Iterator[None]:
    """The functions are not known by name, so their code must get to the workers."""
    known = dict(own_aggregates._registered)
    streams.register_aggregate(
        "spread",
        lambda x: (x, x),
        lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
        lambda state: state[1] - state[0],
        result="int",
    )
    streams.register_aggregate("joined", lambda s: s, lambda a, b: a + b, str, result="text")
    yield
    own_aggregates._registered.clear()
    own_aggregates._registered.update(known)


@spark_group
def test_batches_say_what_one_machine_says(spark: SparkSession) -> None:
    rows = log_rows(3, 300)
    expected = truth(table(rows), TEXT)
    found = rows_of(monitor(frame(spark, rows), TEXT, order_within="n", end_time="inf"))
    assert counted(found) == expected
    assert {row["policy"] for row in found if not row["verdict"]} == {"narrow", "words", "ticks"}


@pytest.mark.dear("streaming queries")
@spark_group
def test_a_query_says_what_one_machine_says(spark: SparkSession, tmp_path: Path) -> None:
    """It starts again after each batch, so states and functions come from elsewhere."""
    source = tmp_path / "source"
    source.mkdir()
    rows = log_rows(8, 60)
    names = [field.split()[0] for field in LOG.split(", ")]
    with state_store(spark):
        for number in range(0, len(rows), 30):
            given_rows = spark.readStream.schema(LOG).json(str(source))
            verdicts = monitor_stream(given_rows, TEXT, order_within="n", delay=60)
            part = random.Random(4).sample(rows[number : number + 30], 30)
            put(source, f"{number:03}", [dict(zip(names, row, strict=True)) for row in part])
            if number == 30:
                last = (rows[-1][0] + 200, 0, "end", 9, "", 0, 0)
                put(source, "end", [dict(zip(names, last, strict=True))])
            writer = verdicts.writeStream.format("parquet").option("path", str(tmp_path / "out"))
            query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            query.processAllAvailable()
            query.stop()
    written = spark.read.parquet(str(tmp_path / "out"))
    # The watermark is 60 before the last row, which does not come before that.
    clock = rows[-1][0] + 200 - 60
    found = [row.asDict() for row in resolve_verdicts(written, key="user").collect()]
    assert counted(found) == truth(table(rows), TEXT, end_time=clock - 1)
