"""Read the rows of tables as batches of events."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.checking.event_digest import EventDigest, Texts
from mtlmon.checking.sources import BatchReader
from mtlmon.checking.time_points import ChosenPoints, chosen_points
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError, PolicyError, RowError, TableError, TickError
from mtlmon.policy import compile_predicates
from mtlmon.policy.needs import meant_equivalences, needs_of
from mtlmon.policy.types import with_times
from mtlmon.streams.atoms import StreamAtoms
from mtlmon.streams.bounds import LARGEST_BATCH
from mtlmon.support.atom_names import listed
from mtlmon.support.option_names import PYTHON
from mtlmon.support.processors import processor_count
from mtlmon.support.table_formats import LINES
from mtlmon.syntax.report import visible
from mtlmon.tables.columns.digests import digest_columns
from mtlmon.tables.columns.keys import number_rows
from mtlmon.tables.columns.letters import LetterReader, Letters, environment_of
from mtlmon.tables.columns.times import Times
from mtlmon.tables.columns.usable import RowCheck, SortedBlock, UsableRows, with_places
from mtlmon.tables.columns.wanted import Selection
from mtlmon.tables.formats.binary import BinaryReader
from mtlmon.tables.formats.blocks import BadRow, Block
from mtlmon.tables.formats.delimited import DELIMITERS, DelimitedReader
from mtlmon.tables.formats.files import (
    ByteStream,
    TableFile,
    TableObject,
    file_size,
    table_sources,
)
from mtlmon.tables.formats.json_lines import JsonLinesReader
from mtlmon.tables.formats.line_patterns import LinePattern, LineReader, line_pattern
from mtlmon.tables.row_store import RowStore
from mtlmon.tables.sorting import DEFAULT_MEMORY, EventSorter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from mtlmon.arrays.native import EventColumns
    from mtlmon.policy import PolicyFile, Predicate
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.atoms import Computed, Values
    from mtlmon.support.option_names import OptionNames
    from mtlmon.tables.formats.files import Tables

_Item = TypeVar("_Item")

# The number of rows whose names are kept for messages about atoms that never occur.
_NAMED_ROWS = 1000


class EventBatch:
    """A batch of events, one for each usable row, in order.

    Attributes:
        events: the input for monitors, with the atoms in the requested order.
        numbers: for each event, the number of its key in `TableEvents.keys`; None without keys.
            With several partitions, these are the numbers of the first one.
        time_stamps: the time-stamps of the events.
        source: the name of the file, or None if the events have been sorted.
        rows: the numbers of the rows in the file, from 1; None if the events have been sorted.
        is_tail: whether this is the last row of a log without a line feed, which may still be
            incomplete.
        values: the values of the streams that `open_tables` was asked for, at the rows and at the
            ticks before them; None if it was not asked for any.
        tick_end: a time below which all ticks have come with this batch and those before it.
    """

    def __init__(
        self,
        letters: Letters,
        atoms: tuple[str, ...],
        time_stamps: NDArray[np.int64],
        numbers: Sequence[NDArray[np.uint32] | None],
        source: str | None,
        rows: NDArray[np.int64] | range | None,
        is_tail: bool = False,
        values: Values | None = None,
        tick_end: int = 0,
    ) -> None:
        self.tick_end = tick_end
        self.is_tail = is_tail
        self.values = values
        self._letters = letters
        self._atoms = atoms
        self.time_stamps = time_stamps
        self._numbers = tuple(numbers)
        self.source = source
        self.rows = rows
        self.events = letters.events(time_stamps, range(len(atoms)))

    def __len__(self) -> int:
        return len(self.time_stamps)

    @property
    def numbers(self) -> NDArray[np.uint32] | None:
        return self._numbers[0]

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        """Return the number of each event's trace in a partition; None if it has one trace."""
        return self._numbers[partition]

    def shown_of(self, partition: int) -> Mapping[str, pa.Array]:
        """Return the values to show in a partition, by their names in `PolicyFile.shown`."""
        return self._letters.shown[partition] if self._letters.shown else {}

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms of letters, in the order of their bits."""
        return self._atoms

    @property
    def first_row(self) -> int | None:
        """The number of the first row in the file, from 1; None if there is none."""
        return int(self.rows[0]) if self.rows is not None and len(self.rows) else None

    @property
    def letters(self) -> NDArray[np.uint64]:
        """The letters of the first partition."""
        return self.letters_of(0)

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        """Return the atoms of every event: one row of 64-bit words, whose bit i is atom i."""
        return self._letters.words(len(self), len(self._atoms), partition)

    def chosen(self, partition: int, clock: Clock) -> ChosenPoints:
        """Return the time-points of a clock in a partition."""
        ticks = None
        if isinstance(clock.period, int | tuple) and self._letters.of_ticks:
            ticks = self._letters.of_ticks[partition].get(clock.period)
        return chosen_points(self, self._atoms, partition, clock, ticks)

    def events_of(self, atoms: Sequence[str], partition: int = 0) -> EventColumns:
        """Return the events as input for a monitor that has only these atoms, in this order."""
        numbers = [self._atoms.index(name) for name in atoms]
        return self._letters.events(self.time_stamps, numbers, partition)


class TableEvents(BatchReader[EventBatch]):
    """Reads tables as batches of events; it can be iterated once.

    It is also a context manager, which closes the files at the end. Skipped events do not add their
    keys to `keys`; sorted events cannot be skipped.

    Attributes:
        sources: the files and objects that the events are read from.
        files: the sources that are files.
        partitions: the key columns of each partition; a partition without them is one trace.
        key_tables: for each partition, the numbers of its keys, or None without key columns.
        keys: the numbers of the keys, or None if there are no key columns. With several partitions,
            these are the keys of the first one.
        times: converts times to time-stamps, and time-stamps to texts.
        digest: set this before the first event to get a digest of all events that are read; sorted
            events have no digest.
        digests_shown: set this if the values that batches show are part of the digest.
        wait: set this before the first event to a function that blocks until there is something to
            read. It is called with a descriptor before every read from standard input or a pipe.
        rows: the number of rows that have been read.
        row_name: the word for a row in messages.
        size: the size of all files in bytes, or None if some source is not a regular file.
        schema: the columns of the first rows, or None before these.
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
        null_values: Sequence[str],
        on_error: Literal["stop", "skip"],
        sort_memory: int | None,
        memory: MemoryLimit | None,
        partitions: Sequence[tuple[str, ...]],
        environment: Environment,
        streams: StreamAtoms | None,
        conditions: Collection[str],
        pattern: LinePattern | None,
        typed: Callable[[pa.Schema], pa.Schema] | None,
    ) -> None:
        self.wait: Callable[[int], None] | None = None
        self.digest: EventDigest | None = None
        self.digests_shown = False
        batches = self._ordered()
        if sort_memory is not None:
            batches = self._sorted(sort_memory)
            if streams is not None:
                batches = self._sorted_with_streams(sort_memory, streams)
        super().__init__(batches)
        self.sources = tuple(sources)
        self.files = tuple(one for one in sources if isinstance(one, TableFile))
        self._atoms = tuple(atoms)
        self._selection = selection
        self._null_values = null_values
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
            sort_memory is None,
            typed,
        )
        self.partitions = tuple(partitions)
        self.key_tables = self._new_key_tables()
        self.keys = self.key_tables[0]
        self._is_sorted = sort_memory is not None
        self._has_processors = processor_count() > 1
        self.times = times
        self._memory = MemoryLimit() if memory is None else memory
        self.rows = 0
        self.schema: pa.Schema | None = None
        # A condition that is never true may be what one hopes for.
        self._unseen = set(atoms) - set(conditions) - set(computed)
        self._json_lines = JsonLinesReader(selection)
        self._pattern = pattern
        self._lines: LineReader | None = None
        self._separator = separator
        self._names: list[str] | None = None
        self._stream: ByteStream | None = None
        self._bytes_done = 0
        # runs the thread that reads ahead
        self._executor: ThreadPoolExecutor | None = None
        # runs the thread that prepares the next batch
        self._preparing: ThreadPoolExecutor | None = None
        self._following: Future[EventBatch | None] | None = None
        sizes = [file_size(one) if isinstance(one, TableFile) else None for one in sources]
        self.size = None if None in sizes else sum(size or 0 for size in sizes)

    def __enter__(self) -> TableEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files; no more batches come."""
        if self._preparing is not None:
            self._preparing.shutdown()
        self._batches.close()
        if self._executor is not None:
            self._executor.shutdown()

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
        if self.size is None or self.digest is not None or self.to_skip or not self._has_processors:
            return
        if self._preparing is None:
            self._preparing = ThreadPoolExecutor(1, "mtlmon-batches")
        for keys in self.key_tables:
            if keys is not None:
                keys.read_beside(True)
        self._following = self._preparing.submit(next, self._batches, None)

    @property
    def can_forget_keys(self) -> bool:
        """Whether future batches use the numbers that keys have by then, so that keys can go.

        Sorted rows get their numbers long before they come in a batch. With a digest, a later run
        computes streams again from the first row, with all keys.
        """
        return not self._is_sorted and (self._streams is None or self.digest is None)

    def only_due_ticks(self) -> None:
        """From the first batch on, leave out ticks at which no atom of their trace changes.

        The first tick of a trace is never left out.
        """
        if self._streams is not None:
            self._streams.only_due = True

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
    def skipped(self) -> int:
        """The number of rows that were not usable, if `on_error` is "skip"."""
        return self._check.skipped

    @property
    def points_left_out(self) -> int:
        """The number of time-points that were left out, as integers overflow there."""
        return 0 if self._streams is None else self._streams.points_left_out

    @property
    def waiting_rows(self) -> int:
        """The number of rows that wait for later values."""
        return 0 if self._streams is None else self._streams.waiting_rows

    @property
    def unmatched(self) -> int:
        """The number of lines that do not match the pattern, which are no rows."""
        return 0 if self._lines is None else self._lines.unmatched

    @property
    def errors(self) -> tuple[TableError, ...]:
        """The errors of the first rows that were skipped."""
        return tuple(self._check.errors)

    @property
    def clock(self) -> int | None:
        """The largest time-stamp of the events so far, or None before the first event."""
        return self._check.clock

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the files that have been read, before decompression."""
        stream = self._stream
        return self._bytes_done + (0 if stream is None else stream.bytes_read)

    @property
    def absent_columns(self) -> tuple[str, ...]:
        """Messages about columns that no row of JSON lines has had so far.

        If there are still such columns at the end, that is an error. A live log may never end, so
        the messages can be shown earlier.
        """
        return tuple(self._json_lines.absent("so far no row has a column"))

    @property
    def unseen_atoms(self) -> tuple[str, ...]:
        """The atoms that have not held at any event so far."""
        return tuple(name for name in self._atoms if name in self._unseen)

    @property
    def seen_names(self) -> list[str]:
        """The names in the first rows of a column of names, for hints about misspelt atoms."""
        return self._names or []

    def _blocks(self) -> Generator[Block | BadRow, None, None]:
        """Yield the rows of all sources, one source after the other."""
        delimited = DelimitedReader(self._selection, self._null_values, self._fits)
        json_lines = self._json_lines
        if self._pattern is not None:
            self._lines = LineReader(self._pattern, self._selection, delimited)
        binary = BinaryReader(self._selection)
        for place, file in enumerate(self.sources, 1):
            if isinstance(file, TableObject):
                yield from binary.object_blocks(file)
                continue
            with ByteStream(file, self.wait) as stream:
                self._stream = stream
                if file.format in DELIMITERS:
                    blocks = delimited.blocks(file, stream)
                elif self._lines is not None:
                    blocks = self._lines.blocks(file, stream)
                elif file.format == "jsonl":
                    blocks = json_lines.blocks(file, stream)
                else:
                    blocks = binary.blocks(file, stream)
                for block in blocks:
                    if place < len(self.sources) and isinstance(block, Block) and block.is_tail:
                        yield block._replace(is_tail=False)
                    else:
                        yield block
                stream.check_size()
                self._stream = None
                self._bytes_done += stream.size or 0
        json_lines.check_columns()
        if self._lines is not None:
            self._lines.check_matches()

    def _fits(self, schema: pa.Schema) -> bool:
        """Whether the predicates can use columns of these types."""
        try:
            compile_predicates(self._predicates, schema, self._environment)
        except PolicyError:
            return False
        return True

    def _usable(self) -> Generator[UsableRows, None, None]:
        """Yield the usable rows, and count the others or raise their errors."""
        blocks = self._blocks()
        if self.size is not None:
            if self._predicates or self._streams is not None:
                # Arrow imports pandas, if it is there, when it first converts a value of Python.
                # Of two threads that do so, one could see a module without content.
                pa.scalar(False)
            self._executor = ThreadPoolExecutor(1, "mtlmon-tables")
            blocks = _ahead(blocks, self._executor)
        with closing(blocks):
            for item in blocks:
                if isinstance(item, BadRow):
                    self.rows += 1
                    self._check.refuse(item)
                    continue
                # What streams hold is bounded only if the batches that they get are.
                most = item.batch.num_rows if self._streams is None else LARGEST_BATCH
                for block in item.parts(most):
                    self.rows += block.batch.num_rows
                    rows = self._check.usable(block)
                    if self.schema is None:
                        self.schema = rows.block.batch.schema
                    if len(rows.time_stamps):
                        yield rows
                    if rows.error is not None:
                        raise rows.error

    def _ordered(self) -> Generator[EventBatch | None, None, None]:
        """Yield the batches in the order of the rows, and None for each batch that is skipped."""
        with closing(self._usable()) as usable:
            for rows in usable:
                if self._unseen:
                    self._note_seen(rows)
                count = len(rows.time_stamps)
                skipped = min(count, self.to_skip)
                if self._streams is not None:
                    self._last_block = rows.block._replace(batch=rows.block.batch.slice(0, 0))
                    yield from self._with_streams(rows, self._streams)
                    continue
                if skipped:
                    if self.digest is not None:
                        # Of the keys, only the texts matter.
                        tables = self._new_key_tables()
                        self._add_to_digest(rows, tables, self._numbers(rows, tables))
                    self.to_skip -= skipped
                    yield None
                    if skipped == count:
                        continue
                    rows.drop(skipped)
                numbers = self._numbers(rows, self.key_tables)
                if not skipped:
                    self._add_to_digest(rows, self.key_tables, numbers)
                yield self._batch(rows, numbers)

    def _batch(self, rows: UsableRows, numbers: Sequence[NDArray[np.uint32] | None]) -> EventBatch:
        block = rows.block
        return EventBatch(
            rows.letters,
            self._atoms,
            rows.time_stamps,
            numbers,
            None if self._is_sorted else block.path,
            None if self._is_sorted else rows.numbers,
            block.is_tail,
            rows.values,
            rows.tick_end,
        )

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
            numbers = self._numbers(piece, self.key_tables)
            time_stamps = np.ascontiguousarray(piece.time_stamps)
            batch = streams.prepared(piece.batch, self._held(piece, streams))
            count = streams.piece(time_stamps, numbers)
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
                if self._check.has_left_out(piece, refused, self._key_of(refused)):
                    streams.leave_out(refused)
                pieces.append(piece)
            else:
                self._check.keep_errors()
                yield from self._computed(piece, streams, numbers, found)
                if piece.error is not None:
                    # the rows behind it no longer count
                    rows.error = piece.error
                    return

    def _key_of(self, refused: TickError) -> str:
        """The key of the trace that a tick belongs to, in words; empty if there is none."""
        keys = self.key_tables[refused.partition]
        if keys is None:
            return ""
        columns = self.partitions[refused.partition]
        cells = zip(columns, keys.key(refused.number), strict=True)
        return visible(", ".join(f"{name} {cell}" for name, cell in cells))

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
        self._memory.note("streams", streams.held_bytes)
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
                if not self._check.has_left_out(rows, refused, self._key_of(refused)):
                    assert rows.error is not None
                    raise rows.error from None
                streams.leave_out(refused)
            else:
                break
        self._check.keep_errors()
        self._set_computed(rows, found)
        self._memory.note("streams", streams.held_bytes)
        none = np.empty(0, np.uint32)
        numbers = [None if keys is None else none for keys in self.key_tables]
        yield None if self.to_skip else self._batch(rows, numbers)

    def ticks_until(self, limit: int) -> Generator[EventBatch, None, None]:
        """Yield batches without rows, with the ticks below a time that follow the last row.

        Raises:
            TableError: integers overflow at a tick.
        """
        if self._streams is None or self._last_block is None:
            return
        while self._streams.ticks_end < limit:
            some = partial(self._streams.some_ticks, limit)
            for batch in self._without_rows(self._last_block, self._streams, some):
                assert batch is not None
                yield batch

    @property
    def passed(self) -> int:
        """The time below which no row comes any more, if that is later than the last row."""
        return self._check.passed

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no row below a time comes any more; such rows are not usable."""
        self._check.passed = max(self._check.passed, time_stamp)

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

    def _set_computed(self, rows: UsableRows, found: Computed) -> None:
        rows.letters.of_traces = [
            {self._atoms.index(name): array for name, array in arrays.items()}
            for arrays in found.atoms
        ]
        rows.letters.of_ticks = found.ticks
        rows.letters.shown = found.shown
        rows.values = found.values
        rows.tick_end = found.ticks_done

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
        if self.digests_shown:
            for shown in rows.letters.shown:
                for name in sorted(shown):
                    columns += digest_columns(shown[name])
        self.digest.add(count, columns)

    def _sorted(self, memory: int) -> Generator[EventBatch | None, None, None]:
        """Yield the batches in the order of time; `memory` is the number of bytes for sorting."""
        letter_words = max(1, (len(self._atoms) + 63) // 64)
        with EventSorter(letter_words, memory, len(self.partitions)) as sorter:
            with closing(self._usable()) as usable:
                for rows in usable:
                    words = rows.letters.words(len(rows.time_stamps), len(self._atoms))
                    if self._unseen:
                        self._note_seen(rows)
                    sorter.add(rows.time_stamps, self._numbers(rows, self.key_tables), words)
                    self._memory.note("sorting", sorter.held_bytes)
                    # No other code checks the limit before the last row is read.
                    self._memory.check()
            for records in sorter.sorted():
                numbers = [
                    None if table is None else np.ascontiguousarray(records["numbers"][:, place])
                    for place, table in enumerate(self.key_tables)
                ]
                time_stamps = np.ascontiguousarray(records["time_stamp"])
                letters = Letters(records["words"], {})
                self._memory.note("sorting", sorter.held_bytes)
                yield EventBatch(letters, self._atoms, time_stamps, numbers, None, None)

    def _sorted_with_streams(
        self, memory: int, streams: StreamAtoms
    ) -> Generator[EventBatch | None, None, None]:
        """Sort the rows themselves, and compute then what depends on other rows."""
        with closing(RowStore(memory // 2)) as store, EventSorter(1, memory // 2, 0) as sorter:
            with closing(self._usable()) as usable:
                for rows in usable:
                    if self._unseen:
                        self._note_seen(rows)
                    count = len(rows.time_stamps)
                    words = np.arange(store.count, store.count + count, dtype=np.uint64)
                    sorter.add(rows.time_stamps, [], words[:, np.newaxis])
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
                yield from self._with_streams(rows, streams)
                if rows.error is not None:
                    raise rows.error

    def _new_key_tables(self) -> tuple[KeyTable | None, ...]:
        """Return an empty table for each partition that has keys."""
        return tuple(KeyTable(len(columns)) if columns else None for columns in self.partitions)

    def _numbers(
        self, rows: UsableRows, tables: Sequence[KeyTable | None]
    ) -> list[NDArray[np.uint32] | None]:
        """Return the numbers of each row's keys by partition, and add new keys to the tables.

        Raises:
            TableError: a key cannot be written as text.
        """
        numbers: list[NDArray[np.uint32] | None] = []
        for names, keys in zip(self.partitions, tables, strict=True):
            if keys is None:
                numbers.append(None)
                continue
            columns = [self._selection.cells(rows.batch, name) for name in names]
            try:
                numbers.append(number_rows(keys, columns))
            except pa.ArrowException as error:
                reason = " ".join(str(error).split())
                raise TableError(
                    f"cannot write the key of {listed(names)} as text: {reason}; convert it to "
                    "text first",
                    path=rows.block.path,
                ) from None
        held = sum(keys.held_bytes for keys in tables if keys is not None)
        self._memory.note("keys", held)
        return numbers

    def _note_seen(self, rows: UsableRows) -> None:
        """Remove the atoms that hold in some row from the unseen ones; keep names for hints."""
        if self._names is None and self._selection.event is not None:
            cells = self._selection.cells(rows.batch, self._selection.event)
            names: dict[str, None] = {}
            for cell in cells.slice(0, _NAMED_ROWS).to_pylist():
                parts = cell.split(self._separator) if isinstance(cell, str) else cell or ()
                names.update(dict.fromkeys(str(part) for part in parts))
            self._names = list(names)
        letters = rows.letters
        found = None if letters.names is None else np.bitwise_or.reduce(letters.names, axis=0)
        for number, name in enumerate(self._atoms):
            array = letters.booleans.get(number)
            if (array is not None and array.true_count) or (
                found is not None and int(found[number // 64]) >> (number % 64) & 1
            ):
                self._unseen.discard(name)


def open_tables(
    tables: Tables | Sequence[Tables],
    atoms: Sequence[str],
    *,
    predicates: Mapping[str, Predicate] | None = None,
    policies: PolicyFile | None = None,
    atoms_of_partitions: Sequence[Mapping[When, Sequence[str]]] | None = None,
    streams: Sequence[str] = (),
    shown: Sequence[Mapping[When, Sequence[str]]] | None = None,
    format: str | None = None,
    pattern: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    resolution: str | None = None,
    event: str | None = None,
    event_separator: str = "|",
    key: str | Sequence[str] = (),
    partitions: Sequence[Sequence[str]] | None = None,
    null_values: Sequence[str] = ("",),
    on_error: Literal["stop", "skip"] = "stop",
    sort: bool = False,
    sort_memory: int | None = None,
    memory: MemoryLimit | None = None,
    option_names: OptionNames = PYTHON,
) -> TableEvents:
    """Read tables as events, in batches.

    Each row is an event. By default, an atom holds if the Boolean column of the same name is true;
    with `event`, it holds if this column lists its name. An atom of `predicates` holds if its
    predicate is true. Null counts as false. Files are read one after the other. Each file must have
    all columns that are used, in any order. At most a few megabytes of a file are in memory at a
    time, and each row of standard input or a pipe is available as soon as it is read.

    Args:
        tables: files, patterns, directories and `-` for standard input, as for `table_files`; or an
            object with `__arrow_c_stream__`, such as a pyarrow table, a reader of record batches,
            or a data frame of pandas (from 2.2 on) or polars; or several of these.
        atoms: the atoms of the formula, in the order that monitors use.
        predicates: the predicates by the name of the atom that each defines, as in
            `PolicyFile.predicates`.
        policies: instead of `predicates`, the policy file that defines atoms. Only then can they
            depend on other rows.
        atoms_of_partitions: with `policies`, the atoms that are needed for each of the partitions:
            at rows under 0, and at the ticks of a period under the period; by default, all at rows.
        streams: with `policies`, the streams whose values batches have, as `EventBatch.values`. The
            traces are those of the first partition.
        shown: with `policies`, the names in `PolicyFile.shown` of the expressions whose values
            batches have for each partition, as `EventBatch.shown_of`: at rows under 0, and at
            ticks under their period.
        format: "csv", "tsv", "jsonl", "arrow" or "parquet", instead of the format that the names
            imply. Compression (gzip, zstd, bz2) is recognised from the content.
        pattern: instead of a format, a regular expression for the lines of text files, of which
            the named groups are the columns: `(?P<user>\\S+) logged in`. It may match anywhere in
            a line. Lines that do not match are no rows. The names in
            `mtlmon.tables.formats.ready_patterns` stand for patterns for well-known logs, with
            their columns and formats of times: "combined" (nginx, Apache), "nginx_error", "syslog",
            "rfc3164:2024" (syslog without a year, here of a log of 2024), "sshd". The columns of
            "logfmt" are the names of pairs: level=info user="ann lee".
        time: the column of times; the default is `ts`.
        time_unit: as for `Times`.
        time_format: as for `Times`.
        resolution: as for `Times`.
        event: the column with the names of events: lists of texts, or texts in which
            `event_separator` separates the names.
        key: one or more columns; rows with equal values in these columns form a separate stream.
        partitions: instead of `key`, the key columns of each of several partitions into streams; no
            columns stand for a single stream.
        null_values: for CSV, the texts that mean null in cells without quotes.
        on_error: what to do with rows that have no time or key, or whose cells cannot be read:
            "stop" raises an error after the events before them, "skip" counts them.
        sort: whether to sort the rows by time first, keeping the order of rows with equal times.
        sort_memory: how many bytes of memory sorting may use, approximately; the rest goes to
            temporary files. The default is 256 MiB, or a quarter of `memory` if that is less.
        memory: the memory limit of the run, which also counts the memory for keys and sorting.
        option_names: how messages write the options that they recommend.

    Raises:
        MtlmonError: the arguments are contradictory or unknown.
        OSError: a file cannot be opened.

    Iterating raises:
        TableError: a file is not in its format, a column is missing or has the wrong type, or a row
            is not usable.
        PolicyError: a predicate does not fit the types of its columns.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     with open(f"{directory}/log.csv", "w") as file:
    ...         _ = file.write("ts,user,what\\n1,ann,login\\n2,bob,login|admin\\n9,ann,logout\\n")
    ...     atoms = ("login", "logout")
    ...     tables = open_tables(f"{directory}/log.csv", atoms, event="what", key="user")
    ...     for batch in tables:
    ...         print(batch.time_stamps.tolist(), batch.numbers.tolist())
    [1, 2, 9] [0, 1, 0]
    >>> [tables.keys.key(number) for number in range(len(tables.keys))]
    [('ann',), ('bob',)]
    """
    if on_error not in ("stop", "skip"):
        raise MtlmonError(f"on_error must be 'stop' or 'skip', not {on_error!r}")
    if not event_separator:
        raise MtlmonError("the separator of event names is empty: it needs at least one character")
    lines = None
    if pattern is not None:
        if format not in (None, LINES):
            raise MtlmonError(f"a pattern is for lines of text, not for {format}: give one of both")
        lines, format = line_pattern(pattern), LINES
        time = time or lines.time
        time_format = time_format or lines.time_format
    atoms = list(atoms)
    if partitions is None:
        partitions = [(key,) if isinstance(key, str) else key]
    for columns in map(list, partitions):
        for name in columns:
            if columns.count(name) > 1:
                raise MtlmonError(f"the key column {name!r} is given twice: name each column once")
    keys = list(dict.fromkeys(name for columns in partitions for name in columns))
    predicates = dict(predicates or {})
    used = [column for name in atoms if name in predicates for column in predicates[name].columns]
    defined = set(predicates)
    needs = None
    if policies is not None:
        at_ticks = [
            name
            for some in atoms_of_partitions or ()
            for period, names in some.items()
            for name in names
            if period
        ]
        every_shown = [name for some in shown or () for names in some.values() for name in names]
        needs = needs_of(policies, [*atoms, *at_ticks], [*streams, *every_shown])
        used = list(needs.columns)
        defined = set(policies.atoms)
        atoms += [name for name in needs.log_atoms if name not in atoms]
        predicates = {
            name: policies.atoms[name]
            for name in atoms
            if name in defined and name not in needs.remembering
        }
    booleans = () if event is not None else [name for name in atoms if name not in defined]
    hints = None if policies is None else meant_equivalences(policies)
    selection = Selection(time, event, keys, booleans, used, option_names, hints)
    times = Times(time_unit, time_format, resolution)
    environment = environment_of(selection, times, None if policies is None else policies.zone)
    stream_atoms = None
    has_ticks = any(period for some in atoms_of_partitions or () for period in some)
    has_shown = any(names for some in shown or () for names in some.values())
    if policies is not None and needs and (needs.remembering or streams or has_ticks or has_shown):
        wanted = [
            {
                period: [name for name in names if period or name in needs.remembering]
                for period, names in some.items()
            }
            for some in atoms_of_partitions or [{0: atoms}] * len(partitions)
        ]
        stream_atoms = StreamAtoms(policies, wanted, needs.log_atoms, environment, streams, shown)
    return TableEvents(
        table_sources(tables, format, option_names),
        atoms,
        predicates,
        selection,
        times,
        event_separator,
        null_values,
        on_error,
        (sort_memory or _sort_memory(memory)) if sort else None,
        memory,
        [tuple(columns) for columns in partitions],
        environment,
        stream_atoms,
        () if policies is None else policies.conditions,
        lines,
        None if policies is None else partial(with_times, policies, environment),
    )


def _sort_memory(memory: MemoryLimit | None) -> int:
    """Return how many bytes sorting may use by default."""
    if memory is None or memory.limit is None:
        return DEFAULT_MEMORY
    return min(DEFAULT_MEMORY, memory.limit // 4)


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
