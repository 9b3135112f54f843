# cython: language_level=3
"""Rows that no result can tell apart become few rows, where results are only wanted at ticks.

If ticks and the bounds of a window are multiples of a width, then a window that ends at a tick has
all or none of the rows between two multiples, and likewise of those at a multiple. Such a set of
rows is a *cell*. In a cell, the rows of a trace are merged from time to time, when there are many.
So memory depends on the number of cells in the window, and not on the rate of rows.
"""

from libc.stdint cimport INT64_MIN
from libc.stdlib cimport calloc


cdef enum:
    # So few rows are not worth merging.
    FEW_ROWS = 1 << 14


cdef struct Panes:
    int64_t width       # 0 if rows are not merged
    size_t few          # so few rows are never merged
    size_t most         # merge when there are more rows than that


cdef bint set_width(Panes *panes, const Rows *rows, int64_t width, size_t few) except -1:
    if width < 1 or rows.room:
        raise ValueError("expected a positive width before the first row")
    panes.width = width
    panes.few = panes.most = few
    return True


cdef inline bint are_many(const Panes *panes, const Rows *rows) noexcept nogil:
    return panes.width > 0 and rows.end - rows.start > panes.most


cdef uint32_t *new_slots(uint32_t traces) except NULL:
    """A number for each trace."""
    cdef uint32_t *slots = <uint32_t *> calloc(max(<uint32_t> 1, traces), sizeof(uint32_t))
    if slots == NULL:
        raise MemoryError("mtlmon: out of memory")
    return slots


cdef void set_end(Panes *panes, Rows *rows, size_t index, uint32_t traces) noexcept nogil:
    """Let rows end at an index, behind those that are left."""
    rows.end = rows.base + index
    panes.most = 2 * <size_t> (rows.end - rows.start) + max(panes.few, <size_t> traces)


cdef inline int64_t weight_of(const Rows *rows, size_t index) noexcept nogil:
    return rows.weights[index] if rows.has_weights else 1


cdef inline void move_row(Rows *rows, size_t target, size_t source) noexcept nogil:
    """Copy a row; links become invalid."""
    rows.time_stamps[target] = rows.time_stamps[source]
    rows.numbers[target] = rows.numbers[source]
    if rows.has_values:
        rows.values[target] = rows.values[source]
    if rows.has_weights:
        rows.weights[target] = rows.weights[source]


cdef inline void choose(QueueKind kind, Rows *rows, size_t index, size_t later) noexcept nogil:
    """Let a row have the value of a later one, if that is wanted more."""
    if kind == LAST or (kind != FIRST and rows.values[later] > rows.values[index]):
        rows.values[index] = rows.values[later]


cdef size_t cell_end(
    const Rows *rows, size_t first, size_t last, int64_t width
) noexcept nogil:
    """The index behind the rows that are in the same cell as the first one."""
    cdef int64_t limit = rows.time_stamps[first]
    cdef int64_t behind = limit % width
    cdef size_t place = first + 1
    if behind:
        behind = width - 1 - behind
        limit = limit + behind if limit <= INT64_MAX - behind else INT64_MAX
    while place < last and rows.time_stamps[place] <= limit:
        place += 1
    return place


ctypedef fused Merging:
    CountWindow
    QueueWindow
    Fold


cdef size_t merged_rows(
    Merging kernel, uint32_t *slots, size_t first, size_t last, size_t kept
) noexcept nogil:
    """Merge the rows from `first` to `last`, and move them to `kept`; return the index behind."""
    cdef Rows *rows = &kernel.rows
    cdef size_t place = first
    cdef size_t end, start, slot
    cdef uint32_t number
    while place < last:
        end = cell_end(rows, place, last, kernel.panes.width)
        start = kept
        while place < end:
            number = rows.numbers[place]
            slot = slots[number]
            if start <= slot < kept and rows.numbers[slot] == number:
                kernel.merge(slot, place)
            else:
                move_row(rows, kept, place)
                slots[number] = <uint32_t> kept
                kept += 1
            place += 1
    return kept


ctypedef fused MergingWindow:
    CountWindow
    QueueWindow


