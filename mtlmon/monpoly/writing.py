"""Writes verdicts as MonPoly does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.monpoly.native import VerdictLines
from mtlmon.relational.atoms import cell_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.relational.plan import Plan

__all__ = ["verdict_lines"]


def verdict_lines(plan: Plan, columns: Sequence[tuple[str, str]]) -> VerdictLines:
    """Return what writes the answers about the only policy of a plan.

    Args:
        plan: the plan.
        columns: the variables in the order of the values in rows, with their types in MonPoly.
    """
    (policy,) = plan.named_policies
    places = [policy.variables.index(name) for name, _ in columns]
    return VerdictLines(
        [
            (place, kind, cell_word(policy.kinds[place]))
            for place, (_, kind) in zip(places, columns, strict=True)
        ],
        len(policy.variables),
        plan.texts,
    )
