"""Pending outer operators whose operands are pending too, and what need not be looked at then."""

from __future__ import annotations

import random

import pytest

from mtlmon import Monitor, parse
from tests.comparison import compare
from tests.engines import make_with_expressions, with_expressions
from tests.properties import Timeline
from tests.traces import Event


@pytest.mark.parametrize(
    "formula",
    [
        "ALWAYS[0,10] EVENTUALLY[0,3] p",
        "ALWAYS[0,10] ((EVENTUALLY[0,3] p) AND EVENTUALLY[0,5] q)",
        "ALWAYS[0,10] ((EVENTUALLY[0,3] p) AND (EVENTUALLY[0,5] q) AND EVENTUALLY[1,4] r)",
        "ALWAYS[0,12] (p IMPLIES (EVENTUALLY[0,5] q) AND EVENTUALLY[2,6] r)",
        "(EVENTUALLY[0,4] p) RELEASE[0,9] ((EVENTUALLY[0,3] q) AND EVENTUALLY[0,6] p)",
        # An operand that is pending at some time-points, and something else at others: its
        # negation, an obligation that ends sooner or of other operands, several, a constant.
        "ALWAYS[0,10] (q EQUIV EVENTUALLY[0,3] p)",
        "ALWAYS[0,10] ((q IMPLIES EVENTUALLY[0,3] p) AND (q OR EVENTUALLY[0,6] p))",
        "ALWAYS[0,10] ((q IMPLIES EVENTUALLY[0,3] p) AND (q OR EVENTUALLY[0,6] r))",
        "ALWAYS[0,10] ((EVENTUALLY[0,5] p) AND (q IMPLIES EVENTUALLY[0,3] r))",
        "ALWAYS[0,10] (r AND EVENTUALLY[0,3] p)",
        "ALWAYS[0,10] ((EVENTUALLY[0,5] p) AND (q OR NEXT r))",
        "ALWAYS[0,10] (q IMPLIES EVENTUALLY[2,6] p)",
        "EVENTUALLY[0,10] ((q IMPLIES EVENTUALLY[0,3] p) AND (q OR EVENTUALLY[0,6] p))",
        "(q OR EVENTUALLY[0,3] p) UNTIL[2,10] ((EVENTUALLY[0,5] p) AND r)",
    ],
)
def test_operators_whose_operands_are_pending_together(formula: str) -> None:
    """What is pending of an outer operator has one obligation more, or several, per time-point."""
    source = random.Random(formula)
    for _ in range(12):
        clock = 0
        steps = []
        for _ in range(20):
            clock += source.choice([0, 0, 1, 1, 2])
            steps.append(Event(clock, frozenset(n for n in "pqr" if source.random() < 0.35)))
        compare(parse(formula), Timeline(tuple(steps)))
        compare(parse(formula), Timeline(tuple(steps)), make=make_with_expressions)


def looks_at_all_only_when_it_must(formula: str) -> bool:
    """Whether events that leave what is pending as it is do without a list of it.

    The list is made at an event at which p holds, so the memory grows then.
    """
    monitor = Monitor(with_expressions(formula))
    for time_stamp in range(40):
        assert monitor.step(time_stamp) == []
    before = monitor.counters["held_pending"]
    monitor.step(40, {"p"})
    return monitor.counters["held_pending"] > before


def with_kinds(count: int) -> str:
    """A formula with so many kinds of variables, none of them pending at first.

    Three kinds are of the EVENTUALLY inside, one is of each operator outside.
    """
    others = (f"(q AND EVENTUALLY[0,{k}] a{k})" for k in range(count - 4))
    return " OR ".join(["(ALWAYS[0,100] EVENTUALLY[0,90] p)", *others])


@pytest.mark.parametrize(
    "formula",
    [
        "ALWAYS[0,100] EVENTUALLY[0,90] p",
        "(q AND EVENTUALLY[0,9] r) OR ALWAYS[0,100] EVENTUALLY[0,90] p",
        "(ALWAYS[0,100] EVENTUALLY[0,90] p) OR NEXT (q AND EVENTUALLY[0,9] r)",
    ],
)
def test_what_an_event_leaves_as_it_is_is_not_looked_at(formula: str) -> None:
    """An obligation that ends later adds nothing to what is pending."""
    assert looks_at_all_only_when_it_must(formula)


@pytest.mark.parametrize("kinds", [4, 20, 63, 64, 65])
def test_up_to_64_kinds_of_variables_are_told_apart(kinds: int) -> None:
    assert looks_at_all_only_when_it_must(with_kinds(kinds)) is (kinds <= 64)
