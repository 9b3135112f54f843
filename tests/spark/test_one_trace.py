"""One long trace cut into ranges: the verdicts of one machine, whatever is cut where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from mtlmon.spark import monitor_trace
from tests.spark.single import Row, collected, expected, random_rows, shuffled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tests.traces import EndTime

pytestmark = pytest.mark.xdist_group("spark")

POLICIES = """
policy answered: p IMPLIES EVENTUALLY[0,5] q
policy nested: ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)
policy neighbours: (PREVIOUS PREVIOUS p) OR NEXT q
policy past: p SINCE (q AND ONCE[3,*] r)
policy liveness: p IMPLIES EVENTUALLY q
policy deep: ALWAYS (p IMPLIES EVENTUALLY[2,*] (q AND HISTORICALLY[0,30] (r OR NOT r)))
policy mixed: (HISTORICALLY (p OR q OR r)) OR ONCE[0,9] (p UNTIL r)
"""


def frame(spark: SparkSession, rows: Sequence[Row], partitions: int = 3) -> DataFrame:
    table = pa.Table.from_pylist([row._asdict() for row in rows])
    return spark.createDataFrame(table).repartition(partitions)


def without_key(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(((row[0], *row[2:]) for row in rows), key=repr)


@pytest.mark.parametrize("end_time", [None, 2500, "last", "inf"])
def test_verdicts_are_those_of_one_machine(spark: SparkSession, end_time: EndTime) -> None:
    rows = [row for row in random_rows(7, keys=1, events=1, skew=400) if row.what or row.n % 2]
    verdicts = monitor_trace(
        frame(spark, shuffled(rows, 1)),
        POLICIES,
        event="what",
        order_within="n",
        end_time=end_time,
        ranges=5,
    )
    assert collected(verdicts) == without_key(expected(rows, POLICIES, end_time=end_time))
