"""Operators that say how long records are valid, and those that cut them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import LimitError, MtlmonError
from mtlmon.policy.predicates.kinds import kind_of
from mtlmon.relations.numbering import numbered
from mtlmon.relations.records import NO_END, Records
from mtlmon.relations.rowwise import Expressions, computed, is_true
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.relations.algebra import Timed

_MOST_PIECES = 2**31
_LEAST = -(2**63)


def valid_for(records: Records, length: int | None) -> Records:
    """Let each record be valid for some time; beyond the range of times, it has no end."""
    if length is None:
        return _ending(records, np.full(len(records), NO_END))
    if len(records) and records.starts.max() > NO_END - length:
        return _ending(records, _later(records.starts, length))
    return _ending(records, records.starts + length)


def valid_until_next(records: Records, length: int) -> Records:
    """Let each record be valid until the next multiple of a length."""
    return _ending(records, _later(records.starts, length - records.starts % length))


def valid_to(records: Records, end: Predicate, expressions: Expressions) -> Records:
    """Let each record be valid up to a time that it has itself.

    Raises:
        MtlmonError: the unit of time-stamps is not known, or a time is out of their range.
    """
    found = computed(records, {"": end}, expressions)[""]
    kind = kind_of(found.type)
    if kind.name == "null":
        return _ending(records, np.full(len(records), NO_END))
    own: int | None = kind.unit
    if kind.name != "time":
        # whole numbers are as in the time column
        written = expressions.environment.time_unit
        own = None if written is None else UNITS[written]
    elif expressions.environment.unit is None:
        raise MtlmonError(f"{end} is a time: say in which unit time-stamps are, as in `unit s`")
    is_null = found.is_null().to_numpy(zero_copy_only=False)
    integers = found.view(pa.int32()) if pa.types.is_date32(found.type) else found.view(pa.int64())
    ends = integers.fill_null(0).to_numpy().astype(np.int64)
    if own is not None and expressions.environment.unit is not None:
        ends = _in_unit(ends, own, UNITS[expressions.environment.unit], str(end))
    ends = np.where(is_null, NO_END, ends)
    return _ending(records, ends).kept(ends > records.starts)


def _in_unit(times: NDArray[np.int64], own: int, wanted: int, name: str) -> NDArray[np.int64]:
    """Times in another unit, both in nanoseconds, rounded down."""
    if own <= wanted:
        return times // (wanted // own)
    factor = own // wanted
    if len(times) and max(abs(int(times.min())), abs(int(times.max()))) > NO_END // factor:
        raise MtlmonError(f"an end of {name} is out of the range of time-stamps")
    return times * factor


def valid_until(
    records: Records, condition: Predicate, per: Sequence[str], expressions: Expressions
) -> Records:
    """Let each record be valid until a later one, with the same values, meets a condition."""
    closes = is_true(records, condition, expressions)
    columns = records.by_name
    numbers, _ = numbered([columns[name] for name in per], len(records))
    times, ranks = np.unique(records.starts, return_inverse=True)
    places = numbers.astype(np.int64) * (len(times) + 1) + ranks
    closings = np.unique(places[closes])
    found = np.searchsorted(closings, places, side="right")
    if not len(closings):
        return _ending(records, np.full(len(records), NO_END))
    closing = closings[np.minimum(found, len(closings) - 1)]
    is_closed = (found < len(closings)) & (closing // (len(times) + 1) == numbers)
    ends = np.full(len(records), NO_END)
    ends[is_closed] = times[closing[is_closed] % (len(times) + 1)]
    return _ending(records, ends)


def valid_last(records: Records, count: int, per: Sequence[str]) -> Records:
    """Let each record be valid until so many later ones with the same values have begun."""
    columns = records.by_name
    numbers, _ = numbered([columns[name] for name in per], len(records))
    times, ranks = np.unique(records.starts, return_inverse=True)
    places = numbers.astype(np.int64) * (len(times) + 1) + ranks
    order = np.sort(places)
    # of those that begin later, the one with the given number
    found = np.searchsorted(order, places, side="right") + (count - 1)
    ends = np.full(len(records), NO_END)
    closing = order[np.minimum(found, len(order) - 1)]
    is_closed = (found < len(order)) & (closing // (len(times) + 1) == numbers)
    ends[is_closed] = times[closing[is_closed] % (len(times) + 1)]
    return _ending(records, ends)


def every(records: Records, length: int) -> Records:
    """Let records be valid from the first multiple of a length on, up to one behind their end."""
    starts, ends = (_rounded_up(times, length) for times in (records.starts, records.ends))
    return replace(records, starts=starts, ends=ends, is_coalesced=False).kept(starts < ends)


def _rounded_up(times: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    found = _later(times, -times % length)
    return np.where(times == NO_END, NO_END, found)


def shifted(records: Records, start: int, end: int) -> Records:
    """Let records begin and end some time later, or earlier."""
    starts = _moved(records.starts, start)
    ends = np.where(records.ends == NO_END, NO_END, _moved(records.ends, end))
    return replace(records, starts=starts, ends=ends, is_coalesced=False).kept(starts < ends)


def _moved(times: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Times that are some time later; the range of times ends what is beyond it."""
    if length >= 0:
        return _later(times, length)
    return np.where(times < _LEAST - length, _LEAST, times + length)


