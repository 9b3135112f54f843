"""Convert the values of streams to Arrow tables and to JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.outputs import unique_columns
from mtlmon.tables.outputs import RowTable
from mtlmon.tables.verdicts import key_texts
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.streams.atoms import Values
    from mtlmon.tables.columns.times import Times

__all__ = ["JsonRowsOutput", "StreamTable"]

_Rows = TypeVar("_Rows")

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
    """

    def __init__(
        self,
        streams: Sequence[str],
        key_columns: Sequence[str] = (),
        keys: KeyTable | None = None,
        times: Times | None = None,
    ) -> None:
        self._key_table = keys
        self._times = times
        self._keys = unique_columns(key_columns, _FIXED, "key_")
        self._streams = unique_columns(streams, [*_FIXED, *self._keys], "stream_")
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
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        if self._schema is None:
            self._schema = batch.schema
        yield batch


class JsonRowsOutput(Generic[_Rows]):
    """Writes an object for each row, one per line, with a member for each column.

    Args:
        table: creates the rows.
    """

    lines = None

    def __init__(self, table: RowTable[_Rows]) -> None:
        self.writer = ByteWriter()
        self.table = table

    def put(self, rows: _Rows) -> None:
        """Write the rows."""
        for batch in self.table.batches(rows):
            if batch.num_rows:
                self.writer.write(json_lines(batch))

    def close(self) -> None:
        """Do nothing: lines need no end."""


def json_lines(batch: pa.RecordBatch) -> memoryview:
    """Return the rows of a batch, which is not empty, as lines of JSON.

    Texts are texts, and so are times, as in ISO 8601. JSON has no numbers that are not finite, so
    these are null.
    """
    pieces: list[pa.Array | pa.Scalar] = []
    before = "{"
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces += [_text(f"{before}{json.dumps(name, ensure_ascii=False)}:"), _json(column)]
        before = ","
    lines = pc.binary_join_element_wise(*pieces, _text("}\n"), _text(""))
    _, starts, data = lines.buffers()
    places = memoryview(starts).cast("q")
    return memoryview(data)[places[lines.offset] : places[lines.offset + len(lines)]]


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _json(column: pa.Array) -> pa.Array:
    """Return the cells of a column as JSON."""
    kind = column.type
    if pa.types.is_floating(kind):
        texts = column.cast(pa.large_string())
        is_whole = pc.match_substring_regex(texts, "^-?[0-9]+$")
        texts = pc.if_else(
            is_whole, pc.binary_join_element_wise(texts, _text(".0"), _text("")), texts
        )
        texts = pc.if_else(pc.is_finite(column), texts, _text("null"))
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        texts = column.cast(pa.large_string())
    elif pa.types.is_null(kind):
        texts = pa.nulls(len(column), pa.large_string())
    else:
        texts = column.cast(pa.large_string())
        if pa.types.is_timestamp(kind):
            texts = pc.replace_substring(texts, " ", "T")
        entries = texts.dictionary_encode()
        distinct = [json.dumps(text, ensure_ascii=False) for text in entries.dictionary.to_pylist()]
        texts = pa.array(distinct, pa.large_string()).take(entries.indices)
    return texts.fill_null("null")
