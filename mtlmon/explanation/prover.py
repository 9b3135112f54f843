"""Finds a proof of least size and builds it.

The proof system follows B. Bhatt, D. Basin, D. Traytel, "Optimal Proofs for Linear Temporal Logic
on Lasso Words" (ATVA 2018) and L. Lima, A. Herasimau, M. Raszyk, D. Traytel, S. Yuan, "Explainable
Online Monitoring of Metric Temporal Logic" (TACAS 2023). It has additional rules for the operators
that these define by others, so that a proof is about the formula as it was written, and for
constants that decide a formula before further events are known.

Proofs for neighbouring time-points are parts of one shared list. So nested operators, whose trees
have sizes that are products of their windows, take memory linear in the trace.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.explanation.proof import Proof, Rule, Run
from mtlmon.explanation.sizes import (
    AND_SIGNS,
    EVERYWHERE,
    UNIVERSAL,
    Range,
    everywhere_options,
    tables,
)
from mtlmon.explanation.windows import WINDOW
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.explanation.trace import Trace
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval

__all__ = ["Prover", "prove"]


def prove(formula: Formula, trace: Trace, position: int) -> Proof | None:
    """Return a smallest proof that the formula holds or fails at a position, or None."""
    return Prover(formula, trace, position, position).prove(position)


class _Step(NamedTuple):
    """A rule at a position, and the numbers of subformulas, with positions, that it needs."""

    rule: Rule
    premises: tuple[tuple[int, int | None], ...] = ()
    run: tuple[int, int, int] | None = None
    """A subformula, the first and the last position; the run is empty if the last is lower."""


class _Needed:
    """The positions at which a proof needs one subformula, collected range by range."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.everywhere = False

    def add(self, first: int, last: int) -> None:
        if first <= last:
            self.ranges.append((first, last))

    def positions(self) -> list[int | None]:
        """Each once and in order, None for everywhere at the end."""
        result: list[int | None] = []
        begin = 0
        for first, last in sorted(self.ranges):
            result.extend(range(max(first, begin), last + 1))
            begin = max(begin, last + 1)
        return [*result, None] if self.everywhere else result


class _Built:
    """The proofs of one subformula: a list from the first position needed on, and everywhere."""

    def __init__(self, positions: Sequence[int | None]) -> None:
        needed = [position for position in positions if position is not None]
        self.first = needed[0] if needed else 0
        length = needed[-1] + 1 - self.first if needed else 0
        self.proofs: list[Proof | None] = [None] * length
        self.everywhere: Proof | None = None

    def put(self, position: int | None, proof: Proof) -> None:
        if position is None:
            self.everywhere = proof
        else:
            self.proofs[position - self.first] = proof

    def at(self, position: int | None) -> Proof:
        proof = self.everywhere if position is None else self.proofs[position - self.first]
        assert proof is not None
        return proof

    def run(self, first: int, last: int) -> Run:
        return Run(self.proofs, first - self.first, last + 1 - self.first)


