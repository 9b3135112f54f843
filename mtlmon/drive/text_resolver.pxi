# cython: language_level=3
"""The loop that converts verdict lines to Boolean verdict lines: text in, text out.

A verdict goes from the reader to the resolver, then to the sequencer if verdicts are wanted in
order, and then to the writer, all without Python and the GIL. The caller reads and writes the
files, as for `TextMonitor`.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

from mtlmon.arrays.native cimport Block
from mtlmon.engine.native cimport (
    HELD_BUFFERS,
    HELD_EQUIVALENTS,
    HELD_IN_ORDER,
    HELD_KEYS,
    HeldBytes,
    MemoryLimit,
    VERDICT_EQUIVALENT,
    VerdictRecord,
    nanoseconds,
)
from mtlmon.verdicts.native cimport Resolver, Sequencer
from mtlmon.text.native cimport (
    FILTER_ALL,
    LINE_ERROR,
    LINE_NONE,
    LINE_READ,
    VerdictLines,
    Writer,
)

from mtlmon.text.native import VERDICT_FILTERS as _FILTERS

cdef enum:
    LINES_PER_CLOCK = 256


@cython.final
cdef class TextResolver:
    """Resolves the equivalences in a text of verdict lines.

    Args:
        path: the name of the text in error messages.
        verdicts: which lines to write: "all", "false" or "none".
        in_order: whether to write the verdicts of each prefix in the order of its time-points.
        reach: how far apart in time a time-point and the verdicts before its own may be. None means
            that this is not known: with `in_order`, all verdicts are then held until the end.
        memory: the memory limit of the resolver and its buffers; None means no limit.

    Attributes:
        lines: reads the verdict lines.
        memory: the limit, which also counts the memory that is held.
        writer: holds the lines until they are flushed.
        true_count: the number of time-points that were resolved to true.
        false_count: the number of time-points that were resolved to false.
        open_count: the number of time-points whose equivalence has no value yet.
        held_count: the number of resolved time-points that wait for their turn.
    """

    def __cinit__(
        self,
        *,
        str path="<verdicts>",
        str verdicts="all",
        bint in_order=False,
        object reach=None,
        MemoryLimit memory=None,
    ):
        self.lines = VerdictLines(path)
        self.writer = Writer()
        self.resolver = Resolver()
        self.resolver.is_flat = True
        self.prefixes = PrefixTable()
        self.in_order = in_order
        self.sequencer = Sequencer(reach)
        self.filter = _FILTERS[verdicts]
        self.status = LINE_NONE
        self.memory = MemoryLimit() if memory is None else memory

    @property
    def true_count(self):
        return self.resolver.true_count

    @property
    def false_count(self):
        return self.resolver.false_count

    @property
    def open_count(self):
        return self.resolver.open_count

    @property
    def held_count(self):
        return self.sequencer.held_count

    @property
    def event_count(self):
        """The number of resolved time-points, which measures progress."""
        return self.true_count + self.false_count

    @property
    def is_stopped(self):
        """Always False: reading can never stop early."""
        return False

    def load(self, block):
        """Load a block of bytes for `run`; the block must not change until it has been read."""
        self.block = Block(block)
        self.lines.load(self.block.data, self.block.size)
        self.status = LINE_READ

    def unload(self):
        """Release the block."""
        self.block = None

    def load_end(self):
        """End the text: `run` then reads a last line that has no line feed."""
        self.block = None
        self.lines.load_end()
        self.status = LINE_READ

    def run(self):
        """Process part of the loaded block; return whether there is more to do.

        This returns early when a block of output waits in the writer; call it again after taking
        the output.

        Raises:
            LogError: a line cannot be read, or it comes too late for the reach. The writer has the
                verdicts that were resolved before it.
            MemoryLimitError: more memory is held than allowed; the writer has the verdicts as
                above.
        """
        cdef bint more
        with nogil:
            more = self.work()
        return more

    def end(self, end_time=None):
        """End the text: `run` then writes the verdicts that are held; `end_time` is ignored."""
        self.sequencer.release_all()
        self.is_ended = True

    cdef int work(self) except -1 nogil:
        """Run the loop; return 1 if there is more to do, else 0."""
        cdef int64_t deadline = nanoseconds() + RUN_NANOSECONDS
        cdef VerdictRecord verdict
        cdef size_t count = 0
        while True:
            if not self.write_some():
                return 1
            if self.status != LINE_READ:
                break
            self.status = self.lines.read(&verdict)
            if self.status == LINE_READ:
                self.take(&verdict)
                count += 1
                if count % LINES_PER_CLOCK == 0:
                    self.memory.hold_to(self)
                    if nanoseconds() >= deadline:
                        return 1
        if self.status == LINE_ERROR:
            with gil:
                raise self.lines.failure()
        self.memory.hold_to(self)
        return 0 if not self.is_ended or self.write_held() else 1

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        held.of[HELD_EQUIVALENTS] += self.resolver.held_bytes()
        held.of[HELD_IN_ORDER] += self.sequencer.held_bytes()
        held.of[HELD_KEYS] += self.prefixes.held_bytes()
        held.of[HELD_BUFFERS] += self.writer.room + self.lines.carry_room

    cdef int take(self, const VerdictRecord *verdict) except -1 nogil:
        """Resolve the time-points that a verdict decides; `write_some` writes them."""
        cdef uint64_t open_count = self.resolver.open_count
        cdef Prefix *prefix
        cdef bint has_memory = self.find_stream(verdict)
        self.resolver.stream = <uint64_t> self.stream
        has_memory = has_memory and self.resolver.push(verdict, 1)
        if not has_memory:
            with gil:
                raise MemoryError
        if self.stream != 0 and self.stream != NO_PREFIX:
            prefix = self.prefixes.prefixes + (self.stream - 1)
            prefix.open_count += self.resolver.open_count - open_count
        if self.in_order:
            self.hold(verdict)
        return 0

    cdef bint find_stream(self, const VerdictRecord *verdict) noexcept nogil:
        """Set `stream` to the stream of the last line read; return False if memory is out.

        A prefix without a number has no open time-points: its Boolean verdicts pass through.
        """
        cdef size_t number
        if self.lines.prefix_size == 0:
            self.stream = 0
            return True
        number = self.prefixes.find(self.lines.prefix, self.lines.prefix_size)
        if number == NO_PREFIX and (self.in_order or verdict.kind == VERDICT_EQUIVALENT):
            number = self.prefixes.add(self.lines.prefix, self.lines.prefix_size)
            if number == NO_PREFIX:
                return False
        self.stream = NO_PREFIX if number == NO_PREFIX else number + 1
        return True

    cdef int hold(self, const VerdictRecord *verdict) except -1 nogil:
        """Pass the time-points that a verdict decides to the sequencer."""
        cdef size_t k
        for k in range(self.resolver.outcome_count):
            if self.sequencer.is_late(
                self.stream,
                self.resolver.outcomes[k].time_stamp,
                self.resolver.outcomes[k].offset,
            ):
                with gil:
                    raise self.lines.failure(
                        "later time-points have been written: the reach is too small"
                    )
            if not self.sequencer.add(self.stream, self.resolver.outcomes + k):
                with gil:
                    raise MemoryError
        if not self.sequencer.reserve_stream(self.stream):
            with gil:
                raise MemoryError
        self.sequencer.note(self.stream, verdict.time_stamp)
        return 0

    cdef bint write_some(self) except -1 nogil:
        """Write the time-points that the last verdict decided; return False if output waits."""
        cdef VerdictRecord records[RUN_VERDICTS]
        cdef size_t count = RUN_VERDICTS
        while count == RUN_VERDICTS:
            if self.writer.size >= OUTPUT_BYTES:
                return False
            if self.in_order:
                count = self.sequencer.next(self.stream, records, RUN_VERDICTS)
            else:
                count = self.resolver.next(records, RUN_VERDICTS)
            if count > 0 and not self.write(records, count):
                with gil:
                    raise MemoryError
        if (
            not self.in_order
            and self.stream != 0
            and self.stream != NO_PREFIX
            and self.prefixes.prefixes[self.stream - 1].open_count == 0
        ):
            self.prefixes.remove(self.stream - 1)
            self.stream = NO_PREFIX
        return True

    cdef bint write_held(self) except -1 nogil:
        """Write the verdicts that are held for all streams; return False if output waits."""
        while self.ended_stream < self.sequencer.stream_count:
            self.stream = self.ended_stream
            if not self.write_some():
                return False
            self.ended_stream += 1
        return True

    cdef bint write(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Write lines of the current stream; return False if memory is out."""
        cdef const uint8_t *text = self.lines.prefix
        cdef size_t size = self.lines.prefix_size
        cdef size_t k
        if self.stream == 0:
            return self.writer.write(verdicts, count, self.filter)
        if self.stream != NO_PREFIX:
            text = self.prefixes.prefixes[self.stream - 1].text
            size = self.prefixes.prefixes[self.stream - 1].size
        for k in range(count):
            if passes(self.filter, verdicts[k].kind):
                if not self.writer.append(text, size):
                    return False
                if not self.writer.write(verdicts + k, 1, FILTER_ALL):
                    return False
        return True
