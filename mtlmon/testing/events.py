"""Traces of every form as a stream of events.

This is the one way from a user's data to the monitor: pairs as they come, arrays and tables by way
of `mtlmon.testing.columns`, logs by way of the command's scanner.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import FileIO
from typing import TYPE_CHECKING, Any

from mtlmon.engine.native import read_atoms
from mtlmon.errors import EventTypeError, TraceError
from mtlmon.text.head import HEAD_BYTES, LogHead
from mtlmon.text.native import Scanner

if TYPE_CHECKING:
    from mtlmon.testing.recording import Atoms, Pair
    from mtlmon.testing.seen import SeenNames

    Trace = Iterable[tuple[int, Atoms]] | os.PathLike[str] | str | Mapping[str, Any] | Any


__all__ = ["Letters", "events_of"]

BLOCK_BYTES = 1 << 18
_STORED = (frozenset, set, tuple, list)


class Letters(dict[int, frozenset[str]]):
    """The atoms that the bits of a mask stand for, made once for each mask that occurs.

    Args:
        names: bit i stands for names[i].
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
) -> Iterator[Pair]:
    """The events of a trace, as far as `names` go where the trace has columns, bits or lines.

    Args:
        trace: as `mtlmon.testing.check` takes it.
        names: of the atoms: the columns of a matrix, the bits of masks, the columns to look for in
            a table, the words to look for in a log.
        time: the name of the column of time-stamps.
        unit: of the time-stamps made of dates and times.
        seen: is told which names the trace has, as far as the events themselves do not say it.

    Raises:
        TraceError: the trace has no form that is known, or a value is of no use; also while it is
            iterated over. Or it does not have an atom, and `seen` takes that for an error.
        LogError: a log's line cannot be read.
        EventTypeError: an event's atoms are no collection of names.
        OSError: the log cannot be opened.
    """
    __tracebackhide__ = True
    if isinstance(trace, (str, os.PathLike)):
        return read_log(trace, names, seen)
    if _has_columns(trace):
        from mtlmon.testing.columns import events_of_table

        try:
            return events_of_table(trace, names, time=time, unit=unit, seen=seen)
        except TraceError as error:
            raise error.with_traceback(None) from None
    if isinstance(trace, tuple) and len(trace) == 2 and hasattr(trace[0], "dtype"):
        from mtlmon.testing.columns import events_of_arrays

        time_stamps, letters = trace
        try:
            return events_of_arrays(time_stamps, letters, names, unit=unit, seen=seen)
        except TraceError as error:
            raise error.with_traceback(None) from None
    if hasattr(trace, "dtype") or not isinstance(trace, Iterable):
        raise TraceError(
            f"{type(trace).__name__} on its own is not a trace: pass pairs (time_stamp, atoms), a "
            "pair of arrays (time_stamps, letters), a table or the path of a log"
        )
    return read_pairs(trace, seen)


def _has_columns(trace: object) -> bool:
    """Whether it is a table: pandas and polars have `columns`, Arrow has `column_names`."""
    return (
        isinstance(trace, Mapping)
        or hasattr(trace, "columns")
        or hasattr(trace, "column_names")
        or getattr(getattr(trace, "dtype", None), "names", None) is not None
    )


def read_pairs(pairs: Iterable[Any], seen: SeenNames) -> Iterator[Pair]:
    """The events of pairs (time_stamp, atoms)."""
    __tracebackhide__ = True
    # What stands in a list stays as it is; what is made on the way may be used again.
    as_it_is = _STORED if isinstance(pairs, Sequence) else (frozenset,)
    for position, pair in enumerate(pairs):
        try:
            time_stamp, atoms = pair
        except (TypeError, ValueError):
            raise TraceError(
                f"event {position} is {pair!r}: it should be a pair (time_stamp, atoms)"
            ) from None
        if type(atoms) in as_it_is:
            yield pair
            continue
        try:
            letter = read_atoms(atoms)
        except EventTypeError as error:
            raise EventTypeError(f"event {position}: {error}", index=position) from None
        if seen.missing:
            seen.note_mapping(atoms)
        yield time_stamp, letter


def read_log(path: str | os.PathLike[str], names: Sequence[str], seen: SeenNames) -> Iterator[Pair]:
    """The events of a text log."""
    __tracebackhide__ = True
    scanner = Scanner(names, path=os.fspath(path))
    letters = Letters(names)
    # Opened here and not at the first event, so that a wrong path is reported where it was given.
    file = FileIO(path)
    seen.more = lambda: _names_in(path)
    return _scan(file, scanner, letters)


def _names_in(path: str | os.PathLike[str]) -> list[str]:
    """Names in the first lines of a log; the scanner passes over those that it is not asked for."""
    head = LogHead()
    try:
        with open(path, "rb") as file:
            head.add(file.read(HEAD_BYTES))
    except OSError:
        # It has been read already: this is only for a message.
        return []
    return head.names()


def _scan(file: FileIO, scanner: Scanner, letters: Letters) -> Iterator[Pair]:
    __tracebackhide__ = True
    # The scanner returns what stands before a line that it cannot read, and raises when it is
    # called again.
    with file:
        while block := file.read(BLOCK_BYTES):
            for time_stamp, mask in scanner.feed(block):
                yield time_stamp, letters[mask]
        for time_stamp, mask in scanner.finish():
            yield time_stamp, letters[mask]
