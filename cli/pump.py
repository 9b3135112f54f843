"""Moving a log through monitors: events in, verdicts out, in time for whoever waits for them."""

from __future__ import annotations

import time

from mtlmon.cli.failure import ClosedPipe, WriteFailure
from mtlmon.cli.signals import Interrupted
from mtlmon.text.head import LogHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal, Protocol

    from mtlmon.cli.files import LogFile, VerdictFile, Writer
    from mtlmon.cli.report import Progress
    from mtlmon.cli.signals import Signals

    EndTime = int | Literal["last", "inf"] | None

    class Loop(Protocol):
        """A native loop from blocks of text to a writer."""

        @property
        def writer(self) -> Writer: ...
        @property
        def is_stopped(self) -> bool: ...
        @property
        def event_count(self) -> int: ...
        def load(self, block: memoryview) -> None: ...
        def load_end(self) -> None: ...
        def unload(self) -> None: ...
        def run(self) -> bool: ...
        def end(self, end_time: EndTime = None) -> None: ...

    class Work(Protocol):
        """A log and the monitors that it goes through: what a pump drives.

        Attributes:
            wait: to be called with a descriptor before what is read from it may take long to come;
                the pump sets it.
        """

        wait: Callable[[int], None]

        @property
        def writer(self) -> Writer:
            """Holds the verdicts until they are written."""

        @property
        def is_stopped(self) -> bool:
            """Nothing more will be written."""

        @property
        def is_complete(self) -> bool:
            """The log was read to its end."""

        @property
        def event_count(self) -> int:
            """How many events were worked on."""

        @property
        def bytes_read(self) -> int:
            """How much of the log was read."""

        def read(self) -> Iterator[None]:
            """Work on the log, but not on an unfinished line at its end; yield now and then."""

        def end(self, end_time: EndTime) -> Iterator[None]:
            """Work on that line, and end the log; yield now and then."""

        def finish(self) -> None:
            """Give the writer all that is earned; no more work follows."""

        def close(self) -> None:
            """Release what is held for reading."""


__all__ = ["BLOCK_BYTES", "LogEnds", "Pump", "TextWork"]

BLOCK_BYTES = 1 << 18
# verdicts are written when there are so many bytes of them, or after so many seconds
FLUSH_BYTES = 1 << 16
FLUSH_SECONDS = 0.1


class LogEnds(Exception):
    """The log has less than was read of it before."""


class TextWork:
    """A text log on its way through a native loop.

    Attributes:
        wait: called before reading from a log that may have nothing to read yet.
        is_complete: the log was read to its end.
        bytes_read: of the log.
        head: the beginning of the log, or of what this run reads of it.
    """

    block_bytes = BLOCK_BYTES
    wait: Callable[[int], None]

    def __init__(self, loop: Loop, log: LogFile) -> None:
        self.loop = loop
        self.log = log
        self.is_complete = False
        self.bytes_read = 0
        # for messages about names that never occurred
        self.head = LogHead()

    @property
    def writer(self) -> Writer:
        return self.loop.writer

    @property
    def is_stopped(self) -> bool:
        return self.loop.is_stopped

    @property
    def event_count(self) -> int:
        return self.loop.event_count

    def read(self) -> Iterator[None]:
        block = memoryview(bytearray(self.block_bytes))
        while not self.loop.is_stopped:
            size = self.read_block(block)
            if size == 0:
                return
            if not self.head.is_full:
                self.head.add(block[:size])
            self.load(block[:size])
            yield from self.run()

    def read_block(self, block: memoryview) -> int:
        """Read a block; 0 at the end of the log."""
        size = None
        while size is None:
            if not self.log.is_regular:
                self.wait(self.log.descriptor)
            size = self.log.read_into(block)
        self.bytes_read += size
        return size

    def load(self, block: memoryview) -> None:
        self.loop.load(block)

    def run(self) -> Iterator[None]:
        """Work on what is loaded."""
        more = True
        while more:
            more = self.loop.run()
            yield

    def end(self, end_time: EndTime) -> Iterator[None]:
        self.loop.load_end()
        yield from self.run()
        self.is_complete = not self.loop.is_stopped
        if self.is_complete:
            self.loop.end(end_time)
            yield from self.run()

    def finish(self) -> None:
        """All that is earned is with the writer already."""

    def close(self) -> None:
        self.loop.unload()


class Pump:
    """Moves a log through its work to the file of verdicts.

    Attributes:
        events_before: events that were worked on before this run.
    """

    def __init__(
        self, work: Work, verdicts: VerdictFile, signals: Signals, progress: Progress
    ) -> None:
        self.work = work
        self.verdicts = verdicts
        self.signals = signals
        self.events_before = 0
        self.flushed_at = time.monotonic()
        self.progress = progress
        work.wait = self.wait

    def run(self, end_time: EndTime = None) -> None:
        """Read the log to its end.

        Whatever ends it before, the verdicts earned are written. Raises `Interrupted` on a signal.
        """
        try:
            self.begin()
            self.move(end_time)
        finally:
            self.work.close()
            self.progress.erase()

    def begin(self) -> None:
        """What comes before the first block."""

    def move(self, end_time: EndTime) -> None:
        try:
            for _ in self.work.read():
                self.after_step()
            self.reach_end()
            if not self.work.is_stopped:
                for _ in self.work.end(end_time):
                    self.after_step()
            self.finish()
        except Interrupted:
            self.finish_at_last()
            raise
        except (WriteFailure, ClosedPipe):
            raise
        except Exception:
            self.finish()
            raise

    def wait(self, descriptor: int) -> None:
        """Wait until there is something to read; before that, what is earned is written."""
        if not self.signals.wait(descriptor, 0):
            self.flush()
            self.wait_for_log(descriptor)
        self.signals.check()

    def wait_for_log(self, descriptor: int) -> None:
        """Wait until there is something to read, or a signal."""
        self.signals.wait(descriptor, None)

    def reach_end(self) -> None:
        """What comes before an unfinished line, or when nothing more will be written."""

    def after_step(self) -> None:
        """What is done every now and then."""
        if len(self.work.writer) >= FLUSH_BYTES or (
            time.monotonic() - self.flushed_at > FLUSH_SECONDS
        ):
            self.flush()
        self.progress.show(self.work.bytes_read, self.work.event_count - self.events_before)
        self.signals.check()

    def finish_at_last(self) -> None:
        """After a signal: write what is earned."""
        self.signals.at_last(self.finish)

    def finish(self) -> None:
        """Write all that is earned."""
        self.work.finish()
        self.flush()

    def flush(self) -> None:
        self.verdicts.flush(self.work.writer)
        self.flushed_at = time.monotonic()
