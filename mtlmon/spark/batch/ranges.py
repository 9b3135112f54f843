"""Processes the rows of a trace that is cut into ranges of time, on executors.

Where streams look back no further than some time (`StreamProgram.reach`, the sum over its layers),
a range reads the rows of that time before its first event, too. It computes streams of them, and
leaves them out afterwards. Sums over windows that lack rows there can overflow where none does,
which is an error that says so. A policy that cannot be cut is one task over all rows, that of
`monitor` without a key.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import TableError
from mtlmon.spark.common.events import EventReader, row_error
from mtlmon.spark.common.ties import NO_ORDER, TieFinder
from mtlmon.spark.common.trace_monitors import Found
from mtlmon.spark.common.trace_streams import TraceStreams
from mtlmon.spark.common.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.cutting import SeekingPass, VerdictPass
    from mtlmon.cutting.passes import SeekingWork, VerdictWork
    from mtlmon.spark.common.events import Events, EventSource

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


class RangeReader:
    """Reads sorted rows of ranges as events; picklable.

    Args:
        source: how rows become events.
        first: for each range, the time-stamp of its first events; rows before it are only there for
            windows.
    """

    def __init__(self, source: EventSource, first: NDArray[np.int64]) -> None:
        self._source = source
        self._first = first

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
        """Yield the events of rows by range.

        Args:
            batches: rows with the number of the range, a number that is equal for rows without an
                order, and the columns that the source selects.

        Raises:
            TableError: a row is not an event, a stream has no value on it, or rows without an order
                are different events.
        """
        source = self._source
        names = list(source.selection.names)
        reader = EventReader(source)
        streams = TraceStreams(source) if source.has_streams else None
        ties = TieFinder(source.policies.columns if source.has_streams else ())
        place = -1
        for batch in batches:
            if batch.num_rows == 0:
                continue
            events = reader.read(pa.RecordBatch.from_arrays(batch.columns[2:], names=names))
            ranges = np.asarray(batch.column(0))
            starts = np.flatnonzero(np.diff(ranges, prepend=place)).astype(np.uint32)
            self._refuse_ties(ties, events, np.asarray(batch.column(1)), starts)
            if streams is None:
                yield from self._of_ranges(events, ranges)
            else:
                # by the number of a trace in pieces of the batch
                places = np.concatenate([[place], ranges[starts]])
                for piece in streams.add(events, starts):
                    self._refuse(events, ranges, piece.refused)
                    yield from self._of_ranges(piece.events, places[piece.traces])
            place = int(ranges[-1])

    def _of_ranges(self, events: Events, ranges: NDArray[np.integer]) -> Iterator[Piece]:
        """Yield the events of each range, without those that are only there for windows."""
        times, words = events.time_stamps, events.words()
        is_wanted = times >= self._first[ranges]
        if not is_wanted.all():
            times, words, ranges = times[is_wanted], words[is_wanted], ranges[is_wanted]
        if not len(times):
            return
        starts = [0, *(np.flatnonzero(np.diff(ranges)) + 1).tolist(), len(times)]
        for start, stop in pairwise(starts):
            yield Piece(int(ranges[start]), times[start:stop], words[start:stop])

    def _refuse_ties(
        self,
        ties: TieFinder,
        events: Events,
        orders: NDArray[np.int64],
        starts: NDArray[np.uint32],
    ) -> None:
        """Check that events of a range with the same time-stamp and order are equal."""
        found = ties.find(events, orders, starts)
        if len(found):
            raise TableError(
                f"two rows of time-stamp {events.time_stamps[found[0]]} are different events, and "
                f"{NO_ORDER}",
                path=self._source.place,
            )

    def _refuse(
        self,
        events: Events,
        ranges: NDArray[np.integer],
        refused: Sequence[tuple[int, str]],
    ) -> None:
        """Raise the error of the first row on which a stream has no value.

        Raises:
            TableError: there is one.
        """
        for row, reason in refused:
            message = reason
            if events.time_stamps[row] < self._first[ranges[row]]:
                # earlier rows, which are not there, may make a difference
                message += " without the rows before a cut; ranges=1 cuts nothing"
            if self._source.no_skipping is not None:
                message += f"; {self._source.no_skipping}"
            raise row_error(self._source, events.rows, row, message)


class RangeFindings:
    """Computes the findings of passes from the rows of ranges; picklable, for `mapInArrow`.

    Args:
        passes: the passes, of any plans with the same ranges.
        reader: reads the events of ranges.
    """

    def __init__(self, passes: Sequence[SeekingPass], reader: RangeReader) -> None:
        self._passes = passes
        self._reader = reader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = -1
        works: list[tuple[int, SeekingWork]] = []
        findings: list[tuple[int, ...]] = []
        for piece in self._reader.pieces(batches):
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
        reader: reads the events of ranges.
        has_messages: whether verdicts have a column of messages, which is null.
    """

    def __init__(
        self,
        passes: Sequence[tuple[str | None, VerdictPass]],
        reader: RangeReader,
        *,
        has_messages: bool = False,
    ) -> None:
        self._passes = passes
        self._reader = reader
        self._has_messages = has_messages

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = -1
        works: list[tuple[str | None, VerdictWork]] = []
        for piece in self._reader.pieces(batches):
            if piece.place != place:
                for name, work in works:
                    work.finish()
                    yield from self._taken(name, work)
                place = piece.place
                works = [(name, one.work(place)) for name, one in self._passes]
            for name, work in works:
                work.feed(piece.time_stamps, piece.words)
                yield from self._taken(name, work)
        for name, work in works:
            work.finish()
            yield from self._taken(name, work)

    def _taken(self, name: str | None, work: VerdictWork) -> Iterator[pa.RecordBatch]:
        for records in work.take():
            if len(records):
                found = Found(name, records.tobytes(), None)
                yield from verdict_batches(found, {}, has_messages=self._has_messages)


def _found(works: Sequence[tuple[int, SeekingWork]]) -> list[tuple[int, ...]]:
    """The findings of a range, after all of its events, with the numbers of their passes."""
    findings: list[tuple[int, ...]] = []
    for number, work in works:
        work.finish()
        findings += [(number, *finding) for finding in work.findings]
    return findings
