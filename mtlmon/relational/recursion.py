"""Lets that use themselves: which these are, and whether they do so at earlier time-points only.

`let reaches(x, y) = edge(x, y) OR EXISTS z. (PREVIOUS reaches(x, z)) AND edge(z, y)` says of each
time-point what it says of earlier ones. That is a definition if each use of the let in its own
formula stands below an operator that looks at earlier time-points alone: PREVIOUS, or ONCE,
HISTORICALLY, SINCE or TRIGGER whose interval does not contain 0 (their right operand). Other lets
are replaced by their formulas; such a *recursive* let has rows at each time-point, like an atom.

This is LETPAST of S. Zingg, S. Krstic, M. Raszyk, J. Schneider, D. Traytel, "Verified First-Order
Monitoring with Recursive Rules" (TACAS 2022), for several lets as well that use each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.relational.scopes import Finding
from mtlmon.support.closures import closure
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import STRICT
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Mapping

    from mtlmon.syntax.formula import Formula

__all__ = ["is_earlier", "mentions", "recursion_findings", "recursive_lets"]

_EARLIER = frozenset({ops.ONCE, ops.HISTORICALLY, ops.SINCE, ops.TRIGGER})


def recursive_lets(lets: Mapping[str, Formula]) -> frozenset[str]:
    """Return the lets that use themselves, also by way of others.

    Args:
        lets: the formulas of lets by name.
    """
    uses = {name: _names_in(formula) & lets.keys() for name, formula in lets.items()}
    return frozenset(name for name in lets if name in closure(uses[name], uses))


def mentions(formula: Formula, names: Container[str]) -> bool:
    """Whether a formula has an atom or let of some names, also in an aggregate."""
    return any(node.name in names for node in postorder(formula) if _is_named(node))


def is_earlier(node: Formula) -> bool:
    """Whether the last operand of an operator is asked about earlier time-points alone."""
    if node.operator is ops.PREVIOUS or (node.operator is ops.SINCE and node.value == STRICT):
        return True
    return node.operator in _EARLIER and node.interval is not None and node.interval.lower > 0


def recursion_findings(
    name: str, lets: Mapping[str, Formula], recursive: Collection[str]
) -> Iterator[Finding]:
    """Yield what is wrong with how a recursive let uses itself.

    Args:
        name: the name of the let.
        lets: the formulas of all lets by name.
        recursive: those that are recursive.
    """
    uses = {one: _names_in(lets[one]) & lets.keys() for one in lets}
    circle = {one for one in recursive if name in closure(uses[one], uses)}
    seen: set[tuple[str, bool]] = set()
    # a subformula, whether it is asked about earlier time-points, what looks ahead around it, and
    # the part of the let's own formula that it belongs to
    stack: list[tuple[Formula, bool, Formula | None, Formula | None]] = [
        (lets[name], False, None, None)
    ]
    while stack:
        node, is_past, ahead, own = stack.pop()
        if _is_named(node) and node.name in uses:
            used = node.name or ""
            place = node if own is None else own
            if used in circle and ahead is not None:
                message = f"{_shown(name)} depends on itself below {ahead.operator.word}, which "
                hint = f"{ahead.operator.word} may stand beside it, but not around it"
                yield Finding(place.span, f"{message}looks ahead", hint)
                return
            if used == name and not is_past:
                hint = "use it at earlier time-points: below PREVIOUS, or below ONCE or SINCE whose"
                hint += f" interval begins above 0, as in PREVIOUS {_shown(name)}(...)"
                message = f"{_shown(name)} depends on itself at the same time-point"
                yield Finding(place.span, message, hint)
                return
            if used in circle and used != name and (used, is_past) not in seen:
                seen.add((used, is_past))
                stack.append((lets[used], is_past, ahead, place))
        for place_of_operand, operand in enumerate(node.operands):
            is_last = place_of_operand == len(node.operands) - 1
            is_inner = is_past or ((is_last or node.value == STRICT) and is_earlier(node))
            looks = node if node.operator.is_future else ahead
            stack.append((operand, is_inner, looks, own))


def _shown(name: str) -> str:
    from mtlmon.syntax.printer import written_name

    return written_name(name)


def _is_named(node: Formula) -> bool:
    return node.operator in (ops.ATOM, ops.PREDICATE)


def _names_in(formula: Formula) -> set[str]:
    return {node.name for node in postorder(formula) if _is_named(node) and node.name is not None}
