"""Arrays of verdicts: structured arrays of numpy, one record a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_records", "in_time_point_order", "verdict_type"]

# The fields and their largest values.
_FIELDS = {
    "time_stamp": 2**63 - 1,
    "offset": 2**64 - 1,
    "reference_time_stamp": 2**63 - 1,
    "reference_offset": 2**64 - 1,
    "kind": 2,
}


def verdict_type() -> np.dtype[np.void]:
    """The type of verdict arrays.

    Fields: `time_stamp`, `offset`; `kind` (0 false, 1 true, 2 equivalent); `reference_time_stamp`
    and `reference_offset` of the earlier time-point, which mean something for kind 2 only.
    """
    return np.dtype(
        {
            "names": list(_FIELDS),
            "formats": ["i8", "u8", "i8", "u8", "u1"],
            "offsets": [0, 8, 16, 24, 32],
            "itemsize": 40,
        }
    )


def as_records(verdicts: NDArray[np.void]) -> NDArray[np.void]:
    """A contiguous array of type `verdict_type()`, the same one where it can be.

    Raises:
        MtlmonError: it is not one-dimensional, or a field is missing, holds no integers or one
            that is out of range.
    """
    array = np.asarray(verdicts)
    names = array.dtype.names or ()
    missing = [name for name in _FIELDS if name not in names]
    if missing or array.ndim != 1:
        raise MtlmonError(
            f"verdicts are a one-dimensional array with the fields {', '.join(_FIELDS)}; "
            f"this one has {array.ndim} dimensions and the fields {', '.join(names) or 'none'}"
        )
    if array.dtype == verdict_type():
        return np.ascontiguousarray(array)
    records = np.zeros(len(array), verdict_type())
    for name in _FIELDS:
        if array.dtype[name].kind not in "iu":
            raise MtlmonError(f"the field {name} holds {array.dtype[name]}, not integers")
        _check_range(name, array[name])
        records[name] = array[name]
    return records


def in_time_point_order(verdicts: NDArray[np.void]) -> NDArray[np.void]:
    """The verdicts, sorted by time-stamp and offset."""
    return verdicts[np.lexsort((verdicts["offset"], verdicts["time_stamp"]))]


def _check_range(name: str, column: NDArray[np.integer]) -> None:
    largest = _FIELDS[name]
    if len(column) == 0 or (int(column.min()) >= 0 and int(column.max()) <= largest):
        return
    for index, value in enumerate(column.tolist()):
        if not 0 <= value <= largest:
            raise MtlmonError(
                f"verdict {index} of the array: {name} {value} is not from 0 to {largest}"
            )
