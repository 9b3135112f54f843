"""A text log and its monitor, so that checkpoints can be made and gone on from."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from mtlmon.cli.checkpoint import DIGEST_BYTES
from mtlmon.cli.pump import BLOCK_BYTES, LogEnds, TextWork

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from mtlmon.cli.files import LogFile
    from mtlmon.drive.native import TextMonitor

__all__ = ["CheckpointedText"]

SMALLEST_BLOCK_BYTES = 1 << 12
EVENT_BYTES = 8
"""Of a short line, to read not many more events at a time than lie between two checkpoints."""


class LogDigest:
    """The digest of what the monitor is done with, which ends before what was read."""

    def __init__(self) -> None:
        self.digest = blake2b(digest_size=DIGEST_BYTES)
        self.size = 0
        self.ahead = bytearray()

    def add(self, block: memoryview) -> None:
        """More was read."""
        self.ahead += block

    def up_to(self, position: int) -> bytes:
        """The digest of so many bytes of the log, not fewer than the last time."""
        count = position - self.size
        with memoryview(self.ahead) as ahead:
            self.digest.update(ahead[:count])
        del self.ahead[:count]
        self.size = position
        return self.digest.copy().digest()


class CheckpointedText(TextWork):
    """A text log on its way through a monitor, whose position counts bytes."""

    def __init__(self, monitor: TextMonitor, log: LogFile) -> None:
        super().__init__(monitor, log)
        self.monitor = monitor
        self.name = log.name
        self.digest = LogDigest()

    @property
    def logs(self) -> list[os.stat_result]:
        return [self.log.status]

    @property
    def position(self) -> int:
        return self.monitor.position

    @property
    def amount(self) -> str:
        return f"{self.monitor.position:,} bytes"

    @property
    def is_settled(self) -> bool:
        return self.monitor.is_settled

    def settle(self) -> bool:
        return self.monitor.settle()

    def log_digest(self) -> bytes:
        return self.digest.up_to(self.monitor.position)

    def snapshot(self) -> bytes:
        return self.monitor.snapshot()

    def restore(self, snapshot: bytes, output_size: int) -> None:
        self.monitor.restore(snapshot)

    def skip(self) -> Iterator[None]:
        """Read what was read before, for its digest only."""
        count = self.monitor.position
        if self.log.is_regular and self.log.size < count:
            raise LogEnds
        block = memoryview(bytearray(BLOCK_BYTES))
        while self.bytes_read < count:
            size = self.read_block(block[: count - self.bytes_read])
            if size == 0:
                raise LogEnds
            self.digest.add(block[:size])
            self.digest.up_to(self.bytes_read)
            yield

    def work_in_small_steps(self, events: int) -> None:
        self.block_bytes = min(BLOCK_BYTES, max(SMALLEST_BLOCK_BYTES, EVENT_BYTES * events))

    def load(self, block: memoryview) -> None:
        # what is digested need not be kept
        self.log_digest()
        self.digest.add(block)
        super().load(block)
