# cython: language_level=3
"""Rows that wait until later values of their trace are known: `.next(k)` and `.at(+5s)`.

A row has cells of two kinds. Some are its own, and go with it. The others are the values that it
waits for: the k-th value of a column above it in its trace, or the last value up to a time. The
rows of a trace wait in a list, in their order, and leave it from its start, so a row leaves only
after all earlier ones of its trace. A row knows how many values of a column there were when it
came. So the first row of the list that still waits for a column is enough to find those that a new
value is for. A value up to a time is known when a row of the trace is later than that: then it is
the latest one before this row.

A later value can be that of a group, such as an instance: a row has the number of its group among
its own cells, and only rows with the same number have values for it. Those of a group that still
wait for a value are a list of their own. If the group ends before, it is known with the next row
of the trace, or with that which ends the group, that there is no such value.
"""


cdef enum:
    NO_ROW = 0xFFFFFFFF


cdef int compared_sequences(const void *left, const void *right) noexcept nogil:
    cdef uint64_t first = (<const uint64_t *> left)[0]
    cdef uint64_t second = (<const uint64_t *> right)[0]
    return <int> (first > second) - <int> (first < second)


cdef size_t rank_of_held(const uint64_t *order, size_t count, uint64_t sequence) noexcept nogil:
    """Where a number is among others in order."""
    cdef size_t low = 0
    cdef size_t high = count
    cdef size_t middle
    while high - low > 1:
        middle = low + (high - low) // 2
        if order[middle] <= sequence:
            low = middle
        else:
            high = middle
    return low


cdef struct GroupColumn:
    # A column in a group: the latest value, or the number of values so far.
    int64_t value
    # Of the rows that wait for so many values later, the first and the last one; the last one
    # matters only if there is a first one.
    uint32_t open, tail
    uint8_t is_known            # whether there is a latest value
    uint8_t has_ended           # while rows waited for so many values later


cdef struct GroupColumnBefore:
    size_t place
    GroupColumn column


cdef inline void clear_column(GroupColumn *column) noexcept nogil:
    column.value = 0
    column.open = column.tail = NO_ROW
    column.is_known = column.has_ended = False


