"""Streams of rows through Structured Streaming."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mtlmon import Monitor, MtlmonError, TableError, resolve
from mtlmon.errors import ExecutorError
from mtlmon.spark import (
    RowCounts,
    SkippedRowsWarning,
    monitor_stream,
    plain_errors,
    resolve_verdicts,
)
from tests.spark.streams import ROCKSDB, put, state_store, streaming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

FORMULA = "request IMPLIES EVENTUALLY[0,5] response"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    directory.mkdir()
    return directory


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    with state_store(spark):
        yield


def rows_of(spark: SparkSession, schema: str, source: Path) -> DataFrame:
    return spark.readStream.schema(schema).json(str(source))


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """Verdicts as lines, in front of each its key."""
    lines = []
    for row in rows:
        if row["late"] is None:
            value = str(row["verdict"]).lower()
            if row["verdict"] is None:
                value = f"= {row['reference_time']}:{row['reference_offset']}"
            lines.append(f"{row['key']} {row['time']}:{row['offset']} {value}")
    return sorted(lines)


def late(rows: list[dict[str, Any]]) -> list[tuple[str, int, list[str]]]:
    return [(row["key"], row["time"], row["late"]) for row in rows if row["late"] is not None]


def event(key: str, time: int, what: str) -> dict[str, Any]:
    return {"key": key, "ts": time, "what": what}


@pytest.mark.usefixtures("rocksdb")
def test_keys_time_and_late_rows(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    frame = rows_of(spark, "key string, ts bigint, what string", source)
    verdict_rows = monitor_stream(frame, FORMULA, key="key", event="what", delay=2)
    assert verdict_rows.columns == [
        *("policy", "key", "time", "offset", "verdict"),
        *("reference_time", "reference_offset", "late"),
    ]
    no_time = (
        "DataFrame: the time column 'ts' is empty in this row; on_error='skip' leaves such rows "
        "out; the row is ts=None, key='a', what='request'"
    )
    with streaming(spark, verdict_rows, tmp_path, source) as stream:
        # nothing is known before the watermark, which is 8, has passed; then the past is decided
        new = stream.send(event("a", 5, "request"), event("a", 10, "request"), event("b", 7, "x"))
        assert verdicts(new) == ["b 7:0 true"]
        # out of order, but in time; late are rows below the watermark of their batch, 8 still
        new = stream.send(
            event("a", 9, "response"),
            event("c", 12, "x"),
            event("a", 8, "x|request|response"),
            event("b", 8, "request"),
            event("b", 7, "request"),
        )
        assert late(new) == [("b", 7, ["request"])]
        assert verdicts(new) == ["a 5:0 true", "a 8:0 true", "a 9:0 true"]
        # time alone decides for keys that have no event
        new = stream.send(event("c", 30, "x"), event("d", 3, "request"))
        assert late(new) == [("d", 3, ["request"])]
        assert verdicts(new) == ["a 10:0 false", "b 8:0 false", "c 12:0 true"]
        with pytest.raises(ExecutorError, match=f"^{no_time}$"), plain_errors():
            stream.send({"key": "a", "what": "request"})


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_one_time_stamp_in_several_batches(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    """With no delay at all, rows of the latest time-stamp are in time; offsets tell their order."""
    policies = """
        unit s
        atom large = size > 10
        policy "after small": large IMPLIES PREVIOUS[0,0] NOT large
        policy large: ONCE[0,1m] large
    """
    schema = "at timestamp, size int, host string, user int, number int, part date"
    frame = rows_of(spark, schema, source)
    verdict_rows = monitor_stream(
        frame,
        policies,
        time="at",
        key=["host", "user"],
        order_within=["part", "number"],
        mode="naive",
        delay="500ms",
    )

    def row(second: float, size: int, number: int, part: str = "2024-01-01") -> dict[str, Any]:
        at = f"2024-05-01T08:00:{second:06.3f}Z"
        known = {"at": at, "size": size, "number": number, "part": part}
        return {**known, "host": "h", "user": 1}

    start = 1_714_550_400
    with streaming(spark, verdict_rows, tmp_path, source) as stream:
        assert stream.send(row(1, 20, 5), row(1.2, 5, 1, "2024-01-02")) == []
        assert stream.send(row(1, 5, 7), row(1.5, 20, 6)) == []
        new = stream.send(row(4, 0, 0))
    found = {
        (one["policy"], one["time"] - start, one["offset"]): one["verdict"]
        for one in new
        if (one["host"], one["user"]) == ("h", 1)
    }
    # in order: 20, 20, 5 of the first part, 5 of the second
    by_policy = {"after small": [False, False, True, True], "large": [True] * 4}
    assert found == {
        (name, 1, offset): value
        for name, values in by_policy.items()
        for offset, value in enumerate(values)
    }


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_what_a_query_is_started_again_with(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    """Other arguments than those that the state was made with are refused in one line."""
    frame = rows_of(spark, "key string, ts bigint, number int, speed int", source)
    policy = "unit s\natom fast = speed > {}\npolicy x: PREVIOUS fast"
    first: dict[str, Any] = {
        "policy": policy.format(3), "key": "key", "order_within": "number", "delay": 5,
    }  # fmt: skip

    def row(time: int, number: int) -> dict[str, Any]:
        return {"key": "a", "ts": time, "number": number, "speed": number}

    def run(**arguments: Any) -> list[str]:
        """Verdicts of a query, in files, as rows in memory do not outlast it."""
        writer = monitor_stream(frame, **{**first, **arguments}).writeStream.format("json")
        query = writer.start(
            str(tmp_path / "found"), checkpointLocation=str(tmp_path / "checkpoint")
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        schema = "key string, time bigint, offset bigint, verdict boolean, late array<string>"
        rows = spark.read.schema(schema).json(str(tmp_path / "found")).collect()
        return verdicts([row.asDict() for row in rows])

    # two events wait: with their order 2 times 24 bytes, as many as 3 times 16 without
    put(source, "000", [row(1, 4), row(2, 2)])
    assert run() == []
    put(source, "001", [row(20, 1)])
    for changed, names in (
        ({"order_within": None}, "order_within"),
        ({"buckets": 7}, "number of buckets"),
        ({"policy": policy.format(4)}, "atoms"),
        ({"policy": policy.format(3).replace("unit s", "unit ms"), "delay": 0}, "time"),
    ):
        message = f"^the state of the query was made with another {names}: start the query"
        with pytest.raises(ExecutorError, match=message) as caught, plain_errors():
            run(**changed)
        assert "\n" not in str(caught.value)
    # nothing is lost by that, and how late rows may be can change
    assert run(delay=3) == ["a 1:0 false", "a 2:0 true"]


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_rows_that_are_left_out_do_not_end_a_stream(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    """One null time ended a stream for good: its batch was read again at each start."""
    frame = rows_of(spark, "key string, ts bigint, what string", source)
    counts = RowCounts()
    verdict_rows = monitor_stream(
        frame, FORMULA, key="key", event="what", delay=0, on_error="skip", counts=counts
    )
    with (
        pytest.warns(SkippedRowsWarning, match="1 row was left out.*is empty") as caught,
        streaming(spark, verdict_rows, tmp_path, source) as stream,
    ):
        stream.send({"key": "a", "what": "request"}, event("a", 1, "request"))
        assert counts.skipped == 1
        stream.send({"ts": 1, "what": "request"}, event("a", 2, "response"))
        new = stream.send({"key": "a", "what": "request"}, event("a", 9, "x"))
    assert len(caught) == 1
    assert counts.skipped == 3
    assert len(counts.errors) == 3
    assert verdicts(new) == ["a 1:0 true", "a 2:0 true"]


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_one_trace_without_key(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    """Rows of one file come in its order; equivalences come as the monitor gives them."""
    formula = "(PREVIOUS p) OR EVENTUALLY[0,20] q"
    events = [(number // 7, number % 3 == 0, number % 31 == 0) for number in range(210)]
    frame = rows_of(spark, "ts bigint, p boolean, q boolean", source)
    verdict_rows = monitor_stream(frame, formula, mode="global", delay=0)
    with streaming(spark, verdict_rows, tmp_path, source) as stream:
        new = stream.send(*({"ts": ts, "p": p, "q": q} for ts, p, q in events))
    monitor = Monitor(formula, "global")
    expected = []
    for ts, p, q in events:
        if ts < events[-1][0]:
            expected += monitor.step(ts, [name for name, holds in (("p", p), ("q", q)) if holds])
    expected += monitor.advance(events[-1][0])
    assert verdicts([{**row, "key": ""} for row in new]) == sorted(f" {one}" for one in expected)
    assert any(one.value is None for one in expected)
    table = spark.createDataFrame(new, verdict_rows.schema).repartition(3)
    resolved = [
        row.asDict() | {"key": "", "late": None} for row in resolve_verdicts(table).collect()
    ]
    assert verdicts(resolved) == sorted(f" {one}" for one in resolve(expected))


def test_what_is_missing_is_told_when_the_query_is_built(
    spark: SparkSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = rows_of(spark, "key string, ts bigint, what string", source)
    other = ROCKSDB.replace("RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider")
    for provider in (None, other):
        with (
            state_store(spark, provider),
            pytest.raises(MtlmonError, match="need the state store of RocksDB"),
        ):
            monitor_stream(frame, FORMULA, event="what", delay=0)
    with state_store(spark):
        monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.proto.StateMessage_pb2", None)
        with pytest.raises(MtlmonError, match=r"pip install 'mtlmon\[spark\]'"):
            monitor_stream(frame, FORMULA, event="what", delay=0)
    batch = spark.createDataFrame([(1, "request")], "ts bigint, what string")
    with pytest.raises(MtlmonError, match="is not streaming"):
        monitor_stream(batch, FORMULA, event="what", delay=0)


@pytest.mark.dear("streaming queries")
@pytest.mark.usefixtures("rocksdb")
def test_a_watermark_of_the_column_of_time(spark: SparkSession, source: Path) -> None:
    schema = "at timestamp, other timestamp, p boolean"
    frame = rows_of(spark, schema, source).withWatermark("at", "2 seconds")
    assert monitor_stream(frame, "p", time="at").isStreaming
    with pytest.raises(MtlmonError, match="'at' has a watermark already"):
        monitor_stream(frame, "p", time="at", delay=0)
    with pytest.raises(MtlmonError, match="on the column 'at', the time is in 'other'"):
        monitor_stream(frame, "p", time="other")
    with pytest.raises(MtlmonError, match="nothing says how late rows may be"):
        monitor_stream(rows_of(spark, schema, source), "p", time="at")


@pytest.mark.usefixtures("rocksdb")
def test_wrong_arguments(spark: SparkSession, source: Path) -> None:
    frame = rows_of(spark, "key string, ts bigint, what string, late map<string, int>", source)

    def build(**arguments: Any) -> None:
        monitor_stream(frame, FORMULA, **{"event": "what", "delay": 0, **arguments})

    with pytest.raises(TableError, match="no column 'at'"):
        build(time="at")
    with pytest.raises(TableError, match="column 'late': there are no times"):
        build(time="late")
    with pytest.raises(MtlmonError, match="the key column 'late' is of type map"):
        build(key="late")
    with pytest.raises(TableError, match="order_within, number 2, is of type string"):
        build(order_within=["ts", "what"])
    with pytest.raises(TableError, match="times are texts"):
        build(time="what")
    with pytest.raises(MtlmonError, match=r"order_within: 'tss [+] 1' cannot be read"):
        build(order_within="tss + 1")
    with pytest.raises(MtlmonError, match="on_error is 'stop' or 'skip'"):
        build(on_error="ignore")
    for wrong in (0, True, 2**31, "8"):
        with pytest.raises(MtlmonError, match="buckets is a number from 1 to 2147483647, not"):
            build(buckets=wrong)
    with pytest.raises(MtlmonError, match=r"buckets are of keys: .* give slices instead"):
        monitor_stream(frame, "atom p(x) = true\npolicy a: p(x)", delay=0, buckets=3)
    with pytest.raises(MtlmonError, match="the delay is -1"):
        build(delay=-1)
    with pytest.raises(MtlmonError, match="the delay 5s has a unit of time"):
        build(delay="5s")
    with pytest.raises(MtlmonError, match="called like a column of verdicts"):
        frame = frame.drop("late").withColumnRenamed("key", "Late")
        build(key="Late")
