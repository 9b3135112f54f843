"""Move a log through monitors, and write the verdicts before a reader has to wait for them.

A pump drives a `Work`, a log and the monitors that the log goes through, for whatever the command
reads and writes. A text log and one policy go through a native loop, from bytes to lines
(`TextWork`). All else (tables, keys, several policies, variables, explanations, reports) is the
events of a log that judges take (`judging`).
"""

from __future__ import annotations

import time

from mtlmon.run.failure import ClosedPipe, Interrupted, WriteFailure
from mtlmon.text.head import LogHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal, Protocol

    from mtlmon.drive.native import ScannedBatch, TextMonitor
    from mtlmon.run.files import LogFile, VerdictFile, Writer
    from mtlmon.run.host import Progress, Signals
    from mtlmon.run.scanning import ScannerThread

    EndTime = int | Literal["last", "inf"] | None

    class Loop(Protocol):
        """A native loop that reads blocks of text and fills a writer."""

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
        """A log and its monitors, driven by a pump.

        Attributes:
            wait: a function to call with a descriptor before a read that may block for long; the
                pump sets it.
        """

        wait: Callable[[int], None]

        @property
        def writer(self) -> Writer:
            """Holds the verdicts until they are written."""

        @property
        def is_stopped(self) -> bool:
            """Whether nothing more will be written."""

        @property
        def is_complete(self) -> bool:
            """Whether the log has been read to its end."""

        @property
        def event_count(self) -> int:
            """The number of events that have been monitored."""

        @property
        def bytes_read(self) -> int:
            """The number of bytes of the log that have been read."""

        def read(self) -> Iterator[None]:
            """Monitor the log up to an unfinished line at its end; yield now and then."""

        def end(self, end_time: EndTime) -> Iterator[None]:
            """Monitor that line, and end the log; yield now and then."""

        def finish(self) -> None:
            """Pass all remaining verdicts to the writer; no more work follows."""

        def close(self) -> None:
            """Release the resources for reading."""


__all__ = ["BLOCK_BYTES", "MonitoredText", "Pump", "TextWork"]

BLOCK_BYTES = 1 << 18
# Write the verdicts when there are this many bytes, or after this many seconds.
FLUSH_BYTES = 1 << 16
FLUSH_SECONDS = 0.1
# How much of a log one thread reads before another one scans the rest, and how much must be left:
# starting the thread takes as long as about 1 MB.
ALONE_BYTES = 1 << 20
WORTH_BYTES = 4 << 20
# How much is read before the next look at whether a processor is idle.
LOOK_BYTES = 16 << 20
# How much is handed over at once: about 16,000 events. With less, waking up threads takes longer.
BATCH_BYTES = 1 << 18


class TextWork:
    """Moves a text log through a native loop.

    Args:
        loop: reads and monitors the text.
        log: the open log.

    Attributes:
        wait: the function to call before reading from a log that may have nothing to read yet.
        is_complete: whether the log has been read to its end.
        bytes_read: the number of bytes of the log that have been read.
        head: the beginning of the log, or of the part that this run monitors.
    """

    block_bytes = BLOCK_BYTES
    wait: Callable[[int], None]

    def __init__(self, loop: Loop, log: LogFile) -> None:
        self.loop = loop
        self.log = log
        self.is_complete = False
        self.bytes_read = 0
        # for messages about atoms that never occur
        self.head = LogHead(log.name)

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
        """Monitor the log up to an unfinished line at its end; yield now and then."""
        block = memoryview(bytearray(self.block_bytes))
        while not self.loop.is_stopped:
            size = self.read_block(block)
            if size == 0:
                return
            self.load(block[:size])
            yield from self.run()

    def read_block(self, block: memoryview) -> int:
        """Read part of the log; return the number of bytes, or 0 at the end of the log."""
        size = None
        while size is None:
            if self.log.may_wait:
                self.wait(self.log.descriptor)
            size = self.log.read_into(block)
        self.bytes_read += size
        return size

    def load(self, block: memoryview) -> None:
        """Pass a block to the loop."""
        self.head.add(block)
        self.loop.load(block)

    def run(self) -> Iterator[None]:
        """Monitor the loaded text; yield now and then."""
        more = True
        while more:
            more = self.loop.run()
            yield

    def end(self, end_time: EndTime) -> Iterator[None]:
        """Monitor what waits, and an unfinished last line, and end the log; yield now and then."""
        block = memoryview(bytearray(self.block_bytes))
        while not self.loop.is_stopped and (size := self.log.read_rest_into(block)):
            self.load(block[:size])
            yield from self.run()
        self.loop.load_end()
        yield from self.run()
        self.is_complete = not self.loop.is_stopped
        if self.is_complete:
            self.loop.end(end_time)
            yield from self.run()

    def finish(self) -> None:
        """Do nothing: the writer has all verdicts already."""

    def close(self) -> None:
        self.loop.unload()
        self.log.close()


