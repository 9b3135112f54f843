# cython: language_level=3
"""The reader of verdict lines: blocks of bytes in, verdict records out.

A line is `ts:offset true`, `ts:offset false` or `ts:offset = ts':offset'`, where ts':offset' is the
earlier time-point. Fields may precede it, each followed by a tab (a policy, a key). Tabs, line
feeds and backslashes within fields are escaped, so fields are compared and written without
decoding.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

from mtlmon.engine.native cimport VERDICT_EQUIVALENT, VERDICT_FALSE, VERDICT_TRUE, VerdictRecord

from mtlmon.text.excerpt import describe
from mtlmon.errors import LogError

cdef enum:
    LONGEST_VERDICT_LINE = 1 << 20
    # 2^64 - 1 has 20 digits
    LONGEST_NUMBER = 20

_MESSAGES = {
    NO_TIME_STAMP: "expected a time-stamp, found {found}",
    TIME_STAMP_TOO_LARGE: "a time-stamp is an integer from 0 to 2^63-1",
    NO_COLON: "expected ':' between time-stamp and offset, found {found}",
    NO_OFFSET: "expected an offset, found {found}",
    OFFSET_TOO_LARGE: "an offset is an integer from 0 to 2^64-1",
    NO_VALUE: "expected ' true', ' false' or ' = TIME-STAMP:OFFSET', found {found}",
    NO_REFERENCE: "expected the time-point that this one is equivalent to, found {found}",
    REFERENCE_NOT_EARLIER: "a time-point is equivalent to an earlier one",
    AFTER_VERDICT: "expected the end of the line, found {found}",
    RESERVED: "'!' changes what was said before: add --changelog",
    HAS_VARIABLES: "a verdict of a policy with variables: add --changelog",
    LINE_TOO_LONG: "a line of more than 1 MiB",
}


@cython.final
cdef class VerdictLines:
    """Reads verdict lines.

    path: the file's name in error messages.

    Attributes:
        line_count: the number of lines read.
    """

    def __cinit__(self, str path not None="<verdicts>"):
        self.path = path

    def __dealloc__(self):
        free(self.carry)

    cdef void load(self, const uint8_t *data, size_t size) noexcept nogil:
        """Load a block to read; it must stay valid until `read` returns LINE_NONE."""
        self.rest = data
        self.limit = data + size

    cdef void load_end(self) noexcept nogil:
        """End the last line, if its line feed is missing."""
        self.load(<const uint8_t *> b"\n", 1 if self.carry_size > 0 else 0)

    cdef LineStatus read(self, VerdictRecord *verdict) noexcept nogil:
        """Read the next line that is not blank."""
        cdef const uint8_t *place
        cdef const uint8_t *end
        cdef const uint8_t *tab
        while self.error == NO_ERROR and self.next_line():
            self.line_count += 1
            place = self.line
            end = self.line_end
            if end != place and (end - 1)[0] == c'\r':
                end -= 1
            if place == end:
                continue
            self.prefix = place
            self.prefix_size = 0
            # a key may begin like a time-stamp, so a line that fails is parsed once more
            if self.parse(place, end, verdict):
                return LINE_READ
            tab = last_tab(place, end)
            if tab != NULL:
                self.error = NO_ERROR
                place = tab + 1
                self.prefix_size = <size_t> (place - self.prefix)
                if self.parse(place, end, verdict):
                    return LINE_READ
            if place[0] == c'!':
                self.fail(RESERVED, place)
            return LINE_ERROR
        return LINE_NONE if self.error == NO_ERROR else LINE_ERROR

    cdef bint next_line(self) noexcept nogil:
        """Set `line` and `line_end` to the next complete line; False if there is none."""
        cdef const uint8_t *line_feed
        cdef size_t size = <size_t> (self.limit - self.rest)
        if self.carry_is_line:
            self.carry_is_line = False
            self.carry_size = 0
        if size == 0:
            return False
        line_feed = <const uint8_t *> memchr(self.rest, c'\n', size)
        if line_feed != NULL:
            size = <size_t> (line_feed - self.rest) + 1
        self.line = self.rest
        self.rest += size
        if line_feed != NULL and self.carry_size == 0:
            self.line_end = line_feed
            return True
        if not self.keep(self.line, size):
            return False
        if line_feed == NULL:
            return False
        self.carry_is_line = True
        self.line = self.carry
        self.line_end = self.carry + self.carry_size - 1
        return True

    cdef bint keep(self, const uint8_t *data, size_t size) noexcept nogil:
        """Append a piece of a line to the carry; False on an error."""
        cdef size_t room
        cdef void *larger
        if self.carry_size + size > LONGEST_VERDICT_LINE:
            self.line_count += 1
            self.line = self.carry
            self.line_end = self.carry + self.carry_size
            return self.fail(LINE_TOO_LONG, self.carry)
        if self.carry_size + size > self.carry_room:
            room = max(2 * self.carry_room, self.carry_size + size)
            larger = realloc(self.carry, room)
            if larger == NULL:
                return self.fail(OUT_OF_MEMORY, self.carry)
            self.carry = <uint8_t *> larger
            self.carry_room = room
        memcpy(self.carry + self.carry_size, data, size)
        self.carry_size += size
        return True

    cdef bint parse(
        self, const uint8_t *place, const uint8_t *end, VerdictRecord *verdict
    ) noexcept nogil:
        """Read a verdict that ends at `end`, where a carriage return or a line feed is."""
        place = self.parse_time_point(place, &verdict.time_stamp, &verdict.offset)
        if place == NULL:
            return False
        if end - place >= 5 and memcmp(place, b" true", 5) == 0:
            verdict.kind = VERDICT_TRUE
            place += 5
        elif end - place >= 6 and memcmp(place, b" false", 6) == 0:
            verdict.kind = VERDICT_FALSE
            place += 6
        elif end - place >= 3 and memcmp(place, b" = ", 3) == 0:
            verdict.kind = VERDICT_EQUIVALENT
            if not is_digit(place[3]):
                return self.fail(NO_REFERENCE, place + 3)
            place = self.parse_time_point(
                place + 3, &verdict.reference_time_stamp, &verdict.reference_offset
            )
            if place == NULL:
                return False
            if not is_earlier_reference(verdict):
                return self.fail(REFERENCE_NOT_EARLIER, place - 1)
        elif end - place >= 6 and memcmp(place, b" match", 6) == 0:
            return self.fail(HAS_VARIABLES, place + 1)
        else:
            return self.fail(NO_VALUE, place)
        if end - place >= 2 and memcmp(place, b" (", 2) == 0:
            return self.fail(HAS_VARIABLES, place + 1)
        return True if place == end else self.fail(AFTER_VERDICT, place)

    cdef const uint8_t *parse_time_point(
        self, const uint8_t *place, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil:
        """Read `ts:offset` and return the place after it; NULL on an error."""
        cdef const uint8_t *start = place
        if not is_digit(place[0]):
            self.fail(NO_TIME_STAMP, place)
            return NULL
        place = parse_number(place, time_stamp)
        if place == NULL or time_stamp[0] > LARGEST_TIME_STAMP:
            self.fail(TIME_STAMP_TOO_LARGE, start)
            return NULL
        if place[0] != c':':
            self.fail(NO_COLON, place)
            return NULL
        start = place + 1
        if not is_digit(start[0]):
            self.fail(NO_OFFSET, start)
            return NULL
        place = parse_number(start, offset)
        if place == NULL:
            self.fail(OFFSET_TOO_LARGE, start)
        return place

    cdef bint fail(self, LineError error, const uint8_t *place) noexcept nogil:
        self.error = error
        self.error_place = place
        return False

    cdef object failure(self, str message=None):
        """The error of the last line read: its own error, or one with this message."""
        if self.error == OUT_OF_MEMORY:
            return MemoryError()
        line = <bytes> self.line[:self.line_end - self.line]
        place = 0
        if message is None:
            message = _MESSAGES[<int> self.error]
            place = self.error_place - self.line
        is_at_end = place >= len(line.removesuffix(b"\r"))
        found = "the end of the line" if is_at_end else "{character}"
        message, column = describe(message.replace("{found}", found), line, place)
        return LogError(message, path=self.path, line=self.line_count, column=column)


cdef inline const uint8_t *parse_number(const uint8_t *place, uint64_t *value) noexcept nogil:
    """Read digits, at least one; NULL if the number has more than 64 bits."""
    cdef const uint8_t *start = place
    cdef uint64_t number = 0
    cdef uint64_t digit
    while is_digit(place[0]):
        digit = <uint64_t> (place[0] - c'0')
        if place - start >= LONGEST_NUMBER - 1 and (
            place - start >= LONGEST_NUMBER or number > (<uint64_t> -1 - digit) // 10
        ):
            return NULL
        number = 10 * number + digit
        place += 1
    value[0] = number
    return place


cdef inline bint is_earlier_reference(const VerdictRecord *verdict) noexcept nogil:
    if verdict.reference_time_stamp != verdict.time_stamp:
        return verdict.reference_time_stamp < verdict.time_stamp
    return verdict.reference_offset < verdict.offset


cdef const uint8_t *last_tab(const uint8_t *start, const uint8_t *end) noexcept nogil:
    """The last tab before `end`, or NULL if there is none."""
    while end != start:
        end -= 1
        if end[0] == c'\t':
            return end
    return NULL
