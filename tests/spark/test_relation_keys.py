"""Policies with variables and a key in Spark: what one machine says with a point a time-stamp."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon.errors import ExecutorError, MtlmonError, PolicyError
from mtlmon.relational.slicing import Statistics
from mtlmon.spark import (
    RowCounts,
    latest_verdicts,
    monitor,
    monitor_stream,
    plain_errors,
    relation_statistics,
)
from tests.spark.streams import put, state_store
from tests.spark.test_relation_streams import counted, forget_end, run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

FILE = """
unit s
key user
atom open(f) = what = "open"
atom read(f) = what = "read"
policy again: read(f) IMPLIES PREVIOUS open(f)
policy followed: open(f) IMPLIES NEXT[0,4] read(f)
policy kept: read(f) IMPLIES (big SINCE[0,9] open(f))
policy few: COUNT(ONCE[0,4] read(f)) < 2
policy whole per none: read(f) IMPLIES PREVIOUS open(f)
find pairs per user, host: read(f) AND (ONCE[1,5] read(g)) AND NOT f = g
"""
OTHERS = """
policy calm: big IMPLIES ONCE[0,5] what = "read"
policy rare per host: count[0,9](what = "open") < 3
"""
ARROW = pa.schema(
    [("ts", pa.int64()), ("user", pa.int64()), ("host", pa.string()), ("what", pa.string()),
     ("f", pa.string()), ("big", pa.bool_())]
)  # fmt: skip
SCHEMA = "ts long, user long, host string, what string, f string, big boolean"


def log_of(seed: int, count: int, start: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "ts": start + number // 3,
            "user": draw.choice([7, 8, 10**17]),
            "host": draw.choice("xy"),
            "what": draw.choice(["open", "read", "other"]),
            "f": draw.choice(["1", "2", None]),
            "big": draw.random() < 0.6,
        }
        for number in range(count)
    ]


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([tuple(row[name] for name in ARROW.names) for row in rows], SCHEMA)


def truth(rows: list[dict[str, Any]], text: str, **options: Any) -> Any:
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]), ARROW)
    check = mtlmon.check(text, table, time_points="stamp", **options)
    return counted(check.to_arrow().to_pylist())


def test_each_key_by_itself(spark: SparkSession) -> None:
    rows = log_of(1, 120)
    df = frame(spark, random.Random(2).sample(rows, len(rows))).repartition(3)
    found = monitor(df, FILE, slices=4, end_time="inf")
    # a key has the type of its column
    names = ["policy", "user", "host", "time", "offset", "verdict", "f", "g"]
    assert [(one.name, one.dataType.simpleString()) for one in found.schema][:3] == [
        ("policy", "string"), ("user", "bigint"), ("host", "string")
    ]  # fmt: skip
    assert found.columns == names
    expected = truth(rows, FILE, end_time="inf")
    assert {dict(one)["policy"] for one in expected} >= {"again", "followed", "few", "pairs"}
    assert counted([row.asDict() for row in found.collect()]) == expected


def test_policies_of_both_kinds(spark: SparkSession) -> None:
    """The key of the run is that of policies with variables, too, and columns are shared."""
    rows = log_of(3, 60)
    df = frame(spark, rows).coalesce(1).selectExpr("*", "monotonically_increasing_id() place")
    text, key = FILE + OTHERS, ["host"]
    statistics = relation_statistics(df, text, key=key, slices=3)
    found = monitor(
        df, text, key=key, order_within="place", end_time="inf", slices=3, statistics=statistics
    )
    names = ["policy", "host", "user", "time", "offset", "verdict"]
    assert found.columns == [*names, "reference_time", "reference_offset", "f", "g"]
    expected = truth(rows, text, key=key, end_time="inf", resolve=True)
    assert counted([row.asDict() for row in found.collect()]) == expected


def test_rows_without_a_key(spark: SparkSession) -> None:
    rows = log_of(4, 30)
    bad = {**rows[0], "user": None}
    df = frame(spark, [*rows, bad])
    options: dict[str, Any] = {"slices": 2, "statistics": Statistics()}
    with pytest.raises(ExecutorError, match="'user' is empty in this row"), plain_errors():
        monitor(df, FILE, **options).collect()
    counts = RowCounts()
    found = monitor(df, FILE, on_error="skip", counts=counts, **options)
    assert counted([row.asDict() for row in found.collect()]) == truth(rows, FILE)
    assert counts.skipped == 1


def test_names_and_what_is_refused(spark: SparkSession) -> None:
    df = frame(spark, log_of(5, 30))
    text = 'key user\natom open(f, user) = what = "open"\nfind a: open(time, user)\n'
    columns = ["policy", "key_user", "time", "offset", "verdict", "var_time", "user"]
    assert monitor(df, text, slices=1).columns == columns
    text = 'atom open(f) = what = "open"\nfind a: open(f) AND large\n'
    found = monitor(df, text, key="user", slices=1, atoms={"large": "user > 8"}).collect()
    assert {row["user"] for row in found} == {10**17}
    with pytest.raises(PolicyError, match="NEXT looks ahead without bound"):
        monitor(df, f"{FILE}find next: open(f) AND NEXT big\n", slices=1)
    with pytest.raises(MtlmonError, match="'open' has a predicate in the policy file already"):
        monitor(df, FILE, slices=1, atoms={"open": "user > 7"})
    with pytest.raises(MtlmonError, match="no policy has an atom 'other', only"):
        monitor(df, FILE, slices=1, atoms={"other": "user > 7"})
    with pytest.raises(MtlmonError, match="nobody"):
        monitor(df, FILE, key="nobody", slices=1)


@pytest.mark.dear("streaming queries")
@pytest.mark.parametrize("lateness", [None, 12])
def test_streams(spark: SparkSession, tmp_path: Path, lateness: int | None) -> None:
    """A query that goes on with other slices; without a lateness, with policies of both kinds."""
    source = tmp_path / "source"
    source.mkdir()
    batches = [log_of(6, 40), log_of(7, 40, 12), log_of(8, 30, 24)]
    late = [{**row, "ts": row["ts"] + 14, "what": "open"} for row in log_of(9, 18)]
    too_late = {**late[0], "ts": 1, "what": "read", "f": "1"}
    if lateness is not None:
        batches[2] += late
    batches.append([{**too_late, "ts": 100}])
    other: dict[str, Any] = {}
    given: dict[str, Any] = {}
    text = FILE
    if lateness is None:
        text, other, given = FILE + OTHERS, {"buckets": 2}, {"resolve": True}

    def resume(slices: int) -> None:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        verdicts = monitor_stream(
            stream.json(str(source)),
            text,
            delay=1,
            lateness=lateness,
            slices=slices,
            checkpoint=str(tmp_path / "checkpoint"),
            **other,
        )
        run(spark, verdicts, tmp_path)

    with state_store(spark):
        for number, rows in enumerate(batches[:2]):
            put(source, f"{number}", rows)
        resume(3)
        forget_end(tmp_path)
        for number, rows in enumerate([*batches[2:], [too_late]], 2):
            put(source, f"{number}", rows)
        resume(2)

    written = spark.read.parquet(str(tmp_path / "verdicts"))
    said = [row.asDict() for row in written.collect()]
    latest = written.where("late IS NULL")
    if lateness is not None:
        assert {"insert", "delete"} <= {row["op"] for row in said}
        latest = latest_verdicts(written).drop("revision", "is_final")
    kept = [row for rows in batches[:3] for row in rows]
    found = [row.asDict() for row in latest.collect()]
    expected = truth(kept, text, end_time=98, **given)
    assert counted(found) == expected
    emitted = {
        (row["time"], row["user"], row["host"], tuple(row["late"]))
        for row in said
        if row["late"] is not None
    }
    # as a row of an atom, and as one of its key
    assert {(1, None, None, ("read",)), (1, None, None, ())} <= emitted
