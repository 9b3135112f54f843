"""Let time pass for a log that brings nothing: its clock follows that of the machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mtlmon.cli.failure import Failure
from mtlmon.cli.pump import Pump
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from typing import Protocol

    from mtlmon.cli.files import VerdictFile
    from mtlmon.cli.pump import Work
    from mtlmon.cli.report import Progress
    from mtlmon.cli.signals import Signals
    from mtlmon.syntax.durations import Duration
    from mtlmon.tables.columns.times import Times

    class TimedWork(Work, Protocol):
        """Work for which time can pass without an event."""

        @property
        def known_time(self) -> int | None:
            """No event is below this time; None before the first event, and if none is wanted."""

        @property
        def times(self) -> Times | None:
            """The notation of times of tables; None for a text log."""

        def pass_time(self, time_stamp: int) -> None:
            """Declare that no later event is below a time, which is above the known one."""


__all__ = ["IdlePump"]

# How often time passes while a log is silent, in seconds.
STEP = 0.25


class IdlePump(Pump):
    """A pump that lets time pass while the log brings nothing.

    Args:
        work: the log and its monitors.
        verdicts: the file for the verdicts.
        signals: the signals that can interrupt the run.
        progress: shows how far the run has come.
        idle: for how long the log must be silent; time then passes up to so long ago.
        unit: the unit of the time-stamps of a text log, or None if it is not declared.
    """

    def __init__(
        self,
        work: TimedWork,
        verdicts: VerdictFile,
        signals: Signals,
        progress: Progress,
        idle: Duration,
        unit: str | None,
    ) -> None:
        super().__init__(work, verdicts, signals, progress)
        self.timed = work
        self.idle = idle
        self.unit = unit

    def wait_for_log(self, descriptor: int) -> None:
        seconds = self.idle.nanoseconds / UNITS["s"]
        while not self.signals.wait(descriptor, seconds):
            self.pass_time()
            self.flush()
            seconds = min(STEP, seconds)

    def pass_time(self) -> None:
        """Let time pass up to the present, less the time that the log has been silent for.

        Raises:
            Failure: the unit of the time-stamps is not known.
        """
        known = self.timed.known_time
        if known is None:
            return
        times = self.timed.times
        if times is None:
            unit, option = self.unit, "--unit"
        else:
            unit, option = times.known_unit, "--time-unit"
        if unit is None:
            raise Failure(
                "--idle needs the unit of the time-stamps, which count from 1970: add "
                f"{option} s, for instance"
            )
        time_stamp = (time.time_ns() - self.idle.nanoseconds) // UNITS[unit]
        if time_stamp > known:
            self.timed.pass_time(time_stamp)
