"""Streaming queries over files that appear one after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def put(directory: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """A file of JSON lines that appears whole, later than all before by its time."""
    number = len(list(directory.iterdir()))
    written = directory.parent / f"{name}.tmp"
    written.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Spark reads files in the order of these times, and knows those of one time no order
    os.utime(written, (1_700_000_000 + number,) * 2)
    written.rename(directory / f"{name}.json")


class Stream:
    """A running query, whose rows are in memory."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, source: Path) -> None:
        self._spark = spark
        self._query = query
        self._source = source
        self._count = 0
        self._seen = 0

    def send(self, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """What comes of a batch with these rows and, if it moves the watermark, of time alone."""
        self._count += 1
        put(self._source, f"{self._count:03}", rows)
        self._query.processAllAvailable()
        found = [row.asDict() for row in self._spark.table(self._query.name).collect()]
        new, self._seen = found[self._seen :], len(found)
        return new


@contextmanager
def streaming(
    spark: SparkSession, frame: DataFrame, directory: Path, source: Path
) -> Iterator[Stream]:
    """Runs a query over files in a directory."""
    writer = frame.writeStream.format("memory").queryName(f"verdicts_{directory.name}")
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        yield Stream(spark, query, source)
    finally:
        query.stop()


@contextmanager
def state_store(spark: SparkSession, provider: str | None = ROCKSDB) -> Iterator[None]:
    """Has the session keep states in a store, None for the default one, in few parts."""
    partitions = spark.conf.get(PARTITIONS)
    if provider is None:
        spark.conf.unset(PROVIDER)
    else:
        spark.conf.set(PROVIDER, provider)
    spark.conf.set(PARTITIONS, 2)
    try:
        yield
    finally:
        spark.conf.unset(PROVIDER)
        spark.conf.set(PARTITIONS, partitions or "200")
