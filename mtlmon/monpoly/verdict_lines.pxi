# cython: language_level=3
"""Writes verdicts as MonPoly does: `@5 (time point 2): ("a",1e+08) ("b",2.5)`."""

from cpython.mem cimport PyMem_Free
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strlen

from mtlmon.arrays.native cimport KeyTable, Text
from mtlmon.engine.native cimport reserve
from mtlmon.relational.native cimport (
    FLOAT_CELL as FLOATS, HOLDS, INTEGER_CELL as INTEGERS, TEXT_CELL as TEXTS, Answer, AnswerBlock,
    compare_rows, sort_rows,
)
from mtlmon.relational.output.native cimport LONGEST_VALUE, put_integer, put_natural
from mtlmon.text.native cimport LINE_ROOM, Writer

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char format, int precision, int flags, int *kind)
    int Py_DTSF_ADD_DOT_0

cdef enum:
    OF_INT
    OF_FLOAT
    OF_STRING
    OF_REGEXP
    # the digits of a float that are written
    FLOAT_DIGITS = 6

_TYPES = {"int": OF_INT, "float": OF_FLOAT, "string": OF_STRING, "regexp": OF_REGEXP}
_KINDS = {"integer": INTEGERS, "float": FLOATS, "text": TEXTS}


@final
cdef class VerdictLines:
    """Writes the answers about the only policy of a plan.

    Time-points without valuations have no line. Those of a time-point are in the order of their
    values.

    columns: for each value of a row, the place of its variable among those of the policy, its type
        in MonPoly, and the kind of its cells.
    variable_count: how many variables the policy has.
    texts: the texts by number.

    Attributes:
        writer: holds the lines until they are taken or flushed.
    """

    def __cinit__(self, columns, uint32_t variable_count, KeyTable texts not None):
        cdef size_t k
        columns = list(columns)
        self.writer = Writer()
        self.texts = texts
        self.variable_count = variable_count
        self.width = self.rows.width = <uint32_t> len(columns)
        self.columns = <WrittenColumn *> calloc(self.width + 1, sizeof(WrittenColumn))
        self.kinds = <uint32_t *> calloc(self.width + 1, sizeof(uint32_t))
        if self.columns == NULL or self.kinds == NULL:
            raise MemoryError("mtlmon: out of memory")
        for k, (place, type, kind) in enumerate(columns):
            if not 0 <= place < variable_count:
                raise ValueError(f"there is no variable {place}")
            if (kind == "text") != (type in ("string", "regexp")):
                raise ValueError(f"a value of the kind {kind} is no {type}")
            self.columns[k].place = place
            self.columns[k].type = _TYPES[type]
            self.kinds[k] = _KINDS[kind]

    def __dealloc__(self):
        free(self.columns)
        free(self.kinds)
        free(self.rows.cells)
        free(self.order)
        free(self.spare)

    def put(self, AnswerBlock answers not None):
        """Write the answers, and take them out of the block."""
        cdef size_t k = 0
        if answers.policy_count != 1 or answers.widths[0] != self.variable_count:
            raise ValueError("answers of another policy")
        with nogil:
            while k < answers.count:
                if answers.answers[k].kind == HOLDS:
                    k += 1
                else:
                    k = self.put_point(answers, k)
        answers.clear()

    def close(self):
        """Do nothing: all lines are written."""

    cdef size_t put_point(self, AnswerBlock answers, size_t first) except 0 nogil:
        """Write the line of a time-point; return the number of the first answer behind it."""
        cdef const Answer *answer = &answers.answers[first]
        cdef const int64_t *cells
        cdef int64_t *row
        cdef size_t next = first
        cdef size_t k
        cdef uint8_t *place
        self.rows.count = 0
        while next < answers.count and answers.answers[next].point == answer.point and (
            answers.answers[next].kind != HOLDS
        ):
            cells = answers.values + answers.answers[next].start
            reserve(
                <void **> &self.rows.cells, &self.cell_room,
                (self.rows.count + 1) * self.width + 1, sizeof(int64_t)
            )
            row = self.rows.cells + self.rows.count * self.width
            for k in range(self.width):
                row[k] = cells[self.columns[k].place]
            self.rows.count += 1
            next += 1
        if not self.writer.reserve(1):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        place = self.writer.data + self.writer.size
        place[0] = c'@'
        place = put_natural(place + 1, <uint64_t> answer.time_stamp)
        place = put_bytes(place, " (time point ", 13)
        place = put_natural(place, answer.point)
        place = put_bytes(place, "):", 2)
        if self.width == 0:
            place = put_bytes(place, " true", 5)
        self.writer.size = <size_t> (place - self.writer.data)
        if self.width:
            self.sort()
            for k in range(self.rows.count):
                self.put_row(self.rows.cells + self.order[k] * self.width)
        if not self.writer.append(<const uint8_t *> "\n", 1):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        return next

    cdef int sort(self) except -1 nogil:
        """Find the order of the rows. Mostly they are in order, as the engine sorts them, too."""
        cdef size_t count = self.rows.count
        cdef bint is_sorted = True
        cdef size_t k
        reserve(<void **> &self.order, &self.order_room, count, sizeof(uint32_t))
        for k in range(count):
            self.order[k] = <uint32_t> k
            if k and is_sorted:
                is_sorted = compare_rows(
                    self.texts, self.kinds, self.width, self.rows.cells + (k - 1) * self.width,
                    self.rows.cells + k * self.width
                ) <= 0
        if not is_sorted:
            reserve(<void **> &self.spare, &self.spare_room, count, sizeof(uint32_t))
            sort_rows(self.texts, self.kinds, &self.rows, self.order, self.spare)
        return 0

    cdef int put_row(self, const int64_t *cells) except -1 nogil:
        """Write a row, and a blank before it."""
        cdef size_t room = 3 + self.width * (LONGEST_VALUE + 1)
        cdef size_t k
        cdef uint8_t *place
        for k in range(self.width):
            if self.kinds[k] == TEXTS:
                room += self.texts.text_of(<size_t> cells[k]).length + 3
        if not self.writer.reserve(room // LINE_ROOM + 1):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        place = self.writer.data + self.writer.size
        place = put_bytes(place, " (", 2)
        for k in range(self.width):
            if k:
                place = put_bytes(place, ",", 1)
            place = self.put_value(place, k, cells[k])
        place[0] = c')'
        self.writer.size = <size_t> (place + 1 - self.writer.data)
        return 0

    cdef uint8_t *put_value(self, uint8_t *place, size_t column, int64_t cell) except NULL nogil:
        cdef uint8_t type = self.columns[column].type
        cdef Text text
        cdef double number
        if self.kinds[column] == TEXTS:
            text = self.texts.text_of(<size_t> cell)
            if type == OF_REGEXP:
                place = put_bytes(place, "r", 1)
            # a text that begins and ends with quotes gets no others
            if text.length > 1 and text.place[0] == c'"' and text.place[text.length - 1] == c'"':
                return put_bytes(place, <const char *> text.place, text.length)
            place = put_bytes(place, "\"", 1)
            place = put_bytes(place, <const char *> text.place, text.length)
            return put_bytes(place, "\"", 1)
        if self.kinds[column] == FLOATS:
            memcpy(&number, &cell, sizeof(number))
        elif type == OF_INT:
            return put_integer(place, cell)
        else:
            number = <double> cell
        if type == OF_INT:
            return put_number(place, number, c'r', 0, Py_DTSF_ADD_DOT_0)
        # PERF: a whole number of few digits needs no library
        if -1e6 < number < 1e6 and number == <double> <int64_t> number:
            return put_integer(place, <int64_t> number)
        return put_number(place, number, c'g', FLOAT_DIGITS, 0)


cdef inline uint8_t *put_bytes(uint8_t *place, const char *text, size_t length) noexcept nogil:
    memcpy(place, text, length)
    return place + length


cdef uint8_t *put_number(
    uint8_t *place, double number, char format, int precision, int flags
) except NULL nogil:
    """Write a float with the formats of Python."""
    cdef char *text
    cdef size_t length
    with gil:
        text = PyOS_double_to_string(number, format, precision, flags, NULL)
        if text == NULL:
            raise MemoryError("mtlmon: out of memory")
        length = min(strlen(text), <size_t> LONGEST_VALUE)
        memcpy(place, text, length)
        PyMem_Free(text)
    return place + length
