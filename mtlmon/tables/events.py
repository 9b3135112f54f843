"""Read the rows of tables as batches of events.

While one block of a table is checked, another thread parses the next one. Only `close` waits for
that thread; destructors never do. No other thread touches its files.

While a batch of rows is checked, one more thread prepares the next batch: it reads, numbers keys,
and computes conditions and streams (`TableEvents.prepare_next`). `LogCheck` asks for that batch by
batch, so nobody prepares a batch while keys get new numbers. Both threads use the table of keys:
one adds keys, the other reads the texts of earlier ones. So texts are copied when their memory
grows, and the old memory stays until the next batch (`KeyTable.read_beside`). A run with
checkpoints has one thread, because its digest must end where the check is; a small file is read by
the thread that checks it.
"""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.checking.event_digest import DigestPair, EventDigest, Texts
from mtlmon.checking.sources import BatchReader, LogPlaces, Pause, ReaderPlace
from mtlmon.engine.guarding import Guard, guarded
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError, RowError, TableError, TickError
from mtlmon.streams.bounds import LARGEST_BATCH
from mtlmon.support.copies import NotCopied
from mtlmon.support.processors import processor_count
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.tables.arrivals import Arrivals
from mtlmon.tables.columns.digests import correction_columns, digest_columns
from mtlmon.tables.columns.letters import LetterReader, Letters
from mtlmon.tables.columns.times import Times
from mtlmon.tables.columns.usable import RowCheck, SortedBlock, UsableRows, with_places
from mtlmon.tables.columns.wanted import Selection
from mtlmon.tables.columns.writings import Writings
from mtlmon.tables.event_batch import EventBatch
from mtlmon.tables.formats.blocks import BadRow, Block, BlockPlace, GoneOn
from mtlmon.tables.formats.files import (
    TableFile,
    TableObject,
)
from mtlmon.tables.formats.line_patterns import LinePattern
from mtlmon.tables.partition_keys import OrderedNumbers, PartitionKeys
from mtlmon.tables.remarks import order_remarks, quote_remarks, time_remarks, unit_remarks
from mtlmon.tables.reordering import RowOrder
from mtlmon.tables.row_origins import RowOrigins
from mtlmon.tables.row_store import RowStore
from mtlmon.tables.seen_atoms import SeenAtoms
from mtlmon.tables.sorting import EventSorter
from mtlmon.tables.sought_files import SoughtFile, sought_file
from mtlmon.tables.source_blocks import SourceBlocks

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Generator,
        Iterable,
        Mapping,
        Sequence,
    )
    from concurrent.futures import Future, ThreadPoolExecutor
    from typing import Protocol

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from mtlmon.policy import Predicate
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.predicates.environment import Environment, Relation
    from mtlmon.policy.predicates.time_points import Waiting
    from mtlmon.relations.revised import RevisedRelations
    from mtlmon.streams.atoms import Computed, StreamAtoms
    from mtlmon.support.inputs import FollowedFile
    from mtlmon.tables.end_chains import MovedEnds
    from mtlmon.tables.formats.dialect import Dialect
    from mtlmon.tables.row_relations import RowRelations

    class Stateful(Protocol):
        """Knows something by the rows so far."""

        def state(self) -> list[object]:
            """Return it as JSON can write it."""

        def restore(self, state: object) -> None:
            """Go on from such a state."""


_Item = TypeVar("_Item")

# PERF: of a file of one row, a second thread takes 6 ms, most of them for importing executors. It
# is worth that from a number of bytes on that is checked within some milliseconds.
_LARGE = 1 << 16


