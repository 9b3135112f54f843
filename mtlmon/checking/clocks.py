"""The time-points of policies with periods in units of time, and the time after a log."""

from __future__ import annotations

from mtlmon.engine.native import clock_at_end
from mtlmon.errors import MtlmonError
from mtlmon.policy.definitions import Clock
from mtlmon.support.lean_typing import cast
from mtlmon.support.refusals import refused
from mtlmon.syntax.durations import Duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from mtlmon.policy import Policy
    from mtlmon.policy.predicates.time_points import When

    EndTime = int | Literal["last", "inf"] | None

__all__ = [
    "atoms_of_partitions",
    "atoms_read",
    "clock_of",
    "end_time_of_all",
    "period_of",
    "refuse_waiting",
    "tick_period",
    "when_of",
]


# PERF: that of `time_points`, for which text logs would import ten modules that they do not need
_ROWS = 0


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


def when_of(clock: Clock | None) -> When:
    """Return at which rows or ticks a policy has time-points; rows that do not wait are 0."""
    period = None if clock is None else clock.period
    assert not isinstance(period, Duration)
    return _ROWS if period is None else cast("When", period)


def atoms_read(own_atoms: Iterable[Iterable[str]], policies: Iterable[Policy]) -> list[list[str]]:
    """Return the atoms that monitors read.

    Those on which no verdict depends, as in `p OR true`, are among them: rows wait for what their
    policy reads, and explanations show it.

    Args:
        own_atoms: for each monitor, the atoms on which its verdicts depend.
        policies: the policies of the first monitors.
    """
    found = [list(names) for names in own_atoms]
    for names, policy in zip(found, policies, strict=False):
        names.extend(policy.formula.atoms)
    return found


def atoms_of_partitions(
    count: int, monitors: Iterable[tuple[int, Clock | None, Iterable[str]]]
) -> list[dict[When, list[str]]]:
    """Return the atoms that are needed of each partition: at rows under 0, at ticks by period.

    Args:
        count: how many partitions there are.
        monitors: the number of the partition of each monitor, its time-points, and its atoms.
    """
    atoms: list[dict[When, dict[str, None]]] = [{} for _ in range(count)]
    for partition, clock, names in monitors:
        chosen_by = [] if clock is None or clock.atom is None else [clock.atom]
        needed = atoms[partition].setdefault(when_of(clock), {})
        needed.update(dict.fromkeys([*names, *chosen_by]))
    return [{when: list(some) for when, some in one.items()} for one in atoms]


def tick_period(clock: Clock | None) -> int | None:
    """Return the period of a policy's ticks for `PolicyMonitors.run_ticks`: 0 for changes."""
    if clock is None or not clock.has_ticks:
        return None
    return period_of(clock) or 0


def refuse_waiting(*, advances: bool) -> None:
    """Refuse what needs rows in the order of time, where rows wait for later values."""
    if advances:
        raise MtlmonError(refused("next, advance"))


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
