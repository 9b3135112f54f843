# cython: language_level=3
"""The loop from log lines to verdict lines: text in, text out.

scanner -> engine -> filter or resolver -> writer, without Python and without the GIL. The caller
reads and writes the files: it loads blocks, calls `run` until a block is used up, and flushes the
writer when it chooses to.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint64_t

from mtlmon.arrays.native cimport Block
from mtlmon.engine.native cimport (
    DIGEST_BYTES,
    EndTime,
    HELD_BUFFERS,
    HELD_EQUIVALENTS,
    HeldBytes,
    MemoryLimit,
    NO_LIMIT,
    NumberReader,
    NumberWriter,
    Session,
    VERDICT_FALSE,
    as_bytes,
    damaged,
    digest,
    nanoseconds,
    read_end_time,
)
from mtlmon.text.native cimport (
    SCAN_EMPTY,
    SCAN_ERROR,
    SCAN_FULL,
    Scanner,
    Writer,
    remember_time_stamp,
)

from mtlmon.text.native import VERDICT_FILTERS as _FILTERS
from mtlmon.errors import MtlmonError, SnapshotError

cdef enum:
    STEPS_PER_CLOCK = 16

_MAGIC = b"mtlmon text"
_VERSION = 3


@cython.final
cdef class TextMonitor:
    """Monitors a text log.

    monitor: a fresh monitor.
    path: the log's name in error messages.
    verdicts: which lines to write: "all", "boolean" or "false" (what the engine decided itself),
        "first" (the earliest false time-point, once nothing before it is open) or "none".
    resolve: write the Boolean value of every time-point instead of equivalences.
    skip_errors: pass over lines that cannot be read.
    label: what every line of verdicts begins with.
    format: the format of lines, as `Writer` takes it.
    memory: how much all of it may hold; the monitor then has no limit of its own.

    Attributes:
        memory: as given, or a counter without a limit.
        writer: holds the lines until they are flushed.
        is_stopped: nothing more will be written, so reading can stop.
    """

    def __cinit__(
        self,
        Session monitor not None,
        *,
        str path="<log>",
        str verdicts="all",
        bint resolve=False,
        bint skip_errors=False,
        bytes label not None=b"",
        str format not None="text",
        MemoryLimit memory=None,
    ):
        cdef Sink sink
        cdef bint wants_first = verdicts == "first"
        # "first" and "none" write nothing that depends on equivalences
        cdef bint resolves = resolve and verdicts not in ("first", "none")
        self.monitor = monitor
        self.scanner = Scanner(monitor.atoms, path=path, skip_errors=skip_errors)
        self.writer = Writer(label, format)
        if wants_first:
            sink = self.first = FirstLine(monitor, self.writer)
        else:
            sink = LineSink(self.writer)
        # "first" stops at the very event that settles it.
        self.loop = SessionLoop(
            monitor,
            Delivery(sink, _FILTERS["all" if wants_first else verdicts], resolves),
            is_by_event=wants_first,
        )
        # A signal handler cannot resolve verdicts, so none may wait while the engine works.
        monitor.table.pauses_for_verdicts = resolves
        self.status = SCAN_EMPTY
        self.loop.block.note(self.scanner, 0)
        self.memory = MemoryLimit() if memory is None else memory
        if self.memory.allowed != NO_LIMIT():
            monitor.set_limit(self.memory, 1)

    @property
    def is_stopped(self):
        return self.has_stopped()

    def load(self, block):
        """Load a block of bytes for `run`; the block must not change until it has been read."""
        self.load_ahead(block)
        self.has_batch = False
        self.status = SCAN_FULL

    def unload(self):
        """Release the block; nothing more can be read."""
        self.status = SCAN_EMPTY
        self.loop.block.clear()
        self.block = None
        self.has_batch = False
        self.batch = None

    def load_end(self):
        """End the log: `run` then reads a last line that has no line feed."""
        self.block = None
        self.has_batch = False
        self.has_end = True
        self.scanner.load_end()
        self.status = SCAN_FULL

    # Two threads can share the work. One of them calls `load_ahead` and `scan_ahead`, which alone
    # use the scanner, `block` and `loaded` meanwhile. The other one calls `take` and whatever else
    # there is, except `load` and `load_end`.

    def new_batch(self, size_t size):
        """Return a batch for `scan_ahead` that takes about so many bytes."""
        cdef ScannedBatch batch = ScannedBatch(self.loop.block, size)
        self.batch_bytes += batch.held_bytes()
        return batch

    def load_ahead(self, block):
        """Load a block of bytes for `scan_ahead`; it must not change until it has been scanned."""
        self.block = Block(block)
        self.loaded += self.block.size
        self.scanner.load(self.block.data, self.block.size)

    def scan_ahead(self, ScannedBatch batch not None):
        """Fill the batch with events of the loaded block; return whether there are more.

        An error ends the events. `run` raises it once those before it have been monitored.
        """
        with nogil:
            batch.scan(self.scanner, self.loaded)
        if batch.status == SCAN_ERROR:
            self.scanner.note_failure()
        return batch.status == SCAN_FULL

    def take(self, ScannedBatch batch not None):
        """Let `run` process the events of the batch, once those of the last one are processed."""
        if self.loop.block.next < self.loop.block.count:
            raise MtlmonError("events are left in the last batch: run first")
        self.loop.block.clear()
        self.batch = batch
        self.has_batch = True
        self.status = SCAN_FULL

    def run(self):
        """Process part of the loaded block; return whether there is more to do.

        Returns early when a block of output waits in the writer; continues once the caller has
        taken it.

        Raises:
            LogError: a line cannot be read. The verdicts of the lines before it are in the writer.
            LimitError: raised by the engine.
            MemoryLimitError: more memory is held than allowed. The verdicts of the events so far
                are in the writer.
        """
        cdef bint more
        self.monitor.enter()
        try:
            with nogil:
                more = self.work(True)
        finally:
            self.monitor.leave_unless_broken(True)
        return more

    def end(self, end_time=None):
        """End the log and declare what is known about the time after it; call `run` next.

        end_time: None (nothing), a time-stamp up to and including which the log is complete,
            "last" (the last time-stamp) or "inf" (no event ever follows).
        """
        cdef EndTime end = read_end_time(end_time)
        if self.has_stopped():
            return
        self.monitor.enter()
        try:
            self.loop.finish(&end, 0)
        finally:
            self.monitor.leave_unless_broken(True)

    def settle(self):
        """Monitor the events that are already scanned, and no others, to prepare for a snapshot.

        Like `run`, this may return early, and then returns True.
        """
        cdef bint more
        self.monitor.enter()
        try:
            with nogil:
                more = self.work(False)
        finally:
            self.monitor.leave_unless_broken(True)
        return more

    @property
    def is_settled(self):
        """Whether a snapshot can be made: no work is in progress, and the log's end is not loaded.

        Also False after `settle` if the next line cannot be read.
        """
        return (
            (self.loop.block.next == self.loop.block.count or self.has_stopped())
            and self.status != SCAN_ERROR
            and not self.has_end
            and self.is_drained()
        )

    @property
    def position(self):
        """How many bytes of the log, from its beginning, a snapshot covers, if one can be made.

        The position is at the end of a line, or inside a line that is skipped because of its
        length.
        """
        return self.loop.block.place.position

    def snapshot(self):
        """The state after the first `position` bytes of the log, as bytes for `restore`.

        The lines in the writer are not part of the snapshot: they belong before it.

        Raises:
            MtlmonError: the text monitor is not settled, or the monitor is broken.
        """
        cdef NumberWriter writer = NumberWriter()
        if not self.is_settled:
            raise MtlmonError("no snapshot between events that are scanned: settle first")
        writer.put(self.kind())
        writer.put_bytes(self.writer.label)
        writer.put(self.position)
        writer.put(self.has_stopped())
        writer.put(self.first is not None and self.first.has_candidate)
        if self.first is not None and self.first.has_candidate:
            writer.put(self.first.candidate.time_stamp)
            writer.put(self.first.candidate.offset)
        if self.loop.delivery.resolves:
            writer.put_bytes(self.loop.delivery.resolver.snapshot())
        writer.put(self.scanner.letter_words)
        put_place(
            writer, &self.loop.block.place, self.loop.block.occurrences, self.scanner.letter_words
        )
        writer.put_bytes(self.monitor.snapshot())
        body = writer.taken()
        return b"%b%c%b%b" % (_MAGIC, _VERSION, digest(body), body)

    def restore(self, snapshot):
        """Continue from the snapshot of another text monitor; this one must be new.

        The next block to load must be the log from `position` on.

        Raises:
            SnapshotError: the bytes are not a snapshot, or are damaged, or belong to another
                formula, mode, version or selection of verdicts. The text monitor must not be used
                after that.
            MtlmonError: a block was loaded before.
        """
        cdef NumberReader reader = NumberReader()
        if self.loaded or self.has_end:
            raise MtlmonError("a text monitor is restored before anything is loaded")
        reader.open(checked_body(as_bytes(snapshot)), 0)
        if reader.get(UINT64_MAX) != self.kind():
            raise SnapshotError("the snapshot is of another selection of verdicts")
        if reader.get_bytes() != self.writer.label:
            raise SnapshotError(
                "the snapshot is of a policy with another name or of verdicts in another format"
            )
        self.loaded = reader.get(INT64_MAX)
        self.read_first(reader)
        if self.loop.delivery.resolves:
            self.loop.delivery.resolver.restore(reader.get_bytes())
        if reader.get(UINT64_MAX) != self.scanner.letter_words:
            raise SnapshotError("the snapshot is of another formula or mode")
        read_scanner(reader, self.scanner)
        self.loop.block.note(self.scanner, self.loaded)
        self.monitor.restore(reader.get_bytes())
        reader.end()
        # The engine relies on the scanner to reject decreasing time-stamps.
        if self.monitor.state.clock > self.scanner.last.value:
            raise damaged()

    @property
    def skipped_count(self):
        """The lines that were skipped because they cannot be read."""
        return self.loop.block.place.skipped_count

    @property
    def event_count(self):
        return self.monitor.counters["events"]

    @property
    def true_count(self):
        """The time-points that were decided to be true, including equivalents."""
        return self.monitor.counters["true"]

    @property
    def false_count(self):
        """The time-points that were decided to be false, including equivalents."""
        return self.monitor.counters["false"]

    @property
    def undecided_count(self):
        return self.event_count - self.true_count - self.false_count

    @property
    def peak_pending(self):
        """The most undecided time-points that the engine held at once, without equivalents."""
        return self.monitor.counters["peak_pending"]

    @property
    def open_first(self):
        """(false time-point, earliest open one before it) if `first` could not be decided."""
        cdef uint64_t time_stamp, offset
        if self.first is None or self.has_stopped() or not self.first.has_candidate:
            return None
        self.monitor.earliest_pending(&time_stamp, &offset)
        return (
            (self.first.candidate.time_stamp, self.first.candidate.offset),
            (time_stamp, offset),
        )

    cdef bint has_stopped(self) noexcept nogil:
        return self.first is not None and self.first.is_decided

    cdef bint is_drained(self) noexcept:
        """Whether the resolver has no verdicts to be written."""
        cdef Resolver resolver = self.loop.delivery.resolver
        return resolver is None or resolver.outcome_index == resolver.outcome_count

    cdef int work(self, bint scans) except -1 nogil:
        """The loop; returns 1 if it stops before the block is used up, else 0.

        scans: whether to scan more of the block when no scanned events are left.
        """
        cdef int64_t deadline = nanoseconds() + RUN_NANOSECONDS
        cdef size_t steps = 0
        if not self.loop.delivery.drain():
            return 1
        while not self.has_stopped():
            if self.loop.block.next == self.loop.block.count:
                self.memory.hold_to(self)
                if self.status != SCAN_FULL or not scans:
                    if self.status == SCAN_ERROR and scans:
                        with gil:
                            raise self.scanner.failure
                    return 0
                if self.has_batch:
                    self.status = self.batch.take(self.loop.block)
                else:
                    self.status = self.loop.block.scan(self.scanner, self.loaded)
                if self.status == SCAN_ERROR:
                    with gil:
                        self.scanner.note_failure()
                continue
            self.loop.step(self.loop.block.count, 0)
            if self.loop.delivery.sink.is_full():
                return 1
            # PERF: reading the clock takes 20 ns, as long as many an event.
            steps += 1
            if (steps % STEPS_PER_CLOCK == 0 or not self.loop.is_by_event) and (
                nanoseconds() >= deadline
            ):
                return 1
        return 0

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        self.monitor.count_held(held)
        if self.loop.delivery.resolver is not None:
            held.of[HELD_EQUIVALENTS] += self.loop.delivery.resolver.held_bytes()
        held.of[HELD_BUFFERS] += (
            self.loop.block.place.held_bytes + self.loop.delivery.sink.held_bytes()
            + self.loop.block.held_bytes() + self.batch_bytes
        )

    cdef bint relieve(self) except -1 nogil:
        return self.monitor.relieve()

    cdef void set_room(self, MemoryLimit memory) noexcept nogil:
        self.monitor.set_room(memory)

    cdef uint64_t kind(self) noexcept:
        """Which verdicts are written."""
        return (
            <uint64_t> self.loop.delivery.filter << 2
            | (self.first is not None) << 1
            | self.loop.delivery.resolves
        )

    cdef int read_first(self, NumberReader reader) except -1:
        """Read what a snapshot says of the earliest false time-point."""
        cdef bint is_decided = <bint> reader.get(1)
        cdef bint has_candidate = <bint> reader.get(1)
        if has_candidate and self.first is None or is_decided and not has_candidate:
            raise damaged()
        if has_candidate:
            self.first.is_decided = is_decided
            self.first.has_candidate = True
            self.first.candidate.time_stamp = reader.get(INT64_MAX)
            self.first.candidate.offset = reader.get(UINT64_MAX)
            self.first.candidate.kind = VERDICT_FALSE
        return 0


cdef bytes checked_body(bytes snapshot):
    """The part of a snapshot after its head.

    Raises SnapshotError if this is not an undamaged snapshot of this version.
    """
    cdef size_t head = len(_MAGIC) + 1
    if len(snapshot) < head + DIGEST_BYTES or not snapshot.startswith(_MAGIC):
        raise SnapshotError("this is not a snapshot of a text monitor")
    if snapshot[head - 1] != _VERSION:
        raise SnapshotError(
            f"the snapshot has version {snapshot[head - 1]}; this version of mtlmon reads "
            f"version {_VERSION} only"
        )
    body = snapshot[head + DIGEST_BYTES:]
    if snapshot[head:head + DIGEST_BYTES] != digest(body):
        raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
    return body


cdef int put_place(
    NumberWriter writer, const ScanPlace *place, const uint64_t *occurrences, size_t letter_words
) except -1:
    """Write how far a scanner has come in a log."""
    cdef size_t word
    writer.put(place.line_count)
    writer.put(place.skipped_count)
    writer.put(place.in_long_line)
    writer.put(place.time_stamp_end)
    for word in range(letter_words):
        writer.put(occurrences[word])
    return 0


cdef int read_scanner(NumberReader reader, Scanner scanner) except -1:
    cdef size_t word
    cdef uint64_t after
    scanner.line_count = reader.get(UINT64_MAX)
    scanner.skipped_count = reader.get(UINT64_MAX)
    scanner.in_long_line = <bint> reader.get(1)
    if (scanner.skipped_count or scanner.in_long_line) and not scanner.skip_errors:
        raise SnapshotError("lines that cannot be read were skipped before the snapshot")
    after = reader.get(<uint64_t> INT64_MAX + 1)
    if after > 0:
        # without digits, so that the next time-stamp is not compared with it
        remember_time_stamp(&scanner.last, after - 1, 0)
    for word in range(scanner.letter_words):
        scanner.occurrences[word] = reader.get(UINT64_MAX)
    return 0
