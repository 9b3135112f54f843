"""Windows and streams in Spark: for each key, what one machine says."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon import once
from mtlmon.errors import MtlmonError, PolicyError, TableError
from mtlmon.policy.values import avg, column
from mtlmon.spark import (
    RowCounts,
    SkippedRowsWarning,
    TiesWarning,
    monitor,
    monitor_files,
    monitor_partitions,
    register,
)
from tests.doors import EventSource, OrderedRows, check_schema, compile_policies, event_source
from tests.streams.programs import CELLS, SCHEMA, Writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.streams.programs import Row

spark_group = pytest.mark.xdist_group("spark")

TABLE = pa.schema([("ts", pa.int64()), ("k", pa.int64()), *SCHEMA])

POLICY = """
unit s
key user
atom failed = what = "login" and code >= 400
const limit = 2
stream fails = count[0,10s](failed)
stream total = total.last(or: 0) + amount
let hot = fails >= limit
policy brute: NOT (hot AND code = 200)
policy mean: avg[0,10s](amount, or: 0.0) < 60.0
policy rising: amount - amount.last(or: 0) < 90 OR EVENTUALLY[0,5s] hot
policy much: total < 800
policy different: distinct[0,20s](what) < 4
policy other per host: NOT any[1s,8s](failed) OR quantile[0,20s](amount, 0.9) < 95.0
policy whole per none: count[0,3s]() < 9
"""
LOG = "ts long, n long, user string, host int, what string, code int, amount long"


@st.composite
def policy_texts(draw: st.DrawFn) -> str:
    """Policies over random conditions, some of them on streams."""
    lines = []
    known: dict[str, str] = {}
    writer = Writer(draw, known)
    for number in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["integer", "float", "boolean", "text"]))
        lines.append(f"stream x{number} = {writer.expression(kind, 2)}")
        if draw(st.booleans()):
            lines[-1] += f" on {writer.expression('boolean', 1)}"
        known[f"x{number}"] = kind
    lines += [f"atom a{number} = {writer.expression('boolean', 2)}" for number in range(2)]
    formula = draw(st.sampled_from(["a0", "a0 IMPLIES EVENTUALLY[0,3] a1", "a0 SINCE[1,4] NOT a1"]))
    return "\n".join([*lines, f"policy p: {formula}", "policy q: count[0,4](a1) < 2"])


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, int, dict[str, Any]]]:
    """Rows in the order of time: time-stamp, key, and the cells."""
    cells = st.fixed_dictionaries(
        {name: st.sampled_from([None, *values]) for name, values in CELLS.items()}
    )
    time = draw(st.sampled_from([0, 3, 2**62]))
    log = []
    for _ in range(draw(st.integers(0, 25))):
        time += draw(st.sampled_from([0, 0, 1, 1, 2, 6]))
        log.append((time, draw(st.integers(0, 3)), draw(cells)))
    return log


def source_of(text: str, on_error: Literal["stop", "skip"] = "stop") -> EventSource:
    policies = compile_policies(text, "local", has_keys=True)
    source = event_source(policies, time="ts", keys=("k",), on_error=on_error)
    # as it comes to executors
    again: EventSource = pickle.loads(pickle.dumps(source))
    return again


def truth(table: Any, text: str, **options: Any) -> Counter[tuple[Any, ...]]:
    """The verdicts of one machine."""
    options.setdefault("end_time", "inf")
    check = mtlmon.check(text, table, resolve=True, **options)
    return counted(check.to_arrow().to_pylist())


def counted(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The rows, each with the texts of its keys."""
    left_out = {"reference", "reference_time", "reference_offset"}
    names = {"policy", "time", "offset", "verdict", "message"}
    return Counter(
        tuple(
            sorted(
                (name, value if name in names or value is None else str(value))
                for name, value in row.items()
                if name not in left_out and (name, value) != ("message", None)
            )
        )
        for row in rows
    )


