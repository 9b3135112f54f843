"""Patterns as of OCaml's library Str, as Python's regular expressions.

In such a pattern, `\\(`, `\\)` and `\\|` group and choose, while parentheses and bars stand for
themselves; `*`, `+`, `?`, `.`, `[...]`, `^`, `$`, `\\b` and `\\1` mean the usual.
"""

from __future__ import annotations

import re
from functools import lru_cache

_ESCAPED = {"(": "(", ")": ")", "|": "|", "b": r"(?:\b|^|$)"}


class PatternError(ValueError):
    """A text that is not a pattern."""


@lru_cache(maxsize=1 << 10)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern.

    Raises:
        PatternError: it is not valid.
    """
    try:
        return re.compile(translated(pattern), re.MULTILINE | re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"this is not a pattern: {error}") from None


def translated(pattern: str) -> str:
    """Write a pattern as a regular expression of Python.

    Raises:
        PatternError: a bracket is not closed, or the pattern ends with a backslash.

    >>> translated(r"\\(a*\\)(b)\\|[]c]")
    '(a*)\\\\(b\\\\)|[\\\\]c]'
    """
    pieces: list[str] = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "\\":
            if place == len(pattern):
                raise PatternError("this is not a pattern: it ends with a backslash")
            escaped = pattern[place]
            place += 1
            if escaped in "123456789":
                # a group may follow that begins with a digit
                pieces.append(f"(?:\\{escaped})")
            else:
                pieces.append(_ESCAPED.get(escaped, re.escape(escaped)))
        elif character == "[":
            piece, place = _characters(pattern, place)
            pieces.append(piece)
        elif character == ".":
            pieces.append(r"[^\n]")
        elif character == "$":
            pieces.append(r"(?=\n|\Z)")
        elif character in "*+?":
            _repeat(pieces, character)
        elif character == "^":
            pieces.append("^")
        else:
            pieces.append(re.escape(character))
    return "".join(pieces)


def _repeat(pieces: list[str], character: str) -> None:
    """Repeat the last piece; `a**` is `a*`, and at the beginning there is nothing to repeat."""
    if not pieces or pieces[-1] in {"(", "|", "^"}:
        pieces.append(re.escape(character))
    elif pieces[-1] in {"*", "+", "?"}:
        if pieces[-1] != character:
            pieces[-1] = "*"
    else:
        pieces.append(character)


def _characters(pattern: str, place: int) -> tuple[str, int]:
    """The set of characters in brackets, and the position behind it."""
    start = "[^" if pattern.startswith("^", place) else "["
    place += len(start) - 1
    end = pattern.find("]", place + 1)
    if end < 0:
        raise PatternError("this is not a pattern: a bracket is not closed")
    content = "".join(f"\\{one}" if one in "\\[]&~|^" else one for one in pattern[place:end])
    if content.startswith("-"):
        content = "\\" + content
    return f"{start}{content}]", end + 1
