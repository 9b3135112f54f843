# cython: language_level=3
"""Where the rows of delimited text begin and end, when cells in quotes may hold line feeds.

A quote opens a cell's text only where the cell begins; within it, two quotes are one. That is how
readers of CSV see it (RFC 4180), so that blocks cut here are read as the whole would be.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from libc.string cimport memchr

from mtlmon._arrays cimport Memory

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    /* How many line feeds there are. The inner loop is one that compilers make vector
       instructions of: its counts fit into bytes. */
    static size_t mtlmon_count_line_feeds(const uint8_t *text, size_t size) {
        size_t count = 0;
        while (size > 0) {
            size_t part = size < 128 ? size : 128;
            uint8_t found = 0;
            size_t k;
            for (k = 0; k < part; k++)
                found += text[k] == 10;
            count += found;
            text += part;
            size -= part;
        }
        return count;
    }

    /* The last such byte among so many, NULL if there is none. */
    static const uint8_t *mtlmon_find_last(const uint8_t *text, uint8_t byte, size_t size) {
        while (size > 0)
            if (text[--size] == byte)
                return text + size;
        return NULL;
    }
    """
    size_t count_in "mtlmon_count_line_feeds"(const uint8_t *text, size_t size) noexcept nogil
    const uint8_t *find_last "mtlmon_find_last"(
        const uint8_t *text, uint8_t byte, size_t size
    ) noexcept nogil


cdef struct Quoted:
    # the next text in quotes, with both of them; what is not closed reaches beyond the end
    const uint8_t *start
    const uint8_t *end
    bint is_closed


def complete_rows(text, size_t size, str delimiter, str quote=""):
    """How many of the first `size` bytes are complete rows, and whether a cell holds a line feed.

    text: buffer of bytes, whose first one begins a row.
    delimiter, quote: ASCII characters; an empty `quote` stands for none.
    """
    cdef Memory memory = Memory(text, 1, size)
    cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
    cdef const uint8_t *place = start
    cdef const uint8_t *end = start + size
    cdef const uint8_t *found
    cdef const uint8_t *last = NULL
    cdef bint has_line_feed = False
    cdef bint has_quotes = quote != ""
    cdef uint8_t mark = ord(quote) if has_quotes else 0
    cdef uint8_t comma = ord(delimiter)
    cdef Quoted quoted
    with nogil:
        if not has_quotes or memchr(start, mark, size) == NULL:
            last = find_last(start, c"\n", size)
        else:
            while True:
                quoted = next_quoted(start, place, end, mark, comma)
                found = find_last(place, c"\n", <size_t> (quoted.start - place))
                if found != NULL:
                    last = found
                if not quoted.is_closed:
                    break
                if not has_line_feed:
                    has_line_feed = memchr(
                        quoted.start, c"\n", <size_t> (quoted.end - quoted.start)
                    ) != NULL
                place = quoted.end
    return (0 if last == NULL else last - start + 1), has_line_feed


def row_starts(text, size_t size, str delimiter, str quote=""):
    """Where each row begins, and where the last one ends; lines without any character are none.

    text: `size` bytes of complete rows, as in `complete_rows`.
    """
    cdef Memory memory = Memory(text, 1, size)
    cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
    cdef const uint8_t *place = start
    cdef const uint8_t *end = start + size
    cdef const uint8_t *row = start
    cdef const uint8_t *found
    cdef bint has_quotes = quote != ""
    cdef uint8_t mark = ord(quote) if has_quotes else 0
    cdef uint8_t comma = ord(delimiter)
    cdef Quoted quoted
    cdef list starts = []
    while True:
        if has_quotes:
            quoted = next_quoted(start, place, end, mark, comma)
        else:
            quoted.start = quoted.end = end
            quoted.is_closed = False
        while place < quoted.start:
            found = <const uint8_t *> memchr(place, c"\n", <size_t> (quoted.start - place))
            if found == NULL:
                break
            if not (found == row or found == row + 1 and row[0] == c"\r"):
                starts.append(row - start)
            row = place = found + 1
        if not quoted.is_closed:
            break
        place = quoted.end
    if row < end:
        starts.append(row - start)
    starts.append(<Py_ssize_t> size)
    return starts


def count_line_feeds(text, size_t size):
    """How many of the first `size` bytes are line feeds."""
    cdef Memory memory = Memory(text, 1, size)
    cdef size_t count
    with nogil:
        count = count_in(<const uint8_t *> memory.buffer.buf, size)
    return count


cdef Quoted next_quoted(
    const uint8_t *start, const uint8_t *place, const uint8_t *end, uint8_t quote,
    uint8_t delimiter
) noexcept nogil:
    """The first text in quotes from a place on that is outside of quotes."""
    cdef Quoted found
    cdef uint8_t before
    found.start = found.end = end
    found.is_closed = False
    while place < end:
        place = <const uint8_t *> memchr(place, quote, <size_t> (end - place))
        if place == NULL:
            return found
        before = c"\n" if place == start else (place - 1)[0]
        if before == delimiter or before == c"\n" or before == c"\r":
            break
        place += 1
    if place >= end:
        return found
    found.start = place
    place += 1
    while place < end:
        place = <const uint8_t *> memchr(place, quote, <size_t> (end - place))
        if place == NULL:
            return found
        place += 1
        if place == end or place[0] != quote:
            # A quote at the very end may be the first of two: more is needed to know.
            found.end = place
            found.is_closed = place < end
            return found
        place += 1
    return found
