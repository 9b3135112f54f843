# cython: language_level=3
"""Rows that no result can tell apart become one row, where results are only wanted at ticks.

If ticks and the bounds of a window are multiples of a width, then a window that ends at a tick has
all or none of the rows between two multiples, and likewise of those at a multiple, because
intervals are closed. Such a set of rows is a *cell*. Of the rows of a trace in a cell, the first is
kept, and those that follow are merged into it when they come. The kept row has their number, or the
value that the aggregate picks, or the exact sum of the values and, for variances, of their squares.
`distinct` keeps a row for each of the values in a cell. Quantiles keep all rows, because no summary
of their values is shorter and exact. So memory depends on the number of cells in the window, and
not on the rate of rows.

Only rows that have not entered the window are merged into. A tick is read when the clock has passed
it, so no cell has rows to come when its rows enter. A journal records what a batch has added to
rows from before the batch, for `undo`.
"""


cdef struct Panes:
    int64_t width       # 0 if rows are not merged
    int64_t limit       # the last time-stamp of the cell of the last row
    uint64_t opened     # the position of the first row of that cell
    uint32_t *latest    # for each trace, the low bits of the position of its last row
    Journal merges      # rows that were merged into at the last `begin` already: the cells added
    int64_t marked_limit
    uint64_t marked_opened


cdef bint set_width(Panes *panes, const Rows *rows, int64_t width) except -1:
    if width < 1 or rows.room:
        raise ValueError("expected a positive width before the first row")
    panes.width = width
    return True


cdef void free_panes(Panes *panes) noexcept nogil:
    free(panes.latest)
    free(panes.merges.changes)


cdef int reserve_panes(
    Panes *panes, Rows *queue, uint32_t before, uint32_t traces, size_t rows
) except -1:
    """Make room for so many traces, from those before, and for so many rows.

    Most of the rows are merged, so `push_pane` makes room for those that are not.
    """
    if panes.width == 0:
        return reserve_rows(queue, rows)
    reserve_changes(&panes.merges, rows)
    if traces > before:
        resized(<void **> &panes.latest, traces, sizeof(uint32_t))
        memset(panes.latest + before, 0, (traces - before) * sizeof(uint32_t))
    return 0


cdef inline size_t panes_bytes(const Panes *panes, uint32_t traces) noexcept nogil:
    if panes.width == 0:
        return 0
    return traces * sizeof(uint32_t) + panes.merges.room * sizeof(Change)


cdef object most_panes_bytes(const Panes *panes, object traces, object batch):
    if panes.width == 0:
        return 0
    return most_traces(traces) * sizeof(uint32_t) + 2 * batch * sizeof(Change)


cdef inline int64_t cell_limit(int64_t time_stamp, int64_t width) noexcept nogil:
    """The last time-stamp of the cell of a time-stamp."""
    cdef int64_t behind = time_stamp % width
    if behind == 0:
        return time_stamp
    behind = width - 1 - behind
    return time_stamp + behind if time_stamp <= INT64_MAX - behind else INT64_MAX


cdef inline int64_t last_tick(const Panes *panes, int64_t now) noexcept nogil:
    """The last time at which results may be wanted before now; now itself without panes."""
    if panes.width == 0 or now < 1:
        return now
    return (now - 1) - (now - 1) % panes.width


cdef inline size_t slot_of(
    Panes *panes, const Rows *rows, uint64_t entry, int64_t time_stamp, uint32_t number
) noexcept nogil:
    """The index of the row that the next row is merged into; SIZE_MAX if that is to be pushed.

    entry: the position of the first row that has not entered the window.
    """
    cdef uint64_t first
    cdef uint32_t distance
    cdef size_t index
    if time_stamp > panes.limit:
        panes.limit = cell_limit(time_stamp, panes.width)
        panes.opened = rows.end
    first = max(panes.opened, entry)
    distance = panes.latest[number] - <uint32_t> first
    if distance < rows.end - first:
        index = index_of(rows, first + distance)
        if rows.numbers[index] == number:
            return index
    panes.latest[number] = <uint32_t> rows.end
    return SIZE_MAX


cdef inline int push_pane(
    Rows *rows, int64_t time_stamp, uint32_t number, int64_t value
) except -1 nogil:
    """Append the first row of a trace in a cell."""
    reserve_rows(rows, 1)
    push_row(rows, time_stamp, number, value)
    return 0


cdef inline void expect_slot(const Panes *panes, const Rows *rows, uint32_t number) noexcept nogil:
    """Fetch the row that the next row of a trace may be merged into; the prefetch may miss."""
    cdef size_t index = linked_index(rows, panes.latest[number])
    if index < rows.room:
        prefetch(&rows.numbers[index])
        if rows.has_values:
            prefetch(&rows.values[index])
        if rows.word_count:
            prefetch(words_of(rows, index))


cdef inline void note_merge(
    Panes *panes, const Rows *rows, uint64_t marked_end, size_t index, int64_t cell
) noexcept nogil:
    """Note what `undo` needs, for a row that was there at the last `begin`."""
    if index < index_of(rows, marked_end):
        note_change(&panes.merges, index, cell, 0)


cdef inline void begin_panes(Panes *panes) noexcept nogil:
    panes.merges.count = 0
    panes.marked_limit = panes.limit
    panes.marked_opened = panes.opened


cdef void find_latest(Panes *panes, const Rows *rows) noexcept nogil:
    """Find the last row of each trace in the open cell."""
    cdef size_t place
    for place in range(index_of(rows, panes.opened), index_of(rows, rows.end)):
        panes.latest[rows.numbers[place]] = <uint32_t> (rows.base + place)


cdef inline void undo_panes(Panes *panes, const Rows *rows) noexcept nogil:
    """Open the cell that was open at the last `begin`; the rows are those of then again."""
    if panes.width == 0:
        return
    panes.limit = panes.marked_limit
    # rows in front of the start have gone
    panes.opened = max(panes.marked_opened, rows.start)
    find_latest(panes, rows)


cdef void open_again(Panes *panes, const Rows *rows, uint32_t traces) noexcept nogil:
    """Find the cell of the last row, and which rows are in it, after rows have been moved."""
    cdef size_t place = index_of(rows, rows.end)
    cdef size_t first = index_of(rows, rows.start)
    if panes.width == 0:
        return
    if traces:
        memset(panes.latest, 0, traces * sizeof(uint32_t))
    panes.limit = cell_limit(rows.time_stamps[place - 1], panes.width) if place > first else 0
    while place > first and (
        cell_limit(rows.time_stamps[place - 1], panes.width) == panes.limit
    ):
        place -= 1
    panes.opened = rows.base + place
    find_latest(panes, rows)
