"""Errors that point at the text: place, the line with a caret under it, a hint."""

from __future__ import annotations

from mtlmon.errors import FormulaError

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
    """The error for `text[offset]`; an offset of `len(text)` is its end."""
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
    """The text with characters that do not print replaced, so that a terminal shows it safely."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def escaped(text: str, kept: str = "") -> str:
    """The text with characters that do not print written as in Python's texts, \\x1b for instance.

    A terminal shows it, whatever a name in it tries. Unlike with `visible`, nothing is lost.

    kept: characters that need not print, such as line feeds.
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
    """The text, its middle left out where it has more than `width` characters."""
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
    """What moves a terminal's cursor as far as the character does."""
    if character == "\t" or character.isascii():
        return "\t" if character == "\t" else " "
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me"}:
        return ""
    return "  " if unicodedata.east_asian_width(character) in {"W", "F"} else " "
