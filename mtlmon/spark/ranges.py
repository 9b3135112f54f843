"""What executors do with the rows of one trace that is cut into ranges of time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import TableError
from mtlmon.spark.events import EventReader
from mtlmon.spark.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.cutting import SeekingPass, VerdictPass
    from mtlmon.cutting.passes import SeekingWork, VerdictWork
    from mtlmon.spark.events import EventSource

FINDINGS = "pass int, family int, stretch int, time bigint, offset bigint, value int"
"""The columns of findings, as Spark reads them."""


class TimeStamps:
    """From a column of times to one of time-stamps; picklable, for `mapInArrow`.

    Times that are none are left out: they are errors where whole rows are read.

    Args:
        source: how rows become events.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        times = self._source.times()
        for batch in batches:
            time_stamps, faults = times.read(batch.column(0).drop_null())
            if faults is not None:
                time_stamps = time_stamps[faults == 0]
            yield pa.RecordBatch.from_arrays([pa.array(time_stamps)], names=["time"])


class PlacedRows:
    """From rows to events, each once for every range that reads it; picklable, for `mapInArrow`.

    The columns are those that the source wants, in its order, then those that tell the order of
    rows within a time-stamp. Those of events are the number of the range, the time-stamp, the
    letter in words of 64 bits, and the last ones again.

    Args:
        source: how rows become events.
        first, last: the time-stamps of events that ranges read, both included; increasing.
    """

    def __init__(
        self, source: EventSource, first: NDArray[np.int64], last: NDArray[np.int64]
    ) -> None:
        self._source = source
        self._first = first
        self._last = last

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The events of a partition.

        Raises:
            TableError: a row is no event.
        """
        names = list(self._source.selection.names)
        atom_count = len(self._source.policies.atoms)
        reader = EventReader(self._source)
        for batch in batches:
            rows = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
            events = reader.read(rows)
            words = events.letters.words(batch.num_rows, atom_count).view(np.int64)
            columns = [
                pa.array(events.time_stamps),
                *(pa.array(np.ascontiguousarray(words[:, k])) for k in range(words.shape[1])),
                *batch.columns[len(names) :],
            ]
            rows_of, ranges = self._ranges(events.time_stamps)
            if len(ranges) != batch.num_rows or (rows_of[1:] == rows_of[:-1]).any():
                taken = pa.array(rows_of)
                columns = [column.take(taken) for column in columns]
            columns.insert(0, pa.array(ranges))
            yield pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])

    def _ranges(
        self, time_stamps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The rows that ranges read, as often as they do, and the numbers of the ranges."""
        low = np.searchsorted(self._last, time_stamps, side="left")
        counts = np.searchsorted(self._first, time_stamps, side="right") - low
        rows = np.repeat(np.arange(len(time_stamps)), counts)
        earlier = np.cumsum(counts) - counts
        ranges = np.arange(len(rows)) + np.repeat(low - earlier, counts)
        return rows, ranges.astype(np.int32)


def word_count(source: EventSource) -> int:
    """How many words of 64 bits the letter of an event has."""
    return max(1, (len(source.policies.atoms) + 63) // 64)


class Piece(NamedTuple):
    """Events of one range.

    Attributes:
        place: the number of the range.
        time_stamps, words: as `mtlmon.cutting` takes them.
    """

    place: int
    time_stamps: NDArray[np.int64]
    words: NDArray[np.uint64]


def pieces(batches: Iterator[pa.RecordBatch], place_name: str) -> Iterator[Piece]:
    """Sorted events by range.

    Args:
        batches: the number of the range, the time-stamp, words of the letter, and a number that
            is the same for rows with nothing to tell their order by.
        place_name: what messages call the rows.

    Raises:
        TableError: there are such rows, and they differ.
    """
    last: list[NDArray[np.int64]] | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        columns = [np.asarray(column) for column in batch.columns]
        if last is not None:
            first = [column[:1] for column in columns]
            pairs = zip(last, first, strict=True)
            _check_order([np.concatenate(pair) for pair in pairs], place_name)
        _check_order(columns, place_name)
        last = [column[-1:] for column in columns]
        ranges, time_stamps, *words, _ = columns
        letters = np.stack(words, axis=1).view(np.uint64)
        starts = [0, *(np.flatnonzero(np.diff(ranges)) + 1).tolist(), batch.num_rows]
        for start, stop in pairwise(starts):
            yield Piece(int(ranges[start]), time_stamps[start:stop], letters[start:stop])


def _check_order(columns: Sequence[NDArray[np.int64]], place_name: str) -> None:
    """Neighbours of the same range, time-stamp and order must have the same letter."""
    ranges, time_stamps, *words, order = columns
    is_same = order[1:] == order[:-1]
    for column in (time_stamps, ranges):
        is_same &= column[1:] == column[:-1]
    if not is_same.any():
        return
    differs = np.zeros(len(is_same), np.bool_)
    for word in words:
        differs |= word[1:] != word[:-1]
    wrong = np.flatnonzero(is_same & differs)
    if len(wrong):
        raise TableError(
            f"two rows of time-stamp {time_stamps[wrong[0]]} are different events, and nothing "
            "tells which comes first: give columns that do as order_within",
            path=place_name,
        )


class RangeFindings:
    """From events to what passes find out about ranges; picklable, for `mapInArrow`.

    Args:
        passes: of any plans with these ranges.
        place_name: what messages call the rows.
    """

    def __init__(self, passes: Sequence[SeekingPass], place_name: str) -> None:
        self._passes = passes
        self._place_name = place_name

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = -1
        works: list[tuple[int, SeekingWork]] = []
        findings: list[tuple[int, ...]] = []
        for piece in pieces(batches, self._place_name):
            if piece.place != place:
                findings += _found(works)
                place = piece.place
                works = [(number, one.work(place)) for number, one in enumerate(self._passes)]
                works = [(number, work) for number, work in works if work.is_needed]
            for _, work in works:
                work.feed(piece.time_stamps, piece.words)
        findings += _found(works)
        kinds = (pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int32())
        columns = list(zip(*findings, strict=True)) or [()] * len(kinds)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


class RangeVerdicts:
    """From events to verdicts; picklable, for `mapInArrow`.

    Args:
        passes: of each policy, with its name; all have the same ranges.
        place_name: what messages call the rows.
    """

    def __init__(self, passes: Sequence[tuple[str | None, VerdictPass]], place_name: str) -> None:
        self._passes = passes
        self._place_name = place_name

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = -1
        works: list[tuple[str | None, VerdictWork]] = []
        for piece in pieces(batches, self._place_name):
            if piece.place != place:
                for name, work in works:
                    work.finish()
                    yield from _taken(name, work)
                place = piece.place
                works = [(name, one.work(place)) for name, one in self._passes]
            for name, work in works:
                work.feed(piece.time_stamps, piece.words)
                yield from _taken(name, work)
        for name, work in works:
            work.finish()
            yield from _taken(name, work)


def _found(works: Sequence[tuple[int, SeekingWork]]) -> list[tuple[int, ...]]:
    """The findings of a range that has been read, with the numbers of their passes."""
    findings: list[tuple[int, ...]] = []
    for number, work in works:
        work.finish()
        findings += [(number, *finding) for finding in work.findings]
    return findings


def _taken(name: str | None, work: VerdictWork) -> Iterator[pa.RecordBatch]:
    for records in work.take():
        if len(records):
            yield from verdict_batches(name, {}, records.tobytes(), None)
