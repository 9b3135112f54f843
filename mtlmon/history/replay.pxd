# cython: language_level=3
"""Declarations for traces whose late events are judged again."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.engine.native cimport Saved, Session, Words
from mtlmon.traces.native cimport Streams


cdef enum:
    NO_TRACE = 0xFFFFFFFF
    # how many traces a batch looks at for what can be forgotten, beside one for each event
    SWEPT_TRACES = 64
    # how many traces forget chunks together
    DUE_TRACES = 16


cdef class Replayer:
    cdef readonly Session session
    cdef size_t words               # of a letter
    cdef Trace *traces
    cdef readonly uint32_t trace_count
    cdef uint32_t trace_capacity
    cdef Streams ends               # the states at the ends of the traces
    cdef uint32_t loaded            # the trace whose state at the end the session holds
    cdef Earliest pending           # the earliest undecided time-points of the traces
    cdef uint32_t swept             # the next trace to look at for what can be forgotten
    cdef uint64_t swept_events      # how many events there were when that was done last
    cdef Saved taken                # scratch memory
    cdef Journal journal
    cdef SpareChunks spare
    cdef Words advances             # when time has passed without an event, if that still matters

    cdef bint has_lateness, is_by_key, has_now, has_delay
    cdef uint64_t lateness, wait, delay
    cdef uint64_t now_of_all
    cdef uint64_t passed_of_all     # how far time has passed without an event, whatever the wait
    cdef readonly uint64_t closed_below      # all events below are known, whatever the lateness is
    cdef bint can_reopen            # whether a verdict may rest on later events, or on time
    cdef bint takes_equal           # whether events without ids can be retracted
    cdef bint has_retractable       # whether any trace has had rows that can be retracted
    cdef uint32_t spacing           # events of a chunk; 0 if it follows the size of states
    cdef bint judges                # else letters are numbers of rows, and nothing is judged
    cdef bint is_named              # whether events come with their offsets, and some do not come
    cdef bint rejects               # whether rows that contradict counts are noted, not raised
    cdef bint is_broken
    cdef int64_t deadline
    cdef uint32_t chunks_until_look
    cdef readonly uint64_t event_count, late_count, refused_count
    cdef readonly uint64_t replays, replayed_chunks, replayed_events, early_stops

    cdef int require_ready(self) except -1
    cdef int make_traces(self, size_t count) except -1
    cdef uint64_t now_of(self, uint32_t number) noexcept nogil
    cdef uint64_t passed_of(self, uint32_t number) noexcept nogil
    cdef bint bound_of(self, uint32_t number, uint64_t *bound) noexcept nogil
    cdef bint bound_of_all(self, uint64_t *bound) noexcept nogil
    cdef uint64_t admits_from(self, uint32_t number) noexcept nogil
    cdef uint64_t certain_of(self, uint32_t number, uint64_t admits_from) noexcept nogil
    cdef int take(
        self, uint32_t number, const Rows *rows, const Name *retracted, size_t retracted_count
    ) except -1 nogil
    cdef int append(self, uint32_t number, const Rows *rows, uint64_t offset) except -1 nogil
    cdef int pass_time(self, uint32_t number, uint64_t time_stamp) except -1 nogil
    cdef int pass_time_between(self, uint32_t number, uint64_t time_stamp) except -1 nogil
    cdef size_t replay(
        self, uint32_t number, uint32_t place, const Rows *rows
    ) except? 0xFFFFFFFFFFFFFFFF nogil
    cdef uint32_t place_for(self, Trace *trace, uint64_t time_stamp) except? 0 nogil
    cdef int begin_earlier(self, Trace *trace) except -1 nogil
    cdef void note_moved(self, Trace *trace) noexcept nogil
    cdef int keep_short(self, Trace *trace, uint32_t place) except -1 nogil
    cdef uint32_t spacing_of(self, const Chunk *chunk) noexcept nogil
    cdef int run_chunk(self, uint32_t number, Chunk *chunk, uint32_t first) except -1 nogil
    cdef int run_events(
        self, uint32_t number, Chunk *chunk, size_t first, size_t last
    ) except -1 nogil
    cdef int apply(self, uint32_t number, const Chunk *chunk, size_t begin) except -1 nogil
    cdef int reopen(self, uint32_t number) except -1 nogil
    cdef void note_pending(self, uint32_t number) noexcept nogil
    cdef int make_live(self, uint32_t number) except -1 nogil
    cdef int park(self) except -1 nogil
    cdef int keep_small(self) except -1 nogil
    cdef int save_start(self, Chunk *chunk) except -1 nogil
    cdef int new_last_chunk(self, Trace *trace) except -1 nogil
    cdef void forget_some(self) noexcept nogil
    cdef int look_around(self) except -1 nogil
