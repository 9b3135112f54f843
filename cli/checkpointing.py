"""Monitoring a log with checkpoints, and going on from one.

A checkpoint says: so much of the log is read, this is what is known after it, and these bytes are
the verdicts earned by it. The verdicts are on disk before the checkpoint is. Who goes on from it
cuts the verdicts to that length, so that none is lost and none comes twice, whenever the process
before was killed.

Signals are looked at between two pieces of work, so that the last checkpoint can be made; work that
takes too long for that is broken off, and the checkpoint before stays the last one.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from hashlib import blake2b
from typing import TYPE_CHECKING

from mtlmon.cli.checkpoint import (
    AFRESH,
    DIGEST_BYTES,
    Checkpoint,
    CheckpointFile,
    Place,
    sync_directory,
)
from mtlmon.cli.failure import Failure, WriteFailure
from mtlmon.cli.pump import BLOCK_BYTES, LogEnds, Pump
from mtlmon.cli.signals import HELD_SECONDS
from mtlmon.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Protocol

    from mtlmon.cli.arguments import Options
    from mtlmon.cli.files import VerdictFile
    from mtlmon.cli.pump import Work
    from mtlmon.cli.report import Progress
    from mtlmon.cli.signals import Signals

    class CheckpointedWork(Work, Protocol):
        """Work that can be broken off, and gone on with in another process.

        Attributes:
            name: of the log.
        """

        name: str

        @property
        def logs(self) -> Iterable[os.stat_result]:
            """What the files of the log are."""

        @property
        def position(self) -> int:
            """How much of the log was worked on, in this and all earlier runs."""

        @property
        def amount(self) -> str:
            """The position in words."""

        @property
        def is_settled(self) -> bool:
            """A snapshot can be made."""

        def settle(self) -> bool:
            """Prepare for a snapshot; if there is still more to do, return True."""

        def log_digest(self) -> bytes:
            """The digest of the log up to the position."""

        def snapshot(self) -> bytes:
            """What is known at the position."""

        def restore(self, snapshot: bytes, output_size: int) -> None:
            """Go on from the snapshot of an earlier run that has written so many bytes.

            Raises SnapshotError when it does not fit.
            """

        def skip(self) -> Iterator[None]:
            """Read the log up to the position of the snapshot; yield now and then.

            Raises LogEnds if the log has less than that.
            """

        def work_in_small_steps(self, events: int) -> None:
            """Yield after about so many events."""


__all__ = ["CheckpointingPump"]

DEFAULT_INTERVAL = ("seconds", 10.0)


class OutputDigest:
    """The digest of the verdicts that are written, read back from their file."""

    def __init__(self, verdicts: VerdictFile) -> None:
        self.verdicts = verdicts
        self.digest = blake2b(digest_size=DIGEST_BYTES)
        self.size = 0

    def up_to(self, size: int) -> bytes:
        """The digest of so many bytes of the file, not fewer than the last time.

        Raises Failure when they cannot be read.
        """
        while self.size < size:
            block = self.verdicts.read_at(self.size, min(BLOCK_BYTES, size - self.size))
            self.digest.update(block)
            self.size += len(block)
        return self.digest.copy().digest()


class CheckpointingPump(Pump):
    """A pump that writes checkpoints and can begin with one."""

    def __init__(
        self,
        work: CheckpointedWork,
        verdicts: VerdictFile,
        signals: Signals,
        progress: Progress,
        options: Options,
    ) -> None:
        super().__init__(work, verdicts, signals, progress)
        self.checkpointed = work
        assert options.checkpoint is not None
        self.file = CheckpointFile(options.checkpoint)
        self.resumes = options.resume
        self.unit, self.interval = options.checkpoint_every or DEFAULT_INTERVAL
        if self.unit == "events":
            work.work_in_small_steps(int(self.interval))
        self.output_digest = OutputDigest(verdicts)
        # checkpoints are made while this holds: from the beginning of the work to the log's end
        self.is_open = False
        try:
            self.check_files(options)
        except Failure:
            verdicts.discard_new()
            raise

    # ---- the beginning ---------------------------------------------------------------------

    def check_files(self, options: Options) -> None:
        """Raise Failure unless the verdicts go to a file on disk, and the checkpoint to another.

        The lock ends with the process, however it ends.
        """
        path = self.file.path
        used = [options.output, options.formula_file, options.explain_output, *options.logs]
        if any(other and os.path.realpath(other) == path for other in used) or (
            os.path.exists(path)
            and any(os.path.samestat(os.stat(path), log) for log in self.checkpointed.logs)
        ):
            raise Failure(f"{self.file.name} is to hold the checkpoint, but has another use")
        if not stat.S_ISREG(os.fstat(self.verdicts.descriptor).st_mode):
            raise Failure(
                f"{self.verdicts.name} is no file that can be cut; --checkpoint needs one"
            )
        try:
            fcntl.flock(self.verdicts.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another process writes {self.verdicts.name}") from None
        except OSError as error:
            raise WriteFailure(f"cannot lock {self.verdicts.name}: {error.strerror}") from None

    def begin(self) -> None:
        """Go on from the checkpoint, if that is wanted and there is one, or start afresh.

        Raises Failure when the checkpoint does not fit; all files are then as they were.
        """
        try:
            self.file.lock()
            checkpoint = self.file.read() if self.resumes else None
            if checkpoint is None:
                # Nothing is lost if it cannot be written, and that is known from the beginning.
                self.file.write(self.make_checkpoint(0))
            else:
                self.check_fit(checkpoint)
        except BaseException:
            self.verdicts.discard_new()
            raise
        self.verdicts.cut(0 if checkpoint is None else checkpoint.output_size)
        self.sync_name_of_verdicts()
        self.note_checkpoint()
        self.is_open = True

    def sync_name_of_verdicts(self) -> None:
        """A file for verdicts that is new must not be gone when checkpoints count on it."""
        try:
            sync_directory(self.verdicts.name)
        except OSError as error:
            raise WriteFailure(f"cannot write {self.verdicts.name}: {error.strerror}") from None

    def check_fit(self, checkpoint: Checkpoint) -> None:
        """Come to where the checkpoint was made, as far as nothing but reading is needed."""
        work = self.checkpointed
        try:
            work.restore(checkpoint.snapshot, checkpoint.output_size)
        except SnapshotError as error:
            raise self.cannot_resume(str(error)) from None
        self.events_before = work.event_count
        self.check_output(checkpoint)
        try:
            for _ in work.skip():
                self.signals.check()
                self.progress.show(work.bytes_read, 0)
        except LogEnds:
            raise self.cannot_resume(
                f"{work.name} ends within the {work.amount} already read"
            ) from None
        if work.log_digest() != checkpoint.log_digest:
            raise self.cannot_resume(
                f"the first {work.amount} of {work.name} are not those that were read"
            )

    def check_output(self, checkpoint: Checkpoint) -> None:
        """Raise Failure unless the output begins with the verdicts that were written.

        What a file has beyond them is cut off. That may be done to the file that they were written
        to, but another file is only known to be a copy of it if there is no more than they.
        """
        name, wanted = self.verdicts.name, checkpoint.output_size
        size = self.verdicts.size()
        if size < wanted:
            raise self.cannot_resume(
                f"{name} has {size:,} bytes of the {wanted:,} that were written"
            )
        if self.output_digest.up_to(wanted) != checkpoint.output_digest:
            raise self.cannot_resume(
                f"the first {wanted:,} bytes of {name} are not the verdicts that were written"
            )
        if size > wanted and not checkpoint.output.is_same(self.place_of_output()):
            raise self.cannot_resume(
                f"the verdicts were written to {checkpoint.output.path}, and {name} has "
                f"{size - wanted:,} bytes more than the {wanted:,} that were; if it is a copy, "
                f"cut it to {wanted} bytes first"
            )

    def place_of_output(self) -> Place:
        return Place.of(self.verdicts.descriptor, self.verdicts.name)

    def cannot_resume(self, why: str) -> Failure:
        return Failure(f"cannot resume from {self.file.name}: {why} {AFRESH}")

    # ---- the work --------------------------------------------------------------------------

    def after_step(self) -> None:
        super().after_step()
        if self.is_open and self.is_due():
            self.write_checkpoint()

    def wait_for_log(self, descriptor: int) -> None:
        if not self.is_open:
            # there is nothing to make a checkpoint of before that from which the run goes on
            super().wait_for_log(descriptor)
            return
        while not self.signals.wait(descriptor, self.seconds_left()):
            self.write_checkpoint()

    def reach_end(self) -> None:
        """The last checkpoint: what only the end says may be otherwise when the log has grown."""
        if self.is_open:
            self.write_checkpoint()
        self.is_open = False

    def finish_at_last(self) -> None:
        """Write what is earned, and a last checkpoint if the work has come to a place for one.

        Where it was broken off, the checkpoint before stays good.
        """
        if self.is_open and not self.signals.is_forced:
            self.signals.at_last(self.write_checkpoint, HELD_SECONDS)
        super().finish_at_last()

    # ---- checkpoints -----------------------------------------------------------------------

    def is_due(self) -> bool:
        if self.unit == "events":
            return self.work.event_count - self.noted_events >= self.interval
        return time.monotonic() - self.noted_at >= self.interval

    def seconds_left(self) -> float | None:
        """Until a checkpoint is due while no more of the log comes; None if none will be."""
        if self.unit == "events" or self.checkpointed.position == self.noted_position:
            return None
        return max(0.0, self.noted_at + self.interval - time.monotonic())

    def write_checkpoint(self) -> None:
        """Make a checkpoint of what is known, unless the line that comes next cannot be read.

        Raises:
            WriteFailure: of the verdicts or the checkpoint.
            LimitError: the engine's.
        """
        more = True
        while more:
            more = self.checkpointed.settle()
            self.flush()
        if self.checkpointed.is_settled and self.checkpointed.position != self.noted_position:
            self.verdicts.sync()
            self.file.write(self.make_checkpoint(self.verdicts.size_written()))
        self.note_checkpoint()

    def make_checkpoint(self, output_size: int) -> Checkpoint:
        """A checkpoint of what is known now, which counts on so many bytes of verdicts."""
        return Checkpoint(
            self.checkpointed.log_digest(),
            self.output_digest.up_to(output_size),
            output_size,
            self.place_of_output(),
            self.checkpointed.snapshot(),
        )

    def note_checkpoint(self) -> None:
        self.noted_at = time.monotonic()
        self.noted_events = self.work.event_count
        self.noted_position = self.checkpointed.position
