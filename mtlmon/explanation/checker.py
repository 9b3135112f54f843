"""Checks proofs against the meaning of the operators, rule by rule.

The checker shares no code with the prover: it applies the definitions of the operators and looks at
the trace one time-point at a time. If you trust this file, you need not trust the prover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import ExplanationError
from mtlmon.explanation.proof import Proof, Rule
from mtlmon.syntax import operators as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtlmon.explanation.trace import Trace
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval

__all__ = ["ProofError", "check", "check_step"]


class ProofError(ExplanationError):
    """A proof is wrong.

    Attributes:
        proof: the part that is wrong.
    """

    def __init__(self, proof: Proof, message: str) -> None:
        self.proof = proof
        super().__init__(f"{proof!r} by {proof.rule.value}: {message}")


def check(proof: Proof, formula: Formula, trace: Trace, position: int) -> None:
    """Check that a proof proves the formula, or its negation, at a position of the trace.

    The running time is linear in the number of links between distinct proofs.

    Raises:
        ProofError: it does not, or a size in it is wrong.
    """
    if proof.formula != formula or proof.position != position:
        raise ProofError(proof, "it is about something else")
    checked: set[int] = set()
    stack = [proof]
    while stack:
        node = stack.pop()
        if id(node) in checked:
            continue
        # Parts are about operands, so no proof can be a part of itself.
        checked.add(id(node))
        _require(node, node.trace is trace, "its trace is another one")
        check_step(node)
        stack.extend((*node.premises, *node.run))


def check_step(proof: Proof) -> None:
    """Check that the conclusion follows from the premises and the run by the rule.

    The parts themselves are not checked.

    Raises:
        ProofError: the conclusion does not follow, or the size is wrong.
    """
    if proof.position is not None:
        _require(proof, 0 <= proof.position < len(proof.trace), "no such time-point in the trace")
    _RULES[proof.rule](proof)
    size = 1 + sum(part.size for part in (*proof.premises, *proof.run))
    _require(proof, proof.size == size, f"its size is {size}")


def _require(proof: Proof, condition: bool, message: str) -> None:
    if not condition:
        raise ProofError(proof, message)


def _expect(
    proof: Proof,
    premises: Iterable[tuple[Formula, int | None, bool]],
    run: Iterable[tuple[Formula, int | None, bool]] = (),
) -> None:
    """Require that the premises and the run prove exactly these statements."""
    for found, expected in (proof.premises, premises), (proof.run, run):
        wanted = list(expected)
        _require(proof, len(found) == len(wanted), f"it needs {len(wanted)} parts here")
        for part, (formula, position, value) in zip(found, wanted, strict=True):
            is_wanted = (
                part.position == position and part.value is value and part.formula == formula
            )
            _require(proof, is_wanted, f"a part is {part!r}, wanted at position {position}")


def _constant(proof: Proof) -> None:
    constants = {ops.TRUE: True, ops.FALSE: False}
    _require(proof, constants.get(proof.formula.operator) is proof.value, "no such constant")
    _expect(proof, ())


def _atom(proof: Proof) -> None:
    name, position = proof.formula.name, proof.position
    _require(proof, name is not None and position is not None, "no atom of an event")
    assert name is not None and position is not None
    _require(proof, (name in proof.trace.letters[position]) is proof.value, "the event differs")
    _expect(proof, ())


def _boolean(proof: Proof) -> None:
    """Check that the values of the given operands decide the operator."""
    operator, operands = proof.formula.operator, proof.formula.operands
    given = [(part.formula, part.value) for part in proof.premises]
    whether = proof.value
    if operator is ops.NOT:
        options = [[(operands[0], not whether)]]
    elif operator is ops.AND:
        both = [(operands[0], True), (operands[1], True)]
        options = [both] if whether else [[(operand, False)] for operand in operands]
    elif operator is ops.OR:
        neither = [(operands[0], False), (operands[1], False)]
        options = [[(operand, True)] for operand in operands] if whether else [neither]
    elif operator is ops.IMPLIES:
        broken = [(operands[0], True), (operands[1], False)]
        options = [[(operands[0], False)], [(operands[1], True)]] if whether else [broken]
    elif operator is ops.IFF:
        options = [[(operands[0], v), (operands[1], v is whether)] for v in (True, False)]
    else:
        raise ProofError(proof, "no Boolean operator")
    _require(proof, given in options, "these operands do not settle it")
    _expect(proof, ((operand, proof.position, value) for operand, value in given))


def _interval(proof: Proof, *operators: ops.Operator) -> Interval:
    interval = proof.formula.interval
    fits = interval is not None and (not operators or proof.formula.operator in operators)
    _require(proof, fits, "not a rule of this operator")
    assert interval is not None
    return interval


def _where(proof: Proof) -> int:
    _require(proof, proof.position is not None, "a rule for a time-point of the trace")
    assert proof.position is not None
    return proof.position


def _no_neighbour(proof: Proof) -> None:
    _interval(proof, ops.PREVIOUS, ops.NEXT)
    position = _where(proof)
    if proof.formula.operator is ops.PREVIOUS:
        is_none = position == 0 and not proof.trace.is_cut
    else:
        is_none = position == len(proof.trace) - 1 and proof.trace.is_closed
    _require(proof, is_none and not proof.value, "there is, or may be, a neighbour")
    _expect(proof, ())


def _outside(proof: Proof) -> None:
    interval = _interval(proof, ops.PREVIOUS, ops.NEXT)
    position = _where(proof)
    times = proof.trace.time_stamps
    if proof.formula.operator is ops.PREVIOUS:
        is_outside = position > 0 and times[position] - times[position - 1] not in interval
    elif position + 1 < len(times):
        is_outside = times[position + 1] - times[position] not in interval
    else:
        is_outside = not _may_follow(proof, interval)
    _require(proof, is_outside and not proof.value, "the neighbour is, or may be, within")
    _expect(proof, ())


def _neighbour(proof: Proof) -> None:
    interval = _interval(proof, ops.PREVIOUS, ops.NEXT)
    position = _where(proof)
    times = proof.trace.time_stamps
    neighbour = position - 1 if proof.formula.operator is ops.PREVIOUS else position + 1
    _require(proof, 0 <= neighbour < len(times), "there is no neighbour")
    if proof.value:
        _require(proof, abs(times[neighbour] - times[position]) in interval, "not within")
    _expect(proof, [(proof.formula.operands[0], neighbour, proof.value)])


def _may_follow(proof: Proof, interval: Interval) -> bool:
    """Whether an event after the trace can lie within the interval ahead."""
    trace, position = proof.trace, _where(proof)
    if trace.is_closed:
        return False
    return interval.upper is None or trace.clock <= trace.time_stamps[position] + interval.upper


_EXISTENTIAL = (ops.ONCE, ops.EVENTUALLY, ops.SINCE, ops.UNTIL)
_UNIVERSAL = (ops.HISTORICALLY, ops.ALWAYS, ops.TRIGGER, ops.RELEASE, ops.WEAK_UNTIL)
_TEMPORAL = (*_EXISTENTIAL, *_UNIVERSAL)


def _side(proof: Proof) -> range:
    """The time-points of the trace in the direction that the operator looks, nearest first."""
    position = _where(proof)
    if proof.formula.operator.is_past:
        return range(position, -1, -1)
    return range(position, len(proof.trace))


def _within(proof: Proof, positions: Iterable[int]) -> list[int]:
    """Select the positions at a distance in the interval.

    Takes positions with the nearest first, and returns them in order of time.
    """
    interval, times = _interval(proof), proof.trace.time_stamps
    now = times[_where(proof)]
    found = []
    for k in positions:
        distance = abs(times[k] - now)
        if interval.upper is not None and distance > interval.upper:
            break
        if distance >= interval.lower:
            found.append(k)
    return sorted(found)


def _after(proof: Proof, position: int) -> list[int]:
    """The positions between the given one and the proof's, including the latter, nearest first."""
    here = _where(proof)
    past = proof.formula.operator.is_past
    return list(range(here, position, -1) if past else range(here, position))


