"""Keys stay whole whatever Spark makes of a plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from mtlmon.spark import monitor
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
