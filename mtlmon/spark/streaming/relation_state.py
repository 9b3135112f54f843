"""The relations of a stream's rows, whose state rests as a journal between batches."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import SnapshotError
from mtlmon.relations.of_rows import as_table
from mtlmon.relations.records import NO_END, after, records_of, table_as_bytes, table_of_bytes
from mtlmon.relations.revised import Changed, RevisedRelation, RevisedRelations
from mtlmon.spark.streaming.bucket_records import DAMAGED
from mtlmon.spark.streaming.event_records import one_batch
from mtlmon.spark.streaming.relation_records import RelationSegment, RelationStep
from mtlmon.streams.named_rows import NO_NAMES, Rows
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relations.looking_up import KnownRelation
    from mtlmon.relations.of_rows import RowRelation
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.relation_records import RelationRecords

__all__ = ["HeardRelations", "RelationOutcome", "RelationStates"]

_FIRST_HORIZON = 0


class LiveRelations:
    """Relations that take in rows.

    Args:
        relations: the relations, without records, by name.
        records: how rows are encoded.

    Attributes:
        horizon: what they say is known below it.
    """

    def __init__(self, relations: Mapping[str, RowRelation], records: RelationRecords) -> None:
        self._relations = list(relations.values())
        self.horizon = _FIRST_HORIZON
        self._records = records
        self._waiting = records.nothing

    @property
    def held_bytes(self) -> int:
        """How many bytes they hold, about."""
        return int(self._waiting.nbytes) + sum(one.held_bytes for one in self._relations)

    def admitted_from(self, horizon: int) -> int:
        """Return the time below which rows are too late."""
        return horizon

    def take(self, rows: pa.RecordBatch, horizon: int) -> bytes | None:
        """Take in rows that are not too late, and the time up to a horizon.

        Returns:
            What buckets are told; None if no more is known than before.

        Raises:
            MtlmonError: integers overflow in a relation.
        """
        rows = one_batch([self._waiting, rows], rows.schema)
        since = self.horizon
        if horizon <= since:
            self._waiting = rows
            return None
        is_due = pc.less(rows.column(0), horizon)
        self._waiting = rows.filter(pc.invert(is_due))
        due = rows.filter(is_due)
        stamps = np.asarray(due.column(0))
        batch = pa.RecordBatch.from_arrays(due.columns[1:], schema=self._records.columns)
        for relation in self._relations:
            columns = [pa.array(stamps), pa.array(after(stamps)), *relation.read(batch)]
            table = pa.Table.from_arrays(columns, names=["", " ", *relation.columns])
            relation.advance(table, horizon, NO_END)
        self.horizon = horizon
        said = [relation.said() for relation in self._relations]
        return told_as_bytes(horizon, since, said, [b""] * len(said))

    def restore(self, segment: RelationSegment) -> None:
        """Go on from a segment.

        Raises:
            SnapshotError: it is of other relations, or damaged.
        """
        if len(segment.relations) != len(self._relations):
            raise SnapshotError("the state of the query is of other relations")
        for relation, snapshot in zip(self._relations, segment.relations, strict=True):
            relation.restore(snapshot)
        self.horizon, self._waiting = segment.horizon, segment.waiting

    def segment(self) -> RelationSegment:
        """Return what is remembered."""
        snapshots = [relation.snapshot() for relation in self._relations]
        return RelationSegment(self.horizon, self._waiting, snapshots)


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
        self._lateness = lateness
        self._watched = [one.watched for one in relations.values()]
        self._by_name = {name: RevisedRelation(one.read_rows) for name, one in relations.items()}
        self._revised = RevisedRelations(self._by_name)
        self._revised.read(pa.RecordBatch.from_pylist([], records.columns))

    @property
    def held_bytes(self) -> int:
        return int(self._waiting.nbytes) + self._revised.byte_count

    def admitted_from(self, horizon: int) -> int:
        """Return the time below which rows are too late."""
        return max(0, horizon - self._lateness)

    def take(self, rows: pa.RecordBatch, horizon: int) -> bytes | None:
        """Do what `LiveRelations.take` says."""
        rows = one_batch([self._waiting, rows], rows.schema)
        since, horizon = self.horizon, max(self.horizon, horizon)
        # what has been judged before is judged again from there on at the earliest
        start = self.admitted_from(since)
        # also what has changed just then is to be known
        self._revised.forget(start - 1)
        is_due = pc.less(rows.column(0), horizon)
        self._waiting = rows.filter(pc.invert(is_due))
        due = rows.filter(is_due)
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
            horizon,
        )
        self.horizon = horizon
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
        return told_as_bytes(horizon, since, said, others)

    def restore(self, segment: RelationSegment) -> None:
        """Do what `LiveRelations.restore` says."""
        if len(segment.relations) != 1:
            raise SnapshotError("the state of the query is of other relations")
        try:
            self._revised.restore(segment.relations[0])
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        self.horizon, self._waiting = segment.horizon, segment.waiting

    def segment(self) -> RelationSegment:
        """Return what is remembered."""
        return RelationSegment(self.horizon, self._waiting, [self._revised.snapshot()])


def told_as_bytes(
    horizon: int, since: int, said: Sequence[bytes], changed: Sequence[bytes]
) -> bytes:
    """Return what buckets are told, for `HeardRelations.hear`.

    Args:
        horizon: what relations say is known below it.
        since: what they said before was known below this time.
        said: what each of them says.
        changed: the records of each that are not what they were, as a table; empty for none.
    """
    times = np.array([horizon, since], np.int64).tobytes()
    return joined_parts([times, *said, *changed])


class RelationOutcome(NamedTuple):
    """The result of a batch for relations.

    Attributes:
        appended: an entry to store behind the others, or None.
        folded: an entry to store in place of all others, or None.
        told: what buckets are told; None if no more is known than before.
        live: the relations after that.
    """

    appended: bytes | None
    folded: bytes | None
    told: bytes | None
    live: LiveRelations

    @property
    def wakeup(self) -> int:
        """The least horizon at which more is known."""
        return self.live.horizon + 1


class RelationStates:
    """Lets relations take in the rows of a batch.

    Args:
        relations: the relations, without records, by name.
        records: how rows and entries are encoded.
        lateness: how far below the horizon rows are taken in; None if they correct nothing.
    """

    def __init__(
        self,
        relations: Mapping[str, RowRelation],
        records: RelationRecords,
        lateness: int | None = None,
    ) -> None:
        self._unused = pickle.dumps(dict(relations))
        self._records = records
        self._lateness = lateness

    def visit(self, journal: Journal, blocks: Sequence[bytes], horizon: int) -> RelationOutcome:
        """Go on with relations.

        Args:
            journal: their journal.
            blocks: the blocks of new rows.
            horizon: rows with time-stamps below it are late.

        Raises:
            SnapshotError: the journal belongs to other relations or settings, or is damaged.
            MtlmonError: integers overflow in a relation.
        """
        live = self._revived(journal)
        rows = self._records.read_blocks(blocks)
        # the buckets tell of late rows
        rows = rows.filter(pc.greater_equal(rows.column(0), live.admitted_from(horizon)))
        told = live.take(rows, horizon)
        entry: bytes | None = None
        if told is not None or rows.num_rows:
            entry = self._records.encode(RelationStep(horizon, rows))
        folded = None
        if journal.head is None or (entry is not None and not journal.head.has_room(entry)):
            entry, folded = None, self._records.encode(live.segment())
        return RelationOutcome(entry, folded, told, live)

    def _revived(self, journal: Journal) -> LiveRelations:
        """Take the relations from memory, and the entries that they lack; or take them all."""
        held, entries = journal.revive()
        if isinstance(held, LiveRelations):
            live = held
        else:
            relations = pickle.loads(self._unused)
            live = (
                LiveRelations(relations, self._records)
                if self._lateness is None
                else CorrectedRelations(relations, self._records, self._lateness)
            )
            entries = journal.all()
        for entry in map(self._records.decode, entries):
            if isinstance(entry, RelationSegment):
                live.restore(entry)
            else:
                live.take(entry.rows, entry.horizon)
        return live


class HeardRelations:
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
        self._heard = b""
        self.horizon = self.since = _FIRST_HORIZON
        self.changed: list[Changed] = []

    def hear(self, content: bytes) -> None:
        """Say what the state of the relations has told."""
        # all buckets of a batch are told the same
        if content == self._heard:
            return
        times, *parts = split_parts(content)
        count = len(self._relations)
        for relation, one in zip(self._relations, parts[:count], strict=True):
            relation.hear(one)
        self.changed = [
            Changed(name, records_of(table_of_bytes(one)))
            for name, one in zip(self._names, parts[count:], strict=True)
            if one
        ]
        self._heard = content
        self.horizon, self.since = np.frombuffer(times, np.int64).tolist()
