"""What comes after and around monitoring: resolving, snapshots, many streams, assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench.workloads import WORKLOADS
from mtlmon import Monitor, Monitors, resolve
from mtlmon.testing import check

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pytest_benchmark.fixture import BenchmarkFixture

    from mtlmon import VerdictArray

_EVENTS = 100_000
_RATE = 100
_STREAMS = 10_000


def _events(formula: str) -> tuple[Monitor, NDArray[np.int64], NDArray[np.uint64]]:
    """A monitor, and a dense log of 100,000 events for it."""
    monitor = Monitor(formula)
    generator = np.random.default_rng(1)
    letters = generator.integers(0, 1 << len(monitor.atoms), _EVENTS, np.uint64)
    return monitor, np.arange(_EVENTS) // _RATE, letters


@pytest.fixture(params=["f1", "f2", "f3"])
def verdicts(request: pytest.FixtureRequest) -> VerdictArray:
    """Those of a dense log, equivalences among them."""
    monitor, time_stamps, letters = _events(WORKLOADS[request.param].formula)
    return monitor.feed(time_stamps, letters)


@pytest.mark.parametrize("in_order", [False, True], ids=["as known", "in order"])
def test_resolve_array(benchmark: BenchmarkFixture, verdicts: VerdictArray, in_order: bool) -> None:
    """100,000 verdicts, from array to array."""
    reach = 20 if in_order else None
    assert len(benchmark(resolve, verdicts, in_order=in_order, reach=reach))


def test_resolve_objects(benchmark: BenchmarkFixture, verdicts: VerdictArray) -> None:
    """100,000 verdicts as Python objects."""
    objects = list(verdicts)
    assert benchmark(lambda: sum(1 for _ in resolve(objects)))


@pytest.mark.parametrize("workload", ["f1", "f2", "f3", "f4b", "f5"])
def test_snapshot_and_restore(benchmark: BenchmarkFixture, workload: str) -> None:
    """One state to bytes, and back into another monitor."""
    monitor, time_stamps, letters = _events(WORKLOADS[workload].formula)
    monitor.feed(time_stamps, letters)
    other = Monitor(monitor.program)
    benchmark(lambda: other.restore(monitor.snapshot()))
    assert other.pending == monitor.pending


@pytest.mark.parametrize("workload", ["f1", "f3", "f5"])
def test_many_streams(benchmark: BenchmarkFixture, workload: str) -> None:
    """100,000 events of 10,000 streams, taken one by one from Python."""
    _, time_stamps, letters = _events(WORKLOADS[workload].formula)
    keys = np.random.default_rng(2).integers(0, _STREAMS, _EVENTS).tolist()
    events = list(zip(keys, time_stamps.tolist(), letters.tolist(), strict=True))

    def run() -> int:
        monitors: Monitors[int] = Monitors(WORKLOADS[workload].formula)
        step = monitors.step
        return sum(len(step(key, time_stamp, letter)) for key, time_stamp, letter in events)

    assert benchmark(run)


@pytest.mark.parametrize("workload", ["f1", "f3", "f5"])
@pytest.mark.parametrize("kind", ["step", "check"])
def test_check(benchmark: BenchmarkFixture, workload: str, kind: str) -> None:
    """100,000 events as pairs: what an assertion adds to the monitor itself."""
    formula = WORKLOADS[workload].formula
    monitor, time_stamps, letters = _events(formula)
    names = [
        {atom for bit, atom in enumerate(monitor.atoms) if letter >> bit & 1}
        for letter in range(1 << len(monitor.atoms))
    ]
    trace = [
        (time_stamp, names[letter])
        for time_stamp, letter in zip(time_stamps.tolist(), letters.tolist(), strict=True)
    ]

    def run() -> None:
        if kind == "check":
            check(formula, trace)
            return
        step = Monitor(formula).step
        for time_stamp, atoms in trace:
            step(time_stamp, atoms)

    benchmark(run)
