"""Time-points that wait for their verdict, and how long they can wait."""

from __future__ import annotations

from mtlmon.engine.compile import OPERATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PendingTimePoint", "decision_delay", "looks_ahead"]


class PendingTimePoint(tuple[int, int]):
    """An undecided time-point: the pair (time_stamp, offset), with information about its wait.

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
        until: the verdict comes at the latest when time has passed this time-stamp, through a later
            event or `advance`. None if there is no limit.
        weight: the number of time-points that will get this time-point's verdict: itself, and those
            that were reported as equivalent.
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
    """How long after a time-point its verdict may depend on the stream; None means no limit.

    This is `mtlmon.analysis.reach.decision_delay` for the formula of a program's rows.
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


def looks_ahead(rows: Sequence[tuple[int, int, int, int, int | None, int]]) -> bool:
    """Whether a verdict may wait for later events, or for time to pass."""
    return any(OPERATIONS[operation] in ("NEXT", "UNTIL", "OUTER_UNTIL") for operation, *_ in rows)


def _maximum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)
