"""Escapes text for terminals; otherwise names could move the cursor, or hide or forge lines."""

from __future__ import annotations

import os

from mtlmon.syntax.report import escaped

__all__ = ["EscapedLines", "on_terminal"]

# characters that are not printable but are kept
LAYOUT = "\n\t"


def on_terminal(text: str) -> str:
    """Escape lines of text for a terminal."""
    return escaped(text, LAYOUT)


class EscapedLines:
    """A writer that escapes lines for a terminal."""

    def __init__(self) -> None:
        self.waiting = bytearray()

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, lines: bytes) -> None:
        """Add lines, in the form in which they would be written to a file."""
        text = lines.decode("utf-8", "surrogateescape")
        self.waiting += on_terminal(text).encode("utf-8")

    def flush(self, file_descriptor: int, /) -> None:
        """Write the lines.

        Raises:
            OSError: they cannot be written.
        """
        while self.waiting:
            del self.waiting[: os.write(file_descriptor, self.waiting)]
