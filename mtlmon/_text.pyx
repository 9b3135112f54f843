# cython: language_level=3
"""Text in, text out: the loop from log lines to verdict lines.

scanner -> engine -> filter or resolver -> writer, without Python and without the GIL. Reading and
writing files is the caller's: it loads blocks, calls `run` until a block is used up, and flushes
the writer when it sees fit.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from mtlmon._core cimport Monitor
from mtlmon._resolver cimport Resolver
from mtlmon._scanner cimport SCAN_EMPTY, SCAN_ERROR, SCAN_FULL, Scanner
from mtlmon._verdict cimport VERDICT_FALSE, VerdictRecord
from mtlmon._writer cimport (
    FILTER_ALL,
    FILTER_BOOLEAN,
    FILTER_FALSE,
    FILTER_NONE,
    Writer,
)

cdef enum:
    # events scanned at a time: little enough to stay in the first-level cache
    BATCH_EVENTS = 256
    BATCH_WORDS = 8192
    # `run` returns when this much output waits, or this much time has passed
    OUTPUT_BYTES = 1 << 18
    RUN_NANOSECONDS = 50 * 1000 * 1000
    RESOLVED_AT_ONCE = 256

# "first" writes one line of its own making
_FILTERS = {
    "all": FILTER_ALL,
    "boolean": FILTER_BOOLEAN,
    "false": FILTER_FALSE,
    "first": FILTER_ALL,
    "none": FILTER_NONE,
}


@cython.final
cdef class TextMonitor:
    """Monitors a text log.

    monitor: a fresh monitor.
    path: the log's name in error messages.
    verdicts: which lines to write: "all", "boolean" or "false" (what the engine decided itself),
        "first" (the earliest false time-point, once nothing before it is open) or "none".
    resolve: write the Boolean value of every time-point instead of equivalences.
    skip_errors: pass over lines that cannot be read.

    Attributes:
        writer: holds the lines until they are flushed.
        is_stopped: nothing more will be written, so there is no need to read on.
    """

    def __cinit__(
        self,
        Monitor monitor not None,
        *,
        str path="<log>",
        str verdicts="all",
        bint resolve=False,
        bint skip_errors=False,
    ):
        cdef size_t words
        self.monitor = monitor
        self.scanner = Scanner(monitor.atoms, path=path, skip_errors=skip_errors)
        self.writer = Writer()
        self.filter = _FILTERS[verdicts]
        self.wants_first = verdicts == "first"
        self.resolver = Resolver()
        # these write nothing that depends on equivalences
        self.resolves = resolve and verdicts not in ("first", "none")
        self.status = SCAN_EMPTY
        words = self.scanner.letter_words
        self.batch_room = max(<size_t> 1, min(<size_t> BATCH_EVENTS, BATCH_WORDS // words))
        self.time_stamps = <uint64_t *> calloc(self.batch_room, sizeof(uint64_t))
        self.letters = <uint64_t *> calloc(self.batch_room * words, sizeof(uint64_t))
        if self.time_stamps == NULL or self.letters == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.release_block()
        free(self.time_stamps)
        free(self.letters)

    def load(self, block):
        """Make a block of bytes the one that `run` works on; it must not change until then."""
        self.release_block()
        PyObject_GetBuffer(block, &self.block, PyBUF_SIMPLE)
        self.has_block = True
        self.scanner.load(<const uint8_t *> self.block.buf, <size_t> self.block.len)
        self.status = SCAN_FULL

    def unload(self):
        """Let go of the block; nothing more can be read."""
        self.status = SCAN_EMPTY
        self.batch_next = self.batch_count = 0
        self.release_block()

    def load_end(self):
        """The log has ended: `run` reads its last line, if that has no line feed."""
        self.release_block()
        self.scanner.load_end()
        self.status = SCAN_FULL

    def run(self):
        """Work on the loaded block for a while; return whether there is more to do on it.

        It returns early when a block of output waits in the writer, and goes on once that is taken
        out.

        Raises:
            LogError: a line cannot be read. The verdicts earned before it are in the writer.
            LimitError: the engine's.
        """
        cdef bint more
        with nogil:
            more = self.work()
        return more

    def end(self, end_time=None):
        """The log is over: say what is known about the time after it. Go on with `run`.

        end_time: None (nothing), a time-stamp up to and including which the log is complete,
            "last" (the last time-stamp) or "inf" (no event ever follows).
        """
        last = self.scanner.last_time_stamp
        if self.is_stopped or end_time is None:
            return
        if end_time == "last":
            end_time = last
        if end_time == "inf":
            self.monitor.push_end()
        elif last is not None and end_time >= last:
            self.monitor.push_time(<uint64_t> end_time + 1)
        else:
            return
        self.deliver()

    @property
    def event_count(self):
        return self.monitor.counters["events"]

    @property
    def true_count(self):
        """Time-points decided to be true, equivalents included."""
        return self.monitor.counters["true"]

    @property
    def false_count(self):
        """Time-points decided to be false, equivalents included."""
        return self.monitor.counters["false"]

    @property
    def undecided_count(self):
        return self.event_count - self.true_count - self.false_count

    @property
    def peak_pending(self):
        """The most undecided time-points that the engine kept at a time, without equivalents."""
        return self.monitor.counters["peak_pending"]

    @property
    def open_first(self):
        """(false time-point, earliest open one before it) if `first` could not be decided."""
        cdef uint64_t time_stamp, offset
        if self.is_stopped or not self.has_candidate:
            return None
        self.monitor.earliest_pending(&time_stamp, &offset)
        return (
            (self.candidate.time_stamp, self.candidate.offset),
            (time_stamp, offset),
        )

    cdef void release_block(self):
        if self.has_block:
            PyBuffer_Release(&self.block)
            self.has_block = False

    cdef int work(self) except -1 nogil:
        """The loop; 1 when it returns before the block is used up, else 0."""
        cdef int64_t deadline = nanoseconds() + RUN_NANOSECONDS
        cdef size_t words = self.scanner.letter_words
        if self.resolves and not self.write_resolved():
            return 1
        while not self.is_stopped:
            if self.batch_next == self.batch_count:
                if self.status != SCAN_FULL:
                    if self.status == SCAN_ERROR:
                        with gil:
                            raise self.scanner.failure
                    return 0
                self.batch_next = 0
                self.status = self.scanner.scan(
                    self.time_stamps, self.letters, self.batch_room, &self.batch_count
                )
                if self.status == SCAN_ERROR:
                    with gil:
                        self.scanner.note_failure()
                continue
            self.push_events(words)
            if self.writer.size >= OUTPUT_BYTES or nanoseconds() >= deadline:
                return 1
        return 0

    cdef int push_events(self, size_t words) except -1 nogil:
        """Monitor the next of the scanned events, up to all, and hand on their verdicts."""
        cdef size_t count = self.batch_count - self.batch_next
        if self.wants_first:
            # It stops at the very event that settles which one is the first.
            count = 1
        try:
            self.batch_next += self.monitor.push(
                self.time_stamps + self.batch_next, self.letters + self.batch_next * words, count
            )
        finally:
            # Also after an error: the verdicts of the events before.
            self.deliver()
        return 0

    cdef int deliver(self) except -1 nogil:
        """Hand on the verdicts of the last call of the monitor."""
        cdef const VerdictRecord *verdicts = self.monitor.verdicts
        cdef size_t count = self.monitor.verdict_count
        cdef bint has_memory
        if self.wants_first:
            has_memory = self.note_false(verdicts, count)
        elif self.resolves:
            has_memory = self.resolver.push(verdicts, count)
            self.write_resolved()
        else:
            has_memory = self.writer.write(verdicts, count, self.filter)
        if not has_memory:
            with gil:
                raise MemoryError
        return 0

    cdef int write_resolved(self) except -1 nogil:
        """Write what the resolver has; 0 when there is more of it than a block of output."""
        cdef VerdictRecord records[RESOLVED_AT_ONCE]
        cdef size_t count = RESOLVED_AT_ONCE
        while count == RESOLVED_AT_ONCE:
            if self.writer.size >= OUTPUT_BYTES:
                return 0
            count = self.resolver.next(records, RESOLVED_AT_ONCE)
            if not self.writer.write(records, count, self.filter):
                with gil:
                    raise MemoryError
        return 1

    cdef bint note_false(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Keep the earliest false time-point, and write it once nothing before it is open."""
        cdef uint64_t time_stamp, offset
        cdef size_t k
        for k in range(count):
            if verdicts[k].kind == VERDICT_FALSE and (
                not self.has_candidate
                or is_before(
                    verdicts[k].time_stamp,
                    verdicts[k].offset,
                    self.candidate.time_stamp,
                    self.candidate.offset,
                )
            ):
                self.candidate = verdicts[k]
                self.has_candidate = True
        if not self.has_candidate:
            return True
        self.is_stopped = not self.monitor.earliest_pending(&time_stamp, &offset) or is_before(
            self.candidate.time_stamp, self.candidate.offset, time_stamp, offset
        )
        return not self.is_stopped or self.writer.write(&self.candidate, 1, FILTER_ALL)


cdef inline bint is_before(
    uint64_t time_stamp, uint64_t offset, uint64_t other_time_stamp, uint64_t other_offset
) noexcept nogil:
    return time_stamp < other_time_stamp or (
        time_stamp == other_time_stamp and offset < other_offset
    )


cdef int64_t nanoseconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec
