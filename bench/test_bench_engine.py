"""Compiling formulas, stepping monitors from Python, running text logs: `pytest bench`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from bench.workloads import WORKLOADS, probability
from mtlmon import Monitor, parse
from mtlmon.drive.native import TextMonitor

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from bench.workloads import Workload

_EVENTS = 10_000
_RATE = 100


@pytest.fixture(params=["f0", "f1", "f2", "f3", "f4b", "f5"])
def workload(request: pytest.FixtureRequest) -> Workload:
    return WORKLOADS[request.param]


@pytest.fixture(scope="module")
def events() -> list[tuple[int, set[str]]]:
    """A dense log as pairs, one of them for each of 10,000 events."""
    generator = random.Random(1)
    return [
        (i // _RATE, {atom for atom in "pq" if generator.random() < probability(atom, "dense")})
        for i in range(_EVENTS)
    ]


def test_compile(benchmark: BenchmarkFixture, workload: Workload) -> None:
    formula = parse(workload.formula)
    assert benchmark(Monitor, formula).atoms


def test_step(
    benchmark: BenchmarkFixture, workload: Workload, events: list[tuple[int, set[str]]]
) -> None:
    def run() -> int:
        step = Monitor(workload.formula).step
        return sum(len(step(time_stamp, atoms)) for time_stamp, atoms in events)

    assert benchmark(run)


def test_text(
    benchmark: BenchmarkFixture, workload: Workload, events: list[tuple[int, set[str]]]
) -> None:
    log = "".join(f"@{time_stamp} {' '.join(atoms)}\n" for time_stamp, atoms in events).encode()

    def run() -> int:
        text = TextMonitor(Monitor(workload.formula))
        text.load(log)
        while text.run():
            text.writer.take()
        return text.event_count

    assert benchmark(run) == len(events)
