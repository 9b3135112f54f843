"""What verdicts cannot be corrected with, of what policies read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.needs import needs_of
from mtlmon.policy.predicates.time_points import Changes

if TYPE_CHECKING:
    from mtlmon.policy import Policy, PolicyFile

__all__ = ["has_ticks", "row_relation", "waits"]


def waits(policy: Policy) -> bool:
    """Whether rows of a policy wait for later values."""
    clock = policy.clock
    return clock is not None and clock.waits


def has_ticks(file: PolicyFile, policy: Policy) -> bool:
    """Whether a policy is on ticks, or reads streams that are."""
    clock = policy.clock
    if clock is not None and clock.has_ticks:
        return True
    atoms = [*policy.formula.atoms, *([clock.atom] if clock and clock.atom else [])]
    clocks = (file.streams[name].clock for name in needs_of(file, atoms).streams)
    return any(one is not None and one.period is not None for one in clocks)


def row_relation(file: PolicyFile, policy: Policy) -> str | None:
    """Return a relation made of rows that a policy depends on; None if there is none.

    Values are looked up there, or the policy is on its changes.
    """
    clock = policy.clock
    atoms = [*policy.formula.atoms, *([clock.atom] if clock and clock.atom else [])]
    period = None if clock is None else clock.period
    if isinstance(period, Changes) and _reads_rows(file, period.relation):
        return period.relation
    relations = needs_of(file, atoms).relations
    return next((relation for relation in relations if _reads_rows(file, relation)), None)


def _reads_rows(file: PolicyFile, relation: str) -> bool:
    from mtlmon.policy.validity.declared import reads_rows

    owner, name = file.owner_of(relation)
    return reads_rows(owner.intervals, name)
