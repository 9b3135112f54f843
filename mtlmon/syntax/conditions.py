"""Conditions on values that are built in Python, as atoms of formulas."""

from __future__ import annotations

from mtlmon.errors import FormulaError
from mtlmon.syntax.formula import Formula, atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ConditionName", "refuse_conditions", "written_with_conditions"]


class ConditionName(str):
    """The name of an atom that is a condition: its text, as in policy files."""

    __slots__ = ()


def conditions_in(names: Iterable[str]) -> list[ConditionName]:
    """Return those names of atoms that are conditions."""
    return [name for name in names if isinstance(name, ConditionName)]


def written_with_conditions(formula: Formula) -> str | None:
    """Write a formula as in policy files, where conditions are no atoms in quotes.

    Returns:
        The text, or None if the formula has no conditions that were built in Python.
    """
    conditions = conditions_in(formula.atoms)
    if not conditions:
        return None
    # PERF: `re` takes 5 ms to import, and few formulas have conditions
    import re

    plain = str(formula)
    prefix = "condition"
    while prefix in plain:
        prefix += "_"
    places = {name: f"{prefix}{number}" for number, name in enumerate(conditions)}
    text = str(formula.substitute({name: atom(place) for name, place in places.items()}))
    by_place = {place: name for name, place in places.items()}
    return re.sub(f"{prefix}[0-9]+", lambda found: f"({by_place[found.group()]})", text)


def refuse_conditions(names: Iterable[str]) -> None:
    """Refuse conditions where the values that they are about are not known.

    Args:
        names: the names of the atoms of a formula.

    Raises:
        FormulaError: some are conditions.
    """
    for name in names:
        if isinstance(name, ConditionName):
            raise FormulaError(
                f"the formula has the condition {name}: conditions on values are for "
                "mtlmon.check, mtlmon.spark and mtlmon.testing, as a monitor is told what holds"
            )
