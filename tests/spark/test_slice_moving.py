"""States of slices that are moved to other slices, killed anywhere: what one machine says."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon.relational.slicing import Statistics
from tests.doors import HERE, key_width, written_name
from tests.reference.slicing import slices_of
from tests.relational.slicing.test_moving import OPERATORS
from tests.spark.slice_cluster import Batch, Cluster, late_rows, source_of, violations

if TYPE_CHECKING:
    from tests.doors import SliceSource
    from tests.spark.slice_cluster import Row

DECLARED = """
unit s
atom p(x) = what = "p"
atom q(x, y) = what = "q"
atom r = what = "r"
"""
DELAY = 3
SEEDS = 2
NUMBERS = {"aggregates", "built in", "filters", "largest"}
POLICIES = {name: text for name, text in OPERATORS.items() if "point(i)" not in text}
POLICIES["closed"] = "policy a: r IMPLIES ALWAYS NOT EXISTS x. p(x) AND ONCE[0,3] q(x, x)"
POLICIES["sums"] = "find a: p(x) AND SUM(y OVER ONCE[0,5] q(x, y) BY x) > 4"
POLICIES["future of the future"] = (
    "find a: EVENTUALLY[0,3] (p(x) AND EVENTUALLY[0,4] q(x, y))\n"
    "find b: p(x) AND EVENTUALLY[0,3] (p(y) AND EVENTUALLY[0,4] q(x, y))"
)
# each of which has a step to another row of the key, or looks at all rows of it
OF_KEYS = {
    "steps of keys": "find a: p(x) AND (PREVIOUS NOT q(x, x)) AND NEXT[0,4] NOT p(x)",
    "runs of keys": "find a: q(x, y) AND (p(x) SINCE[0,9] q(x, y))",
    "rows of keys": "find a: NOT r AND PREVIOUS (p(x) AND NOT PREVIOUS[0,5] r)",
    "counts of keys": "find a: p(x) AND n = COUNT(ONCE[0,5] q(x, y) BY x) AND ALWAYS[0,3] NOT r",
}
POLICIES |= OF_KEYS


def values_of(row: Row) -> list[str]:
    """The values of variables."""
    fixed = {"policy", "slice", "number", "time", "offset", "verdict", "reference"}
    given = (value for name, value in row.items() if name not in fixed)
    return sorted(str(value) for value in given if value is not None)


class Case:
    """A policy, and random rows for it."""

    def __init__(self, name: str, seed: int) -> None:
        self.text = ("key k\n" if name in OF_KEYS else "") + DECLARED + POLICIES[name]
        self.draw = Random(f"{name} {seed}")
        is_text = not {name, *POLICIES[name].split()} & {*NUMBERS, "SUM(y"}
        is_rare = name in {"neighbours", "until with runs"}
        self.names = "ppqq" if is_rare else "ppqqr-"
        self.values = 2 if is_rare else 4
        self.value = "v{}".format if is_text else int
        kind = pa.string() if is_text else pa.int64()
        fields = [("ts", pa.int64()), ("what", pa.string()), ("k", pa.string())]
        self.schema = pa.schema([*fields, ("x", kind), ("y", kind)])

    def source(self) -> SliceSource:
        draw = self.draw
        heavy = {
            ("p", 0): frozenset([self.value(draw.randrange(4))]),
            ("q", draw.randrange(2)): frozenset([self.value(draw.randrange(4))]),
        }
        statistics = Statistics({"p": draw.random(), "q": draw.random()}, heavy)
        slices = draw.choice([1, 2, 3, 4, 6])
        return source_of(self.text, self.schema, slices, draw.choice([statistics, Statistics()]))

    def late(self, row: Row) -> list[Row]:
        """A row as often as it is told if it is late: once for each atom of which it is a row."""
        source = source_of(self.text, self.schema, 1)
        policies, found = source.slicing().policies, []
        for name in source.source.columns().names:
            values = {"p": [row["x"]], "q": [row["x"], row["y"]]}.get(written_name(name), [])
            values += [row["k"]] if key_width(name) else []
            if written_name(name) in (row["what"], HERE) and any(
                slices_of(one, name, values) for one in policies
            ):
                found.append(row)
        return found

    def rows(self, latest: int) -> list[Row]:
        draw = self.draw
        return [
            {
                "ts": max(0, latest + draw.randrange(-DELAY - 1, 5)),
                "what": draw.choice(self.names),
                "x": self.value(draw.randrange(self.values)),
                "y": self.value(draw.randrange(self.values)),
                "k": draw.choice("ab") if "key" in self.text else "a",
            }
            for _ in range(draw.randrange(1, 9))
        ]

    def batches(self) -> list[list[Row]]:
        """Batches of rows, of which some have none; the last has one of a much later time."""
        latest, found = 0, []
        for _ in range(7):
            rows = [] if self.draw.random() < 0.1 else self.rows(latest)
            latest = max([latest, *(row["ts"] for row in rows)])
            found.append(rows)
        last = {"what": "-", "x": None, "y": None, "k": "a"}
        return [*found, [{**last, "ts": latest + 50}], [{**last, "ts": latest + 50}]]

    def truth(self, rows: list[Row], end: int) -> Counter[tuple[Any, ...]]:
        table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]), self.schema)
        check = mtlmon.check(self.text, table, time_points="stamp", end_time=end)
        return Counter(
            (
                row["policy"],
                row["time"],
                row["verdict"],
                *values_of(row),
            )
            for row in check.to_arrow().to_pylist()
        )

    def emitted(self, rows: list[Row]) -> Counter[tuple[Any, ...]]:
        names = [one.name for one in source_of(self.text, self.schema, 1).source.file.policies]
        return Counter(
            (
                names[row["number"]],
                row["time"],
                row["verdict"],
                *values_of(row),
            )
            for row in violations(rows)
        )


def run(case: Case, cluster: Cluster) -> tuple[list[Row], list[Row], int]:
    """Run a query that is killed and restarted: rows on time, late ones, and the horizon."""
    draw = case.draw
    number = horizon = latest = 0
    taken: list[Row] = []
    late: list[Row] = []

    def one(rows: list[Row]) -> None:
        """A batch, until it is finished."""
        nonlocal number
        cluster.finish(Batch(number, rows, horizon), draw, case.source)
        number += 1

    for rows in case.batches():
        taken += [row for row in rows if row["ts"] >= horizon]
        late += [one for row in rows if row["ts"] < horizon for one in case.late(row)]
        one(rows)
        latest = max([latest, *(row["ts"] for row in rows)])
        if latest - DELAY > horizon:
            horizon = latest - DELAY
            one([])
        if draw.random() < 0.3:
            cluster.restart(case.source(), None)
    return taken, late, horizon


@pytest.mark.parametrize("name", POLICIES)
def test_any_slices_become_any_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = 0
    for seed in range(SEEDS):
        case = Case(name, seed)
        cluster = Cluster(case.source(), monkeypatch, Random(name), skips=seed % 2 == 1)
        taken, late, horizon = run(case, cluster)
        rows = [row for some in cluster.written.values() for row in some]
        expected = case.truth([row for row in taken if row["ts"] < horizon], horizon - 1)
        assert case.emitted(rows) == expected
        assert sorted(row["time"] for row in late_rows(rows)) == sorted(row["ts"] for row in late)
        found += sum(expected.values())
    assert found > 0
