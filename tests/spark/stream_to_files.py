"""A query over files, to be killed: reads one file a batch, writes verdicts to Parquet files.

Run as a script, with the directory that `Places` is about, and with `changes` behind it for the
query that corrects verdicts. Rows with the event `stall` stop their batch for ever, as do verdicts
at the time `STALLING_TIME`, or valuations that do not hold any more; and rows with `die` kill the
Python process that reads them, as do corrected verdicts: each the first time only that it happens.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMULA = "request IMPLIES (NOT error UNTIL[0,9] response) AND ONCE[0,30] login"
WINDOW = "count[0,9](request) + count[0,30](error) < 5"
RELATED = """
key key
relation recent = rows valid 9 group key select count() as n
relation total = rows where number < -20 valid 5 group select count() as n
policy looked: recent[key].n < 3 OR EVENTUALLY[0,3] coalesce(total[].n, 0) > 24
policy changed on changes of recent: recent[key.hold()].n > 1
"""
POLICIES = f"""
{RELATED}
policy formula: {FORMULA}
policy window: {WINDOW}
policy ticks on every 10: count[0,19](request) > 0
policy chosen on rows where error: NOT PREVIOUS[0,9] true
"""
SCHEMA = "key string, ts bigint, what string, number int"
DELAY = 4
CHANGING = "EVENTUALLY[0,3] PREVIOUS error"
CORRECTED = f"""
key key
atom requested(key, number) = what = "request"
atom failed(key) = what = "request|error"
policy changing: {CHANGING}
policy failing per none: requested(k, n) IMPLIES EVENTUALLY[0,5] failed(k)
find again per none: requested(k, n) AND ONCE[1,9] requested(k, m)
"""
LATENESS = 20
STALLING_TIME = 1000


class Places(NamedTuple):
    """The directories of a query, and whether it corrects verdicts."""

    root: Path
    is_corrected: bool = False

    @property
    def source(self) -> Path:
        return self.root / "source"

    @property
    def verdicts(self) -> Path:
        return self.root / "verdicts"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def marker(self, name: str) -> Path:
        """A file that is there once something has happened."""
        return self.root / f"{name}.happened"


class Trouble:
    """Passes rows on; if a column has a value, something happens, once."""

    def __init__(self, column: str, value: object, marker: Path, is_fatal: bool = False) -> None:
        self._column = column
        self._value = value
        self._marker = marker
        self._is_fatal = is_fatal

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if self._value in batch.column(self._column).to_pylist():
                self._happen()

    def _happen(self) -> None:
        if self._marker.exists():
            return
        self._marker.touch()
        if self._is_fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)


def run(spark: SparkSession, places: Places, *, with_troubles: bool = False) -> None:
    """Runs the query until there are no more files.

    Spark gives a process ten seconds to connect, which a busy machine may not keep: then the query
    is started again.
    """
    from pyspark.errors import StreamingQueryException

    while True:
        query = start(spark, places, with_troubles=with_troubles)
        try:
            return query.processAllAvailable()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        finally:
            query.stop()


def start(spark: SparkSession, places: Places, *, with_troubles: bool) -> StreamingQuery:
    """Starts the query."""
    from mtlmon.spark import monitor_stream

    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(places.source))
    if with_troubles:
        for what, is_fatal in (("stall", False), ("die", True)):
            trouble = Trouble("what", what, places.marker(what), is_fatal)
            rows = rows.mapInArrow(trouble, SCHEMA)
    verdicts = monitor_stream(
        rows,
        CORRECTED if places.is_corrected else POLICIES,
        key="key",
        event="what",
        order_within="number",
        delay=0 if places.is_corrected else DELAY,
        lateness=LATENESS if places.is_corrected else None,
        buckets=4 if places.is_corrected else None,
        slices=3 if places.is_corrected else None,
    )
    if with_troubles:
        stalling: tuple[str, object] = "time", STALLING_TIME
        if places.is_corrected:
            dying = Trouble("op", "update", places.marker("die"), is_fatal=True)
            verdicts = verdicts.mapInArrow(dying, verdicts.schema)
            stalling = "op", "delete"
        verdicts = verdicts.mapInArrow(
            Trouble(*stalling, places.marker("verdict")), verdicts.schema
        )
    writer = verdicts.writeStream.format("parquet").option("path", str(places.verdicts))
    return writer.option("checkpointLocation", str(places.checkpoint)).start()


def main(places: Places) -> None:
    from pyspark.errors import StreamingQueryException

    from mtlmon.spark import session

    spark = session(
        {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(places.root / "local"),
            "spark.sql.warehouse.dir": str(places.root / "warehouse"),
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
        }
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        run(spark, places, with_troubles=True)
    except StreamingQueryException:
        if not places.marker("die").exists():
            raise
        run(spark, places, with_troubles=True)


if __name__ == "__main__":
    main(Places(Path(sys.argv[1]), "changes" in sys.argv[2:]))
