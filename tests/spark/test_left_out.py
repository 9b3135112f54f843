"""Rows that are no events: left out and counted, or an error that says which they are."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row

from mtlmon.errors import MtlmonError
from mtlmon.spark import (
    RowCounts,
    SkippedRowsWarning,
    monitor,
    monitor_partitions,
    monitor_trace,
)
from tests.spark.single import collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = "k string, ts bigint, speed bigint, n int"
POLICY = "atom fast = speed + speed > 3\npolicy x: fast IMPLIES ONCE[1,3] NOT fast"
# no time, no key, a time before 1970, a speed that overflows when it is doubled
BAD = [("a", None, 1, 0), (None, 3, 1, 1), ("b", -3, 1, 2), ("b", 90, 2**62, 3)]
GOOD = [(key, number // 2, number % 4, number) for key in "abc" for number in range(40)]


def frame(spark: SparkSession, rows: list[Any]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA).repartition(3)


@pytest.mark.parametrize("end_time", [None, "last"])
def test_rows_that_are_left_out_are_as_if_they_were_not_there(
    spark: SparkSession, end_time: Any
) -> None:
    """Of each kind of bad row one; the last time is that of an event, not of the bad row at 90."""
    given: dict[str, Any] = {"order_within": "n", "end_time": end_time}
    wanted = collected(monitor(frame(spark, GOOD), POLICY, key="k", **given))
    counts = RowCounts()
    verdicts = monitor(
        frame(spark, GOOD + BAD), POLICY, key="k", on_error="skip", counts=counts, **given
    )
    with pytest.warns(SkippedRowsWarning, match=r"so far \d rows? w.*left out, the first for this"):
        assert collected(verdicts) == wanted
    assert counts.skipped == 4
    assert any("'ts'" in error and "the row is ts=None" in error for error in counts.errors)
    assert len(counts.errors) == 4


def test_one_trace_leaves_rows_out(spark: SparkSession) -> None:
    good = [row for row in GOOD if row[0] == "a"]
    bad = [row for row in BAD if row[0] is not None]
    policy = POLICY + "\npolicy y: ALWAYS[0,3] (fast IMPLIES EVENTUALLY NOT fast)"
    given: dict[str, Any] = {"order_within": "n", "end_time": "last", "ranges": 3}
    wanted = collected(monitor_trace(frame(spark, good), policy, **given))
    counts = RowCounts()
    with pytest.warns(SkippedRowsWarning):
        verdicts = monitor_trace(
            frame(spark, good + bad), policy, on_error="skip", counts=counts, **given
        )
        assert collected(verdicts) == wanted
    assert counts.skipped == 3


def test_partitions_leave_rows_out(spark: SparkSession) -> None:
    rows = [Row(ts=1, p=True), Row(ts=None, p=True), Row(ts=2, p=False)]
    counts = RowCounts()
    with pytest.warns(SkippedRowsWarning):
        found = monitor_partitions(
            spark.sparkContext.parallelize(rows, 1), "p", on_error="skip", counts=counts
        ).collect()
    assert list(map(str, found)) == ["1:0 true", "2:0 false"]
    assert counts.skipped == 1
    frame = spark.createDataFrame(rows, "ts bigint, p boolean").coalesce(1)
    with pytest.warns(SkippedRowsWarning):
        assert monitor_partitions(frame, "p", on_error="skip", counts=counts).count() == 2
    assert counts.skipped == 1


def test_a_key_of_bad_rows_only(spark: SparkSession) -> None:
    with pytest.warns(SkippedRowsWarning, match="so far 4 rows"):
        verdicts = monitor(frame(spark, BAD).coalesce(1), POLICY, key="k", on_error="skip")
        assert verdicts.coalesce(1).collect() == []


def test_what_else_may_become_of_rows(spark: SparkSession) -> None:
    with pytest.raises(MtlmonError, match="on_error is 'stop' or 'skip', not 'ignore'"):
        monitor(frame(spark, GOOD), POLICY, on_error="ignore")  # type: ignore[arg-type]


LOGGED = """
import sys
from mtlmon import MtlmonError
from mtlmon.spark import monitor, plain_errors, session

spark = session({"spark.master": "local[1]", "spark.ui.enabled": "false",
                 "spark.ui.showConsoleProgress": "false",
                 "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"})
spark.sparkContext.setLogLevel("ERROR")

def collect():
    # a plan that has failed does not run again
    monitor(spark.sql("SELECT null + id AS ts, true AS p FROM range(3)"), "p").collect()

print("-- plain", file=sys.stderr, flush=True)
try:
    with plain_errors():
        collect()
except MtlmonError as error:
    print(error)
print("-- as ever", file=sys.stderr, flush=True)
try:
    collect()
except Exception:
    pass
"""


@pytest.mark.dear("processes with a Java of their own")
def test_plain_errors_leave_nothing_in_the_log() -> None:
    """Java's trace was still on the standard error output."""
    done = subprocess.run(
        [sys.executable, "-c", LOGGED], capture_output=True, text=True, check=True
    )
    _, plain, as_ever = re.split("^-- .*\n", done.stderr, flags=re.MULTILINE)
    assert plain == ""
    assert done.stdout.startswith("DataFrame: the time column 'ts' is empty")
    assert done.stdout.count("\n") == 1
    assert "Exception in task" in as_ever
