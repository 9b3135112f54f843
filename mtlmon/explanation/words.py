"""Puts proofs into words: the reason for a step, and formulas short enough to read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mtlmon.analysis.describe import distance_words
from mtlmon.errors import MtlmonError
from mtlmon.explanation.proof import Rule
from mtlmon.explanation.trace import Wording
from mtlmon.policy.predicates.operators import COMPARISON
from mtlmon.policy.predicates.printer import condition_of
from mtlmon.policy.predicates.printer import to_text as expression_text
from mtlmon.syntax import operators as ops
from mtlmon.syntax.durations import elapsed_text, interval_text
from mtlmon.syntax.formula import Formula, atom
from mtlmon.syntax.lexer import is_plain_atom
from mtlmon.syntax.parser import parse
from mtlmon.syntax.printer import atom_text, to_text
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.rewrite import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.explanation.outline import Entry
    from mtlmon.explanation.proof import Proof
    from mtlmon.explanation.trace import Trace

__all__ = [
    "distance",
    "distinct_labels",
    "entry_words",
    "formula_text",
    "point_text",
    "reason",
    "signed_distance",
    "verdict_text",
    "whole_text",
]

_NODE_LIMIT = 400
# Reasons name operands by their text up to this width.
_NAME_WIDTH = 20
_ELLIPSIS = "…"


def point_text(trace: Trace, position: int | None) -> str:
    """Return the name of a time-point, or "everywhere"."""
    return "everywhere" if position is None else "{}:{}".format(*trace.name(position))


def verdict_text(proof: Proof) -> str:
    """Return what is proved, as in `20:0 violates`."""
    where = point_text(proof.trace, proof.position)
    return f"{where} {'satisfies' if proof.value else 'violates'}"


def formula_text(formula: Formula, width: int, wording: Wording) -> str:
    """Write a formula in at most `width` characters.

    For a formula with very many nodes, where shared nodes count each time, only the operator is
    shown.

    Args:
        formula: the formula.
        width: the number of characters, at most.
        wording: how it is written.
    """
    if _is_large(formula):
        operands = (atom(_ELLIPSIS),) * formula.operator.arity
        brief = Formula(formula.operator, operands, formula.interval)
        return shorten(
            to_text(brief, unit=wording.unit).replace(f'"{_ELLIPSIS}"', _ELLIPSIS), width
        )
    return shorten(whole_text(formula, wording), width)


def distinct_labels(formulas: Sequence[Formula], width: int, wording: Wording) -> list[str]:
    """Write formulas in at most `width` characters each, in more if some would look the same.

    Args:
        formulas: the formulas.
        width: the number of characters, if that is enough.
        wording: how they are written.
    """
    labels: list[str] = []
    for room in range(width, 2 * width + 1, 4):
        labels = [formula_text(formula, room, wording) for formula in formulas]
        if len(set(labels)) == len(set(formulas)):
            break
    return labels


def whole_text(formula: Formula, wording: Wording) -> str:
    """The whole text of a formula; conditions in it are as in a policy file."""
    if wording.names:
        formula = replaced(formula, {part: atom(name) for part, name in wording.names.items()})
    atoms = partial(_atom_text, unit=wording.unit)
    return visible(to_text(formula, unit=wording.unit, atoms=atoms))


def _atom_text(name: str, unit: str | None) -> str:
    """Write an atom of a formula, a condition as it is in a policy file.

    Policies with messages have atoms that are formulas.
    """
    if is_plain_atom(name):
        return name
    condition = condition_of(name)
    if condition is None:
        try:
            formula = parse(name, unit=unit)
        except MtlmonError:
            return atom_text(name)
        text = whole_text(formula, Wording(unit))
        return f"({text})" if formula.operands else atom_text(name)
    text = expression_text(condition, unit)
    return f"({text})" if condition.operator.binding < COMPARISON else text


def _is_large(formula: Formula) -> bool:
    stack, count = [formula], 0
    while stack and count <= _NODE_LIMIT:
        count += 1
        stack.extend(stack.pop().operands)
    return bool(stack)


def distance(trace: Trace, here: int, there: int) -> str:
    """Return how far one time-point is from another, as in `5 ahead`."""
    difference = trace.time_stamps[there] - trace.time_stamps[here]
    if difference == 0:
        return "same time-stamp"
    length = elapsed_text(abs(difference), trace.unit)
    return f"{length} {'ahead' if difference > 0 else 'back'}"


def signed_distance(proof: Proof, position: int | None) -> str:
    """Return how far a time-point is from the proof's own, as in `+5`."""
    if position is None or proof.position is None:
        return ""
    times = proof.trace.time_stamps
    difference = times[position] - times[proof.position]
    length = elapsed_text(abs(difference), proof.trace.unit)
    return f"{'-' if difference < 0 else '+'}{length}" if difference else "0"


def entry_words(entry: Entry) -> tuple[str, str]:
    """Return what to write before and after an entry's formula: its time-points, and the reason."""
    first, last = entry.proofs[0], entry.proofs[-1]
    where = point_text(first.trace, first.position)
    if last is not first:
        where += f" to {point_text(last.trace, last.position)} ({len(entry.proofs):,} time-points)"
    if entry.remark:
        return where, f" ({entry.remark})"
    why = reason(first) if last is first else ""
    return where, f": {why}" if why else ""


def reason(proof: Proof) -> str:
    """Say in a few words why the premises imply the conclusion; "" where that is obvious."""
    return _REASONS[proof.rule](proof)


