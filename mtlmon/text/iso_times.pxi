# cython: language_level=3
"""Write time-stamps in ISO 8601, and lines of verdicts with such times."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy

cdef enum:
    SECONDS_OF_DAY = 86400
    # `2024-05-01T12:30:00`
    TO_SECONDS = 19
    # the days of 400, 100 and 4 years, of which the last one may be a leap day
    DAYS_OF_400 = 146097
    DAYS_OF_100 = 36524
    DAYS_OF_4 = 1461
    # from March 1st of the year 0 to 1970
    DAYS_BEFORE_1970 = 719468

cdef uint64_t NO_DAY = UINT64_MAX

_SECOND = 10**9
# the nanosecond since 1970 with which the year 10000 begins
_YEAR_10000 = 253_402_300_800 * 10**9


@cython.final
cdef class IsoWriter:
    """Writes times in UTC as `2024-05-01T12:30:00.25Z`, with as many digits as are needed.

    Time-stamps beyond the year 9999 stay as they are.

    Args:
        nanoseconds: the length of a unit of time-stamps, which begin in 1970: a whole number of
            seconds, or a whole part of a second.
    """

    def __cinit__(self, uint64_t nanoseconds):
        length = int(nanoseconds)
        if length == 0 or (length % _SECOND and _SECOND % length):
            raise ValueError(f"a unit of {length} ns")
        self.seconds = max(1, length // _SECOND)
        self.per_second = max(1, _SECOND // length)
        self.nanoseconds = length if length < _SECOND else 0
        self.last = min(2**63 - 1, (_YEAR_10000 - 1) // length)

    def texts(self, time_stamps):
        """Return the texts of time-stamps."""
        cdef IsoText text
        cdef uint64_t time_stamp
        cdef list found = []
        text.day = NO_DAY
        for time_stamp in time_stamps:
            self.set_text(&text, time_stamp)
            found.append((<const char *> text.text)[:text.size].decode("ascii"))
        return found

    def lines(self, bytes lines not None, size_t fields):
        """Return lines of text with `TIME:OFFSET` in place of `TIME-STAMP:OFFSET`.

        Args:
            lines: whole lines as sinks write them: `ts:offset false`, `ts:offset = ts':offset'`.
                What is behind, and what is not of this form, stays as it is.
            fields: how many fields, each followed by a tab, are before the time-point.
        """
        cdef const uint8_t *start = lines
        cdef const uint8_t *stop = start + len(lines)
        cdef const uint8_t *place = start
        cdef size_t size = <size_t> len(lines)
        cdef size_t count = 1
        cdef uint8_t *written
        cdef uint8_t *end
        if size == 0:
            return lines
        with nogil:
            while place != stop:
                place = <const uint8_t *> memchr(place, c'\n', <size_t> (stop - place))
                if place == NULL:
                    break
                place += 1
                count += 1
        # a line has up to two time-points
        if count > (SIZE_MAX // 2 - size) // (2 * ISO_ROOM):
            raise MemoryError("mtlmon: out of memory")
        written = <uint8_t *> malloc(size + 2 * ISO_ROOM * count)
        if written == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            with nogil:
                end = self.put_lines(written, start, stop, fields)
            return PyBytes_FromStringAndSize(<const char *> written, end - written)
        finally:
            free(written)

    cdef uint8_t *put_lines(
        self, uint8_t *to, const uint8_t *line, const uint8_t *stop, size_t fields
    ) noexcept nogil:
        """Write the lines up to `stop`, behind which a byte is that is no digit.

        PERF: 27 ns a line, if every third line has a new time-stamp. In Python, with the distinct
        time-stamps of a block as an array, it took 840 ns.
        """
        cdef IsoText first, second
        cdef const uint8_t *end
        cdef const uint8_t *place
        cdef const uint8_t *after
        cdef size_t field
        cdef uint64_t time_stamp
        first.day = second.day = NO_DAY
        self.set_text(&first, 0)
        self.set_text(&second, 0)
        while line != stop:
            end = <const uint8_t *> memchr(line, c'\n', <size_t> (stop - line))
            end = stop if end == NULL else end + 1
            place = line
            for field in range(fields):
                after = <const uint8_t *> memchr(place, c'\t', <size_t> (end - place))
                if after == NULL:
                    place = end
                    break
                place = after + 1
            after = time_stamp_at(place, end, &time_stamp)
            if after != NULL:
                to = put_text(to, line, place)
                to = put_time(self, to, &first, time_stamp)
                line = after
                place = after + 1
                while place != end and is_digit(place[0]):
                    place += 1
                if end - place > 3 and place[0] == c' ' and place[1] == c'=' and place[2] == c' ':
                    place += 3
                    after = time_stamp_at(place, end, &time_stamp)
                    if after != NULL:
                        to = put_text(to, line, place)
                        to = put_time(self, to, &second, time_stamp)
                        line = after
            to = put_text(to, line, end)
            line = end
        return to

    cdef void set_text(self, IsoText *text, uint64_t time_stamp) noexcept nogil:
        """Set the text to that of a time-stamp."""
        cdef uint64_t second, rest, day
        cdef uint32_t of_day
        cdef uint8_t *end
        cdef int digit
        text.time_stamp = time_stamp
        if time_stamp > self.last:
            text.day = NO_DAY
            text.size = <size_t> (put_integer(text.text, time_stamp) - text.text)
            return
        second = time_stamp // self.per_second * self.seconds
        rest = time_stamp % self.per_second * self.nanoseconds
        day = second // SECONDS_OF_DAY
        if day != text.day:
            text.day = day
            put_date(text.text, day)
        of_day = <uint32_t> (second - day * SECONDS_OF_DAY)
        end = text.text + 10
        end[0] = c'T'
        put_two_digits(end + 1, of_day // 3600)
        end[3] = c':'
        put_two_digits(end + 4, of_day // 60 % 60)
        end[6] = c':'
        put_two_digits(end + 7, of_day % 60)
        end = text.text + TO_SECONDS
        if rest:
            end[0] = c'.'
            for digit in range(9, 0, -1):
                end[digit] = <uint8_t> (c'0' + rest % 10)
                rest = rest // 10
            end += 10
            while (end - 1)[0] == c'0':
                end -= 1
        end[0] = c'Z'
        text.size = <size_t> (end - text.text) + 1


cdef inline uint8_t *put_time(
    IsoWriter writer, uint8_t *to, IsoText *text, uint64_t time_stamp
) noexcept nogil:
    if time_stamp != text.time_stamp:
        writer.set_text(text, time_stamp)
    memcpy(to, text.text, ISO_ROOM)
    return to + text.size


cdef inline const uint8_t *time_stamp_at(
    const uint8_t *place, const uint8_t *end, uint64_t *time_stamp
) noexcept nogil:
    """Read a time-stamp up to its colon, and return the place of that; NULL if there is none."""
    cdef const uint8_t *after
    if place == end or not is_digit(place[0]):
        return NULL
    after = parse_number(place, time_stamp)
    if after == NULL or after == end or after[0] != c':':
        return NULL
    return after


cdef inline uint8_t *put_text(
    uint8_t *to, const uint8_t *start, const uint8_t *end
) noexcept nogil:
    memcpy(to, start, <size_t> (end - start))
    return to + (end - start)


cdef inline void put_two_digits(uint8_t *place, uint32_t number) noexcept nogil:
    place[0] = <uint8_t> (c'0' + number // 10)
    place[1] = <uint8_t> (c'0' + number % 10)


cdef void put_date(uint8_t *place, uint64_t day) noexcept nogil:
    """Write the date of a day since 1970, before the year 10000, with ten characters.

    Years are counted from March, so that a leap day is the last day of its year, of four years, and
    of 400 years.
    """
    cdef uint32_t days = <uint32_t> day + DAYS_BEFORE_1970
    cdef uint32_t centuries, leaps, years, year, month, five
    year = 400 * (days // DAYS_OF_400)
    days = days % DAYS_OF_400
    centuries = min(3, days // DAYS_OF_100)
    days -= centuries * DAYS_OF_100
    leaps = days // DAYS_OF_4
    days = days % DAYS_OF_4
    years = min(3, days // 365)
    days -= years * 365
    year += 100 * centuries + 4 * leaps + years
    # five months from March or August on have 153 days: 31, 30, 31, 30 and 31; the first month is 0
    five = days // 153
    days = days % 153
    month = 5 * five + 2 * (days // 61)
    days = days % 61
    if days >= 31:
        month += 1
        days -= 31
    month += 3
    if month > 12:
        year += 1
        month -= 12
    put_two_digits(place, year // 100)
    put_two_digits(place + 2, year % 100)
    place[4] = c'-'
    put_two_digits(place + 5, month)
    place[7] = c'-'
    put_two_digits(place + 8, days + 1)
