# cython: language_level=3
"""Read times in text columns: Arrow columns in, time-stamps out.

A time-stamp is a whole number of units of a resolution; an instant between two time-stamps becomes
the earlier one, and the rest tells such instants apart.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memset

from mtlmon.arrays.native cimport Memory, TextCells, cell_text, is_cell_null


cdef enum Notation:
    NUMBERS
    ISO_8601
    FORMATTED


FAULTS = {
    MISSING: "missing",
    UNREADABLE: "unreadable",
    NEGATIVE: "negative",
    TOO_LARGE: "too large",
    FRACTIONAL: "fractional",
    LEAP_DAY: "leap day",
    SKIPPED: "skipped",
    REPEATED: "repeated",
}

_REPEATED = {
    "order": BY_ORDER,
    "first": FIRST,
    "second": SECOND,
    "neither": NEITHER,
}


cdef struct Column:
    # the rows that are written, the number of faults, and the local time whose offset is not known
    int64_t *stamps
    uint8_t *marks
    int64_t *rests
    size_t faults
    bint has_rest
    int64_t unreached


@final
cdef class TimeReader:
    """Reads the times in a column of texts, whose rows come in their order.

    notation: "number", "iso" or a TimeFormat.
    multiply, divide: how many units of the resolution are one unit of the numbers, or a second; one
        of them is 1. Both are 0 where the unit of numbers is not known: then they are what they
        are, and whole.
    unit: the nanoseconds in a unit of the numbers, or in a second; 0 if that is not known.
    offsets: for times without an offset, a function that returns the offsets of their zone: for the
        local seconds since 1970 of a time, the first and the last local second for which they hold,
        the instants from which each one holds, and the offsets in seconds. None for UTC.
    repeated: which one of two hours that have the same local times is meant: "first", "second", or
        the one that fits the "order" of rows; "neither" makes them faults.
    disorder: for "order", how many seconds rows may come late.

    Attributes:
        steps: how many times the rows have gone on to the next year, or day, that is not written.
        doubtful: how many rows were in an hour that occurs twice.
        second_hours: how many of these are in its second one.
        has_local: whether a time without an offset has been read.
    """

    cdef Notation notation
    cdef Scale scale
    cdef TimeFormat format
    cdef bint in_cycles
    cdef Cycles cycles
    cdef bint has_zone
    # whether a time without an offset has been read
    cdef readonly bint has_local
    cdef object offsets
    cdef Zone zone

    def __init__(
        self, notation, uint64_t multiply, uint64_t divide, uint64_t unit, offsets, str repeated,
        int64_t disorder
    ):
        if isinstance(notation, TimeFormat):
            self.notation = FORMATTED
            self.format = notation
            self.in_cycles = not (self.format.has_date and self.format.has_year)
        elif notation == "number":
            self.notation = NUMBERS
        elif notation == "iso":
            self.notation = ISO_8601
        else:
            raise ValueError(f"no notation of times: {notation!r}")
        if multiply > 1 and divide > 1:
            raise ValueError("units are multiples of each other")
        self.scale.multiply = multiply
        self.scale.divide = divide
        self.scale.unit = unit
        self.offsets = offsets
        self.has_zone = offsets is not None and self.notation != NUMBERS
        self.zone.repeated = _REPEATED[repeated]
        self.zone.disorder = disorder

    @property
    def steps(self):
        return self.cycles.steps

    @property
    def doubtful(self):
        return self.zone.doubtful

    @property
    def second_hours(self):
        return self.zone.seconds

    def read(self, TextCells cells not None, time_stamps, faults, rests):
        """Write the time-stamp of every row, 0 if it has none.

        time_stamps: contiguous array of items of type int64.
        faults: of type uint8, for what is wrong; 0 if nothing is, else a key of FAULTS.
        rests: of type int64, all 0, for what is left of times behind their time-stamps; it is
            written only where that is not 0.

        Returns how many rows have no time-stamp, and whether some have a rest.
        """
        cdef Memory stamps = Memory(time_stamps, sizeof(int64_t), cells.count, True)
        cdef Memory marks = Memory(faults, 1, cells.count, True)
        cdef Memory rest_of_rows = Memory(rests, sizeof(int64_t), cells.count, True)
        cdef Column column
        cdef size_t done = 0
        if cells.count > 1 and (
            stamps.buffer.strides[0] != sizeof(int64_t)
            or marks.buffer.strides[0] != 1
            or rest_of_rows.buffer.strides[0] != sizeof(int64_t)
        ):
            raise ValueError("arrays have gaps between their items")
        memset(&column, 0, sizeof(column))
        column.stamps = <int64_t *> stamps.buffer.buf
        column.marks = <uint8_t *> marks.buffer.buf
        column.rests = <int64_t *> rest_of_rows.buffer.buf
        while done < cells.count:
            with nogil:
                done = self.read_rows(cells, done, &column)
            if done < cells.count:
                self.set_offsets(column.unreached)
        return column.faults, column.has_rest

    cdef void set_offsets(self, int64_t local) except *:
        """Get the offsets of the zone at a local time."""
        cdef ZoneOffsets offsets
        cdef size_t k
        first, last, starts, found = self.offsets(local)
        if not (len(starts) == len(found) and 0 < len(found) <= MOST_OFFSETS):
            raise ValueError("too many offsets, or none")
        if not first <= local <= last:
            raise ValueError("these are not the offsets that were asked for")
        offsets.first = first
        offsets.last = last
        offsets.count = len(found)
        for k in range(offsets.count):
            offsets.starts[k] = starts[k]
            offsets.offsets[k] = found[k]
        self.zone.offsets = offsets
        self.zone.place = 0

    cdef size_t read_rows(self, TextCells cells, size_t k, Column *column) noexcept nogil:
        """Read the rows from one on; return the row whose offset is not known, or their number."""
        cdef const uint8_t *text
        cdef const uint8_t *before = NULL
        cdef size_t length
        cdef size_t length_before = SIZE_MAX
        cdef int64_t time_stamp = 0
        cdef int64_t rest = 0
        cdef uint8_t status = 0
        cdef Cycles cycles
        # PERF: what is behind a pointer is read again after each row that is written
        cdef int64_t *stamps = column.stamps
        cdef uint8_t *marks = column.marks
        cdef size_t faults = 0
        cdef size_t count = cells.count
        while k < count:
            if is_cell_null(cells, k):
                stamps[k] = 0
                marks[k] = MISSING
                faults += 1
                k += 1
                continue
            text = cell_text(cells, k, &length)
            # PERF: rows with the same time-stamp follow each other
            if not (length == length_before and memcmp(text, before, length) == 0):
                time_stamp = 0
                rest = 0
                if self.has_zone:
                    cycles = self.cycles
                status = <uint8_t> self.read_text(
                    text, text + length, &time_stamp, &rest, &column.unreached
                )
                if status == UNREACHED:
                    self.cycles = cycles
                    break
                before = text
                length_before = length
            stamps[k] = time_stamp
            marks[k] = status
            faults += status != PARSED
            if rest:
                column.rests[k] = rest
                column.has_rest = True
            k += 1
        column.faults += faults
        return k

    cdef inline ParseStatus read_text(
        self, const uint8_t *text, const uint8_t *end, int64_t *time_stamp, int64_t *rest,
        int64_t *unreached
    ) noexcept nogil:
        cdef Instant instant
        cdef ParseStatus status
        while text < end and (text[0] == c" " or text[0] == c"\t"):
            text += 1
        while text < end and ((end - 1)[0] == c" " or (end - 1)[0] == c"\t"):
            end -= 1
        if text == end:
            return MISSING
        if self.notation == NUMBERS:
            status = read_number(text, end, &instant)
        else:
            status = self.read_calendar(text, end, &instant, unreached)
        if status != PARSED:
            return status
        status = to_time_stamp(instant, self.scale, time_stamp)
        if status == PARSED and (instant.fraction or self.scale.divide > 1):
            rest[0] = rest_of(instant, self.scale)
        return status

    cdef ParseStatus read_calendar(
        self, const uint8_t *text, const uint8_t *end, Instant *instant, int64_t *unreached
    ) noexcept nogil:
        cdef ParseStatus status
        if self.notation == ISO_8601:
            status = read_iso(text, end, instant)
        else:
            status = self.read_formatted(text, end, instant)
        if status == PARSED:
            self.has_local |= instant.is_local
            if self.has_zone:
                status = self.in_zone(instant, unreached)
        return status

    cdef ParseStatus read_formatted(
        self, const uint8_t *text, const uint8_t *end, Instant *instant
    ) noexcept nogil:
        cdef Parts parts
        if self.format.or_iso and is_digit(text[0]):
            return read_iso(text, end, instant)
        if not read_parts(self.format, text, end, &parts):
            return UNREADABLE
        if self.in_cycles:
            return in_cycle(&self.cycles, self.format, &parts, instant)
        return assemble(&parts, <int64_t> parts.year, instant)

    cdef ParseStatus in_zone(self, Instant *instant, int64_t *unreached) noexcept nogil:
        """Make an instant of a local time, by the offsets of the zone."""
        cdef ParseStatus status
        cdef int64_t local
        if instant.is_local:
            local = seconds_of(instant)
            if local < -2 * DAY:
                return NEGATIVE
            if not self.zone.offsets.first <= local <= self.zone.offsets.last or (
                self.zone.offsets.count == 0
            ):
                unreached[0] = local
                return UNREACHED
            status = from_zone(&self.zone, instant)
            if status != PARSED:
                return status
        self.zone.has_before = True
        self.zone.before = seconds_of(instant)
        return PARSED