def _boolean(proof: Proof) -> str:
    operator, operands = proof.formula.operator, proof.formula.operands
    if operator is ops.NOT:
        return f"{_negated(proof, operands[0])}, so the negation {_verb(proof.value)}"
    values = [part.value for part in proof.premises]
    if len(values) == 2:
        left, right = _side(proof, 0), _side(proof, 1)
        if values[0] != values[1]:
            verbs = ("holds", "does not") if values[0] else ("does not hold", "does")
            return f"{left} {verbs[0]}, but {right} {verbs[1]}"
        return f"{left} and {right} both hold" if values[0] else f"neither {left} nor {right} holds"
    # If the operands are equal, name the left one.
    side = 0 if proof.premises[0].formula == operands[0] else 1
    return f"{_side(proof, side)} {'holds' if values[0] else 'does not hold'}"


def _negated(proof: Proof, operand: Formula) -> str:
    """Say that the operand of a negation holds, or fails."""
    wording, value = proof.trace.wording, not proof.value
    if value and operand.operator is ops.AND:
        names = [_name(part, wording) for part in operand.operands]
        if None not in names:
            return f"{names[0]} and {names[1]} hold"
    return f"{_name(operand, wording) or 'the negated formula'} {_verb(value)}"


def _verb(value: bool) -> str:
    return "holds" if value else "fails"


def _name(formula: Formula, wording: Wording) -> str | None:
    """The text of the formula for use in a sentence, or None if it is too long."""
    if _is_large(formula):
        return None
    text = whole_text(formula, wording)
    if formula.operator.arity == 2 and formula not in wording.names:
        text = f"({text})"
    return text if len(text) <= _NAME_WIDTH else None


def _side(proof: Proof, number: int) -> str:
    """Name an operand of a binary operator: by its text, or as the left or the right side."""
    name = _name(proof.formula.operands[number], proof.trace.wording)
    return name or ("the left side", "the right side")[number]


def _operand(proof: Proof) -> str:
    """Name the operand of a unary operator."""
    return _name(proof.formula.operands[0], proof.trace.wording) or "it"


def _no_neighbour(proof: Proof) -> str:
    if proof.formula.operator is ops.PREVIOUS:
        return "there is no time-point before"
    return "no time-point follows"


def _outside(proof: Proof) -> str:
    assert proof.position is not None
    is_past = proof.formula.operator.is_past
    neighbour = proof.position + (-1 if is_past else 1)
    assert proof.formula.interval is not None
    interval = interval_text(proof.formula.interval, proof.trace.unit)
    if neighbour < len(proof.trace):
        how_far = distance(proof.trace, proof.position, neighbour)
        if how_far == "same time-stamp":
            how_far = "at the same time-stamp"
        point = point_text(proof.trace, neighbour)
        which = "previous" if is_past else "next"
        return f"the {which} time-point, {point}, is {how_far}, not within {interval}"
    return f"no time-point follows within {interval}"


def _neighbour(proof: Proof) -> str:
    assert proof.position is not None
    (part,) = proof.premises
    assert part.position is not None
    which = "previous" if proof.formula.operator.is_past else "next"
    how_far = distance(proof.trace, proof.position, part.position)
    verb = _verb(part.value)
    return f"{_operand(proof)} {verb} at the {which} time-point, {_at(proof, part)} ({how_far})"


def _at(proof: Proof, part: Proof) -> str:
    return point_text(proof.trace, part.position)


_WITNESSES = {
    ops.SINCE: ("{right} holds at {point} ({how_far})", "and {left} ever since"),
    ops.UNTIL: ("{right} holds at {point} ({how_far})", "and {left} until then"),
    ops.TRIGGER: ("{right} fails at {point} ({how_far})", "and {left} has not held since"),
    ops.RELEASE: ("{right} fails at {point} ({how_far})", "and {left} did not hold before"),
    ops.WEAK_UNTIL: ("{left} fails at {point} ({how_far})", "and {right} did not hold up to then"),
}


def _witness(proof: Proof) -> str:
    assert proof.position is not None
    witness = proof.premises[0]
    assert witness.position is not None
    how_far = distance(proof.trace, proof.position, witness.position)
    point = _at(proof, witness)
    operator = proof.formula.operator
    if operator.arity == 1:
        return f"{_operand(proof)} {_verb(witness.value)} at {point} ({how_far})"
    first, second = _WITNESSES[operator]
    # Without a run there are no time-points that the second part could be about.
    words = f"{first}, {second}" if proof.run or operator is ops.WEAK_UNTIL else first
    return _filled(words, proof, point=point, how_far=how_far)


def _window(proof: Proof) -> str:
    interval, operator = proof.formula.interval, proof.formula.operator
    assert interval is not None
    when = distance_words(interval, operator.is_past, proof.trace.unit, is_brief=True)
    if not proof.run:
        return f"there is no time-point {when}"
    if operator.arity == 1:
        side = _operand(proof)
    else:
        side = _side(proof, 0 if operator is ops.WEAK_UNTIL else 1)
    return f"{side} {_verb(proof.value)} at every time-point {when}"


_CUTS = {
    ops.SINCE: ("{left} fails at {point}", "and {right} from then on"),
    ops.UNTIL: ("{left} fails at {point}", "and {right} up to then"),
    ops.TRIGGER: ("{left} holds at {point}", "and {right} from then on"),
    ops.RELEASE: ("{left} holds at {point}", "and {right} up to then"),
    ops.WEAK_UNTIL: ("{right} holds at {point}", "and {left} before"),
}


def _cut(proof: Proof) -> str:
    first, second = _CUTS[proof.formula.operator]
    words = f"{first}, {second}" if proof.run else first
    return _filled(words, proof, point=_at(proof, proof.premises[0]))


def _filled(words: str, proof: Proof, **values: str) -> str:
    return words.format(left=_side(proof, 0), right=_side(proof, 1), **values)


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
