"""Monitor a text log so that checkpoints can be written and a later run can continue.

The position is the number of bytes up to which events have been monitored. Each block of events
notes the scanner's place after it, so there is no need to keep a copy of unread text.
`TextMonitor.settle` monitors the events that have been scanned, so that the loop is between two
events, which may be anywhere in a block. The snapshot has the state of the scanner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.run.pump import BLOCK_BYTES, MonitoredText
from mtlmon.run.read_parts import LogEnds, ReadPart

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from mtlmon.drive.native import ScannedBatch, TextMonitor
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.files import LogFile

__all__ = ["CheckpointedText"]

SMALLEST_BLOCK_BYTES = 1 << 12
EVENT_BYTES = 8
"""The length of a short line, for blocks with about as many events as a checkpoint interval."""


class CheckpointedText(MonitoredText):
    """Moves a text log through a monitor; its position is a number of bytes.

    Args:
        monitor: monitors the text.
        log: the open log.
        threads: how many threads may be used; None means two if a processor is idle.

    Attributes:
        name: the name of the log in messages.
        part: knows the part of the log again that has been monitored.
    """

    passed_before = 0
    # time does not pass without events here
    time_order = None

    def __init__(self, monitor: TextMonitor, log: LogFile, threads: int | None = 1) -> None:
        super().__init__(monitor, log, threads)
        self.name = log.name
        self.part = ReadPart(log)

    @property
    def logs(self) -> list[os.stat_result]:
        return [self.log.status]

    @property
    def position(self) -> int:
        """The number of bytes that have been monitored."""
        return self.monitor.position

    @property
    def amount(self) -> str:
        return f"{self.position:,} bytes"

    @property
    def is_settled(self) -> bool:
        return self.monitor.is_settled

    def settle(self) -> bool:
        return self.monitor.settle()

    def snapshot(self) -> bytes:
        return self.monitor.snapshot()

    def restore(self, snapshot: bytes, output_size: int) -> None:
        self.monitor.restore(snapshot)

    def work_in_small_steps(self, events: int) -> None:
        self.block_bytes = min(BLOCK_BYTES, max(SMALLEST_BLOCK_BYTES, EVENT_BYTES * events))
        if self.block_bytes < BLOCK_BYTES:
            # There would be little to hand over at once.
            self.threads = 1

    def log_mark(self) -> LogMark:
        return self.part.mark(self.position)

    def skip(self, mark: LogMark) -> Iterator[None]:
        """Go to the position, or read the log up to there; yield now and then.

        Raises:
            LogEnds: the log is shorter than that.
            LogDiffers: it has other bytes.
        """
        count = self.position
        if self.log.is_regular and self.log.size < count:
            raise LogEnds
        if self.part.seek(mark):
            self.bytes_read = count
            if count and self.log.input is not None and not self.log.is_regular:
                self.log.input.resume()
            return
        self.part.read_again(mark)
        block = memoryview(bytearray(BLOCK_BYTES))
        while self.bytes_read < count:
            size = self.read_block(block[: count - self.bytes_read])
            if size == 0:
                raise LogEnds
            self.part.add(block[:size])
            self.part.forget_until(self.bytes_read)
            yield
        self.part.check_again(mark, count)

    def load(self, block: memoryview) -> None:
        self.part.forget_until(self.position)
        self.part.add(block)
        super().load(block)

    def load_ahead(self, block: memoryview) -> None:
        self.part.add(block)
        super().load_ahead(block)

    def take(self, batch: ScannedBatch) -> None:
        self.part.forget_until(self.position)
        super().take(batch)
