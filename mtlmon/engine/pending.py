"""Time-points that wait for their verdict, and how long they can."""

from __future__ import annotations

from mtlmon.engine.compile import OPERATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PendingTimePoint", "decision_delay"]


class PendingTimePoint(tuple[int, int]):
    """An undecided time-point: the pair (time_stamp, offset), and what is known about its wait.

    >>> import mtlmon
    >>> monitor = mtlmon.Monitor("EVENTUALLY[0,5] p")
    >>> monitor.step(3), monitor.step(3)
    ([], [<Verdict 3:1 = 3:0>])
    >>> [pending] = monitor.pending
    >>> pending
    <PendingTimePoint 3:0 until 8, for 2 time-points>
    >>> time_stamp, offset = pending
    >>> (time_stamp, offset), pending == (3, 0)
    ((3, 0), True)

    Attributes:
        until: it has its verdict as soon as time has passed this time-stamp, by a later event or
            by `advance`, and maybe earlier. None when it may wait without limit.
        weight: how many time-points have the answer this one will get: itself, and those that were
            reported as equivalent.
    """

    until: int | None
    weight: int

    def __new__(
        cls, time_stamp: int, offset: int, until: int | None, weight: int
    ) -> PendingTimePoint:
        pending = super().__new__(cls, (time_stamp, offset))
        pending.until = until
        pending.weight = weight
        return pending

    @property
    def time_stamp(self) -> int:
        return self[0]

    @property
    def offset(self) -> int:
        return self[1]

    def __getnewargs__(self) -> tuple[int, int, int | None, int]:
        return (self.time_stamp, self.offset, self.until, self.weight)

    def __repr__(self) -> str:
        until = "" if self.until is None else f" until {self.until}"
        others = "" if self.weight == 1 else f", for {self.weight} time-points"
        return f"<PendingTimePoint {self[0]}:{self[1]}{until}{others}>"


def decision_delay(
    rows: Sequence[tuple[int, int, int, int, int | None, int]], root: int
) -> int | None:
    """How long after a time-point its verdict may depend on the stream; None: without limit.

    `mtlmon.analysis.reach.decision_delay` of the formula that a program's rows stand for.
    """
    delays: list[int | None] = []
    for operation, left, right, lower, upper, _ in rows:
        delay = _maximum(delays[left >> 1] if delays else 0, delays[right >> 1] if delays else 0)
        name = OPERATIONS[operation]
        if name in ("NEXT", "UNTIL", "OUTER_UNTIL"):
            delay = None if delay is None or upper is None else delay + upper
        elif name in ("PREVIOUS", "SINCE"):
            looked_at = left if name == "PREVIOUS" else right
            past = delays[looked_at >> 1]
            if past is not None:
                past = max(0, past - lower)
            delay = past if name == "PREVIOUS" else _maximum(delays[left >> 1], past)
        delays.append(delay)
    return delays[root >> 1]


def _maximum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)
