"""Turns arrays into streams of events, and tables of all kinds into tables of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.errors import EventTypeError, TimeStampError, TraceError
from mtlmon.policy.policy_file import DEFAULT_TIME
from mtlmon.support.guesses import did_you_mean
from mtlmon.testing.events import Letters
from mtlmon.testing.times import TimeReader

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.run.spec import RunSpec
    from mtlmon.testing.seen import SeenNames
    from mtlmon.testing.subject import Subject

    Events = Iterator[tuple[int, frozenset[str]]]

__all__ = ["arrow_of", "events_of_arrays", "table_of", "time_column"]

TIME_COLUMN = "time_stamp"
ROWS_AT_ONCE = 1 << 16

_UNITS_OF_NUMPY = {unit: unit for unit in ("ns", "us", "ms", "s", "m", "h")} | {"d": "D"}


def events_of_arrays(
    time_stamps: Any,
    letters: Any,
    names: Sequence[str],
    *,
    unit: str | None = None,
    seen: SeenNames,
    times: TimeReader,
) -> Events:
    """Return the events of an array of time-stamps and an array of letters.

    Args:
        time_stamps: integers or datetime64, of shape (n,).
        letters: a Boolean matrix of shape (n, atoms); or integers of shape (n,) whose bits, from
            the lowest, stand for the atoms; or a mapping of names to Boolean columns of shape (n,).
        names: the names of the matrix's columns or of the bits, or the columns to use of a mapping.
        unit: the unit to which datetime64 values are rounded down.
        seen: is told the names of columns.
        times: reads other times that are no integers.

    Raises:
        TraceError: the arrays have other types, shapes or values.
    """
    stamps = _time_stamps(time_stamps, unit, times)
    if isinstance(letters, Mapping):
        columns = [str(name) for name in letters]
        absent = seen.require(columns, "no column for", "The columns are")
        names = [name for name in names if name not in absent]
        return _rows(stamps, _matrix(letters, columns, names, len(stamps)), names)
    array = np.asarray(letters)
    if array.ndim == 1 and array.dtype.kind in "iu":
        _check_length(array, len(stamps), "letters")
        return _masked(stamps, array, names)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise TraceError(
            f"letters have the shape {array.shape} and the type {array.dtype}: they should be a "
            f"Boolean matrix with a column for each of {', '.join(names) or 'no atoms'}, or bit "
            "masks, integers of shape (n,)"
        )
    _check_length(array, len(stamps), "letters")
    if array.dtype.kind != "b":
        parts = [_truth(array[:, number], name) for number, name in enumerate(names)]
        array = np.column_stack(parts) if parts else np.zeros(array.shape, bool)
    return _rows(stamps, array, names)


def table_of(
    table: Any, subject: Subject, key: Sequence[str], spec: RunSpec, seen: SeenNames
) -> tuple[pa.Table, str]:
    """Return what a run reads of a table, and the name of the column of times there.

    Times are integers then, unless options say how they are read.

    Args:
        table: a data frame, Arrow table, structured array or mapping of columns.
        subject: a policy without variables.
        key: the columns of the key.
        spec: how the run reads the table.
        seen: is told the names of columns.

    Raises:
        TraceError: a column is missing, or its type, its length or a value is invalid.
    """
    import pyarrow as pa

    known, log, file = _column_names(table), spec.log, subject.file
    given = _times_of(table, log.time)
    atoms: Sequence[str] = subject.formula.atoms
    columns: Sequence[str] = ()
    if file is not None:
        from mtlmon.testing.conditions import needed

        atoms, columns = needed(file)
    event = log.event or (None if file is None else file.event)
    absent: list[str] = []
    if event is not None and event in known:
        # names in a column need no columns of their own
        atoms, columns = (), (*columns, event)
        seen.missing.difference_update(columns)
    else:
        names = [name for name in known if name != (log.time or TIME_COLUMN)]
        absent = seen.require(names, "no column for", "The columns are")
    time = (None if file is None else file.time) or DEFAULT_TIME
    if log.time_unit or log.time_format or log.time_zone or spec.times.resolution:
        stamps = _as_array(table, given, "the times")
    else:
        reader = TimeReader(subject.unit, subject.zone)
        stamps = _time_stamps(given, subject.unit, reader).tolist()
    count = len(stamps)
    arrays = {
        name: pa.array(
            np.zeros(count, bool) if name in absent else _matrix(table, known, [name], count)[:, 0]
        )
        for name in atoms
    }
    arrays |= columns_of(table, columns)
    arrays |= columns_of(table, key, "key=")
    for name in key:
        if arrays[name].null_count:
            row = arrays[name].is_null().index(True).as_py()
            raise TraceError(f"row {row} has no {name!r}, which is the key")
    try:
        arrays[time] = pa.array(stamps, pa.int64()) if isinstance(stamps, list) else stamps
        return pa.table(arrays), time
    except (pa.ArrowException, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise TraceError(f"the columns are no table: {reason}") from None


def _times_of(table: Any, time: str | Sequence[str] | None) -> Any:
    """The column of time-stamps: by default "time_stamp", or else the index of a pandas frame."""
    columns = _column_names(table)
    wanted = TIME_COLUMN if time is None else time
    if wanted in columns:
        return table[wanted]
    if time is None and hasattr(table, "index") and hasattr(table, "iloc"):
        return table.index
    raise TraceError(
        f"the table has no column {wanted!r} of time-stamps: name it with time=, one of "
        f"{', '.join(map(repr, columns))}"
    )


def arrow_of(table: Any) -> pa.Table:
    """Return a table as one of Arrow.

    Raises:
        TraceError: the columns are no table.
    """
    import pyarrow as pa

    names = getattr(getattr(table, "dtype", None), "names", None)
    if names is not None:
        table = {name: table[name] for name in names}
    if hasattr(table, "iloc"):
        return pa.Table.from_pandas(table, preserve_index=False)
    try:
        return pa.table(dict(table) if isinstance(table, Mapping) else table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TraceError(f"the columns are no table: {reason}") from None


def time_column(table: Any, given: str | Sequence[str] | None) -> str | Sequence[str] | None:
    """The column of time-stamps: the one that is given or else "time_stamp", if there is one."""
    return TIME_COLUMN if given is None and TIME_COLUMN in _column_names(table) else given


def columns_of(table: Any, names: Sequence[str], namer: str = "a condition") -> dict[str, pa.Array]:
    """Return columns of a table by their names.

    Args:
        table: the table.
        names: the names.
        namer: what names them, for messages.

    Raises:
        TraceError: a column is missing, or its values have no common type.
    """
    known = _column_names(table)
    columns: dict[str, pa.Array] = {}
    for name in names:
        if name not in known:
            raise TraceError(
                f"the table has no column {name!r}, which {namer} names"
                f"{did_you_mean(name, known)}; the columns are {', '.join(map(repr, known))}"
            )
        columns[name] = _as_array(table, table[name], f"column {name!r}")
    return columns


def _as_array(table: Any, column: Any, what: str) -> pa.Array:
    """Return a column of a table as one of Arrow; `what` it is, for messages."""
    import pyarrow as pa

    try:
        if isinstance(column, pa.ChunkedArray):
            return column.combine_chunks()
        if hasattr(column, "to_arrow"):
            return column.to_arrow()
        return pa.array(column, from_pandas=hasattr(table, "iloc"))
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TraceError(f"{what} has no type that can be used: {reason}") from None


def _column_names(table: Any) -> list[str]:
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None:
            return [str(name) for name in names]
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    return list(table.dtype.names)


def _matrix(
    table: Any, columns: Sequence[str], names: Sequence[str], rows: int
) -> NDArray[np.bool_]:
    absent = [name for name in names if name not in columns]
    if absent:
        raise TraceError(
            f"the table has no column {', '.join(map(repr, absent))}, which atoms= names"
            f"{did_you_mean(absent[0], columns)}; the columns are {', '.join(map(repr, columns))}"
        )
    matrix = np.zeros((rows, len(names)), dtype=bool)
    for number, name in enumerate(names):
        column = np.asarray(table[name])
        _check_length(column, rows, f"column {name!r}")
        matrix[:, number] = _truth(column, name)
    return matrix


def _check_length(array: NDArray[Any], rows: int, what: str) -> None:
    if len(array) != rows:
        raise TraceError(f"{what}: {len(array)} rows, but there are {rows} time-stamps")


def _truth(column: NDArray[Any], name: str) -> NDArray[np.bool_]:
    """Convert a column of truth values, which can also be 0 and 1."""
    if column.ndim != 1:
        raise TraceError(f"column {name!r} has the shape {column.shape}, and should have (n,)")
    if column.dtype.kind == "b":
        return column
    for row, value in enumerate(column.tolist()):
        if not (isinstance(value, (bool, int, float)) and value in (0, 1)):
            raise TraceError(f"column {name!r}, row {row}: {value!r} is neither true nor false")
    return column.astype(bool)


def _time_stamps(column: Any, unit: str | None, times: TimeReader) -> NDArray[Any]:
    """Convert time-stamps to integers; dates and times are counted in the unit from 1970."""
    if "datetime64[" in str(getattr(column, "dtype", "")) and hasattr(column, "to_numpy"):
        # Otherwise times with a time zone would become objects.
        column = column.to_numpy(dtype="datetime64[ns]")
    array = np.asarray(column)
    if array.ndim != 1:
        raise TraceError(f"time-stamps have the shape {array.shape}, and should have (n,)")
    if array.dtype.kind in "mM":
        return _counted(array, unit)
    if array.dtype.kind == "O" or array.dtype.kind not in "iu":
        stamps = []
        for row, value in enumerate(array.tolist()):
            stamp = value
            if not isinstance(value, int):
                try:
                    stamp = times.read(value)
                except (TimeStampError, EventTypeError) as error:
                    raise TraceError(f"the time-stamp of row {row} is {value!r}: {error}") from None
            if isinstance(value, bool) or not isinstance(stamp, int):
                raise TraceError(
                    f"the time-stamp of row {row} is {value!r}, which is not an integer"
                )
            stamps.append(stamp)
        array = np.array(stamps, object)
    return array


def _counted(array: NDArray[Any], unit: str | None) -> NDArray[Any]:
    if unit is None:
        raise TraceError("time-stamps that are dates need the unit to count in, as in unit='ms'")
    missing = np.flatnonzero(np.isnat(array))
    if len(missing):
        raise TraceError(f"the time-stamp of row {missing[0]} is missing (NaT)")
    kind = "datetime64" if array.dtype.kind == "M" else "timedelta64"
    return array.astype(f"{kind}[{_UNITS_OF_NUMPY[unit]}]").astype(np.int64)


def _masked(stamps: NDArray[Any], masks: NDArray[Any], names: Sequence[str]) -> Events:
    __tracebackhide__ = True
    # If all bits of the masks are used, they cannot be shifted by that many.
    spare = len(names) < 8 * masks.itemsize
    if spare and (masks >> len(names)).any():
        row = np.flatnonzero(masks >> len(names))[0]
        raise TraceError(
            f"the mask of row {row} is {masks[row]:#x}, but there are only {len(names)} atoms: "
            f"{', '.join(names)}"
        )
    letters = Letters(names)
    for first in range(0, len(stamps), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        for time_stamp, mask in zip(stamps[rows].tolist(), masks[rows].tolist(), strict=True):
            yield time_stamp, letters[mask]


def _rows(stamps: NDArray[Any], matrix: NDArray[np.bool_], names: Sequence[str]) -> Events:
    letters = Letters(names)
    for first in range(0, len(stamps), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        for time_stamp, mask in zip(stamps[rows].tolist(), _packed(matrix[rows]), strict=True):
            yield time_stamp, letters[mask]


def _packed(matrix: NDArray[np.bool_]) -> Iterator[int]:
    """Convert rows to bit masks; the first column is the lowest bit."""
    rows, columns = matrix.shape
    if columns == 0:
        return iter([0] * rows)
    octets = np.packbits(matrix, axis=1, bitorder="little")
    if columns > 64:
        return (int.from_bytes(row.tobytes(), "little") for row in octets)
    padded = np.zeros((rows, 8), dtype=np.uint8)
    padded[:, : octets.shape[1]] = octets
    return iter(padded.view("<u8").ravel().tolist())
