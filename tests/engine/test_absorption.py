"""Pending outer operators whose operands are pending too, and what need not be looked at then."""

from __future__ import annotations

import random

import pytest

from mtlmon import parse
from tests.comparison import compare
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
