"""Revisions of records, taken one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

Record = tuple[int, int | None, tuple[Any, ...]]
"""The start, the end, which is None for no end, and the columns."""


class Folded:
    """The records after some revisions; a record that is not there can neither go nor change."""

    def __init__(self) -> None:
        self.bag: Counter[Record] = Counter()

    def take(self, revisions: Iterable[tuple[str, Record, int | None]]) -> None:
        """Take revisions: what is done, the record as it is then, and the end that it had."""
        for operation, (start, end, row), old_end in revisions:
            if operation == "insert":
                self.bag[start, end, row] += 1
            elif operation == "delete":
                self._remove((start, end, row))
            else:
                assert operation == "update"
                assert old_end != end
                self._remove((start, old_end, row))
                self.bag[start, end, row] += 1

    def _remove(self, record: Record) -> None:
        assert self.bag[record] > 0
        self.bag[record] -= 1

    def records(self) -> list[Record]:
        """All records, in the order of their texts."""
        return sorted(self.bag.elements(), key=str)
