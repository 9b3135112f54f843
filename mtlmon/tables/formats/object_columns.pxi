# cython: language_level=3
"""Read columns of lines with a JSON object each, as far as they are written in the usual way.

What is unusual, as half a pair of surrogates or a number of many digits, is left to a reader
that can read everything. So there are two answers only: what that reader would read, or none.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from mtlmon.arrays.native cimport Memory

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif

    /* The first quote, backslash or control character, or the end. */
    static inline const uint8_t *mtlmon_plain_end(const uint8_t *place, const uint8_t *end) {
    #ifdef __SSE2__
        while (end - place >= 16) {
            __m128i part = _mm_loadu_si128((const __m128i *) place);
            __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(part, _mm_set1_epi8(31)), part);
            __m128i quote = _mm_cmpeq_epi8(part, _mm_set1_epi8('"'));
            __m128i slash = _mm_cmpeq_epi8(part, _mm_set1_epi8('\\\\'));
            int found = _mm_movemask_epi8(_mm_or_si128(low, _mm_or_si128(quote, slash)));
            if (found)
                return place + __builtin_ctz((unsigned) found);
            place += 16;
        }
    #endif
        while (place < end && *place > 31 && *place != '"' && *place != '\\\\')
            place++;
        return place;
    }
    """
    const uint8_t *plain_end "mtlmon_plain_end"(
        const uint8_t *place, const uint8_t *end
    ) noexcept nogil

cdef enum:
    # how many members of a line are recognised by their place in the line before
    MOST_MEMBERS = 64
    # how deep values of other columns are
    DEEPEST_VALUE = 32
    # how many digits of an integer always fit 64 bits, and how many of a float are exact
    INTEGER_DIGITS = 18
    FLOAT_DIGITS = 15
    # how many digits a number of another column has
    OTHER_DIGITS = 200

cdef enum ValueKind:
    TEXT_VALUES
    INTEGER_VALUES
    FLOAT_VALUES
    BOOLEAN_VALUES
    NO_VALUES

_VALUE_KINDS = {
    "text": TEXT_VALUES,
    "integer": INTEGER_VALUES,
    "float": FLOAT_VALUES,
    "boolean": BOOLEAN_VALUES,
    "null": NO_VALUES,
}

cdef double[16] _TENS = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15
]


cdef struct ObjectColumn:
    const uint8_t *name
    size_t length
    ValueKind kind
    # of each line: a number, the bits of a float, a Boolean, or where a text begins in the lower
    # half and its length in the upper half, with the highest bit if it has escapes
    int64_t *values
    uint8_t *nulls
    size_t null_count
    size_t text_size        # as they are written


cdef struct Member:
    # a member of the line before: its name, and the column, or -1
    const uint8_t *name
    size_t length
    int column


