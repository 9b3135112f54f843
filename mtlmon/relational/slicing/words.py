"""Says in words how a policy is sliced."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from mtlmon.syntax.printer import atom_text
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from mtlmon.relational.slicing.slices import AtomMatch, PolicySlices

__all__ = ["describe_slices"]


def describe_slices(policy: PolicySlices, slices: int) -> list[str]:
    """Return lines about the slices of a policy.

    Args:
        policy: the policy.
        slices: how many slices there are.
    """
    if not policy.variables:
        return [f"one: {policy.remark}" if policy.remark else "one"]
    (shares, _, _), *others = [policy.grids[number] for number in policy.grid_of]
    parts = [
        f"{variable.name} in {share}"
        for variable, share in zip(policy.variables, shares, strict=True)
        if share > 1
    ]
    lines = [f"{prod(shares)} of {slices}, by the values of {' and '.join(parts) or 'none'} parts"]
    if others and len(policy.grids) > 1:
        lines.append(f"{len(policy.grids)} ways, by which variables have frequent values")
    lines += dict.fromkeys(_copies(policy, atom) for atom in policy.atoms)
    if policy.marks:
        lines += [f"time-points without rows matter for {mark}" for mark in policy.marks]
    else:
        lines.append("time-points without rows do not matter")
    return lines


def _copies(policy: PolicySlices, atom: AtomMatch) -> str:
    """To how many slices the rows of an atom go, if they have no frequent values."""
    count = len(
        {part for grid in policy.grid_numbers(atom) for part in policy.all_parts(atom, grid)}
    )
    name = visible(atom_text(atom.atom))
    names = [
        variable.name
        for variable, argument in zip(policy.variables, atom.arguments, strict=True)
        if argument is not None
    ]
    shown = f"{name}, by {' and '.join(names)}" if names else name
    return f"a row of {shown}: {count} slice{'s' if count > 1 else ''}"
