"""Several texts as one, so that a position in it says which of them is meant."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class JoinedText(str):
    """Several texts, one behind the other, each on lines of its own.

    Attributes:
        starts: where each text begins.
        parts: the texts, each with its name in errors.
    """

    __slots__ = ("parts", "starts")

    starts: tuple[int, ...]
    parts: tuple[tuple[str, str], ...]

    def __new__(cls, parts: Iterable[tuple[str, str]]) -> JoinedText:
        """Join texts, each of which comes with its name."""
        found = tuple(parts)
        joined = super().__new__(cls, "\n".join(text for text, _ in found))
        starts, place = [], 0
        for text, _ in found:
            starts.append(place)
            place += len(text) + 1
        joined.starts = tuple(starts)
        joined.parts = found
        return joined

    def __reduce__(self) -> tuple[type[JoinedText], tuple[tuple[tuple[str, str], ...]]]:
        return JoinedText, (self.parts,)

    def part_at(self, place: int) -> tuple[str, str, int]:
        """Return the text at a position, its name, and the position in it."""
        # PERF: this takes 0.5 ms to import, and only errors need it
        from bisect import bisect_right

        number = max(0, bisect_right(self.starts, place) - 1)
        text, source = self.parts[number]
        return text, source, place - self.starts[number]


def source_at(text: str, place: int, otherwise: str) -> str:
    """Return the name of the text at a position, or another name if the text is not joined."""
    return text.part_at(place)[1] if isinstance(text, JoinedText) else otherwise


def line_text(text: str, place: int) -> str:
    """Say in which line a position is, as in "line 3", and for several texts in which of them."""
    if not isinstance(text, JoinedText):
        return f"line {text.count(chr(10), 0, place) + 1}"
    part, source, offset = text.part_at(place)
    return f"line {part.count(chr(10), 0, offset) + 1} of {source}"
