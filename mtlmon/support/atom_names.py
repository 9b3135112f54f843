"""Matches the columns of events with the atoms of a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import EventError
from mtlmon.support.guesses import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NoReturn

__all__ = ["listed", "places_of", "refuse_unknown"]


def places_of(formula_atoms: Sequence[str], names: Sequence[object], is_strict: bool) -> list[int]:
    """Find each atom of the formula among the names of columns.

    Args:
        formula_atoms: the atoms of the formula.
        names: the names of the columns.
        is_strict: whether a name that is not an atom of the formula is an error.

    Returns:
        The index of each atom among the names.

    Raises:
        EventError: an atom has no column, a name occurs twice, or `is_strict` is set and there are
            other names.
    """
    place_of = {name: place for place, name in enumerate(names)}
    if len(place_of) != len(names):
        twice = next(name for place, name in enumerate(names) if place_of[name] != place)
        raise EventError(f"there are two columns for the atom {twice!r}")
    missing = [name for name in formula_atoms if name not in place_of]
    if missing:
        guess = did_you_mean(missing[0], map(str, names))
        raise EventError(
            f"no column for {listed(missing)}: the formula needs {listed(formula_atoms)}{guess}"
        )
    if is_strict:
        known = set(formula_atoms)
        others = [name for name in names if name not in known]
        if others:
            refuse_unknown(others, formula_atoms, "such columns")
    return [place_of[name] for name in formula_atoms]


def refuse_unknown(names: Sequence[object], formula_atoms: Iterable[str], what: str) -> NoReturn:
    """Raise an EventError about atoms that do not occur in the formula.

    Args:
        names: the names of these atoms; there is at least one.
        formula_atoms: the atoms that occur in the formula.
        what: the end of the message, which names what unknown="ignore" would skip.
    """
    known = list(formula_atoms)
    noun = "atom" if len(names) == 1 else "atoms"
    raise EventError(
        f"the formula has no {noun} {listed(names)}, only {listed(known)}"
        f"{did_you_mean(str(names[0]), known)}; unknown='ignore' passes over {what}"
    )


def listed(names: Sequence[object]) -> str:
    """List the names for a message: at most eight, and how many there are if that is not all."""
    shown = ", ".join(map(repr, names[:8]))
    return f"{shown}, ... ({len(names)} names)" if len(names) > 8 else shown
