# cython: language_level=3
"""Windows that need all their values: numbers of different values, and quantiles.

Quantiles keep the values of a key sorted, in blocks.
"""

from libc.math cimport NAN, fabs, floor, isfinite, isinf
from libc.stdint cimport INT64_MIN


cdef struct Group:
    # Equal values of one trace in the window; a free place if there are none.
    int64_t cell
    int64_t count
    uint32_t trace


cdef inline uint64_t group_hash(uint32_t trace, int64_t cell) noexcept nogil:
    cdef uint64_t hash = (<uint64_t> cell ^ <uint64_t> trace << 32) * 0x9E3779B97F4A7C15ULL
    hash = (hash ^ (hash >> 32) ^ trace) * 0xBF58476D1CE4E5B9ULL
    return hash ^ (hash >> 29)


cdef struct OpenValues:
    # The rows of the open cell by their traces and values, a hash table of open addressing: how far
    # each is behind the first row of the cell, from 1; a free place is 0.
    uint32_t *rows
    size_t mask, used


cdef int clear_values(OpenValues *values, size_t size) except -1 nogil:
    """Let a table be empty, with so many places, a power of two."""
    values.used = 0
    if values.rows == NULL or size != values.mask + 1:
        resized(<void **> &values.rows, size, sizeof(uint32_t))
        values.mask = size - 1
    memset(values.rows, 0, size * sizeof(uint32_t))
    return 0


cdef inline size_t place_of_value(
    const OpenValues *values, const Rows *rows, uint64_t opened, uint32_t trace, int64_t cell
) noexcept nogil:
    """The place of a value in the table, or the free place for it."""
    cdef size_t place = group_hash(trace, cell) & values.mask
    cdef size_t index
    while values.rows[place]:
        index = index_of(rows, opened + values.rows[place] - 1)
        if rows.values[index] == cell and rows.numbers[index] == trace:
            break
        place = (place + 1) & values.mask
    return place


cdef int find_values(
    OpenValues *values, const Rows *rows, uint64_t opened, size_t size
) except -1 nogil:
    """Find the values of the open cell, for a table of so many places."""
    cdef uint64_t position
    cdef size_t index, place
    clear_values(values, size)
    for position in range(opened, rows.end):
        index = index_of(rows, position)
        place = place_of_value(values, rows, opened, rows.numbers[index], rows.values[index])
        if values.rows[place] == 0:
            values.rows[place] = <uint32_t> (position - opened + 1)
            values.used += 1
    return 0


