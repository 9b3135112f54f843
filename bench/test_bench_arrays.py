"""Feeding arrays and stepping with bits: `pytest bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import pytest

from bench.workloads import WORKLOADS, probability
from mtlmon import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from bench.workloads import Workload
    from mtlmon.verdict_arrays import VerdictArray

_EVENTS = 1_000_000
_STEPS = 10_000
_RATE = 1000

Columns = dict[str, "np.ndarray[Any, np.dtype[np.bool_]]"]


@pytest.fixture(params=["f1", "f2", "f3", "f4a", "f5"])
def workload(request: pytest.FixtureRequest) -> Workload:
    return WORKLOADS[request.param]


@pytest.fixture(scope="module")
def time_stamps() -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(_EVENTS, dtype=np.int64) // _RATE


@pytest.fixture(scope="module", params=["sparse", "dense"])
def columns(request: pytest.FixtureRequest) -> Columns:
    generator = np.random.default_rng(1)
    return {
        name: generator.random(_EVENTS) < probability(name, request.param) for name in ("p", "q")
    }


def _matrix(monitor: Monitor, columns: Columns) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.column_stack([columns[name] for name in monitor.atoms])


def _bits(monitor: Monitor, columns: Columns) -> np.ndarray[Any, np.dtype[np.uint64]]:
    weights = np.array([1 << i for i in range(len(monitor.atoms))], np.uint64)
    bits: np.ndarray[Any, np.dtype[np.uint64]] = (_matrix(monitor, columns) * weights).sum(
        axis=1, dtype=np.uint64
    )
    return bits


def _measure(
    benchmark: BenchmarkFixture, monitor: Monitor, feed: Callable[[], VerdictArray]
) -> None:
    def run() -> int:
        monitor.reset()
        return len(feed())

    assert benchmark(run) > _EVENTS // 2
    assert benchmark.stats is not None
    benchmark.extra_info["million events/s"] = _EVENTS / benchmark.stats.stats.median / 1e6


def test_feed_matrix(
    benchmark: BenchmarkFixture, workload: Workload, columns: Columns, time_stamps: Any
) -> None:
    monitor = Monitor(workload.formula)
    matrix = _matrix(monitor, columns)
    _measure(benchmark, monitor, lambda: monitor.feed(time_stamps, matrix))


def test_feed_bits(
    benchmark: BenchmarkFixture, workload: Workload, columns: Columns, time_stamps: Any
) -> None:
    monitor = Monitor(workload.formula)
    bits = _bits(monitor, columns)
    _measure(benchmark, monitor, lambda: monitor.feed(time_stamps, bits))


def test_feed_columns(
    benchmark: BenchmarkFixture, workload: Workload, columns: Columns, time_stamps: Any
) -> None:
    monitor = Monitor(workload.formula)
    _measure(benchmark, monitor, lambda: monitor.feed(time_stamps, columns))


def test_feed_arrow(
    benchmark: BenchmarkFixture, workload: Workload, columns: Columns, time_stamps: Any
) -> None:
    monitor = Monitor(workload.formula)
    table = pyarrow.table({"time_stamp": time_stamps, **columns})
    _measure(benchmark, monitor, lambda: monitor.feed(table))


def test_step_with_bits(
    benchmark: BenchmarkFixture, workload: Workload, columns: Columns, time_stamps: Any
) -> None:
    monitor = Monitor(workload.formula)
    bits = _bits(monitor, columns)[:_STEPS]
    events = list(zip(time_stamps[:_STEPS].tolist(), bits.tolist(), strict=True))

    def run() -> int:
        monitor.reset()
        step = monitor.step
        return sum(len(step(time_stamp, letter)) for time_stamp, letter in events)

    assert benchmark(run)
