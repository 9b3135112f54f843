# cython: language_level=3
"""Declarations for configurations, the canonical forms of states."""

from libc.stdint cimport uint32_t, uint64_t


cdef enum:
    # Larger states seldom recur, and are not worth the copying.
    MOST_REGISTERS = 64
    MOST_GROUPS = 64
    MOST_WORDS = 256
    # Registers move through their array, so that most events move no register.
    REGISTER_ROOM = 4 * MOST_REGISTERS


cdef struct Key:
    uint64_t words[MOST_WORDS]
    uint32_t length


cdef inline uint64_t TIME_LIMIT() noexcept nogil:
    """Time-stamps and bounds below it leave room for a word's other bits, and never saturate."""
    return <uint64_t> 1 << 48


cdef bint suits(Program program) noexcept
cdef bint describe(Engine engine, State *state, Key *key) except -1 nogil
cdef uint64_t settling_distance(Engine engine, const State *state) noexcept nogil
cdef bint is_transient(Engine engine, const State *state) noexcept nogil
cdef bint find_settled(Engine engine, State *state, uint64_t *time_stamp) except -1
cdef uint32_t expression_places(
    Engine engine, const uint64_t *words, uint32_t *places
) noexcept nogil
cdef int require_registers(State *state) except -1 nogil
cdef int load_registers(State *state) except -1 nogil
cdef int restore(Engine engine, State *state, const uint64_t *words) except -1 nogil
cdef void pass_threshold(
    History *history, Threshold *threshold, uint64_t time_stamp
) noexcept nogil
