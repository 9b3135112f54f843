"""Monitor a log with checkpoints, and continue from a checkpoint.

A checkpoint records how much of the log has been monitored, the state of the monitors after that
part, and the size of its verdicts. The run first synchronizes the verdicts to disk; then it writes
the checkpoint. A run that continues from the checkpoint truncates the verdicts to that size. So no
verdict is lost and none comes twice, whenever the previous process was killed. The checkpoint
contains the edges of these verdicts and the place of their file. So a run truncates only the file
that the verdicts were written to; any other file must be a copy that ends with them.

The last line or row may lack a line feed. The run writes the last checkpoint before it, and before
the end time takes effect, because both may change when the log grows.

The pump handles signals between two pieces of work, so that it can write a last checkpoint. If a
piece of work takes too long, the signal interrupts it, and the previous checkpoint remains the last
one.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from mtlmon.errors import SnapshotError
from mtlmon.run.checkpoint import (
    AFRESH,
    Checkpoint,
    CheckpointFile,
    LogMark,
    Place,
    sync_directory,
)
from mtlmon.run.failure import RunError, WriteFailure
from mtlmon.run.host import HELD_SECONDS
from mtlmon.run.pump import Pump
from mtlmon.run.read_parts import FileEdges, LogDiffers, LogEnds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from mtlmon.run.files import VerdictFile
    from mtlmon.run.host import Progress, Signals
    from mtlmon.run.pump import Work
    from mtlmon.run.spec import RunSpec

    class TimeOrder(Protocol):
        """What puts rows into the order of time."""

        def passed_time(self) -> Sequence[Any] | None:
            """Return how time has passed without rows, for `pass_again`; None if it has not."""

        def pass_again(self, count: int, time_stamp: int, refused: list[int], /) -> None:
            """Let time pass as it did before when the first rows were read, which come again."""

    class CheckpointedWork(Work, Protocol):
        """Work that can stop, and continue in another process.

        Attributes:
            name: the name of the log in messages.
            passed_before: time had passed up to here in an earlier run.
        """

        name: str
        passed_before: int

        @property
        def time_order(self) -> TimeOrder | None:
            """What puts rows into the order of time, and refuses some; None if nothing does."""

        @property
        def logs(self) -> Iterable[os.stat_result]:
            """The status of the log's files."""

        @property
        def position(self) -> int:
            """How much of the log has been monitored, in this and all earlier runs."""

        @property
        def amount(self) -> str:
            """The position in words."""

        @property
        def is_settled(self) -> bool:
            """Whether `snapshot` can be called."""

        def settle(self) -> bool:
            """Take a step towards a snapshot; return whether more steps are needed."""

        def log_mark(self) -> LogMark:
            """Return how the log up to the position is known again."""

        def snapshot(self) -> bytes:
            """Return the state of the monitors at the position as bytes."""

        def restore(self, snapshot: bytes, output_size: int) -> None:
            """Continue from the snapshot of an earlier run that has written `output_size` bytes.

            Raises:
                SnapshotError: the snapshot does not fit this run.
            """

        def skip(self, mark: LogMark) -> Iterator[None]:
            """Go to the position of the snapshot in the log; yield now and then.

            Args:
                mark: how the log up to there is known again.

            Raises:
                LogEnds: the log is shorter than that.
                LogDiffers: it has other bytes or events up to there.
                SnapshotError: the snapshot does not fit what has been read.
            """

        def work_in_small_steps(self, events: int) -> None:
            """Yield after about this many events."""


__all__ = ["CheckpointingPump"]

DEFAULT_INTERVAL = ("seconds", 10.0)


