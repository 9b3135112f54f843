# cython: language_level=3
"""Finds the lines at the beginning of some bytes that are plain.

A plain line has a time-stamp, rows of known relations with values that need no second look, and
perhaps a semicolon at its end. All of it is on the line, without comments and escapes.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

from mtlmon.relational.input.native cimport (
    FLOAT_CELL, INTEGER_CELL, ReadRelation, RelationTable, finished_hash, hash_byte,
)

cdef enum:
    # the classes of bytes
    IS_BLANK = 1
    IS_DIGIT = 2
    IS_LETTER = 4
    IN_NAME = 8
    IN_WORD = 16
    # so many digits fit 64 bits, or are exact as a float
    MOST_STAMP_DIGITS = 18
    MOST_FLOAT_DIGITS = 15

_CLASSES = (
    (IS_BLANK, b" \t"),
    (IS_DIGIT | IN_NAME | IN_WORD, b"0123456789"),
    (
        IS_LETTER | IN_NAME | IN_WORD,
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    ),
    (IN_NAME | IN_WORD, b"_"),
    (IN_WORD, b"[]/:.!-"),
)


@final
cdef class PlainShape:
    """Says which lines of a log are plain.

    relations: pairs of a name, of letters, digits and underscores, and the kinds of its values, as
        `RelationTable` takes them.
    """

    def __cinit__(self, relations):
        self.relations = RelationTable(relations)
        for bits, members in _CLASSES:
            for byte in members:
                self.classes[<size_t> byte] = bits

    def end_in(self, bytes data not None, int64_t last):
        """Return the position behind the plain lines at the beginning, and their last time-stamp.

        A line is only among them if it ends with a semicolon, or an `@` follows, as rows could
        follow otherwise; and if its time-stamp is not below the one before.

        data: some bytes, at the beginning of a line.
        last: the time-stamp before, which is returned if there are no plain lines.
        """
        # a zero byte follows, which has no class
        cdef const uint8_t *start = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef const uint8_t *stop = start + len(data)
        cdef const uint8_t *place = start
        cdef const uint8_t *end
        cdef int64_t time_stamp = 0
        cdef bint is_ended = False
        with nogil:
            while place < stop:
                end = self.behind_line(place, stop, &time_stamp, &is_ended)
                if end == NULL or time_stamp < last or not is_ended and end[0] != c'@':
                    break
                place = end
                last = time_stamp
        return place - start, last

    cdef const uint8_t *behind_line(
        self, const uint8_t *place, const uint8_t *stop, int64_t *time_stamp, bint *is_ended
    ) noexcept nogil:
        """Return the start of the next line, or NULL if the line is not plain."""
        cdef const uint8_t *name
        cdef const uint8_t *end
        cdef uint64_t hash
        cdef const ReadRelation *relation
        if place[0] != c'@':
            return NULL
        place += 1
        end = self.behind_digits(place, MOST_STAMP_DIGITS)
        if end == NULL:
            return NULL
        time_stamp[0] = 0
        while place < end:
            time_stamp[0] = 10 * time_stamp[0] + (place[0] - c'0')
            place += 1
        place = self.behind_blanks(end)
        while place != end and self.classes[place[0]] & IS_LETTER:
            name = place
            hash = 0
            while self.classes[place[0]] & IN_NAME:
                hash = hash_byte(hash, place[0])
                place += 1
            relation = self.relations.find(name, <size_t> (place - name), finished_hash(hash))
            place = self.behind_blanks(place)
            if relation == NULL or place[0] != c'(':
                return NULL
            while place[0] == c'(':
                place = self.behind_row(place + 1, stop, relation)
                if place == NULL:
                    return NULL
                place = self.behind_blanks(place)
        is_ended[0] = place[0] == c';'
        if is_ended[0]:
            place = self.behind_blanks(place + 1)
        if place[0] == c'\r':
            place += 1
        return place + 1 if place[0] == c'\n' else NULL

    cdef const uint8_t *behind_row(
        self, const uint8_t *place, const uint8_t *stop, const ReadRelation *relation
    ) noexcept nogil:
        """Return the byte behind a row, whose values begin here; NULL if it is not plain."""
        cdef size_t k
        for k in range(relation.width):
            if k:
                place = self.behind_blanks(place)
                if place[0] != c',':
                    return NULL
                place += 1
            place = self.behind_value(self.behind_blanks(place), stop, relation.kinds[k])
            if place == NULL:
                return NULL
        place = self.behind_blanks(place)
        return place + 1 if place[0] == c')' else NULL

    cdef const uint8_t *behind_value(
        self, const uint8_t *place, const uint8_t *stop, uint8_t kind
    ) noexcept nogil:
        cdef const uint8_t *start = place
        if kind == INTEGER_CELL:
            return self.behind_digits(place + (place[0] == c'-'), MOST_STAMP_DIGITS)
        if kind == FLOAT_CELL:
            place = self.behind_digits(place + (place[0] == c'-'), MOST_FLOAT_DIGITS)
            if place != NULL and place[0] == c'.':
                place = self.behind_digits(place + 1, MOST_FLOAT_DIGITS)
            return place
        if place[0] != c'"':
            while self.classes[place[0]] & IN_WORD:
                place += 1
            return NULL if place == start else place
        place += 1
        while place < stop and place[0] != c'"':
            if place[0] == c'\\' or place[0] == c'\n' or place[0] == c'\r' or place[0] == c'@':
                return NULL
            place += 1
        return place + 1 if place < stop else NULL

    cdef const uint8_t *behind_digits(
        self, const uint8_t *place, size_t most
    ) noexcept nogil:
        """Return the byte behind some digits, from 1 up to `most`; NULL for none or more."""
        cdef const uint8_t *start = place
        while self.classes[place[0]] & IS_DIGIT:
            place += 1
        return NULL if place == start or <size_t> (place - start) > most else place

    cdef const uint8_t *behind_blanks(self, const uint8_t *place) noexcept nogil:
        while self.classes[place[0]] & IS_BLANK:
            place += 1
        return place
