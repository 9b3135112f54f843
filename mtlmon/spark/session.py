"""A Spark session on this machine, or on the cluster that its options name."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mtlmon.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(options: dict[str, str] | None = None) -> SparkSession:
    """Return the running Spark session, or start a new one.

    Before starting one, this calls `use_java` and sets `PYSPARK_PYTHON` to this interpreter unless
    it is set. Sessions that are made in other ways also work.

    Args:
        options: options of Spark's configuration, for instance `{"spark.master": "local[2]"}`.

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
    """Return the number of cores that run tasks; None for a session of Spark Connect."""
    try:
        return spark.sparkContext.defaultParallelism
    except AttributeError:
        return None
