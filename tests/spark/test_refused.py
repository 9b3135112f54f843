"""What policy files can say and Spark cannot do is refused before any job starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import ExecutorError, MtlmonError
from mtlmon.spark import (
    monitor,
    monitor_partitions,
    monitor_stream,
    monitor_trace,
    plain_errors,
    query,
    relation_statistics,
    resolve_verdicts,
)
from tests.doors import compile_policies
from tests.spark.streams import state_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('pattern "x"\npolicy p: q', "pattern does not work .*monitor_files"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        compile_policies(text, "local", has_keys=True)


@pytest.mark.parametrize("text", ["key ip\npolicy p: q", "policy p per ip: q"])
def test_keys_are_refused_where_there_is_one_trace(text: str) -> None:
    with pytest.raises(MtlmonError, match="do not work"):
        compile_policies(text, "local")


def test_conditions_on_other_rows_are_told_from_those_on_the_row_itself() -> None:
    policies = compile_policies(
        "policy p per k: x > 2 and once[0,5] count[0,3](failed) > 1", "local", has_keys=True
    )
    assert set(policies.predicates) == {"x > 2"}
    assert policies.remembering == ("count[0,3](failed) > 1",)
    assert policies.atoms == ("x > 2", "count[0,3](failed) > 1", "failed")


RECENT = "relation r = rows valid 5 group user select count() as n\n"
VARIABLES = "atom a(user) = p\npolicy x: a(u) IMPLIES ONCE[1,5] a(u)\n"


@pytest.mark.xdist_group("spark")
def test_data_frames_that_do_not_fit(spark: SparkSession) -> None:
    """Whatever is wrong, the error is one of mtlmon, without the traceback or plan of Spark."""
    rows = spark.sql(
        "SELECT user, ts, p, struct(user, p) AS e, make_ym_interval(1) AS age "
        "FROM VALUES ('ann', 1, true), ('bob', null, false) AS t(user, ts, p)"
    )
    stream: Any = spark.readStream.format("rate").load()
    cases: dict[str, Callable[[], object]] = {
        "takes a data frame of Spark, not a NoneType": lambda: monitor(None, "p"),  # type: ignore[arg-type]
        "takes a data frame of Spark, not a pandas.DataFrame": lambda: query(
            rows.select("user").toPandas(), RECENT, "r"
        ),
        "takes a data frame of Spark, not a list": lambda: monitor_stream([], "p"),  # type: ignore[arg-type]
        "monitor is for data frames at rest": lambda: monitor(stream, "p"),
        "monitor_trace is for data frames at rest": lambda: monitor_trace(stream, "p"),
        "monitor_partitions is for data frames at rest": lambda: monitor_partitions(stream, "p"),
        "relation_statistics is for .* at rest": lambda: relation_statistics(stream, VARIABLES),
        r"fields of the struct 'e' are no columns: .*'user', .*col\('e.user'\)": lambda: monitor(
            rows, "p", key="e.user"
        ),
        "struct 'e' are no columns: make it one first, as in .*'p'": lambda: monitor(rows, "e.p"),
        "'age' is of type interval .*, which Spark cannot pass": lambda: monitor(
            rows, "p", key="age"
        ),
        "column 'age' is of type interval": lambda: monitor(rows, VARIABLES.replace("user", "age")),
        "number 1, is of type map<.*>, whose values have no order": lambda: monitor(
            rows, "p", order_within="map(user, ts)"
        ),
        r"no column 'ts' for the times; name their column with time=\. Col": lambda: monitor(
            rows.select("e", "p"), "p"
        ),
        "has the columns of monitor .* and 'policy' is missing": lambda: resolve_verdicts(rows),
        "columns 'ts', 'TS' differ in case only, and Spark takes them for one": lambda: monitor(
            rows.selectExpr("*", "ts AS TS"), "p"
        ),
        "(?s)columns 'ts', 'TS' differ.*rename all but one, or": lambda: query(
            rows.selectExpr("*", "ts AS TS"), RECENT, "r"
        ),
        "2 columns are called 'user': rename": lambda: monitor(
            rows.selectExpr("*", "user"), RECENT + "policy a: r[user].n < 3"
        ),
        "no column 'TS' for the times; did you mean 'ts'": lambda: monitor(
            rows, RECENT + "policy a: r[user].n < 3", time="TS"
        ),
        "relation is a name, not a int": lambda: query(rows, RECENT, 3),  # type: ignore[arg-type]
        "atoms is a dictionary with a predicate for each atom": lambda: monitor(
            rows,
            "x",
            atoms=["x"],  # type: ignore[arg-type]
        ),
        "counts is a mtlmon.spark.RowCounts, not a int": lambda: monitor(rows, "p", counts=3),  # type: ignore[arg-type]
        "statistics are what .*relation_statistics returns, not a str": lambda: monitor(
            rows,
            VARIABLES,
            statistics="x",  # type: ignore[arg-type]
        ),
    }
    for message, call in cases.items():
        with pytest.raises(MtlmonError, match=message):
            call()
    with pytest.raises(ExecutorError, match=r"remove such rows .*user='bob'"), plain_errors():
        query(rows.select("user", "ts"), RECENT, "r").collect()


@pytest.mark.xdist_group("spark")
def test_streams_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    fields = "user string, ts long, p boolean, age interval year"
    stream = spark.readStream.schema(fields).json(str(tmp_path))
    cases: dict[str, Callable[[], object]] = {
        r"the delay is a number of time-stamps, such as 5, .*, not 1\.5": lambda: monitor_stream(
            stream,
            "p",
            delay=1.5,  # type: ignore[arg-type]
        ),
        "column 'age' is of type interval year": lambda: monitor_stream(
            stream, "p", key="age", delay=0
        ),
        "column 'age' is of type interval": lambda: monitor_stream(
            stream, "p", order_within="age", delay=0
        ),
        "(?s)r reads column usr, which the data frame lacks.*mean 'user'": lambda: monitor_stream(
            stream, RECENT.replace("user", "usr") + "policy a: r[user].n < 3", delay=0
        ),
    }
    with state_store(spark):
        for message, call in cases.items():
            with pytest.raises(MtlmonError, match=message):
                call()
        # what is not read may be of any type
        monitor_stream(stream, RECENT + "policy a: r[user].n < 3", delay=0)
        # look-ups beside policies with variables
        monitor_stream(stream, RECENT + VARIABLES + "policy a: r[user].n < 3", delay=0)
        # Spark takes names that differ in case only for one
        text = "atom a(user) = p\npolicy x: a(U) IMPLIES ONCE[1,5] a(U)\npolicy y: NOT a(u)\n"
        names = monitor_stream(stream, text, delay=0, lateness=3).columns
        assert names[4:] == ["U", "var_u", "late", "op", "revision", "final"]
        with pytest.raises(MtlmonError, match="checkpoint is the path of the checkpointLocation"):
            monitor_stream(stream, text, delay=0, checkpoint=3)  # type: ignore[arg-type]
