"""Columns of events and the atoms they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import EventError
from mtlmon.support.guesses import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NoReturn

__all__ = ["listed", "places_of", "refuse_unknown"]


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
    """Refuse atoms that the formula does not name.

    Args:
        names: of these atoms.
        formula_atoms: those that it names.
        what: unknown="ignore" passes over.
    """
    known = list(formula_atoms)
    noun = "atom" if len(names) == 1 else "atoms"
    raise EventError(
        f"the formula has no {noun} {listed(names)}, only {listed(known)}"
        f"{did_you_mean(str(names[0]), known)}; unknown='ignore' passes over {what}"
    )


def listed(names: Sequence[object]) -> str:
    """Names for a message, not too many of them."""
    shown = ", ".join(map(repr, names[:8]))
    return f"{shown}, ... ({len(names)} names)" if len(names) > 8 else shown
