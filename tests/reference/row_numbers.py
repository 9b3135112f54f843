"""Which row of a log a time-point is: counted by hand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence


class LogRow(NamedTuple):
    """A row of a file.

    Attributes:
        file: the name of the file.
        number: how many rows of the file come up to this one.
        time_stamp: its time-stamp, or None if it cannot be read.
        user: a key.
        host: another key.
        names: what holds.
    """

    file: str
    number: int
    time_stamp: int | None
    user: str
    host: str
    names: frozenset[str]


def files_of_rows(files: Sequence[Sequence[LogRow]], *, is_sorted: bool) -> list[LogRow]:
    """The rows that can be read, in the order in which they are events."""
    rows = [row for file in files for row in file if row.time_stamp is not None]
    return sorted(rows, key=_time) if is_sorted else rows


def _time(row: LogRow) -> int:
    assert row.time_stamp is not None
    return row.time_stamp


def time_points(
    rows: Iterable[LogRow], key: Callable[[LogRow], Hashable]
) -> dict[tuple[Hashable, int, int], tuple[str, int]]:
    """The file and the number of the row of each time-point: a key, a time-stamp and an offset."""
    seen: Counter[tuple[Hashable, int]] = Counter()
    found = {}
    for row in rows:
        trace = key(row), _time(row)
        found[(*trace, seen[trace])] = row.file, row.number
        seen[trace] += 1
    return found
