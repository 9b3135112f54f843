"""What there is to say of the rows that were read for relations: counts and remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtlmon.tables.events import TableEvents

__all__ = ["ReadNotes"]

# so many errors of skipped rows are told
_MOST_ERRORS = 3


class ReadNotes:
    """Collects what there is to say of the rows of a log, and of tables.

    Args:
        name: the name of a table, which sentences begin with; empty for the log.

    Attributes:
        sentences: what there is to say, in order.
    """

    def __init__(self, name: str = "") -> None:
        self._begin = f"{name}: " if name else ""
        self.sentences: list[str] = []

    def of_table(self, name: str) -> ReadNotes:
        """Return what collects the same of a table, among these sentences."""
        found = ReadNotes(name)
        found.sentences = self.sentences
        return found

    def add(self, events: TableEvents) -> None:
        """Take what there is to say of rows, once all have been read."""
        counted = [
            (events.unmatched, "line", "did not match the pattern"),
            (events.skipped, "row", "could not be read"),
            (events.spanning_rows, "row", "spanned several lines"),
        ]
        for count, noun, words in counted:
            if count:
                self._say(f"{count:,} {noun}{'s' if count > 1 else ''} {words}")
        for error in events.errors[:_MOST_ERRORS] if events.skipped else ():
            self._say(f"  {error}")
        for remark in events.remarks:
            self._say(remark)

    def _say(self, text: str) -> None:
        self.sentences.append(text if text.startswith("  ") else f"{self._begin}{text}")
