"""Let time pass for a log that brings nothing: its clock follows that of the machine.

The pump does not wait for a pipe without limit. It feeds the ticks up to a time, lets all monitors
advance to it (`LogCheck.pass_time`), and tells the source that earlier rows come too late. The
reader of the pipe waits meanwhile, so nothing is between two rows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mtlmon.run.checkpointing import CheckpointingPump
from mtlmon.run.failure import RunError
from mtlmon.run.pump import Pump
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from typing import Protocol

    from mtlmon.run.checkpointing import CheckpointedWork
    from mtlmon.run.files import VerdictFile
    from mtlmon.run.host import Progress, Signals
    from mtlmon.run.pump import Work
    from mtlmon.run.spec import RunSpec
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

        @property
        def has_late_rows(self) -> bool:
            """Whether rows wait for others that come late."""

        def release(self, time_stamp: int) -> bool:
            """Declare that rows below a time come too late; return whether others can be read now.

            Rows that the work can check without reading are checked at once.
            """

    class TimedCheckpointedWork(TimedWork, CheckpointedWork, Protocol):
        """Such work that can stop, and continue in another process."""


__all__ = ["IdleCheckpointingPump", "IdlePump"]

# How often time passes while a log is silent, in seconds.
STEP = 0.25


class IdleClock:
    """Lets time pass for the work on a log, as far as the machine's clock says so.

    Args:
        work: the log and its monitors.
        idle: for how long the log must be silent; time then passes up to so long ago.
        unit: the unit of the time-stamps of a text log, or None if it is not declared.

    Attributes:
        seconds: for how long the log must be silent at first.
        step: the seconds between two steps of time after that.
    """

    def __init__(self, work: TimedWork, idle: Duration, unit: str | None) -> None:
        self.timed = work
        self.idle = idle
        self.unit = unit
        self.seconds = idle.nanoseconds / UNITS["s"]
        self.step = min(STEP, self.seconds)

    def pass_time(self) -> bool:
        """Let time pass up to the present, less the time that the log has been silent for.

        Returns:
            Whether rows that waited for others can be read now. Then time passes after them.

        Raises:
            RunError: the unit of the time-stamps is not known.
        """
        if self.timed.known_time is None and not self.timed.has_late_rows:
            return False
        times = self.timed.times
        if times is None:
            unit, option = self.unit, "--unit"
        else:
            unit, option = times.known_unit, "--time-unit"
        if unit is None:
            raise RunError(
                "--idle needs the unit of the time-stamps, which count from 1970: add "
                f"{option} s, for instance"
            )
        time_stamp = (time.time_ns() - self.idle.nanoseconds) // UNITS[unit]
        if self.timed.release(time_stamp):
            return True
        known = self.timed.known_time
        if known is not None and time_stamp > known:
            self.timed.pass_time(time_stamp)
        return False


class IdlePump(Pump):
    """A pump that lets time pass while the log brings nothing.

    Args:
        work: the log and its monitors.
        verdicts: the file for the verdicts.
        signals: the signals that can interrupt the run.
        progress: shows how far the run has come.
        idle: for how long the log must be silent, as for `IdleClock`.
        unit: likewise.
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
        self.clock = IdleClock(work, idle, unit)
        # whether the log has been silent until rows were read that waited for others
        self.is_silent = False

    def wait_for_log(self, descriptor: int) -> None:
        seconds = self.clock.step if self.is_silent else self.clock.seconds
        self.is_silent = False
        while not self.signals.wait(descriptor, seconds):
            if self.clock.pass_time():
                self.is_silent = True
                return
            self.flush()
            seconds = self.clock.step


class IdleCheckpointingPump(CheckpointingPump):
    """A pump that writes checkpoints, and lets time pass while the log brings nothing.

    Checkpoints are of what events have decided, never of what time alone has: a checkpoint comes
    before time passes, and the next one after an event. So a run that continues lets time pass
    anew, beginning at the last event. Only where rows wait for others are those that time has
    released part of a checkpoint, which has the time, then.

    Args:
        work: the log and its monitors.
        verdicts: the file for the verdicts.
        signals: the signals that can interrupt the run.
        progress: shows how far the run has come.
        options: the options of the run.
    """

    def __init__(
        self,
        work: TimedCheckpointedWork,
        verdicts: VerdictFile,
        signals: Signals,
        progress: Progress,
        options: RunSpec,
    ) -> None:
        super().__init__(work, verdicts, signals, progress, options)
        assert options.times.idle is not None
        self.clock = IdleClock(work, options.times.idle, options.times.unit)
        # whether the log has been silent until rows were read that waited for others
        self.is_silent = False

    def wait_for_log(self, descriptor: int) -> None:
        if not self.is_open:
            # The events up to the checkpoint, which are read again, have had their time.
            super().wait_for_log(descriptor)
            return
        idle_at = time.monotonic() + (self.clock.step if self.is_silent else self.clock.seconds)
        self.is_silent = False
        while True:
            silence, checkpoint = max(0.0, idle_at - time.monotonic()), self.seconds_left()
            seconds = silence if checkpoint is None else min(silence, checkpoint)
            if self.signals.wait(descriptor, seconds):
                return
            if time.monotonic() < idle_at:
                self.write_checkpoint()
                self.note_checkpoint()
                continue
            if self.checkpointed.position != self.noted_position:
                self.write_checkpoint()
            if self.clock.pass_time():
                self.is_silent = True
                return
            if self.checkpointed.time_order is None:
                # where a time-stamp is a time-point, time ends the last one: its rows count as
                # checked
                self.noted_position = self.checkpointed.position
            self.flush()
            idle_at = time.monotonic() + self.clock.step
