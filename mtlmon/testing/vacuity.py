"""Finds out whether the left side of an implication held anywhere in a trace."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from mtlmon._core import Monitor
from mtlmon.analysis.antecedent import antecedent_of, is_vacuity_wanted, vacuous_text
from mtlmon.errors import VacuousError, VacuousWarning
from mtlmon.support.stack_levels import levels_inside
from mtlmon.testing.recording import Recording
from mtlmon.testing.report import hints

if TYPE_CHECKING:
    from collections.abc import Collection

    from mtlmon.analysis.antecedent import Vacuous
    from mtlmon.policy.limits import Triggered
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.recording import EndTime
    from mtlmon.testing.recordings import Recordings

__all__ = ["LeftSide", "left_side"]


class LeftSide:
    """The left side of an implication, monitored until it holds for any key.

    Args:
        recordings: the recordings of the implication.
        formula: the left side.
        vacuous: what to do if it never holds.
        counts: whether to count how often it holds, for a policy `at most 1%`.

    Attributes:
        has_held: whether it has held so far.
    """

    def __init__(
        self, recordings: Recordings, formula: Formula | str, vacuous: Vacuous, *, counts: bool
    ) -> None:
        self.recordings = recordings
        self.formula = formula
        self.vacuous = vacuous
        self.counts = counts
        self.has_held = False
        self._monitors: dict[int, Monitor] = {}

    def step(self, time_stamp: int, atoms: Collection[str], number: int = 0) -> None:
        """Process an event of a key, which the recording has accepted."""
        if self.has_held and not self.counts:
            return
        monitor = self._monitors.get(number)
        if monitor is None:
            monitor = self._monitors[number] = Monitor(self.formula)
        monitor.step(time_stamp, atoms)
        self._note(monitor)

    def finish(self, end_time: EndTime) -> None:
        """End the trace."""
        is_closed = self.recordings.first.at_end == "closed"
        for monitor in list(self._monitors.values()):
            # all keys share one clock
            monitor.advance(self.recordings.clock)
            monitor.finish("inf" if is_closed else end_time)
            self._note(monitor)

    def share_of(self, violated: int, total: int) -> tuple[int, int]:
        """Say how many violations a share is of, and of how many.

        Args:
            violated: the number of violated time-points.
            total: the number of all time-points.

        Returns:
            For an implication, the time-points at which its left side holds are counted. If
            operators such as ALWAYS are around it, these are all time-points.
        """
        if not self.counts:
            return violated, total
        return violated, sum(one.counters["true"] for one in self._monitors.values())

    def _note(self, monitor: Monitor) -> None:
        if monitor.counters["true"]:
            self.has_held = True
            if not self.counts:
                self._monitors.clear()

    @property
    def is_failure(self) -> bool:
        """Whether the left side has held nowhere, and that is an error."""
        return self.vacuous == "error" and not self.has_held

    def failure(self, place: tuple[str, int] | None = None) -> VacuousError | None:
        """Warn, or return an error, if the left side has held nowhere.

        Args:
            place: the file and line that a warning is about; by default, the line that called the
                package.
        """
        __tracebackhide__ = True
        if self.has_held or self.vacuous == "ignore":
            return None
        recordings = self.recordings
        formula = recordings.subject.formula
        message = vacuous_text(str(formula), self.formula, recordings.event_count)
        if self.vacuous == "error":
            text = "\n\n".join([message, *hints(recordings.first.seen)])
            return VacuousError(text, formula=formula)
        if place is None:
            warnings.warn(message, VacuousWarning, stacklevel=levels_inside())
        else:
            warnings.warn_explicit(message, VacuousWarning, *place)
        return None


class LeftSideOfRows(LeftSide):
    """The left side of a policy with variables, whose matches the engine of the policy counts."""

    def step(self, time_stamp: int, atoms: Collection[str], number: int = 0) -> None:
        """Do nothing: the recording has processed the event."""

    def finish(self, end_time: EndTime) -> None:
        """Find out whether it has held, once the recording has ended."""
        self.has_held = any(one.times for one in self._matched.values())

    def share_of(self, violated: int, total: int) -> tuple[int, int]:
        """Say how many violations a share is of, and of how many: of valuations if they count."""
        for one in self._matched.values():
            if one.is_own:
                return one.violated, one.times
        return violated, total

    @property
    def _matched(self) -> dict[int, Triggered]:
        recording = self.recordings.first
        assert not isinstance(recording, Recording)
        return recording.matched


def left_side(recordings: Recordings, vacuous: Vacuous) -> LeftSide | None:
    """Return what monitors the left side; None if the formula has none, or nobody asks.

    Raises:
        MtlmonError: `vacuous` is unknown, or the left side of a policy with variables cannot be
            evaluated by itself.
    """
    __tracebackhide__ = True
    is_wanted = is_vacuity_wanted(vacuous)
    has_share = recordings.subject.has_share
    if not is_wanted and not has_share:
        return None
    first = recordings.first
    if not isinstance(first, Recording):
        formula = first.left_side(f"vacuous={vacuous!r}" if is_wanted else None)
        if formula is None:
            return None
        return LeftSideOfRows(recordings, formula, vacuous, counts=has_share)
    antecedent = antecedent_of(recordings.subject.formula)
    if antecedent is None:
        return None
    counts = has_share and antecedent.is_own
    return LeftSide(recordings, antecedent.formula, vacuous, counts=counts)
