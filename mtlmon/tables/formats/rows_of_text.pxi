# cython: language_level=3
"""Find the rows of delimited text, in which quoted cells may contain line feeds.

A quote opens quoted text only at the start of a cell; within it, two quotes represent one. CSV
readers use the same rule (RFC 4180), so blocks that are cut here are read in the same way as the
whole text.
"""

from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy, memset

from mtlmon.arrays.native cimport Memory

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif

    /* 64 bytes: bit i says whether the i-th is a quote, or a line feed. */
    static inline void mtlmon_find_64(
        const uint8_t *text, uint8_t quote, uint64_t *quotes, uint64_t *line_feeds
    ) {
        size_t k;
        *quotes = *line_feeds = 0;
    #ifdef __SSE2__
        for (k = 0; k < 64; k += 16) {
            __m128i part = _mm_loadu_si128((const __m128i *) (text + k));
            __m128i quoted = _mm_cmpeq_epi8(part, _mm_set1_epi8((char) quote));
            __m128i ended = _mm_cmpeq_epi8(part, _mm_set1_epi8(10));
            *quotes |= (uint64_t) (unsigned) _mm_movemask_epi8(quoted) << k;
            *line_feeds |= (uint64_t) (unsigned) _mm_movemask_epi8(ended) << k;
        }
    #else
        for (k = 0; k < 64; k++) {
            *quotes |= (uint64_t) (text[k] == quote) << k;
            *line_feeds |= (uint64_t) (text[k] == 10) << k;
        }
    #endif
    }

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
    void find_64 "mtlmon_find_64"(
        const uint8_t *text, uint8_t quote, uint64_t *quotes, uint64_t *line_feeds
    ) noexcept nogil
    int trailing_zeros "__builtin_ctzll"(unsigned long long word) noexcept nogil
    int leading_zeros "__builtin_clzll"(unsigned long long word) noexcept nogil
    size_t count_in "mtlmon_count_line_feeds"(const uint8_t *text, size_t size) noexcept nogil
    const uint8_t *find_last "mtlmon_find_last"(
        const uint8_t *text, uint8_t byte, size_t size
    ) noexcept nogil


cdef struct Quoted:
    # the next quoted text, including both quotes; an unclosed one extends beyond the end
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
    cdef const uint8_t *last
    cdef size_t complete
    cdef bint has_line_feed = False
    cdef bint has_quotes = quote != ""
    cdef uint8_t mark = ord(quote) if has_quotes else 0
    cdef uint8_t comma = ord(delimiter)
    with nogil:
        if has_quotes and memchr(start, mark, size) != NULL:
            complete = last_row_end(start, size, mark, comma, &has_line_feed)
        else:
            last = find_last(start, c"\n", size)
            complete = 0 if last == NULL else <size_t> (last - start) + 1
    return complete, has_line_feed


cdef size_t last_row_end(
    const uint8_t *text, size_t size, uint8_t quote, uint8_t delimiter, bint *has_inner
) noexcept nogil:
    """The place after the last line feed outside of quotes; and whether there are any within.

    PERF: processes 64 bytes at a time, with work only for quotes.
    """
    cdef uint8_t rest[64]
    cdef uint64_t quotes, line_feeds, before
    cdef size_t done, k, place
    cdef size_t second = SIZE_MAX       # the second of two quotes that represent one
    cdef size_t end = 0
    cdef bint is_inside = False
    for done in range(0, size, 64):
        if size - done >= 64:
            find_64(text + done, quote, &quotes, &line_feeds)
        else:
            memset(rest, 0, sizeof(rest))
            memcpy(rest, text + done, size - done)
            find_64(rest, quote, &quotes, &line_feeds)
        while quotes:
            k = <size_t> trailing_zeros(quotes)
            quotes &= quotes - 1
            before = line_feeds & ((<uint64_t> 1 << k) - 1)
            line_feeds ^= before
            if before and is_inside:
                has_inner[0] = True
            elif before:
                end = done + 64 - <size_t> leading_zeros(before)
            place = done + k
            if place == second:
                continue
            if not is_inside:
                is_inside = place == 0 or ends_cell(text[place - 1], delimiter)
            elif place + 1 < size and text[place + 1] == quote:
                second = place + 1
            elif place + 1 < size:
                is_inside = False
        if line_feeds and is_inside:
            has_inner[0] = True
        elif line_feeds:
            end = done + 64 - <size_t> leading_zeros(line_feeds)
    return end


