"""The normal form in which first-order formulas are analysed.

Implications, equivalences and FORALL are rewritten, and negations pushed in: through AND, OR, NOT,
HISTORICALLY and ALWAYS. A negation is never pushed into a comparison, as terms may have no value;
only NOT of one with a COUNT may become another one, which binds its groups.
"""

from __future__ import annotations

from mtlmon.relational.nothing import complement
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import FALSE, TRUE, Formula

# A negation of these goes on to their operands.
_DUALS = {
    ops.AND: ops.OR,
    ops.OR: ops.AND,
    ops.HISTORICALLY: ops.ONCE,
    ops.ALWAYS: ops.EVENTUALLY,
}
_KEPT = frozenset(
    {ops.ONCE, ops.EVENTUALLY, ops.SINCE, ops.UNTIL, ops.PREVIOUS, ops.NEXT, ops.EXISTS}
)

# An operand of a formula, and whether it is wanted negated.
_Part = tuple[Formula, bool]


def normal_form(formula: Formula, *, negated: bool = False) -> Formula:
    """Return the equivalent formula, or its negation, in normal form.

    It consists of atoms, predicates, comparisons, TRUE, FALSE, NOT, AND, OR, EXISTS, ONCE,
    HISTORICALLY, EVENTUALLY, ALWAYS, PREVIOUS, NEXT, SINCE and UNTIL. NOT stands before none of
    NOT, AND, OR, HISTORICALLY and ALWAYS. Formulas of aggregates are left as they are. Spans are
    those of what was written.
    """
    done: dict[tuple[int, bool], Formula] = {}
    stack: list[_Part] = [(formula, negated)]
    while stack:
        node, is_negated = stack[-1]
        if (id(node), is_negated) in done:
            stack.pop()
            continue
        parts = _parts(node, negated=is_negated)
        missing = [part for part in parts if (id(part[0]), part[1]) not in done]
        if missing:
            stack += missing
            continue
        stack.pop()
        operands = [done[id(part), sign] for part, sign in parts]
        done[id(node), is_negated] = _assembled(node, operands, negated=is_negated)
    return done[id(formula), negated]


def _parts(node: Formula, *, negated: bool) -> list[_Part]:
    """The operands that are needed in normal form."""
    operator, operands = node.operator, node.operands
    if operator is ops.NOT:
        return [(operands[0], not negated)]
    if operator in _DUALS:
        return [(operand, negated) for operand in operands]
    if operator is ops.IMPLIES:
        return [(operands[0], not negated), (operands[1], negated)]
    if operator is ops.IFF:
        return [(operand, sign) for sign in (False, True) for operand in operands]
    if operator in _KEPT:
        return [(operand, False) for operand in operands]
    if operator in (ops.FORALL, ops.RELEASE, ops.TRIGGER):
        return [(operand, True) for operand in operands]
    if operator is ops.WEAK_UNTIL:
        left, right = operands
        return [(left, True), (right, True)]
    return []


def _assembled(node: Formula, operands: list[Formula], *, negated: bool) -> Formula:
    """The normal form of a node from that of its parts."""
    operator, span = node.operator, node.span
    if operator is ops.NOT:
        (found,) = operands
        if negated or found.operator is not ops.NOT:
            return found
        return Formula(ops.NOT, found.operands, None, None, span)
    if operator in (ops.TRUE, ops.FALSE):
        return TRUE if (operator is ops.TRUE) is not negated else FALSE
    if operator in _DUALS:
        kept = _DUALS[operator] if negated else operator
        return Formula(kept, tuple(operands), node.interval, None, span)
    if operator is ops.IMPLIES:
        return Formula(ops.AND if negated else ops.OR, tuple(operands), None, None, span)
    if operator is ops.IFF:
        one, other, not_one, not_other = operands
        if negated:
            other, not_other = not_other, other
        both = Formula(ops.AND, (one, other), None, None, span)
        neither = Formula(ops.AND, (not_one, not_other), None, None, span)
        return Formula(ops.OR, (both, neither), None, None, span)
    found = node
    if operator in _KEPT:
        found = Formula(operator, tuple(operands), node.interval, None, span, node.value)
    elif operator is ops.FORALL:
        found = Formula(ops.EXISTS, tuple(operands), None, None, span, node.value)
        negated = not negated
    elif operator in (ops.RELEASE, ops.TRIGGER):
        binary = ops.UNTIL if operator is ops.RELEASE else ops.SINCE
        found = Formula(binary, tuple(operands), node.interval, None, span)
        negated = not negated
    elif operator is ops.WEAK_UNTIL:
        # g RELEASE (f OR g)
        left, right = operands
        neither = Formula(ops.AND, (left, right), None, None, span)
        found = Formula(ops.UNTIL, (right, neither), node.interval, None, span)
        negated = not negated
    elif negated and operator is ops.COMPARISON and node.operands:
        complemented = complement(node)
        if complemented is not None:
            return complemented
    return Formula(ops.NOT, (found,), None, None, span) if negated else found
