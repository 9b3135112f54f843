"""Turns traces of every form into a stream of events.

All data of users comes this way: pairs as they are, arrays and tables through
`mtlmon.testing.columns`, and logs through the command's scanner.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import FileIO
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from mtlmon.engine.native import read_atoms
from mtlmon.errors import EventTypeError, TraceError
from mtlmon.testing.ordering import log_blocks, ordered
from mtlmon.text.head import HEAD_BYTES, LogHead
from mtlmon.text.native import LineOrder, Scanner

if TYPE_CHECKING:
    from mtlmon.testing.conditions import Conditions, ValuedEvent
    from mtlmon.testing.keys import Keys
    from mtlmon.testing.ordering import EventOrder
    from mtlmon.testing.recording import Atoms, NumberedPair, Pair
    from mtlmon.testing.seen import SeenNames
    from mtlmon.testing.times import TimeReader, TimeStamp

    Trace = Iterable[tuple[TimeStamp, Atoms]] | os.PathLike[str] | str | Mapping[str, Any] | Any


__all__ = ["Letters", "events_of", "is_truth", "numbered_events", "read_letter"]

_NO_VALUES: dict[str, object] = {}
_STORED = (frozenset, set, tuple, list)


class Letters(dict[int, frozenset[str]]):
    """Maps bit masks to sets of atoms, each of which is made only once.

    Args:
        names: the names of the atoms; bit i stands for names[i].
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)

    def __missing__(self, mask: int) -> frozenset[str]:
        letter = frozenset(name for bit, name in enumerate(self.names) if mask >> bit & 1)
        self[mask] = letter
        return letter


def events_of(
    trace: Trace,
    names: Sequence[str],
    *,
    time: str | None = None,
    unit: str | None = None,
    seen: SeenNames,
    times: TimeReader,
    order: EventOrder[Any] | None = None,
) -> Iterator[Pair]:
    """Return the events of a trace.

    If the trace has columns, bits or lines, only the atoms in `names` are used.

    Args:
        trace: a trace as for `mtlmon.testing.check`.
        names: the names of the atoms: of the columns of a matrix or the bits of masks, or to look
            for in the columns of a table or in a log.
        time: the name of the column of time-stamps.
        unit: the unit to which dates and times are rounded down.
        seen: is told the names that the trace has, unless the events themselves say it.
        times: reads times that are no integers.
        order: puts the events into the order of time; None if they are in order.

    Raises:
        TraceError: the trace has an unknown form, or a value is invalid; the latter can also be
            raised while iterating. Or an atom is missing, and `seen` treats that as an error.
        LogError: a line of a log is invalid.
        EventTypeError: an event's atoms are not a collection of names.
        OSError: the log cannot be opened.
    """
    __tracebackhide__ = True
    if isinstance(trace, (str, os.PathLike)):
        return read_log(trace, names, seen, order)
    events = _events_in_memory(trace, names, time=time, unit=unit, seen=seen, times=times)
    return events if order is None else ordered(events, order, itemgetter(0))


def _events_in_memory(
    trace: Any,
    names: Sequence[str],
    *,
    time: str | None,
    unit: str | None,
    seen: SeenNames,
    times: TimeReader,
) -> Iterator[Pair]:
    __tracebackhide__ = True
    if has_columns(trace):
        from mtlmon.testing.columns import events_of_table

        try:
            return events_of_table(trace, names, time=time, unit=unit, seen=seen, times=times)
        except TraceError as error:
            raise error.with_traceback(None) from None
    if _is_arrays(trace):
        from mtlmon.testing.columns import events_of_arrays

        time_stamps, letters = trace
        try:
            return events_of_arrays(time_stamps, letters, names, unit=unit, seen=seen, times=times)
        except TraceError as error:
            raise error.with_traceback(None) from None
    if hasattr(trace, "dtype") or not isinstance(trace, Iterable):
        raise TraceError(
            f"{type(trace).__name__} on its own is not a trace: pass pairs (time_stamp, atoms), a "
            "pair of arrays (time_stamps, letters), a table or the path of a log"
        )
    return read_pairs(trace, seen, times)


