"""A line on the terminal that shows how far a run has come."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["Progress", "is_terminal", "quantity"]

REFRESH_SECONDS = 0.1
BAR_WIDTH = 24


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


class Progress:
    """A line on the terminal that shows how far the log is read.

    Args:
        size: the number of bytes to read; with 0, nothing is shown.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.width = 0
        self.start = self.shown_at = time.monotonic()

    def show(self, done: int, events: int) -> None:
        """Show how many bytes and events are done, unless that was shown just before."""
        now = time.monotonic()
        if self.size == 0 or now - self.shown_at < REFRESH_SECONDS:
            return
        self.shown_at = now
        share = min(1.0, done / self.size)
        bar = ("#" * round(share * BAR_WIDTH)).ljust(BAR_WIDTH, ".")
        line = (
            f"[{bar}] {share:4.0%} of {quantity(self.size)}B, "
            f"{quantity(events / (now - self.start))} events/s"
        )
        self.write("\r" + line.ljust(self.width))
        self.width = len(line)

    def erase(self) -> None:
        """Erase the line from the terminal."""
        if self.width > 0:
            self.write("\r" + " " * self.width + "\r")
            self.width = 0

    def write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self.size = self.width = 0


def quantity(number: float) -> str:
    """Format a number with about three digits and a decimal prefix, as in 1.23 M."""
    for prefix in ("", " k", " M", " G"):
        if number < 999.5 or prefix == " G":
            break
        number /= 1000
    digits = 0 if number >= 99.95 or prefix == "" else 1 if number >= 9.995 else 2
    return f"{number:.{digits}f}{prefix or ' '}"