cdef bint condense_window(MergingWindow window) except -1:
    """Merge rows that have entered, and rows that have not; return whether there were many."""
    cdef Rows *rows = &window.rows
    cdef uint32_t *slots
    cdef size_t first, middle, last
    window.begin()
    if not are_many(&window.panes, rows):
        return False
    slots = new_slots(window.traces)
    first = index_of(rows, window.tail)
    middle = index_of(rows, window.entry)
    last = index_of(rows, rows.end)
    with nogil:
        first = merged_rows(window, slots, first, middle, first)
        last = merged_rows(window, slots, middle, last, first)
    free(slots)
    window.entry = rows.base + first
    set_end(&window.panes, rows, last, window.traces)
    window.begin()
    return True


cdef struct SumOfCell:
    # The rows of a trace in a cell; their exact sum is beside it.
    uint32_t number
    uint32_t finite_rows
    int64_t finite_weight
    Specials specials
    bint is_apart       # whether its rows stay as they are


cdef struct SumsOfCells:
    # What merging sums needs: the traces of the present cell, and the rows that they become.
    SumOfCell *cells
    Numbers sums
    uint32_t *slots
    size_t count
    Rows merged


cdef int condense_sums(SumWindow window) except -1:
    """As `condense_window`: the rows of a cell become the few floats or integers of their sum."""
    cdef Rows *rows = &window.rows
    cdef SumsOfCells found
    cdef size_t first, middle, last
    cdef uint32_t most
    window.begin()
    if not are_many(&window.panes, rows):
        return 0
    memset(&found, 0, sizeof(found))
    first = index_of(rows, window.tail)
    middle = index_of(rows, window.entry)
    last = index_of(rows, rows.end)
    try:
        give_terms_a_place(window, first, last)
        most = <uint32_t> min(<size_t> window.traces, last - first)
        found.slots = new_slots(window.traces)
        resized(<void **> &found.cells, most, sizeof(SumOfCell))
        found.sums.width = window.sums.width
        found.sums.exponent = window.sums.exponent
        resize_numbers(&found.sums, most)
        init_rows(&found.merged, True, False)
        found.merged.has_weights = True
        resize_rows(&found.merged, last - first)
        with nogil:
            first = merged_sums(&found, window.is_float, rows, first, middle, first, &window.panes)
            last = merged_sums(&found, window.is_float, rows, middle, last, first, &window.panes)
    finally:
        free(found.slots)
        free(found.cells)
        free(found.sums.words)
        free_rows(&found.merged)
    window.entry = rows.base + first
    set_end(&window.panes, rows, last, window.traces)
    window.begin()
    return 0


cdef int give_terms_a_place(SumWindow window, size_t first, size_t last) except -1:
    """Make the numbers of a window wide enough for all of its rows."""
    cdef Term term
    cdef size_t place
    for place in range(first, last):
        if term_of(window.is_float, window.rows.values[place], &term) != FINITE:
            continue
        if term.magnitude and not has_place(&window.sums, term.exponent, 64):
            window.widen(term.exponent)
    return 0


cdef size_t merged_sums(
    SumsOfCells *found, bint is_float, Rows *rows, size_t first, size_t last, size_t kept,
    const Panes *panes
) noexcept nogil:
    """As `merged_rows`."""
    cdef size_t place = first
    cdef size_t end, start, k
    cdef int64_t time_stamp
    while place < last:
        end = cell_end(rows, place, last, panes.width)
        start = place
        time_stamp = rows.time_stamps[place]
        found.count = 0
        while place < end:
            add_to_cell(found, is_float, rows, place)
            place += 1
        found.merged.end = 0
        for k in range(found.count):
            push_sum(found, is_float, k)
        for k in range(start, end):
            if found.cells[found.slots[rows.numbers[k]]].is_apart:
                push_weighed(&found.merged, rows.numbers[k], rows.values[k], rows.weights[k])
        for k in range(<size_t> found.merged.end):
            rows.time_stamps[kept] = time_stamp
            rows.numbers[kept] = found.merged.numbers[k]
            rows.values[kept] = found.merged.values[k]
            rows.weights[kept] = found.merged.weights[k]
            kept += 1
    return kept


