"""What a relation says of one time after another, where that can change afterwards.

Changes of relations of the log's rows are found in what the relations say from one watermark to the
next, so they always fit the rows that are known so far. The spans of batches are merged, and
records that were cut between two batches become whole again; otherwise each batch would keep all
records that are valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.relations.changing import changes_of
from mtlmon.relations.lookup import LookUp
from mtlmon.relations.multiplicity import coalesced, multiplied, without_common
from mtlmon.relations.of_rows import as_table
from mtlmon.relations.records import Records, typed
from mtlmon.relations.rowwise import united

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Values = tuple[pa.Array, ...]

__all__ = ["Span", "SpannedChanges", "Spans"]


class Span:
    """What a relation says of the time from one watermark to the next.

    Args:
        start: the one watermark.
        records: the records that are valid from there on, cut at both watermarks.
    """

    def __init__(self, start: int, records: Records) -> None:
        self.start = start
        self.records = records
        self._look_ups: dict[tuple[str, ...], LookUp] = {}
        # the changes by keys, which depend on the span before, too
        self._changes: dict[tuple[str, ...], tuple[Span | None, Integers, Values]] = {}

    def by(self, keys: tuple[str, ...]) -> LookUp:
        """Return what finds records by some columns."""
        if keys not in self._look_ups:
            self._look_ups[keys] = LookUp(as_table(self.records), keys)
        return self._look_ups[keys]

    def changes(self, keys: tuple[str, ...], end: int, before: Span | None) -> Values:
        """Return the times of its changes, and the values of keys there.

        Those at its start are left out if the span before is not known.

        Args:
            keys: as for `ChangeTimes`.
            end: the next watermark.
            before: the span before; None if it is not known.
        """
        known = self._changes.get(keys)
        if known is None or known[0] is not before:
            schema = self.records.schema
            removed = None
            if before is not None:
                reaching = before.records.taken(np.flatnonzero(before.records.ends == self.start))
                removed = typed(reaching, schema)
            times, values = changes_of(keys, self.records, self.start, end, removed)
            if before is None:
                first = int(np.searchsorted(times, self.start, "right"))
                times, values = times[first:], tuple(one.slice(first) for one in values)
            known = self._changes[keys] = before, times, values
        return known[1:]

    def rest(self) -> None:
        """Keep nothing but the records."""
        self._look_ups, self._changes = {}, {}


class Spans:
    """What a relation says, from one watermark to the next.

    Attributes:
        end: the watermark behind the last span.
    """

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self.end = 0
        # for each span its start, and the number of records before it
        self._starts = np.empty(0, np.int64)
        self._firsts = np.empty(0, np.int64)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that records take."""
        return sum(span.records.held_bytes for span in self._spans)

    # ---- look-ups --------------------------------------------------------------------------

    def find(self, keys: Sequence[str], times: Integers, values: Sequence[pa.Array]) -> Integers:
        """Return the numbers of records at times that are known, as `KnownRelation` does.

        The number of a record counts those of all earlier spans, too.
        """
        found = np.empty(len(times), np.int64)
        places = np.searchsorted(self._starts, times, "right") - 1
        for place in np.unique(places).tolist():
            rows = np.flatnonzero(places == place)
            own = values
            # mostly all are in one span
            if len(rows) < len(times):
                chosen = pa.array(rows)
                own = [column.take(chosen) for column in values]
            numbers = self._spans[place].by(tuple(keys)).find(times[rows], own)
            found[rows] = np.where(numbers < 0, numbers, numbers + self._firsts[place])
        return found

    def column(self, name: str, records: Integers, wanted: pa.DataType) -> pa.Array:
        """Return the values of a column in records; null for negative ones."""
        parts = [pa.nulls(1, wanted)]
        indices = np.zeros(len(records), np.int64)
        count = 1
        places = np.searchsorted(self._firsts, records, "right") - 1
        for place in np.unique(places[records >= 0]).tolist():
            rows = np.flatnonzero(places == place)
            column = self._spans[place].records.by_name[name]
            parts.append(column.take(pa.array(records[rows] - self._firsts[place])).cast(wanted))
            indices[rows] = np.arange(count, count + len(rows))
            count += len(rows)
        return pa.concat_arrays(parts).take(pa.array(indices))

    def changes(self, keys: tuple[str, ...], start: int, limit: int) -> tuple[Integers, Values]:
        """Return the changes from one time on below another, as `ChangeTimes.between` does.

        They are known above the first watermark and below the last one.
        """
        times: list[Integers] = []
        values: list[Values] = []
        first, last = np.searchsorted(self._starts, [start, limit]).tolist()
        ends = [*self._starts[1:].tolist(), self.end]
        # the span that the first time is in begins before
        for place in range(max(0, first - 1), last):
            before = self._spans[place - 1] if place else None
            own, own_values = self._spans[place].changes(keys, ends[place], before)
            low, high = np.searchsorted(own, [start, limit]).tolist()
            if low < high:
                times.append(own[low:high])
                values.append(tuple(one.slice(low, high - low) for one in own_values))
        if not times:
            return np.empty(0, np.int64), ()
        # columns without any value may have had no type before
        columns = [
            pa.concat_arrays([one.cast(some[-1].type) for one in some])
            for some in zip(*values, strict=True)
        ]
        return np.concatenate(times), tuple(columns)

    def records_from(self, start: int) -> list[Records]:
        """Return the records of the spans that go on behind a time, with the same columns."""
        first = max(0, int(np.searchsorted(self._starts, start, "right")) - 1)
        some = [span.records for span in self._spans[first:]]
        return [typed(one, some[-1].schema) for one in some]

    def __len__(self) -> int:
        """The number of spans."""
        return len(self._spans)

    # ---- what it says ----------------------------------------------------------------------

    def clear(self) -> None:
        """Forget everything; whoever has `changes` of this goes on with what is said next."""
        self._spans, self.end = [], 0
        self._number()

    def say(self, spans: Sequence[tuple[int, Records]], end: int) -> Records | None:
        """Replace what it says of the time from the first watermark on.

        Args:
            spans: what it says from each watermark on below the next one.
            end: the last watermark.

        Returns:
            What was valid and is no longer, and what was not; None if there is neither.
        """
        first, last = np.searchsorted(self._starts, [spans[0][0], end])
        before = [typed(one.records, spans[0][1].schema) for one in self._spans[first:last]]
        self._spans[first:last] = [Span(start, records) for start, records in spans]
        self.end = max(self.end, end)
        self._number()
        return _difference(before, _together([records for _, records in spans]))

    def merge(self, start: int, end: int) -> None:
        """Keep what it says of the time from one watermark on below another as one span.

        Records that were cut at watermarks in between are whole again.
        """
        first, last = np.searchsorted(self._starts, [start, end])
        some = self._spans[first:last]
        if len(some) < 2:
            return
        schema = some[-1].records.schema
        whole = coalesced(_together([typed(one.records, schema) for one in some]))
        self._spans[first:last] = [Span(start, whole)]
        self._number()

    def forget(self, until: int) -> None:
        """Forget what it says of the time below a watermark, and let look-ups rest."""
        for span in self._spans:
            span.rest()
        del self._spans[: int(np.searchsorted(self._starts, until))]
        self._number()

    def _number(self) -> None:
        counts = [len(span.records) for span in self._spans]
        self._starts = np.array([span.start for span in self._spans], np.int64)
        self._firsts = np.cumsum([0, *counts])[:-1]


