"""A Spark session on this machine, or on the cluster that its options name."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mtlmon.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(options: dict[str, str] | None = None) -> SparkSession:
    """The running Spark session, or a new one.

    Before one is started, `use_java` sees to a Java runtime, and `PYSPARK_PYTHON` becomes this
    interpreter unless it is set. Sessions made in other ways serve as well.

    Args:
        options: of Spark's configuration, `{"spark.master": "local[2]"}` for instance.

    Raises:
        MtlmonError: there is no Java 17 or later.
    """
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        use_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in (options or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def cores_of(spark: SparkSession) -> int | None:
    """On how many cores its tasks run; None where a session of Spark Connect does not tell."""
    try:
        return spark.sparkContext.defaultParallelism
    except AttributeError:
        return None
