"""Arrays of verdicts: structured arrays of numpy, with one record per verdict.

>>> from mtlmon import Monitor
>>> monitor = Monitor("request IMPLIES EVENTUALLY[0,5] response")
>>> monitor.atoms
('request', 'response')
>>> verdicts = monitor.feed([1, 1, 3], {"request": [True, True, False], "response": [False] * 3})
>>> verdicts
<VerdictArray of 2 verdicts: 1:1 = 1:0, 3:0 true>
>>> verdicts += monitor.feed([4], [[False, True]])
>>> verdicts.time_stamp
array([1, 3, 1, 4])
>>> print(*verdicts[verdicts.kind == TRUE], sep=", ")
3:0 true, 1:0 true, 4:0 true
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from mtlmon.errors import MtlmonError
from mtlmon.support.extras import load_extra
from mtlmon.verdicts.native import verdicts_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from mtlmon._core import Verdict

__all__ = [
    "EQUIVALENT",
    "FALSE",
    "TRUE",
    "VerdictArray",
    "as_records",
    "in_time_point_order",
    "verdict_type",
]

FALSE, TRUE, EQUIVALENT = range(3)
"""The kinds of verdicts."""

_KINDS = ("false", "true", "equivalent")
# The number of verdicts that iteration creates at a time.
_CHUNK = 1024
# How many verdicts the representation of an array shows, and its table.
_SHOWN = 6
_SHOWN_ROWS = 20

# The fields and their largest values.
_FIELDS = {
    "time_stamp": 2**63 - 1,
    "offset": 2**64 - 1,
    "reference_time_stamp": 2**63 - 1,
    "reference_offset": 2**64 - 1,
    "kind": 2,
}


@cache
def verdict_type() -> np.dtype[np.void]:
    """The type of the records in verdict arrays.

    Fields: `time_stamp`, `offset`; `kind` (0 false, 1 true, 2 equivalent); `reference_time_stamp`
    and `reference_offset` of the earlier time-point, which are meaningful for kind 2 only.
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
    """A contiguous array of type `verdict_type()`: the given array if possible, else a copy.

    Raises:
        MtlmonError: the array is not one-dimensional, a field is missing or does not hold integers,
            or a value is out of range.
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


class VerdictArray:
    """Verdicts in the order in which a monitor produced them, at 40 bytes each.

    Indexing with an integer and iterating give `Verdict` objects. Slices, Boolean arrays and arrays
    of indices give arrays of verdicts, and `first + second` concatenates two arrays.

    Args:
        records: a one-dimensional array with the fields of `verdict_type()`.

    Attributes:
        records: the verdicts as a contiguous array of `verdict_type()`; `numpy.asarray` returns it
            too.
        time_stamp: an array of int64.
        offset: an array of uint64.
        kind: an array of uint8: FALSE, TRUE or EQUIVALENT.
        reference_time_stamp: an array of int64; in the arrays of monitors, it is 0 unless the kind
            is EQUIVALENT.
        reference_offset: an array of uint64; likewise.

    Raises:
        MtlmonError: `records` is not such an array.
    """

    __slots__ = ("records",)

    def __init__(self, records: NDArray[np.void]) -> None:
        self.records = as_records(records)

    @property
    def time_stamp(self) -> NDArray[np.int64]:
        return self.records["time_stamp"]

    @property
    def offset(self) -> NDArray[np.uint64]:
        return self.records["offset"]

    @property
    def kind(self) -> NDArray[np.uint8]:
        return self.records["kind"]

    @property
    def reference_time_stamp(self) -> NDArray[np.int64]:
        return self.records["reference_time_stamp"]

    @property
    def reference_offset(self) -> NDArray[np.uint64]:
        return self.records["reference_offset"]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Verdict]:
        for start in range(0, len(self), _CHUNK):
            yield from verdicts_of(self.records[start : start + _CHUNK])

    @overload
    def __getitem__(self, index: SupportsIndex) -> Verdict: ...
    @overload
    def __getitem__(self, index: slice | ArrayLike) -> VerdictArray: ...
    def __getitem__(self, index: Any) -> Any:
        chosen = self.records[index]
        if chosen.ndim:
            return VerdictArray(chosen)
        return verdicts_of(chosen.reshape(1))[0]

    def __add__(self, other: VerdictArray) -> VerdictArray:
        if not isinstance(other, VerdictArray):
            return NotImplemented
        both = np.zeros(len(self) + len(other), verdict_type())
        both[: len(self)] = self.records
        both[len(self) :] = other.records
        return VerdictArray(both)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VerdictArray):
            return NotImplemented
        return np.array_equal(self.records, other.records)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != self.records.dtype:
            if copy is False:
                raise ValueError(f"verdicts as {dtype} are a copy")
            return self.records.astype(dtype)
        return self.records.copy() if copy else self.records

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        capsules: tuple[object, object] = self.to_arrow().__arrow_c_array__(requested_schema)
        return capsules

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Convert to an Arrow record batch, with columns named like the fields.

        `kind` is a dictionary of the strings "false", "true" and "equivalent"; references are null
        where there is none.

        Raises:
            MtlmonError: pyarrow is not installed.
        """
        library = load_extra("pyarrow", "arrow")
        no_reference = self.kind != EQUIVALENT
        kind = library.DictionaryArray.from_arrays(
            library.array(self.kind.astype(np.int8)), library.array(_KINDS)
        )
        columns = {
            "time_stamp": library.array(self.time_stamp),
            "offset": library.array(self.offset.astype(np.int64)),
            "kind": kind,
            "reference_time_stamp": library.array(self.reference_time_stamp, mask=no_reference),
            "reference_offset": library.array(
                self.reference_offset.astype(np.int64), mask=no_reference
            ),
        }
        return library.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def to_pandas(self) -> pandas.DataFrame:
        """Convert to a data frame: `kind` is categorical, references are of type Int64 or NA.

        Raises:
            MtlmonError: pandas is not installed.
        """
        library = load_extra("pandas", "pandas")
        no_reference = self.kind != EQUIVALENT
        frame: pandas.DataFrame = library.DataFrame(
            {
                "time_stamp": self.time_stamp,
                "offset": self.offset.astype(np.int64),
                "kind": library.Categorical.from_codes(self.kind, list(_KINDS)),
                "reference_time_stamp": library.arrays.IntegerArray(
                    self.reference_time_stamp.copy(), no_reference
                ),
                "reference_offset": library.arrays.IntegerArray(
                    self.reference_offset.astype(np.int64), no_reference
                ),
            }
        )
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Convert to a data frame of Polars; references are null where there is none.

        Raises:
            MtlmonError: polars or pyarrow is not installed.
        """
        frame: polars.DataFrame = load_extra("polars", "polars").from_arrow(self.to_arrow())
        return frame

    def _repr_html_(self) -> str:
        """The first verdicts as a table, which notebooks show."""
        from mtlmon.support.html_tables import html_table

        count = len(self)
        note = f"{count:,} verdict{'' if count == 1 else 's'}"
        if count > _SHOWN_ROWS:
            note += f", of which {_SHOWN_ROWS} are shown"
        false = np.flatnonzero(self.records["kind"] == FALSE)
        if len(false):
            first = [str(self[place]).partition(" ")[0] for place in false[:_SHOWN].tolist()]
            more = ", ..." if len(false) > _SHOWN else ""
            note += f"; {len(false):,} violation{'' if len(false) == 1 else 's'}: "
            note += f"{', '.join(first)}{more}"
        rows = [str(one).partition(" ")[::2] for one in self[:_SHOWN_ROWS]]
        return html_table(("time-point", "verdict"), rows, note)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:_SHOWN]))
        more = ", ..." if len(self) > _SHOWN else ""
        return f"<VerdictArray of {len(self)} verdicts: {shown}{more}>"
