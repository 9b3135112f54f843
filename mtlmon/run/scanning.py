"""Let a second thread read and scan a log, while the first one monitors it.

This is for regular files, after the first megabyte and if at least 4 MB are left, because in a pipe
a verdict must not wait for a batch. By default, it needs an idle processor: without one, two
threads take 6 % more time than one.

The threads hand batches of blocks to each other through Python's queues, and share nothing else:
the scanner belongs to the second thread, and each block carries what the first one has to know of
the scanner (`ScanPlace` in `drive/event_block`): position, lines skipped, atoms seen. The blocks
are those that one thread would scan, so verdicts, counts, checkpoints and the place of an error are
the same. A checkpoint describes the block that was monitored last, so it does not wait for the
scanner. The first thread handles a last line without a line feed, and the end of the log.
"""

from __future__ import annotations

from _thread import start_new_thread
from queue import SimpleQueue

from mtlmon.drive.native import ScannedBatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtlmon.drive.native import TextMonitor

__all__ = ["ScannerThread"]

# One that is scanned, one that is monitored, and one for the thread that is ahead.
BATCHES = 3


class ScannerThread:
    """A thread that reads and scans a log, and hands over what it has scanned in batches.

    From `start` until `close` or the end of `batches`, the scanner of the monitor and the log
    belong to the thread, and all other parts of the monitor belong to its creator. A batch belongs
    to whoever has taken it from a queue.

    Args:
        monitor: what scans the log.
        load: the function that reads the next part of the log and loads it into the monitor; it
            returns False at the end of the log.
        batch_bytes: the size of a batch.
    """

    def __init__(self, monitor: TextMonitor, load: Callable[[], bool], batch_bytes: int) -> None:
        self.monitor = monitor
        self.load = load
        self.is_running = False
        # None ends the thread
        self.free: SimpleQueue[ScannedBatch | None] = SimpleQueue()
        # Something else than a batch is the last thing: an error, or None.
        self.scanned: SimpleQueue[ScannedBatch | BaseException | None] = SimpleQueue()
        for _ in range(BATCHES):
            self.free.put(monitor.new_batch(batch_bytes))

    def start(self) -> bool:
        """Start the thread; return False if the system does not allow another one."""
        self.is_running = True
        try:
            start_new_thread(self.scan, ())
        except RuntimeError:
            self.is_running = False
        return self.is_running

    def scan(self) -> None:
        """Scan the log; the thread calls this."""
        end: BaseException | None = None
        try:
            self.scan_to_end()
        except BaseException as error:
            end = error
        finally:
            self.scanned.put(end)

    def scan_to_end(self) -> None:
        while self.monitor.scanner.failure is None and self.load():
            more = True
            while more:
                batch = self.free.get()
                if batch is None:
                    return
                more = self.monitor.scan_ahead(batch)
                self.scanned.put(batch)

    def batches(self) -> Iterator[ScannedBatch]:
        """Yield the batches; each must be used up before the next one.

        Raises:
            RunError: the log cannot be read.
            MemoryError: there is not enough memory for a line.
        """
        while isinstance(batch := self.scanned.get(), ScannedBatch):
            yield batch
            self.free.put(batch)
        self.is_running = False
        if batch is not None:
            raise batch

    def close(self) -> None:
        """End the thread, and wait until it has ended."""
        if self.is_running:
            self.free.put(None)
            while isinstance(self.scanned.get(), ScannedBatch):
                pass
            self.is_running = False
