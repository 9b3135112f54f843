"""Monitors partitioned, keyed and streaming data with Spark; the native core runs on executors.

This needs pyspark, pyarrow and pandas (`pip install 'mtlmon[spark]'`), and Java 17 or later, which
`mtlmon[spark-java]` installs. On a cluster, mtlmon must be installed wherever Python runs.
"""

from __future__ import annotations

from mtlmon.support.extras import load_extra

for _package in ("pyspark", "pyarrow", "pandas"):
    load_extra(_package, "spark")

from mtlmon.spark.batch.files import monitor_files  # noqa: E402
from mtlmon.spark.batch.frames import monitor  # noqa: E402
from mtlmon.spark.batch.one_trace import monitor_trace  # noqa: E402
from mtlmon.spark.batch.partitions import monitor_partitions  # noqa: E402
from mtlmon.spark.batch.querying import query  # noqa: E402
from mtlmon.spark.batch.relations import relation_statistics  # noqa: E402
from mtlmon.spark.batch.sql import register  # noqa: E402
from mtlmon.spark.common.changelog import latest_verdicts  # noqa: E402
from mtlmon.spark.common.failures import plain_errors  # noqa: E402
from mtlmon.spark.common.resolving import resolve_verdicts  # noqa: E402
from mtlmon.spark.common.row_counts import (  # noqa: E402
    RowCounts,
    SkippedRowsWarning,
    TiesWarning,
)
from mtlmon.spark.java import use_java  # noqa: E402
from mtlmon.spark.session import session  # noqa: E402
from mtlmon.spark.streaming.queries import monitor_stream  # noqa: E402

__all__ = [
    "RowCounts",
    "SkippedRowsWarning",
    "TiesWarning",
    "latest_verdicts",
    "monitor",
    "monitor_files",
    "monitor_partitions",
    "monitor_stream",
    "monitor_trace",
    "plain_errors",
    "query",
    "register",
    "relation_statistics",
    "resolve_verdicts",
    "session",
    "use_java",
]
