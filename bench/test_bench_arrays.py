"""Events as arrays: `pytest bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.library import FEED, arrays
from bench.logs import random_log
from bench.workloads import PAIR, WORKLOADS
from mtlmon import Monitor

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

_EVENTS = 100_000


@pytest.mark.skipif(not hasattr(Monitor, FEED), reason="Monitor.feed is not in this version")
@pytest.mark.parametrize("name", ["f1", "f2", "f3", "f4a", "f5"])
@pytest.mark.parametrize("density", ["sparse", "dense"])
def test_feed(benchmark: BenchmarkFixture, name: str, density: str) -> None:
    formula = WORKLOADS[name].formula
    log = random_log(PAIR, density, 1000, _EVENTS, seed=1)
    time_stamps, letters = arrays(log, Monitor(formula).atoms)

    def run() -> int:
        return len(getattr(Monitor(formula), FEED)(time_stamps, letters))

    assert benchmark(run)
