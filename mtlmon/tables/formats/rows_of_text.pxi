# cython: language_level=3
"""Find the rows of text: lines, and rows of delimited text, of which some may span lines.

Most text has no quotes, or only quoted cells that are closed on their lines: then every line is a
row, and one pass over the text shows it. What `quoted_rows.pxi` does for other text takes longer.
"""

cimport cython

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

    /* 64 bytes: bit i says whether the i-th is a quote, a line feed, or a carriage return. */
    static inline void mtlmon_find_64(
        const uint8_t *text, uint8_t quote, uint64_t *quotes, uint64_t *line_feeds,
        uint64_t *returns
    ) {
        size_t k;
        *quotes = *line_feeds = *returns = 0;
    #ifdef __SSE2__
        for (k = 0; k < 64; k += 16) {
            __m128i part = _mm_loadu_si128((const __m128i *) (text + k));
            __m128i quoted = _mm_cmpeq_epi8(part, _mm_set1_epi8((char) quote));
            __m128i ended = _mm_cmpeq_epi8(part, _mm_set1_epi8(10));
            __m128i returned = _mm_cmpeq_epi8(part, _mm_set1_epi8(13));
            *quotes |= (uint64_t) (unsigned) _mm_movemask_epi8(quoted) << k;
            *line_feeds |= (uint64_t) (unsigned) _mm_movemask_epi8(ended) << k;
            *returns |= (uint64_t) (unsigned) _mm_movemask_epi8(returned) << k;
        }
    #else
        for (k = 0; k < 64; k++) {
            *quotes |= (uint64_t) (text[k] == quote) << k;
            *line_feeds |= (uint64_t) (text[k] == 10) << k;
            *returns |= (uint64_t) (text[k] == 13) << k;
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
        const uint8_t *text, uint8_t quote, uint64_t *quotes, uint64_t *line_feeds,
        uint64_t *returns
    ) noexcept nogil
    int trailing_zeros "__builtin_ctzll"(unsigned long long word) noexcept nogil
    int leading_zeros "__builtin_clzll"(unsigned long long word) noexcept nogil
    size_t count_in "mtlmon_count_line_feeds"(const uint8_t *text, size_t size) noexcept nogil
    const uint8_t *find_last "mtlmon_find_last"(
        const uint8_t *text, uint8_t byte, size_t size
    ) noexcept nogil


@cython.final
cdef class RowSyntax:
    """How the rows of a text are written; immutable.

    delimiter: the ASCII character between cells; an empty one stands for lines without cells.
    quote: the ASCII character around quoted cells; an empty one stands for none.
    spans_lines: whether quoted cells may span lines. If not, a quote that does not end its cell on
        the line is a character.
    columns: how many cells a row that spans lines has; 0 for any number.
    longest: how many bytes such a row has at most.
    """
    cdef Syntax written
    cdef readonly str delimiter
    cdef readonly str quote

    @property
    def longest(self):
        return self.written.longest

    def __init__(
        self,
        str delimiter="",
        str quote="",
        bint spans_lines=False,
        size_t columns=0,
        size_t longest=SIZE_MAX,
    ):
        self.delimiter = delimiter
        self.quote = quote
        self.written.has_cells = delimiter != ""
        self.written.delimiter = ord(delimiter) if delimiter else 0
        self.written.has_quotes = quote != ""
        self.written.quote = ord(quote) if quote else 0
        self.written.spans_lines = spans_lines
        self.written.columns = columns
        self.written.longest = longest

    def with_columns(self, size_t columns):
        """This syntax, of rows with so many cells."""
        return RowSyntax(
            self.delimiter,
            self.quote,
            self.written.spans_lines,
            columns,
            self.written.longest,
        )

    def complete_rows(self, text, size_t size, bint is_end=False):
        """How many of the first `size` bytes are complete rows, and what is special about them.

        text: buffer of bytes, whose first one begins a row.
        is_end: whether no text follows.

        The second value is None if each line is a row, unless it is empty, as no cell spans lines
        and all quotes are in order. Otherwise, it has the number of rows; the malformed ones, each
        with the cell, from 1, whose quotes are not in order; the number of rows that span lines;
        and the number of cells that begin with a quote that is a character.
        """
        cdef Memory memory = Memory(text, 1, size)
        cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
        cdef const uint8_t *last
        cdef size_t complete
        cdef bint is_simple = True
        with nogil:
            if self.written.has_quotes and memchr(start, self.written.quote, size) != NULL:
                is_simple = are_lines(&self.written, start, size, is_end, &complete)
            else:
                last = find_last(start, c"\n", size)
                complete = 0 if last == NULL else <size_t> (last - start) + 1
        if not is_simple:
            return self._quoted_rows(memory, size, is_end)
        return size if is_end else complete, None

    cdef tuple _quoted_rows(self, Memory memory, size_t size, bint is_end):
        """What `complete_rows` returns, row by row."""
        cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
        cdef const uint8_t *place = start
        cdef const uint8_t *end = place + size
        cdef Row row
        cdef size_t count = 0, spanning = 0, strays = 0
        malformed = []
        with nogil:
            while place < end:
                row = first_row(&self.written, place, end, is_end)
                if row.end == NULL:
                    break
                if row.fault:
                    with gil:
                        malformed.append((count, row.fault))
                spanning += row.spans_lines
                strays += row.strays
                count += row.spans_lines or is_row(&self.written, place, row.end)
                place = row.end
        return <size_t> (place - start), (count, malformed, spanning, strays)

    def row_starts(self, text, size_t size, bint is_simple=False):
        """Where each row begins, and where the last row ends.

        text: `size` bytes of complete rows, as in `complete_rows`.
        is_simple: whether `complete_rows` says that each line is a row.

        Empty lines are not rows; without cells, lines of blanks are not rows either, as they mean
        nothing in JSON lines.
        """
        cdef Memory memory = Memory(text, 1, size)
        cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
        cdef bint has_quotes = self.written.has_quotes and not is_simple
        cdef size_t count, k
        cdef size_t *starts
        with nogil:
            count = find_rows(&self.written, start, size, has_quotes, NULL)
        starts = <size_t *> malloc((count + 1) * sizeof(size_t))
        if starts == NULL:
            raise MemoryError
        try:
            with nogil:
                find_rows(&self.written, start, size, has_quotes, starts)
            return [starts[k] for k in range(count)] + [size]
        finally:
            free(starts)

    def count_rows(self, text, size_t size):
        """The number of rows, if each line is one, as `complete_rows` says."""
        cdef Memory memory = Memory(text, 1, size)
        cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
        cdef size_t count
        with nogil:
            count = find_rows(&self.written, start, size, False, NULL)
        return count

    def count_cells(self, text, size_t size):
        """The number of cells of one row."""
        cdef Memory memory = Memory(text, 1, size)
        cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
        return first_row(&self.written, start, start + size, True).cells

    def readable(self, text, size_t size, room=None):
        """Write complete rows as readers of cells understand them; return how many bytes they have.

        Malformed rows are left out; cells that begin with a quote that is a character are quoted.

        room: receives the bytes; None to ask how many there are.
        """
        cdef Memory memory = Memory(text, 1, size)
        cdef const uint8_t *start = <const uint8_t *> memory.buffer.buf
        cdef Memory written
        cdef size_t needed
        with nogil:
            needed = write_readable(&self.written, start, size, NULL)
        if room is not None:
            written = Memory(room, 1, needed, is_writable=True)
            with nogil:
                write_readable(&self.written, start, size, <uint8_t *> written.buffer.buf)
        return needed


cdef bint are_lines(
    const Syntax *syntax, const uint8_t *text, size_t size, bint is_end, size_t *complete
) noexcept nogil:
    """Whether no quoted cell extends over the end of its line, and all quotes are in order.

    complete: receives the place after the last line feed, if it is so.

    PERF: processes 64 bytes at a time, with work only for quotes.
    """
    cdef uint8_t rest[64]
    cdef uint64_t quotes, line_feeds, returns, before
    cdef size_t done, k, place
    cdef size_t second = SIZE_MAX       # the second of two quotes that represent one
    cdef size_t end = 0
    cdef bint is_inside = False
    for done in range(0, size, 64):
        if size - done >= 64:
            find_64(text + done, syntax.quote, &quotes, &line_feeds, &returns)
        else:
            memset(rest, 0, sizeof(rest))
            memcpy(rest, text + done, size - done)
            find_64(rest, syntax.quote, &quotes, &line_feeds, &returns)
        while quotes:
            k = <size_t> trailing_zeros(quotes)
            quotes &= quotes - 1
            before = (<uint64_t> 1 << k) - 1
            if is_inside and (line_feeds | returns) & before:
                return False
            returns &= ~before
            if line_feeds & before:
                end = done + 64 - <size_t> leading_zeros(line_feeds & before)
                line_feeds &= ~before
            place = done + k
            if place == second:
                continue
            if not is_inside:
                is_inside = place == 0 or ends_cell(text[place - 1], syntax.delimiter)
            elif place + 1 < size and text[place + 1] == syntax.quote:
                second = place + 1
            elif place + 1 < size:
                if not ends_cell(text[place + 1], syntax.delimiter):
                    return False
                is_inside = False
            elif is_end:
                is_inside = False
        if is_inside and line_feeds | returns:
            return False
        if line_feeds:
            end = done + 64 - <size_t> leading_zeros(line_feeds)
    complete[0] = end
    return not (is_inside and is_end)


cdef inline bint ends_cell(uint8_t byte, uint8_t delimiter) noexcept nogil:
    return byte == delimiter or byte == c"\n" or byte == c"\r"


cdef size_t find_rows(
    const Syntax *syntax, const uint8_t *start, size_t size, bint has_quotes, size_t *starts
) noexcept nogil:
    """The number of rows; `starts`, if it is not NULL, receives their starts."""
    cdef const uint8_t *place = start
    cdef const uint8_t *end = start + size
    cdef const uint8_t *behind
    cdef Row row
    cdef size_t count = 0
    while place < end:
        if has_quotes:
            row = first_row(syntax, place, end, True)
            behind = row.end
        else:
            behind = line_end(place, end)
            behind += behind < end
        if is_row(syntax, place, behind):
            if starts != NULL:
                starts[count] = <size_t> (place - start)
            count += 1
        place = behind
    return count


cdef inline const uint8_t *line_end(const uint8_t *place, const uint8_t *end) noexcept nogil:
    """The line feed that ends a line, or the end of the text."""
    cdef const uint8_t *found = <const uint8_t *> memchr(place, c"\n", <size_t> (end - place))
    return end if found == NULL else found


cdef inline bint is_row(
    const Syntax *syntax, const uint8_t *start, const uint8_t *end
) noexcept nogil:
    """Whether the lines up to the end, perhaps behind a line feed, are a row."""
    if start < end and (end - 1)[0] == c"\n":
        end -= 1
    if syntax.has_cells:
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
