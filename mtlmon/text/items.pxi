# cython: language_level=3
"""Read the items of a log line, from the text after its time-stamp, into a letter.

Items are atoms, plain or quoted. They may be in parentheses or be followed by `()`. A run of items
ends with a line feed, so the inner loops need no bounds check.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, realloc


cdef enum:
    # 64 bytes, the last of which may start an atom
    WINDOW_ROOM = 64 + LONGEST_SHORT
    WINDOW_WORTH = 24


@cython.final
cdef class ItemReader:
    """Reads items into letters.

    table: the atoms to find; bit i of a letter says whether the line has the i-th atom.
    """

    def __cinit__(self, AtomTable table not None):
        self.table = table
        self.error = NO_ERROR
        classify_bytes(self.classes)

    def __dealloc__(self):
        free(self.unescaped)

    cdef const uint8_t *read_items(
        self, const uint8_t *place, const uint8_t *stop, uint64_t *letter
    ) noexcept nogil:
        """Add the rest of a line to a letter; return the next line's start, or NULL on an error.

        stop: the end of the lines.
        """
        cdef const uint8_t *item
        cdef bint has_windows = self.table.short_atoms != NULL
        while True:
            if has_windows and stop - place >= WINDOW_ROOM:
                item = place
                place = read_window(self, item, letter)
                if (place - 1)[0] == c'\n':
                    return place
                # if parentheses and quotes are used, reading item by item is faster
                has_windows = place - item >= WINDOW_WORTH
            if place[0] == c' ' or place[0] == c'\t':
                place += 1
            elif place[0] == c'\n':
                return place + 1
            elif place[0] == c'\r' and place[1] == c'\n':
                return place + 2
            else:
                place = self.read_item(place, letter)
                if place == NULL:
                    return NULL

    cdef const uint8_t *read_item(self, const uint8_t *place, uint64_t *letter) noexcept nogil:
        """Read an item of any form; return the byte after it, or NULL on an error."""
        cdef const uint8_t *classes = self.classes
        cdef const uint8_t *item = place
        cdef const uint8_t *name
        cdef size_t length
        cdef bint in_parentheses = place[0] == c'('
        place += in_parentheses
        if classes[place[0]] == ATOM:
            name = place
            while classes[place[0]] == ATOM:
                place += 1
            length = <size_t> (place - name)
        elif place[0] == c'"':
            place = self.read_quoted(place, &name, &length)
            if place == NULL:
                return NULL
        elif in_parentheses and (place[0] == c')' or ends_item(classes, place)):
            return self.fail(EMPTY_PARENTHESES, item)
        else:
            return self.fail(STRAY_BYTE, place)
        if in_parentheses:
            if place[0] != c')':
                return self.fail(OPEN_PARENTHESIS, place)
            place += 1
        elif place[0] == c'(':
            if place[1] != c')':
                return self.fail(ARGUMENTS, place)
            place += 2
        if not ends_item(classes, place):
            if classes[place[0]] == ATOM or place[0] == c'(' or place[0] == c'"':
                return self.fail(NO_BLANK, place)
            return self.fail(STRAY_BYTE, place)
        self.table.add(name, length, letter)
        return place

    cdef const uint8_t *read_quoted(
        self, const uint8_t *place, const uint8_t **name, size_t *name_length
    ) noexcept nogil:
        """Read text in double quotes; return the byte after it, or NULL on an error."""
        cdef const uint8_t *quote = place
        cdef const uint8_t *text = place + 1
        cdef size_t length = 0
        cdef void *larger
        place += 1
        while place[0] != c'"':
            if place[0] == c'\\' and place[1] != c'\n':
                place += 1
                if place[0] != c'"' and place[0] != c'\\':
                    return self.fail(BAD_ESCAPE, place - 1)
            if place[0] == c'\n':
                return self.fail(OPEN_QUOTE, quote)
            place += 1
            length += 1
        if length == 0:
            return self.fail(EMPTY_QUOTE, quote)
        if length != <size_t> (place - text):
            if length > self.unescaped_room:
                larger = realloc(self.unescaped, length)
                if larger == NULL:
                    return self.fail(OUT_OF_MEMORY, quote)
                self.unescaped = <uint8_t *> larger
                self.unescaped_room = length
            length = 0
            while text != place:
                text += text[0] == c'\\'
                self.unescaped[length] = text[0]
                length += 1
                text += 1
            text = self.unescaped
        name[0] = text
        name_length[0] = length
        return place + 1

    cdef const uint8_t *fail(self, LineError error, const uint8_t *place) noexcept nogil:
        self.error = error
        self.error_place = place
        return NULL


cdef inline const uint8_t *read_window(
    ItemReader reader, const uint8_t *place, uint64_t *letter
) noexcept nogil:
    """Read plain atoms; return the start of the next line, or of what is left to read.

    WINDOW_ROOM bytes must be readable, and letters have one word. If `classify_64` finds nothing,
    everything is left to read.

    PERF: loops over names of random lengths cause a branch misprediction for each name, as do
    branches on whether the formula names an atom: lines of about six atoms, of a hundred, took 54
    ns instead of 43. A memo of all atoms that ever occurred took 46 ns, and 8 ns more per atom for
    atoms that do not recur. A single atom is read faster by `read_item` (11 instead of 18 ns).
    """
    cdef uint64_t ends, others
    cdef uint64_t first, second
    cdef const uint8_t *item = place
    cdef const uint8_t *end
    cdef size_t size
    classify_64(place, &ends, &others)
    # up to the first byte that is neither a blank nor part of a plain atom
    ends &= (others & (0 - others)) - 1
    while ends != 0:
        end = place + trailing_zeros(ends)
        ends &= ends - 1
        size = <size_t> (end - item)
        if size > LONGEST_SHORT:
            break
        if size != 0:
            load_text(item, size, &first, &second)
            letter[0] |= short_letter(reader.table, first, second)
        item = end
        if end[0] != c' ':
            if end[0] == c'\n':
                return end + 1
            break
        item = end + 1
    return item


cdef void classify_bytes(uint8_t *classes) noexcept nogil:
    cdef size_t byte
    for byte in range(256):
        classes[byte] = ATOM if byte > c' ' and byte != 0x7F else OTHER
    classes[c' '] = classes[c'\t'] = BLANK
    classes[c'\n'] = LINE_FEED
    classes[c'\r'] = RETURN
    classes[c'('] = classes[c')'] = classes[c'"'] = classes[c','] = OTHER
