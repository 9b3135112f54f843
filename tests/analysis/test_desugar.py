from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, parse
from tests.analysis.finite import Trace, holds
from tests.analysis.strategies import formulas, traces
from tests.doors import KERNEL, Span, desugar, postorder


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("a -> b", "NOT a OR b"),
        ("a <-> b", "a <-> b"),
        ("ONCE[1,2] a", "true SINCE[1,2] a"),
        ("EVENTUALLY[1,2] a", "true UNTIL[1,2] a"),
        ("HISTORICALLY[1,2] a", "NOT (true SINCE[1,2] NOT a)"),
        ("ALWAYS[1,2] a", "NOT (true UNTIL[1,2] NOT a)"),
        ("a TRIGGER[1,2] b", "NOT (NOT a SINCE[1,2] NOT b)"),
        ("a RELEASE[1,2] b", "NOT (NOT a UNTIL[1,2] NOT b)"),
        ("a WEAK_UNTIL[1,2] b", "NOT (NOT b UNTIL[1,2] NOT (a OR b))"),
        ("PREVIOUS[1,2] NEXT[3,4] a", "PREVIOUS[1,2] NEXT[3,4] a"),
    ],
)
def test_definitions(text: str, kernel: str) -> None:
    assert desugar(parse(text)) == parse(kernel)


@given(formulas(), traces(), st.integers(0, 7))
def test_the_meaning_is_kept(formula: Formula, trace: Trace, i: int) -> None:
    kernel = desugar(formula)
    assert {node.operator for node in postorder(kernel)} <= KERNEL
    i %= len(trace)
    assert holds(kernel, trace, i) == holds(formula, trace, i)


@given(formulas())
def test_kernel_formulas_stay_the_same_object(formula: Formula) -> None:
    kernel = desugar(formula)
    assert desugar(kernel) is kernel


def test_spans_point_at_the_text() -> None:
    text = "p AND (ALWAYS[0,5] q)"
    kernel = desugar(parse(text))
    assert kernel.span == Span(0, 21)
    negation = kernel.operands[1]
    for made in (negation, *negation.operands, *negation.operands[0].operands):
        assert made.span == Span(7, 20, indirect=True)
    atom = negation.operands[0].operands[1].operands[0]
    assert atom.span == Span(19, 20)


def test_formulas_without_spans_get_none() -> None:
    from mtlmon import atom
    from tests.doors import make
    from tests.doors import syntax_operators as ops

    assert all(node.span is None for node in postorder(desugar(make(ops.ONCE, atom("a")))))


def test_what_a_definition_names_twice_is_shared() -> None:
    kernel = desugar(parse("a WEAK_UNTIL (b SINCE c)"))
    parts = [node for node in postorder(kernel) if node == parse("b SINCE c")]
    assert len(parts) == 1
