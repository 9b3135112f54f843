"""Makes errors that point at a place in the text, with an excerpt and a hint."""

from __future__ import annotations

from mtlmon.errors import FormulaError
from mtlmon.syntax.joined_text import JoinedText

_WIDTH = 76
_BEFORE = 50
_INDENT = "    "


def formula_error(
    text: str,
    offset: int,
    message: str,
    *,
    source: str,
    hint: str | None = None,
    kind: type[FormulaError] = FormulaError,
) -> FormulaError:
    """Make the error for a place in a text.

    Args:
        text: the whole text; if several are joined, the error is about the one at the offset.
        offset: the index of the character in question; `len(text)` is the end.
        message: what is wrong.
        source: the name of the text, for instance of a file; joined texts have their own names.
        hint: how to correct it, or None.
        kind: the class of the error.
    """
    if isinstance(text, JoinedText):
        text, source, offset = text.part_at(offset)
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line = text[line_start : len(text) if line_end < 0 else line_end].rstrip("\r")
    column = offset - line_start
    return kind(
        message,
        source=source,
        line=text.count("\n", 0, offset) + 1,
        column=column + 1,
        excerpt=_excerpt(line, column) if line.strip() else "",
        hint=hint,
    )


def visible(text: str) -> str:
    """Replace characters that are not printable, so that a terminal shows the text safely."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def escaped(text: str, kept: str = "") -> str:
    """Escape characters that are not printable as in Python strings, for instance as \\x1b.

    A terminal shows the result safely. Unlike with `visible`, no information is lost.

    Args:
        text: the text.
        kept: characters that are not escaped, such as line feeds.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in kept
        else character.encode("unicode_escape").decode()
        for character in text
    )


def shorten(text: str, width: int) -> str:
    """Leave out the middle of a text that has more than `width` characters."""
    if len(text) <= width:
        return text
    kept = width - len(" ... ")
    return f"{text[: kept - kept // 2]} ... {text[len(text) - kept // 2 :]}"


def _excerpt(line: str, column: int) -> str:
    start, end = 0, len(line)
    if end > _WIDTH:
        start = max(0, min(column - _BEFORE, end - _WIDTH))
        end = min(end, start + _WIDTH)
    before, after = line[start:column], line[column:end]
    prefix = "..." if start else ""
    suffix = "..." if end < len(line) else ""
    shown = prefix + _printable(before + after) + suffix
    caret = " " * len(prefix) + "".join(map(_blank, before)) + "^"
    return f"{_INDENT}{shown}\n{_INDENT}{caret}"


def _printable(text: str) -> str:
    return "\t".join(map(visible, text.split("\t")))


def _blank(character: str) -> str:
    """The blanks that move a terminal's cursor as far as the character does."""
    if character == "\t" or character.isascii():
        return "\t" if character == "\t" else " "
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me"}:
        return ""
    return "  " if unicodedata.east_asian_width(character) in {"W", "F"} else " "


def offset_of(text: str, error: FormulaError) -> int:
    """Return the position in a text of the place of an error in it."""
    lines = text.split("\n")[: error.line - 1]
    return sum(len(line) + 1 for line in lines) + error.column - 1
