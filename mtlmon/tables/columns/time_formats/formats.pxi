# cython: language_level=3
"""Read times in a format of `strptime`, exactly.

Names of months and days are English, whatever the locale. A directive reads the same as in Python,
except that `%f` takes any number of digits and `%z` takes all forms of ISO 8601.
"""

from cython cimport final
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset


# The expansions of some directives.
_LONG = {
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "h": "%b",
    "e": "%d",
    "n": " ",
    "t": " ",
}
_DIRECTIVES = "YymdHIMSfpbBaAjszZ"

cdef const uint8_t *MONTHS = (
    b"january\0  february\0 march\0    april\0    may\0      june\0     "
    b"july\0     august\0   september\0october\0  november\0 december\0 "
)
cdef const uint8_t *WEEKDAYS = (
    b"monday\0   tuesday\0  wednesday\0thursday\0 friday\0   saturday\0 sunday\0   "
)

cdef enum:
    NAME_SIZE = 10
    # the first leap year: a log without years can have any date
    YEAR_IF_UNKNOWN = 1972


cdef struct Parts:
    uint64_t year, month, day, day_of_year
    uint64_t hour, minute, second, fraction
    int64_t offset
    int64_t seconds         # since 1970, if has_seconds
    bint has_seconds, has_day_of_year, is_twelve_hours, is_afternoon


@final
cdef class TimeFormat:
    """A format such as `%d/%b/%Y:%H:%M:%S %z`.

    Without a year, the year is 1972; without any date, the date is 1970-01-01; without an offset,
    the time is UTC.

    Raises ValueError: a directive is unknown, or the format leaves the time of day open.
    """

    def __init__(self, str text not None):
        cdef str rest = text
        cdef str directive
        cdef list steps = []
        cdef set directives = set()
        while rest:
            if rest[0] != "%":
                if rest[0].isspace():
                    rest = rest.lstrip()
                    steps.append(b"  ")
                else:
                    for byte in rest[0].encode():
                        steps.append(bytes([0, byte]))
                    rest = rest[1:]
                continue
            directive, rest = rest[1:2], rest[2:]
            if directive in _LONG:
                rest = _LONG[directive] + rest
            elif directive == "%":
                steps.append(b"\0%")
            elif directive and directive in _DIRECTIVES:
                directives.add(directive)
                steps.append(b"%" + directive.encode())
            else:
                raise ValueError(
                    f"'%{directive}' is not among the directives "
                    + " ".join(f"%{known}" for known in _DIRECTIVES + "".join(_LONG) + "%")
                )
        if not directives - set("fpaAzZ"):
            raise ValueError(f"the format {text!r} has neither a date nor a time of day")
        self.text = text
        self.steps = b"".join(steps)
        self.place = self.steps
        self.size = <size_t> len(self.steps)
        self.has_date = bool(directives & set("Yymbdj"))


cdef ParseStatus read_formatted(
    TimeFormat format, const uint8_t *text, const uint8_t *end, Instant *instant
) noexcept nogil:
    cdef Parts parts
    cdef const uint8_t *step = format.place
    cdef const uint8_t *last = step + format.size
    memset(&parts, 0, sizeof(parts))
    parts.month = parts.day = 1
    parts.year = YEAR_IF_UNKNOWN if format.has_date else 1970
    while step < last:
        if step[0] == c" ":
            while text < end and (text[0] == c" " or text[0] == c"\t"):
                text += 1
        elif step[0] == 0:
            if text == end or text[0] != step[1]:
                return UNREADABLE
            text += 1
        elif not read_directive(step[1], &text, end, &parts):
            return UNREADABLE
        step += 2
    if text < end:
        return UNREADABLE
    return assemble(&parts, instant)


