# cython: language_level=3
"""Sets of small numbers as bitmaps of three levels, with neighbours found in a few steps.

A bit of a higher level says whether a word of the level below has any bit set.
"""

from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #define lowest_bit(word) __builtin_ctzll(word)
    #define highest_bit(word) (63 - __builtin_clzll(word))
    """
    int lowest_bit(uint64_t word) nogil
    int highest_bit(uint64_t word) nogil


cdef enum:
    BIT_LEVELS = 3


cdef struct Bits:
    uint64_t *words[BIT_LEVELS]
    int64_t sizes[BIT_LEVELS]       # of each level, in words


cdef inline bint has_bit(const Bits *bits, int64_t i) noexcept nogil:
    return bits.words[0][i >> 6] >> (i & 63) & 1


cdef inline void set_bit(Bits *bits, int64_t i) noexcept nogil:
    cdef uint64_t before
    cdef int level
    for level in range(BIT_LEVELS):
        before = bits.words[level][i >> 6]
        bits.words[level][i >> 6] = before | <uint64_t> 1 << (i & 63)
        if before:
            return
        i >>= 6


cdef inline void clear_bit(Bits *bits, int64_t i) noexcept nogil:
    cdef int level
    for level in range(BIT_LEVELS):
        bits.words[level][i >> 6] &= ~(<uint64_t> 1 << (i & 63))
        if bits.words[level][i >> 6]:
            return
        i >>= 6


cdef inline int64_t next_bit(const Bits *bits, int64_t i, int64_t limit) noexcept nogil:
    """The least member that is not below `i`, or `limit` if there is none below that."""
    cdef uint64_t word
    cdef int level = 0
    if i < 0:
        i = 0
    while level < BIT_LEVELS:
        if i >> 6 >= bits.sizes[level]:
            return limit
        word = bits.words[level][i >> 6] >> (i & 63)
        if word:
            i += lowest_bit(word)
            break
        i = (i >> 6) + 1
        level += 1
    if level == BIT_LEVELS:
        # `i` is a word of the highest level.
        level = BIT_LEVELS - 1
        while i < bits.sizes[level] and bits.words[level][i] == 0:
            i += 1
        if i >= bits.sizes[level]:
            return limit
        i = i << 6 | lowest_bit(bits.words[level][i])
    while level:
        level -= 1
        i = i << 6 | lowest_bit(bits.words[level][i])
    return min(i, limit)


cdef inline int64_t previous_bit(const Bits *bits, int64_t i) noexcept nogil:
    """The largest member that is not above `i`, or -1."""
    cdef uint64_t word
    cdef int level = 0
    if i < 0:
        return -1
    while level < BIT_LEVELS:
        word = bits.words[level][i >> 6] << (63 - (i & 63))
        if word:
            i -= 63 - highest_bit(word)
            break
        i = (i >> 6) - 1
        if i < 0:
            return -1
        level += 1
    if level == BIT_LEVELS:
        level = BIT_LEVELS - 1
        while i >= 0 and bits.words[level][i] == 0:
            i -= 1
        if i < 0:
            return -1
        i = i << 6 | highest_bit(bits.words[level][i])
    while level:
        level -= 1
        i = i << 6 | highest_bit(bits.words[level][i])
    return i
