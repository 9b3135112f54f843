"""The relations of a stream's rows, whose state rests as a journal between batches."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import SnapshotError
from mtlmon.relations.records import NO_END, after
from mtlmon.spark.streaming.event_records import one_batch
from mtlmon.spark.streaming.relation_records import RelationSegment, RelationStep
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relations.looking_up import KnownRelation
    from mtlmon.relations.of_rows import RowRelation
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.relation_records import RelationRecords

__all__ = ["HeardRelations", "LiveRelations", "RelationOutcome", "RelationStates"]

_FIRST_HORIZON = 0


class LiveRelations:
    """Relations that take in rows.

    Args:
        relations: the relations, without records.
        records: how rows are encoded.

    Attributes:
        relations: as given.
        horizon: what they say is known below it.
    """

    def __init__(self, relations: Sequence[RowRelation], records: RelationRecords) -> None:
        self.relations = relations
        self.horizon = _FIRST_HORIZON
        self._records = records
        self._waiting = records.nothing

    @property
    def held_bytes(self) -> int:
        """How many bytes they hold, about."""
        return int(self._waiting.nbytes) + sum(one.held_bytes for one in self.relations)

    def take(self, rows: pa.RecordBatch, horizon: int) -> bool:
        """Take in rows that are not late, and the time up to a horizon.

        Returns:
            Whether more is known now.

        Raises:
            MtlmonError: integers overflow in a relation.
        """
        rows = one_batch([self._waiting, rows], rows.schema)
        if horizon <= self.horizon:
            self._waiting = rows
            return False
        is_due = pc.less(rows.column(0), horizon)
        self._waiting = rows.filter(pc.invert(is_due))
        due = rows.filter(is_due)
        stamps = np.asarray(due.column(0))
        batch = pa.RecordBatch.from_arrays(due.columns[1:], schema=self._records.columns)
        for relation in self.relations:
            columns = [pa.array(stamps), pa.array(after(stamps)), *relation.read(batch)]
            table = pa.Table.from_arrays(columns, names=["", " ", *relation.columns])
            relation.advance(table, horizon, NO_END)
        self.horizon = horizon
        return True

    def restore(self, segment: RelationSegment) -> None:
        """Go on from a segment.

        Raises:
            SnapshotError: it is of other relations, or damaged.
        """
        if len(segment.relations) != len(self.relations):
            raise SnapshotError("the state of the query is of other relations")
        for relation, snapshot in zip(self.relations, segment.relations, strict=True):
            relation.restore(snapshot)
        self.horizon, self._waiting = segment.horizon, segment.waiting

    def segment(self) -> RelationSegment:
        """Return what is remembered."""
        snapshots = [relation.snapshot() for relation in self.relations]
        return RelationSegment(self.horizon, self._waiting, snapshots)


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
    """

    def __init__(self, relations: Mapping[str, RowRelation], records: RelationRecords) -> None:
        self._names = list(relations)
        self._unused = pickle.dumps(list(relations.values()))
        self._records = records

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
        rows = rows.filter(pc.greater_equal(rows.column(0), horizon))
        told = None
        if live.take(rows, horizon):
            said = [relation.said() for relation in live.relations]
            told = joined_parts([horizon.to_bytes(8, "little"), *said])
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
            live = LiveRelations(pickle.loads(self._unused), self._records)
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
    """

    def __init__(self, known: Mapping[str, KnownRelation], names: Sequence[str]) -> None:
        self._relations: list[RowRelation] = [known[name] for name in names]  # type: ignore[misc]
        self._heard = b""
        self.horizon = _FIRST_HORIZON

    def hear(self, content: bytes) -> None:
        """Say what the state of the relations has told."""
        # all buckets of a batch are told the same
        if content == self._heard:
            return
        horizon, *said = split_parts(content)
        for relation, one in zip(self._relations, said, strict=True):
            relation.hear(one)
        self._heard = content
        self.horizon = int.from_bytes(horizon, "little")
