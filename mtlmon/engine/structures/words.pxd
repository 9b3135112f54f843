# cython: language_level=3
"""Sequences of 64-bit words, which canonical forms of states are made of."""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport qsort


cdef struct Words:
    uint64_t *items
    uint32_t count, capacity


cdef struct WordReader:
    const uint64_t *items
    size_t place, count
    bint is_damaged         # the words do not fit what was asked for


cdef inline int reserve_words(Words *words, size_t more) except -1 nogil:
    """Make room for so many more words."""
    return reserve(
        <void **> &words.items, &words.capacity, words.count + more, sizeof(uint64_t)
    )


cdef inline int put_word(Words *words, uint64_t word) except -1 nogil:
    reserve_words(words, 1)
    words.items[words.count] = word
    words.count += 1
    return 0


cdef inline uint64_t take_word(WordReader *reader) noexcept nogil:
    """The next word; 0 if there is none."""
    if reader.place >= reader.count:
        reader.is_damaged = True
        return 0
    reader.place += 1
    return reader.items[reader.place - 1]


cdef inline uint64_t take_at_most(WordReader *reader, uint64_t most) noexcept nogil:
    """The next word; 0 if it is larger."""
    cdef uint64_t word = take_word(reader)
    if word > most:
        reader.is_damaged = True
        return 0
    return word


cdef inline uint32_t take_count(WordReader *reader, size_t words_each) noexcept nogil:
    """The number of items that follow; 0 if there are not enough words for them."""
    return <uint32_t> take_at_most(
        reader, min((reader.count - reader.place) // words_each, <size_t> 0x7FFFFFFF)
    )


cdef inline int compare_words(const void *left, const void *right) noexcept nogil:
    cdef uint64_t a = (<const uint64_t *> left)[0]
    cdef uint64_t b = (<const uint64_t *> right)[0]
    return (a > b) - (a < b)


cdef inline void sort_words(uint64_t *items, size_t count) noexcept nogil:
    if count > 1:
        qsort(items, count, sizeof(uint64_t), compare_words)
