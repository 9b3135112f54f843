"""Read text logs as batches of events."""

from __future__ import annotations

import os
import stat
from functools import cached_property

from mtlmon.arrays.native import EventColumns, letters_as_bitmaps
from mtlmon.checking.row_files import RowFile
from mtlmon.checking.sources import (
    PAUSE,
    BatchReader,
    LogPlaces,
    Origins,
    Pause,
    ReaderPlace,
)
from mtlmon.drive.native import TextEvents
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import EventError
from mtlmon.support.lean_typing import cast
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.text.head import HEAD_BYTES, LogHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.checking.counted_lines import CountedLines
    from mtlmon.checking.event_digest import DigestPair, EventDigest
    from mtlmon.checking.text_streams import TextStreams
    from mtlmon.checking.time_points import ChosenPoints
    from mtlmon.history.operations import Corrections
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.predicates.time_points import Waiting, When
    from mtlmon.streams.atoms import TickAtoms, Values
    from mtlmon.support.inputs import FollowedFile, Input
    from mtlmon.tables.columns.times import Times
    from mtlmon.text.given import GivenText
    from mtlmon.text.native import LineOrder

    class OpenFile(Protocol):
        """A file that is open for reading."""

        @property
        def descriptor(self) -> int:
            """Its descriptor."""

        @property
        def name(self) -> str:
            """Its name in messages."""

        @property
        def given(self) -> GivenText | None:
            """The text that a program gives as it comes, in place of what is in the file."""

        @property
        def input(self) -> Input | None:
            """The input that this is; None if it is a file of the run's own."""

        @property
        def followed(self) -> FollowedFile | None:
            """The file that is followed, if the bytes are its lines."""

        @property
        def has_begun(self) -> bool:
            """Whether bytes have been looked at, and not been read."""

        def read_ready(self, block: memoryview, /) -> int:
            """Read bytes, beginning with what has been looked at; return their number."""

        def close(self) -> None:
            """Close it."""

    class LineEvents(Protocol):
        """What reads the events of lines, whose rows are elsewhere; see `RowEvents`."""

        @property
        def atoms(self) -> tuple[str, ...]:
            """The atoms of letters, in the order of their bits."""

        @property
        def rows(self) -> Any:
            """What reads the rows, with its place in the log."""

        @property
        def scanner(self) -> Any:
            """What knows what was read."""

        @property
        def last_time_stamp(self) -> int | None: ...
        @property
        def held_bytes(self) -> int: ...
        @property
        def lines(self) -> bytes: ...
        def number_lines(self) -> None: ...
        def load(self, block: memoryview) -> None: ...
        def load_end(self) -> None: ...
        def read(self) -> tuple[bytes, bytes]: ...
        def snapshot(self) -> bytes: ...
        def restore(self, snapshot: bytes, /) -> None: ...

    class Order(Protocol):
        """What puts the lines of a log into the order of time."""

        lines: LineOrder

        @property
        def refused(self) -> int:
            """The number of lines that came too late."""

        def push(self, block: memoryview) -> None:
            """Take a block of the log."""

        def finish(self) -> None:
            """End the log: nothing waits any more."""


__all__ = ["TextLog", "line_origins", "order_as_bytes", "restore_order"]

# PERF: with more atoms, most are rare, and bitmaps let policies pass events without their atoms;
# with 8 that are frequent, two policies take 5 % more time with bitmaps.
MOST_IN_MASKS = 16

# A line has at least three bytes, so streams get no more than 2^16 events at a time.
_BLOCK_BYTES = 3 << 16
# PERF: with many atoms there are many policies, each of which finds its tables out of the caches in
# its turn: 1,000 policies take 0.75 of the time that they do with the blocks above.
_LONG_BLOCK_BYTES = 4 * _BLOCK_BYTES


