"""Relations over validity intervals on data frames: the records of `mtlmon.query`."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon.errors import ExecutorError, MtlmonError, PolicyError
from mtlmon.spark import plain_errors, query

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

RULES = """
unit s
relation limits  = table "limits.csv" valid [from, to) key road
relation recent  = rows valid 7 group road, lane select avg(speed) as v, count() as n
relation slow    = recent where v < 5.0 select road as road, lane as lane
relation spells  = rows valid until kind = "stop" per road where kind = "start" select road as road
relation fast    = rows join limits on road = limits_road where speed > max select road as road
relation pairs   = recent semijoin spells on road = spells_road join slow on
                   slow_road = road and n > 1 select road as road, n as n, slow_lane as lane
relation others  = slow minus all odd distinct
relation odd     = rows where lane = 1 valid 3 select road as road, lane as lane
relation everyone = rows valid 4 group select count() as n, min(road) as first
"""
CUT = ("spells", "fast", "pairs", "others")
SCHEMA = "ts long, road string, lane int, kind string, speed double"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text("road,from,to,max\na,100,,70\na,0,100,3\nb,5,50,2\n")
    path = tmp_path / "roads.mtl"
    path.write_text(RULES)
    return path


def log_of(seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "ts": draw.randrange(200),
            "road": draw.choice(["a", "b", "c", None]),
            "lane": draw.choice([1, 2, None]),
            "kind": draw.choice(["start", "stop", "other"]),
            "speed": draw.choice([0.0, -0.0, 1.5, 9.0, None, float("nan")]),
        }
        for _ in range(120)
    ]


def arrow_of(rows: list[dict[str, Any]]) -> pa.Table:
    types = [pa.int64(), pa.string(), pa.int32(), pa.string(), pa.float64()]
    names = ["ts", "road", "lane", "kind", "speed"]
    return pa.Table.from_pylist(rows, pa.schema(list(zip(names, types, strict=True))))


def bag(records: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(list(one.items())) for one in records)


def records_of(found: DataFrame) -> Counter[str]:
    return bag(row.asDict() for row in found.collect())


def test_records_are_those_of_one_machine(spark: SparkSession, rules: Path) -> None:
    rows = log_of(7)
    df = spark.createDataFrame(rows, SCHEMA).repartition(3).cache()
    table = arrow_of(rows)
    for name in (*CUT, "everyone"):
        found = query(df, rules, name)
        assert ("hashpartitioning" in plan_of(found)) == (name in CUT), name
        expected = mtlmon.query(rules, name, table, sort=True)
        assert expected.num_rows, name
        assert records_of(found) == bag(expected.to_pylist()), name


def plan_of(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


def test_times_and_a_frame_without_rows(spark: SparkSession) -> None:
    start = datetime(2024, 5, 1, tzinfo=UTC)
    rows = [{"at": start + timedelta(seconds=n), "road": "a b"} for n in (0, 1, 90)]
    opening = 'unit s\ntime "at"\nrelation open = rows valid '
    text = opening + "1m group road select count() as n, max(at) as last"
    df = spark.createDataFrame(rows)
    found = query(df, text, "open")
    columns = "start:bigint,end:bigint,road:string,n:bigint,last:timestamp"
    assert found.schema.simpleString() == f"struct<{columns}>"
    expected = mtlmon.query(text, "open", pa.Table.from_pylist(rows))
    pick = ("start", "end", "road", "n")
    assert sorted(tuple(row[name] for name in pick) for row in found.collect()) == [
        tuple(one[name] for name in pick) for one in expected.to_pylist()
    ]
    assert query(df.limit(0), text, "open").collect() == []
    without_key = opening + "5 group select sum(1) as n"
    assert query(df.limit(0), without_key, "open").collect() == []


def test_what_is_refused(spark: SparkSession, rules: Path) -> None:
    df = spark.createDataFrame(log_of(1)[:3], SCHEMA)
    with pytest.raises(MtlmonError, match="name a relation of the policy file"):
        query(df, rules)
    with pytest.raises(MtlmonError, match="limits does not read the rows of the log: use mtlmon"):
        query(df, rules, "limits")
    with pytest.raises(MtlmonError, match="there is no relation slw; did you mean 'slow'"):
        query(df, rules, "slw")
    with pytest.raises(MtlmonError, match="no column 'tz' for the times"):
        query(df, rules, "slow", time="tz")
    with pytest.raises(PolicyError, match="relation r: there is no column sped"):
        query(df, "relation r = rows where sped > 5", "r")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(MtlmonError, match="is for data frames at rest"):
        query(stream, rules, "slow")


def test_errors_of_tasks(spark: SparkSession) -> None:
    rows = [{"ts": 1, "x": 2**62}, {"ts": 1, "x": 2**62}]
    df = spark.createDataFrame(rows, "ts long, x long")
    with pytest.raises(ExecutorError, match="s does not fit into 64 bits"), plain_errors():
        query(df, "relation r = rows valid 5 group select sum(x) as s", "r").collect()
