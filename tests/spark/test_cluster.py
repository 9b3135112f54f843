"""Executors in processes of their own, as on a cluster; tasks that are run twice."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import mtlmon
from mtlmon import MtlmonError
from mtlmon.spark import use_java
from tests.spark.single import Row, expected, random_rows, shuffled

pytestmark = pytest.mark.xdist_group("spark")

POLICY = "policy x: p IMPLIES EVENTUALLY[0,5] q"

START = """
import importlib, json, os, signal, sys, time
import mtlmon.spark
from pyspark import TaskContext

directory, policy, *others = sys.argv[1:]
settings = {
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": directory + "/warehouse",
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}

def verdicts_of(spark):
    events = spark.read.parquet(directory + "/events.parquet")
    return mtlmon.spark.monitor(events, policy, key="k", event="what", order_within="n")
"""

ARCHIVED = """
def on_cluster():
    def fail_once(batches):
        # all verdicts of the partition are taken, and then its worker is gone
        yield from list(batches)
        if TaskContext.get().attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    spark = mtlmon.spark.session({
        **settings,
        "spark.master": "local-cluster[2,1,1024]",
        "spark.archives": directory + "/packages.tar.gz#packages",
        "spark.executorEnv.PYTHONPATH": "./packages",
    })
    spark.sparkContext.setLogLevel("OFF")
    verdicts = verdicts_of(spark)
    first = [tuple(row) for row in verdicts.collect()]
    again = [tuple(row) for row in verdicts.mapInArrow(fail_once, verdicts.schema).collect()]
    lines = spark.sparkContext.textFile(directory + "/trace.log", 1)
    trace = mtlmon.spark.monitor_partitions(lines, "p").collect()
    # the task may be the first of its executor
    places = lines.map(lambda _: importlib.import_module("mtlmon").__file__).distinct().collect()
    spark.stop()
    print(json.dumps([first, again, trace, places]))

on_cluster()
"""

SPECULATIVE = """
def on_cluster():
    (master,) = others

    def slow_at_first(batches):
        taken = list(batches)
        context = TaskContext.get()
        if context.partitionId() == 0:
            with open(f"{directory}/attempt{context.attemptNumber()}", "w"):
                pass
            if context.attemptNumber() == 0:
                time.sleep(600)
        yield from taken

    spark = mtlmon.spark.session({
        **settings,
        "spark.master": master,
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1",
        "spark.sql.adaptive.enabled": "false",
    })
    spark.sparkContext.setLogLevel("OFF")
    verdicts = verdicts_of(spark)
    twice = [tuple(row) for row in verdicts.mapInArrow(slow_at_first, verdicts.schema).collect()]
    spark.stop()
    print(json.dumps(twice))

on_cluster()
"""


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """Rows of events, which are also in a file."""
    try:
        use_java()
    except MtlmonError as error:
        pytest.skip(str(error))
    rows = random_rows(31, keys=12, events=40)
    table = pa.Table.from_pylist([row._asdict() for row in shuffled(rows, 31)])
    pq.write_table(table, tmp_path / "events.parquet")
    return rows


def run(program: str, directory: Path, *arguments: str) -> Any:
    """What a program prints last."""
    done = subprocess.run(
        [sys.executable, "-c", START + program, str(directory), POLICY, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.dear("processes with a Java of their own")
def test_executors_of_their_own(rows: list[Row], tmp_path: Path) -> None:
    (tmp_path / "trace.log").write_text("@1 p\n@2 q\n")
    with tarfile.open(tmp_path / "packages.tar.gz", "w:gz", compresslevel=1) as packages:
        for package in (mtlmon, dd):
            assert package.__file__ is not None
            packages.add(Path(package.__file__).parent, package.__name__)
    work = Path(pyspark.__file__).parent / "work"
    had_work = work.exists()
    try:
        first, again, trace, places = run(ARCHIVED, tmp_path)
    finally:
        # where Spark's own cluster leaves what its workers had
        if not had_work:
            shutil.rmtree(work, ignore_errors=True)
    wanted = expected(rows, POLICY)
    assert sorted(map(tuple, first), key=repr) == wanted
    assert sorted(map(tuple, again), key=repr) == wanted
    assert trace == ["1:0 true", "2:0 false"]
    # the executors had it from the archive, not from where it is installed here
    assert [Path(place).parts[-3:] for place in places] == [("packages", "mtlmon", "__init__.py")]


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """The address of a cluster of two hosts, as a task's second attempt is on another one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    home = Path(pyspark.__file__).parent
    deploy = "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    commands = [[*master, "--webui-port", "0"]]
    for number, host in enumerate(("127.0.0.2", "127.0.0.3")):
        place = ["--host", host, "--webui-port", "0", "--work-dir", str(directory / f"w{number}")]
        size = ["--cores", "1", "--memory", "1g"]
        commands.append([f"{deploy}.worker.Worker", *place, *size, address])
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with open(directory / "cluster.log", "w") as log:
        processes = [
            subprocess.Popen(
                [home / "bin" / "spark-class", *command],
                env=environment,
                cwd=directory,
                stdout=log,
                stderr=log,
            )
            for command in commands
        ]
        try:
            yield address
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


@pytest.mark.dear("processes with a Java of their own")
def test_speculative_tasks(rows: list[Row], tmp_path: Path) -> None:
    with cluster(tmp_path) as address:
        verdicts = run(SPECULATIVE, tmp_path, address)
    assert sorted(map(tuple, verdicts), key=repr) == expected(rows, POLICY)
    # the second attempt ran beside the first, which was not waited for
    assert {path.name for path in tmp_path.glob("attempt*")} == {"attempt0", "attempt1"}
