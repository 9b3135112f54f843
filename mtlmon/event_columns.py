"""Columns of events and the atoms they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import EventError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["listed", "places_of"]


def places_of(formula_atoms: Sequence[str], names: Sequence[object], is_strict: bool) -> list[int]:
    """Where each atom of the formula stands among the names.

    Raises:
        EventError: one is missing, a name comes twice, or there are others and that is an error.
    """
    place_of = {name: place for place, name in enumerate(names)}
    if len(place_of) != len(names):
        twice = next(name for place, name in enumerate(names) if place_of[name] != place)
        raise EventError(f"there are two columns for the atom {twice!r}")
    missing = [name for name in formula_atoms if name not in place_of]
    if missing:
        raise EventError(
            f"no column for {listed(missing)}: the formula needs {listed(formula_atoms)}"
        )
    if is_strict:
        known = set(formula_atoms)
        others = [name for name in names if name not in known]
        if others:
            raise EventError(
                f"the formula knows no atom {listed(others)}; "
                "unknown='ignore' passes over such columns"
            )
    return [place_of[name] for name in formula_atoms]


def listed(names: Sequence[object]) -> str:
    """Names for a message, not too many of them."""
    shown = ", ".join(map(repr, names[:8]))
    return f"{shown}, ... ({len(names)} names)" if len(names) > 8 else shown
