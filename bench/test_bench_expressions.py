"""Substitution and merging in the history, and functions of obligations in BDDs: `pytest bench`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from bench.formulas import nested
from bench.workloads import WORKLOADS, probability
from mtlmon import Monitor, parse
from mtlmon.engine.expressions.bdd import Manager

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from mtlmon.cutting.plan import Mode
    from mtlmon.engine.expressions.bdd import Function

_EVENTS = 5_000
_SLOTS = 24


def _run(formula: str, mode: Mode, events: list[tuple[int, set[str]]]) -> int:
    monitor = Monitor(formula, mode)
    return sum(len(monitor.step(time_stamp, atoms)) for time_stamp, atoms in events)


@pytest.fixture(scope="module")
def events() -> list[tuple[int, set[str]]]:
    """A log of distinct time-stamps, in which q comes late."""
    generator = random.Random(1)
    return [
        (i, {atom for atom in "pq" if generator.random() < probability(atom, "p50-q2")})
        for i in range(_EVENTS)
    ]


@pytest.mark.parametrize("name", ["n1/60", "n1", "f3"])
def test_substitution(
    benchmark: BenchmarkFixture, name: str, events: list[tuple[int, set[str]]]
) -> None:
    """Nested obligations: each event replaces them in all pending expressions."""
    assert benchmark(_run, WORKLOADS[name].formula, "local", events)


@pytest.mark.parametrize("mode", ["naive", "local", "global"])
def test_merging(
    benchmark: BenchmarkFixture, mode: str, events: list[tuple[int, set[str]]]
) -> None:
    """Ten events to a time-stamp, which wait for the same: kept apart, or merged."""
    crowded = [(time_stamp // 10, atoms) for time_stamp, atoms in events]
    assert benchmark(_run, "ALWAYS[0,20] (p IMPLIES EVENTUALLY[0,30] q)", mode, crowded)


def test_substitution_in_bdds(
    benchmark: BenchmarkFixture, events: list[tuple[int, set[str]]]
) -> None:
    """Expressions that are neither cubes nor clauses."""
    formula = parse(f"{nested(2)} AND EVENTUALLY[1,4] NOT p")
    assert benchmark(_run, str(formula), "local", events[:500])


@pytest.fixture(params=["cudd", "autoref"])
def manager(request: pytest.FixtureRequest) -> Manager:
    if request.param == "cudd":
        pytest.importorskip("dd.cudd")
    return Manager(request.param)


def _mixed(manager: Manager, first: int) -> Function:
    """Two obligations at once, or two others, over and over."""
    function = manager.cube([])
    for slot in range(first, first + _SLOTS, 4):
        pair, other = (manager.cube([2 * s, 2 * (s + 1)]) for s in (slot, slot + 2))
        function = manager.conjunction(function, ~(~pair & ~other), 2 * _SLOTS)
    return function


def test_bdd_conjunction(benchmark: BenchmarkFixture, manager: Manager) -> None:
    left, right = _mixed(manager, 0), _mixed(manager, 2)
    assert manager.constant(benchmark(manager.conjunction, left, right, 2 * _SLOTS)) is None


def test_bdd_compose(benchmark: BenchmarkFixture, manager: Manager) -> None:
    function = _mixed(manager, 0)
    slots = list(range(0, _SLOTS, 2))
    images = [manager.cube([2 * (slot + _SLOTS)]) for slot in slots]
    assert manager.constant(benchmark(manager.compose, function, slots, images, 2 * _SLOTS)) is None


def test_bdd_modulo_chains(benchmark: BenchmarkFixture, manager: Manager) -> None:
    function = _mixed(manager, 0)
    chains = [list(range(_SLOTS // 2)), list(range(_SLOTS // 2, _SLOTS))]
    assert manager.support(benchmark(manager.modulo_chains, function, chains))
