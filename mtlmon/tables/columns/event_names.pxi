# cython: language_level=3
"""Read cells with the names of events: Arrow columns in, letters out."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp

from mtlmon.arrays.native cimport Memory, Offsets, TextCells, cell_text, is_cell_null, offset_at
from mtlmon.text.native cimport AtomTable


@final
cdef class EventNames:
    """Reads which atoms of a formula are named.

    atoms: the names that count; all others are passed over.
    separator: what stands between the names in a text; blanks around them do not count.

    The arrays of letters are contiguous, with `letter_words` 64-bit integers for each row. Bits are
    only set, never cleared. Null names nothing.
    """

    cdef AtomTable table
    cdef readonly size_t letter_words
    cdef readonly bytes separator

    def __init__(self, atoms, str separator not None):
        if not separator:
            raise ValueError("an empty separator")
        self.table = AtomTable(atoms)
        self.letter_words = self.table.letter_words
        self.separator = separator.encode()

    def read_texts(self, TextCells cells not None, letters):
        """Read texts, each with any number of names."""
        cdef Memory memory = self.letters(letters, cells.count)
        cdef uint64_t *letter = <uint64_t *> memory.buffer.buf
        cdef const uint8_t *separator = self.separator
        cdef size_t separator_length = <size_t> len(self.separator)
        cdef const uint8_t *text
        cdef size_t k, length
        with nogil:
            for k in range(cells.count):
                if not is_cell_null(cells, k):
                    text = cell_text(cells, k, &length)
                    add_names(self.table, text, length, separator, separator_length, letter)
                letter += self.letter_words

    def read_lists(self, Offsets lists not None, TextCells cells not None, letters):
        """Read lists of texts, each with one name."""
        cdef Memory memory = self.letters(letters, lists.count)
        cdef uint64_t *letter = <uint64_t *> memory.buffer.buf
        cdef const uint8_t *text
        cdef size_t k, length
        cdef int64_t item
        if lists.count and <uint64_t> lists.last() > cells.count:
            raise ValueError("lists of more items than there are")
        with nogil:
            for k in range(lists.count):
                for item in range(offset_at(lists, k), offset_at(lists, k + 1)):
                    if not is_cell_null(cells, <size_t> item):
                        text = cell_text(cells, <size_t> item, &length)
                        add_name(self.table, text, length, letter)
                letter += self.letter_words

    cdef Memory letters(self, object array, size_t count):
        cdef Memory memory = Memory(array, sizeof(uint64_t), count * self.letter_words, True)
        if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != sizeof(uint64_t):
            raise ValueError("letters have gaps between them")
        return memory


cdef void add_names(
    AtomTable table, const uint8_t *text, size_t length, const uint8_t *separator,
    size_t separator_length, uint64_t *letter
) noexcept nogil:
    """Set the bits of the names between separators."""
    cdef const uint8_t *end = text + length
    cdef const uint8_t *found = text
    while found + separator_length <= end:
        found = <const uint8_t *> memchr(found, separator[0], <size_t> (end - found))
        if found == NULL or found + separator_length > end:
            break
        if separator_length > 1 and memcmp(found, separator, separator_length) != 0:
            found += 1
            continue
        add_name(table, text, <size_t> (found - text), letter)
        found += separator_length
        text = found
    add_name(table, text, <size_t> (end - text), letter)


cdef inline void add_name(
    AtomTable table, const uint8_t *name, size_t length, uint64_t *letter
) noexcept nogil:
    """Set the bit of a name, ignoring the blanks around it."""
    while length and (name[0] == c" " or name[0] == c"\t"):
        name += 1
        length -= 1
    while length and (name[length - 1] == c" " or name[length - 1] == c"\t"):
        length -= 1
    if length:
        table.add(name, length, letter)
