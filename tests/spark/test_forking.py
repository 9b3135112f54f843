"""Spark's processes of Python are forked from one that has imported what they need."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(sys.platform != "linux", reason="no process is forked on other systems"),
]


def test_workers_are_forked(spark: SparkSession) -> None:
    def own_process(_: int) -> tuple[int, str, str]:
        arguments = Path("/proc/self/cmdline").read_bytes().decode()
        return os.getpid(), arguments, os.environ["PYTHONPATH"]

    found = spark.sparkContext.parallelize([1, 2], 2).map(own_process).collect()
    assert found
    for process, arguments, imports in found:
        assert process != os.getpid()
        assert "fork_server.py" in arguments
        # it has the environment that Spark gives it
        assert "pyspark" in imports


def test_a_worker_that_ends_is_replaced(spark: SparkSession) -> None:
    """A task whose process is killed fails, and Spark goes on."""
    rows = spark.sparkContext.parallelize([1], 1)
    with pytest.raises(Exception, match="crashed"):
        rows.foreach(lambda _: os.kill(os.getpid(), 9))
    assert rows.map(lambda one: one + 1).collect() == [2]
