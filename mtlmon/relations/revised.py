"""Relations of the log's own rows, where rows come late or are taken back.

A relation of the log's rows is over all keys, so it is corrected for the whole log before any
stream. The rows of the log are in chunks (`mtlmon.history.chunked`), each with the states of the
relations at its start. Such a state costs nothing to keep: a query replaces what it remembers, and
changes none of it. Chunks begin at watermarks. A relation whose state is what it was is not
evaluated further. What the others say of the time is replaced, and tells where look-ups find
something else (`touching`).

A look-up is at the row's time, and two things follow. Rows of the largest time-stamp wait, as in a
log in order, since further rows of that time would change them without being late. And relations
must be known as far back as rows are computed again: the first chunk of a key with few rows is cut
at the bound of admission once it begins more than the lateness below it. Rows that wait for later
values go on waiting in the state of this chunk. Rows that were let go by rows behind the cut stay
with the chunk, because these can still be taken back.

All partitions take in the same rows, so relations get them from only one of them. With clocks of
keys, no time of a relation would ever be known.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.history.chunked import ChunkedRows
from mtlmon.policy.predicates.numbers import as_before
from mtlmon.relations.looking_up import FIRST
from mtlmon.relations.of_rows import LogRelation, as_table, said_as_bytes
from mtlmon.relations.records import after
from mtlmon.relations.spans import SpannedChanges, Spans
from mtlmon.streams.late_snapshots import rows_as_bytes, rows_of_bytes
from mtlmon.streams.named_rows import RowParts, Rows, joined, without
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Changes
    from mtlmon.relations.incremental import QueryState
    from mtlmon.relations.of_rows import ReadRows
    from mtlmon.relations.records import Records
    from mtlmon.streams.named_rows import Names

__all__ = ["LEAST_SPACING", "Changed", "RevisedRelation", "RevisedRelations"]

# A chunk has at least so many rows: to evaluate relations takes about as long for fewer.
# PERF: with 4,096, look-ups took 1.8 times as long behind the start where 1% of 300,000 rows were
# late, changes of relations 1.3 times. 65,536 was as fast, but keeps more rows.
LEAST_SPACING = 16_384
_CHUNK_BYTES = 1024
# So many batches are told of by themselves at the end, before they are told of as one.
_MOST_SPANS = 16
_NO_COLUMN = "\0"


class Changed(NamedTuple):
    """What look-ups in a relation find no longer, or did not find before.

    Attributes:
        relation: the name of the relation.
        records: the records, as far as they are concerned.
    """

    relation: str
    records: Records


class RevisedRelation(LogRelation):
    """A relation that reads the rows of the log, and whose past can change.

    Args:
        read: how it does.

    Attributes:
        spans: what it says.
    """

    def __init__(self, read: ReadRows) -> None:
        super().__init__(read)
        self.spans = Spans()

    def changes(self, keys: Sequence[str]) -> Changes:
        """Return the times at which it changes, for each value of some columns if there are any.

        They are known above the time below which it was forgotten, and can change themselves.
        """
        return SpannedChanges(self.spans, keys)

    # ---- look-ups --------------------------------------------------------------------------

    def find(
        self, keys: Sequence[str], times: NDArray[np.int64], values: Sequence[pa.Array]
    ) -> NDArray[np.int64]:
        """Do what `KnownRelation` does, at times that are known and were not forgotten."""
        return self.spans.find(keys, times, values)

    def column(self, name: str, records: NDArray[np.int64]) -> pa.Array:
        """Return the values of a column in records; null for negative ones."""
        return self.spans.column(name, records, self._table.schema.field(name).type)

    # ---- what it says ----------------------------------------------------------------------

    @property
    def state(self) -> QueryState:
        """What it remembers, for `resume`; its columns must be known."""
        return self._know_tables().state

    def resume(self, state: QueryState) -> None:
        """Continue from a state.

        Raises:
            MtlmonError: a column changes its type.
        """
        assert self._query is not None
        self._query.resume(state)

    def evaluated(self, rows: Rows, watermark: int) -> Records:
        """Take in rows below a watermark; return what is valid from the last watermark on.

        Raises:
            MtlmonError: integers overflow in an expression of the relation.
        """
        return self._advanced(self.query, self.table_of(rows), watermark)

    def table_of(self, rows: Rows) -> pa.Table:
        """Return rows as the query reads them."""
        assert self._types is not None
        columns = [pa.array(rows.time_stamps), pa.array(after(rows.time_stamps))]
        for name, known in zip(self.read_columns, self._types.types, strict=True):
            # columns may have had no value, or integers, when the rows came
            columns.append(as_before(rows.inputs.column(name), known))
        return pa.Table.from_arrays(columns, names=["", " ", *self.columns])

    def said(self, start: int, watched: Sequence[Sequence[str]]) -> bytes:
        """Return what it says of the time from one on, for `RowRelation.notify`.

        Args:
            start: the time, above the one below which it was forgotten.
            watched: the keys for which changes are told.
        """
        tables = [as_table(one) for one in self.spans.records_from(start)]
        changes = [self.spans.changes(tuple(keys), start, self.spans.end) for keys in watched]
        return said_as_bytes(pa.concat_tables(tables), changes)

    def snapshot(self) -> tuple[bytes, bytes]:
        """Return its columns of the log and its state as bytes, for `restore`."""
        assert self._query is not None
        assert self._types is not None
        schema = pa.schema(zip(self.read_columns, self._types.types, strict=True))
        return schema.serialize().to_pybytes(), self._query.snapshot()

    def restore(self, types: bytes, state: bytes) -> None:
        """Go on from a snapshot.

        Raises:
            SnapshotError: the state is damaged or of another relation.
            MtlmonError: it does not fit the columns.
        """
        schema = pa.ipc.read_schema(pa.py_buffer(types))
        self.read(pa.RecordBatch.from_pylist([], schema))
        assert self._query is not None
        self._query.restore(state)
        self._tables = None
        self.spans.clear()

    @property
    def held_bytes(self) -> int:
        """The number of bytes that records take."""
        return super().held_bytes + self.spans.held_bytes


class _Chunk(RowParts):
    """Rows, and the states of the relations before them.

    Args:
        start: the watermark of the states: no row below it belongs here.
        states: the states.
    """

    def __init__(self, start: int, states: Sequence[QueryState]) -> None:
        super().__init__()
        self.start = start
        self.states = list(states)

    @property
    def time_stamps(self) -> NDArray[np.int64]:
        return self.rows.time_stamps

    def keep(self, places: NDArray[np.intp]) -> None:
        self.rows = self.rows.taken(places)

    @property
    def byte_count(self) -> int:
        of_states = sum(one.held_bytes for state in self.states for one in state.records.values())
        return _CHUNK_BYTES + of_states + super().byte_count


class RevisedRelations(ChunkedRows[_Chunk]):
    """The relations of a log in which values are looked up, and its rows as far as they can change.

    Args:
        relations: the relations by the names that look-ups call them.

    Attributes:
        names: their names.
        watermark: they are known below it.
        spacing: how many rows a chunk has; 0 means as many as the relations remember records.
    """

    def __init__(self, relations: Mapping[str, RevisedRelation]) -> None:
        super().__init__()
        self.spacing = 0
        self.watermark = FIRST
        self._names = tuple(relations)
        self.names = frozenset(relations)
        self._relations = tuple(relations.values())
        # how many spans of the last chunk are of one batch
        self._unmerged = 0
        # those at the end, while others are loaded
        self._live: list[QueryState] = []
        # the numbers of the relations whose state is not what it was, and what has changed
        self._pending: set[int] = set()
        self._changed: list[Changed] = []

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows that the relations read, once rows are known."""
        return tuple(dict.fromkeys(name for one in self._relations for name in one.read_columns))

    def read(self, batch: pa.RecordBatch) -> None:
        """Get to know the columns of the log, by the rows that come next.

        Raises:
            PolicyError: a relation does not fit them.
            MtlmonError: a column has another type than before.
        """
        for relation in self._relations:
            relation.read(batch)

    def update(self, new: Rows, removed: Names, watermark: int) -> list[Changed]:
        """Take in rows, and remove others; all rows below the watermark are known then.

        Args:
            new: the new rows, in the order of time, which are below the watermark; none is below
                what was forgotten.
            removed: the names of the rows to remove, which are there.
            watermark: the watermark, which does not decrease.

        Returns:
            What has changed below the last watermark.

        Raises:
            MtlmonError: integers overflow in a relation.
        """
        new = self._own(new)
        if not self.chunks:
            self._live = [one.state for one in self._relations]
            self.chunks.append(_Chunk(FIRST, self._live))
        late = int(np.searchsorted(new.time_stamps, self.watermark))
        touched = self.insert(new.between(0, late)) if late else {}
        places = self.places_of(removed.time_stamps)
        for place in np.unique(places).tolist():
            own = removed.taken(np.flatnonzero(places == place))
            self.chunks[place].rows = without(self.chunks[place].rows, own)
            touched[place] = max(touched.get(place, 0), int(own.time_stamps.max()))
        if touched:
            self.replay(touched)
            for relation, state in zip(self._relations, self._live, strict=True):
                relation.resume(state)
        in_order = new.between(late, len(new.time_stamps))
        self._append(in_order, watermark, is_calm=not touched)
        changed, self._changed = self._changed, []
        return changed

    def _own(self, rows: Rows) -> Rows:
        """Rows without what relations do not read."""
        count = len(rows.time_stamps)
        if self.columns:
            inputs = rows.inputs.select(self.columns)
        else:
            # a batch without columns would not know how many rows it has
            inputs = pa.RecordBatch.from_arrays([pa.nulls(count)], [_NO_COLUMN])
        return rows._replace(inputs=inputs, held=np.zeros((count, 0), np.bool_))

    def _append(self, rows: Rows, watermark: int, *, is_calm: bool) -> None:
        """Take in rows at the end.

        Args:
            rows: the rows.
            watermark: as for `update`.
            is_calm: whether nothing before has changed. PERF: these rows stay together then, so
                that relations are evaluated once, and no spans are merged.
        """
        first = 0
        while self.watermark < watermark:
            chunk = self.chunks[-1]
            if chunk.count >= self._room(chunk):
                for relation in self._relations:
                    relation.spans.merge(chunk.start, self.watermark)
                chunk = _Chunk(self.watermark, self._live)
                self.chunks.append(chunk)
                self._unmerged = 0
            room = len(rows.time_stamps) if is_calm else self._room(chunk) - chunk.count
            last, end = _cut(rows.time_stamps, first, first + room, watermark)
            part = rows.between(first, last)
            for relation in self._relations:
                relation.spans.say([(self.watermark, relation.evaluated(part, end))], end)
            chunk.add(part)
            self._unmerged += 1
            if self._unmerged > _MOST_SPANS:
                # what is valid all the time is in each of the spans; the last one is looked up next
                for relation in self._relations:
                    relation.spans.merge(chunk.start, self.watermark)
                self._unmerged = 1
            self._live = [one.state for one in self._relations]
            self.watermark, first = end, last

    def _room(self, chunk: _Chunk) -> int:
        """How many rows a chunk should have: states take no more memory than they do."""
        return self.spacing or max(LEAST_SPACING, sum(one.record_count for one in chunk.states))

    # ---- late rows -------------------------------------------------------------------------

    def load(self, chunk: _Chunk) -> None:
        self._pending = set(range(len(self._relations)))

    def step(self, place: int) -> int:
        """Evaluate relations on a chunk, which may become several if all are evaluated."""
        if place in self.dirty:
            self.load(self.chunks[place])
        wanted = self._pending
        end = self.watermark if place + 1 == len(self.chunks) else self.chunks[place + 1].start
        chunk = self.chunks[place]
        rows = chunk.rows
        room = self._room(chunk)
        if len(wanted) < len(self._relations) or chunk.count < 2 * room:
            room = chunk.count
        said: dict[int, list[tuple[int, Records]]] = {number: [] for number in wanted}
        for number in wanted:
            self._relations[number].resume(chunk.states[number])
        start, first = chunk.start, 0
        while start < end:
            if first:
                place += 1
                chunk = _Chunk(start, [one.state for one in self._relations])
                self.chunks.insert(place, chunk)
            last, stop = _cut(rows.time_stamps, first, first + room, end)
            chunk.rows = rows.between(first, last)
            for number in wanted:
                said[number].append((start, self._relations[number].evaluated(chunk.rows, stop)))
            start, first = stop, last
        for number, spans in said.items():
            records = self._relations[number].spans.say(spans, end)
            if records is not None:
                self._changed.append(Changed(self._names[number], records))
        return place + 1

    def is_settled(self, place: int, changed: int) -> bool:
        return self._keep_states(self.chunks[place].states)

    def go_live(self) -> None:
        self._keep_states(self._live)

    def _keep_states(self, states: list[QueryState]) -> bool:
        """Keep the present states of relations where they are others; return whether none is."""
        for number in sorted(self._pending):
            state = self._relations[number].state
            if state.is_like(states[number]):
                self._pending.remove(number)
            states[number] = state
        return not self._pending

    # ---- what is forgotten -----------------------------------------------------------------

    def forget(self, bound: int) -> None:
        """Forget what is below a time, as nothing is looked up there, and no row comes or goes."""
        count = 0
        while count + 1 < len(self.chunks) and self.chunks[count + 1].start <= bound:
            count += 1
        del self.chunks[:count]
        for relation in self._relations if self.chunks else ():
            relation.spans.forget(self.chunks[0].start)

    @property
    def byte_count(self) -> int:
        """The number of bytes that rows and relations take, about."""
        of_chunks = sum(chunk.byte_count for chunk in self.chunks)
        return of_chunks + sum(one.held_bytes for one in self._relations)

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return rows and the first states as bytes, for `restore`; all else follows from these."""
        chunks = [(chunk.start, chunk.count) for chunk in self.chunks]
        head = json.dumps({"watermark": self.watermark, "chunks": chunks}).encode()
        if not chunks:
            return joined_parts([head])
        states: list[bytes] = []
        for number, relation in enumerate(self._relations):
            relation.resume(self.chunks[0].states[number])
            states += relation.snapshot()
            relation.resume(self._live[number])
        rows = rows_as_bytes(joined([chunk.rows for chunk in self.chunks]))
        return joined_parts([head, rows, *states])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot.

        Raises:
            SnapshotError, ValueError, KeyError, TypeError, ArrowException: the bytes are damaged.
        """
        text, *parts = split_parts(snapshot)
        head = json.loads(text)
        self.chunks = []
        if not head["chunks"]:
            return
        data, *states = parts
        for number, relation in enumerate(self._relations):
            relation.restore(*states[2 * number : 2 * number + 2])
        rows = rows_of_bytes(data, 0)
        ends = [*(start for start, _ in head["chunks"][1:]), head["watermark"]]
        first = 0
        for (start, count), end in zip(head["chunks"], ends, strict=True):
            chunk = _Chunk(start, [one.state for one in self._relations])
            chunk.add(rows.between(first, first + count))
            first += count
            self.chunks.append(chunk)
            for relation in self._relations:
                relation.spans.say([(start, relation.evaluated(chunk.rows, end))], end)
        self._live = [one.state for one in self._relations]
        self.watermark = head["watermark"]


def _cut(times: NDArray[np.int64], first: int, last: int, end: int) -> tuple[int, int]:
    """Find where rows can be cut, so that no time-stamp is on both sides.

    Args:
        times: their time-stamps.
        first: the first row.
        last: about how far to go.
        end: the watermark behind all rows.

    Returns:
        The number behind the last row, and the watermark there.
    """
    if last >= len(times):
        return len(times), end
    # not below the last row, as rows of its time-stamp may come before
    stop = int(times[last])
    if stop == times[first]:
        stop += 1
    last = int(np.searchsorted(times, stop))
    return (last, stop) if last < len(times) else (last, end)
