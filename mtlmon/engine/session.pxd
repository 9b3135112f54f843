# cython: language_level=3
"""Declarations for sessions: an engine and the state of one stream."""

from libc.stdint cimport uint8_t, uint64_t


cdef enum Condition:
    READY = 0
    IN_USE = 1      # a call is active: it reads atoms or is in the middle of an event
    BROKEN = 2      # an error occurred in the middle of an event
    FINISHED = 3


cdef class Session(MemoryHolder):
    cdef readonly Program program
    cdef readonly str mode
    cdef Engine engine
    cdef Table table
    cdef Verdicts output
    cdef Words words                # scratch memory
    cdef State state
    cdef dict atom_numbers
    cdef readonly str unknown
    cdef bint is_strict             # whether unknown atoms are an error
    cdef uint64_t *letter
    cdef uint8_t condition
    cdef object delay               # the decision delay, once it is known
    cdef bint knows_delay
    cdef MemoryLimit counted        # what was held when that was asked for last
    cdef MemoryLimit memory         # None if there is no limit, or if another object checks it

    # After each call, these are the verdicts of that call: event by event, and in the order of
    # time-points for each event. After an error, they are the verdicts of the events before it. The
    # caller must check that time-stamps do not decrease.
    cdef const VerdictRecord *verdicts
    cdef size_t verdict_count
    cdef size_t letter_words                                # 64-bit words of a letter

    cdef int push_time(self, uint64_t time_stamp) except -1 nogil
    cdef int push_end(self) except -1 nogil
    cdef int push_finish(self, const EndTime *end) except -1 nogil
    cdef bint earliest_pending(self, uint64_t *time_stamp, uint64_t *offset) noexcept nogil
    cdef bint look(
        self, bint *is_pending, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil

    # For callers that allow no other call between these.
    cdef int enter(self) except -1 nogil
    cdef size_t run(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil
    cdef int pass_time(self, uint64_t time_stamp) except -1 nogil
    cdef int run_finish(self, const EndTime *end) except -1 nogil
    cdef int save(self, SavedState saved) except -1 nogil
    cdef int load(self, SavedState saved) except -1 nogil
    cdef bint is_in(self, SavedState saved) except -1 nogil
    cdef int _require_kind(self, SavedState saved) except -1 nogil
    cdef void leave(self) noexcept nogil
    cdef void leave_unless_broken(self, bint can_continue) noexcept nogil
    cdef void mark_broken(self) noexcept nogil
    cdef void close(self) noexcept nogil

    cdef int require_ready(self) except -1
    cdef int require_sound(self, uint8_t condition) except -1
    cdef bint is_broken(self) noexcept nogil
    cdef void mark_ready(self) noexcept nogil
    cdef size_t pending_count(self) noexcept nogil

    # Calls that take no event begin with `acquire`, and restore the condition that it returns.
    cdef uint8_t acquire(self) except 0xFF
    cdef int rebuild_engine(self, uint8_t condition) except -1

    cdef void set_limit(self, MemoryLimit memory, size_t monitors)

    cdef int _end(self) except -1 nogil
    cdef void _take_from_history(self, bint is_done) noexcept nogil
    cdef int _refuse(self) except -1
