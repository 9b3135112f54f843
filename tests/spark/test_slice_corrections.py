"""Slices whose answers late rows correct, killed and moved anywhere: what one machine says."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from tests.doors import correcting_chunks as chunks
from tests.doors import streaming_slice_corrections as slice_corrections
from tests.spark.slice_cluster import Batch, Cluster, bounds, late_rows, violations
from tests.spark.test_slice_moving import DELAY, POLICIES, Case, values_of

if TYPE_CHECKING:
    from tests.spark.slice_cluster import Row

BEYOND = 6
SEEDS = 2
CHANGES = {"op", "revision", "final"}


class LateCase(Case):
    """A policy, and random rows of which some come late."""

    def rows(self, latest: int) -> list[Row]:
        return [
            {**row, "ts": max(0, row["ts"] - self.draw.choice([0, 0, 0, 4, BEYOND + 1]))}
            for row in super().rows(latest)
        ]


class Latest:
    """What a changelog says in the end.

    Args:
        names: the names of the policies.
    """

    def __init__(self, case: LateCase, names: list[str | None]) -> None:
        self._names = names
        self.now: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.final: dict[Any, int] = defaultdict(int)
        self.operations: Counter[str] = Counter()

    def take(self, number: int, rows: list[Row]) -> None:
        """Take what a batch has written."""
        emitted: set[tuple[Any, ...]] = set()
        for row in violations(rows):
            assert row["revision"] == number
            name = self._names[row["number"]]
            values = {key: value for key, value in row.items() if key not in CHANGES}
            del values["slice"], values["verdict"]
            point = tuple(values.items())
            # at most one row about each in a batch, and none below what was final before
            assert point not in emitted
            emitted.add(point)
            assert row["time"] >= self.final[name]
            assert (point in self.now) == (row["op"] == "delete") == (row["verdict"] is None)
            if row["op"] == "delete":
                del self.now[point]
            else:
                self.now[point] = (name, row["time"], row["verdict"], *values_of(values))
            self.operations[row["op"]] += 1
        for row in bounds(rows):
            name = self._names[row["number"]]
            assert row["final"] > self.final[name]
            self.final[name] = row["final"]

    @property
    def answers(self) -> Counter[tuple[Any, ...]]:
        """The answers, as `Case.truth` returns them."""
        return Counter(self.now.values())


def run(case: LateCase, cluster: Cluster) -> tuple[Latest, int]:
    """Run a query that is killed and restarted, and compare what it says after each batch."""
    draw = case.draw
    number = horizon = latest = found = 0
    taken: list[Row] = []
    late: list[Row] = []
    names = [one.name for one in case.source().source.file.policies]
    emitted = Latest(case, names)

    def one(rows: list[Row]) -> None:
        """A batch, until it is finished."""
        nonlocal number
        cluster.finish(Batch(number, rows, horizon), draw, case.source)
        emitted.take(number, cluster.written[number])
        number += 1

    def compare() -> None:
        nonlocal found
        rows = [row for row in taken if row["ts"] < horizon]
        expected = case.truth(rows, horizon - 1) if rows else Counter()
        assert emitted.answers == expected
        found += sum(expected.values())

    for rows in case.batches():
        taken += [row for row in rows if row["ts"] >= horizon - BEYOND]
        late += [one for row in rows if row["ts"] < horizon - BEYOND for one in case.late(row)]
        one(rows)
        compare()
        latest = max([latest, *(row["ts"] for row in rows)])
        if latest - DELAY > horizon:
            horizon = latest - DELAY
            one([])
            compare()
        if draw.random() < 0.3:
            cluster.restart(case.source(), None)
    written = [row for some in cluster.written.values() for row in some]
    assert sorted(row["time"] for row in late_rows(written)) == sorted(row["ts"] for row in late)
    return emitted, found


@pytest.mark.parametrize("name", POLICIES)
def test_the_latest_answers_are_those_of_the_rows_in_order(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = 0
    operations: Counter[str] = Counter()
    for seed in range(SEEDS):
        case = LateCase(name, seed)
        skips = seed % 2 == 1
        if skips:
            # so that there are chunks, and slices that forget texts
            monkeypatch.setattr(chunks, "_LEAST_SPACING", 2)
            monkeypatch.setattr(chunks, "_POINT_BYTES", 1 << 20)
            monkeypatch.setattr(slice_corrections, "_SPARE_TEXTS", -10)
        cluster = Cluster(case.source(), monkeypatch, Random(name), lateness=BEYOND, skips=skips)
        emitted, more = run(case, cluster)
        found += more
        operations += emitted.operations
    assert found > 0
    assert operations["insert"] > 0