def numbered_events(
    trace: Trace,
    names: Sequence[str],
    conditions: Conditions | None,
    keys: Keys | None,
    *,
    time: str | None = None,
    unit: str | None = None,
    seen: SeenNames,
    times: TimeReader,
    order: EventOrder[Any] | None = None,
) -> Iterator[NumberedPair]:
    """Return the events of a trace, with the conditions that hold and the numbers of their keys.

    Takes the same further arguments as `events_of`, and raises the same errors.

    Args:
        trace: a trace as for `mtlmon.testing.check`.
        names: the names of the atoms in the trace.
        conditions: the conditions, or None.
        keys: the keys, which are given numbers; None if the number is always 0.
        time: the name of the column of time-stamps.
        unit: the unit to which dates and times are rounded down.
        seen: is told the names that the trace has.
        times: reads times that are no integers.
        order: puts the events into the order of time; None if they are in order.

    Raises:
        TraceError: the events have no key.
    """
    __tracebackhide__ = True
    from mtlmon.testing.conditions import EVENTS_AT_ONCE

    if has_columns(trace):
        pairs = events_of(trace, names, time=time, unit=unit, seen=seen, times=times)
        numbers = repeat(0) if keys is None else keys.of_table(trace)
        rows: Iterator[NumberedPair] = zip(numbers, pairs, strict=False)
        if conditions is None:
            return rows if order is None else ordered(rows, order, _time_of_numbered)
        from mtlmon.testing.columns import columns_of, rows_of

        columns = columns_of(trace, conditions.columns)
        if order is not None:
            placed = list(ordered(enumerate(rows), order, lambda one: one[1][1][0]))
            rows = (row for _, row in placed)
            columns = rows_of(columns, [place for place, _ in placed])
        return conditions.table(rows, columns)
    is_path = isinstance(trace, (str, os.PathLike))
    if not (isinstance(trace, Iterable) and not is_path) or _is_arrays(trace):
        if keys is not None:
            kind = "a text log" if is_path else "a trace of arrays"
            raise keys.missing_in(kind)
    elif not hasattr(trace, "dtype"):
        # What comes one by one may depend on what the test does in between.
        at_once = EVENTS_AT_ONCE if isinstance(trace, Sequence) else 1
        events = read_valued_pairs(trace, conditions, keys, seen, times)
        if order is not None:
            events = ordered(events, order, itemgetter(0))
        if conditions is None:
            return _without_values(events)
        return conditions.events(events, at_once=at_once)
    found = events_of(trace, names, time=time, unit=unit, seen=seen, times=times, order=order)
    if conditions is None:
        return ((0, event) for event in found)
    valued = ((stamp, frozenset(letter), _NO_VALUES, 0) for stamp, letter in found)
    return conditions.events(valued, at_once=EVENTS_AT_ONCE)


def _time_of_numbered(event: NumberedPair) -> Any:
    return event[1][0]


def _without_values(events: Iterator[ValuedEvent]) -> Iterator[NumberedPair]:
    __tracebackhide__ = True
    for stamp, letter, _, number in events:
        yield number, (stamp, letter)


def read_valued_pairs(
    pairs: Iterable[Any],
    conditions: Conditions | None,
    keys: Keys | None,
    seen: SeenNames,
    times: TimeReader,
) -> Iterator[ValuedEvent]:
    """Yield the events of pairs (time_stamp, atoms) with the values of their mappings."""
    __tracebackhide__ = True
    values: Mapping[str, object] = _NO_VALUES
    number = 0

    def of_atoms() -> Iterator[Any]:
        __tracebackhide__ = True
        nonlocal values, number
        for position, pair in enumerate(pairs):
            values = _NO_VALUES
            try:
                time_stamp, atoms = pair
            except (TypeError, ValueError):
                # the error for this comes from `read_pairs`
                yield pair
                continue
            if keys is not None:
                try:
                    number, atoms = keys.split(atoms)
                except EventTypeError as error:
                    message = f"event {position}: {error}"
                    raise EventTypeError(message, index=position) from None
            if conditions is not None and isinstance(atoms, Mapping):
                atoms, values = conditions.split(atoms, seen)
            yield time_stamp, atoms

    for time_stamp, letter in read_pairs(of_atoms(), seen, times):
        yield time_stamp, frozenset(letter), values, number


def _is_arrays(trace: object) -> bool:
    """Whether a trace is a pair of arrays."""
    return isinstance(trace, tuple) and len(trace) == 2 and hasattr(trace[0], "dtype")


