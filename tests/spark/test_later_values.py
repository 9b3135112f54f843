"""Policies whose rows wait for later values, in Spark: for each key, what one machine says."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon.errors import TableError
from mtlmon.spark import (
    RowCounts,
    SkippedRowsWarning,
    monitor,
    monitor_files,
    monitor_partitions,
    monitor_stream,
    register,
    resolve_verdicts,
)
from tests.spark.streams import put, state_store, streaming
from tests.spark.test_clocks import CUTS, by_name, found_in_order, run_query, verdicts_of
from tests.spark.test_key_streams import Query
from tests.spark.test_trace_streams import (
    LOG,
    counted,
    frame,
    log_rows,
    quoted,
    rows_of,
    source_of,
    table,
    truth,
)
from tests.streams.programs import CELLS, rows
from tests.streams.test_clocks import small
from tests.streams.test_later_files import END_TIMES, expected, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.doors import EndTime
    from tests.streams.programs import Row
    from tests.streams.test_clocks import Verdicts
    from tests.streams.test_later_files import File

spark_group = pytest.mark.xdist_group("spark")

POLICIES = """
unit s
key user
stream gap = ts.next() - ts
policy soon: gap < 5 OR NOT what.next(2) = "buy"
policy steps per host: amount - amount.next(or: 0) < 60 OR EVENTUALLY[0,5s] code.next(3) = 200
policy average per none: avg[0,9s](amount).next() < 80.0
trigger jump: amount.next() > amount + 50 message "{user}: {amount} to {amount.next()}"
policy row: count[0,5s]() < 2
policy tick on every 10s: count[0,10s]() > 0
"""


def of_later(verdicts: Verdicts) -> Verdicts:
    """The verdicts on rows that wait."""
    return {name: verdict for name, verdict in verdicts.items() if name[0] == "later"}


FEW = settings(max_examples=60)


@FEW
@given(files(), rows(20).map(small), END_TIMES, CUTS, st.booleans())
def test_sorted_rows_are_those_of_the_reference(
    file: File, log: list[Row], end_time: EndTime, cuts: list[int], knows_clock: bool
) -> None:
    wanted = expected(file, log, end_time)
    clock = None
    if knows_clock:
        clock = log[-1][0] if log else 0
    try:
        found = found_in_order(file.text, log, cuts, end_time, clock)
    except TableError as error:
        assume("at the row of time-stamp" not in str(error))
        raise
    assert of_later(by_name(found)) == wanted, file.text


@FEW
@given(files(), rows(20).map(small), st.data())
def test_a_query_is_that_of_the_reference(file: File, log: list[Row], data: st.DataObject) -> None:
    query = Query(source_of(file.text), tasks=1)
    wanted = expected(file, log, None)
    try:
        end = max(run_query(query, log, data), log[-1][0] if log else 0) + 1
        query.resume([], end)
    except TableError as error:
        assume("at the row of time-stamp" not in str(error))
        raise
    assert of_later(verdicts_of(query)) == wanted, file.text


def test_a_key_whose_rows_wait_is_kept_and_left_alone() -> None:
    query = Query(source_of("policy p: i.next(2) > i"), tasks=1, buckets=1)
    cells = dict.fromkeys(CELLS)
    query.resume([(1, 1, {**cells, "i": 1}), (2, 1, {**cells, "i": 2})], 0)
    for horizon in range(1, 1000, 50):
        query.resume([], horizon)
    assert query.visits == 2 and not query.verdicts
    query.resume([(1000, 1, {**cells, "i": 3})], 999)
    query.resume([], 1001)
    assert [str(one) for one in query.verdicts[1, 0]] == ["1:0 true"]


def test_time_tells_nothing_about_rows_that_wait() -> None:
    """The row at 3 may still make the policy true at 1, whatever the time is."""
    text = "policy p: EVENTUALLY[0,5] i.next() > i"
    cells = dict.fromkeys(CELLS)
    log: list[Row] = [(1, 1, {**cells, "i": 5}), (3, 1, {**cells, "i": 1})]
    ends: list[EndTime] = [None, "last", 50]
    for end_time in ends:
        for clock in (None, 50):
            assert found_in_order(text, log, [], end_time, clock) == []
    found = found_in_order(text, log, [], "inf", None)
    assert [(row["time"], row["verdict"]) for row in found] == [(1, False), (3, False)]
    query = Query(source_of(text), tasks=1)
    query.resume(log, 0)
    query.resume([], 50)
    query.resume([(100, 1, {**cells, "i": 9})], 60)
    query.resume([], 101)
    assert [str(one) for one in query.verdicts[1, 0]] == ["1:0 true", "3:0 true"]


def test_messages_of_a_query() -> None:
    text = 'trigger t: i.next() > i message "{i} to {i.next()}"\npolicy q: i > 1'
    query = Query(source_of(text), tasks=1)
    log: list[Row] = [
        (time, 1, {**dict.fromkeys(CELLS), "i": value})
        for time, value in ((1, 1), (2, 3), (3, 2), (4, 7))
    ]
    query.resume(log, 0)
    query.resume([], 9)
    assert query.messages == {(1, 0): ["1 to 3", "2 to 7"]}
    assert [str(one) for one in query.verdicts[1, 0]] == ["1:0 false", "2:0 true", "3:0 false"]


def test_rows_that_wait_where_integers_overflow() -> None:
    text = "policy p: i + i.next(or: 0) > 0"
    log: list[Row] = [
        (time, 1 + time // 9, {**dict.fromkeys(CELLS), "i": value})
        for time, value in ((1, 1), (2, 2**62), (3, 2**62), (9, 0), (19, 2**63 - 1), (20, 1))
    ]
    advice = r".* overflows 64 bits.*; on_error='skip' leaves such rows out"
    for cuts in ([], [1], [3]):
        with pytest.raises(TableError, match="at the row of time-stamp 2 of k 1: " + advice):
            found_in_order(text, log, cuts, None, None)
        found = found_in_order(text, log, cuts, "inf", None, "skip")
        assert [(row["time"], row["verdict"]) for row in found] == [
            *((1, True), (3, True), (9, False), (20, True))
        ]
    query = Query(source_of(text), tasks=1)
    query.resume(log, 0)
    with pytest.raises(TableError, match="at the row of time-stamp 2 of k 1: " + advice):
        query.resume([], 11)


@spark_group
@pytest.mark.parametrize("end_time", [None, "inf", 10_000])
def test_data_frames(spark: SparkSession, end_time: EndTime) -> None:
    log = log_rows(15, 150)
    found = rows_of(monitor(frame(spark, log), POLICIES, order_within="n", end_time=end_time))
    assert counted(found) == truth(table(log), POLICIES, end_time=end_time)
    assert len({row["policy"] for row in found if not row["verdict"]}) == 6
    assert sum(row["message"] is not None for row in found) > 9
    alone = POLICIES.replace("policy tick on every 10s: count[0,10s]() > 0", "")
    found = rows_of(monitor(frame(spark, log), alone, order_within="n", end_time=end_time))
    waiting = {"soon", "steps", "average", "jump"}
    assert counted([row for row in found if row["policy"] in waiting]) == truth_of(
        log, POLICIES, waiting, end_time
    )


def truth_of(log: Any, text: str, names: set[str], end_time: EndTime) -> Any:
    """The verdicts of one machine on some policies."""
    check = mtlmon.check(text, table(log), resolve=True, end_time=end_time)
    return counted([row for row in check.to_arrow().to_pylist() if row["policy"] in names])


@spark_group
def test_each_partition_and_file_is_a_log(spark: SparkSession, tmp_path: Path) -> None:
    log = log_rows(16, 90)
    text = "\n".join(
        line
        for line in POLICIES.splitlines()
        if " per " not in line and "key" not in line and "every" not in line
    )
    df = spark.createDataFrame(log, LOG).coalesce(1)
    register(spark)
    df.createOrReplaceTempView("rows_that_wait")
    path = str(tmp_path / "log.jsonl")
    table(log).to_pandas().to_json(path, orient="records", lines=True)
    ends: list[EndTime] = ["last", "inf"]
    for end_time in ends:
        wanted = truth(table(log), text, end_time=end_time)
        assert counted(rows_of(monitor_partitions(df, text, end_time=end_time))) == wanted
        of_file = rows_of(monitor_files(spark, path, text, end_time=end_time))
        assert counted([{k: v for k, v in row.items() if k != "file"} for row in of_file]) == wanted
        argument = f", end_time => '{end_time}'"
        of_table = spark.sql(
            "SELECT * FROM mtlmon(TABLE(rows_that_wait) PARTITION BY user ORDER BY (ts, n), policy "
            f"=> '{quoted(text)}', key => 'user'{argument})"
        )
        of_arrays = spark.sql(
            "SELECT user, inline(mtlmon_verdicts(sort_array(collect_list(struct(ts, n, user, host, "
            f"what, code, amount))), '{quoted(text)}'{argument})) FROM rows_that_wait GROUP BY user"
        )
        of_users = {}
        for user in {row[2] for row in log}:
            own = truth(table([row for row in log if row[2] == user]), text, end_time=end_time)
            for one, count in own.items():
                of_users[tuple(sorted((*one, ("user", user))))] = count
        renamed = [{"user": row.pop("key"), **row} for row in rows_of(of_table)]
        assert counted(renamed) == of_users
        assert counted(rows_of(of_arrays)) == of_users


@spark_group
def test_text_logs(spark: SparkSession, tmp_path: Path) -> None:
    lines = ["@1 a", "@2", "@9 a", "@9", "@15"]
    path = tmp_path / "one.log"
    path.write_text("\n".join(lines) + "\n")
    text = "unit s\npolicy p: ts.next() - ts < 4 OR NOT count[0,9s](a).next() > 1"
    wanted = ["1:0 true", "2:0 false", "9:0 true", "9:1 true"]
    log: Any = spark.sparkContext.parallelize(lines, 1)
    ends: list[tuple[EndTime, list[str]]] = [(None, []), ("inf", ["15:0 true"])]
    for end_time, more in ends:
        assert monitor_partitions(log, text, end_time=end_time).collect() == wanted + more
        found = [
            f"{row['time']}:{row['offset']} {str(row['verdict']).lower()}"
            for row in rows_of(monitor_files(spark, path, text, end_time=end_time))
        ]
        assert found == wanted + more


@spark_group
def test_counts_of_rows_that_overflow(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(1, "a", 2**63 - 1), (2, "a", 1), (3, "a", 0)], "ts long, k string, x long"
    )
    text = "key k\npolicy p: x + x.next() > 0"
    counts = RowCounts()
    with pytest.warns(SkippedRowsWarning):
        found = monitor(df, text, on_error="skip", counts=counts).collect()
    assert [row["time"] for row in found] == [2]
    assert counts.skipped == 1
    assert "at the row of time-stamp 1 of k a: x + x.next() overflows 64 bits" in counts.errors[0]


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    with state_store(spark):
        yield


@pytest.mark.dear("streaming queries")
@spark_group
@pytest.mark.usefixtures("rocksdb")
def test_a_query_that_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    log = log_rows(18, 90)
    generator = random.Random(5)
    names = [field.split()[0] for field in LOG.split(", ")]
    for number in range(0, len(log), 30):
        given_rows = spark.readStream.schema(LOG).json(str(source))
        verdicts = monitor_stream(given_rows, POLICIES, order_within="n", delay=60)
        part = generator.sample(log[number : number + 30], 30)
        put(source, f"{number:03}", [dict(zip(names, row, strict=True)) for row in part])
        if number == 60:
            last = dict(zip(names, (log[-1][0] + 200, 0, "end", 9, "", 0, 0), strict=True))
            put(source, "end", [last])
        writer = verdicts.writeStream.format("parquet").option("path", str(tmp_path / "verdicts"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        query.stop()
    written = spark.read.parquet(str(tmp_path / "verdicts"))
    resolved = resolve_verdicts(written, key=["user", "host"]).collect()
    # the watermark is 60 before the last row, which does not come before that
    wanted = truth(table(log), POLICIES, end_time=log[-1][0] + 200 - 60 - 1)
    plain = [tuple(item for item in one if item[0] != "message") for one in wanted.elements()]
    assert counted([row.asDict() for row in resolved]) == type(wanted)(plain)
    messages = sorted(
        (row["user"], row["time"], row["message"])
        for row in written.where("message IS NOT NULL").collect()
    )
    assert messages == sorted(
        (one["user"], one["time"], one["message"])
        for one in map(dict, wanted.elements())
        if "message" in one
    )
    assert len(messages) > 5


@pytest.mark.dear("streaming queries")
@spark_group
@pytest.mark.usefixtures("rocksdb")
def test_verdicts_come_with_the_next_row(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    df = spark.readStream.schema("ts long, k string, x long").json(str(source))
    text = "key k\npolicy up: x.next() > x"
    with streaming(spark, monitor_stream(df, text, delay=0), tmp_path, source) as stream:
        assert stream.send({"ts": 3, "k": "a", "x": 1}, {"ts": 4, "k": "b", "x": 1}) == []
        assert stream.send({"ts": 9, "k": "a", "x": 2}) == []
        found = stream.send({"ts": 20, "k": "c", "x": 2})
        assert [(row["k"], row["time"], row["verdict"]) for row in found] == [("a", 3, True)]
