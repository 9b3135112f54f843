"""One Spark, one streaming query: `python -m bench.spark_stream_runs JSON`, JSON as answer.

Each batch is a directory of Parquet files with two rows of every key; or, for a policy with
variables, with as many rows as asked, after a first one that fills its window. A batch takes as
long as all that comes of it: also what is decided, in a batch without rows, as the watermark has
moved.
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
    from pyspark.sql.streaming.query import StreamingQuery

_SCHEMA = "device string, ts bigint, p boolean, q boolean"
_PAIR_SCHEMA = "what string, ts bigint, x bigint"
# How many rows of a policy with variables have the same time-stamp.
_RATE = 100
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
    is_sliced = asked["way"] == "slices"
    schema = _PAIR_SCHEMA if is_sliced else _SCHEMA
    rows = spark.readStream.schema(schema).parquet(str(source))
    writer = _query(rows, asked).writeStream.format("noop")
    found = []
    query = None
    for number in range(asked["repeats"] + 1):
        if is_sliced:
            _put_pairs(spark, source, asked, number)
        else:
            _put(spark, source, asked["keys"], number)
        before = processor_seconds()
        start = time.perf_counter()
        if query is None:
            query = writer.start(checkpointLocation=str(directory / "checkpoint"))
        emitted = _emitted(query)
        query.processAllAvailable()
        seconds = time.perf_counter() - start
        after = processor_seconds()
        of_processors = {name: after[name] - before[name] for name in after}
        found.append({"seconds": seconds, **of_processors, "written": _written(query, emitted)})
    if query is not None:
        query.stop()
    spark.stop()
    return found[1:]


def _emitted(query: StreamingQuery) -> int:
    """The number of the last batch that the query has told of."""
    last = query.lastProgress
    return -1 if last is None else last.batchId


def _written(query: StreamingQuery, emitted: int) -> int:
    """How many bytes RocksDB has written since a batch."""
    return sum(
        int(operator.customMetrics.get("rocksdbTotalBytesWritten", 0))
        for progress in query.recentProgress
        if progress.batchId > emitted
        for operator in progress.stateOperators
    )


def _query(rows: DataFrame, asked: dict[str, Any]) -> DataFrame:
    if asked["way"] == "slices":
        window = asked["window"] // _RATE
        atoms = "\n".join(f'atom {one}(x) = what = "{one}"' for one in "pq")
        text = f"unit s\n{atoms}\nfind found: p(x) AND ONCE[0,{window}] q(x)"
        return mtlmon.spark.monitor_stream(
            rows, text, time="ts", time_unit="s", delay=0, slices=asked["slices"]
        )
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


def _put_pairs(spark: SparkSession, source: Path, asked: dict[str, Any], number: int) -> None:
    from pyspark.sql import functions as F

    window, batch = asked["window"], asked["batch"]
    first = 0 if number == 0 else window + (number - 1) * batch
    one = F.col("id")
    made = spark.range(first, first + (batch if number else window)).select(
        F.when(one % 2 == 0, "p").otherwise("q").alias("what"),
        F.floor(one / _RATE).cast("bigint").alias("ts"),
        F.pmod(F.xxhash64(one), F.lit(10**9)).alias("x"),
    )
    made.coalesce(2).write.mode("append").parquet(str(source))


if __name__ == "__main__":
    main()
