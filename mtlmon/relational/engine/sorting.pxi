# cython: language_level=3
"""The order of cells and rows: numbers by value, texts by code points."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from mtlmon.arrays.native cimport KeyTable, Text


cdef enum:
    # a power of 2
    SHORT_RUN = 8


cdef int compare_texts(KeyTable texts, int64_t left, int64_t right) noexcept nogil:
    """Compare texts by their numbers. The order of UTF-8 is that of code points."""
    cdef Text a, b
    cdef int found
    cdef uint64_t count = texts.count
    if left == right or <uint64_t> left >= count or <uint64_t> right >= count:
        # a forged snapshot can have numbers that no text has
        return (left > right) - (left < right)
    a = texts.column_text(<size_t> left, 0)
    b = texts.column_text(<size_t> right, 0)
    found = memcmp(a.place, b.place, min(a.length, b.length))
    return found if found else (a.length > b.length) - (a.length < b.length)


cdef inline double as_number(int64_t cell) noexcept nogil:
    cdef double number
    memcpy(&number, &cell, sizeof(double))
    return number


cdef inline int64_t as_cell(double number) noexcept nogil:
    """The cell of a number; there is no -0.0 in cells."""
    cdef int64_t cell
    if number == 0:
        number = 0
    memcpy(&cell, &number, sizeof(double))
    return cell


cdef inline int compare_cells(
    KeyTable texts, CellKind kind, int64_t left, int64_t right
) noexcept nogil:
    cdef double a, b
    if kind == TEXT_CELL:
        return compare_texts(texts, left, right)
    if kind == FLOAT_CELL:
        a = as_number(left)
        b = as_number(right)
        return (a > b) - (a < b)
    return (left > right) - (left < right)


cdef int compare_rows(
    KeyTable texts, const uint32_t *kinds, size_t width, const int64_t *left, const int64_t *right
) noexcept nogil:
    cdef size_t k
    cdef int found
    for k in range(width):
        found = compare_cells(texts, <CellKind> kinds[k], left[k], right[k])
        if found:
            return found
    return 0


cdef void sort_rows(
    KeyTable texts, const uint32_t *kinds, const Rows *rows, uint32_t *order, uint32_t *spare
) noexcept nogil:
    """Sort the numbers of rows, which are in `order`: short runs by insertion, which are merged."""
    cdef size_t count = rows.count
    cdef size_t run = SHORT_RUN
    cdef size_t start, middle, end, left, right, place
    cdef uint32_t number
    cdef uint32_t *source = order
    cdef uint32_t *target = spare
    for place in range(1, count):
        number = order[place]
        start = place & ~(<size_t> SHORT_RUN - 1)
        left = place
        while left > start and compare_rows(
            texts, kinds, rows.width, row_of(rows, order[left - 1]), row_of(rows, number)
        ) > 0:
            order[left] = order[left - 1]
            left -= 1
        order[left] = number
    while run < count:
        start = 0
        while start < count:
            middle = min(start + run, count)
            end = min(start + 2 * run, count)
            left = start
            right = middle
            for place in range(start, end):
                if right >= end or left < middle and compare_rows(
                    texts, kinds, rows.width, row_of(rows, source[left]),
                    row_of(rows, source[right])
                ) <= 0:
                    target[place] = source[left]
                    left += 1
                else:
                    target[place] = source[right]
                    right += 1
            start += 2 * run
        source, target = target, source
        run *= 2
    if source != order:
        memcpy(order, source, count * sizeof(uint32_t))
