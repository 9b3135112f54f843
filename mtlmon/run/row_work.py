"""Move text logs of rows through a check of policies with variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mtlmon.checking.computed_rows import ComputedRows
from mtlmon.errors import MtlmonError
from mtlmon.relational.input.native import DEFAULT_POINTS, RowScanner
from mtlmon.run.pump import Pump, TextWork
from mtlmon.run.relation_readers import last_origins

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.run.files import LogFile, VerdictFile
    from mtlmon.run.host import Progress, Signals
    from mtlmon.run.pump import EndTime
    from mtlmon.run.relations import Check
    from mtlmon.run.spec import RunSpec

__all__ = ["KeptRows", "PassingTime", "RowLoop", "RowSource", "RowWork", "row_pump"]


class RowSource(Protocol):
    """Reads a log of rows from blocks into time-points of an engine."""

    @property
    def point_count(self) -> int: ...
    def load(self, block: memoryview) -> None: ...
    def load_end(self) -> None: ...
    def unload(self) -> None: ...
    def read(self, most: int = ...) -> bool: ...


class KeptRows(Protocol):
    """Reads a log of rows so that another process can go on; see `RowScanner`."""

    @property
    def position(self) -> int: ...
    @property
    def is_settled(self) -> bool: ...
    def snapshot(self) -> bytes: ...
    def restore(self, snapshot: bytes, /) -> None: ...


class RowLoop:
    """A loop that reads blocks of a log of rows, as `TextWork` drives it.

    Args:
        rows: reads the rows.
        check: takes the time-points.
        most_points: how many time-points are read at once.
        assumptions: tells which assumptions the log breaks; None if nothing is assumed.
    """

    def __init__(
        self,
        rows: RowSource,
        check: Check,
        most_points: int = DEFAULT_POINTS,
        assumptions: AssumptionWatch | None = None,
    ) -> None:
        self.assumptions = assumptions
        self.rows = rows
        self.check = check
        self.most_points = most_points
        self.writer = check.output.writer
        self.load = rows.load
        self.load_end = rows.load_end
        self.unload = rows.unload

    @property
    def is_stopped(self) -> bool:
        return self.check.run.is_stopped

    @property
    def event_count(self) -> int:
        return self.rows.point_count

    def run(self) -> bool:
        """Read and check some time-points of the block; return whether there is more to do."""
        try:
            more = self.rows.read(self.most_points)
        except MtlmonError:
            # what comes before is written first
            self.check.run.settle()
            raise
        if self.check.point_rows is not None and isinstance(self.rows, RowScanner | ComputedRows):
            self.check.point_rows.add(None, last_origins(self.rows))
        if self.assumptions is not None:
            for message in self.assumptions.note_times(self.check.engine.points.time_stamps()):
                self.check.options.host.note(message)
        self.check.run.advance()
        self.check.forget_rows()
        return more and not self.is_stopped

    def end(self, end_time: EndTime = None) -> None:
        """End the log."""
        self.check.run.end(end_time)


class RowWork(TextWork):
    """Moves a log of rows through a check.

    Args:
        loop: reads and checks the log.
        log: the open log.
    """

    def __init__(self, loop: RowLoop, log: LogFile) -> None:
        super().__init__(loop, log)
        self.output = loop.check.output

    def finish(self) -> None:
        """Write the end of the file to the writer."""
        self.output.close()


class PassingTime:
    """Lets time pass without rows for the check of a text log; a part of such work.

    Attributes:
        check: the check.
        log: the open log.
        scanner: what reads the rows.
    """

    times = None
    check: Check
    log: LogFile
    scanner: RowScanner | ComputedRows

    @property
    def known_time(self) -> int | None:
        run = self.check.run
        return None if run.is_stopped or not run.point_count else run.clock

    @property
    def has_late_rows(self) -> bool:
        return self.log.order is not None and self.log.order.lines.has_lines

    def release(self, time_stamp: int) -> bool:
        order = self.log.order
        if order is None:
            return False
        order.lines.pass_time(time_stamp)
        return order.lines.is_ready

    def pass_time(self, time_stamp: int) -> None:
        self.check.run.pass_time(time_stamp)
        self.scanner.lines.pass_time(time_stamp)


class TimedRowWork(PassingTime, RowWork):
    """Moves a text log of rows through a check, for which time can pass without rows.

    Args:
        loop: reads and checks the log.
        log: the open log.
        rows: what reads the log in the loop.
    """

    def __init__(self, loop: RowLoop, log: LogFile, rows: RowScanner | ComputedRows) -> None:
        super().__init__(loop, log)
        self.check = loop.check
        self.scanner = rows


def row_pump(
    loop: RowLoop,
    log: LogFile,
    rows: KeptRows,
    verdicts: VerdictFile,
    signals: Signals,
    progress: Progress,
    options: RunSpec,
    again: Callable[[], RowEvents] | None = None,
) -> tuple[RowWork, Pump]:
    """Return what moves a text log through a check, with checkpoints if the options ask for them.

    `again` returns what reads the log once more for computed atoms.

    Raises:
        RunError: the files are not suitable for checkpoints.
    """
    if (
        options.checkpoint.path is None
        and options.times.idle is not None
        and isinstance(rows, RowScanner | ComputedRows)
    ):
        from mtlmon.run.idle import IdlePump

        timed = TimedRowWork(loop, log, rows)
        return timed, IdlePump(
            timed, verdicts, signals, progress, options.times.idle, options.times.unit
        )
    if options.checkpoint.path is None and options.log.given is None:
        work = RowWork(loop, log)
        return work, Pump(work, verdicts, signals, progress)
    from mtlmon.run.checkpointing import CheckpointingPump
    from mtlmon.run.relation_checkpoints import CheckpointedRows, TimedCheckpointedRows

    if options.passes_time and isinstance(rows, RowScanner | ComputedRows):
        from mtlmon.run.idle import IdleCheckpointingPump

        both = TimedCheckpointedRows(loop, log, rows, options, again)
        if options.log.given is not None:
            return both, Pump(both, verdicts, signals, progress)
        return both, IdleCheckpointingPump(both, verdicts, signals, progress, options)
    kept = CheckpointedRows(loop, log, rows, options, again)
    return kept, CheckpointingPump(kept, verdicts, signals, progress, options)
