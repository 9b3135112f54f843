"""Lines of a text log that say how many others there are: `!@120 3`, or `!@[100,120) 3`.

There are exactly so many lines with time-stamps below the first one, or in the interval. Readers of
lines see an event without atoms in their place, of as many bytes, at the end of what is counted; so
places in the log, and numbers of lines and events, are as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.history.operations import COMPLETE, Corrections

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CountedLines"]

_COUNT = re.compile(
    rb"^!@(?:([0-9]+)|\[[ \t]*([0-9]+)[ \t]*,[ \t]*([0-9]+)[ \t]*\))[ \t]+([0-9]+)[ \t\r]*$",
    re.MULTILINE,
)
_LARGEST = 2**63 - 1


class CountedLines:
    """Finds the lines that count others in blocks of a log."""

    def __init__(self) -> None:
        # a last line that begins like one, and has not come to its end
        self._unfinished = b""
        self._begins_line = True

    def parts(self, block: memoryview) -> Iterator[tuple[memoryview, Corrections | None]]:
        """Yield the parts of a block between such lines, and each line with what it says.

        What is no such line is left to who reads lines.
        """
        text = self._unfinished + bytes(block)
        self._unfinished = b""
        if b"!" not in text or (b"!@" not in text and not text.endswith(b"!")):
            self._begins_line = text.endswith(b"\n") if text else self._begins_line
            yield memoryview(text), None
            return
        last = text.rfind(b"\n") + 1
        if text[last : last + 1] == b"!" and (last or self._begins_line):
            text, self._unfinished = text[:last], text[last:]
        start = 0
        for found in _COUNT.finditer(text):
            end, first, below, count = found.groups()
            interval = int(first or 0), int(below or end)
            number = int(count)
            is_one = max(*interval, number) <= _LARGEST
            if not is_one or (not found.start() and not self._begins_line):
                continue
            yield memoryview(text)[start : found.start()], None
            start = found.end() + 1
            line = (b"@%d" % interval[1]).ljust(found.end() - found.start()) + b"\n"
            counted = np.array([(interval[0], number)], np.int64)
            yield memoryview(line), Corrections(np.array([COMPLETE], np.uint8), None, counted)
        self._begins_line = text.endswith(b"\n") if text else self._begins_line
        yield memoryview(text)[start:], None

    def rest(self) -> Iterator[tuple[memoryview, Corrections | None]]:
        """Yield the parts of a last line without a line feed."""
        if self._unfinished:
            yield from self.parts(memoryview(b"\n"))
