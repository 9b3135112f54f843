"""What rows become where retractions move the ends of records: row by row, by definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple


class Row(NamedTuple):
    """A row of a record, a retraction, or a row that lets time pass.

    A retraction with a new end says which end its record has, and which one it gets. Any other
    takes the record back. `content` is what else is in the row.
    """

    time_stamp: int
    operation: str
    id: str | None
    end: int | None
    new_end: int | None = None
    content: str = ""


class _Record(NamedTuple):
    """What is known of an id.

    Attributes:
        time_stamp: that of its record.
        is_there: whether there is a record.
        end: its end.
        links: ends that it may have, and what they are to be moved to.
        is_awaited: whether a retraction waits for the record to take it back.
    """

    time_stamp: int
    is_there: bool = False
    end: int | None = None
    links: Mapping[int | None, int] = MappingProxyType({})
    is_awaited: bool = False

    @property
    def followed(self) -> _Record:
        """The record with the end that its links lead to; each is used once."""
        if not self.is_there or self.end not in self.links:
            return self
        rest = {old: new for old, new in self.links.items() if old != self.end}
        return self._replace(end=self.links[self.end], links=rest).followed


def settled(rows: Sequence[Row], lateness: int) -> tuple[list[Row], int]:
    """Return the rows without new ends that mean the same, and how many retractions move nothing.

    A row that is more than the lateness below the largest time-stamp so far is left as it is: it is
    refused. So no retraction of a record is taken in any more whose row would be that late.
    """
    found: list[Row] = []
    records: dict[str, _Record] = {}
    clock = broken = 0
    for row in rows:
        is_move = row.operation == "-" and row.new_end is not None
        if row.operation != "-":
            clock = max(clock, row.time_stamp)
            broken += _forget(records, clock - lateness)
        is_late = clock - row.time_stamp > lateness
        known = records.get(row.id or "", _Record(row.time_stamp))
        own = row._replace(operation="+" if is_move else row.operation, new_end=None)
        if row.operation == "-" and not is_move and row.id is not None:
            stamp = known.time_stamp if row.id in records else clock
            records[row.id] = _Record(stamp, False, None, known.links, not known.is_there)
        elif is_late or row.operation == "advance" or (row.id is None and not is_move):
            pass
        elif not is_move:
            assert row.id is not None
            if known.is_awaited:
                records[row.id] = _Record(row.time_stamp, links=known.links)
            else:
                records[row.id] = _Record(row.time_stamp, True, row.end, known.links).followed
                own = own._replace(end=records[row.id].end)
        else:
            new_end = row.new_end
            assert new_end is not None
            is_before = row.end is None or new_end < row.end
            if row.id is None or not is_before or row.end in known.links:
                broken += 1
                continue
            records[row.id] = known._replace(links={**known.links, row.end: new_end}).followed
            if records[row.id].end == known.end:
                continue
            own = own._replace(end=records[row.id].end)
        found.append(own)
        if is_move:
            clock = max(clock, row.time_stamp)
            broken += _forget(records, clock - lateness)
    return found, broken + sum(len(one.links) for one in records.values())


def _forget(records: dict[str, _Record], bound: int) -> int:
    """Forget what begins before a time; return how many links lead nowhere."""
    gone = [name for name, record in records.items() if record.time_stamp < bound]
    return sum(len(records.pop(name).links) for name in gone)
