"""Moving a text through a native loop: blocks in, lines out, in time for whoever waits for them."""

from __future__ import annotations

import time

from mtlmon.cli.failure import ClosedPipe, WriteFailure
from mtlmon.cli.signals import Interrupted
from mtlmon.text.head import LogHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Protocol

    from mtlmon.cli.files import LogFile, VerdictFile
    from mtlmon.cli.report import Progress
    from mtlmon.cli.signals import Signals
    from mtlmon.text.native import Writer

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


__all__ = ["BLOCK_BYTES", "FLUSH_BYTES", "FLUSH_SECONDS", "Pump"]

BLOCK_BYTES = 1 << 18
# verdicts are written when there are so many bytes of them, or after so many seconds
FLUSH_BYTES = 1 << 16
FLUSH_SECONDS = 0.1


class Pump:
    """Moves a log through a loop to the file of verdicts.

    Attributes:
        is_complete: the log was read to its end.
        bytes_read: of the log.
        events_before: events that were worked on before this run.
        head: the beginning of the log, or of what this run reads of it.
    """

    block_bytes = BLOCK_BYTES

    def __init__(
        self,
        loop: Loop,
        log: LogFile,
        verdicts: VerdictFile,
        signals: Signals,
        progress: Progress,
    ) -> None:
        self.loop = loop
        self.log = log
        self.verdicts = verdicts
        self.signals = signals
        self.is_complete = False
        self.bytes_read = 0
        self.events_before = 0
        self.flushed_at = time.monotonic()
        self.progress = progress
        # for messages about names that never occurred
        self.head = LogHead()

    def run(self, end_time: EndTime = None) -> None:
        """Read the log to its end.

        Whatever ends it before, the verdicts earned are written. Raises `Interrupted` on a signal.
        """
        try:
            self.begin()
            self.read_log()
            if self.is_complete:
                self.loop.end(end_time)
                self.work()
            self.flush()
        except Interrupted:
            self.flush_at_last()
            raise
        except (WriteFailure, ClosedPipe):
            raise
        except Exception:
            self.flush()
            raise
        finally:
            self.loop.unload()
            self.progress.erase()

    def begin(self) -> None:
        """What comes before the first block."""

    def read_log(self) -> None:
        block = memoryview(bytearray(self.block_bytes))
        while not self.loop.is_stopped:
            size = self.read_block(block)
            if size == 0:
                self.reach_end()
                return
            self.bytes_read += size
            if not self.head.is_full:
                self.head.add(block[:size])
            self.load(block[:size])
            self.work()
            self.after_block()

    def read_block(self, block: memoryview) -> int:
        """Read a block; before that waits, what is earned is written."""
        if self.log.is_regular:
            return self.log.read_into(block) or 0
        while True:
            if not self.signals.wait(self.log.descriptor, 0):
                self.flush()
                self.wait_for_log()
            self.signals.check()
            size = self.log.read_into(block)
            if size is not None:
                return size

    def wait_for_log(self) -> None:
        """Wait until there is something to read, or a signal."""
        self.signals.wait(self.log.descriptor, None)

    def load(self, block: memoryview) -> None:
        self.loop.load(block)

    def reach_end(self) -> None:
        """The log is read: work on its last line."""
        self.loop.load_end()
        self.work()
        self.is_complete = not self.loop.is_stopped

    def work(self) -> None:
        """Work on what is loaded."""
        more = True
        while more:
            more = self.loop.run()
            self.after_run()

    def after_run(self) -> None:
        """What is done every now and then."""
        if len(self.loop.writer) >= FLUSH_BYTES or (
            time.monotonic() - self.flushed_at > FLUSH_SECONDS
        ):
            self.flush()
        self.progress.show(self.bytes_read, self.loop.event_count - self.events_before)
        self.signals.check()

    def after_block(self) -> None:
        """What comes between two blocks."""

    def flush_at_last(self) -> None:
        """After a signal: write what is earned."""
        self.signals.at_last(self.flush)

    def flush(self) -> None:
        self.verdicts.flush(self.loop.writer)
        self.flushed_at = time.monotonic()