def timed(records: Records, node: Timed, schema: pa.Schema) -> Records:
    """Return records with their starts and ends as columns."""
    columns = list(records.columns)
    if node.start is not None:
        columns.append(pa.array(records.starts))
    if node.end is not None:
        columns.append(pa.array(records.ends, mask=records.ends == NO_END))
    return replace(records, schema=schema, columns=tuple(columns), is_coalesced=False)


def split(
    records: Records, length: int, span: tuple[int, int] = (_LEAST, NO_END), now: int = NO_END
) -> Records:
    """Cut records after every so much time from their start.

    Args:
        records: the records; those that end behind the span may have any end there.
        length: the length of pieces; the last one of a record may be shorter.
        span: a time, and a later one: wanted are the pieces that begin before the later one and do
            not end before the other.
        now: if nothing is later, only the pieces that begin up to this time are wanted of records
            without end.

    Raises:
        MtlmonError: a record has no end, and all of it is wanted.
        LimitError: there would be more than 2^31 records.
    """
    start, end = span
    ends = np.minimum(records.ends, end)
    if end == NO_END and (is_endless := records.ends == NO_END).any():
        if now == NO_END:
            raise MtlmonError(
                "a record without end cannot be cut into pieces, as no piece is the last one: say "
                "how long it is with valid, or how far the log goes with --end-time last"
            )
        ends = np.where(is_endless, now + 1, ends)
    step = np.uint64(length)
    # the piece before the one at the start may touch it
    firsts = _distances(np.maximum(records.starts, start), records.starts) // step
    firsts -= firsts > 0
    spans = _distances(ends, records.starts)
    lasts = (np.maximum(spans, 1) - np.uint64(1)) // step + (spans > 0)
    pieces = lasts - np.minimum(firsts, lasts)
    if float(pieces.sum(dtype=np.float64)) > _MOST_PIECES:
        raise LimitError(
            f"records cut after every {length} would be {pieces.sum(dtype=np.float64):.3g}, "
            "more than 2^31: cut them into longer pieces"
        )
    counts = pieces.astype(np.int64)
    rows = np.repeat(np.arange(len(records)), counts)
    numbers = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = records.taken(rows)
    starts = found.starts + (firsts[rows].astype(np.int64) + numbers) * length
    ends = np.minimum(found.ends, _later(starts, length))
    return replace(found, starts=starts, ends=ends).kept(ends >= start)


def _distances(ends: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """How far times are behind others, 0 if they are not; 64 bits without a sign are enough."""
    found = ends.astype(np.uint64) - starts.astype(np.uint64)
    return np.where(ends > starts, found, np.uint64(0))


def _later(times: NDArray[np.int64], lengths: NDArray[np.int64] | int) -> NDArray[np.int64]:
    is_beyond = times > NO_END - lengths
    return np.where(is_beyond, NO_END, np.where(is_beyond, 0, times) + lengths)


def _ending(records: Records, ends: NDArray[np.int64]) -> Records:
    return replace(records, ends=ends, is_coalesced=False)
