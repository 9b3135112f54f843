"""Records with their validity, as columns of Arrow and arrays of times.

This follows J. Krämer, B. Seeger, "A Temporal Foundation for Continuous Queries over Data Streams"
(COMAD 2005). `valid`, `where`, `select`, `union` and `join` are defined for each record or pair of
records. All other operators are defined by how often each value is valid at each instant. They give
as few records as possible, of which the first to start is the first to end. So results are
functions of the input, and two equal relations print equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.ordering import order_of
from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.columns import as_column, as_values, column_type
from mtlmon.policy.predicates.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NO_END = 2**63 - 1
"""The end of a record without end."""

# The bits of -0.0.
_NEGATIVE_ZERO = -(2**63)


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a relation, in any order.

    Attributes:
        schema: the names and types of the columns; the types are those of `column_type`.
        columns: the columns, each of one chunk. There are no negative zeros in them.
        starts: when each record begins to be valid.
        ends: when it ends, later than the start; `NO_END` if it does not.
        is_coalesced: whether none of them can be joined to an equal one.
    """

    schema: pa.Schema
    columns: tuple[pa.Array, ...]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    is_coalesced: bool = False

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def by_name(self) -> dict[str, pa.Array]:
        """The columns by name."""
        return dict(zip(self.schema.names, self.columns, strict=True))

    @property
    def held_bytes(self) -> int:
        """The number of bytes that they take."""
        of_columns: int = sum(column.nbytes for column in self.columns)
        return 16 * len(self) + of_columns

    def equals(self, other: Records) -> bool:
        """Whether both have the same records, in the same order."""
        return (
            len(self) == len(other)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.ends, other.ends)
            and all(
                _as_bits(one).equals(_as_bits(same))
                for one, same in zip(self.columns, other.columns, strict=True)
            )
        )

    def taken(self, rows: NDArray[np.int64]) -> Records:
        """Return the records of some rows, in their order."""
        return Records(self.schema, take(self.columns, rows), self.starts[rows], self.ends[rows])

    def kept(self, mask: NDArray[np.bool_]) -> Records:
        """Return the records where a mask is true, in their order.

        They share memory with these records if they are most of them, one after the other.
        """
        rows = np.flatnonzero(mask)
        count = len(rows)
        if count == len(self):
            return self
        if 2 * count > len(self) and rows[-1] - rows[0] < count:
            first = int(rows[0])
            return Records(
                self.schema,
                tuple(column.slice(first, count) for column in self.columns),
                self.starts[first : first + count],
                self.ends[first : first + count],
            )
        return self.taken(rows)


def typed(records: Records, schema: pa.Schema) -> Records:
    """Return records some of whose columns had no value, and so no type, with these types."""
    if records.schema.equals(schema):
        return records
    columns = [one.cast(kind) for one, kind in zip(records.columns, schema.types, strict=True)]
    return Records(schema, tuple(columns), records.starts, records.ends)


def _as_bits(column: pa.Array) -> pa.Array:
    """A column in which each NaN equals others."""
    return column.view(pa.int64()) if column.type == pa.float64() else column


def take(
    columns: Sequence[pa.Array], rows: NDArray[np.int64] | NDArray[np.uint32]
) -> tuple[pa.Array, ...]:
    """Return the columns of some rows."""
    places = pa.array(rows)
    return tuple(column.take(places) for column in columns)


