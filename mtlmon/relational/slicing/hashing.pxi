# cython: language_level=3
"""The hash function of slices: XXH64, by Yann Collet, as Spark's `xxhash64` uses it."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mtlmon.arrays.native cimport KeyTable, Text


cdef extern from *:
    """
    #define MTLMON_P1 0x9E3779B185EBCA87ULL
    #define MTLMON_P2 0xC2B2AE3D27D4EB4FULL
    #define MTLMON_P3 0x165667B19E3779F9ULL
    #define MTLMON_P4 0x85EBCA77C2B2AE63ULL
    #define MTLMON_P5 0x27D4EB2F165667C5ULL

    static inline uint64_t mtlmon_rotated(uint64_t word, int bits) {
        return word << bits | word >> (64 - bits);
    }
    """
    uint64_t P1 "MTLMON_P1"
    uint64_t P2 "MTLMON_P2"
    uint64_t P3 "MTLMON_P3"
    uint64_t P4 "MTLMON_P4"
    uint64_t P5 "MTLMON_P5"
    uint64_t rotated "mtlmon_rotated"(uint64_t word, int bits) noexcept nogil


cdef inline uint64_t hash_lane(uint64_t lane, uint64_t word) noexcept nogil:
    return rotated(lane + word * P2, 31) * P1


cdef inline uint64_t hash_finished(uint64_t hash) noexcept nogil:
    hash = (hash ^ hash >> 33) * P2
    hash = (hash ^ hash >> 29) * P3
    return hash ^ hash >> 32


cdef inline uint64_t hash_word(uint64_t word, uint64_t seed) noexcept nogil:
    """The hash of 8 bytes."""
    cdef uint64_t hash = (seed + P5 + 8) ^ hash_lane(0, word)
    return hash_finished(rotated(hash, 27) * P1 + P4)


cdef inline uint64_t word_at(const uint8_t *place) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, place, sizeof(word))
    return word


cdef uint64_t hash_bytes(const uint8_t *place, size_t size, uint64_t seed) noexcept nogil:
    cdef const uint8_t *end = place + size
    cdef uint64_t hash = seed + P5
    cdef uint64_t lanes[4]
    cdef uint32_t half
    cdef size_t k
    if size >= 32:
        lanes[0] = seed + P1 + P2
        lanes[1] = seed + P2
        lanes[2] = seed
        lanes[3] = seed - P1
        while end - place >= 32:
            for k in range(4):
                lanes[k] = hash_lane(lanes[k], word_at(place + 8 * k))
            place += 32
        hash = (
            rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12)
            + rotated(lanes[3], 18)
        )
        for k in range(4):
            hash = (hash ^ hash_lane(0, lanes[k])) * P1 + P4
    hash += size
    while end - place >= 8:
        hash = rotated(hash ^ hash_lane(0, word_at(place)), 27) * P1 + P4
        place += 8
    if end - place >= 4:
        memcpy(&half, place, sizeof(half))
        hash = rotated(hash ^ half * P1, 23) * P2 + P3
        place += 4
    while place < end:
        hash = rotated(hash ^ place[0] * P5, 11) * P1
        place += 1
    return hash_finished(hash)


cdef inline uint64_t chained_seed(int64_t seed) noexcept nogil:
    """What Spark's `xxhash64(seed, value)` starts with for the value."""
    return hash_word(<uint64_t> seed, 42)


cdef inline uint64_t hash_cell(
    KeyTable texts, int64_t cell, bint is_text, uint64_t seed
) noexcept nogil:
    """The hash of a cell; of a text, that of its bytes."""
    cdef Text text
    if not is_text or <uint64_t> cell >= texts.count:
        return hash_word(<uint64_t> cell, seed)
    text = texts.column_text(<size_t> cell, 0)
    return hash_bytes(text.place, text.length, seed)


cdef inline uint32_t part_of(uint64_t hash, uint32_t share) noexcept nogil:
    """Spark's `pmod(hash, share)`, where the hash is a signed number."""
    if <int64_t> hash >= 0:
        return <uint32_t> (hash % share)
    return share - 1 - <uint32_t> (~hash % share)


def hash_of_cell(KeyTable texts not None, int64_t cell, bint is_text, int64_t seed):
    """The hash of a cell, as a signed number: `xxhash64(seed, value)` in Spark."""
    return <int64_t> hash_cell(texts, cell, is_text, chained_seed(seed))
