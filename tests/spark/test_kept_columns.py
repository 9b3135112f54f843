"""Verdicts with columns of the rows that they are about, compared with one machine."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import MtlmonError, TableError
from mtlmon.spark import TiesWarning, monitor
from tests.doors import KeptRows, verdict_type
from tests.spark.test_monitor import configured

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

POLICIES = """
unit s
policy soon: p IMPLIES EVENTUALLY[0,5] q
policy past per none: ONCE[1,9] (q AND PREVIOUS p)
policy often per user, n on rows where n > 0: count[0,9](p) < 3
policy often_here on rows where q: p IMPLIES NEXT[0,4] p
policy later: n < n.next() IMPLIES EVENTUALLY[0,3] q
policy later_here per n: q IMPLIES n.next(2, or: 0) > 0
trigger silent on every 4s: count[0,4s]() = 0 message "nothing at {ts}"
"""
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("user", pa.string()), ("n", pa.int64())]
    + [(name, pa.bool_()) for name in "pq"]
)


def write_files(directory: Path, seed: int, sizes: list[int]) -> list[Path]:
    """Files of rows in the order of time, with several row groups."""
    source = random.Random(seed)
    paths = []
    time = 0
    for number, size in enumerate(sizes):
        rows = []
        for _ in range(size):
            time += source.choice([0, 0, 0, 1, 3])
            truth = {name: source.random() < 0.5 for name in "pq"}
            values = {"ts": time, "user": source.choice("abc"), "n": source.randrange(3)}
            rows.append(values | truth)
        paths.append(directory / f"part-{number}.parquet")
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), paths[-1], row_group_size=7)
    return paths


def rows_of(verdicts: DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in verdicts.select(*names).collect()), key=repr)


@pytest.mark.parametrize("batch", [5, 10_000])
def test_rows_are_those_of_one_machine(spark: SparkSession, tmp_path: Path, batch: int) -> None:
    paths = write_files(tmp_path, 1, [40, 0, 1, 60])
    names = ["policy", "user", "time", "offset", "verdict", "message", "file", "row"]
    check = mtlmon.check(
        POLICIES, list(map(str, paths)), key="user", rows=True, resolve=True, end_time="inf"
    )
    emitted = check.to_arrow().select(names).to_pylist()
    expected = sorted((tuple(row.values()) for row in emitted), key=repr)
    with configured(spark, execution_arrow_maxRecordsPerBatch=batch):
        df = spark.read.parquet(str(tmp_path))
        verdicts = monitor(df, POLICIES, key="user", rows=True, end_time="inf")
        assert verdicts.columns[-3:] == names[-3:]
        found = rows_of(verdicts, names)
    assert [(*row[:6], path_of(row[6]), row[7]) for row in found] == expected
    assert sum(row[7] is not None for row in found) > 200
    assert sum(row[7] is None for row in found) > 10


def path_of(address: str | None) -> str | None:
    return None if address is None else address.removeprefix("file:").replace("///", "/")


@pytest.mark.parametrize(
    "options",
    [
        {"resolve": False},
        {"mode": "naive", "end_time": "last"},
        {"mode": "global", "keep": ("n", "ts"), "ties": "error"},
    ],
)
def test_values_are_those_of_the_row(spark: SparkSession, options: dict[str, Any]) -> None:
    """A verdict of a policy on all rows is about the row at its time and offset."""
    source = random.Random(2)
    rows = []
    for number in range(200):
        time, key = source.choice([number // 3, number // 40]), source.choice(["a", "b", None, "d"])
        rows.append((time, number, key or "c", source.random() < 0.5, source.random() < 0.5))
    schema = "ts bigint, n bigint, `a.key` string, p boolean, q boolean"
    df = spark.createDataFrame(source.sample(rows, len(rows)), schema).repartition(5)
    policies = "policy x: p IMPLIES EVENTUALLY[0,5] q\npolicy y: p SINCE[2,8] NOT q"
    options = {"keep": "n", **options}
    with configured(spark, execution_arrow_maxRecordsPerBatch=11):
        verdicts = monitor(df, policies, key="a.key", order_within="n", **options)
        alone = monitor(
            df, policies, key="a.key", order_within="n", **{**options, "keep": None}
        ).collect()
        found = verdicts.collect()
    numbers: dict[tuple[str, int], list[int]] = {}
    for time, number, key, *_ in sorted(rows):
        numbers.setdefault((key, time), []).append(number)
    assert len(found) == len(alone) > 300
    assert sorted((row[: len(alone[0])] for row in found), key=repr) == sorted(alone, key=repr)
    for row in found:
        assert row["n"] == numbers[row["a.key"], row["time"]][row["offset"]]
        if "ts" in verdicts.columns:
            assert row["ts"] == row["time"]


def test_rows_that_differ_in_kept_columns_are_ties(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, 1, True), (1, 2, True)], "ts bigint, id bigint, p boolean")
    assert len(monitor(rows, "p", ties="error").collect()) == 2
    with pytest.warns(TiesWarning):
        monitor(rows, "p", keep="id").collect()


def test_refusals(spark: SparkSession, tmp_path: Path) -> None:
    (path,) = write_files(tmp_path, 1, [3])
    read = spark.read.parquet(str(path))
    made = spark.sql("SELECT 1 AS ts, true AS p, array(1) AS l")
    variables = "atom a(n) = p\npolicy x: a(y) IMPLIES y > 0"
    for df, policy, options, message in [
        (made, "p", {"rows": True}, "rows=True is for rows that are read from Parquet files"),
        (read, variables, {"rows": True}, "rows and keep are for policies without variables"),
        (read, variables, {"keep": "n"}, "rows and keep are for policies without variables"),
        (read, "p", {"keep": ["n", "n"]}, "a column of keep is given twice"),
        (read, "p", {"keep": [1]}, "keep is the names of columns, and 1 is a int"),
        (read, "p", {"keep": read["n"]}, "keep is the names of columns, and Column"),
        (made, "p", {"keep": "l"}, "the column 'l' is of type array<int>, and keep names"),
        (read, "p", {"keep": "user", "key": "user"}, "verdicts have the key column 'user' anyway"),
        (read.withColumnRenamed("n", "Time"), "p", {"keep": "Time"}, "the column 'Time' is called"),
        (read.withColumnRenamed("n", "row"), "p", {"keep": "row", "rows": True}, "'row' is called"),
    ]:
        with pytest.raises(MtlmonError, match=message):
            monitor(df, policy, **options)  # type: ignore[arg-type]
    with pytest.raises(TableError, match="no column 'm' to keep, only 'ts', 'user', 'n', 'p', 'q'"):
        monitor(read, "p", keep="m")
    with pytest.raises(TableError, match="2 columns are called 'n': rename all but one"):
        monitor(read.selectExpr("*", "n"), "p", keep="n")


@given(data=st.data())
def test_kept_rows(data: st.DataObject) -> None:
    """Random traces, batches and moments of verdicts, compared with a dictionary."""
    kept = KeptRows({"shown": "given"})
    known: dict[tuple[int, int, int], int] = {}
    # by policy, the time-points without a verdict
    waiting: dict[int, list[tuple[int, int, int]]] = {0: [], 1: []}
    trace = time = number = 0
    for size in data.draw(st.lists(st.integers(0, 6), max_size=8)):
        begins = [data.draw(st.booleans()) for _ in range(size)]
        stamps: list[int] = []
        points: list[tuple[int, int, int]] = []
        base = trace
        for is_start in begins:
            trace, time = trace + is_start, 0 if is_start else time + data.draw(st.integers(0, 1))
            offset = sum(point[:2] == (trace, time) for point in known)
            known[trace, time, offset] = number + len(points)
            points.append((trace, time, offset))
            stamps.append(time)
        rows = pa.RecordBatch.from_arrays(
            [pa.array(range(number, number + size), pa.int64())], ["given"]
        )
        number += size
        kept.add(rows, np.array(stamps, np.int64), np.flatnonzero(begins))
        chosen = [place for place in range(size) if data.draw(st.booleans())]
        for policy, places in (0, None), (1, np.array(chosen, np.uint32)):
            kept.expect(places)
            own = points if places is None else [points[place] for place in chosen]
            # verdicts about rows of traces before the present batch's last two have come
            left = [point for point in waiting[policy] if point[0] >= base] + own
            emitted = [point for point in left if data.draw(st.booleans())]
            waiting[policy] = [point for point in left if point not in emitted]
            records = np.zeros(len(emitted), verdict_type())
            records["time_stamp"] = [point[1] for point in emitted]
            records["offset"] = [point[2] for point in emitted]
            owners = np.array([point[0] - base for point in emitted], np.uint32)
            found = kept.found(records.tobytes(), owners, are_rows=True)
            assert found is not None
            assert found.schema.names == ["shown"]
            assert found.column(0).to_pylist() == [known[point] for point in emitted]
            ticks = kept.found(records.tobytes(), owners, are_rows=False)
            assert ticks is not None
            assert ticks.column(0).null_count == len(emitted)
    for policy in 0, 1:
        last = [point for point in waiting[policy] if point[0] == trace]
        records = np.zeros(len(last), verdict_type())
        records["time_stamp"] = [point[1] for point in last]
        records["offset"] = [point[2] for point in last]
        found = kept.found(records.tobytes(), None, are_rows=True)
        if found is not None:
            assert found.column(0).to_pylist() == [known[point] for point in last]
    kept.end_trace()


def test_decided_rows_are_forgotten() -> None:
    kept = KeptRows({"shown": "given"})
    for batch in range(50):
        stamps = np.arange(100 * batch, 100 * (batch + 1))
        rows = pa.RecordBatch.from_arrays([pa.array(stamps)], ["given"])
        kept.add(rows, stamps, np.flatnonzero(stamps == 2000))
        kept.expect(None)
        # the verdicts of every tenth row never come
        records = np.zeros(90, verdict_type())
        records["time_stamp"] = stamps[stamps % 10 != 0]
        owners = np.full(90, stamps[0] == 2000, np.uint32)
        assert kept.found(records.tobytes(), owners, are_rows=True) is not None
        # the open rows of both traces, as many decided ones, and a batch
        assert len(kept._keys) <= 1100
    kept.end_trace()
    for _ in range(2):
        kept.add(rows, stamps, np.array([0]))
    assert len(kept._keys) == 100
