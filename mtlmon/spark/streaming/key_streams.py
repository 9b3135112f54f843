"""Atoms of one key of a stream that depend on its other rows; their state is kept as bytes.

Windows need columns in the order of time, so waiting events carry the columns that streams read, as
Arrow batches, and streams are computed when the watermark has passed. One program serves all keys
of a task: the snapshot of a key replaces what it had.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.relations.touching import TouchedRows
from mtlmon.spark.common.events import RefusedRows
from mtlmon.spark.common.trace_streams import RefusedTicks, set_computed, stream_atoms
from mtlmon.spark.streaming.key_changes import KeyChanges
from mtlmon.spark.streaming.relation_state import KnownRelations
from mtlmon.spark.streaming.row_relations import relations_of_rows
from mtlmon.streams.successive import rest_of_trace, trace_pieces
from mtlmon.tables.columns.keys import NO_NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.spark.common.events import Events, EventSource
    from mtlmon.spark.streaming.bucket_keys import BucketKeys
    from mtlmon.spark.streaming.event_records import EventRecords, Waiting
    from mtlmon.spark.streaming.live_bucket import Taken
    from mtlmon.streams.successive import Piece


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
        self._atoms.know_traces([source.keys], self._traces_of)
        self._atoms.programs(records.schema)
        self._log_atoms = source.policies.log_atoms
        self._changes = KeyChanges(source.policies, source.keys)
        emitted = list(relations_of_rows(source.policies))
        self._known = KnownRelations(source.policies.looked_up or {}, emitted) if emitted else None
        self._is_emitted = False
        self._errors: list[str] = []
        self._refused = RefusedRows(source, self._errors)
        self._keys: BucketKeys | None = None
        self._number = 0
        self._on_tick = RefusedTicks(source, self._errors, self._values_of)

    def notify(self, content: bytes | None) -> None:
        """Take what relations of rows are told in this visit; None if that is nothing."""
        self._is_emitted = content is not None
        if content is not None:
            assert self._known is not None
            self._known.notify(content)

    def changed(self, keys: BucketKeys, past: Taken | None) -> NDArray[np.bool_] | None:
        """Return which keys are concerned by what relations of rows say; None if none is.

        Args:
            keys: the keys.
            past: what the keys have taken of times of which relations can be others now; None
                if they cannot be.
        """
        if not self._is_emitted or self._known is None:
            return None
        found = self._changes.changed(keys, self._known.since)
        own = self._atoms.relations_of(0)
        changed = [one for one in self._known.changed if one.relation in own]
        if not changed or past is None:
            return found
        if self._atoms.has_ticks:
            return np.ones(len(keys), np.bool_)
        rows, columns = past.events
        assert columns is not None
        touching = TouchedRows(changed, self._atoms.look_ups(0), self._atoms.environment)
        is_concerned = touching.of_columns(columns, np.ascontiguousarray(rows[:, 0]))
        if found is None:
            found = np.zeros(len(keys), np.bool_)
        found[past.owners[is_concerned]] = True
        return found if found.any() else None

    @property
    def hears(self) -> bool:
        """Whether there are relations of rows."""
        return self._known is not None

    def begin_key(self, keys: BucketKeys, number: int) -> None:
        """Go on to a key, which errors at ticks name."""
        self._keys, self._number = keys, number

    def _require(self, horizon: int) -> None:
        """Check that relations are known at the times at which values are looked up."""
        if self._known is not None and self._known.horizon != horizon:
            raise MtlmonError(
                f"relations of rows are known up to {self._known.horizon}, but events up to "
                f"{horizon} are to be monitored: this is an error of mtlmon, please report it"
            )

    def _values_of(self, trace: int) -> Sequence[object]:
        return () if self._keys is None else self._keys.values_of(self._number)

    def _traces_of(self, partition: int, columns: Sequence[pa.Array]) -> NDArray[np.uint32]:
        """Return 0 for rows of the present key, which is the only trace, else `NO_NUMBER`."""
        assert self._keys is not None
        is_own = self._keys.find(columns) == self._number
        return np.where(is_own, 0, NO_NUMBER).astype(np.uint32)

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

    def pieces(self, events: Waiting, until: int, horizon: int) -> Iterator[Events]:
        """Yield the next events, which are in order, with what depends on other rows, in pieces.

        Events on which a stream has no value are left out.

        Args:
            events: the events.
            until: no further event is below this time: all ticks below it come, too.
            horizon: the horizon of the batch.

        Raises:
            TableError: a stream has no value on a row, and such rows are not skipped; or integers
                overflow at a tick or at a row that has waited.
            MtlmonError: it is not known what relations say up to `until`.
        """
        self._require(horizon)
        rows, columns = events
        assert columns is not None
        read = self._records.due(rows)
        held = {
            name: read.letters.held(self._records.atoms.index(name), len(rows))
            for name in self._log_atoms
        }
        if len(rows):
            prepared = self._atoms.prepared(columns, held)
            for piece in trace_pieces(self._atoms, prepared, read.time_stamps, self._on_tick):
                self._refused.add(columns, piece.refused)
                yield self._with_computed(rows[piece.rows], piece)
        for piece in rest_of_trace(self._atoms, until, self._on_tick):
            yield self._with_computed(rows[:0], piece)

    def _with_computed(self, rows: NDArray[np.int64], piece: Piece) -> Events:
        found = self._records.due(rows)
        set_computed(found.letters, found.atoms, piece)
        return found

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

    @property
    def next_tick(self) -> int | None:
        """The time of the next tick that is known; None if there is none before the next row.

        Changes of relations of rows are known only in the batch in which they are.
        """
        found = [] if self._atoms.next_tick is None else [self._atoms.next_tick]
        done = self._atoms.ticks_end
        if self._keys is not None and isfinite(done):
            key = self._keys.columns_of(np.array([self._number]))
            change = self._changes.next_change(key, int(done))
            found += [] if change is None else [change]
        return min(found, default=None)

    def report(self) -> None:
        """Send the number of rows that were skipped to the driver when the task has ended."""
        if self._source.reporter is not None:
            skipped = self._refused.count + self._atoms.points_left_out
            self._source.reporter.report(0, skipped, self._errors)
