"""One Spark, one streaming query: `python -m bench.spark_stream_runs JSON`, JSON as answer.

Each batch is a directory of Parquet files with two rows of every key. A batch takes as long as all
that comes of it: also what is decided, in a batch without rows, as the watermark has moved.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mtlmon.spark
from bench.processes import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "device string, ts bigint, p boolean, q boolean"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_ROWS_OF_A_KEY = 2
# Time-stamps of a batch, and the distance from its first one to that of the next batch.
_SPAN, _STEP = 20, 30
# How late rows may be where they correct verdicts: the rows of three batches are remembered.
_REMEMBERED = 3 * _STEP


class CountRows(StatefulProcessor):
    """What stands in place of the monitor: a state for each key, with the number of its rows."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        known = self._count.get()
        count = sum(1 for _ in rows) + (known[0] if known else 0)
        self._count.update((count,))
        yield Row(device=key[0], n=count)

    def close(self) -> None:
        pass


def _pass_through(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def main() -> None:
    asked = json.loads(sys.argv[1])
    with TemporaryDirectory() as directory:
        found = _batches(Path(directory), asked)
    print(json.dumps(found))


def _batches(directory: Path, asked: dict[str, Any]) -> list[dict[str, float]]:
    """The seconds, and those of processors, of each batch but the first, in which Java compiles."""
    spark = mtlmon.spark.session(
        {
            "spark.master": "local[2]",
            "spark.driver.memory": "2g",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
            "spark.local.dir": str(directory / "local"),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }
    )
    spark.sparkContext.setLogLevel("OFF")
    source = directory / "source"
    source.mkdir()
    rows = spark.readStream.schema(_SCHEMA).parquet(str(source))
    writer = _query(rows, asked).writeStream.format("noop")
    found = []
    query = None
    for number in range(asked["repeats"] + 1):
        _put(spark, source, asked["keys"], number)
        before = processor_seconds()
        start = time.perf_counter()
        if query is None:
            query = writer.start(checkpointLocation=str(directory / "checkpoint"))
        query.processAllAvailable()
        seconds = time.perf_counter() - start
        after = processor_seconds()
        found.append({"seconds": seconds, **{name: after[name] - before[name] for name in after}})
    if query is not None:
        query.stop()
    spark.stop()
    return found[1:]


def _query(rows: DataFrame, asked: dict[str, Any]) -> DataFrame:
    if asked["way"] == "pass":
        return rows.mapInArrow(_pass_through, rows.schema)
    if asked["way"] == "states":
        return rows.groupBy("device").transformWithState(
            statefulProcessor=CountRows(),
            outputStructType="device string, n bigint",
            outputMode="Append",
            timeMode="None",
        )
    lateness = _REMEMBERED if asked["way"] == "corrections" else None
    return mtlmon.spark.monitor_stream(
        rows, asked["formula"], key="device", delay=0, lateness=lateness, buckets=asked["buckets"]
    )


def _put(spark: SparkSession, source: Path, keys: int, number: int) -> None:
    from pyspark.sql import functions as F

    count = _ROWS_OF_A_KEY * keys
    one = F.col("id")
    time_stamp = F.lit(number * _STEP) + F.floor(one * _SPAN / count)
    made = spark.range(count).select(
        F.concat(F.lit("device "), F.pmod(one, F.lit(keys))).alias("device"),
        time_stamp.cast("bigint").alias("ts"),
        (F.pmod(F.xxhash64(one), F.lit(2)) == 0).alias("p"),
        (F.pmod(F.xxhash64(one + 1), F.lit(2)) == 0).alias("q"),
    )
    made.coalesce(2).write.mode("append").parquet(str(source))


if __name__ == "__main__":
    main()
