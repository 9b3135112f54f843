"""Time-stamps on the clock of a streaming query, which counts milliseconds."""

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
"""The last one that fits into a timestamp of Spark's, which counts microseconds."""


class EventClock(NamedTuple):
    """How time-stamps and the milliseconds of a watermark go together.

    Milliseconds never decrease where time-stamps do not. A millisecond is `divide` time-stamps or,
    if that is 1, a time-stamp is `multiply` milliseconds.
    """

    multiply: int
    divide: int

    @classmethod
    def of_unit(cls, unit: str | None) -> EventClock:
        """The clock of time-stamps in a unit; where none is known a time-stamp is a millisecond."""
        length = _MILLISECOND if unit is None else UNITS[unit]
        return cls(max(1, length // _MILLISECOND), max(1, _MILLISECOND // length))

    def milliseconds(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The milliseconds that time-stamps are in, or begin with.

        Raises:
            MtlmonError: one is later than what Spark can tell.
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
        """The time-stamp that a watermark is in: no event below it is in time."""
        return min(_LARGEST_TIME_STAMP, watermark // self.multiply * self.divide)

    def timer(self, time_stamp: int) -> int | None:
        """The least watermark with a horizon of at least so much; None if there is none."""
        milliseconds = -(-time_stamp // self.divide) * self.multiply
        return milliseconds if milliseconds <= LARGEST_MILLISECOND else None

    def delay(self, delay: int | str, unit: str | None) -> int:
        """A length of time in milliseconds, rounded up to whole time-stamps.

        Args:
            delay: as many time-stamps, or a text with a unit of time ("90s"), as bounds have it.
            unit: of the time-stamps.

        Raises:
            FormulaError: the text is no length of time.
            UnitError: it has a unit and the time-stamps have none.
            MtlmonError: it is negative.
        """
        bound = read_bound(Cursor(delay, "<delay>")) if isinstance(delay, str) else delay
        if isinstance(bound, Duration):
            if unit is None:
                raise UnitError(
                    f"the delay {bound} has a unit of time and the time-stamps have none: declare "
                    "it (`unit` in the policy file, resolution), or give the delay as a number"
                )
            return -(-bound.nanoseconds // (_MILLISECOND * self.multiply)) * self.multiply
        if bound < 0:
            raise MtlmonError(f"the delay is {bound}, which is negative")
        return -(-bound * self.multiply // self.divide)
