"""What a mutant is, and how it differs from its original."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_HEADER = re.compile(r"\s*(?:async\s+)?(?:def|cdef|cpdef|class)\b.*?(\w+)\s*(?:\(|:)")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one source file.

    source: the file, relative to the root of the tree.
    where: the function or class it is in, with dots; empty at the top of the file.
    before, after: the changed lines without their indentation; `after` is "pass" or less where a
        statement was dropped.
    near: the lines around them, likewise.
    """

    source: Path
    operator: str
    line: int
    where: str
    before: str
    after: str
    near: str
    text: str

    @property
    def identity(self) -> str:
        """The same for the same change to the same lines, whatever else is in the file."""
        told = (self.source.as_posix(), self.where, self.near, self.before, self.after)
        return digest(*told)[:16]

    def diff(self, original: str) -> str:
        name = self.source.as_posix()
        lines = difflib.unified_diff(
            original.splitlines(), self.text.splitlines(), name, name, lineterm="", n=2
        )
        return "\n".join(lines)


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def lines_near(lines: list[str], first: int, stop: int) -> str:
    """Two lines before and two behind some lines, without indentation."""
    return _joined([*lines[max(0, first - 2) : first], *lines[stop : stop + 2]])


def make_mutant(source: Path, original: str, operator: str, text: str) -> Mutant:
    """The mutant whose whole text is `text`."""
    old, new = original.splitlines(), text.splitlines()
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    return Mutant(
        source,
        operator,
        first + 1,
        _enclosing(old, first),
        _joined(old[first : len(old) - last]),
        _joined(new[first : len(new) - last]),
        lines_near(old, first, len(old) - last),
        text,
    )


def _joined(lines: list[str]) -> str:
    return "\n".join(line.strip() for line in lines)


def _enclosing(lines: list[str], place: int) -> str:
    """The names of the classes and functions around a line."""
    names: list[str] = []
    indentation = _indentation(lines[place]) if place < len(lines) else 0
    for line in reversed(lines[:place]):
        # A bracket that closes the arguments of a header is not where its function begins.
        is_open = line.strip()[:1] not in ("", ")", "]")
        if is_open and _indentation(line) < indentation:
            indentation = _indentation(line)
            if header := _HEADER.match(line):
                names.append(header[1])
    return ".".join(reversed(names))


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
