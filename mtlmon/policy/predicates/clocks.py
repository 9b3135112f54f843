"""Hours, days and the like of times, in a time zone."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.environment import UTC
from mtlmon.policy.predicates.numbers import from_numpy, to_numpy
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.numbers import Numbers, Values
    from mtlmon.policy.predicates.operators import Operator

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_SECOND, _DAY = UNITS["s"], UNITS["d"] // UNITS["s"]
_EPOCH = date(1970, 1, 1).toordinal()
# The seconds since 1970 of the years that a `date` can have.
_FIRST = (date.min.toordinal() - _EPOCH) * _DAY
_LAST = (date.max.toordinal() - _EPOCH + 1) * _DAY - 1


def is_zone(name: str) -> bool:
    """Whether there is a time zone of that name, such as Europe/Berlin."""
    try:
        pc.hour(pa.array([0], pa.timestamp("s", name)))
    except (pa.ArrowInvalid, KeyError):
        return False
    return True


def read_clock(operator: Operator, values: Values, kind: Kind, zone: str) -> Values:
    """Compute a function of `TIME_FUNCTIONS`.

    Args:
        operator: the function.
        values: integers that count units since 1970.
        kind: their kind, which has the unit.
        zone: the time zone; dates are the same days everywhere.

    Raises:
        pa.ArrowInvalid: a time is not in the years 1 to 9999.
    """
    seconds = _seconds(to_numpy(values), kind.unit)
    _require_years(seconds)
    if zone != UTC and not kind.is_date:
        there = pa.array(seconds).cast(pa.timestamp("s", zone))
        seconds = to_numpy(pc.local_timestamp(there).cast(pa.int64()))
        _require_years(seconds)
    # PERF: np.divmod takes ten times as long
    days = seconds // _DAY
    time = seconds - days * _DAY
    if operator is ops.HOUR:
        return from_numpy(time // 3600, values)
    if operator is ops.MINUTE:
        return from_numpy(_minute(time), values)
    if operator is ops.WEEKDAY:
        # 1970 began on a Thursday
        weeks = (days + 3) // 7
        return pc.take(pa.array(WEEKDAYS), from_numpy(days + 3 - weeks * 7, values))
    if operator is ops.DATE:
        encoded = from_numpy(days, values).dictionary_encode()
        dates = [date.fromordinal(_EPOCH + day) for day in encoded.dictionary.to_pylist()]
        return pc.take(pa.array([day.isoformat() for day in dates], pa.string()), encoded.indices)
    return pc.if_else(pc.is_valid(values), _times_of_day(time), pa.scalar(None, pa.string()))


def difference(left: Values, right: Values, units: tuple[int, int], wanted: int) -> Values:
    """Compute the difference of times, rounded towards zero to whole units.

    Args:
        left: integers that count units since 1970.
        right: integers that count units since 1970.
        units: the units of both, in nanoseconds.
        wanted: the unit of the result.

    Raises:
        pa.ArrowInvalid: a result does not fit into 64 bits in the finest of the units.
    """
    finest = min(*units, wanted)
    scaled = (scale(side, unit // finest) for side, unit in zip((left, right), units, strict=True))
    return pc.divide(pc.subtract_checked(*scaled), wanted // finest)


def scale(values: Values, factor: int) -> Values:
    """Multiply integers by a constant.

    Raises:
        pa.ArrowInvalid: a result does not fit into 64 bits.
    """
    return values if factor == 1 else pc.multiply_checked(values, pa.scalar(factor, pa.int64()))


def _seconds(values: Numbers, unit: int) -> Numbers:
    """The seconds that have begun."""
    if unit < _SECOND:
        return values // (_SECOND // unit)
    # outside of these years, any product will do
    factor = unit // _SECOND
    return np.clip(values, _FIRST // factor - 1, _LAST // factor + 1) * factor


def _require_years(seconds: Numbers) -> None:
    if len(seconds) and (seconds.min() < _FIRST or seconds.max() > _LAST):
        raise pa.ArrowInvalid("a time is not in the years 1 to 9999")


def _minute(time: Numbers) -> Numbers:
    minutes: Numbers = time // 60
    minutes -= minutes // 60 * 60
    return minutes


def _times_of_day(time: Numbers) -> pa.StringArray:
    """Write seconds of a day as 08:30:00."""
    characters = np.full((len(time), 8), ord(":"), np.uint8)
    seconds = time - time // 60 * 60
    for place, number in ((0, time // 3600), (3, _minute(time)), (6, seconds)):
        tens = number // 10
        characters[:, place] = ord("0") + tens
        characters[:, place + 1] = ord("0") + number - tens * 10
    ends = np.arange(0, 8 * len(time) + 1, 8, dtype=np.int32)
    return pa.StringArray.from_buffers(len(time), pa.py_buffer(ends), pa.py_buffer(characters))