@given(policy_texts(), logs(), st.lists(st.integers(0, 25), max_size=3))
def test_each_key_is_monitored_as_on_one_machine(
    text: str, log: list[Row], cuts: list[int]
) -> None:
    rows = [{"ts": time, "k": key, **cells} for time, key, cells in log]
    expected = truth(pa.Table.from_pylist(rows, TABLE), text, key="k", on_error="skip")
    source = source_of(text, "skip")
    check_schema(source, pa.schema([TABLE.field(name) for name in source.selection.names]))
    rows.sort(key=lambda row: row["k"])
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    batches = (
        pa.RecordBatch.from_pylist(rows[start:end], TABLE).select(source.selection.names)
        for start, end in pairwise(edges)
    )
    found = [
        row for batch in OrderedRows(source, True, "inf")(batches) for row in batch.to_pylist()
    ]
    assert counted(found) == expected


def log_rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    source = random.Random(seed)
    time = 0
    rows = []
    for number in range(count):
        time += source.choice([0, 0, 1, 1, 2, 9])
        what = source.choice(["login", "login", "view", "buy", "é"])
        code = source.choice([200, 401, 401, 500])
        user = f"u{source.randrange(9)}"
        rows.append((time, number, user, source.randrange(3), what, code, source.randrange(100)))
    return rows


def frame(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(random.Random(1).sample(rows, len(rows)), LOG).repartition(3)


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    names = ["ts", "n", "user", "host", "what", "code", "amount"]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def rows_of(verdicts: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in verdicts.collect()]


@pytest.mark.dear("streaming queries")
@spark_group
def test_policies_with_different_keys(spark: SparkSession) -> None:
    """The file says what the key is; arguments take precedence."""
    rows = log_rows(1, 600)
    df = frame(spark, rows)
    asked: dict[str, Any] = {"order_within": "n", "end_time": "inf"}
    expected = truth(table(rows), POLICY)
    found = rows_of(monitor(df, POLICY, **asked))
    assert counted(found) == expected
    violated = {row["policy"] for row in found if not row["verdict"]}
    assert violated == {row["policy"] for row in found} and len(violated) == 7
    by_host = rows_of(monitor(df, POLICY, key=["host", "user"], **asked))
    assert counted(by_host) == truth(table(rows), POLICY, key=["host", "user"])
    alone = rows_of(monitor(df, POLICY, key=(), **asked))
    assert counted(alone) == truth(table(rows), POLICY.replace("key user", ""))


@spark_group
def test_what_the_file_says_about_the_log_is_used(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(1, 5, "p"), (2, 6, "q"), (3, 7, "p|q"), (9, 8, "q")], "at long, other long, what string"
    )
    text = (
        'time "at"\nevent "what"\nzone "Asia/Tokyo"\nunit h\npolicy x: count[0,2](p) > hour(at) - 9'
    )
    found = sorted((row["time"], row["verdict"]) for row in rows_of(monitor(df, text)))
    # the hours in Tokyo are 10, 11, 12, 18
    assert found == [(1, False), (2, False), (3, False), (9, False)]
    text = text.replace("hour(at) - 9", "hour(at) - 10")
    found = sorted((row["time"], row["verdict"]) for row in rows_of(monitor(df, text)))
    assert found == [(1, True), (2, False), (3, False), (9, False)]
    (first, *_) = sorted(
        row["time"] for row in rows_of(monitor(df, "policy x: p", time="other", event="what"))
    )
    assert first == 5


@spark_group
def test_one_key_after_the_other_in_every_way_in(spark: SparkSession, tmp_path: Path) -> None:
    rows = log_rows(2, 200)
    text = "\n".join(
        line for line in POLICY.splitlines() if " per " not in line and "key" not in line
    )
    expected = truth(table(rows), text)
    df = spark.createDataFrame(rows, LOG).coalesce(1)
    assert counted(rows_of(monitor_partitions(df, text, end_time="inf"))) == expected
    register(spark)
    df.createOrReplaceTempView("rows_of_log")
    found = spark.sql(
        f"SELECT * FROM mtlmon(TABLE(rows_of_log) PARTITION BY user ORDER BY (ts, n), policy => "
        f"'{quoted(text)}', key => 'user', end_time => 'inf')"
    )
    renamed = [{"user": row.pop("key"), **row} for row in rows_of(found)]
    assert counted(renamed) == truth(table(rows), text, key="user")
    found = spark.sql(
        "SELECT user, inline(mtlmon_verdicts(sort_array(collect_list(struct(ts, n, user, host, "
        f"what, code, amount))), '{quoted(text)}', end_time => 'inf')) FROM rows_of_log "
        "GROUP BY user"
    )
    assert counted(rows_of(found)) == truth(table(rows), text, key="user")
    files = []
    for number, name in enumerate(["one.jsonl", "two.jsonl"]):
        files.append(str(tmp_path / name))
        table(rows[number::2]).to_pandas().to_json(files[-1], orient="records", lines=True)
    (tmp_path / "three.log").write_text("@1 p\n@2 p q\n@3\n@9 p\n")
    of_files = rows_of(monitor_files(spark, files, text, end_time="inf"))
    for number, path in enumerate(files):
        own = [{**row, "file": None} for row in of_files if row["file"] == path]
        expected_rows = mtlmon.check(text, table(rows[number::2]), resolve=True, end_time="inf")
        given = expected_rows.to_arrow().to_pylist()
        assert counted(own) == counted([{**row, "file": None} for row in given])
    lines = rows_of(monitor_files(spark, tmp_path / "three.log", "count[0,1](p) < 2"))
    assert [row["verdict"] for row in sorted(lines, key=lambda row: row["time"])] == [
        True,
        False,
        True,
        True,
    ]


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")