class Prover:
    """Proves a formula at the positions from `first` to `last` of a trace.

    Creating a prover takes time and memory linear in the number of distinct subformulas times the
    number of time-points within reach. Each proof takes time and memory linear in the number of its
    distinct parts.
    """

    def __init__(self, formula: Formula, trace: Trace, first: int, last: int) -> None:
        self.trace = trace
        self.nodes, numbers = number(formula)
        self.operands = [
            tuple(numbers[id(operand)] for operand in node.operands) for node in self.nodes
        ]
        self.tables = tables(self.nodes, self.operands, trace, Range(first, last))

    def prove(self, position: int) -> Proof | None:
        """Return a smallest proof that the formula holds or fails at a position.

        Finds the needed steps from the formula down, and builds the proof from the atoms up.

        Returns:
            The proof, or None if the trace does not decide the formula there.
        """
        if self.tables[-1].size(position) == 0:
            return None
        built: list[_Built] = []
        for this, steps in enumerate(self.needed_steps(position)):
            proofs = _Built(list(steps))
            built.append(proofs)
            for where, step in steps.items():
                proofs.put(where, self.built(this, where, step, built))
        return built[-1].at(position)

    def needed_steps(self, position: int) -> list[dict[int | None, _Step]]:
        """Return for each subformula the rule at each position where the proof needs it."""
        needed = [_Needed() for _ in self.nodes]
        needed[-1].add(position, position)
        steps: list[dict[int | None, _Step]] = [{} for _ in self.nodes]
        for this in range(len(self.nodes) - 1, -1, -1):
            for where in needed[this].positions():
                step = steps[this][where] = self.step(this, where)
                for operand, at in step.premises:
                    if at is None:
                        needed[operand].everywhere = True
                    else:
                        needed[operand].add(at, at)
                if step.run is not None:
                    operand, first, last = step.run
                    needed[operand].add(first, last)
        return steps

    def built(self, this: int, where: int | None, step: _Step, built: Sequence[_Built]) -> Proof:
        size = self.tables[this].size(where)
        premises = tuple(built[operand].at(at) for operand, at in step.premises)
        run: Run | tuple[()] = ()
        if step.run is not None:
            operand, first, last = step.run
            run = built[operand].run(first, last)
        return Proof(
            self.nodes[this], where, size > 0, step.rule, self.trace, premises, run, abs(size)
        )

    def step(self, this: int, where: int | None) -> _Step:
        """Choose the rule that gives the least size."""
        node = self.nodes[this]
        if not node.operands:
            return _Step(Rule.ATOM if node.operator is ops.ATOM else Rule.CONSTANT)
        if node.interval is None:
            return _Step(Rule.BOOLEAN, self.settling_operands(this, where))
        if where is None:
            return self.everywhere(this, node.interval)
        if node.operator in (ops.PREVIOUS, ops.NEXT):
            return self.neighbour(this, where, node.interval)
        table = self.tables[this]
        choice = table.choices[where - table.first]
        if choice == EVERYWHERE:
            return self.everywhere(this, node.interval)
        if choice == WINDOW:
            operand = self.operands[this][0 if node.operator is ops.WEAK_UNTIL else -1]
            return _Step(Rule.WINDOW, (), (operand, *self.window(this, where)))
        if (table.size(where) > 0) is (node.operator not in UNIVERSAL):
            return self.witness(this, where, choice)
        return self.cut(this, where, choice)

    def settling_operands(self, this: int, where: int | None) -> tuple[tuple[int, int | None], ...]:
        operands = self.operands[this]
        sizes = [self.tables[operand].size(where) for operand in operands]
        operator = self.nodes[this].operator
        chosen = operands
        if operator in AND_SIGNS:
            signs = AND_SIGNS[operator][1:]
            left, right = (size * sign for size, sign in zip(sizes, signs, strict=True))
            if left < 0 and (right >= 0 or left >= right):
                chosen = operands[:1]
            elif right < 0:
                chosen = operands[1:]
        return tuple((operand, where) for operand in chosen)

    def everywhere(self, this: int, interval: Interval) -> _Step:
        operands = self.operands[this]
        size = self.tables[this].everywhere
        for premises, value in everywhere_options(self.nodes[this].operator, interval):
            sizes = [self.tables[operands[k]].everywhere * sign for k, sign in premises]
            if min(sizes) > 0 and value * (1 + sum(sizes)) == size:
                return _Step(Rule.EVERYWHERE, tuple((operands[k], None) for k, _ in premises))
        raise AssertionError("a size without a rule")

    def neighbour(self, this: int, where: int, interval: Interval) -> _Step:
        neighbour = where + (-1 if self.nodes[this].operator.is_past else 1)
        times = self.trace.time_stamps
        if not 0 <= neighbour < len(times):
            if self.tables[this].size(where) != -1:
                return self.everywhere(this, interval)
            is_none = neighbour < 0 or self.trace.is_closed
            return _Step(Rule.NO_NEIGHBOUR if is_none else Rule.OUTSIDE)
        if abs(times[neighbour] - times[where]) not in interval:
            return _Step(Rule.OUTSIDE)
        operand = self.operands[this][0]
        if self.tables[operand].size(neighbour) == 0:
            return self.everywhere(this, interval)
        return _Step(Rule.NEIGHBOUR, ((operand, neighbour),))

    def window(self, this: int, where: int) -> tuple[int, int]:
        """Find the first and the last time-point at a distance in the interval."""
        node, times = self.nodes[this], self.trace.time_stamps
        assert node.interval is not None
        now, lower, upper = times[where], node.interval.lower, node.interval.upper
        if node.operator.is_past:
            first = 0 if upper is None else bisect_left(times, now - upper, hi=where)
            return first, bisect_right(times, now - lower, hi=where + 1) - 1
        last = len(times) if upper is None else bisect_right(times, now + upper, lo=where)
        return bisect_left(times, now + lower, lo=where), last - 1

    def witness(self, this: int, where: int, witness: int) -> _Step:
        operands = self.operands[this]
        is_past = self.nodes[this].operator.is_past
        between = (witness + 1, where) if is_past else (where, witness - 1)
        if len(operands) == 1:
            return _Step(Rule.WITNESS, ((operands[0], witness),))
        if self.nodes[this].operator is ops.WEAK_UNTIL:
            premises = ((operands[0], witness), (operands[1], witness))
            return _Step(Rule.WITNESS, premises, (operands[1], *between))
        return _Step(Rule.WITNESS, ((operands[1], witness),), (operands[0], *between))

    def cut(self, this: int, where: int, cut: int) -> _Step:
        operator = self.nodes[this].operator
        first, last = self.window(this, where)
        left, right = self.operands[this]
        if operator is ops.WEAK_UNTIL:
            return _Step(Rule.CUT, ((right, cut),), (left, first, min(last, cut - 1)))
        if operator.is_past:
            return _Step(Rule.CUT, ((left, cut),), (right, max(first, cut), last))
        return _Step(Rule.CUT, ((left, cut),), (right, first, min(last, cut)))
