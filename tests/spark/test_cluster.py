"""Executors in processes of their own, as on a cluster; tasks that fail and are tried again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from mtlmon import MtlmonError
from mtlmon.spark import use_java
from tests.spark.single import expected, random_rows, shuffled

pytestmark = pytest.mark.xdist_group("spark")

POLICY = "policy x: p IMPLIES EVENTUALLY[0,5] q"

PROGRAM = """
import json, sys
import mtlmon.spark

def on_cluster(directory, policy):
    def fail_once(batches):
        # all verdicts of the partition are taken, and then its worker is gone
        import os, signal
        from pyspark import TaskContext
        yield from list(batches)
        if TaskContext.get().attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    spark = mtlmon.spark.session({
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": directory + "/warehouse",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    })
    spark.sparkContext.setLogLevel("OFF")
    events = spark.read.parquet(directory + "/events.parquet")
    verdicts = mtlmon.spark.monitor(events, policy, key="k", event="what", order_within="n")
    first = [tuple(row) for row in verdicts.collect()]
    again = [tuple(row) for row in verdicts.mapInArrow(fail_once, verdicts.schema).collect()]
    lines = spark.sparkContext.textFile(directory + "/trace.log", 1)
    trace = mtlmon.spark.monitor_partitions(lines, "p").collect()
    spark.stop()
    print(json.dumps([first, again, trace]))

on_cluster(*sys.argv[1:])
"""


def test_executors_of_their_own(tmp_path: Path) -> None:
    try:
        use_java()
    except MtlmonError as error:
        pytest.skip(str(error))
    rows = random_rows(31, keys=12, events=40)
    table = pa.Table.from_pylist([row._asdict() for row in shuffled(rows, 31)])
    pq.write_table(table, tmp_path / "events.parquet")
    (tmp_path / "trace.log").write_text("@1 p\n@2 q\n")
    work = Path(pyspark.__file__).parent / "work"
    had_work = work.exists()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), POLICY],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        # where Spark's own cluster leaves what its workers had
        if not had_work:
            shutil.rmtree(work, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    first, again, trace = json.loads(done.stdout.splitlines()[-1])
    wanted = expected(rows, POLICY)
    assert sorted(map(tuple, first), key=repr) == wanted
    assert sorted(map(tuple, again), key=repr) == wanted
    assert trace == ["1:0 true", "2:0 false"]