class SpannedChanges:
    """The times at which a relation changes whose past can change, as `ChangeTimes` tells them.

    Args:
        spans: what the relation says.
        keys: as for `ChangeTimes`.
    """

    def __init__(self, spans: Spans, keys: Sequence[str]) -> None:
        self._spans = spans
        self._keys = tuple(keys)

    def between(self, start: int, limit: int) -> tuple[Integers, Values]:
        """Do what `ChangeTimes.between` does; see `Spans.changes` for what is known."""
        return self._spans.changes(self._keys, start, limit)


def _together(parts: Sequence[Records]) -> Records:
    """All records of some parts, of which there is one."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(one.columns for one in parts), strict=True)
    return Records(
        parts[0].schema,
        tuple(map(pa.concat_arrays, columns)),
        np.concatenate([one.starts for one in parts]),
        np.concatenate([one.ends for one in parts]),
    )


def _difference(olds: Sequence[Records], new: Records) -> Records | None:
    """The records of one side that the other has not, at each instant."""
    if not olds:
        return None
    old = _together(olds)
    if old.equals(new):
        return None
    old, new = without_common(old, new)
    removed = multiplied("less", united(old, new, new.schema), len(old))
    come = multiplied("less", united(new, old, new.schema), len(new))
    return _together([removed, come]) if len(removed) or len(come) else None
