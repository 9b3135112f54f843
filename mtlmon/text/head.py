"""The first part of a text log, for messages about names that did not occur.

The scanner skips names that the formula does not have, at the speed of the disk. The names in a log
matter only at its end, if some atom never occurred; they are then read from the first blocks.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HEAD_BYTES", "LogHead"]

HEAD_BYTES = 1 << 16
_MOST_NAMES = 1000


class LogHead:
    """The beginning of a log, as bytes.

    Attributes:
        is_full: whether nothing more will be added.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.is_full = False

    def add(self, block: bytes | memoryview) -> None:
        """Add the next block of the log, up to the size limit of the head."""
        part = bytes(block[: HEAD_BYTES - self._size])
        self._parts.append(part)
        self._size += len(part)
        self.is_full = self._size >= HEAD_BYTES

    def names(self) -> list[str]:
        """The names of atoms in complete lines, in order of first occurrence."""
        text = b"".join(self._parts)
        if self.is_full:
            text = text[: text.rfind(b"\n") + 1]
        names: dict[str, None] = {}
        for name in _names(text.decode("utf-8", "replace")):
            names[name] = None
            if len(names) >= _MOST_NAMES:
                break
        return list(names)


def _names(text: str) -> Iterator[str]:
    # Not imported at the top, where it would slow down the start of the command.
    import re

    event = re.compile(r"[ \t]*@[0-9]+(?=[ \t(]|$)")
    # Quoted names, and plain names as the scanner reads them.
    item = re.compile(r'"((?:[^"\\]|\\["\\])+)"|([^ ()",\x00-\x1f\x7f]+)')
    for line in text.split("\n"):
        begun = event.match(line)
        if begun is None:
            continue
        for found in item.finditer(line, begun.end()):
            quoted, plain = found.groups()
            yield plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
