"""Rows of a log with their names and atoms, which come in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.policy.predicates.numbers import to_floats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["NO_NAMES", "Names", "RowParts", "Rows", "fitted", "joined", "without"]


class Rows(NamedTuple):
    """Rows of some traces, with their atoms.

    Attributes:
        inputs: the columns that streams read.
        time_stamps: their time-stamps.
        traces: the numbers of their traces.
        offsets: their offsets among the rows of their trace that have their time-stamp.
        held: which atoms hold: a column for each.
    """

    inputs: pa.RecordBatch
    time_stamps: NDArray[np.int64]
    traces: NDArray[np.uint32]
    offsets: NDArray[np.uint64]
    held: NDArray[np.bool_]

    def taken(self, places: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.inputs.take(pa.array(places)),
            self.time_stamps[places],
            self.traces[places],
            self.offsets[places],
            self.held[places],
        )

    def between(self, first: int, last: int) -> Rows:
        """Return the rows from number `first` to below `last`."""
        return Rows(
            self.inputs.slice(first, last - first),
            self.time_stamps[first:last],
            self.traces[first:last],
            self.offsets[first:last],
            self.held[first:last],
        )

    @property
    def names(self) -> Names:
        """The names of the rows."""
        return Names(self.time_stamps, self.traces, self.offsets)

    @property
    def by_name(self) -> dict[str, NDArray[Any]]:
        """The columns of the names, under what placements call them."""
        return {"time_stamp": self.time_stamps, "trace": self.traces, "offset": self.offsets}

    @property
    def byte_count(self) -> int:
        """The number of bytes that the rows take, about."""
        of_names = 20 * len(self.time_stamps)
        return int(self.inputs.nbytes) + self.held.size + of_names


class Names(NamedTuple):
    """Names of rows: the attributes are those of `Rows`."""

    time_stamps: NDArray[np.int64]
    traces: NDArray[np.uint32]
    offsets: NDArray[np.uint64]

    def taken(self, places: NDArray[np.intp]) -> Names:
        """Return some of the names."""
        return Names(self.time_stamps[places], self.traces[places], self.offsets[places])


NO_NAMES = Names(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint64))


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, of which there is one, in order."""
    if len(parts) == 1:
        return parts[0]
    schema = _common_schema([part.inputs.schema for part in parts])
    inputs = pa.Table.from_batches([fitted(part.inputs, schema) for part in parts])
    batches = inputs.combine_chunks().to_batches()
    return Rows(
        batches[0] if batches else fitted(parts[0].inputs, schema),
        np.concatenate([part.time_stamps for part in parts]),
        np.concatenate([part.traces for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.held for part in parts]),
    )


def without(rows: Rows, names: Names) -> Rows:
    """Return rows in the order of time without those that have some names."""
    if not len(names.time_stamps):
        return rows
    gone = set(_each(names))
    low, high = names.time_stamps.min(), names.time_stamps.max() + 1
    first, last = np.searchsorted(rows.time_stamps, [low, high]).tolist()
    some = rows.between(first, last).names
    places = [first + place for place, name in enumerate(_each(some)) if name in gone]
    return rows.taken(np.delete(np.arange(len(rows.time_stamps)), places))


def _each(names: Names) -> Iterator[tuple[int, int, int]]:
    return zip(*(one.tolist() for one in names), strict=True)


def _common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The types of columns, of which some may have had no value so far in some schemas.

    Integers may have become floats in later ones.
    """
    fields = list(schemas[-1])
    for place, field in enumerate(fields):
        others = [schema.field(place) for schema in schemas]
        if pa.types.is_null(field.type):
            known = (one for one in others if not pa.types.is_null(one.type))
            fields[place] = next(known, field)
        if pa.types.is_integer(fields[place].type):
            floats = (one for one in others if pa.types.is_floating(one.type))
            fields[place] = next(floats, fields[place])
    return pa.schema(fields)


def fitted(inputs: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the types of a schema, which may have other columns, too."""
    columns = []
    for name, column in zip(inputs.schema.names, inputs.columns, strict=True):
        place = schema.get_field_index(name)
        kind = column.type if place < 0 else schema.field(place).type
        if column.type.equals(kind):
            columns.append(column)
        else:
            # integers become floats
            columns.append(to_floats(column) if pa.types.is_floating(kind) else column.cast(kind))
    return pa.RecordBatch.from_arrays(columns, inputs.schema.names)


class RowParts:
    """Rows that come in parts, and are joined once they are wanted as a whole.

    Attributes:
        count: how many rows there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[Rows] = []

    def add(self, rows: Rows) -> None:
        self._parts.append(rows)
        self.count += len(rows.time_stamps)

    @property
    def rows(self) -> Rows:
        """All rows; there have been some."""
        self._parts = [joined(self._parts)]
        return self._parts[0]

    @rows.setter
    def rows(self, rows: Rows) -> None:
        self._parts = [rows]
        self.count = len(rows.time_stamps)

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self._parts)