class TableEvents(BatchReader[EventBatch], NotCopied):
    """Reads tables as batches of events; it can be iterated once.

    It is also a context manager, which closes the files at the end. Skipped events do not add their
    keys to `keys`; sorted events cannot be skipped.

    Attributes:
        sources: the files and objects that the events are read from.
        files: the sources that are files.
        dialect: how the cells of delimited text are written.
        partitions: the key columns of each partition; a partition without them is one trace.
        key_tables: for each partition, the numbers of its keys, or None without key columns.
        keys: the numbers of the keys, or None if there are no key columns. With several partitions,
            these are the keys of the first one.
        times: converts times to time-stamps, and time-stamps to texts.
        digest: set this before the first event to get a digest of all events that are read; sorted
            events have no digest.
        digests_shown: set this if the values that batches show are part of the digest.
        places: set this before the first event to note places where another reader can go on.
        note_block: set this before the first event to a function that gets the bytes of files.
        values_of_rows: set this before the first event, if rows come in any order, to what computes
            the values that batches show, which depend on their row alone.
        wait: set this before the first event to a function that blocks until there is something to
            read. It is called with a descriptor before every read from standard input or a pipe.
        rows: the number of rows that have been read.
        row_name: the word for a row in messages.
        size: the size of all files in bytes, or None if some source is not a regular file.
        schema: the columns of the first rows, or None before these.
        writings: notices texts that are compared and look like one value.
    """

    row_name = "row"

    def __init__(
        self,
        sources: Sequence[TableFile | TableObject],
        atoms: Sequence[str],
        predicates: Mapping[str, Predicate],
        selection: Selection,
        times: Times,
        separator: str,
        dialect: Dialect,
        on_error: Literal["stop", "skip"],
        sort_memory: int | None,
        memory: MemoryLimit | None,
        partitions: Sequence[tuple[str, ...]],
        environment: Environment,
        streams: StreamAtoms | None,
        named_atoms: Collection[str],
        pattern: LinePattern | None,
        typed: Callable[[pa.Schema], pa.Schema] | None,
        order: RowOrder | Arrivals | None,
        relations: RowRelations | None,
        moves: MovedEnds | None = None,
    ) -> None:
        self._guard = Guard("reader of tables")
        self.wait: Callable[[int], None] | None = None
        self.digest: EventDigest | DigestPair | None = None
        self.digests_shown = False
        self.places: LogPlaces | None = None
        self.note_block: Callable[[memoryview], None] | None = None
        self.values_of_rows: StreamAtoms | None = None
        self.writings = Writings(())
        batches: Generator[EventBatch | Pause | None, None, None] = self._ordered()
        if sort_memory is not None:
            batches = self._sorted(sort_memory)
            if streams is not None:
                batches = self._sorted_with_streams(sort_memory, streams)
        super().__init__(batches)
        self.sources = tuple(sources)
        self.files = tuple(one for one in sources if isinstance(one, TableFile))
        self._atoms = tuple(atoms)
        self._selection = selection
        self.dialect = dialect
        self._predicates = {name: predicates[name] for name in atoms if name in predicates}
        self._environment = environment
        self._streams = streams
        # without its rows
        self._last_block: Block | None = None
        # No event is called like an atom that streams compute.
        computed = () if streams is None else streams.names
        read = [f" {name}" if name in computed else name for name in atoms]
        self._check = RowCheck(
            selection,
            times,
            LetterReader(read, self._predicates, selection, separator, self._environment),
            on_error,
            sort_memory is None and order is None,
            typed,
            None if order is None else order.need_no_key,
        )
        self.partitions = tuple(partitions)
        self._memory = MemoryLimit() if memory is None else memory
        self._keys = PartitionKeys(partitions, selection, self._memory)
        self.key_tables = self._keys.tables
        self.keys = self.key_tables[0]
        if streams is not None:
            streams.know_traces(self.partitions, self._keys.traces_of)
        self._is_sorted = sort_memory is not None
        self._order = order
        self._relations = relations
        self._moves = moves
        self._origins: RowOrigins | None = None
        self.times = times
        self.rows = 0
        self.schema: pa.Schema | None = None
        self._seen = SeenAtoms(atoms, named_atoms, selection, separator)
        # runs the thread that reads ahead
        self._executor: ThreadPoolExecutor | None = None
        # runs the thread that prepares the next batch
        self._preparing: ThreadPoolExecutor | None = None
        self._following: Future[EventBatch | None] | None = None
        self._blocks = SourceBlocks(sources, selection, dialect, pattern)
        self.size = self._blocks.size
        self._is_large = self.size is not None and self.size >= _LARGE
        self._prepares = self._is_large and processor_count() > 1
        self._file: SoughtFile | None = None
        # the usable rows so far, and where another reader has been
        self._events = 0
        self._place: ReaderPlace | None = None

    def __enter__(self) -> TableEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @guarded
    def close(self) -> None:
        """Close all files; no more batches come."""
        if self._preparing is not None:
            self._preparing.shutdown()
        self._batches.close()
        if self._file is not None:
            self._file.close()
        if self._executor is not None:
            self._executor.shutdown()

    @guarded
    def __next__(self) -> EventBatch:
        """Return the next batch."""
        following, self._following = self._following, None
        batch = None if following is None else following.result()
        return super().__next__() if batch is None else batch

    def prepare_next(self) -> None:
        """Let another thread prepare the next batch, if there are processors for two.

        Without it, one thread would compute atoms and streams of a batch, and then monitor it.
        Until the next batch has been asked for, `keep_traces` must not be called. Batches whose
        events are skipped or have a digest are prepared when they are asked for.
        """
        if self.digest is not None or self.to_skip or not self._prepares:
            return
        if self._preparing is None:
            from concurrent.futures import ThreadPoolExecutor

            self._preparing = ThreadPoolExecutor(1, "mtlmon-batches")
        for keys in self.key_tables:
            if keys is not None:
                keys.read_beside(True)
        # these are no rows that are given, so nothing pauses
        batches = cast("Generator[EventBatch | None, None, None]", self._batches)
        self._following = self._preparing.submit(next, batches, None)

    @property
    def can_forget_keys(self) -> bool:
        """Whether future batches use the numbers that keys have by then, so that keys can go.

        Sorted rows get their numbers long before they come in a batch. With a digest, a later run
        computes streams again from the first row, with all keys.
        """
        return not self._is_sorted and (self._streams is None or self.digest is None)

    def only_due_ticks(self, is_wanted: bool = True) -> None:
        """From the first batch on, leave out ticks at which no atom of their trace changes, or not.

        The first tick of a trace is never left out.
        """
        if self._streams is not None:
            self._streams.only_due = is_wanted
            self._streams.can_leave_out = self._check.skips

    def track_rows(self) -> None:
        """From the first batch on, tell the origins of events; call this before the first batch."""
        self._origins = RowOrigins(self.sources)
        if self._streams is not None:
            self._streams.tracks_rows = True

    @property
    def tracks_rows(self) -> bool:
        """Whether batches tell the origins of events."""
        return self._origins is not None

    def settled_traces(self, partition: int, count: int) -> bytes | None:
        """Return a byte for each trace, 0 if streams remember its rows; None if there are none."""
        return None if self._streams is None else self._streams.settled(partition, count)

    def keep_traces(self, partition: int, numbers: bytes) -> None:
        """Give the traces of a partition new numbers, as `KeyTable.keep` does."""
        keys = self.key_tables[partition]
        assert keys is not None
        keys.keep(numbers)
        if self._streams is not None:
            self._streams.keep(partition, numbers)

    @property
    def streams(self) -> StreamAtoms | None:
        """Computes the atoms that depend on other rows; None if there are none."""
        return self._streams

    @property
    def relations(self) -> RevisedRelations | None:
        """The relations of rows that come in any order; the caller must keep them up to date."""
        return self._order.relations if isinstance(self._order, Arrivals) else None

    @property
    def skipped(self) -> int:
        """The number of rows that were not usable, if `on_error` is "skip"."""
        return self._check.skipped

    @property
    def refused(self) -> int:
        """The number of rows that came too late."""
        return 0 if self._order is None else self._order.late.count

    @property
    def first_refused(self) -> TableError | None:
        """Says where the first row is that came too late; None if none did."""
        return None if self._order is None else self._order.late.first

    @property
    def unmoved(self) -> int:
        """The number of retractions that have moved no end, although they give one."""
        return 0 if self._moves is None else self._moves.broken

    @property
    def bytes_of_moves(self) -> int:
        """The number of bytes that are held of ends which may be moved, about."""
        return 0 if self._moves is None else self._moves.byte_count

    def refuse(self, places: NDArray[np.int64], reason: str) -> None:
        """Refuse rows that come too late, of tables whose rows come in any order.

        Args:
            places: the indices of the rows, of which there are some, in the batch read last.
            reason: why they are too late, for `first_refused`.
        """
        assert isinstance(self._order, Arrivals)
        self._order.refuse(places, reason)

    def reject(self, place: int, reason: str) -> None:
        """Skip a row that contradicts others, of tables whose rows come in any order.

        Args:
            place: the index of the row in the batch read last.
            reason: what is wrong with it.

        Raises:
            TableError: rows that cannot be used are not skipped.
        """
        assert isinstance(self._order, Arrivals)
        self._check.refuse(BadRow(self._order.error(place, reason)))

    @property
    def late_header(self) -> bytes:
        """The header of CSV that was written last before rows that come too late."""
        return b"" if self._order is None else self._order.late.header

    @late_header.setter
    def late_header(self, header: bytes) -> None:
        assert self._order is not None
        self._order.late.header = header

    @property
    def points_left_out(self) -> int:
        """The number of time-points that were left out, as integers overflow there."""
        return 0 if self._streams is None else self._streams.points_left_out

    @property
    def waiting_rows(self) -> int:
        """The number of rows that wait for later values."""
        return 0 if self._streams is None else self._streams.waiting_rows

    def earliest_waiting(self, partition: int, clock: Clock) -> tuple[int, int] | None:
        """Return time and trace of the earliest row that waits, as `EventSource` says."""
        if self._streams is None:
            return None
        return self._streams.earliest_waiting(partition, cast("Waiting", clock.period))

    @property
    def unmatched(self) -> int:
        """The number of lines that do not match the pattern, which are no rows."""
        return self._blocks.unmatched

    @property
    def spanning_rows(self) -> int:
        """The number of rows of CSV that span lines."""
        return self._blocks.spanning_rows

    @property
    def stray_quotes(self) -> int:
        """The number of cells whose first quote was read as a character, as it ends no cell."""
        return self._blocks.stray_quotes

    @property
    def remarks(self) -> list[str]:
        """Remarks about values that may be meant differently, by the rows so far, with counts."""
        found = list(time_remarks(self.times, self._selection.options))
        steps, first = self._check.steps_back, self._check.first_step_back
        if isinstance(self._order, Arrivals):
            steps, first = self._order.steps_back, self._order.first_step_back
        found += order_remarks(steps, first, self.times, self._selection.options)
        found += unit_remarks(self._check.clock, self.times)
        found += quote_remarks(self.stray_quotes)
        return [*found, *self._blocks.rounding_remarks(), *self.writings.remarks]

    @property
    def errors(self) -> tuple[TableError, ...]:
        """The errors of the first rows that were skipped."""
        return tuple(self._check.errors)

    def cut_batches(self) -> None:
        """From the first batch on, end batches before a row that is later than all before it.

        That matters where rows may be late.
        """
        if isinstance(self._order, Arrivals):
            self._order.cuts = True

    @property
    def clock(self) -> int | None:
        """The largest time-stamp of the events so far, or None before the first event."""
        return self._check.clock if self._order is None else self._order.clock

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the files that have been read, before decompression."""
        return self._blocks.bytes_read

    @property
    def absent_columns(self) -> tuple[str, ...]:
        """Messages about columns that no row of JSON lines has had so far.

        If there are still such columns at the end, that is an error. A live log may never end, so
        the messages can be shown earlier.
        """
        return self._blocks.absent_columns

    @property
    def unseen_atoms(self) -> tuple[str, ...]:
        """The atoms that no row has named so far, by a name of an event or a Boolean column.

        Atoms that are defined by predicates, and columns that are never true, are not among them.
        """
        unseen: Collection[str] = self._seen.unseen
        if self._selection.event is None:
            unseen = self._blocks.absent_names if self.rows else ()
        return tuple(name for name in self._atoms if name in unseen)

    @property
    def seen_names(self) -> list[str]:
        """The names in the first rows of a column of names, for hints about misspelt atoms."""
        return self._seen.names or []

    @property
    def _has_streams(self) -> bool:
        """Whether anything is computed by streams."""
        return self._streams is not None or self.values_of_rows is not None

    def _usable(self) -> Generator[UsableRows | Pause, None, None]:
        """Yield the usable rows, and count the others or raise their errors."""
        self._blocks.note_block = self.note_block
        blocks = self._blocks.blocks(self.wait)
        if self._is_large:
            from concurrent.futures import ThreadPoolExecutor

            if self._predicates or self._has_streams:
                # Arrow imports pandas, if it is there, when it first converts a value of Python.
                # Of two threads that do so, one could see a module without content.
                pa.scalar(False)
            self._executor = ThreadPoolExecutor(1, "mtlmon-tables")
            blocks = _ahead(blocks, self._executor)
        with closing(blocks):
            for item in blocks:
                if isinstance(item, Pause):
                    yield item
                    continue
                if isinstance(item, GoneOn):
                    self._restore()
                    continue
                if self._place is not None:
                    # Only the types of columns and the notation of times matter here.
                    if isinstance(item, Block):
                        first = self._check.usable(item)
                        self.schema = self.schema or first.block.batch.schema
                    continue
                if isinstance(item, BadRow):
                    self.rows += 1
                    self._check.refuse(item)
                    continue
                # What streams hold is bounded only if the batches that they get are.
                if self.places is not None and item.place is not None:
                    self._note_place(self.places, item.place)
                most = LARGEST_BATCH if self._has_streams else item.batch.num_rows
                for block in item.parts(most):
                    self.rows += block.batch.num_rows
                    rows = self._check.usable(block)
                    self.writings.note(rows.batch)
                    if self.schema is None:
                        self.schema = rows.block.batch.schema
                    self._events += len(rows.time_stamps)
                    if len(rows.time_stamps):
                        yield rows
                    if rows.error is not None:
                        raise rows.error

    # ---- places where another reader goes on -----------------------------------------------

    @property
    def name(self) -> str:
        """The name of the first table in messages."""
        return self.sources[0].name

    @property
    def start(self) -> int | None:
        """0 if all rows are in one file in which another reader can go on; else None.

        None also if rows depend on others, which that reader would not know.
        """
        depends = self._streams is not None and self._streams.depends_on_rows
        if self._file is None and not depends and self._order is None:
            self._file = None if self._is_sorted else sought_file(self.sources)
        return None if self._file is None else 0

    @property
    def descriptor(self) -> int:
        """The descriptor of the only file, if there is a start."""
        assert self._file is not None
        return self._file.descriptor

    @property
    def followed(self) -> FollowedFile | None:
        """The file that is followed, if the log is its lines."""
        (*others, only) = self.sources
        stream = only.input if isinstance(only, TableFile) and not others else None
        return None if stream is None else stream.followed

    @property
    def _stateful(self) -> tuple[Stateful, ...]:
        """What depends on earlier rows, apart from the types of columns and notations."""
        return self._check, self._seen, self.writings

    def _note_place(self, places: LogPlaces, place: BlockPlace) -> None:
        """Note where a block begins, unless what its times mean depends on earlier ones."""
        if self.times.depend_on_rows:
            return
        state = [self.rows, *place[1:], *(one.state() for one in self._stateful)]
        places.note(ReaderPlace(self._events, place.size, json.dumps(state)))

    def resume_at(self, place: ReaderPlace) -> None:
        """Go on where another reader has noted a place; call this before iterating."""
        _, line, row, state, *_ = json.loads(place.state)
        self._blocks.resume = BlockPlace(place.size, line, row, state)
        self._place = place

    def _restore(self) -> None:
        """Restore what the other reader knew by the rows before the place."""
        assert self._place is not None
        self.rows, _, _, _, *states = json.loads(self._place.state)
        self._events = self._place.events
        for one, state in zip(self._stateful, states, strict=True):
            one.restore(state)
        self._place = None

    # ---- rows that are given as they come ---------------------------------------------------

    def given_state(self) -> bytes:
        """Return what is known by the rows so far, for `restore_given`.

        Raises:
            MtlmonError: something of it cannot be saved.
        """
        if self.schema is None:
            return b""
        streams, schema = self._streams, b""
        saved: list[bytes] = []
        if streams is not None and streams.schema is not None:
            schema = streams.schema.serialize().to_pybytes()
            saved = [] if isinstance(self._order, Arrivals) else streams.snapshots()
        head = [
            self.rows,
            self._events,
            self.times.state(),
            self._blocks.given_state(),
            [one.state() for one in self._stateful],
            0 if streams is None else streams.points_left_out,
        ]
        keys = [b"" if one is None else one.snapshot() for one in self.key_tables]
        parts = [
            json.dumps(head).encode(),
            self.schema.serialize().to_pybytes(),
            schema,
            joined_parts(keys),
            joined_parts(saved),
            b"" if self._order is None else self._order.snapshot(),
            b"" if self._relations is None else self._relations.snapshot(len(self._atoms)),
            b"" if self._moves is None else self._moves.snapshot(),
        ]
        return joined_parts(parts)

    def restore_given(self, state: bytes) -> None:
        """Go on from a state; a batch without rows, of `columns_of`, must have been read.

        Raises:
            SnapshotError: the state is damaged, or is of other streams.
        """
        if not state:
            return
        head, _, schema, keys, saved, order, relations, moves = split_parts(state)
        self.rows, self._events, times, blocks, states, left_out = json.loads(head)
        self.times.restore(times)
        self._blocks.restore_given(blocks)
        for one, own in zip(self._stateful, states, strict=True):
            one.restore(own)
        for table, texts in zip(self.key_tables, split_parts(keys), strict=True):
            if table is not None and not len(table):
                table.restore(texts)
        if self._relations is not None:
            self._relations.know_types(relations)
        if self._streams is not None and schema:
            assert self.schema is not None
            self._streams.compile_for(pa.ipc.read_schema(pa.py_buffer(schema)))
            if of_streams := split_parts(saved):
                self._streams.restore(of_streams)
            self._streams.points_left_out = left_out
            empty = pa.RecordBatch.from_pylist([], self.schema)
            self._last_block = Block(empty, self.name, 1, None)
        if self._relations is not None:
            self._relations.restore(relations)
        if self._order is not None:
            self._order.restore(order)
        if self._moves is not None:
            self._moves.restore(moves)

    @staticmethod
    def columns_of(state: bytes) -> pa.RecordBatch | None:
        """Return a batch without rows, with the columns that rows had; None without rows."""
        if not state:
            return None
        return pa.RecordBatch.from_pylist(
            [], pa.ipc.read_schema(pa.py_buffer(split_parts(state)[1]))
        )

    def _noted(self) -> Generator[UsableRows | Pause, None, None]:
        """Yield the usable rows, and note the atoms that they name."""
        with closing(self._usable()) as usable:
            for rows in usable:
                if not isinstance(rows, Pause):
                    self._seen.note(rows)
                yield rows

    def _moved(
        self, usable: Generator[UsableRows | Pause, None, None], moves: MovedEnds
    ) -> Generator[UsableRows | Pause, None, None]:
        """Yield the rows with the ends that retractions give them."""
        with closing(usable):
            for rows in usable:
                if not isinstance(rows, Pause):
                    self._move(rows, moves)
                    if not len(rows.time_stamps):
                        continue
                yield rows
        moves.end()

    def _move(self, rows: UsableRows, moves: MovedEnds) -> None:
        while True:
            try:
                if moves.move(rows):
                    self._check.read_letters(rows)
            except RowError as refused:
                self._check.drop_refused(rows, refused)
            else:
                self._check.keep_errors()
                return

    def _ordered(self) -> Generator[EventBatch | Pause | None, None, None]:
        """Yield the batches in the order of the rows, and None for each batch that is skipped."""
        usable = self._noted()
        if self._moves is not None:
            usable = self._moved(usable, self._moves)
        if self._order is not None:
            usable = self._order.ordered(usable)
        with closing(usable):
            for rows in usable:
                if isinstance(rows, Pause):
                    yield rows
                else:
                    yield from self._batches_of(rows)
        if self._relations is not None:
            yield from self._of_pieces(map(_as_tail, self._relations.finish()))

    def _batches_of(self, rows: UsableRows) -> Generator[EventBatch | None, None, None]:
        """Yield the batches of rows, and None for each batch that is skipped."""
        count = len(rows.time_stamps)
        skipped = min(count, self.to_skip)
        if self._streams is not None and not isinstance(self._order, Arrivals):
            if self._relations is not None:
                yield from self._of_pieces(self._relations.admit(rows))
                # ticks below the rows that are held back do not wait as these do
                yield from self._ticks_below(int(rows.time_stamps[-1]) if count else 0)
                return
            self._last_block = rows.block._replace(batch=rows.block.batch.slice(0, 0))
            yield from self._with_streams(rows, self._streams)
            return
        if skipped:
            if self.digest is not None:
                # Of the keys, only the texts matter.
                tables = self._keys.new_tables()
                self._add_to_digest(rows, tables, self._keys.numbers(rows, tables))
            self.to_skip -= skipped
            yield None
            if skipped == count:
                return
            rows.drop(skipped)
            if isinstance(self._order, Arrivals):
                self._order.drop(skipped)
        numbers = self._keys.numbers(rows)
        if not skipped:
            self._add_to_digest(rows, self.key_tables, numbers)
        yield self._batch(rows, numbers)

    def _of_pieces(self, pieces: Iterable[UsableRows]) -> Generator[EventBatch | None, None, None]:
        """Yield the batches of rows at whose time relations are known."""
        assert self._streams is not None
        for piece in pieces:
            self._last_block = piece.block._replace(batch=piece.block.batch.slice(0, 0))
            before = piece.error
            yield from self._with_streams(piece, self._streams)
            if piece.error is not None and piece.error is not before:
                raise piece.error

    def _batch(self, rows: UsableRows, numbers: Sequence[NDArray[np.uint32] | None]) -> EventBatch:
        block = rows.block
        is_sorted = self._is_sorted or isinstance(block, SortedBlock)
        batch = EventBatch(
            rows.letters,
            self._atoms,
            rows.time_stamps,
            numbers,
            None if is_sorted else block.path,
            None if is_sorted else rows.numbers,
            block.is_tail,
            rows.values,
            rows.tick_end,
            rows.has_all_ticks,
        )
        batch.instances = rows.instances
        if self._origins is not None:
            batch.origins = self._origins.of(rows)
        if isinstance(self._order, Arrivals):
            batch.corrections = self._order.corrections
            if self._streams is not None:
                held = self._held(rows, self._streams)
                batch.inputs = self._streams.prepared(rows.batch, held)
            if self.values_of_rows is not None:
                self._show_rows(rows, self.values_of_rows)
        return batch

    def _with_streams(
        self, rows: UsableRows, streams: StreamAtoms
    ) -> Generator[EventBatch | None, None, None]:
        """Compute what depends on other rows, in pieces with few ticks.

        Rows on which a stream has no value are dropped.
        """
        # Those that come first are last here.
        pieces = [rows]
        while pieces:
            piece = pieces.pop()
            numbers = self._keys.numbers(piece)
            time_stamps = np.ascontiguousarray(piece.time_stamps)
            batch = streams.prepared(piece.batch, self._held(piece, streams))
            count = streams.piece(time_stamps, numbers, batch)
            if not count and len(time_stamps):
                limit = int(time_stamps[0])
                some = partial(streams.some_ticks, limit)
                yield from self._without_rows(piece.block, streams, some)
                pieces.append(piece)
                continue
            if count < len(time_stamps):
                pieces += [piece, piece.taken(count)]
                continue
            try:
                found = streams.evaluate(batch, time_stamps, numbers)
            except RowError as refused:
                self._check.drop_refused(piece, refused)
                pieces.append(piece)
            except TickError as refused:
                if self._check.has_left_out(piece, refused, self._keys.key_of(refused)):
                    streams.leave_out(refused)
                pieces.append(piece)
            else:
                self._check.keep_errors()
                yield from self._computed(piece, streams, numbers, found)
                if piece.error is not None:
                    # the rows behind it no longer count
                    rows.error = piece.error
                    return

    def _note_memory(self, streams: StreamAtoms) -> None:
        """Count what streams and relations hold."""
        of_relations = 0 if self._relations is None else self._relations.held_bytes
        self._memory.note("streams", streams.held_bytes + of_relations)

    def _computed(
        self,
        rows: UsableRows,
        streams: StreamAtoms,
        numbers: list[NDArray[np.uint32] | None],
        found: Computed,
    ) -> Generator[EventBatch | None, None, None]:
        """Yield a batch of rows with what has been computed for them.

        None precedes the batch if its first rows are skipped, or replaces it if all are.
        """
        self._set_computed(rows, found)
        self._note_memory(streams)
        # Rows that are skipped are remembered, too.
        count = len(rows.time_stamps)
        if count:
            self._add_to_digest(rows, self.key_tables, numbers)
        skipped = min(count, self.to_skip)
        self.to_skip -= skipped
        if skipped:
            yield None
            if skipped == count:
                return
            rows.drop(skipped)
            numbers = [None if own is None else own[skipped:] for own in numbers]
        yield self._batch(rows, numbers)

    def _without_rows(
        self, block: Block, streams: StreamAtoms, computed: Callable[[], Computed]
    ) -> Generator[EventBatch | None, None, None]:
        """Compute time-points that come before the next row; yield None if that is skipped."""
        rows = UsableRows(block, np.empty(0, np.int64))
        rows.batch = block.batch.slice(0, 0)
        while True:
            try:
                found = computed()
            except TickError as refused:
                if not self._check.has_left_out(rows, refused, self._keys.key_of(refused)):
                    assert rows.error is not None
                    raise rows.error from rows.error.__cause__
                streams.leave_out(refused)
            else:
                break
        self._check.keep_errors()
        self._set_computed(rows, found)
        self._note_memory(streams)
        none = np.empty(0, np.uint32)
        numbers = [None if keys is None else none for keys in self.key_tables]
        yield None if self.to_skip else self._batch(rows, numbers)

    def ticks_until(self, limit: int) -> Generator[EventBatch, None, None]:
        """Yield batches without rows, with the ticks below a time that follow the last row.

        There is none at the largest time.

        Raises:
            TableError: integers overflow at a tick.
        """
        if self._streams is None or self._last_block is None:
            return
        from mtlmon.streams.ticking import LATEST

        limit = min(limit, LATEST)
        if self._relations is not None:
            for batch in self._of_pieces(self._relations.pass_time(limit)):
                assert batch is not None
                yield batch
        for batch in self._ticks_below(limit):
            assert batch is not None
            yield batch

    def _ticks_below(self, limit: int) -> Generator[EventBatch | None, None, None]:
        """Yield batches without rows, with the ticks below a time; None for those before a skip."""
        if self._streams is None or self._last_block is None:
            return
        while self._streams.ticks_end < limit:
            some = partial(self._streams.some_ticks, limit)
            yield from self._without_rows(self._last_block, self._streams, some)

    def next_change(self, start: int, limit: int) -> int | None:
        """Return when a relation changes first, as `EventSource` says.

        Raises:
            MtlmonError: integers overflow in a relation.
        """
        if self._relations is not None:
            self._relations.look_ahead(limit)
        return None if self._streams is None else self._streams.next_change(start, limit)

    @property
    def passed(self) -> int:
        """The time below which no row comes any more, if that is later than the last row."""
        return self._check.passed

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no row below a time comes any more; such rows are not usable."""
        self._check.passed = max(self._check.passed, time_stamp)

    @property
    def guessed_streams(self) -> frozenset[str]:
        """The streams that have integers or floats by the rows that were read last."""
        return frozenset() if self._streams is None else self._streams.guessed

    @property
    def looked_up(self) -> Mapping[str, Relation]:
        """The relations in which expressions look values up, by name."""
        return self._environment.relations

    @property
    def has_late_rows(self) -> bool:
        """Whether rows wait for others that come late."""
        is_late = self._order is not None and self._order.has_rows
        return is_late or (self._relations is not None and self._relations.waiting > 0)

    def rows_until(self, time_stamp: int) -> Generator[EventBatch, None, None]:
        """Declare that rows below a time come too late; yield batches of those that waited for it.

        Rows at that time are among them. This may be called while the next batch is waited for.
        """
        for rows in () if self._order is None else self._order.pass_time(time_stamp):
            for batch in self._batches_of(rows):
                assert batch is not None
                yield batch
        if self._relations is not None:
            for batch in self._of_pieces(self._relations.pass_time(time_stamp)):
                assert batch is not None
                yield batch

    @property
    def time_order(self) -> RowOrder | None:
        """What puts rows into the order of time; None if nothing has to."""
        return None if isinstance(self._order, Arrivals) else self._order

    def released(self) -> Generator[EventBatch, None, None]:
        """Yield a batch without rows, with those that wait for later values: no more rows come.

        Raises:
            TableError: integers overflow at one of them.
        """
        if self._streams is None or self._last_block is None:
            return
        for batch in self._without_rows(self._last_block, self._streams, self._streams.released):
            assert batch is not None
            yield batch

    def _held(self, rows: UsableRows, streams: StreamAtoms) -> dict[str, pa.BooleanArray]:
        """Where the atoms of the log hold."""
        count = len(rows.time_stamps)
        return {
            name: rows.letters.held(self._atoms.index(name), count) for name in streams.log_atoms
        }

    def _show_rows(self, rows: UsableRows, streams: StreamAtoms) -> None:
        """Compute the values to show at rows that come in any order."""
        stamps = rows.time_stamps
        inputs = streams.prepared(rows.batch, self._held(rows, streams))
        try:
            rows.letters.shown = streams.shown_of_rows(inputs, stamps)
        except RowError as error:
            raise MtlmonError(
                f"at time-stamp {np.sort(stamps)[error.rows[0]]}: {error.reason}; such rows cannot "
                "be left out where verdicts are corrected"
            ) from error.__cause__

    def _set_computed(self, rows: UsableRows, found: Computed) -> None:
        rows.letters.of_traces = [
            {self._atoms.index(name): array for name, array in arrays.items()}
            for arrays in found.atoms
        ]
        rows.letters.of_ticks = found.ticks
        rows.letters.shown = found.shown
        rows.values = found.values
        rows.tick_end = found.ticks_done
        rows.has_all_ticks = found.has_all_ticks
        rows.instances = found.instances

    def _add_to_digest(
        self,
        rows: UsableRows,
        tables: Sequence[KeyTable | None],
        numbers: Sequence[NDArray[np.uint32] | None],
    ) -> None:
        """Add rows to the digest, if one is wanted, with the texts of their keys, if any."""
        if self.digest is None:
            return
        count = len(rows.time_stamps)
        columns: list[Buffer | Texts] = [np.ascontiguousarray(rows.time_stamps).data]
        for partition in range(len(rows.letters.of_traces) or 1):
            letters = rows.letters.words(count, len(self._atoms), partition)
            columns.append(np.ascontiguousarray(letters).data)
        seen: set[str] = set()
        for names, keys, own in zip(self.partitions, tables, numbers, strict=True):
            for place, name in enumerate(names):
                if keys is None or own is None or name in seen:
                    continue
                seen.add(name)
                texts = Texts(*keys.column(own, place))
                columns += [np.diff(np.frombuffer(texts.starts, np.int64)).data, texts]
        if self._has_streams and isinstance(self._order, Arrivals):
            # what streams compute of the rows is not known here
            names = rows.batch.schema.names
            plain = [name for name in self._selection.predicates if name in names]
            # where there are the cells themselves, they say what they are read as
            converted = [
                read_as
                for read_as, name in self._selection.conversions.items()
                if read_as in names and name not in plain
            ]
            for name in (*plain, *converted):
                columns += digest_columns(self._selection.cells(rows.batch, name))
        if isinstance(self._order, Arrivals):
            columns += correction_columns(self._order.corrections)
        if self.digests_shown:
            for shown in rows.letters.shown:
                for name in sorted(shown):
                    columns += digest_columns(shown[name])
        self.digest.add(count, columns)

    def _sorted(self, memory: int) -> Generator[EventBatch | None, None, None]:
        """Yield the batches in the order of time; `memory` is the number of bytes for sorting."""
        letter_words = max(1, (len(self._atoms) + 63) // 64)
        # Where rows come from goes along as two more words.
        place_words = 0 if self._origins is None else 2
        partitions = len(self.partitions)
        # the numbers of keys are in the order of time only once rows are
        tables = self._keys.new_tables()
        with EventSorter(letter_words + place_words, memory, partitions) as sorter:
            with closing(self._usable()) as usable:
                for rows in usable:
                    assert not isinstance(rows, Pause)
                    words = rows.letters.words(len(rows.time_stamps), len(self._atoms))
                    self._seen.note(rows)
                    if self._origins is not None:
                        words = np.column_stack([words, self._origins.words(rows)])
                    sorter.add(
                        rows.time_stamps, self._keys.numbers(rows, tables), words, rows.rests
                    )
                    self._memory.note("sorting", sorter.held_bytes)
                    # No other code checks the limit before the last row is read.
                    self._memory.check()
            ordered = [
                None if table is None or keys is None else OrderedNumbers(table, keys)
                for table, keys in zip(tables, self.key_tables, strict=True)
            ]
            for records in sorter.sorted():
                numbers = [
                    None if keys is None else keys.of(records["numbers"][:, place])
                    for place, keys in enumerate(ordered)
                ]
                self._keys.note_memory([*tables, *self.key_tables])
                time_stamps = np.ascontiguousarray(records["time_stamp"])
                words = records["words"]
                self._memory.note("sorting", sorter.held_bytes)
                letters = Letters(np.ascontiguousarray(words[:, :letter_words]), {})
                batch = EventBatch(letters, self._atoms, time_stamps, numbers, None, None)
                if self._origins is not None:
                    batch.origins = self._origins.of_words(words[:, letter_words:])
                yield batch

    def _sorted_with_streams(
        self, memory: int, streams: StreamAtoms
    ) -> Generator[EventBatch | None, None, None]:
        """Sort the rows themselves, and compute then what depends on other rows."""
        with closing(RowStore(memory // 2)) as store, EventSorter(1, memory // 2, 0) as sorter:
            with closing(self._usable()) as usable:
                for rows in usable:
                    assert not isinstance(rows, Pause)
                    self._seen.note(rows)
                    count = len(rows.time_stamps)
                    words = np.arange(store.count, store.count + count, dtype=np.uint64)
                    sorter.add(rows.time_stamps, [], words[:, np.newaxis], rows.rests)
                    store.add(with_places(rows))
                    self._memory.note("sorting", sorter.held_bytes + store.held_bytes)
                    # No other code checks the limit before the last row is read.
                    self._memory.check()
            for records in sorter.sorted():
                if not len(records):
                    continue
                batch = store.take(records["words"][:, 0].astype(np.int64))
                block = SortedBlock(batch, self.sources[0].name, 1, None)
                rows = UsableRows(block, np.ascontiguousarray(records["time_stamp"]))
                self._check.read_letters(rows)
                self._last_block = block._replace(batch=batch.slice(0, 0))
                self._memory.note("sorting", sorter.held_bytes + store.held_bytes)
                if self._relations is not None:
                    yield from self._of_pieces(self._relations.admit(rows))
                    continue
                yield from self._with_streams(rows, streams)
                if rows.error is not None:
                    raise rows.error
            if self._relations is not None:
                yield from self._of_pieces(self._relations.finish())


def _as_tail(rows: UsableRows) -> UsableRows:
    """Mark rows as the last ones of a log, of which more may be written."""
    rows.block = rows.block._replace(is_tail=True)
    return rows


def _ahead(
    items: Generator[_Item, None, None], executor: ThreadPoolExecutor
) -> Generator[_Item, None, None]:
    """Yield the same items, with a second thread that prepares the next item.

    When this generator ends, it does not wait for that thread. The garbage collector may end it
    anywhere, even within the code that starts threads. The thread closes the items when it is done.
    """
    following = executor.submit(next, items, None)
    try:
        while (item := following.result()) is not None:
            following = executor.submit(next, items, None)
            yield item
    finally:
        following.add_done_callback(lambda _: items.close())
        executor.shutdown(wait=False)
