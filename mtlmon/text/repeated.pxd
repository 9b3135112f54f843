# cython: language_level=3
"""Recognise lines that are identical to the previous line, byte for byte.

If hardly any event matters, most lines have no atoms, and runs of equal lines are long.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset


cdef enum:
    # longer lines are not compared
    LONGEST_REPEATED = 32
    # PERF: after this many repetitions, more are expected. A line that is recognised takes 1 ns
    # instead of 5, but a failed comparison is a mispredicted branch: lines over two random atoms
    # are best never compared.
    EXPECTED_AFTER = 8


cdef inline const uint8_t *read_repeated(
    const uint8_t *line,
    const uint8_t *place,
    const uint8_t *stop,
    uint64_t *time_stamps,
    uint64_t *letters,
    size_t capacity,
    size_t *count,
) noexcept nogil:
    """Add events for the lines that repeat the last line, whose text is from `line` to `place`.

    LONGEST_REPEATED bytes must be readable from any place up to `stop`. The last event of `count`
    is that of the last line, with a letter of one word. Returns the place after those lines.
    """
    cdef size_t size = <size_t> (place - line)
    cdef size_t n = count[0]
    cdef uint64_t time_stamp = time_stamps[n - 1]
    cdef uint64_t letter = letters[n - 1]
    cdef uint64_t text[4]
    cdef uint64_t masks[4]
    if size > LONGEST_REPEATED:
        return place
    load_masks(size, masks)
    load_words(line, text)
    while n < capacity and place <= stop and is_same_text(place, text, masks):
        time_stamps[n] = time_stamp
        letters[n] = letter
        n += 1
        place += size
    count[0] = n
    return place


cdef inline void load_masks(size_t size, uint64_t *masks) noexcept nogil:
    """Load masks that select the first `size` of LONGEST_REPEATED bytes."""
    cdef uint8_t bytes[LONGEST_REPEATED]
    memset(bytes, 0, sizeof(bytes))
    memset(bytes, 0xFF, size)
    load_words(bytes, masks)


cdef inline void load_words(const uint8_t *place, uint64_t *text) noexcept nogil:
    cdef size_t word
    for word in range(LONGEST_REPEATED // WORD_SIZE):
        text[word] = load_word(place + word * WORD_SIZE)


cdef inline bint is_same_text(
    const uint8_t *place, const uint64_t *text, const uint64_t *masks
) noexcept nogil:
    cdef uint64_t difference = 0
    cdef size_t word
    for word in range(LONGEST_REPEATED // WORD_SIZE):
        difference |= (load_word(place + word * WORD_SIZE) ^ text[word]) & masks[word]
    return difference == 0
