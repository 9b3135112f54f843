"""Processes the rows of a trace that is cut into ranges of time, on executors."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import TableError
from mtlmon.spark.common.events import EventReader
from mtlmon.spark.common.ties import NO_ORDER
from mtlmon.spark.common.trace_monitors import Found
from mtlmon.spark.common.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.cutting import SeekingPass, VerdictPass
    from mtlmon.cutting.passes import SeekingWork, VerdictWork
    from mtlmon.spark.common.events import EventSource

FINDINGS = "pass int, family int, stretch int, time bigint, offset bigint, value int"
"""The columns of findings, with their types in Spark."""


class Piece(NamedTuple):
    """Events of one range.

    Attributes:
        place: the number of the range.
        time_stamps: the time-stamps of the events, as for `mtlmon.cutting`.
        words: the atoms of the events as words of bits, as for `mtlmon.cutting`.
    """

    place: int
    time_stamps: NDArray[np.int64]
    words: NDArray[np.uint64]


def pieces(batches: Iterator[pa.RecordBatch], source: EventSource) -> Iterator[Piece]:
    """Read sorted rows as events, and yield them by range.

    Args:
        batches: rows with the number of the range, a number that is equal for rows without an
            order, and the columns that the source selects.
        source: how rows become events.

    Raises:
        TableError: a row is not an event, or rows without an order are different events.
    """
    names = list(source.selection.names)
    atom_count = len(source.policies.atoms)
    reader = EventReader(source)
    last: _Order | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        rows = pa.RecordBatch.from_arrays(batch.columns[2:], names=names)
        events = reader.read(rows)
        order = _Order(
            np.asarray(batch.column(0)),
            np.asarray(batch.column(1)),
            events.time_stamps,
            events.letters.words(batch.num_rows, atom_count),
        )
        if last is not None:
            _check_order(last.followed_by(order.part(slice(1))), source)
        _check_order(order, source)
        last = order.part(slice(-1, None))
        starts = [0, *(np.flatnonzero(np.diff(order.ranges)) + 1).tolist(), batch.num_rows]
        for start, stop in pairwise(starts):
            part = slice(start, stop)
            yield Piece(int(order.ranges[start]), order.time_stamps[part], order.words[part])


class _Order(NamedTuple):
    """Events and the values that give their order; each array has an item for each event."""

    ranges: NDArray[np.int32]
    orders: NDArray[np.int64]
    time_stamps: NDArray[np.int64]
    words: NDArray[np.uint64]

    def part(self, part: slice) -> _Order:
        ranges, orders, time_stamps, words = self
        return _Order(ranges[part], orders[part], time_stamps[part], words[part])

    def followed_by(self, later: _Order) -> _Order:
        return _Order(
            np.concatenate([self.ranges, later.ranges]),
            np.concatenate([self.orders, later.orders]),
            np.concatenate([self.time_stamps, later.time_stamps]),
            np.concatenate([self.words, later.words]),
        )


def _check_order(events: _Order, source: EventSource) -> None:
    """Check that neighbours with the same range, time-stamp and order have the same letter."""
    is_same = events.orders[1:] == events.orders[:-1]
    for column in (events.time_stamps, events.ranges):
        is_same &= column[1:] == column[:-1]
    if not is_same.any():
        return
    wrong = np.flatnonzero(is_same & (events.words[1:] != events.words[:-1]).any(axis=1))
    if len(wrong):
        raise TableError(
            f"two rows of time-stamp {events.time_stamps[wrong[0]]} are different events, and "
            f"{NO_ORDER}",
            path=source.place,
        )


class RangeFindings:
    """Computes the findings of passes from the rows of ranges; picklable, for `mapInArrow`.

    Args:
        passes: the passes, of any plans with the same ranges.
        source: how rows become events.
    """

    def __init__(self, passes: Sequence[SeekingPass], source: EventSource) -> None:
        self._passes = passes
        self._source = source

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = -1
        works: list[tuple[int, SeekingWork]] = []
        findings: list[tuple[int, ...]] = []
        for piece in pieces(batches, self._source):
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
    """Computes verdicts from the rows of ranges; picklable, for `mapInArrow`.

    Args:
        passes: the name and the pass of each policy; all have the same ranges.
        source: how rows become events.
    """

    def __init__(
        self, passes: Sequence[tuple[str | None, VerdictPass]], source: EventSource
    ) -> None:
        self._passes = passes
        self._source = source

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = -1
        works: list[tuple[str | None, VerdictWork]] = []
        for piece in pieces(batches, self._source):
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
    """The findings of a range, after all of its events, with the numbers of their passes."""
    findings: list[tuple[int, ...]] = []
    for number, work in works:
        work.finish()
        findings += [(number, *finding) for finding in work.findings]
    return findings


def _taken(name: str | None, work: VerdictWork) -> Iterator[pa.RecordBatch]:
    for records in work.take():
        if len(records):
            yield from verdict_batches(Found(name, records.tobytes(), None), {})
