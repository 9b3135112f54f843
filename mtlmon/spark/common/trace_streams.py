"""What depends on other rows of a trace, for events sorted by trace and time.

The ticks of a key depend on the other keys in one way only: they go on to the end of the log. Data
at rest has a last time-stamp, which an aggregate finds before the rows are monitored; partitions,
files and arrays are logs of their own. With that limit, each trace is computed to its end when the
next one begins, in groups of traces that have at most `MOST_TICKS` ticks together. At the end of a
complete trace, all rows that wait for later values are let go at once, and put behind the earlier
rows of the same trace, because the monitors take one trace after the other. Time does not advance
the monitors of policies with such rows, because these are of the past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.errors import TableError
from mtlmon.spark.common.events import KEPT_ERRORS
from mtlmon.streams.atoms import StreamAtoms
from mtlmon.streams.successive import SuccessiveStreams
from mtlmon.syntax.report import visible
from mtlmon.tables.columns.keys import NO_NUMBER, find_rows, number_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.errors import TickError
    from mtlmon.spark.common.events import Events, EventSource
    from mtlmon.streams.successive import Piece
    from mtlmon.tables.columns.letters import Letters


class TracePiece(NamedTuple):
    """Consecutive events with all that is computed of them, and ticks.

    Attributes:
        events: the events, without those on which a stream has no value. Their letters have the
            ticks, sorted by trace, and the values to show.
        traces: for each event the number of its trace, as ticks have it: 0 is the trace that goes
            on from the batch before, and k the one that begins with number k - 1 of `starts`.
        refused: the indices of the events that were left out, among those that were given, each
            with the reason.
    """

    events: Events
    traces: NDArray[np.int64]
    refused: list[tuple[int, str]]


def stream_atoms(source: EventSource) -> StreamAtoms:
    """Return what computes all that depends on other rows, of the policies of a source."""
    policies = source.policies
    assert policies.file is not None
    wanted, shown = [policies.wanted], [policies.shown]
    return StreamAtoms(policies.file, wanted, policies.log_atoms, source.environment(), shown=shown)


def set_computed(letters: Letters, atoms: Sequence[str], piece: Piece) -> None:
    """Add what was computed to the letters of the rows of a piece, which have these atoms."""
    letters.of_traces = [{atoms.index(name): array for name, array in piece.atoms.items()}]
    letters.of_ticks = [piece.ticks]
    letters.shown = [piece.shown]


def with_computed(events: Events, piece: Piece) -> Events:
    """Return the events of a piece, with all that was computed."""
    if len(piece.rows) < len(events.time_stamps):
        events = events.of_rows(piece.rows)
    set_computed(events.letters, events.atoms, piece)
    return events


class RefusedTicks:
    """What to do at time-points at which integers overflow: as with rows that are not events.

    These are ticks, and rows that have waited for later values.

    Args:
        source: says what to do with such rows.
        errors: takes the errors of the first time-points that are left out.
        key_of: returns the values of the key columns of a trace, if they are known.
    """

    def __init__(
        self, source: EventSource, errors: list[str], key_of: Callable[[int], Sequence[object]]
    ) -> None:
        self._source = source
        self._errors = errors
        self._key_of = key_of

    def __call__(self, refused: TickError, trace: int) -> None:
        """Leave out a time-point of a trace.

        Raises:
            TableError: such time-points are not to be left out.
        """
        # Without keys, Spark has a column of its own for the only trace.
        cells = zip(self._source.keys, self._key_of(trace), strict=False)
        of_key = visible(", ".join(f"{name} {value}" for name, value in cells))
        of = f" of {of_key}" if of_key else ""
        message = f"at {refused.where}{of}: {refused.reason}"
        if self._source.on_error == "stop":
            advice = f"; on_error='skip' leaves such {refused.what} out"
            raise TableError(message + advice, path=self._source.place)
        if len(self._errors) < KEPT_ERRORS:
            self._errors.append(str(TableError(message, path=self._source.place)))


class TraceStreams:
    """Adds what depends on other rows to events, for one trace after the other.

    Args:
        source: how rows become events, and the policies of one partition of traces.
        limit: the ticks of all traces are computed below this time; None if there are none, or if
            there is only one trace.
        errors: takes the errors of the first time-points that are left out.
        is_complete: whether no rows follow the last one of a trace, so that rows that wait for
            later values are let go.
    """

    def __init__(
        self,
        source: EventSource,
        limit: int | None = None,
        errors: list[str] | None = None,
        *,
        is_complete: bool = False,
    ) -> None:
        self._keys = source.keys
        self._log_atoms = source.policies.log_atoms
        self._atoms = stream_atoms(source)
        on_tick = RefusedTicks(source, [] if errors is None else errors, self._key_of)
        self._streams = SuccessiveStreams(self._atoms, limit, on_tick, is_complete=is_complete)
        self._atoms.know_traces([self._keys], self._traces_of)
        # the numbers of the traces of the present batch by their keys; None until they are wanted
        self._traces: KeyTable | None = None
        # the last events, without their rows
        self._nothing: Events | None = None
        # for each trace of the present batch a row of it, and one of the trace before the batch
        self._rows_of_traces: pa.RecordBatch | None = None
        self._last_row: pa.RecordBatch | None = None

    def _key_of(self, trace: int) -> list[object]:
        """The values of the key columns of a trace."""
        rows, place = self._rows_of_traces, trace - 1
        if not trace or rows is None:
            rows, place = self._last_row, 0
        return [] if rows is None else [rows.column(name)[place].as_py() for name in self._keys]

    def _traces_of(self, partition: int, keys: Sequence[pa.Array]) -> NDArray[np.uint32]:
        """Return the numbers of traces with some keys, among those that are computed at present."""
        # the trace before the batch, if there is one, has the number 0
        first = 1 if self._last_row is None else 0
        if self._traces is None:
            self._traces = KeyTable(len(self._keys))
            rows = [one for one in (self._last_row, self._rows_of_traces) if one is not None]
            columns = [pa.concat_arrays([one.column(name) for one in rows]) for name in self._keys]
            number_rows(self._traces, columns)
        numbers = find_rows(self._traces, keys).astype(np.int64)
        found = numbers + first - self._streams.first_trace
        found[(numbers == NO_NUMBER) | (found < 0)] = NO_NUMBER
        return found.astype(np.uint32)

    def add(self, events: Events, starts: NDArray[np.integer]) -> Iterator[TracePiece]:
        """Yield the next events in pieces, some of which have only ticks.

        Args:
            events: the events, with the atoms that depend on their own row.
            starts: the indices of the events with which another trace begins.

        Raises:
            PolicyError: a column does not exist, or its type does not fit.
            TableError: integers overflow at a tick, or at a row that has waited.
        """
        count = len(events.time_stamps)
        self._rows_of_traces = events.rows.take(pa.array(starts)) if self._keys else None
        self._traces = None
        held = {
            name: events.letters.held(events.atoms.index(name), count) for name in self._log_atoms
        }
        self._nothing = events.of_rows(np.empty(0, np.int64))
        for piece in self._streams.evaluate(events.rows, events.time_stamps, starts, held):
            yield TracePiece(with_computed(events, piece), piece.traces, piece.refused)
        if count:
            self._last_row = events.rows.take(pa.array([count - 1])) if self._keys else None
            self._traces = None

    def end(self, limit: int | None = None) -> Iterator[TracePiece]:
        """Yield the remaining ticks of the last trace, and its rows that wait no longer.

        Args:
            limit: compute the ticks below this time; by default, as for all traces.

        Raises:
            TableError: integers overflow at a tick, or at a row that has waited.
        """
        if self._nothing is None:
            return
        for piece in self._streams.end(limit):
            yield TracePiece(with_computed(self._nothing, piece), piece.traces, [])

    def track_rows(self) -> None:
        """Refuse to leave out rows that wait, as rows are known by their places."""
        self._atoms.tracks_rows = True

    @property
    def ticks_left_out(self) -> int:
        """The number of ticks and rows left out, as integers overflow there."""
        return self._atoms.points_left_out

    def forget(self) -> None:
        """Forget the last trace, which has ended."""
        self._streams.forget()
