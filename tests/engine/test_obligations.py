"""Obligations of several operators over the same operands, which begin and end one by one."""

from __future__ import annotations

import random

import pytest

from mtlmon import Monitor, parse
from tests.comparison import compare_saved
from tests.engines import with_expressions
from tests.reference.evaluator import evaluate
from tests.traces import Event, prefix_of

FORMULAS = (
    "(EVENTUALLY[0,40] p) AND NOT (EVENTUALLY[0,13] p)",
    "(EVENTUALLY[0,60] p) EQUIV (EVENTUALLY[20,31] p)",
    "((EVENTUALLY[0,9] p) EQUIV (EVENTUALLY[0,27] p)) OR NOT (EVENTUALLY[5,50] p)",
    # windows that have not begun and have no end
    "ALWAYS[2,7] EVENTUALLY[9,*) p",
    "ALWAYS[2,5] ((EVENTUALLY[4,*) p) EQUIV EVENTUALLY[8,*) p)",
    "(EVENTUALLY[4,*) p) AND NOT ONCE[0,9] ((EVENTUALLY[0,6] p) AND EVENTUALLY[12,*) p)",
)


def trace(seed: str, length: int) -> tuple[Event, ...]:
    chance = random.Random(seed)
    clock, events = 0, list[Event]()
    for _ in range(length):
        clock += chance.choice([0, 1, 1, 1, 2, 3])
        holds = chance.random() < 0.02
        events.append(Event(clock, frozenset("p" if holds else "")))
    return tuple(events)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("formula", FORMULAS)
def test_values_are_those_of_the_evaluator(formula: str, seed: int) -> None:
    events = trace(f"{formula}{seed}", 250)
    monitor = Monitor(formula, mode="naive")
    verdicts = [verdict for event in events for verdict in monitor.step(*event)]
    verdicts += monitor.finish("inf")
    found = {(verdict.time_stamp, verdict.offset): verdict.value for verdict in verdicts}
    values = evaluate(parse(formula), prefix_of(events, closed=True))
    assert [found[point] for point in sorted(found)] == list(values)


@pytest.mark.parametrize("formula", FORMULAS)
def test_states_that_are_saved(formula: str) -> None:
    compare_saved(with_expressions(formula), trace(formula, 80), "local")


def test_windows_without_an_end_come_to_one() -> None:
    """So the obligations of a time-point are not as many as the time-stamps that it looks at."""
    sizes = []
    for bound in (50, 100):
        monitor = Monitor(f"ALWAYS[{bound},{2 * bound}] EVENTUALLY[{2 * bound},*) r")
        for time in range(6 * bound):
            monitor.step(time, ())
        sizes.append(len(monitor.snapshot()))
    assert sizes[0] < 2_000
    assert sizes[1] < 2.4 * sizes[0]
