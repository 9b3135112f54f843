"""What depends on other rows of a trace, for events sorted by trace and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.errors import TableError
from mtlmon.spark.common.events import KEPT_ERRORS
from mtlmon.streams.atoms import StreamAtoms
from mtlmon.streams.successive import SuccessiveStreams
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """What to do at ticks at which integers overflow: as with rows that are not events.

    Args:
        source: says what to do with such rows.
        errors: takes the errors of the first ticks that are left out.

    Attributes:
        key: the values of the key columns, if they are known.
    """

    def __init__(self, source: EventSource, errors: list[str]) -> None:
        self._source = source
        self._errors = errors
        self.key: Sequence[object] = ()

    def __call__(self, refused: TickError) -> None:
        """Leave out a tick.

        Raises:
            TableError: ticks are not to be left out.
        """
        # Without keys, Spark has a column of its own for the only trace.
        cells = zip(self._source.keys, self.key, strict=False)
        of_key = visible(", ".join(f"{name} {value}" for name, value in cells))
        of = f" of {of_key}" if of_key else ""
        message = f"at the tick {refused.time_stamp}{of}: {refused.reason}"
        if self._source.on_error == "stop":
            advice = "; on_error='skip' leaves such ticks out"
            raise TableError(message + advice, path=self._source.place)
        if len(self._errors) < KEPT_ERRORS:
            self._errors.append(str(TableError(message, path=self._source.place)))


class TraceStreams:
    """Adds what depends on other rows to events, for one trace after the other.

    Args:
        source: how rows become events, and the policies of one partition of traces.
        limit: the ticks of all traces are computed below this time; None if there are none, or if
            there is only one trace.
        errors: takes the errors of the first ticks that are left out.
    """

    def __init__(
        self, source: EventSource, limit: int | None = None, errors: list[str] | None = None
    ) -> None:
        self._log_atoms = source.policies.log_atoms
        self._atoms = stream_atoms(source)
        on_tick = RefusedTicks(source, [] if errors is None else errors)
        self._streams = SuccessiveStreams(self._atoms, limit, on_tick)
        # the last events, without their rows
        self._nothing: Events | None = None

    def add(self, events: Events, starts: NDArray[np.integer]) -> Iterator[TracePiece]:
        """Yield the next events in pieces, some of which have only ticks.

        Args:
            events: the events, with the atoms that depend on their own row.
            starts: the indices of the events with which another trace begins.

        Raises:
            PolicyError: a column does not exist, or its type does not fit.
            TableError: integers overflow at a tick.
        """
        count = len(events.time_stamps)
        held = {
            name: events.letters.held(events.atoms.index(name), count) for name in self._log_atoms
        }
        self._nothing = events.of_rows(np.empty(0, np.int64))
        for piece in self._streams.evaluate(events.rows, events.time_stamps, starts, held):
            yield TracePiece(with_computed(events, piece), piece.traces, piece.refused)

    def end(self, limit: int | None = None) -> Iterator[TracePiece]:
        """Yield the remaining ticks of the last trace.

        Args:
            limit: compute the ticks below this time; by default, as for all traces.

        Raises:
            TableError: integers overflow at a tick.
        """
        if self._nothing is None:
            return
        for piece in self._streams.end(limit):
            yield TracePiece(with_computed(self._nothing, piece), piece.traces, [])

    @property
    def ticks_left_out(self) -> int:
        """The number of ticks that were left out, as integers overflow there."""
        return self._atoms.points_left_out

    def forget(self) -> None:
        """Forget the last trace, which has ended."""
        self._streams.forget()
