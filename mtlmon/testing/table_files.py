"""Reads files of tables, such as CSV, as events, with the places of their rows.

`open_tables` gives conditions, rows and the numbers of keys.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Any, TypeGuard

from mtlmon.errors import MtlmonError
from mtlmon.support.option_names import ASSERTION
from mtlmon.support.table_formats import table_format
from mtlmon.testing.events import Letters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.checking.sources import Origins
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.events import TableEvents
    from mtlmon.testing.conditions import Conditions
    from mtlmon.testing.keys import Keys
    from mtlmon.testing.ordering import EventOrder
    from mtlmon.testing.recording import NumberedPair
    from mtlmon.testing.seen import SeenNames
    from mtlmon.testing.subject import Subject

__all__ = ["Places", "file_events", "in_time", "is_table_file", "numbers_of_keys"]

_WORD_BITS = 64


class Places:
    """The files and rows that events come from.

    Args:
        keep: of how many events to keep the places; None means all.
    """

    def __init__(self, keep: int | None) -> None:
        self._keep = keep
        self._count = 0
        # the number of the first event of a batch, the number of its events, and their origins
        self._batches: deque[tuple[int, int, Origins]] = deque()

    def add(self, count: int, origins: Origins) -> None:
        """Add the places of the next events."""
        self._batches.append((self._count, count, origins))
        self._count += count
        # a batch is read before its events are monitored
        oldest = 0 if self._keep is None else self._count - count - self._keep
        while sum(self._batches[0][:2]) <= oldest:
            self._batches.popleft()

    def __call__(self, number: int) -> str | None:
        """Return the place of an event, as in `orders.csv:17`; None if it is not kept."""
        for first, count, origins in self._batches:
            if first <= number < first + count:
                return str(origins.place(number - first))
        return None


def is_table_file(trace: object, subject: Subject) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a trace is the path of a table, or of lines that the policy has a pattern for."""
    if not isinstance(trace, (str, os.PathLike)):
        return False
    has_pattern = subject.file is not None and subject.file.pattern is not None
    return has_pattern or table_format(os.fspath(trace)) is not None


def file_events(
    path: str | os.PathLike[str],
    subject: Subject,
    conditions: Conditions | None,
    keys: Keys | None,
    *,
    time: str | None,
    seen: SeenNames,
    places: Places,
    order: EventOrder[Any] | None = None,
) -> Iterator[NumberedPair]:
    """Return the events of a table, with the conditions that hold and the numbers of their keys.

    The table is read as the command does.

    Args:
        path: the path of the table.
        subject: what is asserted.
        conditions: the conditions in it, which are told the values of events, or None.
        keys: the keys, which are given numbers; None if the number is always 0.
        time: the name of the column of times.
        seen: is told the names that the table has.
        places: is told the places of rows.
        order: puts the rows into the order of time; None if they are in order.

    Raises:
        MtlmonError: pyarrow is missing, or the table does not fit.
        OSError: the file cannot be opened.
    """
    __tracebackhide__ = True
    from mtlmon.tables.opening import open_tables

    file = subject.file
    options: dict[str, Any] = {"time": time, "option_names": ASSERTION}
    options["resolution"] = subject.unit
    if file is not None:
        options |= {"event": file.event, "pattern": file.pattern}
    if conditions is not None:
        options |= {"policies": file, "shown": [conditions.shown_names]}
    if keys is not None:
        options["key"] = keys.names
    if order is not None:
        options["wait"] = order.wait
    try:
        tables = open_tables(path, subject.formula.atoms, **options)
    except MtlmonError as error:
        raise error.with_traceback(None) from None
    tables.track_rows()
    if options.get("event") is None:
        # a column that does not exist is an error
        seen.missing.clear()
    return _read(tables, conditions, keys, seen, places)


def _read(
    tables: TableEvents,
    conditions: Conditions | None,
    keys: Keys | None,
    seen: SeenNames,
    places: Places,
) -> Iterator[NumberedPair]:
    __tracebackhide__ = True
    seen.more = lambda: tables.seen_names
    with tables:
        batches = in_time(tables)
        while True:
            try:
                batch = next(batches, None)
            except MtlmonError as error:
                raise error.with_traceback(None) from None
            if batch is None:
                return
            assert batch.origins is not None
            places.add(len(batch), batch.origins)
            if conditions is not None:
                conditions.keep_values(len(batch), batch.shown_of(0))
            yield from zip(numbers_of_keys(batch, tables, keys), _pairs(batch), strict=True)


def in_time(tables: TableEvents) -> Iterator[EventBatch]:
    """Yield the batches of tables.

    Raises:
        TableError: a row comes too late.
    """
    __tracebackhide__ = True
    for batch in tables:
        if tables.first_refused is not None:
            break
        yield batch
    if tables.first_refused is not None:
        raise tables.first_refused


def _pairs(batch: EventBatch) -> Iterator[tuple[int, frozenset[str]]]:
    letters = Letters(batch.atoms)
    masks = [0] * len(batch)
    words = batch.letters
    for word in range(words.shape[1]):
        shift = word * _WORD_BITS
        masks = [
            mask | bits << shift for mask, bits in zip(masks, words[:, word].tolist(), strict=True)
        ]
    for time_stamp, mask in zip(batch.time_stamps.tolist(), masks, strict=True):
        yield time_stamp, letters[mask]


def numbers_of_keys(batch: EventBatch, tables: TableEvents, keys: Keys | None) -> list[int]:
    """Return the numbers of the keys of a batch's rows; 0 without keys."""
    if keys is None or batch.numbers is None or tables.keys is None:
        return [0] * len(batch)
    table = tables.keys
    known: dict[int, int] = {}
    for number in batch.numbers.tolist():
        if number not in known:
            known[number] = keys.number(table.key(number))
    return [known[number] for number in batch.numbers.tolist()]
