# cython: language_level=3
"""Read numbers and ISO 8601 times from texts, exactly."""

from libc.stdint cimport UINT64_MAX

from mtlmon.text.native cimport EIGHT_DIGITS, WORD_SIZE, are_digits, digits_in, load_word, value_of

cdef enum:
    # of a number with an exponent
    MOST_DIGITS = 40
    # of 2^64
    MOST_WHOLE_DIGITS = 20
    LARGEST_EXPONENT = 1000
    LEAP_SECOND = 60


cdef ParseStatus read_number(
    const uint8_t *text, const uint8_t *end, Instant *instant
) noexcept nogil:
    """Read a decimal number such as `-1.5e3`."""
    cdef uint8_t digits[MOST_DIGITS]
    cdef size_t count = 0       # of digits, from the first nonzero digit on
    cdef size_t last = 0        # of these, up to the last nonzero digit
    cdef int64_t point = 0      # how many of them are before the point
    cdef bint is_behind_point = False
    cdef bint has_digits = False
    cdef int64_t exponent = 0
    instant.is_negative = text[0] == c"-"
    if text[0] == c"-" or text[0] == c"+":
        text += 1
    # PERF: nearly all numbers have this form
    instant.fraction = 0
    instant.is_local = False
    if read_plain(text, end, &instant.whole):
        return PARSED
    while text < end:
        if is_digit(text[0]):
            has_digits = True
            if count or text[0] != c"0":
                if count < MOST_DIGITS:
                    digits[count] = text[0] - 48
                count += 1
                if text[0] != c"0":
                    last = count
                point += not is_behind_point
            elif is_behind_point:
                point -= 1
        elif text[0] == c"." and not is_behind_point:
            is_behind_point = True
        else:
            break
        text += 1
    if not has_digits or text < end and not read_exponent(&text, end, &exponent):
        return UNREADABLE
    if text < end:
        return UNREADABLE
    return compose(digits, count, last, point + exponent, instant)


cdef inline bint read_plain(
    const uint8_t *text, const uint8_t *end, uint64_t *value
) noexcept nogil:
    """Read a text of digits only, at most 18; False if the text is not of this form."""
    cdef uint64_t number = 0
    cdef uint64_t digits
    if text == end or end - text > FRACTION_DIGITS:
        return False
    while end - text >= WORD_SIZE:
        digits = digits_in(load_word(text))
        if not are_digits(digits):
            return False
        number = number * EIGHT_DIGITS + value_of(digits)
        text += WORD_SIZE
    while text < end:
        if not is_digit(text[0]):
            return False
        number = 10 * number + (text[0] - 48)
        text += 1
    value[0] = number
    return True


cdef bint read_exponent(
    const uint8_t **place, const uint8_t *end, int64_t *exponent
) noexcept nogil:
    cdef const uint8_t *text = place[0]
    cdef bint is_negative
    cdef uint64_t value
    if text[0] != c"e" and text[0] != c"E":
        return False
    text += 1
    is_negative = text < end and text[0] == c"-"
    if text < end and (text[0] == c"-" or text[0] == c"+"):
        text += 1
    if not read_digits(&text, end, 1, FRACTION_DIGITS, &value):
        return False
    exponent[0] = <int64_t> min(value, <uint64_t> LARGEST_EXPONENT)
    if is_negative:
        exponent[0] = -exponent[0]
    place[0] = text
    return True


cdef ParseStatus compose(
    const uint8_t *digits, size_t count, size_t last, int64_t point, Instant *instant
) noexcept nogil:
    """The number with so many digits, and the point after the first `point` of them."""
    cdef int64_t k
    cdef uint64_t digit
    instant.whole = instant.fraction = 0
    if count == 0:
        return PARSED
    if point > MOST_WHOLE_DIGITS:
        return TOO_LARGE
    for k in range(point):
        digit = digits[k] if k < <int64_t> count else 0
        if instant.whole > (UINT64_MAX - digit) // 10:
            return TOO_LARGE
        instant.whole = 10 * instant.whole + digit
    for k in range(point, point + FRACTION_DIGITS):
        digit = digits[k] if 0 <= k < <int64_t> count and k < MOST_DIGITS else 0
        instant.fraction = 10 * instant.fraction + digit
    # The digits that are cut off still show that the number is neither whole nor 0.
    if <int64_t> last > point + FRACTION_DIGITS:
        instant.fraction |= 1
    return PARSED


