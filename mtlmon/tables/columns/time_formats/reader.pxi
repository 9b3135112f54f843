# cython: language_level=3
"""Read times in text columns: Arrow columns in, time-stamps out.

A time-stamp is a whole number of units of a resolution; an instant between two time-stamps becomes
the earlier one.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

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
}


@final
cdef class TimeReader:
    """Reads the times in a column of texts.

    notation: "number", "iso" or a TimeFormat.
    multiply, divide: how many units of the resolution are one unit of the numbers, or a second; one
        of them is 1. Both are 0 where the unit of numbers is not known: then they are what they
        are, and whole.
    """

    cdef Notation notation
    cdef Scale scale
    cdef TimeFormat format

    def __init__(self, notation, uint64_t multiply, uint64_t divide):
        if isinstance(notation, TimeFormat):
            self.notation = FORMATTED
            self.format = notation
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

    def read(self, TextCells cells not None, time_stamps, faults):
        """Write the time-stamp of every row, 0 if it has none; return how many rows have none.

        time_stamps: contiguous array of items of type int64.
        faults: of type uint8, for what is wrong; 0 if nothing is, else a key of FAULTS.
        """
        cdef Memory stamps = Memory(time_stamps, sizeof(int64_t), cells.count, True)
        cdef Memory marks = Memory(faults, 1, cells.count, True)
        cdef int64_t *stamp = <int64_t *> stamps.buffer.buf
        cdef uint8_t *mark = <uint8_t *> marks.buffer.buf
        cdef size_t count = 0
        cdef const uint8_t *text
        cdef const uint8_t *before = NULL
        cdef size_t length
        cdef size_t length_before = SIZE_MAX
        cdef int64_t time_stamp = 0
        cdef uint8_t status = 0
        cdef size_t k
        if cells.count > 1 and (
            stamps.buffer.strides[0] != sizeof(int64_t) or marks.buffer.strides[0] != 1
        ):
            raise ValueError("arrays have gaps between their items")
        with nogil:
            for k in range(cells.count):
                if is_cell_null(cells, k):
                    stamp[k] = 0
                    mark[k] = MISSING
                    count += 1
                    continue
                text = cell_text(cells, k, &length)
                # PERF: rows with the same time-stamp follow each other
                if length == length_before and memcmp(text, before, length) == 0:
                    stamp[k] = time_stamp
                    mark[k] = status
                else:
                    time_stamp = 0
                    status = <uint8_t> self.read_text(text, text + length, &time_stamp)
                    stamp[k] = time_stamp
                    mark[k] = status
                    before = text
                    length_before = length
                count += status != PARSED
        return count

    cdef ParseStatus read_text(
        self, const uint8_t *text, const uint8_t *end, int64_t *time_stamp
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
        elif self.notation == ISO_8601:
            status = read_iso(text, end, &instant)
        else:
            status = read_formatted(self.format, text, end, &instant)
        return to_time_stamp(instant, self.scale, time_stamp) if status == PARSED else status
