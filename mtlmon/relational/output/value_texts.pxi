# cython: language_level=3
"""Values as text: as a log of relations can have them, too."""

from cpython.mem cimport PyMem_Free
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, strlen

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char format, int precision, int flags, int *kind)

cdef enum:
    NANOSECONDS = 1000000000
    DAY_SECONDS = 86400
    # from 0000-03-01 to 1970-01-01, and in 400 years
    EPOCH_DAYS = 719468
    ERA_DAYS = 146097


cdef uint8_t *put_natural(uint8_t *place, uint64_t number) noexcept nogil:
    """Write a number; return the place behind it."""
    cdef uint8_t digits[20]
    cdef size_t count = 0
    while number >= 10:
        digits[count] = <uint8_t> (c'0' + number % 10)
        number //= 10
        count += 1
    place[0] = <uint8_t> (c'0' + number)
    place += 1
    while count > 0:
        count -= 1
        place[0] = digits[count]
        place += 1
    return place


cdef uint8_t *put_integer(uint8_t *place, int64_t number) noexcept nogil:
    if number >= 0:
        return put_natural(place, <uint64_t> number)
    place[0] = c'-'
    return put_natural(place + 1, 0 - <uint64_t> number)


cdef uint8_t *put_float(uint8_t *place, int64_t cell) except NULL nogil:
    """Write the shortest number that reads as the float; whole numbers have no point.

    PERF: whole numbers need no library.
    """
    cdef double value
    cdef char *text
    cdef size_t length
    memcpy(&value, &cell, sizeof(value))
    if -1e15 < value < 1e15 and value == <double> <int64_t> value:
        return put_integer(place, <int64_t> value)
    with gil:
        text = PyOS_double_to_string(value, c'r', 0, 0, NULL)
        if text == NULL:
            raise MemoryError("mtlmon: out of memory")
        length = min(strlen(text), <size_t> LONGEST_VALUE)
        memcpy(place, text, length)
        PyMem_Free(text)
    return place + length


cdef uint8_t *put_time(uint8_t *place, int64_t nanoseconds) noexcept nogil:
    """Write an instant as in 2026-01-31T12:30:00.5Z.

    The date is found in eras of 400 years from March on, so that a leap day is the last of a year.
    """
    cdef int64_t seconds = nanoseconds // NANOSECONDS
    cdef int64_t fraction = nanoseconds - seconds * NANOSECONDS
    cdef int64_t days
    cdef int64_t era, year, day, month
    if fraction < 0:
        fraction += NANOSECONDS
        seconds -= 1
    days = seconds // DAY_SECONDS
    seconds -= days * DAY_SECONDS
    if seconds < 0:
        seconds += DAY_SECONDS
        days -= 1
    # all instants of 64 bits are in the years 1677 to 2262, so this is positive
    days += EPOCH_DAYS
    era = days // ERA_DAYS
    day = days % ERA_DAYS
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += 400 * era + (month >= 10)
    month = month + 3 if month < 10 else month - 9
    place = put_natural(place, <uint64_t> year)
    place = put_two(place, c'-', month)
    place = put_two(place, c'-', day + 1)
    place = put_two(place, c'T', seconds // 3600)
    place = put_two(place, c':', seconds // 60 % 60)
    place = put_two(place, c':', seconds % 60)
    if fraction:
        place[0] = c'.'
        place += 1
        era = NANOSECONDS // 10
        while fraction:
            place[0] = <uint8_t> (c'0' + fraction // era)
            place += 1
            fraction %= era
            era //= 10
    place[0] = c'Z'
    return place + 1


cdef uint8_t *put_two(uint8_t *place, uint8_t before, int64_t number) noexcept nogil:
    """Write a character and two digits."""
    place[0] = before
    place[1] = <uint8_t> (c'0' + number // 10)
    place[2] = <uint8_t> (c'0' + number % 10)
    return place + 3


cdef uint8_t *put_text(uint8_t *place, const uint8_t *text, size_t length) noexcept nogil:
    """Write a text, in quotes if need be; it takes up to 2 * length + 2 bytes.

    Within quotes, a quote or backslash follows a backslash, and line feeds, carriage returns and
    tabs are written as a backslash with n, r or t, so that a line stays a line.
    """
    cdef bint is_quoted = length == 0
    cdef size_t k
    cdef uint8_t byte
    for k in range(length):
        byte = text[k]
        if byte <= c' ' or byte == 0x7F or byte == c'"' or byte == c',' or (
            byte == c'(' or byte == c')'
        ):
            is_quoted = True
            break
    if not is_quoted:
        memcpy(place, text, length)
        return place + length
    place[0] = c'"'
    place += 1
    for k in range(length):
        byte = text[k]
        if byte == c'"' or byte == c'\\' or byte == c'\n' or byte == c'\r' or byte == c'\t':
            place[0] = c'\\'
            place += 1
            if byte == c'\n':
                byte = c'n'
            elif byte == c'\r':
                byte = c'r'
            elif byte == c'\t':
                byte = c't'
        place[0] = byte
        place += 1
    place[0] = c'"'
    return place + 1
