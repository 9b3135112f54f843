from __future__ import annotations

import pytest
from hypothesis import given

from mtlmon import Formula, parse
from tests.analysis.strategies import formulas
from tests.doors import desugar, postorder, skewed_count, subformula_count
from tests.doors import syntax_operators as ops

MAXIMUM = 2**63 - 1


def skewed_by_definition(formula: Formula) -> int:
    """The set of interval-skewed subformulas, written out."""
    entries: set[tuple[object, ...]] = set()
    for node in postorder(desugar(formula)):
        interval = node.interval
        if interval is None or node.operator not in (ops.SINCE, ops.UNTIL):
            entries.add((node,))
            continue
        lower, upper = interval.lower, interval.upper
        for n in range((lower if upper is None else upper) + 1):
            shifted = None if upper is None else upper - n
            entries.add((node.operator, node.operands, max(lower - n, 0), shifted))
    return len(entries)


@given(formulas(size=8))
def test_skewed_subformulas_are_counted_as_a_set(formula: Formula) -> None:
    assert skewed_count(formula) == skewed_by_definition(formula)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("p", 1),
        ("p UNTIL q", 3),
        ("p UNTIL[0,1] q", 4),
        ("p UNTIL[2,5] q", 2 + 6),
        ("p UNTIL[2,*) q", 2 + 3),
        ("NEXT[2,5] p", 2),
        ("(p UNTIL[2,5] q) AND (p UNTIL[0,3] q)", 2 + 6 + 1),
        ("(p UNTIL[2,5] q) AND (p UNTIL[3,6] q)", 2 + 7 + 1),
        ("(p UNTIL[2,5] q) AND (p UNTIL[1,2] q)", 2 + 6 + 1 + 1),
        ("(p UNTIL[2,5] q) AND (p SINCE[2,5] q)", 2 + 6 + 6 + 1),
        ("(p UNTIL[2,5] q) AND (q UNTIL[2,5] p)", 2 + 6 + 6 + 1),
        ("(ONCE[1,2] p) AND (true SINCE[1,2] p)", 2 + 3 + 1),
        (f"p UNTIL[0,{MAXIMUM}] q", 2 + MAXIMUM + 1),
        (f"p SINCE[{MAXIMUM},*) q", 2 + MAXIMUM + 1),
        (f"p SINCE[{MAXIMUM - 5},{MAXIMUM}] q", 2 + MAXIMUM + 1),
    ],
)
def test_skewed_count(text: str, count: int) -> None:
    assert skewed_count(parse(text)) == count


def test_atoms_come_in_order_of_first_occurrence() -> None:
    assert parse('b -> a AND "c d" OR b').atoms == ("b", "a", "c d")
    assert parse("true").atoms == ()


def test_equal_subformulas_count_once() -> None:
    assert subformula_count(parse("(a AND b) OR (a AND b)")) == 4
    assert subformula_count(parse("(ONCE[0,1] a) OR (ONCE[0,2] a)")) == 4