def take_numbered(
    columns: Sequence[pa.Array],
    numbers: NDArray[np.uint32],
    limit: int,
    wanted: NDArray[np.uint32],
) -> tuple[pa.Array, ...]:
    """Return the columns of rows that have some numbers; equal numbers stand for equal rows.

    Args:
        columns: the columns.
        numbers: the number of each of their rows.
        limit: a limit that all numbers are below.
        wanted: the number of each row of the result.
    """
    if not len(numbers):
        return tuple(columns)
    rows = np.zeros(limit, np.int64)
    rows[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    if limit > len(wanted) // 4:
        return take(columns, rows[wanted])
    # the few different rows stay in the cache
    return take(take(columns, rows), wanted)


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a relation with these columns.

    Raises:
        MtlmonError: a relation cannot have columns of such a type.
    """
    fields = []
    for field in schema:
        kind = kind_of(field.type)
        if kind.name == "other":
            raise MtlmonError(
                f"column {field.name!r} is of type {field.type}, which a relation cannot hold: "
                "convert it, or leave it out"
            )
        fields.append(pa.field(field.name, column_type(kind)))
    return pa.schema(fields)


def canonical_column(column: pa.Array) -> pa.Array:
    """Convert a column to the type that it has in a relation.

    Raises:
        MtlmonError: integers are greater than 2^63 - 1.
    """
    kind = kind_of(column.type)
    try:
        return without_variants(as_column(as_values(column, kind), kind, len(column)))
    except pa.ArrowInvalid as error:
        raise MtlmonError(f"a relation cannot hold the values of a column: {error}") from error


def without_variants(column: pa.Array) -> pa.Array:
    """Return a column with one zero and one NaN only, if it has floats."""
    if column.type != pa.float64():
        return column
    if column.null_count or (cells(column) == _NEGATIVE_ZERO).any():
        column = pc.add(column, 0.0)
    undefined = pc.is_nan(column)
    if undefined.true_count:
        column = pc.if_else(undefined, float("nan"), column)
    return column


def records_of(table: pa.Table) -> Records:
    """Read the records of a table: start, end, then the columns of the relation.

    Records that are never valid are left out.

    Raises:
        MtlmonError: the first two columns are not integers of 64 bits, a start is null, or another
            column cannot be held.
    """
    if table.num_columns < 2 or not table.schema.types[0] == table.schema.types[1] == pa.int64():
        raise MtlmonError("the first two columns of a relation's table are not start and end")
    starts, ends, *columns = map(whole, table.columns)
    if starts.null_count:
        raise MtlmonError("a record has no start")
    schema = pa.schema(list(table.schema)[2:])
    found = Records(
        canonical_schema(schema),
        tuple(map(canonical_column, columns)),
        starts.to_numpy(),
        (pc.fill_null(ends, NO_END) if ends.null_count else ends).to_numpy(),
    )
    is_valid = found.starts < found.ends
    return found.kept(is_valid)


def after(stamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when rows end that are valid at their time-stamps alone.

    Raises:
        MtlmonError: a row has the largest time-stamp, behind which there is no time.
    """
    if len(stamps) and stamps.max() == NO_END:
        raise MtlmonError(
            f"a row has the time-stamp {NO_END}, which rows of relations cannot have: leave it out"
        )
    return stamps + 1


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return the chunks of a column as one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def table_of(records: Records, rows: NDArray[np.int64] | None = None) -> pa.Table:
    """Make a table of records in order of start, end and columns; the end is null for no end.

    Args:
        records: the records.
        rows: which of them; None for all.

    Raises:
        MtlmonError: a column is called `start` or `end`.
    """
    return pa.Table.from_batches([table_columns(in_order(records, rows))])


def table_columns(records: Records) -> pa.RecordBatch:
    """Return records, in their order, with their start and end, which is null for no end.

    Raises:
        MtlmonError: a column is called `start` or `end`.
    """
    for name in ("start", "end"):
        if name in records.schema.names:
            raise MtlmonError(
                f"the result has a column {name!r} besides the one with the {name} of records: "
                f"give it another name with `select {name} as ...`"
            )
    has_no_end = records.ends == NO_END
    ends = pa.array(records.ends, mask=has_no_end if has_no_end.any() else None)
    fields = [pa.field("start", pa.int64(), nullable=False), pa.field("end", pa.int64())]
    return pa.RecordBatch.from_arrays(
        [pa.array(records.starts), ends, *records.columns],
        schema=pa.schema([*fields, *records.schema]),
    )


def records_as_bytes(records: Records) -> bytes:
    """Return records as bytes for `records_of_bytes`."""
    columns = [pa.array(records.starts), pa.array(records.ends), *records.columns]
    table = pa.Table.from_arrays(columns, names=list(map(str, range(len(columns)))))
    return table_as_bytes(table)


def records_of_bytes(content: bytes, schema: pa.Schema) -> Records:
    """Return the records with some columns that `records_as_bytes` has written."""
    starts, ends, *columns = map(whole, table_of_bytes(content).columns)
    return Records(schema, tuple(columns), starts.to_numpy(), ends.to_numpy())


def table_as_bytes(table: pa.Table, *, is_sent: bool = False) -> bytes:
    """Return a table as bytes for `table_of_bytes`; fewer ones if it is sent to many places."""
    codec = "zstd" if is_sent and pa.Codec.is_available("zstd") else None
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def table_of_bytes(content: bytes) -> pa.Table:
    """Return the table that `table_as_bytes` has written."""
    return pa.ipc.open_stream(content).read_all()


def up_to(records: Records, time: int) -> Records:
    """Return what is valid up to and including a time: records that go on are cut behind it."""
    if time >= NO_END - 1:
        return records
    found = records.kept(records.starts <= time)
    return replace(found, ends=np.minimum(found.ends, time + 1))


def in_order(records: Records, chosen: NDArray[np.int64] | None = None) -> Records:
    """Put records in order of start, end and columns; nulls come last, and NaN before them.

    Args:
        records: the records.
        chosen: the rows of those that are wanted; None for all.
    """
    if chosen is not None and len(chosen) < len(records):
        order = order_of(records.starts[chosen])
        records = records.taken(chosen if order is None else chosen[order])
    elif (order := order_of(records.starts)) is not None:
        records = records.taken(order)
    starts = records.starts
    is_equal = starts[1:] == starts[:-1]
    if not is_equal.any():
        return records
    rows = np.flatnonzero(np.append(is_equal, False) | np.insert(is_equal, 0, False))
    # most records differ in their start or end
    within = np.lexsort((records.ends[rows], starts[rows]))
    rows_in_order = rows[within]
    starts, ends = records.starts[rows_in_order], records.ends[rows_in_order]
    is_equal = (starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1])
    if is_equal.any():
        ties = np.flatnonzero(np.append(is_equal, False) | np.insert(is_equal, 0, False))
        columns = take(records.columns, rows_in_order[ties])
        comparable = {
            str(place): column
            for place, column in enumerate([pa.array(starts[ties]), pa.array(ends[ties]), *columns])
            if not pa.types.is_null(column.type)
        }
        keys = [(name, "ascending") for name in comparable]
        found = pc.sort_indices(pa.table(comparable), sort_keys=keys)
        rows_in_order[ties] = rows_in_order[ties[found.to_numpy()]]
    is_moved = rows != rows_in_order
    return _exchanged(records, rows[is_moved], rows_in_order[is_moved])


