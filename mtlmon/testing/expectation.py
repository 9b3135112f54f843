"""Says what a violated formula expected, as a sentence about time-stamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.operators import Operator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.explanation.trace import Wording

__all__ = ["expectation"]

# {0} and {1} are the operands, {range} the time-stamps that the interval allows.
_SENTENCES: dict[Operator, str] = {
    ops.PREVIOUS: "{0} at the time-point before, {range}",
    ops.ONCE: "{0} at some time-point {range}",
    ops.HISTORICALLY: "{0} at every time-point {range}",
    ops.SINCE: "{1} at some time-point {range}, and {0} ever since",
    ops.TRIGGER: "{1} at every time-point {range} that no {0} followed",
    ops.NEXT: "{0} at the next time-point, {range}",
    ops.EVENTUALLY: "{0} at some time-point {range}",
    ops.ALWAYS: "{0} at every time-point {range}",
    ops.UNTIL: "{1} at some time-point {range}, and {0} until then",
    ops.RELEASE: "{1} at every time-point {range} that no {0} preceded",
    ops.WEAK_UNTIL: "{0} until {1}, or at every time-point {range}",
}

_NEGATED: dict[Operator, str] = {
    ops.ONCE: "{0} at no time-point {range}",
    ops.EVENTUALLY: "{0} at no time-point {range}",
}


def expectation(
    formula: Formula,
    time_point: tuple[int, int],
    unit: str | None = None,
    names: Mapping[Formula, str] | None = None,
) -> str:
    """Say in one line what the formula expected at a time-point that violates it.

    For implications, the sentence says what was expected on the right, and that the left holds.

    Args:
        formula: the violated formula.
        time_point: the time-stamp and the offset of the time-point.
        unit: the unit of the time-stamps, if it is known.
        names: the names of subformulas, which are written instead of them.

    >>> from mtlmon import parse
    >>> expectation(parse("request IMPLIES EVENTUALLY[0,5] response"), (3, 0))
    'response at some time-point from 3 to 8, because request holds at 3:0'
    """
    # explanations are loaded for failures only
    from mtlmon.explanation.trace import Wording

    wording = Wording(unit, names or {})
    time_stamp, offset = time_point
    reasons: list[str] = []
    while formula.operator is ops.IMPLIES:
        reasons.append(_operand(formula.operands[0], wording))
        formula = formula.operands[1]
    # The formula that the sentence is about, and the sentence.
    subject, sentence = formula, _SENTENCES.get(formula.operator)
    if formula.operator is ops.NOT:
        subject = formula.operands[0]
        sentence = _NEGATED.get(subject.operator)
    if sentence is None:
        expected = f"{_text(formula, wording)} at {time_stamp}:{offset}"
    else:
        when = _range(subject, time_stamp, "" if unit is None else f" {unit}")
        operands = (_operand(operand, wording) for operand in subject.operands)
        expected = sentence.format(*operands, range=when)
    if not reasons:
        return expected
    verb = "holds" if len(reasons) == 1 else "hold"
    return f"{expected}, because {' and '.join(reasons)} {verb} at {time_stamp}:{offset}"


def _operand(formula: Formula, wording: Wording) -> str:
    # Put everything except atoms and negated atoms into parentheses.
    innermost = formula.operands[0] if formula.operator is ops.NOT else formula
    text = _text(formula, wording)
    is_name = formula in wording.names or not innermost.operands
    return text if is_name else f"({text})"


def _text(formula: Formula, wording: Wording) -> str:
    from mtlmon.explanation.words import whole_text

    return whole_text(formula, wording)


def _range(formula: Formula, time_stamp: int, unit: str) -> str:
    interval = formula.interval
    if interval is None:
        return ""
    lower, upper = interval.lower, interval.upper
    if formula.operator.is_past:
        if lower > time_stamp:
            return f"{lower}{unit} or more back, before time began"
        last = time_stamp - lower
        if upper is None or upper >= time_stamp:
            return f"up to {last}{unit}"
        first = time_stamp - upper
    else:
        first = time_stamp + lower
        if upper is None:
            return f"from {first}{unit} on"
        last = time_stamp + upper
    return f"at {first}{unit}" if first == last else f"from {first} to {last}{unit}"
