"""Formulas with many past operators: at most events, only what can change is evaluated."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from mtlmon import Formula, Monitor, Monitors, atom
from tests.comparison import compare_restored, compare_saved
from tests.doors import Interval, make
from tests.doors import syntax_operators as ops
from tests.engines import with_expressions
from tests.reference.evaluator import evaluate
from tests.traces import Event, prefix_of

_PAST = (ops.PREVIOUS, ops.ONCE, ops.HISTORICALLY, ops.SINCE, ops.TRIGGER)
_BOOLEAN = (ops.NOT, ops.AND, ops.OR)


def past_formula(chance: random.Random, names: list[str], depth: int) -> Formula:
    if depth == 0:
        return atom(chance.choice(names))
    operator = chance.choice(_PAST if chance.random() < 0.7 else _BOOLEAN)
    operands = [past_formula(chance, names, chance.randrange(depth)) for _ in range(operator.arity)]
    if not operator.is_temporal:
        return make(operator, *operands)
    lower = chance.choice([0, 0, 0, 1, 4])
    upper = chance.choice([lower, lower + 2, lower + 7, None])
    return make(operator, *operands, interval=Interval(lower, upper))


def example(seed: int) -> tuple[Formula, tuple[Event, ...]]:
    """A formula whose value shows every change below it, and a trace with quiet and busy times.

    With more than 64 atoms, the transition table is not used.
    """
    chance = random.Random(seed)
    names = [f"a{i}" for i in range(chance.choice([4, 90]))]
    parts = [past_formula(chance, names, chance.choice([1, 2, 3])) for _ in range(25)]
    formula = reduce(lambda left, right: make(ops.IFF, left, right), parts)
    if seed % 3 == 1:
        future = make(ops.EVENTUALLY, parts[0], interval=Interval(0, 3))
        formula = make(ops.IFF, formula, future)
    elif seed % 3 == 2:
        formula = make(ops.AND, make(ops.NEXT, atom("a0")), formula)
    clock, holding, events = chance.choice([0, 1000]), set[str](), list[Event]()
    changes = 0.0
    for k in range(120):
        if k % 40 == 0:
            changes = chance.choice([0.0, 0.01, 0.1, 0.5])
        holding ^= {name for name in names if chance.random() < changes}
        if chance.random() < 0.05:
            holding = set()
        events.append(Event(clock, frozenset(holding)))
        clock += chance.choice([0, 1, 1, 1, 2, 9])
    return formula, tuple(events)


@pytest.mark.parametrize("seed", range(60))
def test_values_are_those_of_the_evaluator(seed: int) -> None:
    formula, events = example(seed)
    monitor = Monitor(formula, mode="naive")
    verdicts = [verdict for event in events for verdict in monitor.step(*event)]
    verdicts += monitor.finish("inf")
    found = {(verdict.time_stamp, verdict.offset): verdict.value for verdict in verdicts}
    values = evaluate(formula, prefix_of(events, closed=True))
    assert [found[point] for point in sorted(found)] == list(values)


@pytest.mark.parametrize("seed", range(60, 72))
def test_states_are_those_of_monitors_that_evaluate_everything(seed: int) -> None:
    """A monitor that has been restored knows no values of the event before."""
    formula, events = example(seed)
    compare_restored(with_expressions(formula), events[:60], "local", every=1 + seed % 3)
    compare_saved(with_expressions(formula), events[:30], "local")


@pytest.mark.parametrize("seed", range(72, 78))
def test_streams_that_share_an_engine(seed: int) -> None:
    formula, events = example(seed)
    monitors: Monitors[str] = Monitors(formula)
    alone = {name: Monitor(formula) for name in "ab"}
    chance = random.Random(seed)
    for event in events:
        for name in chance.choice(["a", "b", "ab", "ba"]):
            assert monitors.step(name, *event) == alone[name].step(*event)


@pytest.mark.parametrize("seed", range(78, 84))
def test_time_without_events(seed: int) -> None:
    formula, events = example(seed)
    one, other = Monitor(formula), Monitor(formula)
    for k, event in enumerate(events):
        verdicts = one.advance(event.time_stamp) if k % 5 == 0 else []
        assert verdicts + one.step(*event) == other.step(*event)
