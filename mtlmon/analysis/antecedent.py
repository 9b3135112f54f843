"""The left side of an implication; a policy whose left side never holds says nothing of a log."""

from __future__ import annotations

from typing import NamedTuple

from mtlmon.syntax.operators import ALWAYS, FORALL, HISTORICALLY, IMPLIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.formula import Formula

__all__ = ["Antecedent", "antecedent_of"]

_AROUND = (ALWAYS, HISTORICALLY, FORALL)


class Antecedent(NamedTuple):
    """The left side of the implication that a policy is.

    Attributes:
        formula: the left side.
        is_own: whether the policy itself is the implication, so that a time-point violates it only
            if the left side holds there. Otherwise operators such as ALWAYS are around it, and the
            left side may hold at another time-point.
    """

    formula: Formula
    is_own: bool


def antecedent_of(formula: Formula) -> Antecedent | None:
    """Return the left side of the implication that a formula is; None if it is none.

    ALWAYS, HISTORICALLY and FORALL can be around the implication.

    >>> from mtlmon import parse
    >>> antecedent_of(parse("ALWAYS (p AND q IMPLIES NEXT r)"))
    Antecedent(formula=parse('p AND q'), is_own=False)
    """
    around: set[str] = set()
    while formula.operator in _AROUND:
        around.add(formula.operator.name)
        formula = formula.operands[0]
    if formula.operator is not IMPLIES:
        return None
    return Antecedent(formula.operands[0], is_own=around <= {FORALL.name})
