"""What the engine says about each time-point of a recorded trace."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from mtlmon._core import Monitor

if TYPE_CHECKING:
    from mtlmon.explanation.trace import Trace
    from mtlmon.syntax.formula import Formula

__all__ = ["engine_values"]


def engine_values(formula: Formula, trace: Trace) -> list[bool | None]:
    """Return the value of a formula at each position of a trace; None where it is undecided.

    The engine also compares undecided subformulas with each other, so that it decides
    `EVENTUALLY p OR NOT EVENTUALLY p`, of which there is no proof.
    """
    monitor = Monitor(formula, "naive")
    verdicts = list(monitor(zip(trace.time_stamps, trace.letters, strict=True)))
    verdicts += monitor.finish("inf") if trace.is_closed else monitor.advance(trace.clock)
    values: list[bool | None] = [None] * len(trace)
    for verdict in verdicts:
        first = bisect_left(trace.time_stamps, verdict.time_stamp)
        values[first + verdict.offset] = verdict.value
    return values
