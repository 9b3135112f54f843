"""The engine of first-order policies against the reference, on random formulas and logs."""

from __future__ import annotations

import gc

import pytest
from hypothesis import assume, given

from mtlmon.errors import PolicyError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.syntax.formula import Formula
from tests.reference.first_order import Log, Row, answers
from tests.relational.formulas import formulas, logs, safe_formulas

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


def evaluated(formula: Formula, log: Log) -> tuple[tuple[str, ...], list[set[Row]], int]:
    """What the engine answers: the variables, the rows of each time-point, how many are known."""
    file = parse_policies(f"{_DECLARED}find f: {formula}\n")
    analysis = analyse(file)
    assume(not analysis.errors and analysis.policies)
    planned = plan(file, analysis)
    engine = RelationalEngine(planned, planned.texts)
    numbers = {atom.name: number for number, atom in enumerate(planned.named_atoms)}
    for time_stamp, database in log.points:
        rows = [
            (numbers[name], list(row))
            for name, found in database.items()
            if name in numbers
            for row in found
        ]
        engine.points.add(time_stamp, rows)  # type: ignore[arg-type]
        engine.advance()
    engine.end(max(log.clock, engine.clock), log.closed)
    found: list[set[Row]] = [set() for _ in log.points]
    for _, _, _, _, point, cells in engine.answers.take():
        assert cells not in found[point], "an answer occurs twice"
        found[point].add(cells)
    return analysis.policies[0].reported, found, engine.answered_points[0]


def agree(formula: Formula, log: Log) -> None:
    """The engine answers what the reference does, as soon as it is decided by time-stamps."""
    try:
        names, found, known = evaluated(formula, log)
    except PolicyError:
        # random formulas may have no quantifier or predicate, or look ahead without bound
        assume(False)
        return
    expected = answers(formula, log, names, types=dict.fromkeys("xyz", int))
    for point, rows in enumerate(found):
        if point < known:
            assert not expected[point].undecided
            assert rows == expected[point].satisfying
        else:
            assert not rows
    assert known == len(log.points) or not log.closed


@given(safe_formulas(), logs())
def test_formulas_that_are_safe_by_construction(formula: Formula, log: Log) -> None:
    agree(formula, log)


@given(safe_formulas(aggregates=True), logs())
def test_formulas_with_aggregates(formula: Formula, log: Log) -> None:
    agree(formula, log)


@given(formulas(9), logs())
def test_formulas_of_any_shape(formula: Formula, log: Log) -> None:
    agree(formula, log)


def test_an_engine_whose_error_refers_to_it_is_freed() -> None:
    file = parse_policies("policy a: p(x) IMPLIES ONCE q(x)\n", "<rules>")

    def fail() -> None:
        made = plan(file, analyse(file))
        engine = RelationalEngine(made, made.texts)
        engine.points.add(2, [(0, (0,)), (1, (0,))])
        engine.points.add(1, [])
        with pytest.raises(ValueError, match="decrease"):
            engine.advance()

    for _ in range(50):
        fail()
        gc.collect()