class MonitoredText(TextWork):
    """Moves a text log through a monitor, with two threads if that is worth it.

    Args:
        monitor: monitors the text.
        log: the open log.
        threads: how many threads may be used; None means two if a processor is idle.
    """

    alone_bytes = ALONE_BYTES
    worth_bytes = WORTH_BYTES
    batch_bytes = BATCH_BYTES

    def __init__(self, monitor: TextMonitor, log: LogFile, threads: int | None = 1) -> None:
        super().__init__(monitor, log)
        self.monitor = monitor
        self.threads = threads
        # how much is read when idle processors are looked for again
        self.look_at = 0
        self.scanner: ScannerThread | None = None

    def is_worth_a_thread(self) -> bool:
        """Whether another thread should scan the rest of the log."""
        if (
            self.threads == 1
            or not self.log.is_regular
            or self.bytes_read < self.alone_bytes
            or self.log.size - self.bytes_read < self.worth_bytes
        ):
            return False
        if self.threads is not None:
            return True
        if self.bytes_read < self.look_at:
            return False
        from mtlmon.support.processors import has_idle_processor

        self.look_at = self.bytes_read + LOOK_BYTES
        return has_idle_processor()

    def read(self) -> Iterator[None]:
        block = memoryview(bytearray(self.block_bytes))
        while not self.loop.is_stopped:
            if self.is_worth_a_thread() and self.start_scanner(block):
                yield from self.read_scanned()
                return
            size = self.read_block(block)
            if size == 0:
                return
            self.load(block[:size])
            yield from self.run()

    def start_scanner(self, block: memoryview) -> bool:
        """Let another thread read and scan the rest of the log; return False if it cannot."""
        from mtlmon.run.scanning import ScannerThread

        def load() -> bool:
            size = self.read_block(block)
            if size > 0:
                self.load_ahead(block[:size])
            return size > 0

        self.scanner = ScannerThread(self.monitor, load, self.batch_bytes)
        if not self.scanner.start():
            self.scanner = None
            self.threads = 1
        return self.scanner is not None

    def read_scanned(self) -> Iterator[None]:
        """Monitor what the other thread has read and scanned; yield now and then."""
        assert self.scanner is not None
        for batch in self.scanner.batches():
            self.take(batch)
            yield from self.run()
            if self.loop.is_stopped:
                self.scanner.close()
                return

    def load_ahead(self, block: memoryview) -> None:
        """Pass a block to the scanner; the scanner's thread calls this."""
        self.head.add(block)
        self.monitor.load_ahead(block)

    def take(self, batch: ScannedBatch) -> None:
        """Pass scanned events to the loop."""
        self.monitor.take(batch)

    def close(self) -> None:
        if self.scanner is not None:
            self.scanner.close()
        super().close()


class Pump:
    """Drives the work on a log, writes the verdicts to their file, and handles signals.

    Args:
        work: the log and its monitors.
        verdicts: the file for the verdicts.
        signals: the signals that can interrupt the run.
        progress: shows how far the run has come.

    Attributes:
        events_before: the number of events that earlier runs have monitored.
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

    def run(self, end_time: EndTime = None) -> Iterator[None]:
        """Monitor the log to its end; yield now and then.

        If the run ends early, for whatever reason, it still writes the verdicts known so far.

        Args:
            end_time: what is known about the time after the log.

        Raises:
            Interrupted: a signal has come.
        """
        try:
            self.begin()
            yield from self.move(end_time)
        finally:
            self.work.close()
            self.progress.erase()

    def release(self) -> None:
        """Close the files of the run, however it has ended, and so unlock them."""
        self.verdicts.abandon()

    def begin(self) -> None:
        """Prepare for the first block."""

    def move(self, end_time: EndTime) -> Iterator[None]:
        """Drive the work to its end, and write all verdicts; yield now and then."""
        try:
            for _ in self.work.read():
                self.after_step()
                yield
            self.reach_end()
            if not self.work.is_stopped:
                for _ in self.work.end(end_time):
                    self.after_step()
                    yield
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
        """Wait until there is something to read; write the verdicts before waiting."""
        if not self.signals.wait(descriptor, 0):
            self.flush()
            self.wait_for_log(descriptor)
        self.signals.check()

    def wait_for_log(self, descriptor: int) -> None:
        """Wait until there is something to read or a signal comes."""
        self.signals.wait(descriptor, None)

    def reach_end(self) -> None:
        """Prepare for an unfinished last line, or for the end of a run that has stopped."""

    def after_step(self) -> None:
        """Between two pieces of work, write verdicts, show progress and look for signals."""
        if len(self.work.writer) >= FLUSH_BYTES or (
            time.monotonic() - self.flushed_at > FLUSH_SECONDS
        ):
            self.flush()
        self.progress.show(self.work.bytes_read, self.work.event_count - self.events_before)
        self.signals.check()

    def finish_at_last(self) -> None:
        """After a signal, write the verdicts known so far."""
        self.signals.at_last(self.finish)

    def finish(self) -> None:
        """Finish the work, and write all verdicts."""
        self.work.finish()
        self.flush()

    def flush(self) -> None:
        """Write the verdicts that wait in the writer."""
        self.verdicts.flush(self.work.writer)
        self.flushed_at = time.monotonic()