@final
cdef class DistinctWindow(Window):
    """Counts the different values in the window.

    All zeros are one value, and so are all NaN.

    is_float: whether values are floats; otherwise, their cells are compared.
    """

    cdef bint is_float
    cdef OpenValues open_values
    cdef int64_t *counts        # the number of different values, by trace
    cdef Group *groups          # a hash table of open addressing
    cdef size_t mask, used

    def __cinit__(self, bint is_float, int64_t lower, int64_t upper):
        self.is_float = is_float
        self.set_bounds(lower, upper)
        init_rows(&self.rows, True, False)
        self.resize_groups(LEAST_ROWS)

    def __dealloc__(self):
        free(self.counts)
        free(self.groups)
        free(self.open_values.rows)

    cdef int resize_traces(self, uint32_t traces) except -1:
        resized(<void **> &self.counts, traces, sizeof(int64_t))
        memset(self.counts + self.traces, 0, (traces - self.traces) * sizeof(int64_t))
        self.traces = traces
        return 0

    cdef int resize_groups(self, size_t size) except -1 nogil:
        """Move all groups to a table of another size, a power of two."""
        cdef Group *groups = NULL
        cdef Group *old = self.groups
        cdef size_t places = self.mask + 1 if old != NULL else 0
        cdef size_t k
        resized(<void **> &groups, size, sizeof(Group))
        memset(groups, 0, size * sizeof(Group))
        self.groups = groups
        self.mask = size - 1
        for k in range(places):
            if old[k].count:
                self.group_of(old[k].trace, old[k].cell)[0] = old[k]
        free(old)
        return 0

    cdef inline Group *group_of(self, uint32_t trace, int64_t cell) noexcept nogil:
        """The group of a value, or the free place for it."""
        cdef size_t place = group_hash(trace, cell) & self.mask
        cdef Group *group = &self.groups[place]
        while group.count and (group.cell != cell or group.trace != trace):
            place = (place + 1) & self.mask
            group = &self.groups[place]
        return group

    cdef int add(self, uint32_t trace, int64_t cell, int64_t count) except -1 nogil:
        cdef Group *group = self.group_of(trace, cell)
        if group.count == 0:
            if 3 * self.used > 2 * self.mask:
                self.resize_groups(2 * (self.mask + 1))
                group = self.group_of(trace, cell)
            group.cell = cell
            group.trace = trace
            self.used += 1
            self.counts[trace] += 1
        group.count += count
        return 0

    cdef void remove(self, Group *group) noexcept nogil:
        """Free the place of a group without values, and let no group be cut off from its place."""
        cdef size_t free_place = <size_t> (group - self.groups)
        cdef size_t place = free_place
        cdef size_t wanted
        self.used -= 1
        while True:
            place = (place + 1) & self.mask
            if self.groups[place].count == 0:
                break
            wanted = group_hash(self.groups[place].trace, self.groups[place].cell) & self.mask
            if ((place - wanted) & self.mask) >= ((place - free_place) & self.mask):
                self.groups[free_place] = self.groups[place]
                free_place = place
        self.groups[free_place].count = 0

    cdef inline int enter(self, size_t index) except -1 nogil:
        return self.add(self.rows.numbers[index], self.rows.values[index], 1)

    cdef inline int leave(self, size_t index) except -1 nogil:
        cdef uint32_t trace = self.rows.numbers[index]
        cdef Group *group = self.group_of(trace, self.rows.values[index])
        group.count -= 1
        if group.count == 0:
            self.counts[trace] -= 1
            self.remove(group)
        return 0

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.counts[trace])

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        value = self.kept_value(value)
        if self.panes.width:
            return self.put_in_pane(time_stamp, trace, value)
        push_row(&self.rows, time_stamp, trace, value)
        return 0

    cdef inline int64_t kept_value(self, int64_t value) noexcept nogil:
        """The one cell of all values that are the same."""
        if self.is_float:
            if value == INT64_MIN:
                return 0
            if value & INT64_MAX > INFINITE_BITS:
                return NAN_BITS
        return value

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        # nothing needs to be undone for rows that are merged
        return Window.make_room(self, traces, 0 if self.panes.width else rows)

    def set_panes(self, int64_t width):
        # PERF: with 2,000 rows of a trace in a pane and 20 different values, this takes 12 instead
        # of 24 ns a row; if all values are different, 125 instead of 105 ns.
        clear_values(&self.open_values, LEAST_ROWS)
        return set_width(&self.panes, &self.rows, width)

    cdef int put_in_pane(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        """Add a row, unless one of its trace and cell has the same value."""
        cdef OpenValues *values = &self.open_values
        cdef Panes *panes = &self.panes
        cdef size_t place
        if time_stamp > panes.limit:
            # the table shrinks when few of its places were used
            place = values.mask + 1
            clear_values(values, place // 2 if LEAST_ROWS < place > 16 * values.used else place)
            panes.limit = cell_limit(time_stamp, panes.width)
            panes.opened = self.rows.end
        elif 2 * values.used > values.mask:
            find_values(values, &self.rows, panes.opened, 2 * (values.mask + 1))
        place = place_of_value(values, &self.rows, panes.opened, trace, value)
        if values.rows[place]:
            return 0
        push_pane(&self.rows, time_stamp, trace, value)
        values.rows[place] = <uint32_t> (self.rows.end - panes.opened)
        values.used += 1
        return 0

    cdef int find_open_values(self) except -1:
        """Find the values of the open cell after its rows have changed."""
        cdef size_t size = self.open_values.mask + 1
        if self.panes.width == 0:
            return 0
        while size < 2 * (self.rows.end - self.panes.opened):
            size *= 2
        return find_values(&self.open_values, &self.rows, self.panes.opened, size)

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        advance(self, time_stamp)
        return self.result(trace, value)

    cdef inline int result(self, uint32_t trace, int64_t *value) noexcept nogil:
        value[0] = self.counts[trace]
        return FOUND

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    def begin(self):
        Window.begin(self)
        if self.mask >= LEAST_ROWS and 8 * self.used < self.mask:
            self.resize_groups((self.mask + 1) // 2)

    def undo(self):
        take_back(self)
        undo_panes(&self.panes, &self.rows)
        self.find_open_values()

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        Window.clear_unsettled(self, flags, count)
        for number in range(min(count, <size_t> self.traces)):
            if self.counts[number]:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        cdef Group *groups = NULL
        cdef Group *old = self.groups
        cdef size_t k
        cdef uint32_t trace
        resized(<void **> &groups, self.mask + 1, sizeof(Group))
        memset(groups, 0, (self.mask + 1) * sizeof(Group))
        if self.traces:
            memset(self.counts, 0, self.traces * sizeof(int64_t))
        self.groups = groups
        self.used = 0
        for k in range(self.mask + 1):
            trace = old[k].trace
            if old[k].count and trace < count and numbers[trace] != FORGOTTEN:
                self.add(numbers[trace], old[k].cell, old[k].count)
        free(old)
        Window.renumber(self, numbers, count)
        return self.find_open_values()

    cdef int restart(self) except -1:
        Window.restart(self)
        return self.find_open_values()

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        cdef size_t k
        Window.visit_texts(self, marks)
        for k in range(self.mask + 1):
            if self.groups[k].count:
                visit_text(&self.groups[k].cell, marks)
        # groups and rows have other places now
        self.resize_groups(self.mask + 1)
        return self.find_open_values()

    cdef int write(self, NumberWriter writer) except -1:
        cdef size_t k
        Window.write(self, writer)
        if not self.is_bounded:
            writer.put(self.used)
            for k in range(self.mask + 1):
                if self.groups[k].count:
                    writer.put(self.groups[k].trace)
                    writer.put(zigzag(self.groups[k].cell))
                    writer.put(<uint64_t> self.groups[k].count)
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t position
        cdef uint32_t trace
        cdef int64_t cell
        Window.read(self, reader)
        self.find_open_values()
        for position in range(self.tail, self.entry):
            self.enter(index_of(&self.rows, position))
        if self.is_bounded:
            return 0
        for _ in range(reader.get_count(3)):
            trace = <uint32_t> reader.get(MOST_TRACES - 1)
            self.make_room(trace + 1, 0)
            cell = self.read_value(reader)
            self.add(trace, cell, <int64_t> reader.get(INT64_MAX - 1) or 1)
        return 0

    cdef size_t bytes_held(self):
        return (
            Window.bytes_held(self) + self.traces * sizeof(int64_t)
            + (self.mask + 1) * sizeof(Group)
            + (self.open_values.mask + 1) * sizeof(uint32_t)
        )

    cdef object trace_bytes(self):
        return sizeof(int64_t)

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        # The table grows when two thirds are in use, to twice its size. A row enters before others
        # leave.
        return (
            Window.most_bytes(self, traces, rows, rows_of_trace, batch)
            + max(2 * LEAST_ROWS, 3 * (rows + 1) + 2) * sizeof(Group)
            + max(2 * LEAST_ROWS, 4 * (rows + batch) + 4) * sizeof(uint32_t)
        )

    cdef bint has_states_by_trace(self):
        # the values that have entered a window without an upper bound are in no order
        return self.is_bounded and self.panes.width == 0

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        return push_by_trace(self, time_stamp, trace, self.kept_value(value))

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        advance_trace(self, time_stamp, trace)
        return self.result(trace, value)

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        return step_by_trace(self, columns)

    cdef int pass_trace(self, uint32_t trace, int64_t moment) except -1 nogil:
        return advance_trace(self, moment, trace)

    cdef int take(self, size_t index) except -1 nogil:
        return self.enter(index)

    cdef int drop(self, size_t index) except -1 nogil:
        return self.leave(index)

    cdef inline void expect_by_trace(self, uint32_t trace) noexcept nogil:
        expect_rows(self, trace)


cdef enum:
    MOST_CODES = 512
    # Neighbouring blocks are joined when they have no more than this together.
    JOINED_CODES = 256
    LEAST_CODES = 4


cdef void free_sorted(Sorted *sorted) noexcept nogil:
    cdef uint32_t k
    for k in range(sorted.block_count):
        free(sorted.blocks[k].codes)
    free(sorted.blocks)
    memset(sorted, 0, sizeof(Sorted))


cdef inline uint32_t block_for(const Sorted *sorted, int64_t code) noexcept nogil:
    """The first block whose last code is not below the code; the last block if there is none."""
    cdef uint32_t low = 0
    cdef uint32_t high = sorted.block_count - 1
    cdef uint32_t middle
    while low < high:
        middle = (low + high) // 2
        if sorted.blocks[middle].codes[sorted.blocks[middle].count - 1] < code:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline uint32_t place_in(const CodeBlock *block, int64_t code) noexcept nogil:
    """The place of the first item of a block that is not below the code."""
    cdef uint32_t low = 0
    cdef uint32_t high = block.count
    cdef uint32_t middle
    while low < high:
        middle = (low + high) // 2
        if block.codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low


cdef int open_block(Sorted *sorted, uint32_t place) except -1 nogil:
    """Insert an empty block."""
    cdef uint32_t room
    if sorted.block_count == sorted.block_room:
        room = 2 * sorted.block_room + 1
        resized(<void **> &sorted.blocks, room, sizeof(CodeBlock))
        sorted.block_room = room
    memmove(
        sorted.blocks + place + 1, sorted.blocks + place,
        (sorted.block_count - place) * sizeof(CodeBlock)
    )
    memset(&sorted.blocks[place], 0, sizeof(CodeBlock))
    sorted.block_count += 1
    return 0


cdef void close_block(Sorted *sorted, uint32_t place) noexcept nogil:
    free(sorted.blocks[place].codes)
    sorted.block_count -= 1
    memmove(
        sorted.blocks + place, sorted.blocks + place + 1,
        (sorted.block_count - place) * sizeof(CodeBlock)
    )


cdef int insert_code(Sorted *sorted, int64_t code) except -1 nogil:
    cdef uint32_t number, place, half
    cdef CodeBlock *block
    cdef CodeBlock *upper
    if sorted.block_count == 0:
        open_block(sorted, 0)
    number = block_for(sorted, code)
    block = &sorted.blocks[number]
    if block.count == MOST_CODES:
        half = MOST_CODES // 2
        open_block(sorted, number + 1)
        block = &sorted.blocks[number]
        upper = &sorted.blocks[number + 1]
        if not has_resized(<void **> &upper.codes, MOST_CODES, sizeof(int64_t)):
            close_block(sorted, number + 1)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        upper.room = MOST_CODES
        memcpy(upper.codes, block.codes + half, (MOST_CODES - half) * sizeof(int64_t))
        upper.count = MOST_CODES - half
        block.count = half
        if block.codes[half - 1] < code:
            block = upper
    if block.count == block.room:
        place = min(<uint32_t> MOST_CODES, max(<uint32_t> LEAST_CODES, 2 * block.room))
        if not has_resized(<void **> &block.codes, place, sizeof(int64_t)):
            if block.count == 0:
                close_block(sorted, number)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        block.room = place
    place = place_in(block, code)
    memmove(
        block.codes + place + 1, block.codes + place, (block.count - place) * sizeof(int64_t)
    )
    block.codes[place] = code
    block.count += 1
    sorted.count += 1
    return 0


cdef void join_block(Sorted *sorted, uint32_t number) noexcept nogil:
    """Join a block with the next one, if there is one and both are small."""
    cdef CodeBlock *block = &sorted.blocks[number]
    cdef CodeBlock *upper
    if number + 1 < sorted.block_count:
        upper = &sorted.blocks[number + 1]
        if block.count + upper.count <= min(<uint32_t> JOINED_CODES, block.room):
            memcpy(block.codes + block.count, upper.codes, upper.count * sizeof(int64_t))
            block.count += upper.count
            close_block(sorted, number + 1)


cdef int remove_code(Sorted *sorted, int64_t code) except -1 nogil:
    """Remove a code that is there."""
    cdef CodeBlock *block = NULL
    cdef uint32_t number = 0, place = 0
    cdef int64_t undefined
    if sorted.block_count:
        number = block_for(sorted, code)
        block = &sorted.blocks[number]
        place = place_in(block, code)
    if block == NULL or place == block.count or block.codes[place] != code:
        with gil:
            raise AssertionError("no such value has been added")
    block.count -= 1
    sorted.count -= 1
    memmove(
        block.codes + place, block.codes + place + 1, (block.count - place) * sizeof(int64_t)
    )
    if sorted.count == 0:
        undefined = sorted.undefined
        free_sorted(sorted)
        sorted.undefined = undefined
    elif block.count == 0:
        close_block(sorted, number)
    else:
        join_block(sorted, number)
        if number:
            join_block(sorted, number - 1)
    return 0


cdef int64_t codes_above(const Sorted *sorted, int64_t code) noexcept nogil:
    """How many codes are above a code."""
    cdef int64_t found = 0
    cdef uint32_t number = sorted.block_count
    cdef const CodeBlock *block
    if code == INT64_MAX:
        return 0
    while number:
        number -= 1
        block = &sorted.blocks[number]
        if block.codes[0] <= code:
            return found + block.count - place_in(block, code + 1)
        found += block.count
    return found


cdef double code_at(const Sorted *sorted, int64_t place) noexcept nogil:
    """The float at a place in the order."""
    cdef uint32_t number = 0
    cdef int64_t cell
    cdef double value
    while place >= sorted.blocks[number].count:
        place -= sorted.blocks[number].count
        number += 1
    cell = cell_of_code(LARGEST, True, False, sorted.blocks[number].codes[place])
    memcpy(&value, &cell, sizeof(value))
    return value


cdef double quantile_of(const Sorted *sorted, double share) noexcept nogil:
    """A quantile of floats, of which there is one at least."""
    cdef double place = <double> (sorted.count - 1) * share
    cdef double below = floor(place)
    cdef double part = place - below
    cdef double low = code_at(sorted, <int64_t> below)
    if part == 0:
        return low
    return between(low, code_at(sorted, <int64_t> below + 1), part)


cdef inline double between(double low, double high, double part) noexcept nogil:
    """The value at a part of the way from one to another."""
    if low == high:
        return low
    if isinf(high - low):
        return low * (1 - part) + high * part
    return low + (high - low) * part


cdef double deviation_quantile(const Sorted *sorted, double share) noexcept nogil:
    """A quantile of the absolute deviations from the median of floats, of which there is one."""
    cdef double middle = quantile_of(sorted, 0.5)
    cdef double place = <double> (sorted.count - 1) * share
    cdef double below = floor(place)
    cdef double part = place - below
    cdef double low
    if not isfinite(middle):
        # an infinite median is one of the values, and has no deviation from itself
        return NAN
    low = deviation_at(sorted, middle, <int64_t> below)
    if part == 0:
        return low
    return between(low, deviation_at(sorted, middle, <int64_t> below + 1), part)


cdef double deviation_at(const Sorted *sorted, double middle, int64_t place) noexcept nogil:
    """The absolute deviation from the median at a place in their order.

    Those of the values below the median fall, and those of the others grow. The deviations before
    the place are the nearest of some values below the median, and of some others: a binary search
    finds how many are below.
    """
    cdef int64_t half = sorted.count // 2
    cdef int64_t others = sorted.count - half
    cdef int64_t least = max(<int64_t> 0, place - others)
    cdef int64_t most = min(place, half)
    cdef int64_t lower, upper
    cdef double found
    while least < most:
        lower = (least + most) // 2
        upper = place - lower
        if code_at(sorted, half + upper - 1) - middle > middle - code_at(sorted, half - 1 - lower):
            least = lower + 1
        else:
            most = lower
    upper = place - least
    if upper == others:
        return fabs(middle - code_at(sorted, half - 1 - least))
    found = fabs(code_at(sorted, half + upper) - middle)
    if least < half:
        found = min(found, fabs(middle - code_at(sorted, half - 1 - least)))
    return found


@final
cdef class QuantileWindow(Window):
    """Quantiles of floats, interpolated linearly between the two nearest values.

    share: which quantile, from 0 to 1.
    of_deviations: whether it is one of the absolute deviations from the median.
    """

    cdef double share
    cdef bint of_deviations
    cdef Sorted *sorted

    def __cinit__(
        self, double share, int64_t lower, int64_t upper, bint of_deviations=False
    ):
        if not 0 <= share <= 1:
            raise ValueError(f"a quantile is from 0 to 1, not {share}")
        self.share = share
        self.of_deviations = of_deviations
        self.set_bounds(lower, upper)
        init_rows(&self.rows, True, False)

    def __dealloc__(self):
        cdef size_t trace
        if self.sorted != NULL:
            for trace in range(self.traces):
                free_sorted(&self.sorted[trace])
        free(self.sorted)

    cdef int resize_traces(self, uint32_t traces) except -1:
        resized(<void **> &self.sorted, traces, sizeof(Sorted))
        memset(self.sorted + self.traces, 0, (traces - self.traces) * sizeof(Sorted))
        self.traces = traces
        return 0

    cdef inline int enter(self, size_t index) except -1 nogil:
        cdef Sorted *sorted = &self.sorted[self.rows.numbers[index]]
        if self.rows.values[index] == INT64_MAX:
            sorted.undefined += 1
            return 0
        return insert_code(sorted, self.rows.values[index])

    cdef inline int leave(self, size_t index) except -1 nogil:
        cdef Sorted *sorted = &self.sorted[self.rows.numbers[index]]
        if self.rows.values[index] == INT64_MAX:
            sorted.undefined -= 1
            return 0
        return remove_code(sorted, self.rows.values[index])

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.sorted[trace])

    cdef inline void expect_block(self, uint32_t trace) noexcept nogil:
        """Fetch where the values of a trace are, once its state has been fetched.

        PERF: with 100,000 traces of six rows, medians take two thirds of the time. A search without
        branches made no difference.
        """
        prefetch(self.sorted[trace].blocks)

    cdef inline void expect_codes(self, uint32_t trace) noexcept nogil:
        """Fetch the middle of the first values of a trace, once it is known where they are."""
        cdef const Sorted *sorted = &self.sorted[trace]
        if sorted.count:
            prefetch(sorted.blocks[0].codes + sorted.blocks[0].count // 2)

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        push_row(&self.rows, time_stamp, trace, order_code(LARGEST, True, False, value))
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        advance(self, time_stamp)
        return self.result(trace, value)

    cdef inline int result(self, uint32_t trace, int64_t *value) noexcept nogil:
        cdef const Sorted *sorted = &self.sorted[trace]
        cdef double found
        if sorted.undefined:
            value[0] = NAN_BITS
            return FOUND
        if sorted.count == 0:
            value[0] = 0
            return NOTHING
        if self.of_deviations:
            found = deviation_quantile(sorted, self.share)
        else:
            found = quantile_of(sorted, self.share)
        memcpy(value, &found, sizeof(found))
        return FOUND

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    def undo(self):
        take_back(self)

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        Window.clear_unsettled(self, flags, count)
        for number in range(min(count, <size_t> self.traces)):
            if self.sorted[number].count or self.sorted[number].undefined:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        cdef size_t number
        for number in range(<size_t> self.traces):
            if number >= count or numbers[number] == FORGOTTEN:
                free_sorted(&self.sorted[number])
        moved_states(self.sorted, sizeof(Sorted), self.traces, numbers, count)
        return Window.renumber(self, numbers, count)

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number, block, place, traces
        cdef Sorted *sorted
        Window.write(self, writer)
        if self.is_bounded:
            return 0
        traces = used_states(self.sorted, sizeof(Sorted), self.traces)
        writer.put(traces)
        for number in range(traces):
            sorted = &self.sorted[number]
            writer.put(<uint64_t> sorted.undefined)
            writer.put(<uint64_t> sorted.count)
            for block in range(sorted.block_count):
                for place in range(sorted.blocks[block].count):
                    writer.put(zigzag(sorted.blocks[block].codes[place]))
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t position
        cdef uint32_t traces, number
        Window.read(self, reader)
        for position in range(self.tail, self.entry):
            self.enter(index_of(&self.rows, position))
        if self.is_bounded:
            return 0
        traces = <uint32_t> min(<uint64_t> MOST_TRACES, reader.get_count(2))
        self.have_traces(traces, 0)
        for number in range(traces):
            self.sorted[number].undefined = <int64_t> reader.get(INT64_MAX)
            for _ in range(reader.get_count(1)):
                insert_code(&self.sorted[number], unzigzag(reader.get(UINT64_MAX)))
        return 0

    cdef size_t bytes_held(self):
        cdef size_t found = Window.bytes_held(self) + self.traces * sizeof(Sorted)
        cdef size_t number
        cdef uint32_t block
        for number in range(<size_t> self.traces):
            found += self.sorted[number].block_room * sizeof(CodeBlock)
            for block in range(self.sorted[number].block_count):
                found += self.sorted[number].blocks[block].room * sizeof(int64_t)
        return found

    cdef object trace_bytes(self):
        return sizeof(Sorted)

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        # A row enters before others leave. Two neighbouring blocks have more than JOINED_CODES
        # codes together; a single block has room for twice the codes that it had at most.
        cdef object most = min(rows, rows_of_trace) + 1
        cdef object single = min(MOST_CODES, max(LEAST_CODES, 2 * most)) * sizeof(int64_t)
        cdef object blocks = (4 * (most // JOINED_CODES) + 3) * sizeof(CodeBlock)
        return (
            Window.most_bytes(self, traces, rows, rows_of_trace, batch)
            + min(traces, rows + 1) * (single + blocks)
            + 2 * ((rows + 1) // JOINED_CODES) * MOST_CODES * sizeof(int64_t)
        )

    cdef bint has_states_by_trace(self):
        return self.is_bounded

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        return push_by_trace(self, time_stamp, trace, order_code(LARGEST, True, False, value))

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        advance_trace(self, time_stamp, trace)
        return self.result(trace, value)

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        return step_by_trace(self, columns)

    cdef int pass_trace(self, uint32_t trace, int64_t moment) except -1 nogil:
        return advance_trace(self, moment, trace)

    cdef int take(self, size_t index) except -1 nogil:
        return self.enter(index)

    cdef int drop(self, size_t index) except -1 nogil:
        return self.leave(index)

    cdef inline void expect_by_trace(self, uint32_t trace) noexcept nogil:
        expect_rows(self, trace)
