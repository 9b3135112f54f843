"""Messages about unreadable log lines: the position, and the line shortened around it."""

from __future__ import annotations

from mtlmon.syntax.report import escaped

__all__ = ["describe"]

LENGTH = 60


def describe(message: str, line: bytes, place: int, **values: int) -> tuple[str, int]:
    """Fill in a message about a byte of a line; return it and the column (1-based, characters).

    `{word}` and `{character}` in the message are replaced by the word or character at the position.
    """
    before = line[:place].decode(errors="replace")
    after = line[place:].removesuffix(b"\r").decode(errors="replace")
    word = after.replace("\t", " ").partition(" ")[0]
    filled = message.format(
        word=excerpt(word, 0),
        character=name_character(after[:1]),
        **values,
    )
    return f"{filled} ({excerpt(before + after, len(before))})", len(before) + 1


def name_character(character: str) -> str:
    """Describe a character in a message: quoted, or its code if it is not printable."""
    if character.isprintable():
        return f"'{character}'"
    return f"control character 0x{ord(character):02X}"


def excerpt(line: str, place: int) -> str:
    """Shorten a line around a position (an index), and escape unprintable characters."""
    first = max(0, min(place - LENGTH // 2, len(line) - LENGTH))
    shortened = escaped(line[first : first + LENGTH])
    return ("..." if first > 0 else "") + shortened + ("..." if first + LENGTH < len(line) else "")
