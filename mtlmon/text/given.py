"""Lines that a program gives as they come: a text log of which nobody knows when more comes."""

from __future__ import annotations

__all__ = ["GivenText"]


class GivenText:
    """Takes text, and hands it on.

    Attributes:
        name: the name of the log in messages.
        goes_on: whether an earlier run has had what comes before.
        waits: whether the reader has taken all text, and waits for more.
    """

    name = "<lines>"

    def __init__(self) -> None:
        self._text = memoryview(b"")
        self._is_ended = False
        self.waits = False
        self.goes_on = False

    def put(self, text: bytes) -> None:
        """Take lines; the last one is complete, too."""
        if text and not text.endswith(b"\n"):
            text += b"\n"
        self._text = memoryview(bytes(self._text) + text if self._text else text)
        self.waits = False

    def drop(self) -> None:
        """Forget the text that has not been read."""
        self._text = memoryview(b"")

    def end(self) -> None:
        """Declare that no more lines come."""
        self._is_ended = True
        self.waits = False

    def read_into(self, block: memoryview) -> int | None:
        """Copy text to a block; return its size, 0 at the end, and None if there is none yet."""
        size = min(len(self._text), len(block))
        block[:size] = self._text[:size]
        self._text = self._text[size:]
        self.waits = not size and not self._is_ended
        return None if self.waits else size
