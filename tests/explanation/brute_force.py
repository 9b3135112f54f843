"""The least size of a proof, found by trying every rule with all parts that there can be.

What the checker accepts is a proof, so this asks nothing but the checker.
"""

from __future__ import annotations

from itertools import product

from mtlmon import Formula, Proof
from mtlmon.explanation import ProofError, Rule, Trace
from tests.doors import check_step

_WITHOUT_PARTS = {Rule.CONSTANT, Rule.ATOM, Rule.NO_NEIGHBOUR, Rule.OUTSIDE}
_WITH_RUN = {Rule.WITNESS, Rule.WINDOW, Rule.CUT}


def _is_accepted(proof: Proof) -> bool:
    try:
        check_step(proof)
    except ProofError:
        return False
    return True


class Search:
    """All proofs of formulas on one short trace, as far as their least sizes go."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.positions: list[int | None] = [None, *range(len(trace))]
        self.known: dict[tuple[Formula, int | None], Proof | None] = {}

    def smallest(self, formula: Formula, position: int | None) -> Proof | None:
        """A smallest proof that the formula holds or fails there; None if there is none.

        Raises:
            AssertionError: there are proofs of both.
        """
        key = formula, position
        if key not in self.known:
            proofs = [self._smallest(formula, position, value) for value in (False, True)]
            assert None in proofs, "a contradiction"
            self.known[key] = proofs[0] or proofs[1]
        return self.known[key]

    def _smallest(self, formula: Formula, position: int | None, value: bool) -> Proof | None:
        all_premises, all_runs = self._premises(formula), self._runs(formula)
        best: Proof | None = None
        for rule in Rule:
            some_premises = [()] if rule in _WITHOUT_PARTS else all_premises
            some_runs = all_runs if rule in _WITH_RUN else [()]
            for premises, run in product(some_premises, some_runs):
                proof = Proof(formula, position, value, rule, self.trace, premises, run)
                if (best is None or proof.size < best.size) and _is_accepted(proof):
                    best = proof
        return best

    def _premises(self, formula: Formula) -> list[tuple[Proof, ...]]:
        columns = [
            [proof for position in self.positions if (proof := self.smallest(operand, position))]
            for operand in formula.operands
        ]
        singles = [(proof,) for column in columns for proof in column]
        return [(), *singles, *(product(*columns) if len(columns) == 2 else ())]

    def _runs(self, formula: Formula) -> list[tuple[Proof, ...]]:
        runs: list[tuple[Proof, ...]] = [()]
        for operand in formula.operands:
            for start in range(len(self.trace)):
                run: list[Proof] = []
                for position in range(start, len(self.trace)):
                    proof = self.smallest(operand, position)
                    if proof is None or proof.value is not (run or [proof])[0].value:
                        break
                    run.append(proof)
                    runs.append(tuple(run))
        return runs
