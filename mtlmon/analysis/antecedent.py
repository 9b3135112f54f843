"""The left side of an implication; a policy whose left side never holds says nothing of a log."""

from __future__ import annotations

from mtlmon.errors import MtlmonError
from mtlmon.support.lean_typing import NamedTuple
from mtlmon.syntax.operators import ALWAYS, FORALL, HISTORICALLY, IMPLIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mtlmon.syntax.formula import Formula

    Vacuous = Literal["ignore", "warn", "error"]
    """What to do about a policy that was never triggered."""

__all__ = ["Antecedent", "antecedent_of", "is_vacuity_wanted", "vacuous_text"]

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


def vacuous_text(policy: str, left: Formula | str, events: int) -> str:
    """Say that a policy was never triggered.

    Args:
        policy: the policy, as a formula or by name.
        left: its left side.
        events: the number of its time-points.
    """
    return (
        f"{policy} was never triggered: {left} holds at none of the {events:,} time-points, so "
        "nothing was checked"
    )


def is_vacuity_wanted(vacuous: Vacuous) -> bool:
    """Whether to find out if policies were triggered.

    Args:
        vacuous: what to do if they were not.

    Raises:
        MtlmonError: `vacuous` is unknown.
    """
    __tracebackhide__ = True
    if vacuous not in ("ignore", "warn", "error"):
        raise MtlmonError(f"vacuous is one of 'ignore', 'warn', 'error', not {vacuous!r}")
    return vacuous != "ignore"
