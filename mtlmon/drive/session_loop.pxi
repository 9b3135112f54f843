# cython: language_level=3
"""The loop that takes events through one session, and its verdicts on their way to a sink.

A source fills a block of events, and the loop processes it; all is native code that needs no GIL.
Call between `enter` and `leave` of the session.
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport (
    EndTime,
    Mode,
    Session,
    free_state,
    init_state,
    nanoseconds,
    set_next_offset,
)

from mtlmon.errors import MtlmonError

cdef enum:
    # how long a loop works without looking for signals
    RUN_NANOSECONDS = 50 * 1000 * 1000


@final
cdef class SessionLoop:
    """Monitors events of one stream, or of streams that come one after the other.

    Args:
        session: processes the events.
        delivery: takes the verdicts.
        is_by_event: whether the verdicts of each event are delivered on their own.
    """

    def __cinit__(
        self, Session session not None, Delivery delivery not None, bint is_by_event=False
    ):
        self.session = session
        self.delivery = delivery
        self.is_by_event = is_by_event
        self.block = EventBlock(session.letter_words)

    cdef int step(self, size_t limit, uint32_t stream) except -1 nogil:
        """Process one or more of the block's next events, those below number `limit`."""
        cdef size_t count = 1 if self.is_by_event else limit - self.block.next
        # Resolved verdicts are written by `drain` only, and not by a signal handler.
        self.delivery.sink.begin_work(
            NULL if self.delivery.resolves else &self.session.output, self.delivery.filter
        )
        try:
            self.block.next += self.session.run(
                self.block.time_stamps + self.block.next,
                self.block.letters + self.block.next * self.block.letter_words, count
            )
        finally:
            self.delivery.sink.end_work()
            # Also after an error, for the verdicts of the events before it.
            if self.session.verdict_count:
                self.delivery.put(
                    self.session.verdicts, self.session.verdict_count, True, stream, 0
                )
        return 0

    cdef int finish(self, const EndTime *end, uint32_t stream) except -1 nogil:
        """End the stream, with what is known about the time after it."""
        self.delivery.sink.begin_work(NULL, self.delivery.filter)
        try:
            self.session.run_finish(end)
        finally:
            self.delivery.sink.end_work()
        self.delivery.put(self.session.verdicts, self.session.verdict_count, False, stream, 0)
        return 0

    cdef int next_stream(self, const EndTime *end, uint32_t stream) except -1 nogil:
        """End the stream; the next one starts from the initial state."""
        cdef Mode mode = self.session.state.history.mode
        if self.session.pending_count():
            self.finish(end, stream)
        if self.delivery.resolver is not None:
            self.delivery.resolver.clear()
        if self.session.state.event_count:
            free_state(&self.session.state)
            with gil:
                init_state(&self.session.state, self.session.program, mode)
        return 0

    cdef int run_columns(
        self, EventColumns events, const uint32_t *starts, size_t start_count, const EndTime *end,
        const uint32_t *offsets=NULL
    ) except -1 nogil:
        """Process events whose time-stamps are checked.

        starts: the numbers of the events that begin another stream, or of the events behind a
            stream without events; `end` tells how streams end.
        offsets: the offsets of the events within their time-stamps; NULL if they are consecutive.
        """
        cdef size_t first = 0
        cdef size_t stream = 0
        cdef size_t limit
        while first < events.count:
            self.block.read(events, first, events.count)
            while self.block.next < self.block.count:
                while stream < start_count and starts[stream] == first + self.block.next:
                    self.next_stream(end, <uint32_t> stream)
                    stream += 1
                limit = self.block.count
                if stream < start_count:
                    limit = min(limit, starts[stream] - first)
                self.run_block(
                    limit, <uint32_t> stream, NULL if offsets == NULL else offsets + first
                )
            first += self.block.count
            self.look_around()
        while stream < start_count:
            self.next_stream(end, <uint32_t> stream)
            stream += 1
        self.session.state.first_offset = 0
        return 0

    cdef int run_block(
        self, size_t limit, uint32_t stream, const uint32_t *offsets
    ) except -1 nogil:
        """Process the block's events below number `limit`, which come from an array."""
        cdef size_t k
        if self.block.decreases(limit, self.session.state.clock):
            with gil:
                raise MtlmonError("time-stamps were changed while they were read")
        while self.block.next < limit:
            if offsets == NULL:
                self.step(limit, stream)
                continue
            k = self.block.next
            set_next_offset(&self.session.state, self.block.time_stamps[k], offsets[k])
            self.step(k + 1, stream)
        return 0

    cdef int look_around(self) except -1 nogil:
        """Between two blocks, check the session's memory limit and look for signals."""
        if self.session.memory is not None:
            self.session.memory.hold_to(self.session)
        if nanoseconds() >= self.deadline:
            self.deadline = nanoseconds() + RUN_NANOSECONDS
            with gil:
                PyErr_CheckSignals()
        return 0
