# cython: language_level=3
"""A session: an engine and the state of one stream."""

from libc.stdint cimport uint8_t, uint64_t


cdef enum Condition:
    READY = 0
    IN_USE = 1      # a call is at work, reading atoms or in the middle of an event
    BROKEN = 2      # an error came in the middle of an event
    FINISHED = 3


cdef class Session:
    cdef readonly Program program
    cdef readonly str mode
    cdef Engine engine
    cdef Table table
    cdef Verdicts output
    cdef State state
    cdef dict atom_numbers
    cdef readonly str unknown
    cdef bint is_strict             # unknown atoms are an error
    cdef uint64_t *letter
    cdef uint8_t condition
    cdef object delay               # of decisions, once it is known
    cdef bint knows_delay
    cdef MemoryLimit memory         # None where none is set, or somebody else sees to it

    # After each call the verdicts are those of that call, event by event, for each in the order of
    # time-points; also after an error, those of the events before it. That time-stamps do not
    # decrease is for the caller to check.
    cdef const VerdictRecord *verdicts
    cdef size_t verdict_count
    cdef size_t letter_words                                # 64-bit words of a letter

    cdef size_t push(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil
    cdef int push_time(self, uint64_t time_stamp) except -1 nogil
    cdef int push_end(self) except -1 nogil
    cdef int push_finish(self, const EndTime *end) except -1 nogil
    cdef bint earliest_pending(self, uint64_t *time_stamp, uint64_t *offset) noexcept nogil

    # The parts of `push`, for callers to which no other may come between.
    cdef int enter(self) except -1 nogil
    cdef size_t run(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil
    cdef void leave(self) noexcept nogil
    cdef void mark_broken(self) noexcept nogil
    cdef void close(self) noexcept nogil

    cdef int require_ready(self) except -1
    cdef int require_sound(self, uint8_t condition) except -1
    cdef bint is_broken(self) noexcept nogil
    cdef void mark_ready(self) noexcept nogil
    cdef size_t pending_count(self) noexcept nogil

    # Calls that take no event begin with `acquire`, and put back the condition that it returns.
    cdef uint8_t acquire(self) except 0xFF
    cdef int rebuild_engine(self, uint8_t condition) except -1

    # What it holds, for those who see to the limit: what to count, how much to use for speed, and
    # to give up what can be done without.
    cdef void count_held(self, HeldBytes *held) noexcept nogil
    cdef void set_limit(self, MemoryLimit memory, size_t monitors)
    cdef int relieve(self) except -1 nogil
    cdef int check_memory(self) except -1 nogil

    cdef void _leave_engine(self, bint is_done) noexcept nogil
    cdef int _refuse(self) except -1