cdef ParseStatus assemble(Parts *parts, Instant *instant) noexcept nogil:
    cdef int64_t days
    if parts.is_twelve_hours:
        if parts.hour < 1 or parts.hour > 12:
            return UNREADABLE
        parts.hour = parts.hour % 12 + 12 * parts.is_afternoon
    if parts.hour > 23 or parts.minute > 59 or parts.second > 59:
        return UNREADABLE
    if parts.has_seconds:
        instant[0] = instant_of_seconds(parts.seconds, parts.fraction)
        return PARSED
    if not is_date(parts.year, parts.month, parts.day):
        return UNREADABLE
    days = days_before(parts.year, parts.month, parts.day)
    if parts.has_day_of_year:
        days = days_before(parts.year, 1, 1) + <int64_t> parts.day_of_year - 1
        if parts.day_of_year == 0 or days >= days_before(parts.year + 1, 1, 1):
            return UNREADABLE
    instant[0] = instant_of_seconds(
        86400 * days + <int64_t> (3600 * parts.hour + 60 * parts.minute + parts.second)
        - parts.offset,
        parts.fraction,
    )
    return PARSED


cdef bint read_directive(
    uint8_t directive, const uint8_t **place, const uint8_t *end, Parts *parts
) noexcept nogil:
    cdef uint64_t number
    if directive == c"Y":
        return read_digits(place, end, 4, 4, &parts.year)
    if directive == c"m":
        return read_digits(place, end, 1, 2, &parts.month)
    if directive == c"d":
        # as with `%e`, with a blank for the first digit
        if place[0] < end and place[0][0] == c" ":
            place[0] += 1
        return read_digits(place, end, 1, 2, &parts.day)
    if directive == c"H":
        return read_digits(place, end, 1, 2, &parts.hour)
    if directive == c"M":
        return read_digits(place, end, 1, 2, &parts.minute)
    if directive == c"S":
        return read_digits(place, end, 1, 2, &parts.second)
    if directive == c"f":
        if place[0] == end or not is_digit(place[0][0]):
            return False
        parts.fraction = read_fraction(place, end)
        return True
    if directive == c"b" or directive == c"B":
        return read_name(place, end, MONTHS, 12, &parts.month)
    if directive == c"a" or directive == c"A":
        return read_name(place, end, WEEKDAYS, 7, &number)
    if directive == c"z":
        return read_zone(place, end, &parts.offset)
    return read_rare_directive(directive, place, end, parts)


cdef bint read_rare_directive(
    uint8_t directive, const uint8_t **place, const uint8_t *end, Parts *parts
) noexcept nogil:
    cdef const uint8_t *text = place[0]
    cdef uint64_t number
    if directive == c"y":
        if not read_digits(place, end, 2, 2, &number):
            return False
        parts.year = number + (1900 if number >= 69 else 2000)
        return True
    if directive == c"I":
        parts.is_twelve_hours = True
        return read_digits(place, end, 1, 2, &parts.hour)
    if directive == c"p":
        if end - text < 2 or text[1] | 32 != c"m":
            return False
        parts.is_afternoon = text[0] | 32 == c"p"
        place[0] += 2
        return parts.is_afternoon or text[0] | 32 == c"a"
    if directive == c"j":
        parts.has_day_of_year = True
        return read_digits(place, end, 1, 3, &parts.day_of_year)
    if directive == c"s":
        parts.has_seconds = True
        if not read_digits(place, end, 1, 18, &number):
            return False
        parts.seconds = <int64_t> number
        return True
    # %Z
    if end - text >= 3 and (
        text[0] == c"U" and text[1] == c"T" and text[2] == c"C"
        or text[0] == c"G" and text[1] == c"M" and text[2] == c"T"
    ):
        place[0] += 3
        return True
    if text < end and text[0] == c"Z":
        place[0] += 1
        return True
    return False


cdef bint read_name(
    const uint8_t **place, const uint8_t *end, const uint8_t *names, size_t count,
    uint64_t *number
) noexcept nogil:
    """Read a name of a list, in full or its first three letters; return its number, from 1."""
    cdef const uint8_t *text = place[0]
    cdef const uint8_t *name
    cdef size_t k, length
    for k in range(count):
        name = names + k * NAME_SIZE
        length = 0
        while name[length] and text + length < end and text[length] | 32 == name[length]:
            length += 1
        if length >= 3:
            place[0] += 3 if name[length] else length
            number[0] = k + 1
            return True
    return False
