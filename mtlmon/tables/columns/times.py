"""Read the times of rows: columns of any type in, exact time-stamps out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.texts import text_cells
from mtlmon.errors import MtlmonError
from mtlmon.support.option_names import PYTHON
from mtlmon.support.time_zones import offsets_at, read_time_zone
from mtlmon.syntax.bounds import UNITS
from mtlmon.tables.columns.arrow_text import is_text, shown_value, text_array
from mtlmon.tables.columns.calendar_texts import YEAR_10000, calendar_texts
from mtlmon.tables.native import FAULTS, TimeFormat, TimeReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from mtlmon.support.option_names import OptionNames
    from mtlmon.support.time_zones import TimeZone

_FAULT_NUMBER = {name: number for number, name in FAULTS.items()}
MISSING = _FAULT_NUMBER["missing"]
_NUMBER = r"(?a)\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*"
_LARGEST = 2**63 - 1
# How many texts are looked at at once to see whether times are numbers.
_TYPED_ROWS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = UNITS["h"]
ANY_ORDER = 2**62
"""How many seconds rows may come late that come in any order."""
# The units in which what is below a time-stamp is counted, 10^-14 seconds, in a nanosecond.
_PARTS = 100_000


class ReadTimes(NamedTuple):
    """The times of a column.

    Attributes:
        time_stamps: the time-stamps, with 0 for rows without one.
        faults: what is wrong with each row, as `Times.message` takes it, 0 where nothing is wrong;
            None if nothing is wrong anywhere.
        rests: what is left of each time behind its time-stamp, in units of 10^-14 seconds, so that
            rows of one time-stamp can be put in order; None if nothing is left of any.
    """

    time_stamps: NDArray[np.int64]
    faults: NDArray[np.uint8] | None
    rests: NDArray[np.int64] | None = None


class Times:
    """Reads columns of times as time-stamps, whole numbers of units of a resolution since 1970.

    Numbers count units since 1970 if their unit is known; otherwise they are the time-stamps
    themselves, and must be whole. Texts are numbers, or times in ISO 8601 or in a format of
    `strptime`. Times without an offset are UTC, and so are columns of dates, and of timestamps
    without a time zone; only for texts can another zone be given. A float represents the shortest
    decimal number that it is nearest to. A time between two time-stamps becomes the earlier one, as
    a clock shows the second that has begun.

    Texts without a year or a day are of the first one until the rows step back by more than half a
    year, or half a day: then they go on in the next one. So columns are read in the order of rows.

    Args:
        unit: the unit of numbers: "s", "ms", "us" or "ns".
        format: "iso", "number" or a format such as `%d/%b/%Y:%H:%M:%S %z`; if not given, the first
            text that is a time determines whether all are numbers or ISO 8601. Behind a format
            without years, `:2024` is the year of the first row.
        resolution: a key of UNITS; if not given, it is the unit of numbers, and "s" for other
            times.
        zone: the time zone of texts without an offset, as for `read_time_zone`; None for UTC.
        disorder: how many seconds rows may come late; None if their order means nothing. Times of
            an hour that occurs twice are told apart by the order of rows.

    Raises:
        MtlmonError: the unit, the format or the zone is unknown.
    """

    def __init__(
        self,
        unit: str | None = None,
        format: str | None = None,
        resolution: str | None = None,
        zone: str | None = None,
        disorder: int | None = 0,
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
        self._zone = None if zone is None else read_time_zone(zone)
        self._disorder = disorder
        if self._zone is not None and isinstance(self._notation, TimeFormat):
            self._require_dates(self._notation)
        self._reader: TimeReader | None = None
        # reads the same texts as timestamps
        self._finer: Times | None = None
        self._is_number = self._notation == "number"

    def _require_dates(self, format: TimeFormat) -> None:
        """Require that a format tells when clocks are changed."""
        missing, mend = "day", "leave the time zone out"
        if format.has_date:
            missing = "year"
            mend = f"write the year of the first row behind it, as in '{format.text}:2024'"
        if not (format.has_date and format.has_year) and not format.first_year:
            raise MtlmonError(
                f"time format {format.text!r} has no {missing}, so it is not known when clocks are "
                f"changed in {self._zone}: {mend}"
            )

    def read(self, column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
        """The time-stamps of a column, with 0 for rows without one, and the errors in those rows.

        Returns:
            time-stamps, and faults as `message` takes them, 0 where nothing is wrong; None if
            nothing is wrong anywhere.

        Raises:
            MtlmonError: the column has a type without times.
        """
        return self.read_exactly(column)[:2]

    def read_exactly(self, column: pa.Array) -> ReadTimes:
        """The time-stamps of a column as `read` returns them, and the remainders of the times.

        Raises:
            MtlmonError: the column has a type without times.
        """
        kind = column.type
        if pa.types.is_null(kind):
            return _none(len(column))
        if pa.types.is_integer(kind) and self._notation in (None, "number"):
            self._notation = "number"
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
        if name == "leap day":
            assert isinstance(self._notation, TimeFormat)
            if self._notation.first_year or self._notation.has_year:
                return f"{shown} does not exist: its year is not a leap year"
            year = options.written("time_format", f"{self._notation.text}:2024")
            if self._notation.or_iso:
                year = "syslog:2024"
            return (
                f"{shown} is a day of a leap year, and times have no year: say in which year the "
                f"log begins, as in {year}"
            )
        if name in ("skipped", "repeated"):
            assert self._zone is not None
            if name == "skipped":
                return f"{shown} does not exist in {self._zone.name}: clocks are put forward there"
            zone = options.written("time_zone", f"{self._zone.name} first")
            return (
                f"{shown} occurs twice in {self._zone.name}, as clocks are put back, and the rows "
                f"have no order: say which one is meant, as in {zone}"
            )
        if name == "fractional":
            return (
                f"{shown} is not a whole number: say what the numbers count and what time-stamps "
                f"are to count, for instance {options.written('time_unit', 's')} "
                f"{options.written('resolution', 'ms')}"
            )
        if self._notation in (None, "iso"):
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
    def has_zone(self) -> bool:
        """Whether texts without an offset are in another time zone than UTC."""
        return self._zone is not None

    @property
    def depend_on_rows(self) -> bool:
        """Whether what a time means depends on the times before it.

        That is so if times have no year or no day, and in the hour that occurs twice. It is not
        known before the first time.
        """
        return self._zone is not None or self._notation not in ("number", "iso")

    def state(self) -> list[object]:
        """Return how times are written, by the rows so far, for `restore`; JSON can write it.

        Raises:
            MtlmonError: what a time means depends on the times before it.
        """
        if self._zone is not None or isinstance(self._notation, TimeFormat):
            raise MtlmonError(
                "no snapshot where the meaning of a time may depend on the rows before: give times "
                "as datetime objects or numbers, without time_zone and time_format"
            )
        return [self._notation, self._is_number]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        self._notation, self._is_number = state

    def of_another(self, unit: str) -> Times:
        """Return a reader for another column of times of ISO 8601 in the same time zone."""
        found = Times(None, "iso", unit, disorder=ANY_ORDER)
        found._zone = self._zone
        return found

    def alike(self) -> Times:
        """Return a reader for another column of times that are written alike, in any order."""
        found = Times(self.unit, None, self.resolution, disorder=ANY_ORDER)
        found._notation, found._is_number = self._notation, self._is_number
        found._zone = self._zone
        return found

    @property
    def cycles(self) -> tuple[str, int]:
        """The part that times lack, "year" or "day", and how often the next one began."""
        if self._reader is None or not isinstance(self._notation, TimeFormat):
            return "", 0
        return "year" if self._notation.has_date else "day", self._reader.steps

    @property
    def repeated(self) -> tuple[str, int, int]:
        """How many times were in an hour that occurs twice, and in the second one, by their order.

        The zone comes first.
        """
        if self._reader is None or self._zone is None or self._zone.repeated is not None:
            return "", 0, 0
        return self._zone.name, self._reader.doubtful, self._reader.second_hours

    def may_be_repeated(self, later: int, earlier: int) -> bool:
        """Whether rows may step back because clocks are put back, and are not out of order.

        Args:
            later: the time-stamp of a row.
            earlier: a smaller time-stamp of a row behind it.
        """
        unit = UNITS[self.known_unit or "s"]
        if self._reader is None or (later - earlier) * unit > _HOUR:
            return False
        if self._zone is not None:
            return self._zone.repeated is not None and self._reader.doubtful > 0
        # As a rule, clocks are put back at night.
        return self._reader.has_local and later * unit % UNITS["d"] < 4 * _HOUR

    @property
    def finer_unit(self) -> str:
        """A unit of time-stamps that is finer than the present one."""
        units = list(UNITS)
        return units[max(0, units.index(self.known_unit or "ns") - 1)]

    @property
    def are_numbers(self) -> bool:
        """Whether the times of the columns that have been read are numbers."""
        return self._is_number

    def timestamps(self, column: pa.Array, kind: pa.TimestampType) -> pa.Array:
        """Convert texts that have been read, and are no numbers, to timestamps of Arrow."""
        if self._finer is None:
            self._finer = Times(resolution=kind.unit, disorder=self._disorder)
            self._finer._notation = self._notation
            self._finer._zone = self._zone
        return pa.array(self._finer.read(column)[0], kind)

    @property
    def is_plain(self) -> bool:
        """Whether the table has the time-stamps themselves: whole numbers in their own unit."""
        return self._is_number and (self.unit is None or self.resolution in (None, self.unit))

    def texts(self, time_stamps: Iterable[int]) -> list[str]:
        """Write time-stamps in the notation of the table; times that are not numbers are in UTC."""
        texts: list[str] = self.text_array(np.fromiter(time_stamps, np.int64)).to_pylist()
        return texts

    def local_texts(self, time_stamps: Iterable[int]) -> list[str]:
        """Write time-stamps for people: those of ISO 8601 in the time zone of the table, if given.

        They have an offset then, as in `2024-05-01T10:30:00+02:00`; others are as in `texts`.
        """
        if self._zone is None or self._is_number or self._format is not None:
            return self.texts(time_stamps)
        resolution = UNITS[self.resolution or self.unit or "s"]
        return [_local(time_stamp * resolution, self._zone) for time_stamp in time_stamps]

    def text_array(self, time_stamps: NDArray[np.int64]) -> pa.Array:
        """Write time-stamps as `texts` does."""
        resolution = UNITS[self.resolution or self.unit or "s"]
        if not self._is_number and self._format is None:
            latest = min(_LARGEST, (YEAR_10000 * UNITS["s"] - 1) // resolution)
            if not (time_stamps > latest).any():
                return calendar_texts(time_stamps, resolution)
        distinct, places = np.unique(time_stamps, return_inverse=True)
        texts = [self._text(time_stamp, resolution) for time_stamp in distinct.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(places))

    @property
    def _format(self) -> str | None:
        """The format in which times are written; None for ISO 8601 and numbers."""
        if not isinstance(self._notation, TimeFormat) or self._notation.or_iso:
            return None
        return self._notation.text

    def _text(self, time_stamp: int, resolution: int) -> str:
        if not self._is_number:
            return _calendar(time_stamp * resolution, self._format, self._zone)
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

    def _integers(self, column: pa.Array, nanoseconds: int) -> ReadTimes:
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
        rests = None
        if multiply > 1:
            numbers = numbers * multiply
        elif divide > 1:
            whole = numbers // divide
            rests = (numbers - whole * divide) * (nanoseconds * _PARTS)
            numbers = whole
            rests = rests if rests.any() else None
        return ReadTimes(numbers, faults if has_faults else None, rests)

    def _texts(self, column: pa.Array) -> ReadTimes:
        if self._notation is None:
            self._notation = _notation_of(column)
            if self._notation is None:
                # later rows may have times
                return Times(None, "iso", disorder=ANY_ORDER).read_exactly(column)
        if self._reader is None:
            self._is_number = self._notation == "number"
            unit = self._nanoseconds_of_number() if self._is_number else UNITS["s"]
            self._reader = TimeReader(
                self._notation,
                *self._scale(unit),
                unit,
                None if self._zone is None else partial(offsets_at, self._zone.name),
                self._repeated,
                self._disorder or 0,
            )
        time_stamps = np.empty(len(column), np.int64)
        faults = np.empty(len(column), np.uint8)
        # PERF: zeros that are not written take no memory
        rests = np.zeros(len(column), np.int64)
        count, has_rests = self._reader.read(text_cells(column), time_stamps, faults, rests)
        return ReadTimes(time_stamps, faults if count else None, rests if has_rests else None)

    @property
    def _repeated(self) -> Literal["first", "second", "order", "neither"]:
        """Which one of two hours with the same local times is meant, for the reader."""
        if self._zone is not None and self._zone.repeated is not None:
            return "first" if self._zone.repeated == "first" else "second"
        return "neither" if self._disorder is None else "order"


def _none(count: int) -> ReadTimes:
    if not count:
        return ReadTimes(np.zeros(0, np.int64), None)
    return ReadTimes(np.zeros(count, np.int64), np.full(count, MISSING, np.uint8))


def _notation_of(column: pa.Array) -> Literal["number", "iso"] | None:
    """The notation of the first text that is a time, whatever is behind it; None if there is none.

    So it does not depend on how many rows there are when a log begins.
    """
    for first in range(0, len(column), _TYPED_ROWS):
        part = column[first : first + _TYPED_ROWS]
        faults = Times(None, "iso", disorder=ANY_ORDER).read(part)[1]
        for place, value in enumerate(part):
            if re.fullmatch(_NUMBER, value.as_py() or "") is not None:
                return "number"
            if faults is None or not faults[place]:
                return "iso"
    return None


def _decimal(nanoseconds: int, unit: int) -> str:
    """Write a number of units, with as many digits after the point as necessary."""
    whole, rest = divmod(nanoseconds, unit)
    if not rest:
        return str(whole)
    return f"{Decimal(nanoseconds) / Decimal(unit):f}"


def _local(nanoseconds: int, zone: TimeZone) -> str:
    """Write a time in ISO 8601 and in a time zone; in UTC if it is too late for zones."""
    from zoneinfo import ZoneInfo

    seconds, rest = divmod(nanoseconds, UNITS["s"])
    try:
        time = (_EPOCH + timedelta(seconds=seconds)).astimezone(ZoneInfo(zone.name))
    except OverflowError:
        return _calendar(nanoseconds, None, None)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    offset = time.strftime("%z")
    return f"{time:%Y-%m-%dT%H:%M:%S}{fraction}{offset[:3]}:{offset[3:5]}"


def _calendar(nanoseconds: int, format: str | None, zone: TimeZone | None) -> str:
    """Write a time in a format, in its time zone, or in ISO 8601 and in UTC without a format."""
    seconds, rest = divmod(nanoseconds, UNITS["s"])
    try:
        time = _EPOCH + timedelta(seconds=seconds, microseconds=rest // 1000)
    except OverflowError:
        return str(nanoseconds)
    if format is not None:
        if zone is not None:
            from zoneinfo import ZoneInfo

            time = time.astimezone(ZoneInfo(zone.name))
        fraction = f".{time.microsecond:06}" if time.microsecond else ""
        return time.strftime(format.replace("%.f", fraction))
    fraction = f"{rest:09}".rstrip("0")
    return time.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}Z" if fraction else "Z")
