"""Turns traces of every form into a stream of events.

Pairs come as they are, and arrays through `mtlmon.testing.columns`. Files and tables are read by a
run, see `mtlmon.testing.log_runs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from mtlmon.engine.native import read_atoms
from mtlmon.errors import EventTypeError, TraceError
from mtlmon.testing.ordering import ordered

if TYPE_CHECKING:
    from mtlmon.testing.conditions import Conditions, ValuedEvent
    from mtlmon.testing.keys import Keys
    from mtlmon.testing.ordering import EventOrder
    from mtlmon.testing.recording import Atoms, NumberedPair, Pair
    from mtlmon.testing.seen import SeenNames
    from mtlmon.testing.times import TimeReader, TimeStamp

    Trace = Iterable[tuple[TimeStamp, Atoms]] | os.PathLike[str] | str | Mapping[str, Any] | Any


__all__ = [
    "Letters",
    "events_of",
    "is_arrays",
    "is_log",
    "is_truth",
    "numbered_events",
    "read_letter",
]

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
    unit: str | None = None,
    seen: SeenNames,
    times: TimeReader,
    order: EventOrder[Any] | None = None,
) -> Iterator[Pair]:
    """Return the events of a trace.

    If the trace has columns or bits, only the atoms in `names` are used.

    Args:
        trace: pairs or arrays as for `mtlmon.testing.check`.
        names: the names of the atoms: of the columns of a matrix or the bits of masks.
        unit: the unit to which dates and times are rounded down.
        seen: is told the names that the trace has, unless the events themselves say it.
        times: reads times that are no integers.
        order: puts the events into the order of time; None if they are in order.

    Raises:
        TraceError: the trace has an unknown form, or a value is invalid; the latter can also be
            raised while iterating. Or an atom is missing, and `seen` treats that as an error.
        EventTypeError: an event's atoms are not a collection of names.
    """
    __tracebackhide__ = True
    events = _events_in_memory(trace, names, unit=unit, seen=seen, times=times)
    return events if order is None else ordered(events, order, itemgetter(0))


def _events_in_memory(
    trace: Any, names: Sequence[str], *, unit: str | None, seen: SeenNames, times: TimeReader
) -> Iterator[Pair]:
    __tracebackhide__ = True
    if is_arrays(trace):
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
    unit: str | None = None,
    seen: SeenNames,
    times: TimeReader,
    order: EventOrder[Any] | None = None,
) -> Iterator[NumberedPair]:
    """Return the events of a trace, with the conditions that hold and the numbers of their keys.

    Takes the same further arguments as `events_of`, and raises the same errors.

    Args:
        trace: pairs or arrays as for `mtlmon.testing.check`.
        names: the names of the atoms in the trace.
        conditions: the conditions, or None.
        keys: the keys, which are given numbers; None if the number is always 0.
        unit: the unit to which dates and times are rounded down.
        seen: is told the names that the trace has.
        times: reads times that are no integers.
        order: puts the events into the order of time; None if they are in order.

    Raises:
        TraceError: the events have no key.
    """
    __tracebackhide__ = True
    from mtlmon.testing.conditions import EVENTS_AT_ONCE

    if not isinstance(trace, Iterable) or is_arrays(trace):
        if keys is not None:
            raise keys.missing_in("a trace of arrays")
    elif not hasattr(trace, "dtype"):
        # What comes one by one may depend on what the test does in between.
        at_once = EVENTS_AT_ONCE if isinstance(trace, Sequence) else 1
        events = read_valued_pairs(trace, conditions, keys, seen, times)
        if order is not None:
            events = ordered(events, order, itemgetter(0))
        if conditions is None:
            return _without_values(events)
        return conditions.events(events, at_once=at_once)
    found = events_of(trace, names, unit=unit, seen=seen, times=times, order=order)
    if conditions is None:
        return ((0, event) for event in found)
    valued = ((stamp, frozenset(letter), _NO_VALUES, 0) for stamp, letter in found)
    return conditions.events(valued, at_once=EVENTS_AT_ONCE)


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


def is_arrays(trace: object) -> bool:
    """Whether a trace is a pair of arrays."""
    return isinstance(trace, tuple) and len(trace) == 2 and hasattr(trace[0], "dtype")


def is_log(trace: object) -> bool:
    """Whether a trace is the path of a file, or a table."""
    return isinstance(trace, (str, os.PathLike)) or has_columns(trace)


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
