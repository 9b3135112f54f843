# cython: language_level=3
"""Declarations for counting the bytes that mtlmon's own structures hold."""

from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX


# The categories of held bytes, in the order of CATEGORIES in engine/memory_limit.py.
cdef enum:
    HELD_FORMULA
    HELD_OPERATORS
    HELD_PENDING
    HELD_EXPRESSIONS
    HELD_TRANSITIONS
    HELD_KEY_STATES
    HELD_KEYS
    HELD_STREAMS
    HELD_RELATIONS
    HELD_EQUIVALENTS
    HELD_IN_ORDER
    HELD_SORTING
    HELD_VERDICTS
    HELD_BUFFERS
    HOLDER_COUNT


cdef struct HeldBytes:
    size_t of[HOLDER_COUNT]


cdef inline size_t NO_LIMIT() noexcept nogil:
    return SIZE_MAX


cdef inline size_t chunk_size(size_t size) noexcept nogil:
    """The memory that malloc uses for a block of this size; it matters for many small blocks."""
    if size == 0:
        return 0
    return 32 if size <= 24 else (size + 23) & ~<size_t> 15


cdef class MemoryLimit:
    cdef size_t allowed             # NO_LIMIT() if there is none
    cdef size_t highest
    cdef object names               # how messages write options
    # the last count
    cdef HeldBytes counted
    cdef size_t total
    # the count before inessential memory was released
    cdef HeldBytes before
    # the bytes that other code holds besides the counted structures, as last noted
    cdef HeldBytes beside

    cdef int hold_to(self, MemoryHolder holder) except -1 nogil
    cdef bint admits(self, const HeldBytes *held) noexcept nogil
    cdef int require(self, bint is_relieved) except -1 nogil
    cdef size_t room_for(self, size_t bytes) noexcept nogil
    cdef size_t share(self, size_t parts) noexcept nogil
    cdef object exceeded(self, size_t more)


cdef class MemoryHolder:
    # What a limit is checked for: `count_held` adds the bytes it takes, `relieve` releases what is
    # not essential, if there is such memory, and `set_room` learns what the count has left.
    cdef void count_held(self, HeldBytes *held) noexcept nogil
    cdef bint relieve(self) except -1 nogil
    cdef void set_room(self, MemoryLimit memory) noexcept nogil
