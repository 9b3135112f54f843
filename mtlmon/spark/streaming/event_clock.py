"""Converts between time-stamps and the clock of a streaming query, which counts milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError, UnitError
from mtlmon.syntax.bounds import UNITS, read_bound
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.durations import Duration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MILLISECOND = UNITS["ms"]
_LARGEST_TIME_STAMP = 2**63 - 1

LARGEST_MILLISECOND = (2**63 - 1) // 1000
"""The largest that fits into a timestamp of Spark, which counts microseconds."""


class EventClock(NamedTuple):
    """Converts between time-stamps and the milliseconds of a watermark, monotonically.

    Attributes:
        multiply: the number of milliseconds in a time-stamp, or 1.
        divide: the number of time-stamps in a millisecond, or 1.
    """

    multiply: int
    divide: int

    @classmethod
    def of_unit(cls, unit: str | None) -> EventClock:
        """Make the clock for time-stamps in a unit; if it is None, they are milliseconds."""
        length = _MILLISECOND if unit is None else UNITS[unit]
        return cls(max(1, length // _MILLISECOND), max(1, _MILLISECOND // length))

    def milliseconds(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert time-stamps to the milliseconds that contain them, or that they begin with.

        Raises:
            MtlmonError: a time-stamp is later than the times that Spark can represent.
        """
        if self.divide > 1:
            return time_stamps // self.divide
        latest = int(time_stamps.max(initial=0))
        if latest > LARGEST_MILLISECOND // self.multiply:
            raise MtlmonError(
                f"time-stamp {latest} is later than a streaming query can tell: say what its unit "
                "is (`unit` in the policy file, resolution)"
            )
        return time_stamps * self.multiply

    def horizon(self, watermark: int) -> int:
        """Return the time-stamp that contains a watermark; events below it are late."""
        return min(_LARGEST_TIME_STAMP, watermark // self.multiply * self.divide)

    def timer(self, time_stamp: int) -> int | None:
        """Return the least watermark whose horizon is at least a time-stamp, or None."""
        milliseconds = -(-time_stamp // self.divide) * self.multiply
        return milliseconds if milliseconds <= LARGEST_MILLISECOND else None

    def delay(self, delay: int | str, unit: str | None, name: str = "delay") -> int:
        """Convert a length of time to milliseconds, rounded up to whole time-stamps.

        Args:
            delay: a number of time-stamps, or a text with a unit of time ("90s"), as for bounds.
            unit: the unit of the time-stamps.
            name: what the length is, for errors.

        Raises:
            FormulaError: the text is not a length of time.
            UnitError: the text has a unit, but the time-stamps have none.
            MtlmonError: the length is negative, or neither an integer nor a text.
        """
        if isinstance(delay, bool) or not isinstance(delay, int | str):
            raise MtlmonError(
                f"the {name} is a number of time-stamps, such as 5, or a text with a unit, such as "
                f"'90s', not {delay!r}"
            )
        bound = read_bound(Cursor(delay, f"<{name}>")) if isinstance(delay, str) else delay
        if isinstance(bound, Duration):
            if unit is None:
                raise UnitError(
                    f"the {name} {bound} has a unit of time and the time-stamps have none: declare "
                    f"it (`unit` in the policy file, resolution), or give the {name} as a number"
                )
            return -(-bound.nanoseconds // (_MILLISECOND * self.multiply)) * self.multiply
        if bound < 0:
            raise MtlmonError(f"the {name} is {bound}, which is negative")
        return -(-bound * self.multiply // self.divide)