cdef inline bint ends_cell(uint8_t byte, uint8_t delimiter) noexcept nogil:
    return byte == delimiter or byte == c"\n" or byte == c"\r"


def row_starts(text, size_t size, str delimiter, str quote=""):
    """Where each row begins, and where the last row ends.

    text: `size` bytes of complete rows, as in `complete_rows`.

    Empty lines are not rows; without quotes, lines of blanks are not rows either, as they mean
    nothing in JSON lines.
    """
    cdef Memory memory = Memory(text, 1, size)
    cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
    cdef bint has_quotes = quote != ""
    cdef uint8_t mark = ord(quote) if has_quotes else 0
    cdef uint8_t comma = ord(delimiter)
    cdef size_t count, k
    cdef size_t *starts
    with nogil:
        count = find_rows(start, size, has_quotes, mark, comma, NULL)
    starts = <size_t *> malloc((count + 1) * sizeof(size_t))
    if starts == NULL:
        raise MemoryError
    try:
        with nogil:
            find_rows(start, size, has_quotes, mark, comma, starts)
        return [starts[k] for k in range(count)] + [size]
    finally:
        free(starts)


def count_rows(text, size_t size, str delimiter, str quote=""):
    """The number of rows that `row_starts` finds."""
    cdef Memory memory = Memory(text, 1, size)
    cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
    cdef bint has_quotes = quote != ""
    cdef uint8_t mark = ord(quote) if has_quotes else 0
    cdef uint8_t comma = ord(delimiter)
    cdef size_t count
    with nogil:
        count = find_rows(start, size, has_quotes, mark, comma, NULL)
    return count


cdef size_t find_rows(
    const uint8_t *start, size_t size, bint has_quotes, uint8_t mark, uint8_t comma, size_t *starts
) noexcept nogil:
    """The number of rows; `starts`, if it is not NULL, receives their starts."""
    cdef const uint8_t *place = start
    cdef const uint8_t *end = start + size
    cdef const uint8_t *row = start
    cdef const uint8_t *found
    cdef Quoted quoted
    cdef size_t count = 0
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
            if is_row(row, found, has_quotes):
                if starts != NULL:
                    starts[count] = <size_t> (row - start)
                count += 1
            row = place = found + 1
        if not quoted.is_closed:
            break
        place = quoted.end
    if row < end and (has_quotes or is_row(row, end, has_quotes)):
        if starts != NULL:
            starts[count] = <size_t> (row - start)
        count += 1
    return count


cdef inline bint is_row(
    const uint8_t *start, const uint8_t *end, bint has_quotes
) noexcept nogil:
    """Whether a line, without its line feed, is a row."""
    if has_quotes:
        return not (end == start or end == start + 1 and start[0] == c"\r")
    while start < end and is_blank(start[0]):
        start += 1
    return start < end


def object_rows(text, size_t size):
    """How many lines are not blank, and whether each of them begins and ends like a JSON object.

    text: `size` bytes of complete lines.

    A reader that takes one value after another finds as many rows as there are such lines only if
    each line is one object: an object cannot continue in a line that begins with a brace, because
    no brace can follow what ends a line here, nor can open text.
    """
    cdef Memory memory = Memory(text, 1, size)
    cdef const uint8_t *place = <const uint8_t *> memory.buffer.buf
    cdef const uint8_t *end = place + size
    cdef const uint8_t *first
    cdef const uint8_t *last
    cdef const uint8_t *found
    cdef size_t count = 0
    cdef bint are_objects = True
    with nogil:
        while place < end:
            found = <const uint8_t *> memchr(place, c"\n", <size_t> (end - place))
            if found == NULL:
                found = end
            first, last = place, found
            while first < last and is_blank(first[0]):
                first += 1
            while first < last and is_blank((last - 1)[0]):
                last -= 1
            if first < last:
                count += 1
                # A single brace is not both.
                are_objects &= last - first >= 2 and first[0] == c"{" and (last - 1)[0] == c"}"
            place = found + 1
    return count, are_objects


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return byte == c" " or byte == c"\t" or byte == c"\r"


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
    found.start = found.end = end
    found.is_closed = False
    while place < end:
        place = <const uint8_t *> memchr(place, quote, <size_t> (end - place))
        if place == NULL:
            return found
        if place == start or ends_cell((place - 1)[0], delimiter):
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
