"""Convert the values of streams to Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from mtlmon.checking.outputs import unique_columns
from mtlmon.tables.columns.keys import key_texts
from mtlmon.tables.json_rows import GUESSED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.streams.atoms import Values
    from mtlmon.tables.columns.times import Times

__all__ = ["StreamTable"]

_FIXED = ("time", "time_text")


class StreamTable:
    """Creates record batches of the values of streams, with a row for each event and each tick.

    The columns are `time`, the time-stamp; `time_text`, the time as the log writes it, if that is
    different; a text column for each key column of the first partition; and a column for each
    stream. A key column or stream whose name is taken gets the prefix `key_` or `stream_`, repeated
    until the name is unique.

    Args:
        streams: the names of the streams.
        key_columns: the key columns of the log.
        keys: the keys by the numbers of traces, or None if the log is one trace.
        times: the notation of times of the log, or None if it has the time-stamps.
        guessed: returns the streams that have integers or floats by the rows that were read, once
            there were rows. `GUESSED` marks their columns.
    """

    def __init__(
        self,
        streams: Sequence[str],
        key_columns: Sequence[str] = (),
        keys: KeyTable | None = None,
        times: Times | None = None,
        guessed: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._key_table = keys
        self._times = times
        self._keys = unique_columns(key_columns, _FIXED, "key_")
        self._streams = unique_columns(streams, [*_FIXED, *self._keys], "stream_")
        self._names = tuple(streams)
        self._guessed = guessed
        self._known_guessed: frozenset[str] | None = None
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns with the types of the first rows; without rows, streams are null."""
        if self._schema is None:
            fields = [pa.field("time", pa.int64())]
            fields += [pa.field(name, pa.string()) for name in self._keys]
            fields += [pa.field(name, pa.null()) for name in self._streams]
            return pa.schema(fields)
        return self._schema

    def batches(self, values: Values) -> Iterator[pa.RecordBatch]:
        """Return the values as a batch of rows; its types are those that the streams have there."""
        columns = {"time": pa.array(values.time_stamps)}
        if self._times is not None and not self._times.is_plain:
            columns["time_text"] = self._times.text_array(values.time_stamps)
        for place, name in enumerate(self._keys):
            columns[name] = key_texts(self._key_table, values.numbers, place)
        columns |= zip(self._streams, values.columns.values(), strict=True)
        fields = [pa.field(name, column.type) for name, column in columns.items()]
        if self._known_guessed is None:
            guessed = self._guessed()
            named = zip(self._names, self._streams, strict=True)
            self._known_guessed = frozenset(column for name, column in named if name in guessed)
        fields = [
            field.with_metadata(GUESSED) if field.name in self._known_guessed else field
            for field in fields
        ]
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))
        if self._schema is None:
            self._schema = batch.schema
        yield batch
