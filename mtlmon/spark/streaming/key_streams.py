"""Atoms of one key of a stream that depend on its other rows; their state is kept as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import SnapshotError
from mtlmon.spark.common.events import RefusedRows
from mtlmon.spark.common.trace_streams import stream_atoms
from mtlmon.streams.successive import evaluate_traces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.streaming.event_records import EventRecords, Waiting
    from mtlmon.tables.columns.letters import Letters


class KeyStreams:
    """Adds the atoms that depend on other rows to the events of one key after the other.

    Args:
        source: how rows become events, and the policies of one partition of traces.
        records: how events are encoded.
    """

    def __init__(self, source: EventSource, records: EventRecords) -> None:
        assert records.schema is not None
        self._source = source
        self._records = records
        self._atoms = stream_atoms(source)
        self._atoms.programs(records.schema)
        self._log_atoms = source.policies.log_atoms
        self._errors: list[str] = []
        self._refused = RefusedRows(source, self._errors)

    def restore(self, snapshot: bytes) -> None:
        """Continue with the state of a key; empty bytes are that of a new key.

        Raises:
            SnapshotError: the state belongs to other streams, or is damaged.
        """
        self._atoms.forget_all()
        if not snapshot:
            return
        try:
            self._atoms.restore([snapshot])
        except SnapshotError as error:
            raise SnapshotError(
                f"the state of the query does not fit the streams: {error}; other policies need a "
                "checkpointLocation of their own"
            ) from None

    def added(self, events: Waiting) -> tuple[NDArray[np.int64], Letters]:
        """Compute the atoms of the next events, which are in order.

        Returns:
            The rows of events, without those on which a stream has no value; and their atoms.

        Raises:
            TableError: a stream has no value on a row, and such rows are not skipped.
        """
        rows, columns = events
        assert columns is not None
        letters = self._records.letters(rows)
        held = {
            name: letters.held(self._records.atoms.index(name), len(rows))
            for name in self._log_atoms
        }
        times = np.ascontiguousarray(rows[:, 0])
        found = evaluate_traces(self._atoms, self._atoms.prepared(columns, held), times)
        self._refused.add(columns, found.refused)
        if found.refused:
            rows = rows[found.rows]
            letters = self._records.letters(rows)
        letters.of_traces = [
            {self._records.atoms.index(name): array for name, array in found.atoms.items()}
        ]
        return rows, letters

    def snapshot(self) -> bytes:
        """Return the state of the key as bytes; empty if it is that of a new key."""
        if self._atoms.settled(0, 1) == b"\x01":
            return b""
        (snapshot,) = self._atoms.snapshots()
        return snapshot

    @property
    def settled_from(self) -> int | None:
        """The least time at which the state is like that of a new key; None if it never is."""
        return self._atoms.settled_from(0)

    def report(self) -> None:
        """Send the number of rows that were skipped to the driver when the task has ended."""
        if self._source.reporter is not None:
            self._source.reporter.report(0, self._refused.count, self._errors)
