# cython: language_level=3
"""Rows of delimited text whose quotes need a closer look.

A quoted cell begins with a quote, has two for each one inside, and ends before a delimiter or the
end of a line. A quote elsewhere in a cell is a character. Where quoted cells end on their lines,
one that does not is no quoted cell: its quote is a character, too. Where they may span lines, a row
that does must have the number of cells of the header; otherwise its first line alone is a row, and
malformed, so that one wrong quote does not swallow the rows behind it.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcpy

cdef struct Syntax:
    # how rows are written, as for `RowSyntax`
    bint has_cells
    uint8_t delimiter
    bint has_quotes
    uint8_t quote
    bint spans_lines
    size_t columns
    size_t longest


cdef enum CellState:
    IS_WHOLE
    HAS_STRAY_QUOTE     # it begins with a quote that is a character
    IS_MALFORMED
    IS_CUT              # more text is needed to know where it ends


cdef struct Cell:
    const uint8_t *end  # what follows: a delimiter, the end of a line, or the end of the text
    CellState state


cdef struct Row:
    const uint8_t *end  # behind its line feed; NULL if more text is needed to know
    size_t cells
    size_t strays       # cells that begin with a quote that is a character
    size_t fault        # the cell, from 1, whose quotes are not in order; 0 if there is none
    bint spans_lines


cdef Row first_row(
    const Syntax *syntax, const uint8_t *start, const uint8_t *end, bint is_end
) noexcept nogil:
    """The row at the start of a text; `is_end` says whether no text follows.

    A malformed row has the same fault if the text ends anywhere behind its first line, so that it
    does not depend on how text is cut.
    """
    cdef Row row
    cdef Cell cell
    cdef const uint8_t *place = start
    cdef const uint8_t *line = line_end(start, end)
    cdef const uint8_t *first = line + (line < end)
    cdef size_t spanning = 0            # the first cell that spans lines
    row.end = NULL
    row.cells = 1
    row.strays = row.fault = 0
    row.spans_lines = False
    if line == end and not is_end:
        return row
    while True:
        cell = next_cell(syntax, start, place, line, end, is_end)
        if cell.state == IS_CUT:
            return row
        if cell.state == IS_MALFORMED:
            row.fault = row.cells
            break
        row.strays += cell.state == HAS_STRAY_QUOTE
        if cell.end > line:
            line = line_end(cell.end, end)
            spanning = spanning if spanning else row.cells
        place = cell.end
        if place == line or place + 1 == line and place[0] == c"\r":
            break
        # A carriage return in the middle of a line ends a row for readers of cells.
        row.cells += place[0] == syntax.delimiter
        place += 1
        if spanning and syntax.columns and row.cells > syntax.columns:
            row.fault = spanning
            break
    if not row.fault and line == end and not is_end:
        return row
    if spanning and (row.fault or syntax.columns and row.cells != syntax.columns):
        row.fault = spanning
    row.spans_lines = spanning and not row.fault
    row.end = first if row.fault else line + (line < end)
    return row


cdef Cell next_cell(
    const Syntax *syntax,
    const uint8_t *start,
    const uint8_t *place,
    const uint8_t *line,
    const uint8_t *end,
    bint is_end,
) noexcept nogil:
    """The cell at a place.

    start: where its row begins.
    line: where its line ends.
    """
    cdef Cell cell
    cdef const uint8_t *limit = line
    cdef const uint8_t *behind
    cell.state = IS_WHOLE
    if syntax.has_quotes and place < line and place[0] == syntax.quote:
        if syntax.spans_lines:
            limit = end
            if <size_t> (end - start) > syntax.longest:
                limit = max(line, start + syntax.longest)
        behind = behind_quotes(place + 1, limit, syntax.quote)
        if syntax.spans_lines and limit == end and (behind == NULL or behind == end):
            if not is_end:
                cell.state = IS_CUT
                return cell
        elif syntax.spans_lines and behind == limit:
            behind = NULL
        if behind != NULL and (behind == limit or ends_cell(behind[0], syntax.delimiter)):
            cell.end = behind
            return cell
        cell.state = IS_MALFORMED if syntax.spans_lines else HAS_STRAY_QUOTE
    while place < line and place[0] != syntax.delimiter and place[0] != c"\r":
        place += 1
    cell.end = place
    return cell


cdef const uint8_t *behind_quotes(
    const uint8_t *place, const uint8_t *end, uint8_t quote
) noexcept nogil:
    """The place behind the quote that ends a quoted text, NULL if there is none."""
    while place < end:
        place = <const uint8_t *> memchr(place, quote, <size_t> (end - place))
        if place == NULL:
            return NULL
        place += 1
        if place == end or place[0] != quote:
            return place
        place += 1
    return NULL


cdef size_t write_readable(
    const Syntax *syntax, const uint8_t *start, size_t size, uint8_t *room
) noexcept nogil:
    """How many bytes `RowSyntax.readable` writes; `room`, if it is not NULL, receives them."""
    cdef const uint8_t *place = start
    cdef const uint8_t *end = start + size
    cdef Row row
    cdef size_t written = 0
    while place < end:
        row = first_row(syntax, place, end, True)
        if row.strays:
            written += write_quoted(
                syntax, place, row.end, NULL if room == NULL else room + written
            )
        elif not row.fault:
            if room != NULL:
                memcpy(room + written, place, <size_t> (row.end - place))
            written += <size_t> (row.end - place)
        place = row.end
    return written


cdef size_t write_quoted(
    const Syntax *syntax, const uint8_t *start, const uint8_t *end, uint8_t *room
) noexcept nogil:
    """Write a row with quotes around each cell that begins with one that is a character."""
    cdef const uint8_t *line = line_end(start, end)
    cdef const uint8_t *place = start
    cdef Cell cell
    cdef size_t written = 0
    while place < end:
        cell = next_cell(syntax, start, place, line, end, True)
        if cell.state == HAS_STRAY_QUOTE:
            written += write_byte(room, written, syntax.quote)
        while place < cell.end:
            if cell.state == HAS_STRAY_QUOTE and place[0] == syntax.quote:
                written += write_byte(room, written, syntax.quote)
            written += write_byte(room, written, place[0])
            place += 1
        if cell.state == HAS_STRAY_QUOTE:
            written += write_byte(room, written, syntax.quote)
        # what ends the cell
        if place < end:
            written += write_byte(room, written, place[0])
            place += 1
    return written


cdef inline size_t write_byte(uint8_t *room, size_t place, uint8_t byte) noexcept nogil:
    if room != NULL:
        room[place] = byte
    return 1
