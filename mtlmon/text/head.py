"""The first part of a text log, for messages about names that did not occur, and its encoding.

The scanner skips names that the formula does not have, at the speed of the disk. The names in a log
matter only at its end, if some atom never occurred; they are then read from the first blocks.
"""

from __future__ import annotations

from mtlmon.errors import LogError
from mtlmon.support.encodings import LOOKED_AT, NOT_UTF_8, Utf8Check, other_encoding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["HEAD_BYTES", "LogHead"]

HEAD_BYTES = 1 << 16
_MOST_NAMES = 1000


class LogHead:
    """The beginning of a log, as bytes.

    Args:
        path: the name of the log in messages.
        atoms: the atoms of the policies. If there are other letters than those of ASCII in them,
            names in another encoding than UTF-8 would not be found.

    Attributes:
        is_full: whether nothing more is kept.
    """

    def __init__(self, path: str = "<log>", atoms: Sequence[str] = ()) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._path = path
        self._utf_8 = None if all(map(str.isascii, atoms)) else Utf8Check()
        self._lines = 0
        self.is_full = False

    def add(self, block: bytes | memoryview) -> None:
        """Take the next block of the log; keep it up to the size limit of the head.

        Raises:
            LogError: the log is not in UTF-8, but in an encoding that cannot be read.
        """
        if not self._size and (reason := other_encoding(bytes(block[:LOOKED_AT]))):
            raise LogError(f"the log is {reason}", path=self._path, line=1, column=1)
        if self._utf_8 is not None:
            self._check(bytes(block))
        if self.is_full:
            return
        part = bytes(block[: HEAD_BYTES - self._size])
        self._parts.append(part)
        self._size += len(part)
        self.is_full = self._size >= HEAD_BYTES

    def resume(self, beginning: bytes, end: bytes, lines: int) -> None:
        """Go on behind a part of the log that is not added.

        Args:
            beginning: the first bytes of that part, up to the size limit of the head.
            end: its last bytes.
            lines: the number of its lines.
        """
        self._parts, self._size = [beginning], len(beginning)
        self.is_full = self._size >= HEAD_BYTES
        self._lines = lines
        if self._utf_8 is not None:
            # a letter may end behind them
            self._utf_8.resume(end)

    def kept(self) -> tuple[bytes, int]:
        """Return what is kept, and the number of lines, as `resume` takes them."""
        return b"".join(self._parts), self._lines

    def _check(self, block: bytes) -> None:
        assert self._utf_8 is not None
        place = self._utf_8.fault_in(block)
        if place is not None:
            line = self._lines + block.count(b"\n", 0, place) + 1
            raise LogError(f"the line is {NOT_UTF_8}", path=self._path, line=line, column=1)
        self._lines += block.count(b"\n")

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
