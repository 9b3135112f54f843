"""Finds conjunctions below ONCE that are joined when something asks, not when an event comes.

`ONCE[0,9] EXISTS m. approve(m, f) AND manages(m, u)` would copy each approval for all users of its
manager. Instead, approvals are remembered by themselves, with their time-points, and for each row
of `manages` the spans in which it held; an approval counts for a user if it came in such a span.
Lets are expanded, and all bound variables named apart, before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.first_order.terms import free_in, quantified
from mtlmon.relational.arithmetic import static_parts
from mtlmon.relational.binding import Unbound, conjuncts
from mtlmon.relational.normal import normal_form
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from mtlmon.relational.binding import BindingAnalysis

Names = frozenset[str]


class Meeting(NamedTuple):
    """ONCE of a conjunction, in parts.

    Attributes:
        window: ONCE of what comes with events.
        held: what is remembered, and was true at the time-points of the window.
        comparisons: those of other variables than the window's.
        names: the free variables of the whole.
    """

    window: Formula
    held: Formula
    comparisons: tuple[Formula, ...]
    names: tuple[str, ...]


def meeting_of(node: Formula, bound: Names, binding: BindingAnalysis) -> Meeting | None:
    """Take a formula apart, in normal form and with variables named apart.

    Args:
        node: the formula.
        bound: the variables that are bound where it is asked about.
        binding: the analysis of the formulas.

    Returns:
        None if it is not ONCE with a bound of such a conjunction, or if it is better to join when
        an event comes: because the window has none of the bound variables, or what is remembered
        adds none to those of the window.
    """
    if node.operator is not ops.ONCE or node.interval is None or not node.interval.is_bounded:
        return None
    body = node.operands[0]
    while body.operator is ops.EXISTS:
        if not quantified(body):
            return None
        body = body.operands[0]
    parts = conjuncts(body)
    remembered = [one for one in parts if _has_spans(one, binding)]
    if len(remembered) != 1:
        return None
    (held,) = remembered
    others = [one for one in parts if one is not held]
    comparisons: list[Formula] = []
    own = _bound_alone(others, binding)
    while own is None:
        # comparisons with variables of what is remembered are left for later
        later = next((one for one in reversed(others) if _is_comparison(one)), None)
        if later is None:
            return None
        others = [one for one in others if one is not later]
        comparisons.insert(0, later)
        own = _bound_alone(others, binding)
    known = binding.free(held)
    is_joined = bool(own & bound) and bool(own & known) and bool(known - own)
    if not is_joined or any(
        not binding.free(one) <= own | known or _binds(one, own | known, binding)
        for one in comparisons
    ):
        return None
    if any(one.operator.is_future for one in postorder(body)):
        return None
    joined = others[0]
    for one in others[1:]:
        joined = Formula(ops.AND, (joined, one))
    window = Formula(ops.ONCE, (joined,), node.interval, None, node.span)
    return Meeting(window, held, tuple(comparisons), free_in(node))


def _has_spans(node: Formula, binding: BindingAnalysis) -> bool:
    """Whether a formula holds in spans that only rows begin and end."""
    if node.operator not in (ops.ONCE, ops.SINCE) or node.interval is None:
        return False
    if node.interval.lower > 0 or node.interval.is_bounded:
        return False
    if node.operator is ops.ONCE:
        return True
    return without_static(node) is node and all(
        part.operator is ops.TRUE
        or _bound_alone([part], binding) is not None
        or _bound_alone([normal_form(part, negated=True)], binding) is not None
        for part in conjuncts(node.operands[0])
    )


def _is_comparison(node: Formula) -> bool:
    inner = node.operands[0] if node.operator is ops.NOT else node
    return inner.operator is ops.COMPARISON and not inner.operands


def _bound_alone(parts: list[Formula], binding: BindingAnalysis) -> Names | None:
    """The variables of conjuncts that bind all of them by themselves; else None."""
    if not parts:
        return None
    joined = parts[0]
    for one in parts[1:]:
        joined = Formula(ops.AND, (joined, one))
    found = run(binding.evaluated(joined, frozenset()))
    return None if isinstance(found, Unbound) or binding.free(joined) - found else found


def _binds(node: Formula, bound: Names, binding: BindingAnalysis) -> bool:
    """Whether a formula is not a filter where some variables are bound."""
    found = run(binding.evaluated(node, bound))
    return isinstance(found, Unbound) or bool(found - bound)


def without_static(node: Formula) -> Formula:
    """Take comparisons out of the left side of SINCE or UNTIL: time does not change them.

    `(c AND f) SINCE g` is `c AND (f SINCE g)`, or g at the present, where f and c are not asked.
    """
    static = static_parts(node.operands[0])
    if not static:
        return node
    others = [one for one in conjuncts(node.operands[0]) if one not in static]
    left = others[0] if others else Formula(ops.TRUE)
    for one in others[1:]:
        left = Formula(ops.AND, (left, one))
    found = Formula(node.operator, (left, node.operands[1]), node.interval, None, node.span)
    for one in static:
        found = Formula(ops.AND, (one, found))
    assert node.interval is not None
    if node.interval.lower == 0:
        found = Formula(ops.OR, (found, node.operands[1]))
    return found


__all__ = ["Meeting", "meeting_of", "without_static"]