def _exchanged(records: Records, rows: NDArray[np.int64], by: NDArray[np.int64]) -> Records:
    """Put other records of the same start in the place of some, in order of their rows."""
    if not len(rows):
        return records
    ends = records.ends.copy()
    ends[rows] = records.ends[by]
    mask = np.zeros(len(records), np.bool_)
    mask[rows] = True
    is_exchanged = pa.array(mask)
    order: NDArray[np.int64] | None = None
    columns: list[pa.Array] = []
    for column in records.columns:
        # PERF: taking all rows of a column in their order took 2.5 times as long, where the few
        # that are moved are put in place here.
        if pa.types.is_primitive(column.type):
            moved = column.take(pa.array(by))
            columns.append(pc.replace_with_mask(column, is_exchanged, moved))
            continue
        if order is None:
            order = np.arange(len(records))
            order[rows] = by
        columns.append(column.take(pa.array(order)))
    return Records(records.schema, tuple(columns), records.starts, ends)


def cells(column: pa.Array) -> NDArray[np.int64]:
    """Return the values of a column of 64 bits as integers, whatever they are where it is null."""
    if not len(column):
        return np.empty(0, np.int64)
    return aligned(np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset))


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as native code reads it: memory of Arrow may begin anywhere."""
    return np.require(array, requirements=["C", "A"])
