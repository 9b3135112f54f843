"""Explanations of what monitors say, checked by the checker that the library offers."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import mtlmon
from mtlmon.explanation import ProofError, Trace, check

FORMULAS = (
    "p IMPLIES EVENTUALLY[0,5] q",
    "(NOT r) UNTIL[0,6] q",
    "q SINCE[0,9] (PREVIOUS p)",
    "ALWAYS[0,4] (p OR ONCE[1,3] q)",
    "NOT NEXT[0,2] (p EQUIV r)",
)


@pytest.mark.parametrize("text", FORMULAS)
def test_every_verdict_has_a_proof(text: str) -> None:
    formula = mtlmon.parse(text)
    other = mtlmon.parse(f"NOT ({text})")
    values = set()
    for seed in range(12):
        source = random.Random(seed)
        clock, events = 0, []
        for _ in range(source.choice([3, 12])):
            clock += source.choice([0, 1, 1, 4])
            events.append((clock, {name for name in "pqr" if source.random() < 0.4}))
        monitor = mtlmon.Monitor(formula, "naive")
        verdicts = [one for event in events for one in monitor.step(*event)]
        trace = Trace.of(events)
        for verdict in verdicts:
            proof = mtlmon.explain(formula, trace, verdict)
            start = f"{verdict.time_stamp}:{verdict.offset}"
            assert proof.value is verdict.value
            assert str(proof).startswith(f"{start} {'satisfies' if proof.value else 'violates'}")
            assert proof.position is not None
            check(proof, formula, trace, proof.position)
            with pytest.raises(ProofError):
                check(proof, other, trace, proof.position)
            values.add(proof.value)
        decided = {(one.time_stamp, one.offset) for one in verdicts}
        counts: Counter[int] = Counter()
        for time_stamp, _ in events:
            name = time_stamp, counts[time_stamp]
            counts[time_stamp] += 1
            if name not in decided:
                with pytest.raises(mtlmon.UndecidedError):
                    mtlmon.explain(formula, trace, name)
    assert values
