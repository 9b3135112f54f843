"""The columns of a table that are wanted, and what they are wanted for."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from mtlmon.errors import TableError
from mtlmon.event_columns import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

DEFAULT_TIME = "ts"
# what ends cells of text in other formats than CSV
_SEPARATOR = re.compile(r"[,;|\t]")


class Selection:
    """Which columns are read.

    Attributes:
        time: of times; None until the first file has shown that there is a column `ts`.
        event: of names of events, None if atoms are columns.
        keys: of which each distinct row of values is a trace.
        booleans: atoms that are columns.
        predicates: what predicates speak of.
    """

    def __init__(
        self,
        time: str | None,
        event: str | None,
        keys: Sequence[str],
        booleans: Sequence[str],
        predicates: Sequence[str],
    ) -> None:
        self.time = time
        self.event = event
        self.keys = tuple(keys)
        self.booleans = tuple(booleans)
        self.predicates = tuple(predicates)

    @property
    def time_name(self) -> str:
        """The column of times, by default `ts`."""
        return DEFAULT_TIME if self.time is None else self.time

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is wanted, once."""
        wanted = [self.time_name, *self.keys, *self.booleans, *self.predicates]
        if self.event is not None:
            wanted.append(self.event)
        return tuple(dict.fromkeys(wanted))

    @property
    def texts(self) -> tuple[str, ...]:
        """Those of which a text format need only give the text."""
        wanted = [self.time_name, *self.keys]
        if self.event is not None:
            wanted.append(self.event)
        return tuple(name for name in wanted if name not in self.predicates)

    def require(self, present: Sequence[str], path: str) -> None:
        """Every column wanted is there, and once.

        Raises:
            TableError: it is not; the message has names like it.
        """
        known = set(present)
        for name in self.names:
            if name not in known:
                raise TableError(self.missing(name, present), path=path)
            if sum(other == name for other in present) > 1:
                raise TableError(f"there is more than one column {name!r}", path=path)

    def missing(self, name: str, present: Sequence[str]) -> str:
        """The message that a column is not among those present."""
        message = f"there is no column {name!r}"
        if name == self.time_name and self.time is None:
            message = f"which column has the times is not said, and there is no {name!r}"
        elif name == self.time_name:
            message += " of times"
        elif name in self.booleans:
            message += " for the atom of this name"
        elif name in self.keys:
            message += " of keys"
        elif name == self.event:
            message += " of events"
        close = get_close_matches(name, list(present), 3)
        if len(present) == 1 and (found := _SEPARATOR.search(present[0])):
            return f"{message}, only {present[0]!r}: do its cells end at {found[0]!r}?"
        if close:
            return f"{message}; perhaps {' or '.join(map(repr, close))} is meant"
        if present:
            message += f" among {listed(present)}"
        if name in self.booleans:
            message += "; if a column names events, say which (--event)"
        return message


def joined_types(
    known: Mapping[str, pa.DataType], found: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """The types of columns when more rows are seen: they become known, and integers floats.

    A type that does not fit the known one changes nothing: the rows are at fault.
    """
    import pyarrow as pa

    joined = dict(known)
    for name, data_type in found.items():
        before = known.get(name)
        if (
            before is None
            or pa.types.is_null(before)
            or (
                pa.types.is_integer(before)
                and (pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))
            )
            or (
                pa.types.is_timestamp(before)
                and pa.types.is_timestamp(data_type)
                and before.tz == data_type.tz
                and (before.unit, data_type.unit) == ("s", "ns")
            )
        ):
            joined[name] = data_type
    return joined