@cython.final
cdef class ObjectColumns:
    """Reads columns of blocks of lines.

    columns: pairs of the name of a column, and the kind of its values: "text", "integer", "float",
        "boolean", or "null" if they are all null. There are at most 64.
    """
    cdef ObjectColumn *columns
    cdef size_t column_count
    cdef size_t room
    cdef size_t row_count
    cdef Member members[MOST_MEMBERS]
    cdef size_t member_count
    cdef Memory text
    cdef list names

    def __cinit__(self, columns):
        cdef size_t k
        cdef bytes encoded
        columns = list(columns)
        self.column_count = len(columns)
        if self.column_count > 64:
            raise ValueError("more than 64 columns")
        self.columns = <ObjectColumn *> calloc(self.column_count + 1, sizeof(ObjectColumn))
        if self.columns == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.names = [name.encode() for name, _ in columns]
        for k, (_, kind) in enumerate(columns):
            encoded = self.names[k]
            self.columns[k].name = <const uint8_t *> PyBytes_AS_STRING(encoded)
            self.columns[k].length = <size_t> len(encoded)
            self.columns[k].kind = _VALUE_KINDS[kind]

    def __dealloc__(self):
        cdef size_t k
        if self.columns != NULL:
            for k in range(self.column_count):
                free(self.columns[k].values)
                free(self.columns[k].nulls)
        free(self.columns)

    def read(self, text, size_t size, size_t first, size_t most):
        """Read some lines.

        text: `size` bytes of complete lines, which are kept until `read` is called again.
        first: where the first one begins.
        most: the last line is the one that goes beyond so many bytes.

        Returns how many objects there are, and the place behind these lines; None if something is
        unusual.
        """
        cdef Memory memory = Memory(text, 1, size)
        cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
        cdef const uint8_t *place
        if size > INT32_MAX or first > size:
            return None
        most = min(most, size - first)
        self.text = memory
        self.row_count = 0
        self.reserve(count_in(start + first, most) + 1)
        with nogil:
            place = self.read_lines(start + first, start + first + most, start + size)
        return None if place == NULL else (self.row_count, <size_t> (place - start))

    cdef ObjectColumn *column_at(self, size_t place) except NULL:
        if place >= self.column_count:
            raise IndexError(place)
        return &self.columns[place]

    def null_count(self, size_t column):
        """How many values of a column are null."""
        return self.column_at(column).null_count

    def text_size(self, size_t column):
        """How many bytes the texts of a column have at most: as they are written."""
        return self.column_at(column).text_size

    def write(self, size_t column, values, validity=None, texts=None):
        """Write the values of a column as an array of Arrow has them.

        values: receives the int32 offsets of texts, one more than there are lines; numbers; or a
            bit for each Boolean, and must be zero then.
        validity: receives a bit for each value that is not null; it must be zero before.
        texts: receives the bytes of texts.
        """
        cdef ObjectColumn *source = self.column_at(column)
        cdef size_t count = self.row_count
        cdef Memory bits, bytes_of_texts, target
        cdef size_t k
        if validity is not None:
            bits = Memory(validity, 1, (count + 7) // 8, is_writable=True)
            for k in range(count):
                if not source.nulls[k]:
                    (<uint8_t *> bits.buffer.buf)[k >> 3] |= <uint8_t> (1 << (k & 7))
        if source.kind == TEXT_VALUES:
            target = Memory(values, sizeof(int32_t), count + 1, is_writable=True)
            bytes_of_texts = Memory(texts, 1, source.text_size, is_writable=True)
            with nogil:
                self.write_texts(
                    source, <int32_t *> target.buffer.buf, <uint8_t *> bytes_of_texts.buffer.buf
                )
        elif source.kind == BOOLEAN_VALUES:
            target = Memory(values, 1, (count + 7) // 8, is_writable=True)
            for k in range(count):
                if source.values[k]:
                    (<uint8_t *> target.buffer.buf)[k >> 3] |= <uint8_t> (1 << (k & 7))
        else:
            target = Memory(values, sizeof(int64_t), count, is_writable=True)
            memcpy(target.buffer.buf, source.values, count * sizeof(int64_t))

    cdef void write_texts(
        self, const ObjectColumn *source, int32_t *offsets, uint8_t *texts
    ) noexcept nogil:
        cdef const uint8_t *start = <const uint8_t *> self.text.buffer.buf
        cdef size_t done = 0
        cdef size_t k, length
        offsets[0] = 0
        for k in range(self.row_count):
            length = <size_t> (<uint64_t> source.values[k] >> 32 & INT32_MAX)
            if source.values[k] < 0:
                length = write_unescaped(
                    start + <uint32_t> source.values[k], length, texts + done
                )
            else:
                memcpy(texts + done, start + <uint32_t> source.values[k], length)
            done += length
            offsets[k + 1] = <int32_t> done

    cdef int reserve(self, size_t rows) except -1:
        """Make room for the values of some lines."""
        cdef size_t k
        cdef ObjectColumn *column
        cdef size_t room = max(rows, self.room)
        for k in range(self.column_count):
            column = &self.columns[k]
            column.null_count = column.text_size = 0
            if rows > self.room:
                free(column.values)
                free(column.nulls)
                column.values = <int64_t *> malloc(room * sizeof(int64_t))
                column.nulls = <uint8_t *> malloc(room)
                if column.values == NULL or column.nulls == NULL:
                    # what is there may be too small for the other columns
                    self.room = 0
                    raise MemoryError("mtlmon: out of memory")
        self.room = room
        return 0

    cdef const uint8_t *read_lines(
        self, const uint8_t *place, const uint8_t *last, const uint8_t *end
    ) noexcept nogil:
        """Read lines that begin before the last place; returns the place behind them, or NULL."""
        self.member_count = 0
        while place < last:
            place = behind_blanks(place, end)
            if place < end and place[0] != c"\n":
                place = self.read_object(place, end)
                if place == NULL:
                    return NULL
                place = behind_blanks(place, end)
                if place < end and place[0] != c"\n":
                    return NULL
                self.row_count += 1
            place += place < end
        return place

    cdef const uint8_t *read_object(self, const uint8_t *place, const uint8_t *end) noexcept nogil:
        """Read an object; returns the place behind it, or NULL."""
        cdef uint64_t missing = all_columns(self.column_count)
        cdef size_t number = 0
        cdef const uint8_t *name
        cdef int column
        if place[0] != c"{":
            return NULL
        place = behind_blanks(place + 1, end)
        if place < end and place[0] == c"}":
            self.note_missing(missing)
            return place + 1
        while True:
            if place >= end or place[0] != c'"':
                return NULL
            name = place + 1
            place = plain_end(name, end)
            if place >= end or place[0] != c'"':
                return NULL
            column = self.column_of(number, name, <size_t> (place - name))
            number += 1
            place = behind_blanks(place + 1, end)
            if place >= end or place[0] != c":":
                return NULL
            place = behind_blanks(place + 1, end)
            if column < 0:
                place = behind_value(place, end, DEEPEST_VALUE)
            elif missing >> column & 1:
                missing &= ~(<uint64_t> 1 << column)
                place = self.read_value(&self.columns[column], place, end)
            else:
                return NULL
            if place == NULL:
                return NULL
            place = behind_blanks(place, end)
            if place >= end:
                return NULL
            if place[0] == c"}":
                if missing:
                    self.note_missing(missing)
                return place + 1
            if place[0] != c",":
                return NULL
            place = behind_blanks(place + 1, end)

    cdef inline int column_of(
        self, size_t number, const uint8_t *name, size_t length
    ) noexcept nogil:
        """The column with the name of a member of a line, or -1.

        PERF: members mostly have the order of the line before.
        """
        cdef Member *known = &self.members[min(number, <size_t> MOST_MEMBERS - 1)]
        cdef size_t k
        cdef int found = -1
        if (
            number < self.member_count
            and known.length == length
            and memcmp(known.name, name, length) == 0
        ):
            return known.column
        for k in range(self.column_count):
            if self.columns[k].length == length and (
                memcmp(self.columns[k].name, name, length) == 0
            ):
                found = <int> k
                break
        if number < MOST_MEMBERS:
            known.name = name
            known.length = length
            known.column = found
            self.member_count = max(self.member_count, number + 1)
        return found

    cdef void note_missing(self, uint64_t missing) noexcept nogil:
        """Note that a line does not have some columns."""
        cdef size_t k
        for k in range(self.column_count):
            if missing >> k & 1:
                self.note_null(&self.columns[k])

    cdef void note_null(self, ObjectColumn *column) noexcept nogil:
        column.values[self.row_count] = 0
        column.nulls[self.row_count] = True
        column.null_count += 1

    cdef inline const uint8_t *read_value(
        self, ObjectColumn *column, const uint8_t *place, const uint8_t *end
    ) noexcept nogil:
        """Read a value of a column; returns the place behind it, or NULL."""
        cdef int64_t *value = &column.values[self.row_count]
        cdef const uint8_t *start
        cdef bint has_escapes
        if place >= end:
            return NULL
        if place[0] == c"n":
            self.note_null(column)
            return behind_word(place, end, "null", 4)
        column.nulls[self.row_count] = False
        if column.kind == TEXT_VALUES:
            if place[0] != c'"':
                return NULL
            start = place + 1
            place = plain_end(start, end)
            has_escapes = place < end and place[0] == c"\\"
            place = behind_text(place, end)
            if place == NULL:
                return NULL
            value[0] = <int64_t> (
                <uint64_t> has_escapes << 63
                | <uint64_t> (place - 1 - start) << 32
                | <uint64_t> (start - <const uint8_t *> self.text.buffer.buf)
            )
            column.text_size += <size_t> (place - 1 - start)
            return place
        if column.kind == INTEGER_VALUES:
            return read_plain_integer(place, end, value)
        if column.kind == FLOAT_VALUES:
            return read_plain_float(place, end, value)
        if column.kind == BOOLEAN_VALUES:
            value[0] = place[0] == c"t"
            if value[0]:
                return behind_word(place, end, "true", 4)
            return behind_word(place, end, "false", 5)
        return NULL


cdef inline uint64_t all_columns(size_t count) noexcept nogil:
    return (<uint64_t> 1 << count) - 1 if count < 64 else <uint64_t> -1


cdef inline const uint8_t *behind_blanks(const uint8_t *place, const uint8_t *end) noexcept nogil:
    while place < end and is_blank(place[0]):
        place += 1
    return place


cdef inline const uint8_t *behind_word(
    const uint8_t *place, const uint8_t *end, const char *word, size_t length
) noexcept nogil:
    if <size_t> (end - place) < length or memcmp(place, word, length) != 0:
        return NULL
    return place + length


cdef inline const uint8_t *add_digits(
    const uint8_t *place, const uint8_t *end, uint64_t *number
) noexcept nogil:
    """Add digits to a number, which has a meaning if they are at most 18; the place behind them."""
    while place < end and is_digit(place[0]):
        number[0] = 10 * number[0] + (place[0] - c"0")
        place += 1
    return place


cdef inline const uint8_t *read_plain_integer(
    const uint8_t *place, const uint8_t *end, int64_t *value
) noexcept nogil:
    """Read an integer of a few digits, without zeros before it and -0."""
    cdef bint is_negative = place[0] == c"-"
    cdef const uint8_t *start = place + is_negative
    cdef uint64_t number = 0
    place = add_digits(start, end, &number)
    if place == start or place - start > INTEGER_DIGITS or place >= end:
        return NULL
    if start[0] == c"0" and (place - start > 1 or is_negative):
        return NULL
    if place[0] == c"." or place[0] | 0x20 == c"e":
        return NULL
    value[0] = -<int64_t> number if is_negative else <int64_t> number
    return place


cdef inline const uint8_t *read_plain_float(
    const uint8_t *place, const uint8_t *end, int64_t *value
) noexcept nogil:
    """Read a number of a few digits without an exponent.

    Both the digits and the power of 10 are floats, so their quotient is the nearest float.
    """
    cdef bint is_negative = place[0] == c"-"
    cdef const uint8_t *start = place + is_negative
    cdef const uint8_t *point
    cdef size_t digits
    cdef size_t decimals = 0
    cdef uint64_t number = 0
    cdef double found
    place = add_digits(start, end, &number)
    if place == start or (start[0] == c"0" and place - start > 1) or place >= end:
        return NULL
    digits = <size_t> (place - start)
    if place[0] == c".":
        point = place + 1
        place = add_digits(point, end, &number)
        decimals = <size_t> (place - point)
        if decimals == 0 or place >= end:
            return NULL
    if digits + decimals > FLOAT_DIGITS or place[0] | 0x20 == c"e":
        return NULL
    found = <double> number / _TENS[decimals]
    if is_negative:
        found = -found
    memcpy(value, &found, sizeof(found))
    return place


cdef const uint8_t *behind_number(const uint8_t *place, const uint8_t *end) noexcept nogil:
    """The place behind a number that is not wanted; NULL if it may be none, or beyond floats."""
    cdef const uint8_t *start
    cdef uint64_t number = 0
    if place[0] == c"-":
        place += 1
    start = place
    place = add_digits(place, end, &number)
    if place == start or place - start > OTHER_DIGITS or (start[0] == c"0" and place - start > 1):
        return NULL
    if place < end and place[0] == c".":
        start = place + 1
        place = add_digits(start, end, &number)
        if place == start:
            return NULL
    if place < end and place[0] | 0x20 == c"e":
        place += 1
        if place < end and (place[0] == c"-" or place[0] == c"+"):
            place += 1
        start = place
        place = add_digits(place, end, &number)
        if place == start or place - start > 2:
            return NULL
    return place


cdef const uint8_t *behind_text(const uint8_t *place, const uint8_t *end) noexcept nogil:
    """The place behind a text, from any of its characters on; NULL if it is unusual."""
    cdef size_t k
    while True:
        place = plain_end(place, end)
        if place >= end or place[0] < 32:
            return NULL
        if place[0] == c'"':
            return place + 1
        place += 1
        if place >= end:
            return NULL
        if place[0] == c"u":
            if end - place < 5:
                return NULL
            for k in range(1, 5):
                if not (is_digit(place[k]) or c"a" <= place[k] | 0x20 <= c"f"):
                    return NULL
            if place[1] | 0x20 == c"d" and place[2] > c"7":
                # half a pair of surrogates
                return NULL
            place += 5
        elif place[0] in b'"\\/bfnrt':
            place += 1
        else:
            return NULL


cdef size_t write_unescaped(const uint8_t *place, size_t length, uint8_t *target) noexcept nogil:
    """Write a text for its escapes, which `behind_text` has seen; returns its length."""
    cdef const uint8_t *end = place + length
    cdef uint8_t *written = target
    cdef uint32_t code
    cdef size_t k
    while place < end:
        if place[0] != c"\\":
            written[0] = place[0]
            written += 1
            place += 1
            continue
        if place[1] != c"u":
            written[0] = unescaped(place[1])
            written += 1
            place += 2
            continue
        code = 0
        for k in range(2, 6):
            code = code << 4 | (place[k] & 15) + (0 if is_digit(place[k]) else 9)
        place += 6
        if code < 0x80:
            written[0] = <uint8_t> code
            written += 1
        elif code < 0x800:
            written[0] = <uint8_t> (0xC0 | code >> 6)
            written[1] = <uint8_t> (0x80 | code & 63)
            written += 2
        else:
            written[0] = <uint8_t> (0xE0 | code >> 12)
            written[1] = <uint8_t> (0x80 | code >> 6 & 63)
            written[2] = <uint8_t> (0x80 | code & 63)
            written += 3
    return <size_t> (written - target)


cdef inline uint8_t unescaped(uint8_t letter) noexcept nogil:
    """The character that a backslash and a letter stand for."""
    if letter == c"b":
        return 8
    if letter == c"t":
        return 9
    if letter == c"n":
        return 10
    if letter == c"f":
        return 12
    if letter == c"r":
        return 13
    return letter


cdef const uint8_t *behind_value(
    const uint8_t *place, const uint8_t *end, int depth
) noexcept nogil:
    """The place behind a value that is not wanted; NULL if it is unusual."""
    cdef uint8_t closing
    if place >= end:
        return NULL
    if place[0] == c'"':
        return behind_text(place + 1, end)
    if place[0] == c"t":
        return behind_word(place, end, "true", 4)
    if place[0] == c"f":
        return behind_word(place, end, "false", 5)
    if place[0] == c"n":
        return behind_word(place, end, "null", 4)
    if place[0] != c"{" and place[0] != c"[":
        return behind_number(place, end)
    if depth == 0:
        return NULL
    closing = c"}" if place[0] == c"{" else c"]"
    place = behind_blanks(place + 1, end)
    if place < end and place[0] == closing:
        return place + 1
    while True:
        if closing == c"}":
            if place >= end or place[0] != c'"':
                return NULL
            place = behind_text(place + 1, end)
            if place == NULL:
                return NULL
            place = behind_blanks(place, end)
            if place >= end or place[0] != c":":
                return NULL
            place = behind_blanks(place + 1, end)
        place = behind_value(place, end, depth - 1)
        if place == NULL:
            return NULL
        place = behind_blanks(place, end)
        if place >= end:
            return NULL
        if place[0] == closing:
            return place + 1
        if place[0] != c",":
            return NULL
        place = behind_blanks(place + 1, end)