def has_columns(trace: object) -> bool:
    """Whether a trace is a table; pandas and polars have `columns`, Arrow has `column_names`."""
    return (
        isinstance(trace, Mapping)
        or hasattr(trace, "columns")
        or hasattr(trace, "column_names")
        or getattr(getattr(trace, "dtype", None), "names", None) is not None
    )


def read_pairs(pairs: Iterable[Any], seen: SeenNames, times: TimeReader) -> Iterator[Pair]:
    """Yield the events of pairs (time_stamp, atoms)."""
    __tracebackhide__ = True
    # Atoms in a stored sequence do not change; an iterator could reuse its sets.
    as_it_is = _STORED if isinstance(pairs, Sequence) else (frozenset,)
    for position, pair in enumerate(pairs):
        try:
            time_stamp, atoms = pair
        except (TypeError, ValueError):
            raise TraceError(
                f"event {position} is {pair!r}: it should be a pair (time_stamp, atoms)"
            ) from None
        if type(atoms) in as_it_is:
            # PERF: most pairs are passed on as they are.
            is_read = type(time_stamp) is int
            yield pair if is_read else (times.at_event(time_stamp, position), atoms)
            continue
        try:
            letter = read_letter(atoms, seen.atoms)
        except EventTypeError as error:
            raise EventTypeError(f"event {position}: {error}", index=position) from None
        if seen.missing:
            seen.note_mapping(atoms)
        yield times.at_event(time_stamp, position), letter


def read_letter(atoms: Atoms, known: Sequence[str]) -> frozenset[str]:
    """Return the atoms that hold at an event.

    Args:
        atoms: a collection of names; or a mapping that says whether they hold, which may also have
            other values, such as those that other policies are about.
        known: the atoms of the formula.

    Raises:
        EventTypeError: it is something else, or says something else of an atom of the formula.
    """
    __tracebackhide__ = True
    try:
        return read_atoms(atoms)
    except EventTypeError:
        if not isinstance(atoms, Mapping):
            raise
    return read_atoms(
        {name: value for name, value in atoms.items() if name in known or is_truth(value)}
    )


def given_atoms(
    given: Sequence[str | Mapping[str, object]], values: Mapping[str, object], *, has_key: bool
) -> Atoms:
    """Return an event of a call with names, dictionaries and keywords as one collection.

    Args:
        given: the names of what holds, and dictionaries.
        values: the keywords.
        has_key: whether events have a key, so that they are dictionaries.
    """
    if not (values or has_key or any(isinstance(one, Mapping) for one in given)):
        return given  # type: ignore[return-value]
    atoms: dict[str, object] = {}
    for one in given:
        atoms |= one if isinstance(one, Mapping) else {one: True}
    atoms.update(values)
    return atoms


def is_truth(value: object) -> bool:
    """Whether a value is true or false, also as numpy has them."""
    return isinstance(value, bool) or type(value).__name__ == "bool_"


def read_log(
    path: str | os.PathLike[str],
    names: Sequence[str],
    seen: SeenNames,
    order: EventOrder[Any] | None = None,
) -> Iterator[Pair]:
    """Return the events of a text log; the arguments are those of `events_of`."""
    __tracebackhide__ = True
    scanner = Scanner(names, path=os.fspath(path))
    letters = Letters(names)
    # Open the file now and not at the first event, so that the error for a wrong path comes early.
    file = FileIO(path)
    seen.more = lambda: _names_in(path)
    if order is not None:
        scanner.order = LineOrder(order.wait)
    return _scan(file, scanner, letters, 0 if order is None else order.wait)


def _names_in(path: str | os.PathLike[str]) -> list[str]:
    """The names in the first lines of a log; the scanner skips names that it does not look for."""
    head = LogHead()
    try:
        with open(path, "rb") as file:
            head.add(file.read(HEAD_BYTES))
    except OSError:
        # The log has been read already; this is only for a message.
        return []
    return head.names()


def _scan(file: FileIO, scanner: Scanner, letters: Letters, wait: int) -> Iterator[Pair]:
    __tracebackhide__ = True
    # The scanner returns the events before an invalid line, and raises when it is called again.
    with file:
        for block in log_blocks(file, scanner.order, wait):
            for time_stamp, mask in scanner.feed(block):
                yield time_stamp, letters[mask]
        for time_stamp, mask in scanner.finish():
            yield time_stamp, letters[mask]
