"""When a run began and how long it took, with the earlier runs that it goes on from."""

from __future__ import annotations

import time
from datetime import UTC, datetime

__all__ = ["Elapsed"]


class Elapsed:
    """The time of a run, from now.

    Attributes:
        started: when the run, or the first of those that it goes on from, has begun.
        earlier: how many seconds the earlier runs took.
    """

    def __init__(self) -> None:
        self.started = datetime.now(UTC)
        self.earlier = 0.0
        self._begin = time.monotonic()

    def snapshot(self) -> list[float]:
        """Return what `restore` takes."""
        return [self.started.timestamp(), self.earlier + time.monotonic() - self._begin]

    def restore(self, snapshot: list[float]) -> None:
        """Go on from an earlier run."""
        started, self.earlier = snapshot
        self.started = datetime.fromtimestamp(started, UTC)
