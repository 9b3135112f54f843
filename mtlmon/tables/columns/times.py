"""Read the times of rows: columns of any type in, exact time-stamps out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from mtlmon.arrays.texts import text_cells
from mtlmon.errors import MtlmonError
from mtlmon.support.option_names import PYTHON
from mtlmon.syntax.bounds import UNITS
from mtlmon.tables.columns.arrow_text import is_text, shown_value, text_array
from mtlmon.tables.columns.calendar_texts import YEAR_10000, calendar_texts
from mtlmon.tables.native import FAULTS, TimeFormat, TimeReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from mtlmon.support.option_names import OptionNames

_FAULT_NUMBER = {name: number for number, name in FAULTS.items()}
MISSING = _FAULT_NUMBER["missing"]
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_LARGEST = 2**63 - 1
# How many texts to examine to see whether times are numbers.
_TYPED_ROWS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Times:
    """Reads columns of times as time-stamps, whole numbers of units of a resolution since 1970.

    Numbers count units since 1970 if their unit is known; otherwise they are the time-stamps
    themselves, and must be whole. Texts are numbers, or times in ISO 8601 or in a format of
    `strptime`. Times without an offset are UTC, and so are columns of dates, and of timestamps
    without a time zone. A float represents the shortest decimal number that it is nearest to. A
    time between two time-stamps becomes the earlier one, as a clock shows the second that has
    begun.

    Args:
        unit: the unit of numbers: "s", "ms", "us" or "ns".
        format: "iso", "number" or a format such as `%d/%b/%Y:%H:%M:%S %z`; if not given, the first
            texts determine whether they are numbers or ISO 8601.
        resolution: a key of UNITS; if not given, it is the unit of numbers, and "s" for other
            times.

    Raises:
        MtlmonError: the unit or the format is unknown.
    """

    def __init__(
        self, unit: str | None = None, format: str | None = None, resolution: str | None = None
    ) -> None:
        for name, value in (("unit of time", unit), ("resolution", resolution)):
            if value is not None and value not in UNITS:
                raise MtlmonError(
                    f"no {name} is called {value!r}: choose one of {', '.join(UNITS)}"
                )
        self.unit = unit
        self.resolution = resolution
        self._notation: Literal["number", "iso"] | TimeFormat | None = None
        if format in ("iso", "number"):
            self._notation = "iso" if format == "iso" else "number"
        elif format is not None:
            try:
                self._notation = TimeFormat(format)
            except ValueError as error:
                raise MtlmonError(f"time format {format!r}: {error}") from None
        elif unit is not None:
            self._notation = "number"
        self._is_given = format is not None
        self._reader: TimeReader | None = None
        # reads the same texts as timestamps
        self._finer: Times | None = None
        self._is_number = self._notation == "number"

    def read(self, column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
        """The time-stamps of a column, with 0 for rows without one, and the errors in those rows.

        Returns:
            time-stamps, and faults as `message` takes them, 0 where nothing is wrong; None if
            nothing is wrong anywhere.

        Raises:
            MtlmonError: the column has a type without times.
        """
        kind = column.type
        if pa.types.is_null(kind):
            return _none(len(column))
        if pa.types.is_integer(kind) and not isinstance(self._notation, TimeFormat):
            self._is_number = True
            return self._integers(column, self._nanoseconds_of_number())
        if pa.types.is_timestamp(kind):
            return self._integers(column.view(pa.int64()), UNITS[kind.unit])
        if pa.types.is_date32(kind):
            days = column.view(pa.int32())
            return self._integers(days.cast(pa.int64()), UNITS["d"])
        if pa.types.is_date64(kind):
            return self._integers(column.view(pa.int64()), UNITS["ms"])
        is_number = (
            pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_integer(kind)
        )
        if not is_number and not is_text(kind):
            raise MtlmonError(
                f"there are no times in values of type {kind}: times are numbers, texts, dates or "
                "timestamps"
            )
        if is_number and self._notation is None:
            self._notation = "number"
        return self._texts(text_array(column))

    def message(
        self, column: pa.Array, place: int, fault: int, options: OptionNames = PYTHON
    ) -> str:
        """Say what is wrong with the time in a row, and what to do.

        options: how to write the options that may help.
        """
        if fault == MISSING:
            return "no time"
        shown = shown_value(column, place)
        name = FAULTS[fault]
        if name == "negative":
            return f"{shown} is below 0" if self._is_number else f"{shown} is before 1970"
        if name == "too large":
            unit = self.resolution or self.unit or (None if self._is_number else "s")
            return f"{shown} is above 2^63-1" + (f" in units of {unit}" if unit else "")
        if name == "fractional":
            return (
                f"{shown} is not a whole number: say what the numbers count and what time-stamps "
                f"are to count, for instance {options.written('time_unit', 's')} "
                f"{options.written('resolution', 'ms')}"
            )
        if self._notation == "iso":
            message = f"{shown} is not a time of ISO 8601, as 2024-05-01T12:30:00Z"
            option = None if self._is_given else options.written("time_format")
            return message if option is None else f"{message}; {option} says how times are written"
        if isinstance(self._notation, TimeFormat):
            return f"{shown} is not a time of the format {self._notation.text!r}"
        return f"{shown} is not a number"

    @property
    def known_unit(self) -> str | None:
        """The unit of the time-stamps, once a column has been read; None if it is not known."""
        return self.resolution or self.unit or (None if self._is_number else "s")

    @property
    def are_numbers(self) -> bool:
        """Whether the times of the columns that have been read are numbers."""
        return self._is_number

    def timestamps(self, column: pa.Array, kind: pa.TimestampType) -> pa.Array:
        """Convert texts that have been read, and are no numbers, to timestamps of Arrow."""
        if self._finer is None:
            self._finer = Times(resolution=kind.unit)
            self._finer._notation = self._notation
        values, _ = self._finer.read(column)
        return pa.array(values, kind)

    @property
    def is_plain(self) -> bool:
        """Whether the table has the time-stamps themselves: whole numbers in their own unit."""
        return self._is_number and (self.unit is None or self.resolution in (None, self.unit))

    def texts(self, time_stamps: Iterable[int]) -> list[str]:
        """Write time-stamps in the notation of the table; times that are not numbers are in UTC."""
        texts: list[str] = self.text_array(np.fromiter(time_stamps, np.int64)).to_pylist()
        return texts

    def text_array(self, time_stamps: NDArray[np.int64]) -> pa.Array:
        """Write time-stamps as `texts` does."""
        resolution = UNITS[self.resolution or self.unit or "s"]
        if not self._is_number and not isinstance(self._notation, TimeFormat):
            latest = min(_LARGEST, (YEAR_10000 * UNITS["s"] - 1) // resolution)
            if not (time_stamps > latest).any():
                return calendar_texts(time_stamps, resolution)
        distinct, places = np.unique(time_stamps, return_inverse=True)
        texts = [self._text(time_stamp, resolution) for time_stamp in distinct.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(places))

    def _text(self, time_stamp: int, resolution: int) -> str:
        if not self._is_number:
            format = self._notation.text if isinstance(self._notation, TimeFormat) else None
            return _calendar(time_stamp * resolution, format)
        if self.unit is None:
            return str(time_stamp)
        return _decimal(time_stamp * resolution, UNITS[self.unit])

    def _nanoseconds_of_number(self) -> int:
        return 0 if self.unit is None else UNITS[self.unit]

    def _scale(self, nanoseconds: int) -> tuple[int, int]:
        """The ratio of so many nanoseconds to the resolution; both 0 if it is not known."""
        if nanoseconds == 0:
            return 0, 0
        default = nanoseconds if self._is_number else UNITS["s"]
        resolution = default if self.resolution is None else UNITS[self.resolution]
        if nanoseconds >= resolution:
            return nanoseconds // resolution, 1
        return 1, resolution // nanoseconds

    def _integers(
        self, column: pa.Array, nanoseconds: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
        """Convert whole numbers of units of so many nanoseconds, 0 if that is not known."""
        faults = np.zeros(len(column), np.uint8)
        if column.null_count:
            faults[np.asarray(column.is_null())] = MISSING
            column = column.fill_null(0)
        if pa.types.is_uint64(column.type):
            values = np.asarray(column)
            faults[values > _LARGEST] = _FAULT_NUMBER["too large"]
            numbers = values.astype(np.int64)
        else:
            numbers = np.asarray(column).astype(np.int64, copy=False)
        faults[(numbers < 0) & (faults == 0)] = _FAULT_NUMBER["negative"]
        multiply, divide = self._scale(nanoseconds)
        if multiply > 1:
            faults[(numbers > _LARGEST // multiply) & (faults == 0)] = _FAULT_NUMBER["too large"]
        has_faults = bool(faults.any())
        if has_faults:
            numbers = np.where(faults, 0, numbers)
        if multiply > 1:
            numbers = numbers * multiply
        elif divide > 1:
            numbers = numbers // divide
        return numbers, faults if has_faults else None

    def _texts(self, column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
        if self._notation is None:
            self._notation = _notation_of(column)
            if self._notation is None:
                return _none(len(column))
        if self._reader is None:
            self._is_number = self._notation == "number"
            unit = self._nanoseconds_of_number() if self._is_number else UNITS["s"]
            self._reader = TimeReader(self._notation, *self._scale(unit))
        time_stamps = np.empty(len(column), np.int64)
        faults = np.empty(len(column), np.uint8)
        count = self._reader.read(text_cells(column), time_stamps, faults)
        return time_stamps, faults if count else None


def _none(count: int) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
    if not count:
        return np.zeros(0, np.int64), None
    return np.zeros(count, np.int64), np.full(count, MISSING, np.uint8)


def _notation_of(column: pa.Array) -> Literal["number", "iso"] | None:
    """The notation of most of the first texts; None if there is no text."""
    for first in range(0, len(column), _TYPED_ROWS):
        texts = [value.as_py() or "" for value in column[first : first + _TYPED_ROWS]]
        texts = [text for text in texts if text.strip()]
        if texts:
            numbers = sum(_NUMBER.fullmatch(text) is not None for text in texts)
            return "number" if 2 * numbers > len(texts) else "iso"
    return None


def _decimal(nanoseconds: int, unit: int) -> str:
    """Write a number of units, with as many digits after the point as necessary."""
    whole, rest = divmod(nanoseconds, unit)
    if not rest:
        return str(whole)
    return f"{Decimal(nanoseconds) / Decimal(unit):f}"


def _calendar(nanoseconds: int, format: str | None) -> str:
    """Write a time of day in UTC, in ISO 8601 if there is no format."""
    seconds, rest = divmod(nanoseconds, UNITS["s"])
    try:
        time = _EPOCH + timedelta(seconds=seconds, microseconds=rest // 1000)
    except OverflowError:
        return str(nanoseconds)
    if format is not None:
        return time.strftime(format)
    fraction = f"{rest:09}".rstrip("0")
    return time.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}Z" if fraction else "Z")
