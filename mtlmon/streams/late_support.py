"""What verdicts cannot be corrected with, of what policies read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.needs import needs_of

if TYPE_CHECKING:
    from mtlmon.policy import Policy, PolicyFile

__all__ = ["late_obstacle", "row_relation"]


def late_obstacle(file: PolicyFile, policy: Policy) -> str | None:
    """Return what keeps the verdicts of a policy from being corrected; None if nothing does.

    Streams are computed again from a state before a late row, which works for whatever has its
    values at rows. Ticks also depend on when time passes, and on the first row of their trace.
    """
    clock = policy.clock
    if clock is not None and clock.period is not None and not clock.waits:
        return "policies on ticks"
    atoms = [*policy.formula.atoms, *([clock.atom] if clock and clock.atom else [])]
    needs = needs_of(file, atoms)
    if needs.later_values or (clock is not None and clock.waits):
        return "values of later rows, next(...)"
    for name in sorted(needs.streams):
        stream = file.streams[name]
        if stream.clock is not None and stream.clock.period is not None:
            return f"streams on ticks ({name})"
    return None


def row_relation(file: PolicyFile, policy: Policy) -> str | None:
    """Return a relation made of rows in which a policy looks values up; None if there is none."""
    from mtlmon.policy.validity.declared import reads_rows

    clock = policy.clock
    atoms = [*policy.formula.atoms, *([clock.atom] if clock and clock.atom else [])]
    for relation in needs_of(file, atoms).relations:
        owner, name = file.owner_of(relation)
        if reads_rows(owner.intervals, name):
            return relation
    return None
