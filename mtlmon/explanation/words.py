"""Proofs in words: the reason of one step, formulas short enough to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.analysis.describe import distance_words
from mtlmon.explanation.proof import Rule
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula, atom
from mtlmon.syntax.printer import to_text
from mtlmon.syntax.report import shorten, visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.explanation.outline import Entry
    from mtlmon.explanation.proof import Proof
    from mtlmon.explanation.trace import Trace

__all__ = [
    "distance",
    "entry_words",
    "formula_text",
    "point_text",
    "reason",
    "signed_distance",
    "verdict_text",
]

_NODE_LIMIT = 400
_ELLIPSIS = "…"


def point_text(trace: Trace, position: int | None) -> str:
    """The name of a time-point, or "everywhere"."""
    return "everywhere" if position is None else "{}:{}".format(*trace.name(position))


def verdict_text(proof: Proof) -> str:
    """What is proved: `20:0 violates`."""
    where = point_text(proof.trace, proof.position)
    return f"{where} {'satisfies' if proof.value else 'violates'}"


def formula_text(formula: Formula, width: int) -> str:
    """The formula in at most so many characters.

    Of a formula with very many nodes, shared ones counted each time, only the operator is shown.
    """
    if _is_large(formula):
        operands = (atom(_ELLIPSIS),) * formula.operator.arity
        brief = Formula(formula.operator, operands, formula.interval)
        return shorten(to_text(brief).replace(f'"{_ELLIPSIS}"', _ELLIPSIS), width)
    return shorten(visible(to_text(formula)), width)


def _is_large(formula: Formula) -> bool:
    stack, count = [formula], 0
    while stack and count <= _NODE_LIMIT:
        count += 1
        stack.extend(stack.pop().operands)
    return bool(stack)


def distance(trace: Trace, here: int, there: int) -> str:
    """How far a time-point is from another, as in `5 ahead`."""
    difference = trace.time_stamps[there] - trace.time_stamps[here]
    if difference == 0:
        return "same time-stamp"
    return f"{abs(difference)} {'ahead' if difference > 0 else 'back'}"


def signed_distance(proof: Proof, position: int | None) -> str:
    """The difference of a time-point's time-stamp to the proof's own, as in `+5`."""
    if position is None or proof.position is None:
        return ""
    times = proof.trace.time_stamps
    difference = times[position] - times[proof.position]
    return f"{difference:+d}" if difference else "0"


def entry_words(entry: Entry) -> tuple[str, str]:
    """Of proofs shown as one: where they are, and what follows the formula."""
    first, last = entry.proofs[0], entry.proofs[-1]
    where = point_text(first.trace, first.position)
    if last is not first:
        where += f" to {point_text(last.trace, last.position)} ({len(entry.proofs):,} time-points)"
    if entry.remark:
        return where, f" ({entry.remark})"
    why = reason(first) if last is first else ""
    return where, f": {why}" if why else ""


def reason(proof: Proof) -> str:
    """Why the premises make the conclusion, in a few words; empty where that needs none."""
    return _REASONS[proof.rule](proof)


def _boolean(proof: Proof) -> str:
    operator, operands = proof.formula.operator, proof.formula.operands
    if operator is ops.NOT:
        return f"what is negated {_verb(not proof.value)}"
    values = [_verb(part.value) for part in proof.premises]
    if len(values) == 2:
        if values[0] == values[1]:
            return f"both sides {'hold' if proof.premises[0].value else 'fail'}"
        return f"the left side {values[0]}, the right side {values[1]}"
    # The position of the operand tells the sides apart, equal operands count as the left one.
    side = "left" if proof.premises[0].formula == operands[0] else "right"
    return f"the {side} side {values[0]}"


def _verb(value: bool) -> str:
    return "holds" if value else "fails"


def _no_neighbour(proof: Proof) -> str:
    if proof.formula.operator is ops.PREVIOUS:
        return "no time-point is before"
    return "no time-point follows"


def _outside(proof: Proof) -> str:
    assert proof.position is not None
    is_past = proof.formula.operator.is_past
    neighbour = proof.position + (-1 if is_past else 1)
    interval = proof.formula.interval
    if neighbour < len(proof.trace):
        how_far = distance(proof.trace, proof.position, neighbour)
        point = point_text(proof.trace, neighbour)
        return f"the {'previous' if is_past else 'next'} time-point, {point}, is not within " + (
            f"{interval} but {how_far}"
        )
    return f"no time-point within {interval} follows"


def _neighbour(proof: Proof) -> str:
    assert proof.position is not None
    (part,) = proof.premises
    assert part.position is not None
    which = "previous" if proof.formula.operator.is_past else "next"
    how_far = distance(proof.trace, proof.position, part.position)
    return f"at the {which} time-point, {_at(proof, part)}, it {_verb(part.value)} ({how_far})"


def _at(proof: Proof, part: Proof) -> str:
    return point_text(proof.trace, part.position)


_WITNESSES = {
    ops.SINCE: "the right side holds at {point} ({how_far}), the left side {ever}",
    ops.UNTIL: "the right side holds at {point} ({how_far}), the left side {ever}",
    ops.TRIGGER: "the right side fails at {point} ({how_far}), not triggered {ever}",
    ops.RELEASE: "the right side fails at {point} ({how_far}), not released {ever}",
    ops.WEAK_UNTIL: "the left side fails at {point} ({how_far}), and the right side {ever}",
}


def _witness(proof: Proof) -> str:
    assert proof.position is not None
    witness = proof.premises[0]
    assert witness.position is not None
    how_far = distance(proof.trace, proof.position, witness.position)
    point = _at(proof, witness)
    operator = proof.formula.operator
    if operator.arity == 1:
        return f"it {_verb(witness.value)} at {point} ({how_far})"
    words = _WITNESSES[operator]
    ever = "since" if operator.is_past else "before"
    if operator in (ops.SINCE, ops.UNTIL):
        ever = "ever since" if operator.is_past else "until then"
    elif operator is ops.WEAK_UNTIL:
        ever = "up to then"
    if not proof.run and operator is not ops.WEAK_UNTIL:
        words = words.partition(", ")[0]
    return words.format(point=point, how_far=how_far, ever=ever)


def _window(proof: Proof) -> str:
    interval, operator = proof.formula.interval, proof.formula.operator
    assert interval is not None
    when = distance_words(interval, operator.is_past)
    if not proof.run:
        return f"there is no time-point {when}"
    side = {1: "it"}.get(operator.arity, "the right side")
    if operator is ops.WEAK_UNTIL:
        side = "the left side"
    return f"{side} {_verb(proof.value)} at every time-point {when}"


_CUTS = {
    ops.SINCE: ("the left side fails at {point}", "the right side from then on"),
    ops.UNTIL: ("the left side fails at {point}", "the right side up to then"),
    ops.TRIGGER: ("the left side triggers at {point}", "the right side holds from then on"),
    ops.RELEASE: ("the left side releases at {point}", "the right side holds up to then"),
    ops.WEAK_UNTIL: ("the right side holds at {point}", "the left side before"),
}


def _cut(proof: Proof) -> str:
    first, second = _CUTS[proof.formula.operator]
    words = f"{first}, {second}" if proof.run else first
    return words.format(point=_at(proof, proof.premises[0]))


_REASONS: dict[Rule, Callable[[Proof], str]] = {
    Rule.CONSTANT: lambda _: "",
    Rule.ATOM: lambda _: "",
    Rule.BOOLEAN: _boolean,
    Rule.NO_NEIGHBOUR: _no_neighbour,
    Rule.OUTSIDE: _outside,
    Rule.NEIGHBOUR: _neighbour,
    Rule.WITNESS: _witness,
    Rule.WINDOW: _window,
    Rule.CUT: _cut,
    Rule.EVERYWHERE: lambda _: "whatever happens",
}
