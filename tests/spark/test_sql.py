"""Functions of SQL: the verdicts of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mtlmon.errors import ExecutorError
from mtlmon.spark import plain_errors, register
from tests.spark.single import collected, expected, random_rows, shuffled
from tests.spark.test_monitor import POLICIES, configured, frame
from tests.spark.test_plans import SKEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.traces import EndTime

pytestmark = pytest.mark.xdist_group("spark")

CALL = """
SELECT * FROM mtlmon(
    TABLE({table}) PARTITION BY {key} ORDER BY (ts, n),
    policy => '{policy}', key => 'k', event => 'what'{more})
"""


@pytest.fixture
def sql(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


@pytest.mark.parametrize("batch", [3, 10_000])
def test_partitions_of_a_table(sql: SparkSession, batch: int) -> None:
    rows = random_rows(21, keys=20, events=30)
    frame(sql, shuffled(rows, 21)).createOrReplaceTempView("logs")
    with configured(sql, execution_arrow_maxRecordsPerBatch=batch):
        call = CALL.format(table="logs", key="k", policy=POLICIES, more="")
        assert collected(sql.sql(call).drop("message")) == expected(rows, POLICIES)
        more = ", end_time => 'inf', mode => 'global', resolve => false"
        call = CALL.format(table="logs", key="k", policy=POLICIES, more=more)
        assert collected(sql.sql(call).drop("message")) == expected(
            rows, POLICIES, "global", resolves=False, end_time="inf"
        )
    call = "SELECT * FROM mtlmon(TABLE(SELECT 1 AS ts, true AS p) WITH SINGLE PARTITION, 'p')"
    assert collected(sql.sql(call)) == [(None, None, 1, 0, True, None, None, None)]


def test_an_empty_table_has_no_verdicts(sql: SparkSession) -> None:
    frame(sql, random_rows(22, keys=1, events=3)).where("ts < 0").createOrReplaceTempView("logs")
    for key in ("PARTITION BY k", "WITH SINGLE PARTITION"):
        call = f"SELECT * FROM mtlmon(TABLE(logs) {key}, policy => 'p', event => 'what')"
        assert sql.sql(call).collect() == []


def test_a_constant_guards_partitions_over_a_join(sql: SparkSession) -> None:
    policy = "policy x: p IMPLIES EVENTUALLY[0,5] q"
    rows = random_rows(23, keys=6, events=50, skew=2000)
    frame(sql, shuffled(rows, 23)).createOrReplaceTempView("logs")
    sql.createDataFrame(
        [(row,) for row in {row.k for row in rows}], "k string"
    ).createOrReplaceTempView("keys")
    options = {**SKEW, "autoBroadcastJoinThreshold": -1, "adaptive_autoBroadcastJoinThreshold": -1}
    with configured(sql, **options):
        joined = "SELECT logs.* FROM logs JOIN keys ON logs.k = keys.k"
        call = CALL.format(table=joined, key="k", policy=policy, more="")
        unguarded = collected(sql.sql(call).drop("message"))
        assert unguarded != expected(rows, policy), "nothing to guard against"
        call = CALL.format(table=joined, key="(k, 0)", policy=policy, more="")
        assert collected(sql.sql(call).drop("message")) == expected(rows, policy)


@pytest.mark.parametrize("end_time", [None, 40, "last", "inf"])
def test_arrays_of_events(sql: SparkSession, end_time: EndTime) -> None:
    rows = random_rows(24, keys=15, events=30)
    frame(sql, shuffled(rows, 24)).createOrReplaceTempView("logs")
    argument = "null" if end_time is None else f"'{end_time}'"
    found = sql.sql(
        f"""
        WITH traces AS (
            SELECT k, sort_array(collect_list(struct(ts, n, what))) AS events FROM logs GROUP BY k
            UNION ALL SELECT 'none', array() UNION ALL SELECT 'null', null),
        verdicts AS (
            SELECT k, mtlmon_verdicts(events, '{POLICIES}', 'ts', 'what', {argument}) AS given
            FROM traces),
        rows AS (SELECT k, explode_outer(given) AS one FROM verdicts)
        SELECT one.policy, k, one.time, one.offset, one.verdict, one.reference_time,
            one.reference_offset FROM rows
        """
    )
    wanted = []
    for key in {row.k for row in rows}:
        wanted += expected([row for row in rows if row.k == key], POLICIES, end_time=end_time)
    wanted += [(None, key, *[None] * 5) for key in ("none", "null")]
    assert collected(found) == sorted(wanted, key=repr)
    arrays = "VALUES (null), (array(struct(1 AS ts, true AS p))) AS t(e)"
    nulls = f"SELECT mtlmon_verdicts(e, 'p') FROM {arrays}"
    given = sql.sql(nulls).collect()
    assert given[0][0] is None and len(given[1][0]) == 1


def test_each_row_has_its_own_arguments(sql: SparkSession) -> None:
    """The first row's policy and end time were taken for all rows of an Arrow batch."""
    policies = ["p IMPLIES EVENTUALLY[0,5] q", "PREVIOUS p", "policy z: p AND q"]
    ends: list[EndTime] = [None, 40, "inf"]
    rows = random_rows(25, keys=18, events=20)
    frame(sql, shuffled(rows, 25)).createOrReplaceTempView("logs")
    keys = sorted({row.k for row in rows})
    chosen = {key: (policies[number % 3], ends[number // 3 % 3]) for number, key in enumerate(keys)}
    sql.createDataFrame(
        [(key, policy, None if end is None else str(end)) for key, (policy, end) in chosen.items()],
        "k string, policy string, end string",
    ).createOrReplaceTempView("rules")
    for end in ("end", "CASE WHEN end = 'inf' THEN end ELSE '40' END"):
        found = sql.sql(
            f"""
            WITH traces AS (
                SELECT k, sort_array(collect_list(struct(ts, n, what))) AS events
                FROM logs GROUP BY k),
            verdicts AS (
                SELECT k, inline(mtlmon_verdicts(events, policy, 'ts', 'what', {end}))
                FROM traces JOIN rules USING (k))
            SELECT policy, k, time, offset, verdict, reference_time, reference_offset FROM verdicts
            """
        )
        wanted = []
        for key, (policy, known) in chosen.items():
            end_time = known if end == "end" or known == "inf" else 40
            of_key = [row for row in rows if row.k == key]
            wanted += expected(of_key, policy, end_time=end_time)
        assert collected(found) == sorted(wanted, key=repr)


def test_end_times_of_the_calendar(sql: SparkSession) -> None:
    events = "array(struct(TIMESTAMP'2024-05-01 00:00:00' AS ts, true AS p))"
    for end, verdicts in (("00:00:04", 0), ("00:00:05", 1)):
        call = f"mtlmon_verdicts({events}, 'NOT EVENTUALLY[1,5] p', 'ts', null, {{}})"
        given = call.format(f"TIMESTAMP'2024-05-01 {end}'")
        assert len(sql.sql(f"SELECT {given} AS given").collect()[0].given) == verdicts


TABLE = "TABLE(bad) PARTITION BY k ORDER BY ts"
EVENTS = "array(struct(1 AS ts, true AS p))"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("* FROM mtlmon({t})", "mtlmon: the argument 'policy' is missing: it takes events, policy"),
        ("* FROM mtlmon(policy => 'p')", "mtlmon: the argument 'events' is missing"),
        ("* FROM mtlmon({t}, policy => null)", "mtlmon: the policy is null; leave out rows"),
        ("* FROM mtlmon({t}, policy => 3)", "mtlmon: policy is a text, not 3 of type int32"),
        ("* FROM mtlmon({t}, polisy => 'p')", "mtlmon has no argument 'polisy': it takes events,"),
        ("* FROM mtlmon({t}, policy => 'p', event => 'what', resolve => 'false')",
         "mtlmon: resolve is true or false, not 'false'"),
        ("* FROM mtlmon({t}, policy => 'p', event => 'what', end_time => true)",
         "mtlmon: end_time is a time-stamp, a timestamp, 'last' or 'inf', not True"),
        ("* FROM mtlmon({t}, policy => 'p', event => 'what', end_time => 'first')", "not 'first'"),
        ("* FROM mtlmon({t}, policy => 'p', event => 'what', mode => 'quick')", "mode 'quick'"),
        ("* FROM mtlmon({t}, policy => 'policy.mtl')", "'policy.mtl' is a text that looks like a"),
        ("mtlmon_verdicts()", "mtlmon_verdicts: the argument 'events' is missing"),
        ("mtlmon_verdicts({e})", "mtlmon_verdicts: the argument 'policy' is missing"),
        ("mtlmon_verdicts({e}, null)", "mtlmon_verdicts: the policy is null"),
        ("mtlmon_verdicts({e}, 'p', 3)", "mtlmon_verdicts: time is a text, not 3"),
        ("mtlmon_verdicts({e}, 'p', 'ts', null, true)", "mtlmon_verdicts: end_time is .* not True"),
        ("mtlmon_verdicts({e}, 'p', 'ts', null, null, 3)", "takes up to 5 arguments, not 6"),
        ("mtlmon_verdicts({e}, 'p', end => 3)", "has no argument 'end'"),
        ("mtlmon_verdicts(3, 'p')", "events are an array of structs, .* not of type int32"),
        ("mtlmon_verdicts(array(1), 'p')", "events are an array of structs, .* not of type list"),
    ],
)  # fmt: skip
def test_wrong_arguments_take_one_line(sql: SparkSession, call: str, message: str) -> None:
    """They were tracebacks of 12 to 23 lines, or taken for something else."""
    sql.sql("SELECT 'a' AS k, 2 AS ts, 'p' AS what").createOrReplaceTempView("bad")
    with pytest.raises(ExecutorError, match=message) as caught, plain_errors():
        sql.sql("SELECT " + call.format(t=TABLE, e=EVENTS)).collect()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM mtlmon(TABLE(bad) PARTITION BY k ORDER BY n, event => 'what', "
         "policy => 'p', key => 'k')",
         "is below 2.*; the row is k='a', ts=1, what='p'"),
        ("SELECT * FROM mtlmon(TABLE(bad) PARTITION BY k ORDER BY n, event => 'what', "
         "policy => 'p')",
         "table: time-stamp 1 at index 1 is below 2.*; the row is ts=1, what='p'"),
        ("SELECT * FROM mtlmon(TABLE(bad) PARTITION BY k ORDER BY ts, policy => 'p OR')",
         "<policy>:1:5: "),
        ("SELECT * FROM mtlmon(TABLE(bad) PARTITION BY k ORDER BY ts, policy => 'p', key => 'kk')",
         "no column 'kk' of keys among 'k', 'ts', 'n', 'what'"),
        ("SELECT mtlmon_verdicts(transform(array(2, 1), t -> struct(t AS ts, true AS p)), 'p')",
         "table: time-stamp 1 at index 1 is below 2.*; the row is ts=1, p=True"),
        ("SELECT mtlmon_verdicts(array(null, struct(1 AS ts, true AS p)), 'p')", "is null"),
    ],
)  # fmt: skip
def test_errors(sql: SparkSession, query: str, message: str) -> None:
    rows = "SELECT * FROM VALUES ('a', 2, 0, 'p'), ('a', 1, 1, 'p') AS bad(k, ts, n, what)"
    sql.sql(rows).createOrReplaceTempView("bad")
    with pytest.raises(ExecutorError, match=message), plain_errors():
        sql.sql(query).collect()