@spark_group
def test_rows_on_which_a_stream_overflows(spark: SparkSession) -> None:
    rows = [(1, "a", 2**63 - 1), (2, "a", 1), (3, "a", 0), (1, "b", 5), (2, "b", 2**63 - 1)]
    df = spark.createDataFrame(rows, "ts long, k string, x long")
    text = "policy p: sum[0,9](x) > 4"
    with pytest.raises(Exception, match=r"overflows 64 bits; the row is ts=2, k='.', x="):
        monitor(df, text, key="k").collect()
    counts = RowCounts()
    with pytest.warns(SkippedRowsWarning):
        found = rows_of(monitor(df, text, key="k", on_error="skip", counts=counts))
    names = ["ts", "k", "x"]
    data = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in sorted(rows, key=lambda row: row[0])]
    )
    assert counted(found) == truth(data, text, key="k", on_error="skip")
    assert counts.skipped == 2
    two = "policy p per k: sum[0,9](x) > 4\npolicy q per none: x > 0"
    with pytest.raises(Exception, match="cannot be skipped where policies have different keys"):
        monitor(df, two, on_error="skip", order_within="x").collect()
    with pytest.raises(Exception, match="cannot be skipped with end_time='last'"):
        monitor(df, text, key="k", on_error="skip", end_time="last").collect()


@spark_group
def test_ties_are_rows_that_other_rows_tell_apart(spark: SparkSession) -> None:
    text = "policy p: count[0,5](x > 7) < 9"
    df = spark.createDataFrame([(1, 1), (1, 2), (1, 2)], "ts long, x long").coalesce(1)
    counts = RowCounts()
    with pytest.warns(TiesWarning):
        monitor(df, text, counts=counts).collect()
    assert counts.ties == 1
    for one in (text, "policy p: count[0,5](x > 1) < 2"):
        counts = RowCounts()
        monitor(df.where("x = 2"), one, counts=counts).collect()
        assert counts.ties == 0


@spark_group
def test_errors_come_before_any_job(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "a")], "ts long, x string")
    with pytest.raises(PolicyError, match="x of type string"):
        monitor(df, "count[0,5](x > 3) < 2")
    with pytest.raises(TableError, match="no column"):
        monitor(df, "count[0,5](y > 3) < 2")
    with pytest.raises(MtlmonError, match="atom 'x > 3' has a predicate"):
        monitor(df, "x > 3", atoms={"x > 3": "x > 4"})


@spark_group
def test_conditions_built_in_python(spark: SparkSession) -> None:
    """They are taken as the same text is."""
    rows = log_rows(4, 300)
    calm = (avg("amount", 0, "10s") < 60) >> once(column("what") == "login", 0, "5s")
    asked: dict[str, Any] = {"key": "user", "resolution": "s"}
    found = rows_of(monitor(frame(spark, rows), calm, order_within="n", end_time="inf", **asked))
    text = 'not avg[0,10s](amount) < 60 or once[0,5s] what = "login"'
    expected = truth(table(rows), text, **asked)
    assert counted(found) == expected
    assert len({dict(row)["verdict"] for row in expected}) == 2
