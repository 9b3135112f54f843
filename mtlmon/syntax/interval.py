"""Closed intervals of natural numbers: how far a temporal operator looks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, NoReturn

MAXIMUM_BOUND = 2**63 - 1
"""The largest time-stamp, and so the largest bound of an interval."""


class Interval:
    """The natural numbers from `lower` to `upper`, both included; `upper` None is infinity.

    Bounds are counted in the time unit of the stream.

    Raises:
        ValueError: a bound is negative or above `MAXIMUM_BOUND`, or the interval is empty.
    """

    __slots__ = ("lower", "upper")

    FULL: ClassVar[Interval]
    lower: int
    upper: int | None

    def __init__(self, lower: int, upper: int | None) -> None:
        if not 0 <= lower <= MAXIMUM_BOUND:
            raise ValueError(f"a bound is an integer from 0 to 2^63-1, not {lower}")
        if upper is not None and not lower <= upper <= MAXIMUM_BOUND:
            raise ValueError(f"an upper bound is an integer from {lower} to 2^63-1, not {upper}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Interval is immutable, {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Interval is immutable, {name} cannot be deleted")

    @property
    def is_bounded(self) -> bool:
        """Whether there is a finite upper bound."""
        return self.upper is not None

    def __contains__(self, distance: int) -> bool:
        return self.lower <= distance and (self.upper is None or distance <= self.upper)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interval):
            return NotImplemented
        return self.lower == other.lower and self.upper == other.upper

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))

    def __reduce__(self) -> tuple[type[Interval], tuple[int, int | None]]:
        return Interval, (self.lower, self.upper)

    def __str__(self) -> str:
        return f"[{self.lower},*)" if self.upper is None else f"[{self.lower},{self.upper}]"

    def __repr__(self) -> str:
        return f"Interval({self.lower}, {self.upper})"


Interval.FULL = Interval(0, None)
