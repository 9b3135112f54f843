"""Rows that a program gives as they come: a log of which nobody knows when more of it comes.

Readers are generators, which ask for the next rows. Where there are none yet, a `Pause` goes
through them in the place of rows, up to who has asked: it goes on when there are more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mtlmon.checking.sources import PAUSE, Pause
from mtlmon.errors import TableError
from mtlmon.tables.columns.arrow_text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.tables.columns.wanted import Selection

    Item = Sequence[Mapping[str, Any]]

__all__ = ["GivenRows", "NewRows"]


class GivenRows:
    """Takes rows, and hands them on.

    Attributes:
        name: the name of the log in messages.
        goes_on: whether an earlier run has had what comes before.
        waits: whether the reader has taken all rows, and waits for others.
        unseen: the wanted columns that no row has had so far, if all rows were mappings; None
            before the first row.
        has_false: whether one of these rows had a value that is false.
        present: the columns that the first of these rows had, for messages.
        count: how many rows have been read.
    """

    name = "<rows>"

    def __init__(self) -> None:
        self._items: deque[Item | pa.RecordBatch] = deque()
        self._is_ended = False
        self.waits = False
        self.goes_on = False
        self.unseen: set[str] | None = None
        self.present: list[str] = []
        self.has_false = False
        self.count = 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise TypeError("rows that are given as they come are no table")

    def state(self) -> list[Any]:
        """Return what is known by the rows so far, for `restore`, as JSON can write it."""
        unseen = None if self.unseen is None else sorted(self.unseen)
        return [unseen, self.has_false, self.present, self.count]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        unseen, self.has_false, self.present, self.count = state
        self.unseen = None if unseen is None else set(unseen)

    def put(self, item: Item | pa.RecordBatch) -> None:
        """Take rows: mappings from columns to values, or columns."""
        self._items.append(item)
        self.waits = False

    def drop(self) -> None:
        """Forget the rows that have not been read."""
        self._items.clear()

    def end(self) -> None:
        """Declare that no more rows come."""
        self._is_ended = True
        self.waits = False

    def absent(self, selection: Selection, subject: str) -> list[str]:
        """Return messages about the columns that no row has had so far.

        Args:
            selection: the wanted columns.
            subject: the first words of a message.
        """
        return [
            selection.missing(name, self.present, subject)
            for name in selection.names
            # rows may name only the atoms that are true
            if name in (self.unseen or ()) and (self.has_false or name not in selection.booleans)
        ]

    def items(self) -> Iterator[Item | pa.RecordBatch | Pause]:
        """Yield the rows in the order in which they were given, and pauses, up to the end."""
        while True:
            if self._items:
                yield self._items.popleft()
            elif self._is_ended:
                return
            else:
                self.waits = True
                yield PAUSE


class NewRows:
    """Makes columns of rows that are mappings.

    Args:
        given: the log.
        selection: the columns to read.
    """

    def __init__(self, given: GivenRows, selection: Selection) -> None:
        self._given = given
        self._selection = selection
        self._names = list(selection.names)
        self._needed = {*selection.time_columns, *selection.keys}

    def columns(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Return the wanted columns; what a row does not have is null.

        Raises:
            TableError: the values of a column are of several types, or of none that can be read.
        """
        given = self._given
        if given.unseen is None:
            given.unseen = set(self._names)
        if given.unseen:
            self._see(rows)
        arrays = []
        for name in self._names:
            values = [_value(row, name) for row in rows]
            try:
                arrays.append(pa.array(values))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                reason = shortened(" ".join(str(error).split()))
                raise TableError(
                    f"values that no column can have: {reason}", path=given.name, column=name
                ) from None
        return pa.RecordBatch.from_arrays(arrays, self._names)

    def _see(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Note the columns that rows have."""
        given = self._given
        assert given.unseen is not None
        known = dict.fromkeys(given.present)
        for row in rows:
            known.update(dict.fromkeys(map(str, row)))
            given.unseen -= {name for name in given.unseen if _has(row, name)}
            given.has_false = given.has_false or any(value is False for value in row.values())
        given.present = list(known)[:1000]

    def absent(self) -> dict[str, str]:
        """Return the columns of times and keys that no row has had so far, with messages."""
        given = self._given
        if not given.unseen:
            return {}
        missing = self._selection.missing
        return {
            name: missing(name, given.present)
            for name in self._names
            if name in self._needed and name in given.unseen
        }


def _value(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column in a row; `a.b` is also what b is within a."""
    value = row.get(name)
    if value is not None or "." not in name or name in row:
        return value
    inner: Any = row
    for part in name.split("."):
        inner = inner.get(part) if hasattr(inner, "get") else None
    return inner


def _has(row: Mapping[str, Any], name: str) -> bool:
    return name in row or _value(row, name) is not None