def _has_witness_value(proof: Proof) -> bool:
    """Whether the proof has the value that a single witness gives its operator."""
    return proof.value is (proof.formula.operator in _EXISTENTIAL)


def _witness(proof: Proof) -> None:
    _interval(proof, *_TEMPORAL)
    _require(proof, _has_witness_value(proof), "no single time-point settles it so")
    _require(proof, bool(proof.premises), "it needs a witness")
    witness, value = proof.premises[0].position, proof.value
    _require(proof, witness is not None and witness in _side(proof), "witness on no such side")
    assert witness is not None
    _require(proof, _within(proof, [witness]) == [witness], "witness outside the interval")
    operands = proof.formula.operands
    if len(operands) == 1:
        _expect(proof, [(operands[0], witness, value)])
        return
    left, right = operands
    chain = left
    premises = [(right, witness, value)]
    if proof.formula.operator is ops.WEAK_UNTIL:
        # f or g fails at the witness, and g fails before it
        premises = [(left, witness, value), (right, witness, value)]
        chain = right
    _expect(proof, premises, ((chain, k, value) for k in sorted(_after(proof, witness))))


def _window(proof: Proof) -> None:
    interval = _interval(proof, *_TEMPORAL)
    _require(proof, not _has_witness_value(proof), "one more time-point could settle it")
    operands = proof.formula.operands
    operand = operands[0] if proof.formula.operator is ops.WEAK_UNTIL else operands[-1]
    if proof.formula.operator.is_future:
        _require(proof, not _may_follow(proof, interval), "more events may lie within")
    positions = _within(proof, _side(proof))
    _expect(proof, (), ((operand, k, proof.value) for k in positions))


