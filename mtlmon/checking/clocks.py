"""The time-points of policies with periods in units of time, and the time after a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mtlmon.engine.native import clock_at_end
from mtlmon.errors import MtlmonError
from mtlmon.policy.definitions import Clock
from mtlmon.support.refusals import refused

if TYPE_CHECKING:
    from mtlmon.policy import Policy
    from mtlmon.policy.predicates.time_points import Changes

    EndTime = int | Literal["last", "inf"] | None

__all__ = [
    "clock_of",
    "end_time_of_all",
    "period_of",
    "refuse_waiting",
    "tick_period",
    "ticks_of",
]


def clock_of(policy: Policy) -> Clock | None:
    """Return the time-points of a policy, with a period in units of time; None for all rows.

    Raises:
        FormulaError: the period has a unit, but that of the time-stamps is not known.
    """
    clock = policy.clock
    if clock is None or not clock.has_ticks or isinstance(clock.period, int):
        return clock
    from mtlmon.policy.predicates.time_points import when_in_units

    assert clock.period is not None
    return Clock(period=when_in_units(clock.period, None))


def period_of(clock: Clock | None) -> int | None:
    """Return the period of a policy's ticks, in units of time; None if it has none."""
    period = None if clock is None else clock.period
    return period if isinstance(period, int) else None


def ticks_of(clock: Clock | None) -> int | Changes | None:
    """Return the period of a policy's ticks, or the changes that they are; None if it has none."""
    from mtlmon.policy.predicates.time_points import Changes

    period = None if clock is None else clock.period
    return period if isinstance(period, int | Changes) else None


def tick_period(clock: Clock | None) -> int | None:
    """Return the period of a policy's ticks for `PolicyMonitors.run_ticks`: 0 for changes."""
    if clock is None or not clock.has_ticks:
        return None
    return period_of(clock) or 0


def refuse_waiting(verdicts: str, *, advances: bool) -> None:
    """Refuse what needs rows in the order of time, where rows wait for later values."""
    if advances:
        raise MtlmonError(refused("next, advance"))
    if verdicts == "first":
        raise MtlmonError(refused("next, first"))


def end_time_of_all(clock: int, end_time: EndTime) -> int | Literal["inf"] | None:
    """Return what is known about the time after every trace of a log.

    Args:
        clock: the last time-stamp of the log.
        end_time: what is known about the time after the log.

    Returns:
        The time up to which no more events come, "inf", or None if nothing is known.
    """
    following = clock_at_end(clock, end_time)
    if following is None:
        return "inf"
    return following - 1 if following else None
