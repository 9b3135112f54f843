"""Lines of verdicts with times that people read, in place of time-stamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtlmon.checking.outputs import TimeTexts

__all__ = ["timed_lines"]


def timed_lines(lines: bytes, place: int, times: TimeTexts) -> bytes:
    """Return lines of text with `TIME:OFFSET` in place of `TIME-STAMP:OFFSET`.

    Args:
        lines: whole lines as `PolicyLines` and `AnswerLines` write them.
        place: how many fields, each followed by a tab, are before the time-point.
        times: writes the times. If it is plain, the lines stay as they are.
    """
    if not lines or times.is_plain:
        return lines
    rows = [line.split(b"\t", place) for line in lines.split(b"\n")[:-1]]
    pieces = [row[place].split(b":", 1) for row in rows]
    # the second time-point of an equivalence; other lines have no such words before a blank
    others = [_reference(rest) for _, rest in pieces]
    stamps = {stamp for stamp, _ in pieces} | {one[1] for one in others if one is not None}
    numbers = sorted(map(int, stamps))
    texts = {
        b"%d" % number: text.encode()
        for number, text in zip(numbers, times.texts(numbers), strict=True)
    }
    for row, (stamp, rest), other in zip(rows, pieces, others, strict=True):
        behind = rest
        if other is not None:
            behind = b"%b = %b:%b" % (other[0], texts[other[1]], other[2])
        row[place] = b"%b:%b" % (texts[stamp], behind)
    return b"".join(b"\t".join(row) + b"\n" for row in rows)


def _reference(rest: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Split `offset = time-stamp:offset...`; None if a text is not of that form."""
    offset, _, behind = rest.partition(b" ")
    if not behind.startswith(b"= "):
        return None
    stamp, _, last = behind[2:].partition(b":")
    return offset, stamp, last
