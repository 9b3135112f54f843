"""Machines of a program in Spark: for each key, what one computer says."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon import streams
from mtlmon.spark import monitor, monitor_stream, resolve_verdicts
from tests.doors import predicates_own_machines as own_machines
from tests.spark import test_stream_corrections as corrections
from tests.spark.streams import put, state_store
from tests.spark.test_row_relations import OPEN
from tests.spark.test_trace_streams import LOG, counted, frame, log_rows, rows_of, table, truth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

spark_group = pytest.mark.xdist_group("spark")


def machine() -> type[streams.Machine]:
    """A machine that is not known by name, so its code must get to the workers."""

    class Sums:
        columns: ClassVar = {"amount": int}

        def __init__(self) -> None:
            self.last: list[int] = []

        def step(self, row: dict[str, Any]) -> bool:
            self.last = [*self.last[-2:], row["amount"] or 0]
            return sum(self.last) < 120

        def save(self) -> list[int]:
            return self.last

        def load(self, state: list[int]) -> None:
            self.last = state

    return Sums


class Falling:
    """How many rows in a row had less than the one before."""

    def __init__(self) -> None:
        self.last, self.count = 0, 0

    def step(self, row: dict[str, Any]) -> int:
        self.count = self.count + 1 if row["v"] < self.last else 0
        self.last = row["v"]
        return self.count

    def save(self) -> tuple[int, int]:
        return self.last, self.count

    def load(self, state: tuple[int, int]) -> None:
        self.last, self.count = state


@pytest.fixture(autouse=True)
def text() -> Iterator[str]:
    known = dict(own_machines._registered)
    one = streams.register_machine(machine())
    called = f'machine("{one.__module__}:{one.__qualname__}", amount)'
    yield f"""
unit s
key user
stream low: bool = {called}
policy low: low
policy soon: low OR EVENTUALLY[0,20s] low
policy ticks on every 5s: low.hold(or: true)
"""
    own_machines._registered.clear()
    own_machines._registered.update(known)


@spark_group
def test_batches_say_what_one_computer_says(spark: SparkSession, text: str) -> None:
    rows = log_rows(3, 300)
    found = rows_of(monitor(frame(spark, rows), text, order_within="n", end_time="inf"))
    assert counted(found) == truth(table(rows), text)
    assert {row["policy"] for row in found if not row["verdict"]} >= {"low", "ticks"}
    whole = {"low": machine()}
    found = rows_of(
        monitor(frame(spark, rows), whole, key="user", order_within="n", end_time="inf")
    )
    assert counted(found) == truth(table(rows), cast("Any", whole), key="user")


@pytest.mark.dear("streaming queries")
@spark_group
def test_a_query_says_what_one_computer_says(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    """It starts again after each batch, so states and code come from elsewhere."""
    source = tmp_path / "source"
    source.mkdir()
    rows = log_rows(8, 60)
    names = [field.split()[0] for field in LOG.split(", ")]
    with state_store(spark):
        for number in range(0, len(rows), 30):
            given_rows = spark.readStream.schema(LOG).json(str(source))
            verdicts = monitor_stream(given_rows, text, order_within="n", delay=60)
            part = random.Random(4).sample(rows[number : number + 30], 30)
            put(source, f"{number:03}", [dict(zip(names, row, strict=True)) for row in part])
            if number == 30:
                last = (rows[-1][0] + 200, 0, "end", 9, "", 0, 0)
                put(source, "end", [dict(zip(names, last, strict=True))])
            writer = verdicts.writeStream.format("parquet").option("path", str(tmp_path / "out"))
            query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            query.processAllAvailable()
            query.stop()
    written = spark.read.parquet(str(tmp_path / "out"))
    # The watermark is 60 before the last row, which does not come before that.
    clock = rows[-1][0] + 200 - 60
    found = [row.asDict() for row in resolve_verdicts(written, key="user").collect()]
    assert counted(found) == truth(table(rows), text, end_time=clock - 1)


@pytest.mark.parametrize("seed", range(4))
def test_late_rows_are_taken_in_by_states_that_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(corrections, "judged", corrections.truth)
    streams.register_machine(Falling)
    text = """unit s
key k
stream falling: int = machine("tests.spark.test_machines:Falling", v)
policy few: falling < 3
policy soon: falling < 2 OR EVENTUALLY[0,3s] v > 3
policy ticks on every 2s: falling.hold(or: 0) < 4
"""
    (tmp_path / "open.csv").write_text(OPEN)
    for some in (text, text[: text.index("policy ticks")]):
        query = corrections.run(tmp_path, some, seed)
        assert sum(query.operations.values()) > 0
