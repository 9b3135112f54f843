"""Look-ups in relations, whose records go to the executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import MtlmonError
from mtlmon.spark import monitor, monitor_files, monitor_stream
from tests.cli.process import mtlmon
from tests.spark.streams import state_store, streaming

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

# one session for all tests
pytestmark = pytest.mark.xdist_group("spark")

POLICIES = """unit s
relation limits = table "limits.csv" valid [from, to) key road
key car
policy fast: speed <= limits[road].max
stream most = max[0,1m](limits[road].max)
policy rising: most > 70 OR ONCE exists limits[road]
policy ticks on every 20s: limits["a1"].max = 80
"""
LIMITS = "road,from,to,max\na1,0,100,80\na1,100,,100\na2,50,,60\n"
ROWS = [(ts, f"c{ts % 3}", f"a{1 + ts % 4 // 2}", 50 + ts * 7 % 60) for ts in range(0, 160, 3)]


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "limits.csv").write_text(LIMITS)
    (tmp_path / "cars.mtl").write_text(POLICIES)
    return tmp_path / "cars.mtl"


def verdicts(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    names = ("policy", "car", "time", "offset", "verdict")
    return sorted(tuple(row[name] for name in names) for row in rows)


OF_ROWS = """unit s
relation limits = table "limits.csv" valid [from, to) key road
relation pace = rows valid 30s group road select avg(speed) as v, count() as n
relation slow = pace join limits on road = limits_road where v < max select road as road
relation quick = rows where speed > 60 valid until speed < 55 per car select car as car distinct
key car
policy even: speed - pace[road].v < 30 AND speed - pace[road].v > -30
policy known: exists slow[road] OR exists quick[car]
policy ticks on every 20s: exists slow["a1"]
stream most = max[0,1m](pace["a2"].n)
policy few: most < 8
"""


def test_relations_of_rows_and_command(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    """Rows of all keys are in a relation, also those of the same time-stamp."""
    policies.write_text(OF_ROWS)
    rows = [*ROWS, *((ts, f"c{ts % 2}", "a1", 40 + ts % 80) for ts in range(0, 160, 6))]
    rows.sort()
    wanted = of_command(policies, rows, tmp_path)
    frame = spark.createDataFrame(rows, "ts long, car string, road string, speed long")
    found = monitor(frame.repartition(3), policies, time_unit="s", order_within=["road", "speed"])
    answers = verdicts(found.collect())
    assert answers == wanted
    assert len({(one[0], one[-1]) for one in answers}) > 6


def of_command(
    policies: Path, rows: Sequence[tuple[int, str, str, int]], folder: Path
) -> list[tuple[object, ...]]:
    """The verdicts of the command."""
    cells = "".join(f"{ts},{car},{road},{speed}\n" for ts, car, road, speed in rows)
    (folder / "log.csv").write_text("ts,car,road,speed\n" + cells)
    wanted = []
    for line in mtlmon(str(policies), str(folder / "log.csv")).output.splitlines():
        policy, car, rest = line.split("\t")
        place, verdict = rest.split(" ")
        time, offset = map(int, place.split(":"))
        wanted.append((policy, car, time, offset, verdict == "true"))
    return sorted(wanted)


def test_batch_and_command(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    wanted = of_command(policies, ROWS, tmp_path)
    frame = spark.createDataFrame(ROWS, "ts long, car string, road string, speed long")
    found = monitor(frame, policies, resolution="s", time_unit="s").collect()
    assert verdicts(found) == wanted
    assert len({row["verdict"] for row in found}) == 2


def test_streaming(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    frame = spark.readStream.schema("ts long, car string, road string, speed long")
    rows = frame.json(str(source))
    found = []
    with state_store(spark):
        query = monitor_stream(rows, policies, resolution="s", time_unit="s", delay=0)
        with streaming(spark, query, tmp_path, source) as stream:
            for ts, car in ((97, "a"), (101, "a"), (300, "b")):
                found += stream.send({"ts": ts, "car": car, "road": "a1", "speed": 90})
    answers = {(row["policy"], row["time"], row["verdict"]) for row in found}
    assert {("fast", 97, False), ("fast", 101, True), ("ticks", 100, False)} <= answers


def test_what_is_refused(spark: SparkSession, policies: Path, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, "ts long, car string, road string, speed long")
    with pytest.raises(MtlmonError, match="looks values up in relation limits"):
        monitor_files(spark, str(tmp_path / "*.csv"), policies)
    rows = tmp_path / "rows.mtl"
    rows.write_text(
        "relation r = rows valid 5 group road select count() as n\npolicy p: r[road].n < 2"
    )
    with pytest.raises(MtlmonError, match="relation r reads the rows of the data frame, of which"):
        monitor(frame, rows, on_error="skip")
    source = tmp_path / "source"
    source.mkdir()
    stream = spark.readStream.schema(frame.schema).json(str(source))
    with state_store(spark), pytest.raises(MtlmonError, match="relation r reads the rows of the"):
        monitor_stream(stream, rows, delay=0)
    variables = tmp_path / "variables.mtl"
    head = POLICIES.partition("key car")[0]
    variables.write_text(
        f"{head}atom a(car, m = limits[road].max) = true\n"
        "policy p: FORALL c, m. a(c, m) IMPLIES m > 1\n"
    )
    with pytest.raises(MtlmonError, match="for policies without variables"):
        monitor(frame, variables)
