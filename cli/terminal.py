"""What goes to a terminal: names in it could otherwise move the cursor, hide or forge lines."""

from __future__ import annotations

import os

from mtlmon.syntax.report import escaped

__all__ = ["EscapedLines", "on_terminal"]

# what lines of text consist of besides
LAYOUT = "\n\t"


def on_terminal(text: str) -> str:
    """Lines of text as a terminal may get them."""
    return escaped(text, LAYOUT)


class EscapedLines:
    """Lines on their way to a terminal, a writer like those that they come from."""

    def __init__(self) -> None:
        self.waiting = bytearray()

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, lines: bytes) -> None:
        """More lines, as they would go to a file."""
        text = lines.decode("utf-8", "surrogateescape")
        self.waiting += on_terminal(text).encode("utf-8")

    def flush(self, file_descriptor: int, /) -> None:
        """Write them.

        Raises OSError.
        """
        while self.waiting:
            del self.waiting[: os.write(file_descriptor, self.waiting)]
