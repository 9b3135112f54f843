"""The relations of a stream's rows, whose state rests as a journal between batches.

The journal has rows and horizons, with a snapshot of the `Query` at its beginning. With a lateness,
rows are in chunks (`relations/revised`). Then each batch tells all records since the time at which
rows may still come, and the changes among them, by which a bucket finds the keys to judge again.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import SnapshotError
from mtlmon.relations.of_rows import as_table
from mtlmon.relations.records import NO_END, after, records_of, table_as_bytes, table_of_bytes
from mtlmon.relations.revised import Changed, RevisedRelation, RevisedRelations
from mtlmon.spark.streaming.entries import DAMAGED, Entry
from mtlmon.spark.streaming.event_records import one_batch
from mtlmon.spark.streaming.lateness import Admission
from mtlmon.spark.streaming.nodes import Host, Machine
from mtlmon.spark.streaming.settings import check_settings
from mtlmon.streams.named_rows import NO_NAMES, Rows
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.relations.looking_up import KnownRelation
    from mtlmon.relations.of_rows import RowRelation
    from mtlmon.spark.streaming.nodes import Sent, Visit
    from mtlmon.spark.streaming.relation_records import RelationRecords

__all__ = ["KnownRelations", "RelationHost"]

_FIRST_HORIZON = 0


class LiveRelations:
    """Relations that take in rows.

    Args:
        relations: the relations, without records, by name.
        records: how rows are encoded.

    Attributes:
        horizon: what they say is known below it.
        waiting: the rows that wait, in the order in which they came.
    """

    def __init__(self, relations: Mapping[str, RowRelation], records: RelationRecords) -> None:
        self._relations = list(relations.values())
        self.horizon = _FIRST_HORIZON
        self._records = records
        self.waiting = records.read_blocks(())

    @property
    def next_change(self) -> int:
        """The least horizon at which more is known."""
        return self.horizon + 1

    @property
    def held_bytes(self) -> int:
        """How many bytes they hold, about."""
        return int(self.waiting.nbytes) + sum(one.held_bytes for one in self._relations)

    def take(self, rows: pa.RecordBatch, horizon: int) -> bytes | None:
        """Take in rows that are not too late, and the time up to a horizon.

        Returns:
            What buckets are told; None if no more is known than before.

        Raises:
            MtlmonError: integers overflow in a relation.
        """
        rows = one_batch([self.waiting, rows], rows.schema)
        since, self.horizon = self.horizon, max(self.horizon, horizon)
        is_due = pc.less(rows.column(0), self.horizon)
        self.waiting = rows.filter(pc.invert(is_due))
        return self._emitted(rows.filter(is_due), since)

    def _emitted(self, due: pa.RecordBatch, since: int) -> bytes | None:
        """Take in rows of times that have passed; return what `take` does."""
        if self.horizon <= since:
            return None
        stamps = np.asarray(due.column(0))
        batch = pa.RecordBatch.from_arrays(due.columns[1:], schema=self._records.columns)
        for relation in self._relations:
            columns = [pa.array(stamps), pa.array(after(stamps)), *relation.read(batch)]
            table = pa.Table.from_arrays(columns, names=["", " ", *relation.columns])
            relation.advance(table, self.horizon, NO_END)
        said = [relation.said() for relation in self._relations]
        return sent_as_bytes(self.horizon, since, said, [b""] * len(said))

    def restore(self, horizon: int, waiting: pa.RecordBatch, snapshots: Sequence[bytes]) -> None:
        """Go on from what `snapshots` has returned, with the rows that wait.

        Raises:
            SnapshotError: it is of other relations, or damaged.
        """
        self.horizon, self.waiting = horizon, waiting
        if len(snapshots) != len(self.snapshots()):
            raise SnapshotError("the state of the query is of other relations")
        self._restore(snapshots)

    def _restore(self, snapshots: Sequence[bytes]) -> None:
        for relation, snapshot in zip(self._relations, snapshots, strict=True):
            relation.restore(snapshot)

    def snapshots(self) -> list[bytes]:
        """Return what is remembered, without the rows that wait."""
        return [relation.snapshot() for relation in self._relations]


class CorrectedRelations(LiveRelations):
    """Relations that also take in rows of times that have passed.

    They tell what they say of all times at which verdicts can still change, in each batch with
    rows as well, and what was different before.

    Args:
        relations: the relations, without records, by name.
        records: how rows are encoded.
        lateness: how far below the horizon rows are taken in.
    """

    def __init__(
        self, relations: Mapping[str, RowRelation], records: RelationRecords, lateness: int
    ) -> None:
        super().__init__(relations, records)
        self._admission = Admission(lateness)
        self._watched = [one.watched for one in relations.values()]
        self._by_name = {name: RevisedRelation(one.read_rows) for name, one in relations.items()}
        self._revised = RevisedRelations(self._by_name)
        self._revised.read(pa.RecordBatch.from_pylist([], records.columns))

    @property
    def held_bytes(self) -> int:
        return int(self.waiting.nbytes) + self._revised.byte_count

    def _emitted(self, due: pa.RecordBatch, since: int) -> bytes:
        # what has been judged before is judged again from there on at the earliest
        start = self._admission.admits_from(since)
        # also what has changed just then is to be known
        self._revised.forget(start - 1)
        due = due.take(pa.array(np.argsort(np.asarray(due.column(0)), kind="stable")))
        count = due.num_rows
        found = self._revised.update(
            Rows(
                pa.RecordBatch.from_arrays(due.columns[1:], schema=self._records.columns),
                np.asarray(due.column(0)),
                np.zeros(count, np.uint32),
                np.zeros(count, np.uint64),
                np.zeros((count, 0), np.bool_),
            ),
            NO_NAMES,
            self.horizon,
        )
        changed: dict[str, list[pa.Table]] = {}
        for one in found:
            changed.setdefault(one.relation, []).append(as_table(one.records))
        said = [
            relation.said(start, keys)
            for relation, keys in zip(self._by_name.values(), self._watched, strict=True)
        ]
        others = [
            table_as_bytes(pa.concat_tables(changed[name]), is_sent=True)
            if name in changed
            else b""
            for name in self._by_name
        ]
        return sent_as_bytes(self.horizon, since, said, others)

    def _restore(self, snapshots: Sequence[bytes]) -> None:
        try:
            self._revised.restore(snapshots[0])
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None

    def snapshots(self) -> list[bytes]:
        """Return what is remembered, without the rows that wait."""
        return [self._revised.snapshot()]


def sent_as_bytes(
    horizon: int, since: int, said: Sequence[bytes], changed: Sequence[bytes]
) -> bytes:
    """Return what buckets are told, for `KnownRelations.notify`.

    Args:
        horizon: what relations say is known below it.
        since: what they said before was known below this time.
        said: what each of them says.
        changed: the records of each that are not what they were, as a table; empty for none.
    """
    times = np.array([horizon, since], np.int64).tobytes()
    return joined_parts([times, *said, *changed])


class RelationHost(Host, Machine[LiveRelations, "bytes | None"]):
    """Lets relations take in all rows, and tells what they say when the watermark moves.

    They are visited whenever the watermark moves on, as buckets monitor events then.

    Args:
        relations: the relations, without records, by name.
        records: how rows are encoded.
        lateness: how far below the horizon rows are taken in; None if they correct nothing.
    """

    state_name = "relations"

    def __init__(
        self,
        relations: Mapping[str, RowRelation],
        records: RelationRecords,
        lateness: int | None = None,
    ) -> None:
        self._unused = pickle.dumps(dict(relations))
        self._records = records
        self._admission = Admission(lateness)
        self.held_as = records.settings

    def open(self) -> RelationHost:
        return self

    def begin(self, key: tuple[object, ...]) -> LiveRelations:
        relations = pickle.loads(self._unused)
        if self._admission.lateness is None:
            return LiveRelations(relations, self._records)
        return CorrectedRelations(relations, self._records, self._admission.lateness)

    def replay(self, node: LiveRelations, entries: Sequence[Entry]) -> None:
        for entry in entries:
            check_settings(entry.settings, self._records.settings)
            try:
                rows = self._records.read_blocks(entry.parts[:1])
            except (pa.ArrowException, OSError, ValueError) as error:
                raise SnapshotError(f"{DAMAGED}: {error}") from None
            if entry.is_state:
                node.restore(entry.horizon, rows, entry.parts[1:])
            else:
                node.take(rows, entry.horizon)

    def update(self, node: LiveRelations, sent: Sent) -> tuple[Entry | None, bytes | None]:
        rows = self._records.read_blocks(sent.blocks)
        # the buckets tell of late rows
        admits_from = self._admission.admits_from(sent.horizon)
        rows = rows.filter(pc.greater_equal(rows.column(0), admits_from))
        emitted = node.take(rows, sent.horizon)
        if emitted is None and not rows.num_rows:
            return None, None
        return self._entry(sent.horizon, rows), emitted

    def snapshot(self, node: LiveRelations, horizon: int) -> Entry:
        return self._entry(node.horizon, node.waiting, node.snapshots())

    def _entry(
        self, horizon: int, rows: pa.RecordBatch, snapshots: Sequence[bytes] | None = None
    ) -> Entry:
        parts = [rows.serialize().to_pybytes(), *(snapshots or ())]
        return Entry(snapshots is not None, horizon, self._records.settings, parts)

    def results(self, sent: Sent, visit: Visit[bytes | None]) -> Iterable[bytes]:
        return () if visit.answers is None else (visit.answers,)


class KnownRelations:
    """Relations as buckets know them, which hear what they say in each batch.

    Args:
        known: all relations in which values are looked up, by name.
        names: the names of those that are told, in their order.

    Attributes:
        horizon: what they say is known below it.
        since: what they said before was known below this time.
        changed: what they said of the time below, and say no longer, or did not say.
    """

    def __init__(self, known: Mapping[str, KnownRelation], names: Sequence[str]) -> None:
        self._names = names
        self._relations: list[RowRelation] = [known[name] for name in names]  # type: ignore[misc]
        self._known = b""
        self.horizon = self.since = _FIRST_HORIZON
        self.changed: list[Changed] = []

    def notify(self, content: bytes) -> None:
        """Say what the state of the relations has told."""
        # all buckets of a batch are told the same
        if content == self._known:
            return
        times, *parts = split_parts(content)
        count = len(self._relations)
        for relation, one in zip(self._relations, parts[:count], strict=True):
            relation.notify(one)
        self.changed = [
            Changed(name, records_of(table_of_bytes(one)))
            for name, one in zip(self._names, parts[count:], strict=True)
            if one
        ]
        self._known = content
        self.horizon, self.since = np.frombuffer(times, np.int64).tolist()
