# cython: language_level=3
"""Read times in a format of `strptime`, exactly.

Names of months and days are English, whatever the locale. A directive reads the same as in Python,
except that `%f` takes any number of digits and `%z` takes all forms of ISO 8601.
"""

import re

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
_OR_ISO = "iso|"
# The year in which a log begins, behind a format without years.
_FIRST_YEAR = re.compile(r"(.*):([0-9]{4})", re.DOTALL)

cdef const uint8_t *MONTHS = (
    b"january\0  february\0 march\0    april\0    may\0      june\0     "
    b"july\0     august\0   september\0october\0  november\0 december\0 "
)
cdef const uint8_t *WEEKDAYS = (
    b"monday\0   tuesday\0  wednesday\0thursday\0 friday\0   saturday\0 sunday\0   "
)

cdef enum:
    NAME_SIZE = 10


@final
cdef class TimeFormat:
    """A format such as `%d/%b/%Y:%H:%M:%S %z`.

    `%.f` is a fraction of a second with its point, or nothing. Before a format, `iso|` lets times
    be written as in ISO 8601, too. Behind one without years, `:2024` is the year in which the log
    begins; if that is not told, years have 365 days, and the first one is ASSUMED_YEAR. Without any
    date, the first date is 1970-01-01.

    Raises ValueError: a directive is unknown, or the format leaves the time open.
    """

    def __init__(self, str text not None):
        cdef set directives
        self.or_iso = text.startswith(_OR_ISO)
        text = text.removeprefix(_OR_ISO)
        directives = self.set_steps(text)
        self.has_year = bool(directives & set("Yys"))
        self.has_date = bool(directives & set("Yymbdjs"))
        if self.has_date and not self.has_year and (found := _FIRST_YEAR.fullmatch(text)):
            self.first_year = int(found[2])
            if self.first_year < 1970:
                raise ValueError(f"a log does not begin in {found[2]}, as times begin in 1970")
            text = found[1]
            self.set_steps(text)
        if not directives - set("fpaAzZ"):
            raise ValueError(f"the format {text!r} has neither a date nor a time of day")
        _require_clear(directives)
        self.text = text
        self.cycle = 0
        if not self.has_date:
            self.cycle = DAY if directives & set("HI") else 3600 if "M" in directives else 60

    def set_steps(self, str rest):
        """Set the steps of a format, and return its directives."""
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
            if rest.startswith("%.f"):
                rest = rest[3:]
                steps.append(b"%.")
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
        self.steps = b"".join(steps)
        self.place = self.steps
        self.size = <size_t> len(self.steps)
        return directives


def _require_clear(set directives):
    """Raise ValueError if directives contradict each other or leave a part of the time open."""
    if "H" in directives and directives & set("Ip"):
        raise ValueError(
            "%H is an hour from 0 to 23, which has no %p beside it: write %I for hours from 1 to 12"
        )
    if "I" in directives and "p" not in directives:
        raise ValueError(
            "%I is an hour from 1 to 12: write %p for AM or PM, or %H for hours from 0 to 23"
        )
    if "p" in directives and "I" not in directives:
        raise ValueError("%p is AM or PM of an hour from 1 to 12: write %I for that")
    if "d" in directives and not directives & set("mbBs"):
        raise ValueError("%d is a day of a month: write %m or %b for that")
    if directives & set("Yymb") and directives & set("HI") and not directives & set("djs"):
        raise ValueError("there is an hour, but no day: write %d for the day of the month")


cdef bint read_parts(
    TimeFormat format, const uint8_t *text, const uint8_t *end, Parts *parts
) noexcept nogil:
    """Read what is written; False if it is not written in the format."""
    cdef const uint8_t *step = format.place
    cdef const uint8_t *last = step + format.size
    memset(parts, 0, sizeof(parts[0]))
    parts.month = parts.day = 1
    parts.year = 1970
    while step < last:
        if step[0] == c" ":
            while text < end and (text[0] == c" " or text[0] == c"\t"):
                text += 1
        elif step[0] == 0:
            if text == end or text[0] != step[1]:
                return False
            text += 1
        elif not read_directive(step[1], &text, end, parts):
            return False
        step += 2
    if text < end:
        return False
    if parts.is_twelve_hours:
        if parts.hour < 1 or parts.hour > 12:
            return False
        parts.hour = parts.hour % 12 + 12 * parts.is_afternoon
    return parts.hour <= 23 and parts.minute <= 59 and parts.second <= LEAP_SECOND


cdef ParseStatus assemble(const Parts *parts, int64_t year, Instant *instant) noexcept nogil:
    """Return the instant of what is written, in a year.

    Returns LEAP_DAY if the year has no such day, but leap years have it.
    """
    cdef int64_t days
    if parts.has_seconds:
        instant[0] = instant_of_seconds(parts.seconds, parts.fraction)
        return PARSED
    if parts.has_day_of_year:
        days = days_before(year, 1, 1) + <int64_t> parts.day_of_year - 1
        if parts.day_of_year == 0 or parts.day_of_year > 366:
            return UNREADABLE
        if days >= days_before(year + 1, 1, 1):
            return LEAP_DAY
    elif is_date(year, parts.month, parts.day):
        days = days_before(year, parts.month, parts.day)
    else:
        return LEAP_DAY if parts.month == 2 and parts.day == 29 else UNREADABLE
    instant[0] = instant_of_seconds(
        DAY * days + <int64_t> (3600 * parts.hour + 60 * parts.minute + parts.second)
        - parts.offset,
        parts.fraction,
    )
    instant.is_local = not parts.has_offset
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
        parts.has_offset = True
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
    if directive == c".":
        if text < end and (text[0] == c"." or text[0] == c","):
            place[0] += 1
            return read_directive(c"f", place, end, parts)
        return True
    # %Z
    parts.has_offset = True
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