cdef ParseStatus read_iso(const uint8_t *text, const uint8_t *end, Instant *instant) noexcept nogil:
    """Read a date, optionally with a time of day and an offset; without an offset, it is local.

    The second 60 is a leap second, and counts as the next second.
    """
    cdef uint64_t year, month, day
    cdef uint64_t hour = 0, minute = 0, second = 0, fraction = 0
    cdef int64_t offset = 0
    cdef bint is_local = True
    if not (
        read_digits(&text, end, 4, 4, &year)
        and skip(&text, end, c"-")
        and read_digits(&text, end, 2, 2, &month)
        and skip(&text, end, c"-")
        and read_digits(&text, end, 2, 2, &day)
        and is_date(year, month, day)
    ):
        return UNREADABLE
    if text < end:
        if text[0] != c"T" and text[0] != c"t" and text[0] != c" ":
            return UNREADABLE
        text += 1
        if not (
            read_digits(&text, end, 2, 2, &hour)
            and skip(&text, end, c":")
            and read_digits(&text, end, 2, 2, &minute)
        ):
            return UNREADABLE
        if skip(&text, end, c":"):
            if not read_digits(&text, end, 2, 2, &second):
                return UNREADABLE
            if skip(&text, end, c".") or skip(&text, end, c","):
                if text == end or not is_digit(text[0]):
                    return UNREADABLE
                fraction = read_fraction(&text, end)
        if text < end:
            skip(&text, end, c" ")
            if not read_zone(&text, end, &offset):
                return UNREADABLE
            is_local = False
    if text < end or hour > 23 or minute > 59 or second > LEAP_SECOND:
        return UNREADABLE
    instant[0] = instant_of_seconds(
        86400 * days_before(year, month, day)
        + <int64_t> (3600 * hour + 60 * minute + second) - offset,
        fraction,
    )
    instant.is_local = is_local
    return PARSED


cdef inline bint skip(const uint8_t **place, const uint8_t *end, uint8_t byte) noexcept nogil:
    if place[0] == end or place[0][0] != byte:
        return False
    place[0] += 1
    return True


cdef bint read_zone(
    const uint8_t **place, const uint8_t *end, int64_t *seconds
) noexcept nogil:
    """Read `Z`, `+02:00`, `+0200` or `+02`: the seconds east of UTC."""
    cdef const uint8_t *text = place[0]
    cdef bint is_west
    cdef uint64_t hours
    cdef uint64_t minutes = 0
    seconds[0] = 0
    if skip(place, end, c"Z") or skip(place, end, c"z"):
        return True
    if text == end or text[0] != c"+" and text[0] != c"-":
        return False
    is_west = text[0] == c"-"
    text += 1
    if not read_digits(&text, end, 2, 2, &hours) or hours > 23:
        return False
    if skip(&text, end, c":") or text < end and is_digit(text[0]):
        if not read_digits(&text, end, 2, 2, &minutes) or minutes > 59:
            return False
    seconds[0] = <int64_t> (3600 * hours + 60 * minutes)
    if is_west:
        seconds[0] = -seconds[0]
    place[0] = text
    return True


cdef bint is_date(int64_t year, int64_t month, int64_t day) noexcept nogil:
    cdef bint is_leap
    if month < 1 or month > 12 or day < 1 or day > 31:
        return False
    if month == 2:
        is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= 28 + is_leap
    if month == 4 or month == 6 or month == 9 or month == 11:
        return day <= 30
    return True


cdef int64_t days_before(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """The days from 1970-01-01 to a date of the Gregorian calendar in year 0 or later.

    Years are counted from March, so that leap days come last.
    """
    cdef int64_t from_march = (month + 9) % 12
    cdef int64_t years = year - (month < 3) + 400
    return (
        365 * years + years // 4 - years // 100 + years // 400
        + (153 * from_march + 2) // 5 + day - 1 - 719468 - 146097
    )


cdef Instant instant_of_seconds(int64_t seconds, uint64_t fraction) noexcept nogil:
    """The instant so many seconds after 1970, plus a fraction of a second."""
    cdef Instant instant
    instant.is_negative = seconds < 0
    instant.whole = <uint64_t> seconds if seconds >= 0 else 0 - <uint64_t> seconds
    instant.fraction = fraction
    instant.is_local = False
    return instant
