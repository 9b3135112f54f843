# cython: language_level=3
"""Reads the rows of a line: `publish(alice, "f 1") approve(bob, f1)(eve, f2) started;`.

A name is followed by any number of rows in parentheses, or by none if it has no arguments. Values
and names are bare or quoted; a quoted number is as good as a bare one, because the type is that of
the argument. The line ends with a line feed, so the inner loops need no bounds check.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

from mtlmon.arrays.native cimport KeyTable, Text
from mtlmon.relational.native cimport PointBlock
from mtlmon.text.native cimport ATOM, BLANK, AtomTable, ItemReader, ends_item


@final
cdef class RowReader:
    """Reads the rows of lines into time-points.

    table: the relations to read; rows of others are passed over.
    points: gets the rows, at the time-point begun last.
    texts: numbers the texts.
    items: reads quoted text, and says what class of byte each is.
    marks: atoms without arguments, which are added to `letter`; None if none are asked for.
    """

    def __cinit__(
        self, RelationTable table not None, PointBlock points not None, KeyTable texts not None,
        ItemReader items not None, AtomTable marks=None
    ):
        cdef size_t byte
        if texts.columns != 1:
            raise ValueError("a table of texts has one column")
        self.table = table
        self.points = points
        self.texts = texts
        self.items = items
        self.marks = marks
        for byte in range(256):
            self.in_value[byte] = items.classes[byte] == ATOM
            self.in_name[byte] = self.in_value[byte] and byte != c';'

    cdef const uint8_t *read_rows(self, const uint8_t *place) except? NULL nogil:
        """Add the rows of the rest of a line; return the start of the next line.

        Returns NULL if the line cannot be read; then `fault` says why.
        """
        cdef const uint8_t *classes = self.items.classes
        cdef const uint8_t *name
        cdef const uint8_t *end
        cdef size_t length, k
        cdef uint64_t hash
        cdef ReadRelation *relation
        cdef ReadRelation *twin
        cdef const uint8_t *opening
        while True:
            while classes[place[0]] == BLANK:
                place += 1
            name = place
            hash = 0
            if self.in_name[place[0]]:
                while self.in_name[place[0]]:
                    hash = hash_byte(hash, place[0])
                    place += 1
                length = <size_t> (place - name)
            elif place[0] == c'"':
                place = self.items.read_quoted(place, &name, &length)
                if place == NULL:
                    return self.fail(IN_QUOTES, self.items.error_place)
                for k in range(length):
                    hash = hash_byte(hash, name[k])
            elif place[0] == c'\n':
                return place + 1
            elif place[0] == c'\r' and place[1] == c'\n':
                return place + 2
            elif place[0] == c';':
                return self.read_end(place + 1)
            else:
                return self.fail(NOT_A_NAME, place)
            relation = self.table.find(name, length, finished_hash(hash))
            end = place
            while classes[place[0]] == BLANK:
                place += 1
            if self.marks is not None and (place[0] != c'(' or self.is_without_values(place)):
                # the name may be unescaped, so this comes before anything else is read
                self.marks.add(name, length, self.letter)
            if place[0] == c'(':
                while place[0] == c'(':
                    opening = place
                    place = self.read_row(opening, relation)
                    if place == NULL:
                        return NULL
                    twin = NULL if relation == NULL else relation.twin
                    while twin != NULL:
                        if self.read_row(opening, twin) == NULL:
                            return NULL
                        twin = twin.twin
                    while classes[place[0]] == BLANK:
                        place += 1
            elif relation != NULL:
                if relation.width:
                    self.fault_relation = relation
                    self.fault_count = 0
                    return self.fail(WRONG_COUNT, end)
                while relation != NULL:
                    self.points.row(relation.number)
                    relation.is_seen = True
                    relation = relation.twin

    cdef bint is_without_values(self, const uint8_t *place) noexcept nogil:
        """Whether the row that begins at a place is `()`."""
        place += 1
        while self.items.classes[place[0]] == BLANK:
            place += 1
        return place[0] == c')'

    cdef const uint8_t *read_end(self, const uint8_t *place) noexcept nogil:
        """Read blanks or a comment behind a semicolon; return the start of the next line."""
        while self.items.classes[place[0]] == BLANK:
            place += 1
        if place[0] == c'#':
            while place[0] != c'\n':
                place += 1
        if place[0] == c'\r' and place[1] == c'\n':
            place += 1
        return place + 1 if place[0] == c'\n' else self.fail(BEHIND_END, place)

    cdef const uint8_t *read_row(
        self, const uint8_t *place, ReadRelation *relation
    ) except? NULL nogil:
        """Read a row from its '(' on; return the byte after it.

        relation: the relation of the row, which is added; NULL for a row that is passed over.
        """
        cdef const uint8_t *classes = self.items.classes
        cdef const uint8_t *opening = place
        cdef const uint8_t *value
        cdef const uint8_t *text
        cdef int64_t *cells = NULL
        cdef size_t length
        cdef size_t count = 0
        if relation != NULL:
            cells = self.points.row(relation.number)
        place += 1
        while classes[place[0]] == BLANK:
            place += 1
        if place[0] == c')':
            place += 1
        else:
            while True:
                value = text = place
                if self.in_value[place[0]]:
                    while self.in_value[place[0]]:
                        place += 1
                    length = <size_t> (place - text)
                elif place[0] == c'"':
                    place = self.read_quoted(place, &text, &length)
                    if place == NULL:
                        return NULL
                elif ends_item(classes, place):
                    return self.fail(ROW_NOT_CLOSED, opening)
                else:
                    return self.fail(NO_VALUE, place)
                if relation != NULL and count < relation.width:
                    if not self.add_value(relation, count, cells, value, text, length):
                        return NULL
                count += 1
                while classes[place[0]] == BLANK:
                    place += 1
                if place[0] == c')':
                    place += 1
                    break
                if place[0] != c',':
                    if ends_item(classes, place):
                        return self.fail(ROW_NOT_CLOSED, opening)
                    return self.fail(NO_COMMA, place)
                place += 1
                while classes[place[0]] == BLANK:
                    place += 1
        if relation != NULL:
            if count != relation.width:
                self.fault_relation = relation
                self.fault_count = count
                return self.fail(WRONG_COUNT, opening)
            relation.is_seen = True
        return place

    cdef bint add_value(
        self, ReadRelation *relation, size_t argument, int64_t *cells, const uint8_t *place,
        const uint8_t *text, size_t length
    ) except -1 nogil:
        """Read the value of an argument; return False if it is not of its type."""
        cdef uint8_t kind = relation.kinds[argument]
        cdef bint is_valid
        cdef Text key
        if kind == TEXT_CELL:
            is_valid = is_utf8(text, length)
            if is_valid:
                key.place = text
                key.length = length
                cells[argument] = self.texts.number_of(key, self.texts.hash_of(key))
                return True
        elif kind == INTEGER_CELL:
            is_valid = read_integer(text, length, cells + argument)
        elif kind == FLOAT_CELL:
            is_valid = read_float(text, length, cells + argument)
        elif kind == BOOLEAN_CELL:
            is_valid = read_boolean(text, length, cells + argument)
        else:
            is_valid = read_time(text, length, cells + argument)
        if not is_valid:
            self.fault_relation = relation
            self.fault_argument = argument
            self.fail(BAD_TEXT if kind == TEXT_CELL else BAD_VALUE, place)
        return is_valid

    cdef const uint8_t *read_quoted(
        self, const uint8_t *place, const uint8_t **text, size_t *length
    ) noexcept nogil:
        """Read a quoted value, which may be empty; return the byte after it, or NULL."""
        if place[1] == c'"':
            text[0] = place + 1
            length[0] = 0
            return place + 2
        place = self.items.read_quoted(place, text, length)
        return self.fail(IN_QUOTES, self.items.error_place) if place == NULL else place

    cdef const uint8_t *fail(self, RowFault fault, const uint8_t *place) noexcept nogil:
        self.fault = fault
        self.fault_place = place
        return NULL
