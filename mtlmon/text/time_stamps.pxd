# cython: language_level=3
"""The time-stamp of the last line, and a fast reader for the next one with as many digits.

Consecutive lines usually share their time-stamp, or the next time-stamp has as many digits. Both
cases are recognised by comparing words, without a loop over digits.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef enum:
    # three words hold these: up to 3 digits, then twice 8 digits
    LONGEST_DIGITS = 19

cdef extern from *:
    """
    #define MTLMON_LARGEST_TIME_STAMP ((uint64_t) INT64_MAX)
    """
    const uint64_t LARGEST_TIME_STAMP "MTLMON_LARGEST_TIME_STAMP"


cdef struct LastTimeStamp:
    bint is_known
    uint64_t value
    # the number of digits it was written with; 0 if no other can be compared with it
    size_t digit_count
    # the digits in words, with zeros before the first digit, and the shift that removes from a word
    # the text after the digits
    uint64_t top, middle, low
    unsigned shift
    # the value without its last eight digits
    uint64_t above


cdef inline void remember_time_stamp(
    LastTimeStamp *last, uint64_t value, size_t digit_count
) noexcept nogil:
    """Set the last time-stamp. It may begin with any number of zeros."""
    cdef uint64_t above = value // EIGHT_DIGITS
    last.is_known = True
    last.value = value
    last.digit_count = digit_count if digit_count <= LONGEST_DIGITS else 0
    last.shift = <unsigned> (8 * (WORD_SIZE - 1 - (digit_count - 1) % WORD_SIZE))
    last.low = digits_of(value % EIGHT_DIGITS)
    last.above = above * EIGHT_DIGITS
    last.middle = digits_of(above % EIGHT_DIGITS)
    last.top = digits_of(above // EIGHT_DIGITS)


cdef inline bint read_alike(LastTimeStamp *last, const uint8_t *text) noexcept nogil:
    """Read a time-stamp with as many digits as the last one, whose digit count is not 0.

    It becomes the last time-stamp. The text after these digits is not examined. Returns False, and
    leaves `last` unusable, if they are not digits or if the time-stamp is below the last one or too
    large. Reads up to LONGEST_DIGITS bytes.
    """
    cdef uint64_t low
    cdef uint64_t value = last.value
    if last.digit_count <= WORD_SIZE:
        low = digits_in(load_word(text)) << last.shift
        if low == last.low:
            return True
    else:
        low = digits_in(load_word(text + last.digit_count - WORD_SIZE))
        if has_same_above(last, text):
            if low == last.low:
                return True
        elif not read_above(last, text):
            return False
    last.low = low
    last.value = last.above + value_of(low)
    return are_digits(low) and value <= last.value <= LARGEST_TIME_STAMP


cdef inline bint has_same_above(const LastTimeStamp *last, const uint8_t *text) noexcept nogil:
    """Whether the digits before the last eight, of which there are some, are unchanged."""
    cdef uint64_t first = digits_in(load_word(text)) << last.shift
    if last.digit_count <= 2 * WORD_SIZE:
        return first == last.middle
    return (
        first == last.top
        and digits_in(load_word(text + last.digit_count - 2 * WORD_SIZE)) == last.middle
    )


cdef inline bint read_above(LastTimeStamp *last, const uint8_t *text) noexcept nogil:
    """Read the digits before the last eight; False if they are not digits."""
    last.middle = digits_in(load_word(text)) << last.shift
    if last.digit_count > 2 * WORD_SIZE:
        last.top = last.middle
        last.middle = digits_in(load_word(text + last.digit_count - 2 * WORD_SIZE))
    last.above = (value_of(last.top) * EIGHT_DIGITS + value_of(last.middle)) * EIGHT_DIGITS
    return are_digits(last.top) and are_digits(last.middle)
