# cython: language_level=3
"""Declarations for instants and their conversion to time-stamps."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>

    #define MTLMON_ONE 1000000000000000000ULL

    /* So many units and so many 10^-18 of one, times a factor: what is whole of that, or 0 if it
       is above 2^63-1. */
    static inline int mtlmon_multiply(
        uint64_t whole, uint64_t fraction, uint64_t factor, int64_t *product
    ) {
        unsigned __int128 sum = (unsigned __int128) whole * factor;
        /* PERF: dividing 128 bits takes 25 ns, and this once for every row */
        if (fraction != 0)
            sum += MTLMON_ONE % factor == 0
                ? fraction / (MTLMON_ONE / factor)
                : (uint64_t) ((unsigned __int128) fraction * factor / MTLMON_ONE);
        *product = (int64_t) (uint64_t) sum;
        return sum <= INT64_MAX;
    }
    """
    bint multiply "mtlmon_multiply"(
        uint64_t whole, uint64_t fraction, uint64_t factor, int64_t *product
    ) noexcept nogil

cdef enum ParseStatus:
    PARSED = 0
    MISSING             # null or empty
    UNREADABLE          # not written as a time
    NEGATIVE            # before 1970, or a number below 0
    TOO_LARGE           # above 2^63-1 units of the resolution
    FRACTIONAL          # a fraction of an unknown unit
    LEAP_DAY            # the 29th of February of a year that is not known, or has none
    SKIPPED             # of an hour that clocks leave out
    REPEATED            # of an hour that clocks have twice, and nothing tells which
    UNREACHED           # local, with an offset that is still to be found

cdef enum:
    FRACTION_DIGITS = 18
    # What is below a unit of the resolution is counted in units of 10^-14 seconds: a day has less
    # than 2^63 of these.
    PARTS_OF_NANOSECOND = 100000


cdef struct Scale:
    # The ratio of a unit to the resolution; one of the two is 1, and both are 0 if it is not known.
    uint64_t multiply, divide
    # the nanoseconds in a unit; 0 if it is not known
    uint64_t unit


cdef struct Instant:
    # since 1970, in seconds or another unit; or before 1970, if negative
    bint is_negative
    uint64_t whole
    uint64_t fraction       # of a unit, in units of 10^-FRACTION_DIGITS; further digits are cut off
    bint is_local           # in an unknown zone, as no offset is written


cdef inline ParseStatus to_time_stamp(
    Instant instant, Scale scale, int64_t *time_stamp
) noexcept nogil:
    """The time-stamp at or before an instant: exact, as divisors of 10^9 times units are units."""
    cdef uint64_t factor = max(<uint64_t> 1, scale.multiply)
    cdef int64_t stamp
    if instant.is_negative and (instant.whole or instant.fraction):
        return NEGATIVE
    if scale.multiply == 0 and instant.fraction:
        return FRACTIONAL
    if scale.divide > 1:
        instant.whole //= scale.divide
        instant.fraction = 0
    if not multiply(instant.whole, instant.fraction, factor, &stamp):
        return TOO_LARGE
    time_stamp[0] = stamp
    return PARSED


cdef inline int64_t rest_of(Instant instant, Scale scale) noexcept nogil:
    """What is left of an instant behind its time-stamp, so that these are in the order of time."""
    cdef uint64_t parts = 0
    cdef uint64_t nanoseconds
    if scale.multiply == 0:
        return 0
    if instant.fraction:
        # longer units than seconds are whole numbers of these
        nanoseconds = min(scale.unit, <uint64_t> 1000000000)
        parts = instant.fraction // (<uint64_t> 10000000000000 // nanoseconds)
        parts *= scale.unit // nanoseconds
        if scale.multiply > 1:
            parts = parts % (scale.unit // scale.multiply * PARTS_OF_NANOSECOND)
    if scale.divide > 1:
        parts += instant.whole % scale.divide * scale.unit * PARTS_OF_NANOSECOND
    return <int64_t> parts


cdef inline bint is_digit(uint8_t byte) noexcept nogil:
    return <uint8_t> (byte - 48) < 10


cdef inline bint read_digits(
    const uint8_t **place, const uint8_t *end, size_t least, size_t most, uint64_t *value
) noexcept nogil:
    """Read a number with so many digits, at most 18; False if there are not enough."""
    cdef const uint8_t *text = place[0]
    cdef uint64_t number = 0
    cdef size_t count = 0
    while count < most and text + count < end and is_digit(text[count]):
        number = 10 * number + (text[count] - 48)
        count += 1
    value[0] = number
    place[0] = text + count
    return count >= least


cdef inline uint64_t read_fraction(const uint8_t **place, const uint8_t *end) noexcept nogil:
    """The value of any number of digits after a point; digits after the 18th are cut off."""
    cdef const uint8_t *text = place[0]
    cdef uint64_t fraction = 0
    cdef size_t count = 0
    while text < end and is_digit(text[0]):
        if count < FRACTION_DIGITS:
            fraction = 10 * fraction + (text[0] - 48)
            count += 1
        text += 1
    while count < FRACTION_DIGITS:
        fraction *= 10
        count += 1
    place[0] = text
    return fraction


cdef bint is_date(int64_t year, int64_t month, int64_t day) noexcept nogil
cdef int64_t days_before(int64_t year, int64_t month, int64_t day) noexcept nogil
cdef bint read_zone(
    const uint8_t **place, const uint8_t *end, int64_t *seconds
) noexcept nogil
cdef Instant instant_of_seconds(int64_t seconds, uint64_t fraction) noexcept nogil
cdef ParseStatus read_number(
    const uint8_t *text, const uint8_t *end, Instant *instant
) noexcept nogil
cdef ParseStatus read_iso(const uint8_t *text, const uint8_t *end, Instant *instant) noexcept nogil