class CheckpointingPump(Pump):
    """A pump that writes checkpoints and can continue from one.

    Args:
        work: the log and its monitors.
        verdicts: the file for the verdicts.
        signals: the signals that can interrupt the run.
        progress: shows how far the run has come.
        options: the options of the command line.

    Raises:
        RunError: the files are not suitable for checkpoints.
    """

    def __init__(
        self,
        work: CheckpointedWork,
        verdicts: VerdictFile,
        signals: Signals,
        progress: Progress,
        options: RunSpec,
    ) -> None:
        super().__init__(work, verdicts, signals, progress)
        self.checkpointed = work
        assert options.checkpoint.path is not None
        self.file = CheckpointFile(options.checkpoint.path)
        self.resumes = options.checkpoint.resume
        self.unit, self.interval = options.checkpoint.every or DEFAULT_INTERVAL
        if self.unit == "events":
            work.work_in_small_steps(int(self.interval))
        self.output_edges = FileEdges(verdicts.read_at)
        self.place_of_output = Place.of(verdicts.descriptor, verdicts.name)
        # how many bytes of verdicts are known to be on disk
        self.synced_size = 0
        # Whether checkpoints can be written: from the start of the work to the end of the log.
        self.is_open = False
        try:
            self.check_files(options)
        except RunError:
            verdicts.discard_new()
            verdicts.abandon()
            raise

    def release(self) -> None:
        super().release()
        self.file.close()

    # ---- the beginning ---------------------------------------------------------------------

    def check_files(self, options: RunSpec) -> None:
        """Check that the verdicts and the checkpoint go to two files on disk; lock the verdicts.

        The lock ends with the run or the process, however they end.

        Raises:
            RunError: a file is not suitable, or another process writes the verdicts.
            WriteFailure: the file for the verdicts cannot be locked.
        """
        path = self.file.path
        used = [
            options.output.path,
            *options.policies.files,
            options.reporting.explain_output,
            *options.log.paths,
            options.log.follow,
        ]
        if any(other and os.path.realpath(other) == path for other in used) or (
            os.path.exists(path)
            and any(os.path.samestat(os.stat(path), log) for log in self.checkpointed.logs)
        ):
            raise RunError(
                f"{self.file.name} cannot hold the checkpoint: this run uses it for something else"
            )
        if not stat.S_ISREG(os.fstat(self.verdicts.descriptor).st_mode):
            raise RunError(
                f"{self.verdicts.name} is not a regular file, and --checkpoint needs one"
            )
        try:
            fcntl.flock(self.verdicts.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another process is writing {self.verdicts.name}") from None
        except OSError as error:
            raise WriteFailure(f"cannot lock {self.verdicts.name}: {error.strerror}") from None

    def begin(self) -> None:
        """Continue from the checkpoint if the options say so and there is one; else start afresh.

        Raises:
            RunError: the checkpoint does not fit; no file has changed.
        """
        try:
            self.file.lock()
            checkpoint = self.file.read() if self.resumes else None
            if checkpoint is None:
                # If no checkpoint can be written, fail now, while nothing is lost.
                self.file.write(self.make_checkpoint(0))
            else:
                self.check_fit(checkpoint)
        except BaseException:
            self.verdicts.discard_new()
            raise
        self.verdicts.cut(0 if checkpoint is None else checkpoint.verdicts.size)
        self.sync_name_of_verdicts()
        self.note_checkpoint()
        self.is_open = True

    def sync_name_of_verdicts(self) -> None:
        """Make sure that a new file for verdicts survives a crash, as checkpoints depend on it."""
        try:
            sync_directory(self.verdicts.name)
        except OSError as error:
            raise WriteFailure(f"cannot write {self.verdicts.name}: {error.strerror}") from None

    def check_fit(self, checkpoint: Checkpoint) -> None:
        """Restore the work from the checkpoint, and compare the log and output; change no file.

        Raises:
            RunError: the checkpoint does not fit the run, the log or the output.
        """
        work = self.checkpointed
        try:
            work.restore(checkpoint.snapshot, checkpoint.verdicts.size)
        except SnapshotError as error:
            raise self.cannot_resume(str(error)) from None
        self.events_before = work.event_count
        self.check_output(checkpoint)
        if (passed := checkpoint.log.passed) is not None:
            if work.time_order is None:
                raise self.cannot_resume("it was made with --idle, and rows waited for others")
            work.time_order.pass_again(*passed)
            work.passed_before = passed[1]
        try:
            for _ in work.skip(checkpoint.log):
                self.signals.check()
                self.progress.show(work.bytes_read, 0)
        except LogEnds:
            raise self.cannot_resume(
                f"{work.name} ends within the {work.amount} already read"
            ) from None
        except LogDiffers:
            raise self.cannot_resume(
                f"the first {work.amount} of {work.name} differ from those that were read"
            ) from None
        except SnapshotError as error:
            raise self.cannot_resume(str(error)) from None

    def check_output(self, checkpoint: Checkpoint) -> None:
        """Check that the output begins with the verdicts that were written.

        The caller will discard everything after these verdicts. That is safe for the file that the
        verdicts were written to. Any other file must end with them: if it goes on, it may be more
        than a copy.

        Raises:
            RunError: the output does not fit the checkpoint.
        """
        name, wanted = self.verdicts.name, checkpoint.verdicts.size
        size = self.verdicts.size()
        if size < wanted:
            raise self.cannot_resume(
                f"{name} has only {size:,} of the {wanted:,} bytes that were written"
            )
        if self.output_edges.of(wanted) != checkpoint.verdicts:
            raise self.cannot_resume(
                f"the first {wanted:,} bytes of {name} are not the verdicts that were written"
            )
        if size > wanted and not checkpoint.output.is_same(self.place_of_output):
            raise self.cannot_resume(
                f"the verdicts were written to {checkpoint.output.path}, and {name} has "
                f"{size - wanted:,} bytes after the {wanted:,} that were written; if it is a copy, "
                f"truncate it to {wanted} bytes first"
            )

    def cannot_resume(self, why: str) -> RunError:
        """Return the error for a checkpoint that does not fit."""
        return RunError(f"cannot resume from {self.file.name}: {why} {AFRESH}")

    # ---- the work --------------------------------------------------------------------------

    def after_step(self) -> None:
        super().after_step()
        if self.is_open and self.is_due():
            self.write_checkpoint()

    def wait_for_log(self, descriptor: int) -> None:
        if not self.is_open:
            # Until the run has reached the checkpoint it continues from, it needs no new one.
            super().wait_for_log(descriptor)
            return
        while not self.signals.wait(descriptor, self.seconds_left()):
            self.write_checkpoint()
            self.note_checkpoint()

    def reach_end(self) -> None:
        """Write the last checkpoint, before the end decides what may change when the log grows."""
        if self.is_open:
            self.write_checkpoint()
        self.is_open = False

    def finish_at_last(self) -> None:
        """Write the verdicts known so far, and a last checkpoint if the work is between two pieces.

        If a signal has interrupted the work, the previous checkpoint stays valid.
        """
        if self.is_open and not self.signals.is_forced:
            self.signals.at_last(self.write_checkpoint, HELD_SECONDS)
        super().finish_at_last()

    # ---- checkpoints -----------------------------------------------------------------------

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        if self.unit == "events":
            return self.work.event_count - self.noted_events >= self.interval
        return time.monotonic() - self.noted_at >= self.interval

    def seconds_left(self) -> float | None:
        """Return the seconds until a checkpoint is due while the log pauses, or None if none is."""
        if self.unit == "events" or self.checkpointed.position == self.noted_position:
            return None
        return max(0.0, self.noted_at + self.interval - time.monotonic())

    def write_checkpoint(self) -> None:
        """Write the verdicts and then a checkpoint, unless the next line cannot be read.

        While the work is between two parts of a row or block, a checkpoint stays due.

        Raises:
            WriteFailure: the verdicts or the checkpoint cannot be written.
            LimitError: the engine has reached a limit.
        """
        more = True
        while more:
            more = self.checkpointed.settle()
            self.flush()
        if not self.checkpointed.is_settled:
            return
        if self.checkpointed.position != self.noted_position:
            size = self.verdicts.size_written()
            if size != self.synced_size:
                self.verdicts.sync()
                self.synced_size = size
            self.file.write(self.make_checkpoint(size))
        self.note_checkpoint()

    def make_checkpoint(self, output_size: int) -> Checkpoint:
        """Return a checkpoint of the present state, after `output_size` bytes of verdicts."""
        order = self.checkpointed.time_order
        mark = self.checkpointed.log_mark()
        if order is not None:
            mark = mark._replace(passed=order.passed_time())
        return Checkpoint(
            mark,
            self.output_edges.of(output_size),
            self.place_of_output,
            self.checkpointed.snapshot(),
        )

    def note_checkpoint(self) -> None:
        """Note the time and position of this checkpoint, for `is_due`."""
        self.noted_at = time.monotonic()
        self.noted_events = self.work.event_count
        self.noted_position = self.checkpointed.position
