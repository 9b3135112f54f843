# cython: language_level=3
"""Declarations for the canonical form of a queue network's state."""

from libc.stdint cimport uint32_t, uint64_t


cdef int write_network(QueueNetwork engine, State *state, Words *words) except -1 nogil
cdef bint read_network(
    QueueNetwork engine, State *state, const uint64_t *items, size_t count,
    const Register *registers, size_t register_count
) except -1 nogil
cdef uint64_t network_settling_distance(
    QueueNetwork engine, const State *state
) noexcept nogil
cdef bint network_is_transient(QueueNetwork engine, const State *state) noexcept nogil
