"""Options that functions pass on to `open_tables`: those that they obey, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.support.guesses import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["OF_EVENTS", "OF_ROWS", "require_known"]

OF_ROWS = (
    "format",
    "pattern",
    "time",
    "time_unit",
    "time_format",
    "time_zone",
    "resolution",
    "null_values",
    "delimiter",
    "quote",
    "decimal",
    "on_error",
    "sort",
    "sort_memory",
)
"""What says how rows are read."""

OF_EVENTS = (*OF_ROWS, "event", "event_separator", "wait", "late")
"""What says how rows become events in the order of time."""

_CORRECTS = (
    "is for rows that come in any order or take others back. mtlmon.History takes these, and "
    "mtlmon.RelationalHistory for policies with variables; the command corrects verdicts of tables "
    "with --lateness"
)
_INSTEAD = {
    **dict.fromkeys(("in_any_order", "operation", "id", "clock"), _CORRECTS),
    **dict.fromkeys(
        ("predicates", "policies", "atoms_of_partitions", "partitions", "streams", "shown"),
        "follows from the policies: mtlmon.tables.open_tables takes it",
    ),
    "memory": "belongs to mtlmon.tables.open_tables: give max_memory=",
    "key": "is what the policy file says, and mtlmon.check takes it",
    **dict.fromkeys(("event", "event_separator"), "is for policies: mtlmon.check takes it"),
    **dict.fromkeys(("wait", "late"), "is for policies: sort=True puts rows in order here"),
}


def require_known(function: str, options: Mapping[str, object], known: Collection[str]) -> None:
    """Require that a function obeys all options that it is given.

    Args:
        function: its name.
        options: the options.
        known: the names of those that it obeys.

    Raises:
        MtlmonError: it does not obey one.
    """
    for name in options:
        if name in known:
            continue
        if name in _INSTEAD:
            raise MtlmonError(f"{function} does not take {name}=, which {_INSTEAD[name]}")
        raise MtlmonError(f"{function} has no option {name!r}{did_you_mean(name, known)}")
