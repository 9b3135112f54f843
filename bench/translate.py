"""Formulas in the syntaxes of other monitors.

reelay: https://github.com/doganulus/reelay (Rye expressions, past operators over discrete time);
rtamt: https://github.com/nickovic/rtamt (signal temporal logic). Both read `a:b` as the closed
interval of mtlmon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from mtlmon import Formula
    from mtlmon.syntax.interval import Interval
    from mtlmon.syntax.operators import Operator

    Words = dict[Operator, str]

_BOOLEAN: Words = {ops.NOT: "not", ops.AND: "and", ops.OR: "or"}
_PAST: Words = {ops.ONCE: "once", ops.HISTORICALLY: "historically", ops.SINCE: "since"}

_REELAY: Words = {**_BOOLEAN, **_PAST, ops.IMPLIES: "->"}
_RTAMT: Words = {
    **_BOOLEAN,
    **_PAST,
    ops.IMPLIES: "implies",
    ops.IFF: "iff",
    ops.EVENTUALLY: "eventually",
    ops.ALWAYS: "always",
    ops.UNTIL: "until",
}


class UntranslatableError(Exception):
    """The other monitor has no such operator."""


def to_reelay(formula: Formula) -> str:
    """The formula as a Rye expression.

    Raises UntranslatableError for operators that reelay lacks, future ones above all.
    """
    return _translated(formula, _REELAY, "{{{}}}", infinity="", what="reelay")


def to_rtamt(formula: Formula) -> str:
    """The formula in signal temporal logic: an atom is a signal, true where it is positive.

    Signals have names of their own (`rtamt_signal`), since units such as `s` are reserved words.

    Raises UntranslatableError for operators that rtamt lacks, among them those with a lower and no
    upper bound.
    """
    return _translated(formula, _RTAMT, rtamt_signal("{}"), infinity=None, what="rtamt")


def rtamt_signal(atom: str) -> str:
    """The name of the signal of an atom."""
    return f"atom_{atom}"


def _translated(
    formula: Formula, words: Words, atom: str, *, infinity: str | None, what: str
) -> str:
    texts: dict[int, str] = {}
    for node in postorder(formula):
        operands = [texts[id(operand)] for operand in node.operands]
        if node.operator is ops.ATOM:
            assert node.name is not None
            texts[id(node)] = atom.format(node.name)
            continue
        if node.operator not in words:
            raise UntranslatableError(f"{what} has no operator {node.operator.word}")
        word = words[node.operator] + _interval(node.interval, infinity, what)
        inner = f"{operands[0]} {word} {operands[1]}" if len(operands) == 2 else word + operands[0]
        texts[id(node)] = f"({inner})" if len(operands) == 2 else f"({word}({operands[0]}))"
    return texts[id(formula)]


def _interval(interval: Interval | None, infinity: str | None, what: str) -> str:
    if interval is None or (interval.lower == 0 and interval.upper is None):
        return ""
    if interval.upper is not None:
        return f"[{interval.lower}:{interval.upper}]"
    if infinity is None:
        raise UntranslatableError(f"{what} has no intervals without end, such as {interval}")
    return f"[{interval.lower}:{infinity}]"
