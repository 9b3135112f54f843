"""Atoms over streams for traces that come one after the other, as Spark sorts rows by key.

The kernels of a program share one clock, and with it the rows of all traces (`streams/rows.pxi`).
Traces that follow each other have no common clock. But only differences of time-stamps matter, and
only within a trace. So the traces that lie within a batch are moved in time: each begins when the
one before it ends. The last trace of a batch may go on in the next one. It is computed by itself,
with its own time-stamps, after everything before it has been forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.streams.atoms import StreamAtoms

# The moved traces of a part must end before this; floats are accurate enough to tell.
_LATEST = float(2**62)


class Computed(NamedTuple):
    """The atoms at the rows of a batch.

    Attributes:
        rows: the indices of the rows that have values, in order.
        atoms: for each atom where it holds, at these rows.
        refused: the other rows, in the order in which they were found, each with the reason.
    """

    rows: NDArray[np.int64]
    atoms: dict[str, pa.BooleanArray]
    refused: list[tuple[int, str]]


class SuccessiveStreams:
    """Computes atoms over streams, for one trace after the other.

    Args:
        atoms: the atoms, of one partition; its programs must be new.
    """

    def __init__(self, atoms: StreamAtoms) -> None:
        self._atoms = atoms

    def evaluate(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        starts: NDArray[np.integer],
        held: Mapping[str, pa.BooleanArray],
    ) -> Computed:
        """Compute where the atoms hold at the next rows, and remember these rows.

        Args:
            batch: the rows.
            time_stamps: their time-stamps, which do not decrease within a trace.
            starts: the indices of the rows with which another trace begins.
            held: for each atom of the log, the rows where it holds.

        Raises:
            PolicyError: a column does not exist, or its type does not fit.
        """
        batch = self._atoms.prepared(batch, held)
        parts = []
        for first, last in self._parts(time_stamps, starts):
            inner = starts[(starts > first) & (starts < last)] - first
            if first in starts:
                self._atoms.forget_all()
            parts.append(self._part(batch, time_stamps, (first, last), inner))
        if not parts:
            # types are checked even if there are no rows
            parts.append(self._part(batch, time_stamps, (0, 0), starts))
        return _joined(parts)

    def _parts(
        self, time_stamps: NDArray[np.int64], starts: NDArray[np.integer]
    ) -> Iterator[tuple[int, int]]:
        """Divide the rows into parts whose traces can be moved behind each other.

        The last trace is a part of its own, so that its time-stamps remain as they are.
        """
        count = len(time_stamps)
        if not count:
            return
        begins = [*({0, *starts.tolist()})]
        begins.sort()
        ends = np.array([*begins[1:], count])
        first, last = time_stamps[begins], time_stamps[ends - 1]
        spans = (last - first).astype(np.float64)
        part = 0
        clock = float(last[0])
        for number in range(1, len(begins) - 1):
            clock += spans[number]
            if clock > _LATEST:
                yield begins[part], begins[number]
                part, clock = number, float(last[number])
        if len(begins) > 1:
            yield begins[part], begins[-1]
        yield begins[-1], count

    def _part(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        part: tuple[int, int],
        starts: NDArray[np.integer],
    ) -> Computed:
        """Compute the atoms for a part of a batch."""
        first, last = part
        count = last - first
        numbers = np.zeros(count, np.uint32)
        times = np.ascontiguousarray(time_stamps[first:last])
        if len(starts):
            numbers[starts] = 1
            numbers = np.cumsum(numbers, dtype=np.uint32)
            moves = np.cumsum(times[starts - 1] - times[starts])
            times = times + np.concatenate([[0], moves])[numbers]
        found = evaluate_traces(self._atoms, batch.slice(first, count), times, numbers)
        return Computed(
            found.rows + first,
            found.atoms,
            [(row + first, reason) for row, reason in found.refused],
        )


def evaluate_traces(
    streams: StreamAtoms,
    rows: pa.RecordBatch,
    times: NDArray[np.int64],
    numbers: NDArray[np.uint32] | None = None,
) -> Computed:
    """Compute atoms at rows, and leave out the rows where integers overflow.

    Args:
        streams: computes the atoms, of one partition.
        rows: the rows, as returned by `StreamAtoms.prepared`.
        times: their time-stamps.
        numbers: the number of each row's trace, or None if there is one trace.
    """
    import pyarrow as pa

    places = np.arange(len(times))
    refused: list[tuple[int, str]] = []
    while True:
        try:
            (found,) = streams.evaluate(rows, times, [numbers]).atoms
        except RowError as error:
            is_kept = np.ones(len(places), np.bool_)
            is_kept[list(error.rows)] = False
            refused += [(int(place), error.reason) for place in places[~is_kept]]
            places, times = places[is_kept], times[is_kept]
            numbers = None if numbers is None else numbers[is_kept]
            rows = rows.filter(pa.array(is_kept))
        else:
            return Computed(places, found, refused)


def _joined(parts: Sequence[Computed]) -> Computed:
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    return Computed(
        np.concatenate([part.rows for part in parts]),
        {name: pa.concat_arrays([part.atoms[name] for part in parts]) for name in parts[0].atoms},
        [one for part in parts for one in part.refused],
    )
