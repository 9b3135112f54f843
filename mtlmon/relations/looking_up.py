"""Relations in which expressions look values up: of tables, which are known from the beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from mtlmon.policy.predicates.kinds import kind_of
from mtlmon.relations.changing import ChangeTimes
from mtlmon.relations.lookup import LookUp
from mtlmon.relations.records import NO_END, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Changes
    from mtlmon.policy.predicates.kinds import Kind

__all__ = ["FIRST", "KnownRelation"]

FIRST = -(2**63)
"""No record starts before this time."""


class KnownRelation:
    """The records of a relation, and look-ups by any of its columns.

    It is a `Relation` of environments, which tells the times of its changes, too.

    Args:
        table: its records, as `evaluate` returns them.
        note_index: is called whenever `index_bytes` has grown.

    Attributes:
        kinds: the kinds of its columns by name.
    """

    def __init__(self, table: pa.Table, note_index: Callable[[], None] | None = None) -> None:
        self._note_index = note_index
        self.kinds: Mapping[str, Kind] = {}
        self._changes: dict[tuple[str, ...], ChangeTimes] = {}
        self.know(table)

    def __getstate__(self) -> dict[str, object]:
        # what finds records is made again from these
        return {**self.__dict__, "_look_ups": {}, "_note_index": None}

    def know(self, table: pa.Table) -> None:
        """Take other records, which may have other columns, in the place of those before."""
        self.kinds = {field.name: kind_of(field.type) for field in list(table.schema)[2:]}
        self.replace(table)

    def replace(self, table: pa.Table) -> None:
        """Take other records with the same columns in the place of those before."""
        self._table = table
        self._look_ups: dict[tuple[str, ...], LookUp] = {}

    @property
    def count(self) -> int:
        """The number of its records."""
        found: int = self._table.num_rows
        return found

    @property
    def held_bytes(self) -> int:
        """The number of bytes that its records take."""
        held: int = self._table.nbytes
        return held + sum(one.held_bytes for one in self._changes.values())

    @property
    def index_bytes(self) -> int:
        """The number of bytes that what finds records takes, about."""
        return sum(one.held_bytes for one in self._look_ups.values())

    def changes(self, keys: Sequence[str]) -> Changes:
        """Return the times at which it changes, for each value of some columns if there are any."""
        found = self._changes.get(tuple(keys))
        if found is None:
            found = self._changes[tuple(keys)] = ChangeTimes(keys)
            found.add(records_of(self._table), FIRST, NO_END)
        return found

    def find(
        self, keys: Sequence[str], times: NDArray[np.int64], values: Sequence[pa.Array]
    ) -> NDArray[np.int64]:
        """Return the number of the record that is valid at each time and has some values.

        It is `NOTHING_VALID` where there is none, and `SEVERAL_VALID` where there are more.
        """
        return self._by(tuple(keys)).find(times, values)

    def column(self, name: str, records: NDArray[np.int64]) -> pa.Array:
        """Return the values of a column in records; null for negative ones."""
        look_up = next(iter(self._look_ups.values()), None)
        return (look_up or self._by(())).values(name, records)

    def _by(self, keys: tuple[str, ...]) -> LookUp:
        if keys not in self._look_ups:
            self._look_ups[keys] = LookUp(self._table, keys)
            if self._note_index is not None:
                self._note_index()
        return self._look_ups[keys]
