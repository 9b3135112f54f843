"""Formulas of the past as expressions, against the semantics, on traces with equal time-stamps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import TRUE, Formula, parse
from mtlmon.policy import Predicate
from tests.doors import Expression, StreamProgram, as_expression, future_operator
from tests.doors import predicates_operators as predicates
from tests.doors import syntax_operators as ops
from tests.reference.evaluator import evaluate
from tests.small_models import Family, P, Q, formulas_of
from tests.strategies import formulas
from tests.traces import Event, prefix_of

ATOMS = ("p", "q", "r")
OPERATORS = [operator for operator in ops.OPERATORS if operator.arity and not operator.is_future]
SCHEMA = pa.schema([(name, pa.bool_()) for name in ATOMS])

Log = Sequence[tuple[int, Event]]
"""Events with the numbers of their traces."""


def column(name: str) -> Expression:
    return Expression(predicates.COLUMN, (), name)


def compare(wanted: Sequence[Formula], log: Log, cut: int) -> None:
    """Compare formulas on a log that comes in two batches; where an atom fails it may be null."""
    named = {str(number): as_expression(one, column) for number, one in enumerate(wanted)}
    program = StreamProgram(
        {name: Predicate(one, "", "<test>") for name, one in named.items()}, {}, SCHEMA
    )
    found: dict[str, list[bool | None]] = {name: [] for name in named}
    for part in (log[:cut], log[cut:]):
        batch = pa.RecordBatch.from_pylist(
            [{name: name in event.atoms or (None, False)[row % 2] for name in ATOMS}
             for row, (_, event) in enumerate(part)], SCHEMA
        )  # fmt: skip
        times = np.array([event.time_stamp for _, event in part], np.int64)
        numbers = np.array([trace for trace, _ in part], np.uint32)
        for name, values in program.evaluate(batch, times, numbers).items():
            found[name] += values.to_pylist()
    traces = sorted({trace for trace, _ in log})
    events = {trace: [event for own, event in log if own == trace] for trace in traces}
    prefixes = {trace: prefix_of(own, closed=True) for trace, own in events.items()}
    for name, formula in zip(named, wanted, strict=True):
        values = {trace: iter(evaluate(formula, prefix)) for trace, prefix in prefixes.items()}
        expected = [next(values[trace]) for trace, _ in log]
        assert found[name] == expected, (str(formula), log)


def letters(atoms: Sequence[str]) -> Iterator[frozenset[str]]:
    for held in product((False, True), repeat=len(atoms)):
        yield frozenset(name for name, is_held in zip(atoms, held, strict=True) if is_held)


def short_traces(length: int, increments: Sequence[int]) -> list[list[Event]]:
    """All traces of two atoms of a length; they begin at time-stamp 0."""
    result = []
    for steps in product(increments, repeat=length - 1):
        times = [sum(steps[:place]) for place in range(length)]
        for atoms in product(letters(("p", "q")), repeat=length):
            result.append([Event(*one) for one in zip(times, atoms, strict=True)])
    return result


def interleaved(traces: Sequence[Sequence[Event]]) -> list[tuple[int, Event]]:
    """The events of traces in the order of their time-stamps."""
    log = [(number, event) for number, trace in enumerate(traces) for event in trace]
    return sorted(log, key=lambda one: one[1].time_stamp)


def test_formulas_with_one_operator_on_all_short_traces() -> None:
    intervals = [(0, None), (0, 0), (0, 1), (1, 2), (2, None), (1, 1)]
    family = Family(OPERATORS, intervals, (P, Q), 1, (0, 1, 2), 3, 2)
    wanted = [*formulas_of(family), *formulas_of(family._replace(atoms=1))]
    assert len(wanted) > 40
    log = interleaved(short_traces(3, (0, 1, 2)))
    compare(wanted, log, len(log) // 2)


@pytest.mark.parametrize("atoms", [1, 2])
def test_formulas_with_two_operators_on_random_traces(atoms: int) -> None:
    dice = random.Random(7)
    intervals = [(0, None), (0, 1), (1, 3)]
    family = Family(OPERATORS, intervals, (P, Q, TRUE), 2, (0, 1, 2), 6, atoms)
    wanted = list(formulas_of(family))
    assert len(wanted) > 1000
    some_letters = list(letters(("p", "q")))
    sample = dice.sample(wanted, 500)
    for start in range(0, len(sample), 100):
        traces = []
        for _ in range(12):
            times = np.cumsum([dice.choice((0, 0, 1, 2)) for _ in range(6)]).tolist()
            traces.append([Event(time, dice.choice(some_letters)) for time in times])
        log = interleaved(traces)
        compare(sample[start : start + 100], log, dice.randrange(len(log)))


@given(
    formulas().filter(lambda formula: future_operator(formula) is None),
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([0, 0, 1, 2, 5]),
                  st.frozensets(st.sampled_from(ATOMS))),
        min_size=1, max_size=12,
    ),
    st.integers(0, 12),
)  # fmt: skip
def test_random_formulas(
    formula: Formula, steps: list[tuple[int, int, frozenset[str]]], cut: int
) -> None:
    times = np.cumsum([step for _, step, _ in steps]).tolist()
    log = [(trace, Event(time, held)) for time, (trace, _, held) in zip(times, steps, strict=True)]
    compare([formula], log, min(cut, len(log)))


def test_the_last_row_of_an_interval_is_that_of_the_order_of_rows() -> None:
    """At one time-stamp, SINCE looks at the rows before a row, not at those behind it."""
    wanted = [parse("p SINCE[0,0] q"), parse("PREVIOUS[0,0] p"), parse("PREVIOUS[1,1] p")]
    rows = ["q", "p", "", "p", "pq"]
    log = [(0, Event(5, frozenset(row))) for row in rows]
    compare(wanted, [*log, (0, Event(6, frozenset("p")))], 2)
