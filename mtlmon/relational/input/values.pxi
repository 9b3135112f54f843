# cython: language_level=3
"""Values written as text, to cells of 64 bits as blocks of time-points have them."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from mtlmon.policy.predicates.instants import read_instant

cdef enum:
    # numbers of up to so many digits are below 2^64
    SAFE_DIGITS = 19
    # the powers of ten up to this one are exact as floats
    EXACT_POWER = 22

# integers up to this one are exact as floats
cdef uint64_t EXACT_INTEGER = <uint64_t> 1 << 53

cdef double *POWERS_OF_TEN = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
]


cdef bint read_integer(const uint8_t *text, size_t length, int64_t *cell) noexcept nogil:
    """Read a decimal integer from -2^63 to 2^63-1; False if it is none."""
    cdef size_t k = 0
    cdef bint is_negative = length > 0 and text[0] == c'-'
    cdef uint64_t value = 0
    cdef uint64_t limit = (<uint64_t> 1 << 63) - (0 if is_negative else 1)
    k = is_negative
    if k == length:
        return False
    while k < length:
        if <uint8_t> (text[k] - c'0') > 9 or value > limit // 10:
            return False
        value = 10 * value + (text[k] - c'0')
        if value > limit:
            return False
        k += 1
    cell[0] = <int64_t> (0 - value if is_negative else value)
    return True


cdef int read_float(const uint8_t *text, size_t length, int64_t *cell) except -1 nogil:
    """Read a number, or an infinity, as the nearest float; return 0 if it is neither.

    PERF: a product or quotient of two exact floats is rounded correctly, so most numbers need no
    library (10 ns instead of 130).
    """
    cdef size_t k = 0
    cdef size_t digits = 0, kept = 0
    cdef int64_t exponent = 0, written = 0
    cdef uint64_t mantissa = 0
    cdef bint is_negative = length > 0 and text[0] == c'-'
    cdef bint is_small, is_behind_point = False
    cdef double value
    if is_negative or (length > 0 and text[0] == c'+'):
        k = 1
    while k < length:
        if <uint8_t> (text[k] - c'0') <= 9:
            digits += 1
            if kept < SAFE_DIGITS:
                mantissa = 10 * mantissa + (text[k] - c'0')
                kept += mantissa != 0
                exponent -= is_behind_point
            else:
                kept = SAFE_DIGITS + 1
        elif text[k] == c'.' and not is_behind_point:
            is_behind_point = True
        else:
            break
        k += 1
    if digits == 0:
        return 0 if is_behind_point else read_infinity(text + k, length - k, is_negative, cell)
    if k < length:
        if text[k] | 0x20 != c'e':
            return 0
        k += 1
        is_small = k < length and text[k] == c'-'
        if k < length and (text[k] == c'-' or text[k] == c'+'):
            k += 1
        if k == length:
            return 0
        while k < length:
            if <uint8_t> (text[k] - c'0') > 9:
                return 0
            if written < 100000:
                written = 10 * written + (text[k] - c'0')
            k += 1
        exponent += -written if is_small else written
    if mantissa == 0 and kept == 0:
        cell[0] = 0
        return 1
    if kept > SAFE_DIGITS or mantissa > EXACT_INTEGER or not (
        -EXACT_POWER <= exponent <= EXACT_POWER
    ):
        with gil:
            value = float((<const char *> text)[:length])
    elif exponent < 0:
        value = <double> mantissa / POWERS_OF_TEN[-exponent]
        value = -value if is_negative else value
    else:
        value = <double> mantissa * POWERS_OF_TEN[exponent]
        value = -value if is_negative else value
    cell[0] = float_cell(value)
    return 1


cdef int read_infinity(
    const uint8_t *text, size_t length, bint is_negative, int64_t *cell
) noexcept nogil:
    cdef const char *word = "infinity"
    cdef size_t k
    if length != 3 and length != 8:
        return 0
    for k in range(length):
        if text[k] | 0x20 != <uint8_t> word[k]:
            return 0
    cell[0] = float_cell(-1e999 if is_negative else 1e999)
    return 1


cdef int64_t float_cell(double value) noexcept nogil:
    """The bits of a float; -0.0 becomes 0.0, so that equal floats have equal cells."""
    cdef int64_t cell
    value += 0.0
    memcpy(&cell, &value, sizeof(cell))
    return cell


cdef bint read_boolean(const uint8_t *text, size_t length, int64_t *cell) noexcept nogil:
    """Read one of the texts that are true or false in tables, too."""
    cdef bint is_true = is_any_of(text, length, "true", "True", "TRUE", "t", "T", "1")
    cell[0] = is_true
    return is_true or is_any_of(text, length, "false", "False", "FALSE", "f", "F", "0")


cdef bint is_any_of(
    const uint8_t *text, size_t length, const char *lower, const char *title, const char *upper,
    const char *small, const char *capital, const char *digit
) noexcept nogil:
    cdef size_t long_length = 5 if lower[0] == c'f' else 4
    if length == 1:
        return text[0] == small[0] or text[0] == capital[0] or text[0] == digit[0]
    return length == long_length and (
        memcmp(text, lower, length) == 0
        or memcmp(text, title, length) == 0
        or memcmp(text, upper, length) == 0
    )


cdef int read_time(const uint8_t *text, size_t length, int64_t *cell) except -1 nogil:
    """Read a date, or a date and time, as nanoseconds since 1970; return 0 if it is none.

    Without an offset, times are in UTC.
    """
    with gil:
        found = read_instant((<const char *> text)[:length].decode(errors="replace"))
        if found is None or found[0].denominator != 1:
            return 0
        if not -(1 << 63) <= found[0] < 1 << 63:
            return 0
        cell[0] = <int64_t> int(found[0])
    return 1


cdef bint is_utf8(const uint8_t *text, size_t length) noexcept nogil:
    """Whether a text is UTF-8: shortest forms only, and no surrogates."""
    cdef size_t k = 0
    cdef size_t more
    cdef uint8_t first, second
    while k < length:
        first = text[k]
        k += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 + (first >= 0xE0) + (first >= 0xF0)
        if length - k < more:
            return False
        second = text[k]
        if (
            (first == 0xE0 and second < 0xA0)
            or (first == 0xED and second > 0x9F)
            or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second > 0x8F)
        ):
            return False
        while more > 0:
            if text[k] & 0xC0 != 0x80:
                return False
            k += 1
            more -= 1
    return True
