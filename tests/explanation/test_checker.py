"""The checker refuses what is no proof: every proof with one thing changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from mtlmon import Formula, Proof, parse
from mtlmon.explanation import ProofError, Rule, Trace, check
from tests import strategies
from tests.doors import check_step, prove
from tests.explanation.test_proofs import events_of
from tests.reference.evaluator import evaluate
from tests.traces import EndTime, Step, ended, prefix_of

Steps = tuple[Step, ...]


def changed(proof: Proof, **attributes: Any) -> Proof:
    """The proof with other attributes, its size counted again."""
    result = copy.copy(proof)
    for name, value in attributes.items():
        setattr(result, name, value)
    if "size" not in attributes:
        result.size = 1 + sum(part.size for part in (*result.premises, *result.run))
    return result


def mutations(proof: Proof) -> Iterator[Proof]:
    """The proof with one thing changed at its root; some may still be proofs."""
    yield changed(proof, value=not proof.value)
    yield from (changed(proof, rule=rule) for rule in Rule if rule is not proof.rule)
    yield changed(proof, premises=proof.premises[1:])
    yield changed(proof, premises=(*proof.premises, *proof.premises[:1]))
    run = tuple(proof.run)
    for rest in run[1:], run[:-1], run[::-1], (*run, *run[-1:]), run[1:] + run[:1]:
        yield changed(proof, run=rest)
    for where in (None, 0, len(proof.trace) - 1, len(proof.trace), -1):
        yield changed(proof, position=where)
    for number, part in enumerate(proof.premises):
        elsewhere = 0 if part.position is None else None
        for other in changed(part, value=not part.value), changed(part, position=elsewhere):
            premises = [*proof.premises]
            premises[number] = other
            yield changed(proof, premises=tuple(premises))
    for part in proof.premises:
        yield changed(proof, formula=part.formula)


def statement(proof: Proof) -> tuple[object, ...]:
    parts = proof.premises, tuple(proof.run)
    return (proof.formula, proof.position, proof.value, proof.rule, *parts)


def is_accepted(proof: Proof) -> bool:
    try:
        check_step(proof)
    except ProofError:
        return False
    return True


@settings(max_examples=150)
@given(strategies.formulas(depth=2), strategies.traces(maximum_length=5), strategies.end_times())
def test_what_is_accepted_is_true(formula: Formula, steps: Steps, end_time: EndTime) -> None:
    """A changed step is refused, unless what it says is so all the same by parts that are true."""
    events = events_of(steps)
    trace = Trace.of(events, end_time)
    prefix = ended(prefix_of(events), end_time)
    for position in range(len(trace)):
        proof = prove(formula, trace, position)
        for part in () if proof is None else proof.distinct():
            for wrong in mutations(part):
                if is_accepted(wrong) and wrong.position is not None:
                    assert all(is_true(child, prefix) for child in wrong.children) <= is_true(
                        wrong, prefix
                    ), f"{wrong!r} by {wrong.rule}"


def is_true(proof: Proof, prefix: Any) -> bool:
    if proof.position is None:
        return not prefix.events or evaluate(proof.formula, prefix)[0] is proof.value
    return evaluate(proof.formula, prefix)[proof.position] is proof.value


TRACE = Trace.of([(0, {"p"}), (1, {"p", "q"}), (1, {"p"}), (4, set()), (5, {"q"}), (9, set())])
PROOFS = [
    ("p SINCE q", 2),
    ("p SINCE[1,2] q", 4),
    ("p UNTIL[0,3] NOT p", 0),
    ("p UNTIL[0,2] false", 0),
    ("(p OR r) UNTIL[0,3] (q AND NOT p)", 0),
    ("EVENTUALLY[0,4] (p AND NOT p)", 0),
    ("ALWAYS[0,3] (p OR q)", 0),
    ("ALWAYS[0,4] (p OR NOT p)", 1),
    ("q RELEASE[0,5] p", 0),
    ("p TRIGGER[0,4] q", 4),
    ("p WEAK_UNTIL[0,8] (NOT p)", 0),
    ("p WEAK_UNTIL[0,8] r", 0),
    ("PREVIOUS[0,2] (p IMPLIES q)", 4),
    ("NEXT[0,0] p", 1),
    ("(p EQUIV q) AND NOT r", 3),
]


@pytest.mark.parametrize(("text", "position"), PROOFS, ids=[text for text, _ in PROOFS])
def test_each_change_is_refused(text: str, position: int) -> None:
    """These proofs use all they have, so that whatever is changed spoils them."""
    formula = parse(text)
    proof = prove(formula, TRACE, position)
    assert proof is not None
    check(proof, formula, TRACE, position)
    refused = 0
    for wrong in mutations(proof):
        if statement(wrong) == statement(proof):
            continue
        with pytest.raises(ProofError):
            check(wrong, formula, TRACE, position)
        refused += 1
    assert refused >= len(Rule) + 3


def test_sizes_traces_and_goals_are_checked() -> None:
    formula = parse("p SINCE q")
    proof = prove(formula, TRACE, 2)
    assert proof is not None
    other = Trace(TRACE.time_stamps, TRACE.letters)
    for wrong, goal, trace, position in [
        (changed(proof, size=proof.size + 1), formula, TRACE, 2),
        (proof, parse("q SINCE p"), TRACE, 2),
        (proof, formula, TRACE, 1),
        (proof, formula, other, 2),
        (changed(proof, premises=(changed(proof.premises[0], trace=other),)), formula, TRACE, 2),
    ]:
        with pytest.raises(ProofError):
            check(wrong, goal, trace, position)