class TextBatch:
    """A batch of events of a text log.

    Args:
        times: the time-stamps, 64 bits each.
        masks: the letters, in words of 64 bits.
        atoms: the names of the atoms, in the order of the bits of a letter.
        shown: the values to show with violations, by name; None if there are none.

    Attributes:
        time_stamps: the time-stamps of the events.
        is_tail: whether this is a last line without a line feed, which may still be incomplete.
        ticks: the ticks of each period that come before these events, with the atoms there.
        values: the values of streams, at these events and at the ticks before them; None if they
            are not computed.
        origins: the lines of the events, if they are wanted.
        instances: how many instances of streams were alive at once.
    """

    is_tail = False
    origins: Origins | None = None
    corrections: Corrections | None = None
    instances: Sequence[Mapping[str, int]] = ()

    def __init__(
        self,
        times: bytes | memoryview,
        masks: bytes | memoryview,
        atoms: Sequence[str],
        shown: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self._shown = shown or {}
        self.time_stamps = memoryview(times).cast("B").cast("q")
        self._masks = memoryview(masks).cast("B").cast("Q")
        self._words = max(1, (len(atoms) + 63) // 64)
        self._atoms = tuple(atoms)
        self.ticks: Mapping[When, TickAtoms] = {}
        self.values: Values | None = None
        self.tick_end = 0
        self.has_all_ticks = False

    @property
    def atoms(self) -> tuple[str, ...]:
        """The names of the atoms, in the order of the bits of a letter."""
        return self._atoms

    @property
    def columns(self) -> tuple[memoryview, memoryview]:
        """The data of the events that goes into their digest."""
        if self.corrections is None or self.corrections.counted is None:
            return self.time_stamps, self._masks
        from hashlib import blake2b

        # a line that counts others is not one of its time: all that it says is in 64 bits
        said = [*self.time_stamps, *self.corrections.counted.ravel().tolist()]
        return memoryview(blake2b(repr(said).encode(), digest_size=8).digest()), self._masks

    def numbers_of(self, partition: int) -> None:
        """Return None, as there is one trace."""

    def before(self, count: int) -> TextBatch:
        """Return the first `count` events."""
        masks = self._masks[: count * self._words]
        shown = {name: array.slice(0, count) for name, array in self._shown.items()}
        batch = TextBatch(self.time_stamps[:count], masks, self._atoms, shown)
        if self.origins is not None:
            batch.origins = self.origins._replace(rows=self.origins.rows[:count])
        return batch

    def behind(self, count: int) -> TextBatch:
        """Return the events after the first `count` ones; at least one event must be left."""
        masks = self._masks[count * self._words :]
        shown = {name: array.slice(count) for name, array in self._shown.items()}
        batch = TextBatch(self.time_stamps[count:], masks, self._atoms, shown)
        batch.ticks = {period: one.behind(count) for period, one in self.ticks.items()}
        batch.tick_end = self.tick_end
        batch.has_all_ticks = self.has_all_ticks
        if self.origins is not None:
            batch.origins = self.origins._replace(rows=self.origins.rows[count:])
        return batch

    def chosen_events(self, is_chosen: NDArray[np.bool_]) -> TextBatch:
        """Return some of the events."""
        import numpy as np

        times = np.frombuffer(self.time_stamps, np.int64)[is_chosen]
        masks = self.letters_of(0)[is_chosen]
        batch = TextBatch(times.tobytes(), masks.tobytes(), self._atoms)
        if self.origins is not None:
            batch.origins = self.origins._replace(rows=self.origins.rows[is_chosen])
        return batch

    def chosen(self, partition: int, clock: Clock) -> ChosenPoints:
        """Return the time-points of a clock."""
        from mtlmon.checking.time_points import chosen_points

        # a period is in units of time here
        ticks = None if clock.period is None else self.ticks.get(cast("When", clock.period))
        return chosen_points(self, self._atoms, partition, clock, ticks)

    def shown_of(self, partition: int) -> Mapping[str, pa.Array]:
        """Return the values to show at rows, by their names in `PolicyFile.shown`."""
        return self._shown

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        """Return the atoms of every event: one row of 64-bit words, whose bit i is atom i."""
        import numpy as np

        return np.frombuffer(self._masks, np.uint64).reshape(-1, self._words)

    def events_of(self, atoms: Sequence[str], partition: int = 0) -> EventColumns:
        """Return the events as input for a monitor with these atoms."""
        events = EventColumns(self.time_stamps, len(self.time_stamps))
        if tuple(atoms) == tuple(self._atoms):
            for word in range(self._words if atoms else 0):
                events.add_letters(len(atoms), self._column(word), word)
            return events
        for place, name in enumerate(atoms):
            if len(self._atoms) > MOST_IN_MASKS:
                events.add_bitmap(place, self._bitmaps[name], 0)
            else:
                number = self._atoms.index(name)
                events.add_bit_of_masks(place, self._column(number // 64), number % 64)
        return events

    @cached_property
    def _bitmaps(self) -> dict[str, memoryview]:
        """By the name of an atom, at which events it holds."""
        count = len(self.time_stamps)
        bitmaps = letters_as_bitmaps(self._masks, count, self._words, len(self._atoms))
        return dict(zip(self._atoms, bitmaps, strict=True))

    def _column(self, word: int) -> memoryview:
        """Return one word of every letter."""
        return self._masks[word :: self._words]


class TextLog(BatchReader[TextBatch]):
    """Reads a text log, which is one trace, as batches of events; it can be iterated once.

    From a pipe or a terminal, a batch has the events that are available.

    Args:
        file: the open file, which `close` closes.
        atoms: the atoms that lines name.
        skip_errors: whether to skip lines that cannot be read.
        memory: the memory limit of the run, which also counts the memory of this object.
        streams: computes the other atoms of all policies, or None if there are none.
        events: what reads the lines; by default, a `TextEvents`.
        order: what puts the lines into the order of time first; None if they are in order.
        in_any_order: whether batches have the events as they come, although their times may
            decrease. Whoever checks them counts those that come too late, by `refuse`.

    Attributes:
        name: the name of the log in messages.
        times: None, as time-stamps have no other notation in a text log.
        rows: the number of events that have been read.
        row_name: what a row of the log is called, for messages.
        bytes_read: the number of bytes of the log that have been read.
        passed: the time below which no event comes any more, if that is later than the last one.
        is_regular: whether the log is a regular file, whose bytes all exist already.
        size: for a regular file, the bytes that were left to read at the beginning; else None.
        start: where the log begins in its file; None if another reader cannot go on within it: it
            has no such file, its lines are put in order, or streams depend on earlier lines.
        places: set this before the first event to note places where another reader can go on.
        digest: set this before the first event to get a digest of all events that are read.
        wait: set this to a function that blocks until there is something to read. It is called with
            the descriptor before every read, except from a regular file.
        note_block: set this to a function that gets each block of the log as it is read.
        marks_end: set this to get a batch without events before a last line without a line feed is
            read; it says that it is the tail of the log.
    """

    key_tables = (None,)
    can_forget_keys = False
    row_name = "line"
    times: Times | None = None

    def __init__(
        self,
        file: OpenFile,
        atoms: Sequence[str],
        *,
        skip_errors: bool = False,
        memory: MemoryLimit | None = None,
        streams: TextStreams | None = None,
        events: LineEvents | None = None,
        order: Order | None = None,
        in_any_order: bool = False,
    ) -> None:
        super().__init__(self._read())
        self._streams = streams
        self._file = file
        self.name = file.name
        self._atoms = tuple(atoms)
        self._events: TextEvents | LineEvents
        if events is None:
            self._events = TextEvents(self._atoms, path=self.name, skip_errors=skip_errors)
        else:
            self._events = events
        self._order = order
        self._number_by_order(self._events)
        self._in_any_order = in_any_order
        self._cuts = False
        # finds lines that count others, which only they do that remember late ones
        self._counts: CountedLines | None = None
        # the counts of the lines that are loaded
        self._corrections: Corrections | None = None
        # the lines that were read last
        self._last: TextBatch | None = None
        if in_any_order:
            # PERF: few logs have late lines
            from mtlmon.checking.counted_lines import CountedLines

            self._counts = CountedLines()
            own = self._events
            scanner = own.scanner if isinstance(own, TextEvents) else own.rows.lines
            scanner.takes_late = True
        self._refused = self._rejected = 0
        self._skips_errors = skip_errors
        self._latest = 0
        self._memory = MemoryLimit() if memory is None else memory
        self.rows = 0
        self.bytes_read = 0
        self.digest: EventDigest | DigestPair | None = None
        self.wait: Callable[[int], None] | None = None
        self.note_block: Callable[[memoryview], None] | None = None
        self.marks_end = False
        self.tracks_rows = False
        self._unordered: memoryview | None = None
        self._clock: int | None = None
        self.passed = 0
        self._head = LogHead(self.name, self._atoms)
        status = os.fstat(self.descriptor)
        self.is_regular = stat.S_ISREG(status.st_mode)
        self.size: int | None = None
        self.start: int | None = None
        self.places: LogPlaces | None = None
        if self.is_regular:
            start = os.lseek(self.descriptor, 0, os.SEEK_CUR)
            self.size = max(0, status.st_size - start)
            if order is None and streams is None:
                self.start = start
        elif order is None and streams is None and self.followed is not None:
            self.start = 0

    @property
    def has_streams(self) -> bool:
        """Whether streams depend on earlier lines."""
        return self._streams is not None

    @property
    def descriptor(self) -> int:
        """The descriptor of the file."""
        return self._file.descriptor

    @property
    def followed(self) -> FollowedFile | None:
        """The file that is followed, if the log is its lines."""
        return self._file.followed

    def only_due_ticks(self, is_wanted: bool = True) -> None:
        """From the first batch on, leave out ticks at which no atom changes, or not."""
        if self._streams is not None:
            self._streams.only_due_ticks(is_wanted)

    def track_rows(self) -> None:
        """From the first batch on, tell the lines of events."""
        self._events.number_lines()
        self.tracks_rows = True
        if self._streams is not None:
            self._streams.track_rows()

    def cut_batches(self) -> None:
        """From the first batch on, end batches behind each line."""
        self._cuts = True

    def settled_traces(self, partition: int, count: int) -> bytes | None:
        """Return None: the only trace is never forgotten."""
        return None

    def keep_traces(self, partition: int, numbers: bytes) -> None:
        """Do nothing: there is one trace."""

    @property
    def clock(self) -> int | None:
        """The largest time-stamp so far, or None before the first event."""
        return self._clock

    @property
    def skipped(self) -> int:
        """The number of lines that cannot be read, overflow integers, or contradict counts."""
        computed = 0 if self._streams is None else self._streams.skipped
        return self._events.scanner.skipped_count + computed + self._rejected

    @property
    def order(self) -> Order | None:
        """What puts the lines into the order of time; None if they are in order."""
        return self._order

    @property
    def refused(self) -> int:
        """The number of lines that came too late."""
        return self._refused if self._order is None else self._order.refused

    def refuse(self, places: NDArray[np.int64], reason: str) -> None:
        """Count events that come too late; the arguments are as for tables."""
        self._refused += len(places)

    def reject(self, place: int, reason: str) -> None:
        """Refuse an event that contradicts a count; the arguments are as for tables.

        Raises:
            EventError: lines that cannot be used are not skipped.
        """
        if not self._skips_errors:
            assert self._last is not None
            stamp = self._last.time_stamps[place]
            raise EventError(f"{self.name}: the line of time-stamp {stamp} {reason}")
        self._rejected += 1

    @property
    def points_left_out(self) -> int:
        """The number of time-points that were left out, as integers overflow there."""
        return 0 if self._streams is None else self._streams.points_left_out

    def earliest_waiting(self, partition: int, clock: Clock) -> tuple[int, int] | None:
        """Return time and trace of the earliest line that waits, as `EventSource` says."""
        if self._streams is None:
            return None
        return self._streams.atoms.earliest_waiting(partition, cast("Waiting", clock.period))

    @property
    def waiting_rows(self) -> int:
        """The number of events that wait for later values."""
        return 0 if self._streams is None else self._streams.waiting_rows

    @property
    def unseen_atoms(self) -> tuple[str, ...]:
        """The atoms that have not occurred so far."""
        return self._events.scanner.absent

    @property
    def seen_names(self) -> list[str]:
        """The names of atoms in the first lines, including atoms that no policy has."""
        return self._head.names()

    def _read(self) -> Generator[TextBatch | Pause | None, None, None]:
        """Yield the batches, and None for each batch that is skipped.

        Raises:
            LogError: a line cannot be read; earlier batches have all events before it.
            OSError: the file cannot be read.
        """
        is_long = self._streams is None and len(self._atoms) > MOST_IN_MASKS
        block = memoryview(bytearray(_LONG_BLOCK_BYTES if is_long else _BLOCK_BYTES))
        while (count := self._read_into(block)) or self._waits:
            if count:
                yield from self._batches_of(block[:count])
            else:
                yield PAUSE
        if self.marks_end:
            end = TextBatch(b"", b"", self._atoms)
            end.is_tail = True
            yield end
        if self._order is not None:
            self._order.finish()
            while count := self._order.lines.take_into(block):
                yield from _tails(self._batches_of(block[:count]))
        if self._counts is not None:
            for part in self._counts.rest():
                yield from _tails(self._loaded_parts(*part))
        self._events.load_end()
        yield from _tails(self._loaded())

    def _batches_of(self, block: memoryview) -> Iterator[TextBatch | None]:
        """Yield the batches of a block of the log."""
        self.bytes_read += len(block)
        self._head.add(block)
        if self.note_block is not None:
            self.note_block(block)
        for part in _lines(block) if self._cuts else (block,):
            if self._counts is None:
                self._events.load(part)
                yield from self._loaded()
                continue
            for piece in self._counts.parts(part):
                yield from self._loaded_parts(*piece)
        self._memory.note("buffers", self._events.held_bytes)

    def _loaded_parts(
        self, part: memoryview, corrections: Corrections | None
    ) -> Iterator[TextBatch | None]:
        """Yield the batches of lines, which may count others."""
        self._corrections = corrections
        self._events.load(part)
        yield from self._loaded()
        self._corrections = None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def skip_bytes(
        self,
        count: int,
        rows: int,
        clock: int | None,
        events: LineEvents | None = None,
    ) -> Iterator[None]:
        """Read the first bytes without looking at them; call this before iterating.

        This yields now and then, and ends early if the log is shorter.

        Args:
            count: the number of bytes.
            rows: the number of events that they have.
            clock: the largest time-stamp of these; None if there are none.
            events: what reads these events once more for the streams; None if there are no streams.

        Raises:
            LogError: a line cannot be read again.
        """
        own = self._events
        if events is not None:
            self._events = events
            self._number_by_order(events)
        block = memoryview(bytearray(_BLOCK_BYTES))
        while self.bytes_read < count:
            size = self._read_into(block[: count - self.bytes_read])
            if not size:
                return
            self.bytes_read += size
            self._head.add(block[:size])
            if self.note_block is not None:
                self.note_block(block[:size])
            if self._counts is not None:
                for part, corrections in self._counts.parts(block[:size]):
                    if events is not None:
                        for _ in self._loaded_parts(part, corrections):
                            yield
            elif events is not None:
                events.load(block[:size])
                for _ in self._loaded():
                    yield
            yield
        self._events = own
        self.rows, self._clock = rows, clock
        self._latest = clock or 0

    def resume_at(self, place: ReaderPlace) -> None:
        """Go on where another reader has noted a place; call this before iterating.

        The file is read from there on already.

        Raises:
            SnapshotError: the reader has skipped lines, and this one does not.
        """
        import json

        clock, latest, events = json.loads(place.state)
        assert isinstance(self._events, TextEvents)
        self._events.restore(bytes.fromhex(events))
        self._latest = latest
        self.resume_behind(place.size, place.events, clock)

    def given_state(self) -> bytes:
        """Return what is known by the lines so far, for `restore_given`.

        Lines that wait are part of it.
        """
        events = self._events
        if isinstance(events, TextEvents):
            own = events.snapshot()
        else:
            # lines are complete; in logs of MonPoly, a time-point may have several
            own = getattr(events.rows, "unfinished", b"")
        streams = None if self._streams is None else self._streams.state()
        head = [
            self._clock,
            self._latest,
            self.rows,
            self.bytes_read,
            self._refused,
            self._rejected,
            self.passed,
        ]
        beginning, lines = self._head.kept()
        order = b"" if self._order is None else order_as_bytes(self._order.lines)
        import json

        known = json.dumps([*head, own.hex(), beginning.hex(), lines, streams]).encode()
        return joined_parts([known, order])

    def restore_given(self, state: bytes) -> None:
        """Go on from a state; nothing must have been read."""
        import json

        known, order = split_parts(state)
        *head, events, beginning, lines, streams = json.loads(known)
        self._clock, self._latest, self.rows, self.bytes_read, *counts, passed = head
        self._refused, self._rejected = counts
        if isinstance(self._events, TextEvents):
            self._events.restore(bytes.fromhex(events))
        elif events:
            self._events.rows.load_unfinished(bytes.fromhex(events))
        self._head.resume(bytes.fromhex(beginning), b"", lines)
        if self._streams is not None:
            self._streams.restore(streams)
        if self._order is not None:
            restore_order(self._order.lines, order)
        if passed:
            self.pass_time(passed)

    def resume_behind(self, size: int, rows: int, clock: int | None) -> None:
        """Go on behind the first bytes, as `skip_bytes` does, without reading them.

        What reads the lines and the file are there already.
        """
        assert self.start is not None
        own = self._events
        lines = own.scanner if isinstance(own, TextEvents) else own.rows.lines
        if (stream := self._file.input) is not None and stream.followed is not None:
            self._head.resume(stream.followed.head, b"\n", lines.line_count)
            stream.resume()
        else:
            begin = max(0, size - 4)
            self._head.resume(
                os.pread(self.descriptor, min(HEAD_BYTES, size), self.start),
                os.pread(self.descriptor, size - begin, self.start + begin),
                lines.line_count,
            )
        self.bytes_read = size
        self.rows, self._clock = rows, clock
        self._latest = clock or 0

    def _note_place(self) -> None:
        """Note where the next events begin."""
        assert isinstance(self._events, TextEvents)
        assert self.places is not None
        import json

        state = [self._clock, self._latest, self._events.snapshot().hex()]
        self.places.note(ReaderPlace(self.rows, self._events.position, json.dumps(state)))

    def _number_by_order(self, events: TextEvents | LineEvents) -> None:
        """Let errors have the numbers that lines had before they were put in order."""
        if self._order is not None:
            scanner = events.scanner if isinstance(events, TextEvents) else events.rows.lines
            scanner.order = self._order.lines

    @property
    def _waits(self) -> bool:
        """Whether text is given as it comes, and there is none at present."""
        return self._file.given is not None and self._file.given.waits

    def _read_into(self, block: memoryview) -> int:
        """Wait for bytes and read them; return their number, or 0 at the end of the log.

        It is also 0 while text that is given as it comes has not come yet.
        """
        order = self._order
        if order is None:
            self._wait_for_bytes()
            return self._read_ready_into(block)
        if self._unordered is None:
            self._unordered = memoryview(bytearray(_BLOCK_BYTES))
        while not (count := order.lines.take_into(block)):
            self._wait_for_bytes()
            if order.lines.is_ready:
                # Time has passed while nothing came.
                continue
            count = self._read_ready_into(self._unordered)
            if not count:
                break
            order.push(self._unordered[:count])
        return count

    def _wait_for_bytes(self) -> None:
        """Wait until there is something to read, as long as the owner of the log says so."""
        if self.wait is None or self.is_regular or self._file.given is not None:
            return
        if not self._file.has_begun:
            self.wait(self.descriptor)

    def _read_ready_into(self, block: memoryview) -> int:
        """Read bytes; return their number, or 0 at the end of the log."""
        if self._file.given is not None:
            return self._file.given.read_into(block) or 0
        while True:
            try:
                return self._file.read_ready(block)
            except BlockingIOError:
                import select

                poll = select.poll()
                poll.register(self.descriptor, select.POLLIN)
                poll.poll()

    def _loaded(self) -> Iterator[TextBatch | None]:
        """Yield the batches of the loaded text, and None for each batch that is skipped."""
        while True:
            if self.places is not None:
                self._note_place()
            times, masks = self._events.read()
            if not times:
                return
            batch = TextBatch(times, masks, self._atoms)
            if self.tracks_rows:
                batch.origins = self._origins()
            self._last = batch
            if (corrections := self._corrections) is not None:
                batch.corrections = corrections
            elif not self._in_any_order:
                self._clock = batch.time_stamps[-1]
            else:
                import numpy as np

                self._latest = max(self._latest, int(np.asarray(batch.time_stamps).max()))
                self._clock = self._latest
            if self._streams is None:
                yield from self._counted(batch)
                continue
            for piece in self._streams.pieces(batch):
                self._memory.note("streams", self._streams.held_bytes)
                yield from self._counted(piece)
            if self._streams.error is not None:
                raise self._streams.error

    def _origins(self) -> Origins:
        """Return the lines of the events that have been read last."""
        order = None if self._order is None else self._order.lines
        return line_origins(self.name, self._events.lines, order)

    def _counted(self, batch: TextBatch) -> Iterator[TextBatch | None]:
        """Yield a batch, preceded by None if its first events are skipped, or None alone."""
        count = len(batch.time_stamps)
        self.rows += count
        if self.digest is not None and count:
            self.digest.add(count, batch.columns)
        if self.to_skip:
            skipped = min(count, self.to_skip)
            self.to_skip -= skipped
            yield None
            if skipped == count:
                return
            batch = batch.behind(skipped)
        yield batch

    def ticks_until(self, limit: int) -> Iterator[TextBatch]:
        """Yield batches without events, with the ticks below a time that follow the last event.

        Raises:
            MtlmonError: integers overflow at a tick.
        """
        if self._streams is not None:
            yield from self._streams.ticks_until(limit)

    def next_change(self, start: int, limit: int) -> int | None:
        """Return when a relation changes first, as `EventSource` says."""
        return None if self._streams is None else self._streams.atoms.next_change(start, limit)

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no later event is below a time; call this after an event."""
        self.passed = time_stamp
        self._events.scanner.pass_time(time_stamp)

    @property
    def has_late_rows(self) -> bool:
        """Whether lines wait for others that come late."""
        return self._order is not None and self._order.lines.has_lines

    def release(self, time_stamp: int) -> bool:
        """Declare that lines below a time come too late; return whether others can be read now."""
        if self._order is None:
            return False
        self._order.lines.pass_time(time_stamp)
        return self._order.lines.is_ready

    @property
    def time_order(self) -> LineOrder | None:
        """What puts lines into the order of time; None if they are in order."""
        return None if self._order is None else self._order.lines

    def released(self) -> Iterator[TextBatch]:
        """Yield a batch without events, with those that wait for later values: none come.

        Raises:
            MtlmonError: integers overflow at one of them.
        """
        if self._streams is not None:
            yield from self._streams.released()


def _lines(block: memoryview) -> Iterator[memoryview]:
    """Yield the lines of a block, and what is behind the last one."""
    text, start = bytes(block), 0
    while end := text.find(b"\n", start) + 1:
        yield block[start:end]
        start = end
    yield block[start:]


def _tails(batches: Iterator[TextBatch | None]) -> Iterator[TextBatch | None]:
    """Mark batches as the tail of a log."""
    for batch in batches:
        if batch is not None:
            batch.is_tail = True
        yield batch


def order_as_bytes(order: LineOrder) -> bytes:
    """Return the lines that wait, and what is known by the others, for `restore_order`."""
    import json

    facts, runs, text = order.parts()
    return joined_parts([json.dumps([facts, runs]).encode(), text])


def restore_order(order: LineOrder, state: bytes) -> None:
    """Go on from what `order_as_bytes` has returned; nothing must have come."""
    import json

    known, text = split_parts(state)
    facts, runs = json.loads(known)
    order.restore(facts, runs, text)


def line_origins(name: str, lines: bytes, order: LineOrder | None = None) -> Origins:
    """Return the origins of events of a text log.

    Args:
        name: the name of the log in messages.
        lines: the numbers of the lines, of 64 bits.
        order: what has put the lines into the order of time; None if they are in order.
    """
    import numpy as np

    if order is not None:
        lines = order.lines_of(lines)
    return Origins([RowFile(name)], None, np.frombuffer(lines, np.int64))
