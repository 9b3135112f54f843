"""Moving a text through a native loop: blocks in, lines out, in time for whoever waits for them."""

from __future__ import annotations

import time

from mtlmon.cli.failure import ClosedPipe, WriteFailure
from mtlmon.cli.signals import Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Protocol

    from mtlmon._writer import Writer
    from mtlmon.cli.files import LogFile, VerdictFile
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


__all__ = ["Pump"]

BLOCK_BYTES = 1 << 18
# verdicts are written when there are so many bytes of them, or after so many seconds
FLUSH_BYTES = 1 << 16
FLUSH_SECONDS = 0.1


class Pump:
    """Moves a log through a loop to the file of verdicts.

    Attributes:
        is_complete: the log was read to its end.
    """

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
        self.flushed_at = time.monotonic()
        self.progress = progress

    def run(self, end_time: EndTime = None) -> None:
        """Read the log to its end.

        Whatever ends it before, the verdicts earned are written. Raises `Interrupted` on a signal.
        """
        try:
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

    def read_log(self) -> None:
        block = memoryview(bytearray(BLOCK_BYTES))
        while not self.loop.is_stopped:
            size = self.read_block(block)
            if size == 0:
                self.loop.load_end()
                self.work()
                self.is_complete = not self.loop.is_stopped
                return
            self.bytes_read += size
            self.loop.load(block[:size])
            self.work()

    def read_block(self, block: memoryview) -> int:
        """Read a block; before that waits, what is earned is written."""
        if self.log.is_regular:
            return self.log.read_into(block) or 0
        while True:
            if not self.signals.wait(self.log.descriptor, 0):
                self.flush()
                self.signals.wait(self.log.descriptor, None)
            size = self.log.read_into(block)
            if size is not None:
                return size

    def work(self) -> None:
        """Work on what is loaded."""
        more = True
        while more:
            more = self.loop.run()
            if len(self.loop.writer) >= FLUSH_BYTES or (
                time.monotonic() - self.flushed_at > FLUSH_SECONDS
            ):
                self.flush()
            self.progress.show(self.bytes_read, self.loop.event_count)

    def flush_at_last(self) -> None:
        """After a signal: write what is earned, if its reader takes it soon."""
        try:
            self.signals.limit_grace()
            self.flush()
        except Interrupted:
            return

    def flush(self) -> None:
        self.verdicts.flush(self.loop.writer)
        self.flushed_at = time.monotonic()
