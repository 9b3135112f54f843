# cython: language_level=3
"""What hash tables need: a step of a hash function, and places prefetched from memory."""

from libc.stdint cimport uint64_t


cdef extern from *:
    """
    #include <stdint.h>

    /* High and low half of a product, combined: a step of the wyhash family of hash functions. */
    static inline uint64_t mtlmon_fold(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128) a * b;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    }
    #define mtlmon_prefetch(place) __builtin_prefetch(place)
    """
    uint64_t fold "mtlmon_fold"(uint64_t a, uint64_t b) noexcept nogil
    void prefetch "mtlmon_prefetch"(const void *place) noexcept nogil
