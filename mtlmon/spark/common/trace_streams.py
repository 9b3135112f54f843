"""Atoms that depend on other rows of a trace, for events sorted by trace and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.atoms import StreamAtoms
from mtlmon.streams.successive import SuccessiveStreams

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.time_points import When
    from mtlmon.spark.common.events import Events, EventSource


class WithStreams(NamedTuple):
    """Events with all their atoms.

    Attributes:
        events: the events, without those on which a stream has no value.
        rows: their indices among the events that were given.
        refused: the indices of the others, each with the reason.
    """

    events: Events
    rows: NDArray[np.int64]
    refused: list[tuple[int, str]]


def stream_atoms(source: EventSource) -> StreamAtoms:
    """Return what computes the atoms that depend on other rows, of the policies of a source."""
    policies = source.policies
    assert policies.file is not None
    wanted: list[dict[When, tuple[str, ...]]] = [{ROWS: source.remembering}]
    return StreamAtoms(policies.file, wanted, policies.log_atoms, source.environment())


class TraceStreams:
    """Adds the atoms that depend on other rows to events, for one trace after the other.

    Args:
        source: how rows become events, and the policies of one partition of traces.
    """

    def __init__(self, source: EventSource) -> None:
        self._log_atoms = source.policies.log_atoms
        self._streams = SuccessiveStreams(stream_atoms(source))

    def add(self, events: Events, starts: NDArray[np.integer]) -> WithStreams:
        """Compute the atoms of the next events.

        Args:
            events: the events, with the atoms that depend on their own row.
            starts: the indices of the events with which another trace begins.

        Raises:
            PolicyError: a column does not exist, or its type does not fit.
        """
        count = len(events.time_stamps)
        held = {
            name: events.letters.held(events.atoms.index(name), count) for name in self._log_atoms
        }
        found = self._streams.evaluate(events.rows, events.time_stamps, starts, held)
        if found.refused:
            events = events.of_rows(found.rows)
        events.letters.of_traces = [
            {events.atoms.index(name): array for name, array in found.atoms.items()}
        ]
        return WithStreams(events, found.rows, found.refused)