def _cut(proof: Proof) -> None:
    _interval(proof, ops.SINCE, ops.UNTIL, ops.TRIGGER, ops.RELEASE, ops.WEAK_UNTIL)
    _require(proof, not _has_witness_value(proof), "a cut cannot settle it so")
    _require(proof, bool(proof.premises), "it needs a cut")
    left, right = proof.formula.operands
    cut, value = proof.premises[0].position, proof.value
    _require(proof, cut is not None and cut in _side(proof), "cut on no such side")
    assert cut is not None
    before = _after(proof, cut)
    if proof.formula.operator is ops.WEAK_UNTIL:
        # g releases f from its own time-point on
        run = [(left, k, value) for k in _within(proof, before)]
        _expect(proof, [(right, cut, value)], run)
    else:
        # no witness can lie beyond the cut, but the cut itself can be one
        run = [(right, k, value) for k in _within(proof, [*before, cut])]
        _expect(proof, [(left, cut, value)], run)


def _everywhere(proof: Proof) -> None:
    """Check that the operands, constant at every time-point, decide the operator there."""
    interval = _interval(proof)
    operator, operands, value = proof.formula.operator, proof.formula.operands, proof.value
    given = [(part.formula, part.value) for part in proof.premises]
    if operator in (ops.PREVIOUS, ops.NEXT):
        # there may be no neighbour, so only failing is certain
        allowed = [] if value else [[(operands[0], False)]]
    elif operator is ops.WEAK_UNTIL:
        allowed = [[(operand, True)] for operand in operands]
        if not value:
            allowed = [[(operand, False) for operand in operands]] if 0 in interval else []
    elif not _has_witness_value(proof):
        # no time-point is a witness, except perhaps the present one, outside the interval
        allowed = [[(operands[-1], value)]]
        if 0 not in interval:
            allowed += [[(operand, value)] for operand in operands[:-1]]
    else:
        # the present time-point is a witness
        allowed = [[(operands[-1], value)]] if 0 in interval else []
    _require(proof, given in allowed, "these operands do not settle it everywhere")
    _expect(proof, ((operand, None, value) for operand, value in given))


_RULES: dict[Rule, Callable[[Proof], None]] = {
    Rule.CONSTANT: _constant,
    Rule.ATOM: _atom,
    Rule.BOOLEAN: _boolean,
    Rule.NO_NEIGHBOUR: _no_neighbour,
    Rule.OUTSIDE: _outside,
    Rule.NEIGHBOUR: _neighbour,
    Rule.WITNESS: _witness,
    Rule.WINDOW: _window,
    Rule.CUT: _cut,
    Rule.EVERYWHERE: _everywhere,
}
