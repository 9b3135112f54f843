"""Machines of a program, a loop in Python, and a stream that says the same: `pytest bench`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import mtlmon

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

_ROWS = 500_000
_KEYS = 1_000
_STREAM = "policy few: count[0,*](x >= 0) % 7 != 0"


class Count:
    """Counts rows."""

    columns: ClassVar = {"x": int}

    def __init__(self) -> None:
        self.count = 0

    def step(self, row: dict[str, Any]) -> bool:
        self.count += row["x"] >= 0
        return self.count % 7 != 0

    def save(self) -> int:
        return self.count

    def load(self, state: int) -> None:
        self.count = state


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    generator = np.random.default_rng(1)
    names = np.array([f"k{number}" for number in range(_KEYS)])
    return pa.table(
        {
            "ts": np.sort(generator.integers(0, _ROWS, _ROWS)),
            "k": names[generator.integers(0, _KEYS, _ROWS)],
            "x": generator.integers(0, 100, _ROWS),
        }
    )


def test_loop(benchmark: BenchmarkFixture, rows: pa.Table) -> None:
    def loop() -> int:
        objects: dict[str, Count] = defaultdict(Count)
        false = 0
        for key, x in zip(rows["k"].to_pylist(), rows["x"].to_pylist(), strict=True):
            false += not objects[key].step({"x": x})
        return false

    assert benchmark(loop) > 0


@pytest.mark.parametrize("lateness", [None, 60])
@pytest.mark.parametrize("policies", [{"few": Count}, _STREAM], ids=["machine", "stream"])
def test_check(
    benchmark: BenchmarkFixture, rows: pa.Table, policies: Any, lateness: int | None
) -> None:
    def check() -> int:
        run = mtlmon.check(policies, rows, key="k", verdicts="false", lateness=lateness)
        return run.finish().counts["few"].false

    assert benchmark(check) > 0
