# cython: language_level=3
"""Hashing and sorting of short sequences of 32-bit items."""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport qsort


cdef inline uint64_t hash_sequence(
    uint64_t seed, const uint32_t *items, uint32_t length
) noexcept nogil:
    """A multiplicative hash, with high bits mixed into low ones at the end."""
    cdef uint64_t value = seed * 0x9E3779B97F4A7C15ULL + length
    cdef uint32_t i
    for i in range(length):
        value = (value ^ items[i]) * 0x9E3779B97F4A7C15ULL
        value ^= value >> 29
    return value ^ (value >> 32)


cdef inline int compare_items(const void *left, const void *right) noexcept nogil:
    cdef uint32_t a = (<const uint32_t *> left)[0]
    cdef uint32_t b = (<const uint32_t *> right)[0]
    return (a > b) - (a < b)


cdef inline void sort_items(uint32_t *items, uint32_t count) noexcept nogil:
    """Sort items; most sequences here are short, or sorted except for a few items."""
    cdef uint32_t i, j, item
    if count > 16:
        qsort(items, count, sizeof(uint32_t), compare_items)
        return
    for i in range(1, count):
        item = items[i]
        j = i
        while j > 0 and items[j - 1] > item:
            items[j] = items[j - 1]
            j -= 1
        items[j] = item