@final
cdef class HeldRows:
    """Holds the rows of many traces back until later values of their traces are known.

    distances: for each column of which later values are wanted, how many values later: at least 1.
        There may be none, as where conditions do not depend on them; then no row waits.
    lengths: for each of these columns how much later than a row its last value is wanted; -1 for
        those of which a value is wanted so many values later.
    own: the number of a row's own cells, which come before those of these columns.
    groups: for each of these columns which own cell has the number of a row's group, -1 if its
        values are of the whole trace.

    Between `begin` and the next `begin`, `undo` takes everything back.
    """

    cdef uint32_t width         # the number of cells of a row
    cdef uint32_t own
    cdef uint32_t waits         # how many of the cells it waits for
    cdef uint64_t *distances
    cdef int64_t *lengths
    cdef int64_t *groups
    cdef bint has_groups
    cdef uint8_t *in_groups     # for each column whether so many values later are those of a group
    # the rows
    cdef int64_t *times
    cdef uint32_t *numbers      # of the traces
    cdef uint32_t *links        # to the next row of the trace, or of the unused ones
    cdef uint32_t *places       # in the batch, of the row that lets it go
    cdef uint64_t *sequence     # how many rows came before it
    cdef uint64_t *seen         # for each column how many values there were, also its own
    cdef uint32_t *following    # for each column to the next row that waits for it in its group
    cdef int64_t *cells
    cdef uint8_t *valid
    cdef size_t room
    cdef uint32_t unused        # the first one of those that have been used before
    cdef uint32_t used          # all from here on have never been used
    cdef size_t held            # how many rows wait
    # the traces
    cdef uint32_t traces
    cdef uint32_t *heads
    cdef uint32_t *tails
    cdef uint32_t *open         # for each column the first row that waits for it
    cdef uint64_t *counts       # for each column the number of values so far, or the latest value
    cdef uint8_t *has_latest    # whether there is a latest value
    cdef uint64_t *touched      # the number of the batch that has changed it last
    # the groups, each with all columns
    cdef uint32_t group_room
    cdef GroupColumn *columns
    # the batch
    cdef uint64_t count         # of all rows so far
    cdef uint64_t batch         # its number
    cdef uint32_t *released
    cdef size_t released_count, released_room
    cdef uint32_t *added
    cdef size_t added_count, added_room
    cdef uint64_t *before       # what changed traces were before: number, head, tail, open, counts
    cdef size_t before_count, before_room
    cdef GroupColumnBefore *replaced    # what columns of groups were before each change
    cdef size_t replaced_count, replaced_room
    cdef const Turn **turns     # for each column the births and deaths of its groups
    cdef size_t *turns_left     # how many of these are not passed yet
    cdef uint64_t marked_count
    cdef size_t marked_held

    def __cinit__(self, distances, lengths, uint32_t own, groups=()):
        cdef size_t k
        self.waits = <uint32_t> len(distances)
        self.own = own
        if self.waits >= 1 << 16 or own >= 1 << 16:
            raise ValueError("rows have too many cells")
        self.width = own + self.waits
        if <size_t> len(lengths) != self.waits:
            raise ValueError("a wrong number of lengths")
        resized(<void **> &self.distances, self.waits, sizeof(uint64_t))
        resized(<void **> &self.lengths, self.waits, sizeof(int64_t))
        resized(<void **> &self.groups, self.waits, sizeof(int64_t))
        resized(<void **> &self.in_groups, self.waits, 1)
        resized(<void **> &self.turns, self.waits, sizeof(Turn *))
        resized(<void **> &self.turns_left, self.waits, sizeof(size_t))
        for k in range(self.waits):
            self.groups[k] = groups[k] if groups else -1
            self.has_groups |= self.groups[k] >= 0
            self.in_groups[k] = self.groups[k] >= 0 and lengths[k] < 0
            self.turns_left[k] = 0
            if self.groups[k] >= <int64_t> own:
                raise ValueError("a wrong cell of groups")
            if not 0 < distances[k] <= MOST_DISTANCE:
                raise ValueError(f"a distance of {distances[k]} values")
            self.distances[k] = distances[k]
            self.lengths[k] = lengths[k]
        self.unused = NO_ROW
        self.batch = 1

    def __dealloc__(self):
        free(self.distances)
        free(self.lengths)
        free(self.groups)
        free(self.in_groups)
        free(self.turns)
        free(self.turns_left)
        free(self.columns)
        free(self.replaced)
        free(self.times)
        free(self.numbers)
        free(self.links)
        free(self.places)
        free(self.sequence)
        free(self.seen)
        free(self.following)
        free(self.cells)
        free(self.valid)
        free(self.heads)
        free(self.tails)
        free(self.open)
        free(self.counts)
        free(self.has_latest)
        free(self.touched)
        free(self.released)
        free(self.added)
        free(self.before)

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        """Make room for the traces below `traces`, and for so many rows in the next call."""
        cdef size_t needed = self.held + self.released_count + rows
        cdef size_t change = 3 + 3 * <size_t> self.waits
        # no item has a size of 0
        cdef size_t waits = max(<size_t> 1, self.waits)
        cdef size_t width = max(<size_t> 1, self.width)
        cdef uint32_t room, number
        if needed >= NO_ROW:
            raise LimitError("more than 2^32 - 2 rows wait for later values")
        if needed > self.room:
            needed = min(<size_t> NO_ROW - 1, max(needed, self.room + self.room // 2))
            resized(<void **> &self.times, needed, sizeof(int64_t))
            resized(<void **> &self.numbers, needed, sizeof(uint32_t))
            resized(<void **> &self.links, needed, sizeof(uint32_t))
            resized(<void **> &self.places, needed, sizeof(uint32_t))
            resized(<void **> &self.sequence, needed, sizeof(uint64_t))
            resized(<void **> &self.seen, needed, waits * sizeof(uint64_t))
            if self.has_groups:
                resized(<void **> &self.following, needed, waits * sizeof(uint32_t))
            resized(<void **> &self.cells, needed, width * sizeof(int64_t))
            resized(<void **> &self.valid, needed, width)
            self.room = needed
        if traces > self.traces:
            room = room_for(traces, self.traces)
            resized(<void **> &self.heads, room, sizeof(uint32_t))
            resized(<void **> &self.tails, room, sizeof(uint32_t))
            resized(<void **> &self.open, room, waits * sizeof(uint32_t))
            resized(<void **> &self.counts, room, waits * sizeof(uint64_t))
            resized(<void **> &self.has_latest, room, waits)
            resized(<void **> &self.touched, room, sizeof(uint64_t))
            for number in range(self.traces, room):
                self.clear_trace(number)
            self.traces = room
        if self.released_count + self.held + rows > self.released_room:
            self.released_room = self.released_count + self.held + rows
            resized(<void **> &self.released, self.released_room, sizeof(uint32_t))
        if self.added_count + rows > self.added_room:
            self.added_room = self.added_count + rows
            resized(<void **> &self.added, self.added_room, sizeof(uint32_t))
        if self.before_count + rows > self.before_room:
            self.before_room = self.before_count + rows
            resized(<void **> &self.before, self.before_room, change * sizeof(uint64_t))
        return 0

    cdef int make_groups(self, uint64_t count, size_t changes) except -1:
        """Make room for the groups below `count`, and for so many changes of their columns."""
        cdef uint32_t room
        cdef size_t needed = self.replaced_count + changes
        if needed > self.replaced_room:
            resized(<void **> &self.replaced, needed, sizeof(GroupColumnBefore))
            self.replaced_room = needed
        if count > self.group_room:
            if count >= NO_ROW:
                raise ValueError("a number of a group is too large")
            room = room_for(<uint32_t> count, self.group_room)
            resized(<void **> &self.columns, room, self.waits * sizeof(GroupColumn))
            self.clear_groups(self.group_room, room)
            self.group_room = room
        return 0

    cdef void clear_groups(self, uint32_t first, uint32_t end) noexcept nogil:
        """Forget what some groups have had."""
        cdef size_t place
        for place in range(first * <size_t> self.waits, end * <size_t> self.waits):
            clear_column(&self.columns[place])

    cdef uint64_t groups_of(
        self, const int64_t *cells, const uint8_t *valid, size_t rows
    ) noexcept nogil:
        """A number that those of the groups of some rows are below."""
        cdef uint64_t found = 0
        cdef size_t row, k, cell
        for k in range(self.waits):
            if self.groups[k] >= 0:
                for row in range(rows):
                    cell = row * self.width + <size_t> self.groups[k]
                    if valid[cell]:
                        # no group has the largest number, so this is no 0
                        found = max(found, min(<uint64_t> cells[cell], UINT64_MAX - 1) + 1)
        return found

    cdef void clear_trace(self, uint32_t number) noexcept nogil:
        cdef size_t k
        self.heads[number] = self.tails[number] = NO_ROW
        self.touched[number] = 0
        for k in range(number * <size_t> self.waits, (number + <size_t> 1) * self.waits):
            self.open[k] = NO_ROW
            self.counts[k] = 0
            self.has_latest[k] = 0

    cdef inline uint32_t new_row(self) noexcept nogil:
        """A row that is not used; there is room for it."""
        cdef uint32_t row = self.unused
        if row == NO_ROW:
            row = self.used
            self.used += 1
        else:
            self.unused = self.links[row]
        self.held += 1
        return row

    cdef inline void free_row(self, uint32_t row) noexcept nogil:
        self.links[row] = self.unused
        self.unused = row

    cdef inline void note_trace(self, uint32_t number) noexcept nogil:
        """Note what a trace is like before its first change in a batch; there is room for it."""
        cdef uint64_t *change
        cdef size_t first = number * <size_t> self.waits
        cdef size_t k
        if self.touched[number] == self.batch:
            return
        self.touched[number] = self.batch
        change = self.before + self.before_count * (3 + 3 * <size_t> self.waits)
        change[0] = number
        change[1] = self.heads[number]
        change[2] = self.tails[number]
        for k in range(self.waits):
            change[3 + k] = self.open[first + k]
            change[3 + self.waits + k] = self.counts[first + k]
            change[3 + 2 * self.waits + k] = self.has_latest[first + k]
        self.before_count += 1

    cdef inline bint is_past(self, size_t k, uint32_t row, int64_t time) noexcept nogil:
        """Whether a time is behind that up to which a row wants the last value of a column."""
        return time - self.times[row] > self.lengths[k]

    cdef inline GroupColumn *column_of(
        self, size_t k, const int64_t *cells, const uint8_t *valid
    ) noexcept nogil:
        """A column in the group of a row with some cells; NULL if it has no group."""
        cdef size_t group = <size_t> self.groups[k]
        return &self.columns[<size_t> cells[group] * self.waits + k] if valid[group] else NULL

    cdef inline bint has_to_wait(self, size_t first, size_t k, uint32_t row) noexcept nogil:
        """Whether the first row of a trace does not know yet what it wants of a column."""
        cdef size_t cell = row * <size_t> self.width
        cdef const GroupColumn *column
        if not self.in_groups[k]:
            return self.open[first + k] == row
        column = self.column_of(k, self.cells + cell, self.valid + cell)
        return column != NULL and not column.has_ended and (
            <uint64_t> column.value < self.seen[row * <size_t> self.waits + k] + self.distances[k]
        )

    cdef inline void give_latest(self, size_t first, size_t k, uint32_t row) noexcept nogil:
        """Let the value that a row waits for be the latest one of its trace."""
        cdef size_t cell = row * <size_t> self.width
        cdef const GroupColumn *column
        if self.groups[k] >= 0:
            column = self.column_of(k, self.cells + cell, self.valid + cell)
            if column != NULL:
                self.cells[cell + self.own + k] = column.value
                self.valid[cell + self.own + k] = column.is_known
            return
        self.cells[cell + self.own + k] = <int64_t> self.counts[first + k]
        self.valid[cell + self.own + k] = self.has_latest[first + k]

    cdef inline void note_column(self, const GroupColumn *column) noexcept nogil:
        """Note what a column of a group is before a change; there is room for it."""
        cdef GroupColumnBefore *before = &self.replaced[self.replaced_count]
        before.place = column - self.columns
        before.column = column[0]
        self.replaced_count += 1

    cdef inline void take_in_group(
        self, size_t k, const int64_t *cells, const uint8_t *valid
    ) noexcept nogil:
        """Take the value that a new row has for its group."""
        cdef GroupColumn *column = self.column_of(k, cells, valid)
        cdef uint32_t row
        if column == NULL or not (valid[self.own + k] or self.in_groups[k]):
            return
        self.note_column(column)
        if not self.in_groups[k]:
            column.value = cells[self.own + k]
            column.is_known = True
        elif valid[self.own + k]:
            column.value += 1
            row = column.open
            while row != NO_ROW and (
                self.seen[row * <size_t> self.waits + k] + self.distances[k]
                <= <uint64_t> column.value
            ):
                self.cells[row * <size_t> self.width + self.own + k] = cells[self.own + k]
                self.valid[row * <size_t> self.width + self.own + k] = 1
                row = self.following[row * <size_t> self.waits + k]
            column.open = row

    cdef inline void append_in_group(self, size_t k, uint32_t row) noexcept nogil:
        """Let a new row wait for a value of its group, whose column has been noted."""
        cdef size_t cell = row * <size_t> self.width
        cdef GroupColumn *column = self.column_of(k, self.cells + cell, self.valid + cell)
        self.following[row * <size_t> self.waits + k] = NO_ROW
        self.seen[row * <size_t> self.waits + k] = 0
        if column == NULL:
            return
        self.seen[row * <size_t> self.waits + k] = <uint64_t> column.value
        if column.open == NO_ROW:
            column.open = row
        else:
            self.following[column.tail * <size_t> self.waits + k] = row
        column.tail = row

    cdef void end_groups(self, int64_t moment) noexcept nogil:
        """Pass the deaths of groups up to a moment: no row waits for more of their values."""
        cdef const Turn *turn
        cdef GroupColumn *column
        cdef size_t k
        for k in range(self.waits):
            while self.turns_left[k] and self.turns[k].moment <= moment:
                turn = self.turns[k]
                self.turns[k] += 1
                self.turns_left[k] -= 1
                if turn.is_birth or turn.number >= self.group_room:
                    continue
                column = &self.columns[turn.number * <size_t> self.waits + k]
                if column.open != NO_ROW:
                    self.note_column(column)
                    column.has_ended = True
                    column.open = NO_ROW

    cdef void add(
        self, uint32_t number, int64_t time, const int64_t *cells, const uint8_t *valid
    ) noexcept nogil:
        """Fill in the values that a row has for earlier rows, and hold it."""
        cdef size_t first = number * <size_t> self.waits
        cdef size_t k
        cdef uint32_t row
        for k in range(self.waits):
            if self.in_groups[k]:
                self.take_in_group(k, cells, valid)
                continue
            if self.lengths[k] >= 0:
                while self.open[first + k] != NO_ROW and self.is_past(
                    k, self.open[first + k], time
                ):
                    self.give_latest(first, k, self.open[first + k])
                    self.open[first + k] = self.links[self.open[first + k]]
                if self.groups[k] >= 0:
                    self.take_in_group(k, cells, valid)
                elif valid[self.own + k]:
                    self.counts[first + k] = <uint64_t> cells[self.own + k]
                    self.has_latest[first + k] = 1
                continue
            if not valid[self.own + k]:
                continue
            self.counts[first + k] += 1
            row = self.open[first + k]
            while row != NO_ROW and (
                self.seen[row * <size_t> self.waits + k] + self.distances[k]
                <= self.counts[first + k]
            ):
                self.cells[row * <size_t> self.width + self.own + k] = cells[self.own + k]
                self.valid[row * <size_t> self.width + self.own + k] = 1
                row = self.links[row]
            self.open[first + k] = row
        row = self.new_row()
        self.times[row] = time
        self.numbers[row] = number
        self.links[row] = NO_ROW
        self.sequence[row] = self.count
        self.count += 1
        memcpy(self.cells + row * <size_t> self.width, cells, self.own * sizeof(int64_t))
        memcpy(self.valid + row * <size_t> self.width, valid, self.own)
        memset(self.valid + row * <size_t> self.width + self.own, 0, self.waits)
        for k in range(self.waits):
            if self.in_groups[k]:
                self.append_in_group(k, row)
            else:
                self.seen[row * <size_t> self.waits + k] = self.counts[first + k]
        self.append(number, row)
        self.added[self.added_count] = row
        self.added_count += 1

    cdef inline void append(self, uint32_t number, uint32_t row) noexcept nogil:
        """Add a row, which waits for everything, to the list of its trace."""
        cdef size_t first = number * <size_t> self.waits
        cdef size_t k
        if self.tails[number] == NO_ROW:
            self.heads[number] = row
        else:
            self.links[self.tails[number]] = row
        self.tails[number] = row
        for k in range(self.waits):
            if self.open[first + k] == NO_ROW and not self.in_groups[k]:
                self.open[first + k] = row

    cdef void release(self, uint32_t number, uint32_t place) noexcept nogil:
        """Let the first rows of a trace go that wait for nothing."""
        cdef size_t first = number * <size_t> self.waits
        cdef uint32_t row = self.heads[number]
        cdef size_t k
        while row != NO_ROW:
            for k in range(self.waits):
                if self.has_to_wait(first, k, row):
                    self.heads[number] = row
                    return
            self.places[row] = place
            self.released[self.released_count] = row
            self.released_count += 1
            self.held -= 1
            row = self.links[row]
        self.heads[number] = self.tails[number] = NO_ROW

    def feed(self, Batch batch not None, cells, valid, instances=()):
        """Take rows, and let rows go that have all the values that they wait for.

        batch: the rows.
        cells: a contiguous array of 64-bit items: the cells of the first row, of the second, ...
        valid: likewise, a contiguous array of bytes: 0 for cells that are null.
        instances: for each column that rows wait for the `Instances` that are its groups, which
            have run over these rows, or None.

        Returns the number of rows that go, for `write`.
        """
        cdef Memory cell_memory = contiguous(cells, sizeof(int64_t), batch.count * self.width)
        cdef Memory valid_memory = contiguous(valid, 1, batch.count * self.width)
        cdef const int64_t *own_cells = <const int64_t *> cell_memory.buffer.buf
        cdef const uint8_t *own_valid = <const uint8_t *> valid_memory.buffer.buf
        cdef size_t k
        cdef size_t deaths = 0
        self.make_room(batch.traces, batch.count)
        if self.has_groups:
            deaths = self.take_turns(instances)
            self.make_groups(
                self.groups_of(own_cells, own_valid, batch.count),
                batch.count * self.waits + deaths
            )
        with nogil:
            for k in range(batch.count):
                self.note_trace(batch.trace(k))
                self.add(
                    batch.trace(k), batch.time_stamps[k], own_cells + k * self.width,
                    own_valid + k * self.width
                )
                if deaths:
                    # up to the moment behind the row; see `Turn`
                    self.end_groups(4 * <int64_t> k + 2)
                self.release(batch.trace(k), <uint32_t> k)
            if deaths:
                self.end_groups(INT64_MAX)
        return self.released_count

    cdef size_t take_turns(self, instances) except? 0:
        """Take the births and deaths of groups; returns how many deaths there are."""
        cdef Instances table
        cdef size_t k, turn
        cdef size_t deaths = 0
        for k in range(self.waits):
            if self.in_groups[k]:
                table = <Instances?> instances[k]
                self.turns[k] = table.turns
                self.turns_left[k] = table.turn_count
                for turn in range(table.turn_count):
                    deaths += not table.turns[turn].is_birth
        return deaths

    def feed_end(self):
        """Let all rows go, in the order in which they came.

        A later value that they wait for is null, and the last one up to a time is the latest one.

        Returns the number of rows that go, for `write`.
        """
        cdef uint32_t number, row
        cdef size_t first, k
        cdef size_t rows = self.held
        self.make_room(0, 0)
        self.before_count = 0
        self.before_room = self.traces
        resized(
            <void **> &self.before, self.before_room,
            (3 + 3 * <size_t> self.waits) * sizeof(uint64_t)
        )
        self.make_groups(0, self.group_room * <size_t> self.waits)
        for k in range(self.group_room * <size_t> self.waits):
            if self.columns[k].open != NO_ROW:
                self.note_column(&self.columns[k])
                self.columns[k].open = NO_ROW
        order = []
        for number in range(self.traces):
            row = self.heads[number]
            while row != NO_ROW:
                order.append((self.sequence[row], row))
                row = self.links[row]
        order.sort()
        for _, row in order:
            number = self.numbers[row]
            self.note_trace(number)
            self.places[row] = 0
            self.released[self.released_count] = row
            self.released_count += 1
        for number in range(self.traces):
            if self.heads[number] != NO_ROW:
                self.heads[number] = self.tails[number] = NO_ROW
                first = number * <size_t> self.waits
                for k in range(self.waits):
                    row = self.open[first + k]
                    while row != NO_ROW and self.lengths[k] >= 0:
                        self.give_latest(first, k, row)
                        row = self.links[row]
                    self.open[first + k] = NO_ROW
        self.held -= rows
        return self.released_count

    def write(self, times, numbers, places, sequence, cells, valid):
        """Write the rows that go to arrays, in the order in which they go.

        times, sequence: contiguous arrays of 64-bit items: the time-stamp of each row, and how many
        rows came before it.
        numbers, places: contiguous arrays of 32-bit items: the number of each row's trace, and the
        index of the row of the batch that lets it go.
        cells, valid: as for `feed`.
        """
        cdef size_t count = self.released_count
        cdef Memory time_memory = contiguous(times, sizeof(int64_t), count, True)
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), count, True)
        cdef Memory place_memory = contiguous(places, sizeof(uint32_t), count, True)
        cdef Memory sequence_memory = contiguous(sequence, sizeof(int64_t), count, True)
        cdef Memory cell_memory = contiguous(cells, sizeof(int64_t), count * self.width, True)
        cdef Memory valid_memory = contiguous(valid, 1, count * self.width, True)
        cdef size_t k
        cdef uint32_t row
        with nogil:
            for k in range(count):
                row = self.released[k]
                (<int64_t *> time_memory.buffer.buf)[k] = self.times[row]
                (<uint32_t *> number_memory.buffer.buf)[k] = self.numbers[row]
                (<uint32_t *> place_memory.buffer.buf)[k] = self.places[row]
                (<int64_t *> sequence_memory.buffer.buf)[k] = <int64_t> self.sequence[row]
                memcpy(
                    <int64_t *> cell_memory.buffer.buf + k * self.width,
                    self.cells + row * <size_t> self.width, self.width * sizeof(int64_t)
                )
                memcpy(
                    <uint8_t *> valid_memory.buffer.buf + k * self.width,
                    self.valid + row * <size_t> self.width, self.width
                )

    def begin(self):
        """Begin a batch: what was done before can no longer be undone."""
        cdef size_t k
        for k in range(self.released_count):
            self.free_row(self.released[k])
        self.released_count = self.added_count = self.before_count = self.replaced_count = 0
        self.batch += 1
        self.marked_count = self.count
        self.marked_held = self.held

    def undo(self):
        """Return to the state at the last `begin`."""
        cdef const uint64_t *change
        cdef size_t first, k
        cdef uint32_t number, row
        while self.replaced_count:
            self.replaced_count -= 1
            self.undo_column(&self.replaced[self.replaced_count])
        while self.before_count:
            self.before_count -= 1
            change = self.before + self.before_count * (3 + 3 * <size_t> self.waits)
            number = <uint32_t> change[0]
            first = number * <size_t> self.waits
            self.touched[number] = 0
            self.heads[number] = <uint32_t> change[1]
            self.tails[number] = <uint32_t> change[2]
            if self.tails[number] != NO_ROW:
                self.links[self.tails[number]] = NO_ROW
            for k in range(self.waits):
                self.open[first + k] = row = <uint32_t> change[3 + k]
                self.counts[first + k] = change[3 + self.waits + k]
                self.has_latest[first + k] = <uint8_t> change[3 + 2 * self.waits + k]
                while row != NO_ROW:
                    self.valid[row * <size_t> self.width + self.own + k] = 0
                    row = self.links[row]
        for k in range(self.added_count):
            self.free_row(self.added[k])
        self.released_count = self.added_count = 0
        self.count = self.marked_count
        self.held = self.marked_held

    cdef void undo_column(self, const GroupColumnBefore *before) noexcept nogil:
        """Undo the last change of a column of a group."""
        cdef GroupColumn *column = &self.columns[before.place]
        cdef size_t k = before.place % self.waits
        cdef uint32_t row = before.column.open
        while row != NO_ROW and row != column.open:
            self.valid[row * <size_t> self.width + self.own + k] = 0
            row = self.following[row * <size_t> self.waits + k]
        column[0] = before.column
        if column.open != NO_ROW:
            self.following[column.tail * <size_t> self.waits + k] = NO_ROW

    def settled(self, flags):
        """Clear the bytes of an array, one for each trace, whose traces have rows that wait."""
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef uint8_t *bytes_of = <uint8_t *> memory.buffer.buf
        cdef size_t number
        for number in range(min(<size_t> memory.buffer.shape[0], <size_t> self.traces)):
            if self.heads[number] != NO_ROW:
                bytes_of[number] = 0

    def keep(self, new_numbers):
        """Give traces new numbers, in the same order, and forget others; see `Kernel.keep`."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        cdef size_t number, k
        cdef uint32_t row, following, new
        cdef uint32_t kept = 0
        self.begin()
        for number in range(min(count, <size_t> self.traces)):
            new = numbers[number]
            if new != FORGOTTEN and new != kept:
                raise ValueError("new numbers are not in the order of the present ones")
            kept += new != FORGOTTEN
            row = self.heads[number]
            while row != NO_ROW:
                following = self.links[row]
                if new == FORGOTTEN:
                    self.free_row(row)
                    self.held -= 1
                else:
                    self.numbers[row] = new
                row = following
            if new == FORGOTTEN or new == number:
                continue
            self.heads[new] = self.heads[number]
            self.tails[new] = self.tails[number]
            for k in range(self.waits):
                self.open[new * <size_t> self.waits + k] = self.open[number * self.waits + k]
                self.counts[new * <size_t> self.waits + k] = self.counts[number * self.waits + k]
                self.has_latest[new * <size_t> self.waits + k] = self.has_latest[
                    number * self.waits + k
                ]
        for number in range(kept, self.traces):
            self.clear_trace(<uint32_t> number)
        self.marked_held = self.held

    def mark_groups(self, flags, uint32_t cell):
        """For a cell with numbers of groups: set the flags of those that rows have."""
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef uint8_t *marks = <uint8_t *> memory.buffer.buf
        cdef uint64_t count = <uint64_t> memory.buffer.shape[0]
        cdef uint32_t number, row
        cdef size_t place
        if cell >= self.own:
            raise ValueError("rows have no such cell")
        for number in range(self.traces):
            row = self.heads[number]
            while row != NO_ROW:
                place = row * <size_t> self.width + cell
                if self.valid[place] and <uint64_t> self.cells[place] < count:
                    marks[self.cells[place]] = 1
                row = self.links[row]

    def keep_groups(self, new_numbers, uint32_t cell):
        """For a cell with numbers of groups: give these new numbers; see `Instances.compact`."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef uint64_t count = <uint64_t> memory.buffer.shape[0] // sizeof(uint32_t)
        cdef uint64_t old
        cdef uint32_t number, row, new
        cdef uint32_t kept = 0
        cdef size_t place, k
        if cell >= self.own:
            raise ValueError("rows have no such cell")
        self.begin()
        for number in range(self.traces):
            row = self.heads[number]
            while row != NO_ROW:
                place = row * <size_t> self.width + cell
                if self.valid[place]:
                    old = <uint64_t> self.cells[place]
                    new = numbers[old] if old < count else FORGOTTEN
                    self.cells[place] = new
                    self.valid[place] = new != FORGOTTEN
                row = self.links[row]
        for number in range(self.group_room):
            new = numbers[number] if number < count else FORGOTTEN
            if new == FORGOTTEN:
                continue
            if new != kept:
                raise ValueError("new numbers are not in the order of the present ones")
            kept += 1
            for k in range(self.waits):
                if self.groups[k] == <int64_t> cell:
                    self.columns[new * <size_t> self.waits + k] = self.columns[
                        number * <size_t> self.waits + k
                    ]
        for number in range(kept, self.group_room):
            for k in range(self.waits):
                if self.groups[k] == <int64_t> cell:
                    clear_column(&self.columns[number * <size_t> self.waits + k])

    def mark_texts(self, flags, uint32_t cell):
        """For a cell that is the number of a text: set the flags of those that rows have."""
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef TextMarks marks = marks_to_set(memory)
        self.visit(cell, &marks)

    def renumber_texts(self, new_numbers, uint32_t cell):
        """For a cell that is the number of a text: give the texts new numbers."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef TextMarks marks = marks_to_renumber(memory)
        self.visit(cell, &marks)

    cdef int visit(self, uint32_t cell, const TextMarks *marks) except -1:
        cdef uint32_t number, row
        cdef size_t kept
        if cell >= self.width:
            raise ValueError("rows have no such cell")
        self.begin()
        if cell >= self.own and self.groups[cell - self.own] >= 0:
            for number in range(self.group_room):
                kept = number * <size_t> self.waits + cell - self.own
                if self.columns[kept].is_known:
                    visit_text(&self.columns[kept].value, marks)
        for number in range(self.traces):
            if cell >= self.own and self.lengths[cell - self.own] >= 0:
                kept = number * <size_t> self.waits + cell - self.own
                if self.has_latest[kept]:
                    visit_text(<int64_t *> &self.counts[kept], marks)
            row = self.heads[number]
            while row != NO_ROW:
                if self.valid[row * <size_t> self.width + cell]:
                    visit_text(&self.cells[row * <size_t> self.width + cell], marks)
                row = self.links[row]
        return 0

    def snapshot(self):
        """Return the state as bytes for `restore`.

        Rows are numbered from 0 on, so that states are equal however many have come before.
        """
        cdef NumberWriter writer = NumberWriter()
        cdef uint64_t *order = NULL
        self.begin()
        resized(<void **> &order, max(<size_t> 1, self.held), sizeof(uint64_t))
        try:
            self.write_rows(writer, order)
        finally:
            free(order)
        return writer.taken()

    cdef int write_rows(self, NumberWriter writer, uint64_t *order) except -1:
        """Write all rows, with room for one word for each."""
        cdef uint32_t number, row
        cdef size_t k, cell
        cdef uint64_t length
        cdef uint32_t traces = self.traces
        cdef size_t count = 0
        while traces and self.heads[traces - 1] == NO_ROW:
            traces -= 1
        for number in range(traces):
            row = self.heads[number]
            while row != NO_ROW:
                order[count] = self.sequence[row]
                count += 1
                row = self.links[row]
        qsort(order, count, sizeof(uint64_t), &compared_sequences)
        writer.put(count)
        if self.has_groups:
            self.write_groups(writer)
        writer.put(traces)
        for number in range(traces):
            length = 0
            row = self.heads[number]
            while row != NO_ROW:
                length += 1
                row = self.links[row]
            writer.put(length)
            for k in range(self.waits):
                cell = number * <size_t> self.waits + k
                if length and self.lengths[k] >= 0 and self.groups[k] < 0:
                    writer.put(self.has_latest[cell])
                    if self.has_latest[cell]:
                        writer.put(zigzag(<int64_t> self.counts[cell]))
            row = self.heads[number]
            while row != NO_ROW:
                writer.put(<uint64_t> self.times[row])
                writer.put(rank_of_held(order, count, self.sequence[row]))
                for k in range(self.waits):
                    if self.lengths[k] >= 0:
                        continue
                    # more than it waits for makes no difference
                    writer.put(min(
                        self.distances[k],
                        self.values_of(number, k, row) - self.seen[row * <size_t> self.waits + k]
                    ))
                for k in range(self.width):
                    cell = row * <size_t> self.width + k
                    writer.put(self.valid[cell])
                    if self.valid[cell]:
                        writer.put(zigzag(self.cells[cell]))
                row = self.links[row]
        return 0

    cdef inline uint64_t values_of(self, uint32_t number, size_t k, uint32_t row) noexcept nogil:
        """How many values there are for a row, of its trace or group."""
        cdef size_t cell = row * <size_t> self.width
        cdef const GroupColumn *column
        if not self.in_groups[k]:
            return self.counts[number * <size_t> self.waits + k]
        column = self.column_of(k, self.cells + cell, self.valid + cell)
        return 0 if column == NULL else <uint64_t> column.value

    cdef int write_groups(self, NumberWriter writer) except -1:
        """Write what groups have, up to the last one that has a latest value or has rows."""
        cdef uint64_t count = 0
        cdef uint32_t number, row
        cdef size_t k, place
        for number in range(self.group_room):
            for k in range(self.waits):
                if self.columns[number * <size_t> self.waits + k].is_known:
                    count = number + <uint64_t> 1
        for number in range(self.traces):
            row = self.heads[number]
            while row != NO_ROW:
                place = row * <size_t> self.width
                count = max(count, self.groups_of(self.cells + place, self.valid + place, 1))
                row = self.links[row]
        writer.put(count)
        for number in range(<uint32_t> count):
            for k in range(self.waits):
                place = number * <size_t> self.waits + k
                if self.in_groups[k]:
                    writer.put(self.columns[place].has_ended)
                elif self.groups[k] >= 0:
                    writer.put(self.columns[place].is_known)
                    if self.columns[place].is_known:
                        writer.put(zigzag(self.columns[place].value))
        return 0

    cdef uint64_t read_groups(self, NumberReader reader, from_integers) except? 0:
        """Read what groups have; returns how many there are."""
        cdef uint64_t count = reader.get_count(1)
        cdef uint32_t number
        cdef size_t k, place
        cdef int64_t value
        if count > MOST_TRACES:
            raise damaged()
        self.make_groups(count, 0)
        for number in range(<uint32_t> count):
            for k in range(self.waits):
                place = number * <size_t> self.waits + k
                if self.in_groups[k]:
                    self.columns[place].has_ended = <uint8_t> reader.get(1)
                elif self.groups[k] >= 0:
                    self.columns[place].is_known = <uint8_t> reader.get(1)
                    if self.columns[place].is_known:
                        value = unzigzag(reader.get(UINT64_MAX))
                        if from_integers and from_integers[self.own + k]:
                            value = cell_of_integer(value)
                        self.columns[place].value = value
        return count

    def restore(self, snapshot, from_integers=()):
        """Continue from the snapshot of rows with the same arguments, whatever these were.

        from_integers: for each cell of a row, whether the snapshot has integers, which are floats
        here; none of them are by default.

        Raises:
            SnapshotError: the bytes are not such a snapshot. The object must not be used after
                that.
        """
        cdef NumberReader reader = NumberReader()
        cdef uint64_t traces, length
        cdef uint64_t groups = 0
        cdef uint32_t number
        cdef size_t k
        self.forget_all()
        reader.open(as_bytes(snapshot), 0)
        self.count = reader.get(INT64_MAX)
        if self.has_groups:
            groups = self.read_groups(reader, from_integers)
        traces = reader.get_count(1)
        if traces > MOST_TRACES:
            raise damaged()
        self.make_room(<uint32_t> traces, 0)
        for number in range(<uint32_t> traces):
            length = reader.get_count(2 + self.width)
            self.make_room(0, <size_t> length)
            for k in range(self.waits if length else 0):
                if self.lengths[k] >= 0 and self.groups[k] < 0:
                    self.read_latest(number, k, reader, from_integers)
            for _ in range(length):
                self.read_row(number, reader, from_integers, groups)
            self.find_open(number)
        reader.end()
        self.begin()

    cdef int read_latest(
        self, uint32_t number, size_t k, NumberReader reader, from_integers
    ) except -1:
        """Read the latest value of a trace."""
        cdef size_t kept = number * <size_t> self.waits + k
        cdef int64_t cell
        self.has_latest[kept] = <uint8_t> reader.get(1)
        if self.has_latest[kept]:
            cell = unzigzag(reader.get(UINT64_MAX))
            if from_integers and from_integers[self.own + k]:
                cell = cell_of_integer(cell)
            self.counts[kept] = <uint64_t> cell
        return 0

    cdef void find_open(self, uint32_t number) noexcept nogil:
        """Find the first row of a trace that waits for a time."""
        cdef size_t k
        cdef uint32_t row
        for k in range(self.waits):
            if self.lengths[k] >= 0:
                row = self.heads[number]
                while row != NO_ROW and self.is_past(k, row, self.times[self.tails[number]]):
                    row = self.links[row]
                self.open[number * <size_t> self.waits + k] = row

    cdef int read_row(
        self, uint32_t number, NumberReader reader, from_integers, uint64_t groups
    ) except -1:
        """Read a row, and add it to the list of its trace."""
        cdef size_t first = number * <size_t> self.waits
        cdef uint32_t row = self.new_row()
        cdef uint64_t later
        cdef size_t k, cell
        cdef bint is_first = self.tails[number] == NO_ROW
        self.numbers[row] = number
        self.links[row] = NO_ROW
        self.times[row] = <int64_t> reader.get(INT64_MAX)
        self.sequence[row] = reader.get(self.count)
        if is_first:
            self.heads[number] = row
        else:
            self.links[self.tails[number]] = row
        self.tails[number] = row
        for k in range(self.waits):
            if self.lengths[k] >= 0:
                continue
            later = reader.get(self.distances[k])
            if self.in_groups[k]:
                self.seen[row * <size_t> self.waits + k] = later
                continue
            if is_first:
                self.counts[first + k] = later
            if later > self.counts[first + k]:
                raise damaged()
            self.seen[row * <size_t> self.waits + k] = self.counts[first + k] - later
            if later < self.distances[k] and self.open[first + k] == NO_ROW:
                self.open[first + k] = row
        for k in range(self.width):
            cell = row * <size_t> self.width + k
            self.valid[cell] = <uint8_t> reader.get(1)
            if self.valid[cell]:
                self.cells[cell] = unzigzag(reader.get(UINT64_MAX))
                if from_integers and from_integers[k]:
                    self.cells[cell] = cell_of_integer(self.cells[cell])
        cell = row * <size_t> self.width
        if self.groups_of(self.cells + cell, self.valid + cell, 1) > groups:
            raise damaged()
        for k in range(self.waits):
            if self.in_groups[k]:
                self.restore_in_group(k, row)
        return 0

    cdef int restore_in_group(self, size_t k, uint32_t row) except -1:
        """Let a row that was read wait for a value of its group, unless it has it."""
        cdef size_t cell = row * <size_t> self.width
        cdef GroupColumn *column = self.column_of(k, self.cells + cell, self.valid + cell)
        cdef uint64_t *seen = self.seen + k
        cdef uint64_t later = seen[row * <size_t> self.waits]
        if column == NULL:
            self.append_in_group(k, row)
            return 0
        if column.tail == NO_ROW:
            column.value = <int64_t> later
        if later > <uint64_t> column.value:
            raise damaged()
        later = <uint64_t> column.value - later
        if column.tail != NO_ROW and later < seen[column.tail * <size_t> self.waits]:
            raise damaged()
        if self.distances[k] > <uint64_t> column.value - later and not column.has_ended:
            self.append_in_group(k, row)
        column.tail = row
        seen[row * <size_t> self.waits] = later
        return 0

    def forget_all(self):
        """Return to the state before the first row."""
        cdef uint32_t number
        for number in range(self.traces):
            self.clear_trace(number)
        self.clear_groups(0, self.group_room)
        self.used = 0
        self.unused = NO_ROW
        self.held = 0
        self.count = 0
        self.released_count = self.added_count = self.before_count = self.replaced_count = 0
        self.begin()

    @property
    def earliest(self):
        """The time and the trace of the earliest row that waits; None if none does."""
        cdef uint32_t found = NO_ROW
        cdef uint32_t number, head
        for number in range(self.traces):
            head = self.heads[number]
            if head != NO_ROW and (found == NO_ROW or self.times[head] < self.times[found]):
                found = head
        return None if found == NO_ROW else (self.times[found], self.numbers[found])

    @property
    def waiting(self):
        """The number of rows that wait."""
        return self.held

    @property
    def held_bytes(self):
        """The number of bytes that the state takes."""
        return (
            self.room * self.row_bytes() + self.traces * self.trace_bytes()
            + (self.released_room + self.added_room) * sizeof(uint32_t)
            + self.before_room * (3 + 3 * <size_t> self.waits) * sizeof(uint64_t)
            + self.group_room * self.group_bytes()
            + self.replaced_room * sizeof(GroupColumnBefore)
        )

    cdef size_t group_bytes(self):
        return self.waits * sizeof(GroupColumn)

    cdef size_t row_bytes(self):
        return (
            2 * sizeof(uint64_t) + 3 * sizeof(uint32_t) + self.waits * sizeof(uint64_t)
            + (self.waits * sizeof(uint32_t) if self.has_groups else 0)
            + self.width * (sizeof(int64_t) + 1)
        )

    cdef size_t trace_bytes(self):
        return (
            2 * sizeof(uint32_t) + sizeof(uint64_t)
            + self.waits * (sizeof(uint32_t) + sizeof(uint64_t) + 1)
        )

    def most_bytes(self, traces, rows, batch, groups=0):
        """The most bytes that the state takes, for whole numbers.

        traces: how many traces there are.
        rows: how many rows wait at most between two batches.
        batch: the most rows of a batch.
        groups: how many groups there are.
        """
        return (
            most_traces(groups) * self.group_bytes()
            + 2 * (batch + most_traces(groups)) * self.waits * sizeof(GroupColumnBefore)
            + 2 * (rows + 2 * batch) * self.row_bytes() + most_traces(traces) * self.trace_bytes()
            + 2 * (rows + 2 * batch) * 2 * sizeof(uint32_t)
            + max(2 * batch, most_traces(traces))
            * (3 + 3 * <size_t> self.waits) * sizeof(uint64_t)
        )
