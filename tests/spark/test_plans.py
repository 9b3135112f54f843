"""Keys stay whole whatever Spark makes of a plan."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mtlmon.spark
from mtlmon.policy import parse_policies
from mtlmon.relational.slicing import Statistics
from mtlmon.spark import monitor
from tests.doors import SLICE, SliceSource, prepared_relations, rows_of_slices
from tests.spark.single import Row, collected, expected, random_rows, shuffled
from tests.spark.test_monitor import configured, frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

POLICY = "policy x: p IMPLIES EVENTUALLY[0,5] q"

# Adaptive execution that takes every partition for skewed and cuts it.
SKEW = {
    "adaptive_enabled": True,
    "adaptive_skewJoin_enabled": True,
    "adaptive_forceOptimizeSkewedJoin": True,
    "adaptive_skewJoin_skewedPartitionFactor": "1.0",
    "adaptive_skewJoin_skewedPartitionThresholdInBytes": "1",
    "adaptive_advisoryPartitionSizeInBytes": "4k",
    "adaptive_coalescePartitions_enabled": False,
}


def skewed(spark: SparkSession) -> tuple[list[Row], DataFrame, DataFrame]:
    """Events most of which are of one key; these as a data frame, and one of keys."""
    rows = random_rows(11, keys=6, events=50, skew=2000)
    keys = spark.createDataFrame([(f"key {number}",) for number in range(6)], "k string")
    return rows, frame(spark, shuffled(rows, 11), partitions=None), keys


def by_key_and_time(rows: DataFrame) -> DataFrame:
    """What one would write, and what Spark leaves the repartitioning out of."""
    return rows.repartition("k").sortWithinPartitions("k", "ts")


def tasks_of_keys(rows: DataFrame) -> int:
    """How many tasks with Python workers the rows of a key come to, at most."""

    # a function within a function, so that executors get its code and need no module of tests
    def keys_of_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        keys = sorted({key for batch in batches for key in batch.column(0).to_pylist()})
        yield pyarrow.RecordBatch.from_pydict({"k": pyarrow.array(keys, pyarrow.string())})

    return max(Counter(rows.select("k").mapInArrow(keys_of_task, "k string").collect()).values())


def check_whole(rows: Sequence[Row], sources: Sequence[DataFrame]) -> None:
    """Verdicts are those of one machine, and those of a key of one task."""
    for source in sources:
        found = monitor(source, POLICY, key="k", event="what", order_within="n")
        assert tasks_of_keys(found) == 1
        assert collected(found) == expected(rows, POLICY)


def test_keys_stay_whole_over_a_skewed_join(spark: SparkSession) -> None:
    options = {**SKEW, "autoBroadcastJoinThreshold": -1, "adaptive_autoBroadcastJoinThreshold": -1}
    with configured(spark, **options):
        rows, events, keys = skewed(spark)
        joined = events.join(keys, "k")
        assert tasks_of_keys(by_key_and_time(joined)) > 1, "nothing to guard against"
        check_whole(rows, [joined, joined.repartition("k"), by_key_and_time(joined)])


def test_keys_stay_whole_over_a_join_that_is_broadcast_after_all(spark: SparkSession) -> None:
    options = {
        "adaptive_enabled": True,
        "autoBroadcastJoinThreshold": -1,
        # enough for the keys, not for the events
        "adaptive_autoBroadcastJoinThreshold": "2k",
        "adaptive_localShuffleReader_enabled": True,
        "adaptive_coalescePartitions_enabled": False,
    }
    with configured(spark, **options):
        rows, events, keys = skewed(spark)
        joined = events.join(keys, "k")
        assert tasks_of_keys(by_key_and_time(joined)) > 1, "nothing to guard against"
        check_whole(rows, [joined, joined.repartition("k"), by_key_and_time(joined)])


def test_keys_stay_whole_over_an_aggregation(spark: SparkSession) -> None:
    rows, events, _ = skewed(spark)
    grouped = events.groupBy("k", "ts", "n", "what").count()
    with configured(spark, **SKEW):
        check_whole(rows, [grouped, grouped.repartition("k")])


def slices_of_tasks(rows: DataFrame) -> list[list[int]]:
    """The slices of each task that gets rows."""
    from pyspark.sql import functions as F

    found = rows.select(SLICE, F.spark_partition_id().alias("task")).distinct().collect()
    return [
        sorted(row[SLICE] for row in own)
        for _, own in groupby(sorted(found, key=itemgetter("task")), itemgetter("task"))
    ]


@pytest.mark.parametrize("options", [{}, SKEW], ids=["plain", "skewed"])
@pytest.mark.parametrize("slices", [1, 2, 16, 1000])
def test_each_slice_is_a_task(spark: SparkSession, slices: int, options: dict[str, Any]) -> None:
    with configured(spark, **options):
        # in enough values, each slice has some
        values = spark.range(20 * slices).selectExpr("id AS ts", "id AS x", "1 AS of")
        policy = parse_policies("atom p(x) = of = 1\nfind seen: p(x)")
        source, rows = prepared_relations(
            values,
            policy,
            time=None,
            atoms=None,
            event=None,
            event_separator="|",
            time_unit=None,
            resolution=None,
            on_error="stop",
            function="monitor",
        )
        sliced = SliceSource(source, slices, Statistics())
        tasks = slices_of_tasks(rows_of_slices(rows, sliced, None))
        assert sorted(tasks) == [[number] for number in range(slices)]


def test_numbers_of_partitions_are_not_hashed() -> None:
    """`repartition` with a number hashes what it partitions by, also if that is a number."""
    hashing = {
        f"{path.name}:{number}"
        for path in Path(mtlmon.spark.__file__).parent.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\.repartition\((?!1\)|\*)", line)
    }
    assert len(hashing) == 1, "use in_partitions of mtlmon.spark.common.frames"
