# cython: language_level=3
"""Monitor streams one after the other with a single monitor, such as groups of sorted rows.

Nothing is kept of a stream that has ended, so memory does not depend on the number of streams.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport Session, read_end_time
from mtlmon.text.native cimport FILTER_ALL


cdef const uint32_t *contiguous_numbers(Memory memory) except? NULL:
    """The numbers of a buffer.

    Raises:
        ValueError: there are gaps between them.
    """
    if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
        raise ValueError("starts of streams, or offsets, have gaps between them")
    return <const uint32_t *> memory.buffer.buf


@final
cdef class SuccessiveMonitor:
    """Monitors streams of events against one formula, one stream after the other.

    Args:
        formula: as for `Monitor`.
        mode: as for `Monitor`.
        bdd: as for `Monitor`.
        unit: as for `Monitor`.
        resolve: replace equivalences by the Boolean verdict of each time-point. Memory then grows
            with the open time-points.
        end_time: what is known about the time after a stream's last event. None: nothing. A
            time-stamp: every stream is complete up to and including it. "last": the same with the
            last time-stamp of each stream. "inf": no event ever follows.

    Raises, besides what `Monitor` raises:
        MtlmonError: `end_time` is none of these.
        TimeStampError: `end_time` is negative or above 2^63-1.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        bint resolve=False, end_time=None
    ):
        self.monitor = Session(formula, mode, bdd=bdd, unit=unit)
        self.rows = VerdictRows()
        self.loop = SessionLoop(self.monitor, Delivery(self.rows, FILTER_ALL, resolve))
        self.end = read_end_time(end_time)

    @property
    def atoms(self):
        """The names of the atoms that the formula depends on."""
        return self.monitor.atoms

    @property
    def pending_count(self):
        """The number of time-points of the current stream that the engine keeps as undecided."""
        return self.monitor.pending_count()

    def feed(self, EventColumns events not None, starts, offsets=None):
        """Process events.

        Args:
            events: events of the current stream, and of the streams after it.
            starts: a buffer of uint32: the indices of the events that begin another stream, which
                do not decrease. A stream has no events if the next one begins with the same event;
                at the end, the index is the number of events.
            offsets: the offset of each event within its time-stamp, a buffer of uint32 without
                gaps; None if they are consecutive.

        Returns:
            records, owners: bytes of verdict records, and of uint32 numbers of their streams: 0 is
            the stream before the first start, 1 the one from there on, and so forth.

        Raises:
            TimeStampError: a time-stamp is negative or, within a stream, below the previous one;
                nothing has changed.
            LimitError, MemoryError, KeyboardInterrupt: raised in the middle of an event, which
                leaves the monitor broken.
        """
        cdef Memory memory = Memory(starts, sizeof(uint32_t), 0)
        cdef const uint32_t *places = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0]
        cdef Memory names = None
        cdef const uint32_t *places_in_time = NULL
        contiguous_numbers(memory)
        if offsets is not None:
            names = Memory(offsets, sizeof(uint32_t), events.count)
            places_in_time = contiguous_numbers(names)
        self.monitor.enter()
        try:
            self.check_starts(places, count, events.count)
            self.check_time_stamps(events, places, count)
        except BaseException:
            self.monitor.leave()
            raise
        self.rows.count = 0
        try:
            with nogil:
                self.loop.run_columns(events, places, count, &self.end, places_in_time)
        except BaseException:
            self.monitor.leave_unless_broken(False)
            raise
        self.monitor.leave()
        return self.rows.taken()[:2]

    def finish(self, end_time=None):
        """End the current stream; return the bytes of the verdict records this brings.

        Another stream may follow.

        Args:
            end_time: what is known about the time after this stream, if that is more than is known
                about all streams.
        """
        cdef EndTime end = self.end if end_time is None else read_end_time(end_time)
        self.monitor.enter()
        self.rows.count = 0
        try:
            with nogil:
                self.loop.next_stream(&end, 0)
        except BaseException:
            self.monitor.leave_unless_broken(False)
            raise
        self.monitor.leave()
        return self.rows.taken()[0]

    cdef int check_starts(self, const uint32_t *starts, size_t count, size_t limit) except -1:
        cdef size_t k
        for k in range(count):
            if starts[k] > limit or (k and starts[k] < starts[k - 1]):
                raise ValueError(f"starts of streams decrease, or are above {limit}")
        return 0

    cdef int check_time_stamps(
        self, EventColumns events, const uint32_t *starts, size_t count
    ) except -1:
        cdef size_t first = 0
        cdef size_t k
        cdef uint64_t clock = self.monitor.state.clock
        for k in range(count):
            events.check_time_stamps(clock, 0, first, starts[k])
            first = starts[k]
            clock = 0
        events.check_time_stamps(clock, 0, first, events.count)
        return 0
