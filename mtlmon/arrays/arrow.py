"""Read Arrow tables as columns of events, without copying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.errors import EventError, EventTypeError
from mtlmon.support.atom_names import places_of
from mtlmon.support.extras import load_extra

if TYPE_CHECKING:
    import pyarrow


def columns_of_table(
    atoms: tuple[str, ...], table: object, time: str, is_strict: bool
) -> list[EventColumns]:
    """The record batches of a table, or of any object that exports one, as columns of events.

    Args:
        atoms: the atoms of the formula.
        table: an object with `__arrow_c_array__` or `__arrow_c_stream__`.
        time: the name of the column of time-stamps.
        is_strict: whether columns that are neither time-stamps nor atoms are an error.

    Raises:
        MtlmonError: pyarrow is not installed.
        EventTypeError: the object is not a table, or a column has the wrong type.
        EventError: columns are missing or unknown, or have nulls.
    """
    whole = _table(table)
    names = whole.schema.names
    if names.count(time) != 1:
        raise EventError(
            f"the table has {'no' if time not in names else 'more than one'} column {time!r} of "
            "time-stamps; `time` says what it is called"
        )
    places_of(atoms, [name for name in names if name != time], is_strict)
    if time in atoms:
        raise EventError(f"column {time!r} cannot be both time-stamps and an atom")
    _require_type(whole, time, "int64")
    for name in atoms:
        _require_type(whole, name, "bool")
    for name in (time, *atoms):
        _refuse_nulls(whole.column(name), name)
    return [_columns(atoms, batch, time) for batch in whole.to_batches()]


def _table(source: object) -> pyarrow.Table:
    pyarrow = load_extra("pyarrow", "arrow")
    if isinstance(source, pyarrow.Table):
        return source
    try:
        if isinstance(source, pyarrow.RecordBatch):
            return pyarrow.Table.from_batches([source])
        return pyarrow.table(source)
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        raise EventTypeError(f"not a table of Arrow: {error}") from error


def _require_type(table: pyarrow.Table, name: str, type_name: str) -> None:
    found = table.schema.field(name).type
    if str(found) != type_name:
        raise EventTypeError(f"column {name!r} is of type {found}, not {type_name}; cast it first")


def _refuse_nulls(column: pyarrow.ChunkedArray, name: str) -> None:
    if column.null_count:
        index = column.is_null().index(True).as_py()
        raise EventError(f"column {name!r} is null at index {index}", index=index)


def _columns(atoms: tuple[str, ...], batch: pyarrow.RecordBatch, time: str) -> EventColumns:
    time_stamps = batch.column(time)
    columns = EventColumns(_integers(time_stamps), batch.num_rows)
    if batch.num_rows:
        for number, name in enumerate(atoms):
            booleans = batch.column(name)
            columns.add_bitmap(number, booleans.buffers()[1], booleans.offset)
    return columns


def _integers(array: pyarrow.Array) -> Any:
    if not len(array):
        return np.empty(0, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)
