"""Encodes events as bytes, to send them to the state of a streaming query and to store them there.

An event is a row of 64-bit integers: its time-stamp, its atoms as words of bits, and the values
that order it among the events of its time-stamp. Where policies have windows or streams, events
also have the columns that these read, as a record batch of Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.spark.common.events import Events
from mtlmon.tables.columns.letters import Letters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LEAST = -(2**63)
_NO_ROWS = pa.RecordBatch.from_pylist([], pa.schema([]))


class Waiting(NamedTuple):
    """Events that are decoded.

    Attributes:
        rows: the rows of integers.
        columns: the columns that streams read, or None if there are no streams.
    """

    rows: NDArray[np.int64]
    columns: pa.RecordBatch | None

    def take(self, places: NDArray[np.int64]) -> Waiting:
        """Return the events with these indices, in this order."""
        columns = None if self.columns is None else self.columns.take(pa.array(places))
        return Waiting(self.rows[places], columns)


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Join batches of rows."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], schema)
    (batch,) = table.to_batches()
    return batch


def joined(parts: Sequence[Waiting]) -> Waiting:
    """Join consecutive events."""
    some = [part for part in parts if len(part.rows)] or parts[:1]
    if len(some) == 1:
        return some[0]
    parts = some
    batches = [part.columns for part in parts if part.columns is not None]
    columns = None
    if batches:
        columns = one_batch(batches, batches[0].schema)
    return Waiting(np.concatenate([part.rows for part in parts]), columns)


class EventRecords(NamedTuple):
    """Encodes events as rows of integers; picklable.

    Attributes:
        atoms: the atoms, in the order of their bits.
        order_count: the number of columns that give the order within a time-stamp.
        schema: the columns that streams read, or None if there are no streams.
    """

    atoms: tuple[str, ...]
    order_count: int
    schema: pa.Schema | None = None

    @property
    def _words(self) -> int:
        return max(1, (len(self.atoms) + 63) // 64)

    @property
    def width(self) -> int:
        """The number of integers in an event."""
        return 1 + self._words + self.order_count

    def rows(self, events: Events, orders: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Encode events as rows; `orders` are the columns that give their order."""
        count = len(events.time_stamps)
        rows = np.empty((count, self.width), np.int64)
        rows[:, 0] = events.time_stamps
        words = events.letters.words(count, len(self.atoms))
        rows[:, 1 : 1 + self._words] = words.view(np.int64)
        for place, order in enumerate(orders, 1 + self._words):
            rows[:, place] = order
        return rows

    def read(self, content: bytes) -> NDArray[np.int64]:
        """Decode the rows that are encoded as bytes."""
        return np.frombuffer(content, np.int64).reshape(-1, self.width)

    @property
    def nothing(self) -> Waiting:
        """No events."""
        schema = self.schema
        columns = None if schema is None else pa.RecordBatch.from_pylist([], schema)
        return Waiting(np.empty((0, self.width), np.int64), columns)

    def encode(self, events: Waiting) -> list[bytes]:
        """Encode events, as two parts."""
        columns = b"" if events.columns is None else events.columns.serialize().to_pybytes()
        return [np.ascontiguousarray(events.rows).tobytes(), columns]

    def decode(self, parts: Sequence[bytes], count: int) -> Waiting:
        """Decode so many events.

        Raises:
            ValueError, OSError, ArrowException: there are not so many, or they are damaged.
        """
        rows, columns = parts
        batch = None
        if self.schema is not None:
            batch = pa.ipc.read_record_batch(pa.py_buffer(columns), self.schema)
        events = Waiting(self.read(rows), batch)
        if len(events.rows) != count or (batch is not None and batch.num_rows != count):
            raise ValueError(f"these are not {count} events")
        return events

    def columns_of(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the columns that streams read, with the types that they have in all batches."""
        if self.schema is None:
            return None
        arrays = [rows.column(field.name).cast(field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def order(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices that sort rows by time-stamp and the columns that give their order.

        The sort is stable.
        """
        keys = [rows[:, 0], *rows.T[1 + self._words :]]
        return np.lexsort(keys[::-1])

    def due(self, rows: NDArray[np.int64]) -> Events:
        """Convert rows to events to monitor, without what depends on other rows."""
        time_stamps = np.ascontiguousarray(rows[:, 0])
        return Events(time_stamps, self.letters(rows), self.atoms, _NO_ROWS)

    def atom_lists(self, rows: NDArray[np.int64]) -> pa.Array:
        """Return the names of the atoms that hold in each row, as lists."""
        words = self.letters(rows).names
        assert words is not None
        bits = np.arange(len(self.atoms))
        holds = words[:, bits // 64] >> (bits % 64).astype(np.uint64) & np.uint64(1) == 1
        offsets = np.concatenate([[0], np.cumsum(holds.sum(axis=1))]).astype(np.int32)
        names = pa.array(self.atoms, pa.string()).take(pa.array(np.nonzero(holds)[1]))
        return pa.ListArray.from_arrays(pa.array(offsets), names)

    def letters(self, rows: NDArray[np.int64]) -> Letters:
        """Return the atoms of rows, without those that streams compute."""
        words = np.ascontiguousarray(rows[:, 1 : 1 + self._words]).view(np.uint64)
        return Letters(words, {})


def order_type_trouble(kind: pa.DataType) -> str | None:
    """Return the reason why columns of a type cannot give the order of events, or None."""
    types = pa.types
    is_usable = (
        (types.is_integer(kind) and kind != pa.uint64())
        or types.is_timestamp(kind)
        or types.is_date(kind)
        or types.is_boolean(kind)
    )
    if is_usable:
        return None
    return f"of type {kind}; in a stream, integers, dates and timestamps tell the order of rows"


def order_integers(column: pa.Array) -> NDArray[np.int64]:
    """Convert a column to integers in the same order, with nulls first."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        column = column.view(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    return np.asarray(pc.fill_null(column.cast(pa.int64()), _LEAST))
