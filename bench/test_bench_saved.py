"""Saving a state, comparing the present one with it, and loading it: `pytest bench`.

The times include the call from Python, which takes about 40 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from mtlmon import Monitor, Program
from mtlmon.engine.compile import compile_formula
from mtlmon.engine.native import SavedState
from mtlmon.syntax.parser import parse

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

_EVENTS = 4000


class _Case(NamedTuple):
    """A formula, and the events at the end, behind random ones.

    Attributes:
        atoms: the atoms of the events at the end.
        event_count: how many events that are.
        undecided: how many time-points are then pending.
    """

    formula: str
    atoms: str
    event_count: int
    undecided: int


def _rules(operators: Sequence[str]) -> str:
    rules = [f"(p IMPLIES {operator}[{k},{k + 9}] q)" for k, operator in enumerate(operators)]
    return " AND ".join(rules)


_PLAIN = "EVENTUALLY[0,2000] (p AND ONCE[0,5] q)"
_NESTED = "ALWAYS[0,{0}] (p IMPLIES EVENTUALLY[{0},{1}] q)"

_CASES = {
    "1 operator": _Case(_rules(["EVENTUALLY"]), "q", 20, 0),
    "4 operators": _Case(_rules(["EVENTUALLY", "ONCE"] * 2), "q", 20, 0),
    "8 operators": _Case(_rules(["EVENTUALLY", "ONCE"] * 4), "q", 20, 0),
    # The witnesses of each operator are part of the state.
    "8 past operators": _Case(_rules(["ONCE"] * 8), "q", 20, 0),
    "10 undecided": _Case(_PLAIN, "", 10, 10),
    "10 undecided, nested": _Case(_NESTED.format(9, 30), "", 60, 10),
    "1,000 undecided": _Case(_PLAIN, "", 1000, 1000),
    "1,000 undecided, nested": _Case(_NESTED.format(999, 3000), "", 4500, 1000),
}


@pytest.fixture(params=_CASES)
def case(request: pytest.FixtureRequest) -> _Case:
    return _CASES[request.param]


@pytest.fixture(params=["expressions", "network"])
def monitor(request: pytest.FixtureRequest, case: _Case) -> Monitor:
    """A monitor of one of the engines in the state of a case."""
    program = compile_formula(parse(case.formula))
    has_network = request.param == "network"
    monitor = Monitor(
        Program(program.rows, program.root, program.atoms, program.is_bounded, has_network)
    )
    chance = Random(1)
    for time_stamp in range(_EVENTS):
        monitor.step(time_stamp, [name for name in "pq" if chance.random() < 0.5])
    monitor.step(_EVENTS, {"p", "q"})
    for time_stamp in range(case.event_count):
        monitor.step(_EVENTS + 1 + time_stamp, set(case.atoms))
    assert monitor.counters["pending"] == case.undecided
    return monitor


def test_save(benchmark: BenchmarkFixture, monitor: Monitor) -> None:
    benchmark(SavedState(monitor).save, monitor)


def test_equality(benchmark: BenchmarkFixture, monitor: Monitor) -> None:
    assert benchmark(SavedState(monitor).is_state_of, monitor)


def test_load(benchmark: BenchmarkFixture, monitor: Monitor) -> None:
    benchmark(SavedState(monitor).load, monitor)


def test_load_into_another_monitor(benchmark: BenchmarkFixture, monitor: Monitor) -> None:
    """It knows no transitions yet, so that all structures are built."""
    state = SavedState(monitor)
    other = Monitor(monitor.program)
    benchmark(state.load, other)
    assert state.is_state_of(other)
