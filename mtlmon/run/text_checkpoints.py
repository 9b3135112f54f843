"""Monitor a text log so that checkpoints can be written and a later run can continue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING

from mtlmon.run.checkpoint import DIGEST_BYTES
from mtlmon.run.pump import BLOCK_BYTES, LogEnds, MonitoredText, TextWork

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from mtlmon.drive.native import ScannedBatch, TextMonitor
    from mtlmon.run.files import LogFile

__all__ = ["CheckpointedText", "DigestedText"]

SMALLEST_BLOCK_BYTES = 1 << 12
EVENT_BYTES = 8
"""The length of a short line, for blocks with about as many events as a checkpoint interval."""


class LogDigest:
    """The digest of the monitored part of a log; more than that part may have been read."""

    def __init__(self) -> None:
        self.digest = blake2b(digest_size=DIGEST_BYTES)
        self.size = 0
        self.ahead: deque[memoryview] = deque()

    def add(self, block: memoryview) -> None:
        """Add bytes that have been read, but not monitored yet; any thread may do so."""
        self.ahead.append(memoryview(bytes(block)))

    def up_to(self, position: int) -> bytes:
        """Return the digest of the first bytes; `position` must not decrease between calls."""
        while self.size < position:
            block = self.ahead.popleft()
            count = min(len(block), position - self.size)
            self.digest.update(block[:count])
            self.size += count
            if count < len(block):
                self.ahead.appendleft(block[count:])
        return self.digest.copy().digest()


class DigestedText(TextWork, ABC):
    """A text log with a digest of what has been monitored; its position is a number of bytes.

    Attributes:
        name: the name of the log in messages.
        digest: the digest.
    """

    name: str
    digest: LogDigest

    def begin_digest(self) -> None:
        """Start with an empty digest."""
        self.name = self.log.name
        self.digest = LogDigest()

    @property
    def logs(self) -> list[os.stat_result]:
        return [self.log.status]

    @property
    @abstractmethod
    def position(self) -> int:
        """The number of bytes that have been monitored."""

    @property
    def amount(self) -> str:
        return f"{self.position:,} bytes"

    def log_digest(self) -> bytes:
        return self.digest.up_to(self.position)

    def skip(self) -> Iterator[None]:
        """Read the log up to the position for its digest only; yield now and then.

        Raises:
            LogEnds: the log is shorter than that.
        """
        count = self.position
        if self.log.is_regular and self.log.size < count:
            raise LogEnds
        block = memoryview(bytearray(BLOCK_BYTES))
        while self.bytes_read < count:
            size = self.read_block(block[: count - self.bytes_read])
            if size == 0:
                raise LogEnds
            self.digest.add(block[:size])
            self.digest.up_to(self.bytes_read)
            yield from self.pass_over(block[:size])
            yield

    def pass_over(self, block: memoryview) -> Iterator[None]:
        """Read a block of the part that an earlier run has monitored; yield now and then."""
        return iter(())

    def work_in_small_steps(self, events: int) -> None:
        self.block_bytes = min(BLOCK_BYTES, max(SMALLEST_BLOCK_BYTES, EVENT_BYTES * events))

    def load(self, block: memoryview) -> None:
        # Bytes that are part of the digest need not be kept.
        self.log_digest()
        self.digest.add(block)
        super().load(block)


class CheckpointedText(DigestedText, MonitoredText):
    """Moves a text log through a monitor; its position is a number of bytes.

    Args:
        monitor: monitors the text.
        log: the open log.
        threads: how many threads may be used; None means two if a processor is idle.
    """

    def __init__(self, monitor: TextMonitor, log: LogFile, threads: int | None = 1) -> None:
        super().__init__(monitor, log, threads)
        self.begin_digest()

    @property
    def position(self) -> int:
        return self.monitor.position

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
        super().work_in_small_steps(events)
        if self.block_bytes < BLOCK_BYTES:
            # There would be little to hand over at once.
            self.threads = 1

    def load_ahead(self, block: memoryview) -> None:
        self.digest.add(block)
        super().load_ahead(block)

    def take(self, batch: ScannedBatch) -> None:
        self.log_digest()
        super().take(batch)