cdef inline void add_to_cell(
    SumsOfCells *found, bint is_float, const Rows *rows, size_t place
) noexcept nogil:
    """Add a row to the sum of its trace in the present cell."""
    cdef uint32_t number = rows.numbers[place]
    cdef size_t slot = found.slots[number]
    cdef SumOfCell *cell
    cdef Term term
    cdef FloatClass kind = term_of(is_float, rows.values[place], &term)
    if slot >= found.count or found.cells[slot].number != number:
        slot = found.count
        found.count += 1
        found.slots[number] = <uint32_t> slot
        memset(&found.cells[slot], 0, sizeof(SumOfCell))
        memset(number_of(&found.sums, slot), 0, number_bytes(&found.sums))
        found.cells[slot].number = number
    cell = &found.cells[slot]
    if kind != FINITE:
        count_special(&cell.specials, kind, rows.weights[place])
        return
    cell.finite_rows += 1
    cell.finite_weight += rows.weights[place]
    if term.magnitude:
        add_magnitude(
            number_of(&found.sums, slot), found.sums.width, term.magnitude,
            <uint32_t> (term.exponent - found.sums.exponent), term.is_negative
        )


cdef inline void push_weighed(
    Rows *rows, uint32_t number, int64_t value, int64_t weight
) noexcept nogil:
    push_row(rows, 0, number, value)
    rows.weights[index_of(rows, rows.end) - 1] = weight


cdef void push_sum(SumsOfCells *found, bint is_float, size_t slot) noexcept nogil:
    """Append the rows that a trace has in the present cell from now on.

    These are no more rows than before: if that takes too many, or a sum is too large for a float,
    the rows stay as they are.
    """
    cdef SumOfCell *cell = &found.cells[slot]
    cdef Rows *merged = &found.merged
    cdef uint64_t start = merged.end
    cdef uint64_t *words = number_of(&found.sums, slot)
    cdef uint32_t width = found.sums.width
    cdef uint32_t rows = 0
    cdef int64_t weight = cell.finite_weight
    cdef int64_t value
    cdef Term term
    if cell.specials.positive:
        push_weighed(merged, cell.number, INFINITE_BITS, cell.specials.positive)
    if cell.specials.negative:
        push_weighed(merged, cell.number, INFINITE_BITS | INT64_MIN, cell.specials.negative)
    if cell.specials.undefined:
        push_weighed(merged, cell.number, NAN_BITS, cell.specials.undefined)
    while rows < cell.finite_rows:
        value = greatest_part(words, width, found.sums.exponent, is_float)
        if term_of(is_float, value, &term) != FINITE:
            break
        push_weighed(merged, cell.number, value, weight)
        rows += 1
        weight = 0
        subtract_part(words, width, found.sums.exponent, &term)
        if is_zero(words, width):
            return
    if cell.finite_rows:
        cell.is_apart = True
        merged.end = start


cdef int64_t greatest_part(
    const uint64_t *words, uint32_t width, int exponent, bint is_float
) noexcept nogil:
    """The cell nearest to a number: a float, or an integer of 64 bits."""
    cdef double value
    cdef int64_t cell
    cdef uint64_t fill = <uint64_t> -1 if words[width - 1] >> 63 else 0
    cdef uint32_t place
    if is_float:
        value = rounded(words, width, exponent)
        memcpy(&cell, &value, sizeof(cell))
        return cell
    cell = <int64_t> words[0]
    if (cell < 0) != (fill != 0):
        return INT64_MIN if fill else INT64_MAX
    for place in range(1, width):
        if words[place] != fill:
            return INT64_MIN if fill else INT64_MAX
    return cell


cdef void subtract_part(
    uint64_t *words, uint32_t width, int exponent, const Term *term
) noexcept nogil:
    """Subtract a term that the number was rounded to."""
    cdef uint64_t magnitude = term.magnitude
    cdef int shift = term.exponent - exponent
    if shift < 0:
        # Its last bits are 0, as the number is a multiple of 2^exponent.
        magnitude >>= -shift
        shift = 0
    if magnitude:
        add_magnitude(words, width, magnitude, <uint32_t> shift, not term.is_negative)


cdef bint is_zero(const uint64_t *words, uint32_t width) noexcept nogil:
    cdef uint32_t place
    for place in range(width):
        if words[place]:
            return False
    return True
