# cython: language_level=3
"""Aggregates over the living instances of streams with `per`.

Each trace, or each group of instances, has a counter, an exact sum or a sorted multiset, which
changes when an instance has a new value or ends. Where there are groups, their numbers take the
place of those of traces.
"""


cdef enum OverKind:
    # How many instances have a value that is not 0, and aggregates of values.
    OVER_COUNT
    OVER_SUMS           # the sum, the average, the variance or its root
    OVER_LARGEST
    OVER_SMALLEST
    OVER_QUANTILE


cdef struct OverState:
    # What is kept for a trace, beside exact sums.
    int64_t count
    Specials specials
    Sorted sorted


@final
cdef class Over:
    """An aggregate over the values of the living instances of each trace.

    An instance has the value of its last row; null is no value.

    kind: "count" (of values other than 0), "sum", "avg", "var", "stddev", "min", "max" or
    "quantile".
    is_float: whether values are floats, as those of quantiles; otherwise, they are integers.
    share: of a quantile.
    """

    cdef OverKind kind
    cdef SumKind of_sums
    cdef bint is_float
    cdef double share
    cdef int64_t *cells         # by number of the instance
    cdef uint8_t *has_value
    cdef uint32_t room
    cdef OverState *states      # by trace
    cdef Numbers sums
    cdef Numbers squares        # unused for sums and averages
    cdef uint32_t traces
    cdef Journal journal        # the value of an instance before; the note has its trace
    cdef QueueKind order

    def __cinit__(self, str kind not None, bint is_float, double share=0.5):
        kinds = {
            "count": OVER_COUNT, "max": OVER_LARGEST, "min": OVER_SMALLEST,
            "quantile": OVER_QUANTILE,
        }
        self.kind = kinds.get(kind, OVER_SUMS)
        if self.kind == OVER_SUMS:
            self.of_sums = sum_kind(kind)
        if self.kind == OVER_QUANTILE and not (is_float and 0 <= share <= 1):
            raise ValueError("quantiles are of floats, and have a share from 0 to 1")
        self.share = share
        self.order = SMALLEST if self.kind == OVER_SMALLEST else LARGEST
        self.is_float = is_float
        self.sums.width = 4 if is_float else 2
        self.sums.exponent = -128 if is_float else 0
        self.squares.width = 2 * self.sums.width
        self.squares.exponent = 2 * self.sums.exponent

    def __dealloc__(self):
        cdef size_t trace
        if self.states != NULL:
            for trace in range(self.traces):
                free_sorted(&self.states[trace].sorted)
        free(self.cells)
        free(self.has_value)
        free(self.states)
        free(self.sums.words)
        free(self.squares.words)
        free(self.journal.changes)

    cdef inline bint has_squares(self) noexcept nogil:
        return self.kind == OVER_SUMS and self.of_sums >= VARIANCE

    cdef int make_room(self, uint32_t traces, uint32_t numbers) except -1:
        cdef uint32_t room
        if numbers > self.room:
            room = room_for(numbers, self.room)
            resized(<void **> &self.cells, room, sizeof(int64_t))
            resized(<void **> &self.has_value, room, 1)
            memset(self.cells + self.room, 0, (room - self.room) * sizeof(int64_t))
            memset(self.has_value + self.room, 0, room - self.room)
            self.room = room
        if traces > self.traces:
            room = room_for(traces, self.traces)
            resized(<void **> &self.states, room, sizeof(OverState))
            memset(self.states + self.traces, 0, (room - self.traces) * sizeof(OverState))
            if self.kind == OVER_SUMS:
                resize_numbers(&self.sums, room)
            if self.has_squares():
                resize_numbers(&self.squares, room)
            self.traces = room
        return 0

    cdef int change(self, uint32_t trace, int64_t cell, int sign) except -1 nogil:
        """Add or remove a value."""
        cdef OverState *state = &self.states[trace]
        cdef int64_t code
        if self.kind == OVER_COUNT:
            state.count += sign if cell else 0
        elif self.kind == OVER_SUMS:
            self.change_sum(trace, cell, sign)
            state.count += sign
        else:
            code = order_code(self.order, self.is_float, False, cell)
            if self.is_float and code == INT64_MAX:
                state.sorted.undefined += sign
            elif sign > 0:
                insert_code(&state.sorted, code)
            else:
                remove_code(&state.sorted, code)
        return 0

    cdef int change_sum(self, uint32_t trace, int64_t cell, int sign) except -1 nogil:
        cdef Term term
        cdef uint32_t shift
        cdef FloatClass found = term_of(self.is_float, cell, &term)
        if found != FINITE:
            count_special(&self.states[trace].specials, found, sign)
            return 0
        if term.magnitude == 0:
            return 0
        if not has_place(&self.sums, term.exponent, 64):
            self.widen(term.exponent)
        shift = <uint32_t> (term.exponent - self.sums.exponent)
        add_magnitude(
            number_of(&self.sums, trace), self.sums.width, term.magnitude, shift,
            term.is_negative ^ (sign < 0)
        )
        if self.has_squares():
            add_product(
                number_of(&self.squares, trace), self.squares.width, term.magnitude,
                term.magnitude, 2 * shift, sign < 0
            )
        return 0

    cdef int widen(self, int exponent) except -1 nogil:
        """Make all numbers wide enough for terms with this exponent."""
        cdef Numbers sums = widened(&self.sums, exponent, 64, False)
        cdef Numbers squares
        squares.words = NULL
        if self.has_squares():
            squares = widened(&self.sums, exponent, 64, True)
        if sums.words == NULL or (self.has_squares() and squares.words == NULL):
            free(sums.words)
            free(squares.words)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        take_numbers(&self.sums, &sums)
        if self.has_squares():
            take_numbers(&self.squares, &squares)
        return 0

    cdef int replace(
        self, uint32_t trace, uint32_t number, int64_t cell, bint has_value
    ) except -1 nogil:
        """Give an instance a value, or none."""
        if self.has_value[number] and has_value and self.cells[number] == cell:
            return 0
        reserve_changes(&self.journal, 1)
        # The new value comes first, so that an error of memory leaves a state to be undone.
        if has_value:
            self.change(trace, cell, 1)
        if self.has_value[number]:
            self.change(trace, self.cells[number], -1)
        note_change(
            &self.journal, number, self.cells[number], <int64_t> trace << 1 | self.has_value[number]
        )
        self.cells[number] = cell
        self.has_value[number] = has_value
        return 0

    cdef int get(self, uint32_t trace, int64_t *result) noexcept nogil:
        cdef OverState *state
        cdef const CodeBlock *block
        cdef double found
        if trace == NO_INSTANCE:
            result[0] = 0
            return FOUND if self.kind == OVER_COUNT else NOTHING
        state = &self.states[trace]
        result[0] = state.count
        if self.kind == OVER_COUNT:
            return FOUND
        if self.kind != OVER_SUMS:
            if state.sorted.undefined:
                result[0] = NAN_BITS
                return FOUND
            if state.sorted.count == 0:
                return NOTHING
            if self.kind == OVER_QUANTILE:
                found = quantile_of(&state.sorted, self.share)
                memcpy(result, &found, sizeof(found))
                return FOUND
            block = &state.sorted.blocks[state.sorted.block_count - 1]
            result[0] = cell_of_code(
                self.order, self.is_float, False, block.codes[block.count - 1]
            )
            return FOUND
        return result_of_sums(
            self.of_sums, self.is_float, state.count, &state.specials, &self.sums, &self.squares,
            trace, result
        )

    cdef inline int turn(
        self, const uint32_t *groups, const Turn *turn, int64_t birth, bint has_birth
    ) except -1 nogil:
        """Take out the value of an instance that ends, or give a value to one that begins."""
        if not turn.is_birth or has_birth:
            self.replace(
                groups[turn.number], turn.number, birth if turn.is_birth else 0, turn.is_birth
            )
        return 0

    def feed(
        self, Instances instances not None, Batch batch not None, numbers, values, mask, results,
        validity, moments=None, is_result=None, births=None, groups=None, wanted_groups=None,
        uint32_t group_count=0
    ):
        """Compute the results at the rows of a batch, or at other time-points among them.

        instances: the instances, after their `run` for the batch.
        numbers: the array that `run` has filled, or likewise for other time-points.
        values, mask, results, validity: as for `Kernel.feed`, which also tells what is returned.
        moments: as for `Instances.find`.
        is_result: an array of bytes, 0 where no result is wanted; None if all are.
        births: the cell of instances that begin, if they have a value then; used with `moments`.
        groups: the number of each instance's group, an array of type uint32; None if all instances
            of a trace are one.
        wanted_groups: for each time-point the number of the group that a result is of, 2^32-1 for
            one without instances, an array of type uint32.
        group_count: all numbers of groups are below this.
        """
        cdef size_t count = batch.count
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), count)
        cdef Memory value_memory = contiguous(values, sizeof(int64_t), count)
        cdef Memory result_memory = contiguous(results, sizeof(int64_t), count, True)
        cdef Memory validity_memory = contiguous(validity, 1, count, True)
        cdef Memory mask_memory
        cdef const uint32_t *number_cells = <const uint32_t *> number_memory.buffer.buf
        cdef const int64_t *value_cells = <const int64_t *> value_memory.buffer.buf
        cdef int64_t *result_cells = <int64_t *> result_memory.buffer.buf
        cdef uint8_t *valid = <uint8_t *> validity_memory.buffer.buf
        cdef const uint8_t *mask_bytes = NULL
        cdef const int64_t *moment_cells = NULL
        cdef const uint8_t *wanted = NULL
        cdef Memory moment_memory, wanted_memory, group_memory, wanted_group_memory
        cdef const uint32_t *group_of = instances.traces
        cdef const uint32_t *wanted_group = NULL
        cdef bint has_birth = births is not None
        cdef int64_t birth = births if has_birth else 0
        cdef size_t place = 0
        cdef size_t row
        cdef uint32_t number
        if mask is not None:
            mask_memory = contiguous(mask, 1, count)
            mask_bytes = <const uint8_t *> mask_memory.buffer.buf
        if moments is not None:
            moment_memory = contiguous(moments, sizeof(int64_t), count)
            moment_cells = <const int64_t *> moment_memory.buffer.buf
        if is_result is not None:
            wanted_memory = contiguous(is_result, 1, count)
            wanted = <const uint8_t *> wanted_memory.buffer.buf
        if groups is not None:
            group_memory = contiguous(groups, sizeof(uint32_t), instances.count)
            group_of = <const uint32_t *> group_memory.buffer.buf
            wanted_group_memory = contiguous(wanted_groups, sizeof(uint32_t), count)
            wanted_group = <const uint32_t *> wanted_group_memory.buffer.buf
            self.make_room(group_count, instances.count)
        else:
            self.make_room(max(batch.traces, instances.head_count), instances.count)
        with nogil:
            for row in range(count):
                while place < instances.turn_count and has_come(
                    &instances.turns[place], moment_of(moment_cells, row), batch.time_stamps[row]
                ):
                    self.turn(group_of, &instances.turns[place], birth, has_birth)
                    place += 1
                number = number_cells[row]
                if number != NO_INSTANCE:
                    self.replace(
                        group_of[number], number, value_cells[row],
                        mask_bytes == NULL or mask_bytes[row],
                    )
                if wanted != NULL and not wanted[row]:
                    continue
                valid[row] = <uint8_t> self.get(
                    batch.trace(row) if wanted_group == NULL else wanted_group[row],
                    &result_cells[row],
                )
                if valid[row] == OVERFLOWS:
                    with gil:
                        return row
            # those behind the last time-point
            while place < instances.turn_count:
                self.turn(group_of, &instances.turns[place], birth, has_birth)
                place += 1
        return count

    def begin(self):
        """Begin a batch: what was done before can no longer be undone."""
        self.journal.count = 0

    def undo(self):
        """Return to the state at the last `begin`."""
        cdef Change *change
        cdef uint32_t trace
        cdef bint had_value
        while self.journal.count:
            change = &self.journal.changes[self.journal.count - 1]
            trace = <uint32_t> (change.note >> 1)
            had_value = change.note & 1
            if had_value:
                self.change(trace, change.cell, 1)
            if self.has_value[change.place]:
                self.change(trace, self.cells[change.place], -1)
            self.cells[change.place] = change.cell
            self.has_value[change.place] = had_value
            self.journal.count -= 1

    def keep(self, new_numbers, new_traces=None):
        """Give instances and traces new numbers; see `Instances.compact`."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        self.begin()
        moved_states(self.cells, sizeof(int64_t), self.room, numbers, count)
        moved_states(self.has_value, 1, self.room, numbers, count)
        if new_traces is not None:
            memory = contiguous(new_traces, 1, 0)
            numbers = <const uint32_t *> memory.buffer.buf
            count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
            self.renumber_traces(numbers, count)

    cdef int renumber_traces(self, const uint32_t *numbers, size_t count) except -1:
        cdef size_t trace
        for trace in range(<size_t> self.traces):
            if trace >= count or numbers[trace] == FORGOTTEN:
                free_sorted(&self.states[trace].sorted)
        moved_states(self.states, sizeof(OverState), self.traces, numbers, count)
        if self.kind == OVER_SUMS:
            moved_states(self.sums.words, number_bytes(&self.sums), self.traces, numbers, count)
        if self.has_squares():
            moved_states(
                self.squares.words, number_bytes(&self.squares), self.traces, numbers, count
            )
        return 0

    def snapshot(self, Instances instances not None):
        """Return the values of instances as bytes for `restore`; `keep` comes before."""
        cdef NumberWriter writer = NumberWriter()
        cdef uint32_t number
        for number in range(instances.count):
            if number < self.room and self.has_value[number]:
                writer.put(1)
                writer.put(zigzag(self.cells[number]))
            else:
                writer.put(0)
        return writer.taken()

    def restore(
        self, snapshot, Instances instances not None, bint from_integers=False, groups=None,
        uint32_t group_count=0
    ):
        """Continue from the snapshot of values of the same instances, which have been restored.

        from_integers: the snapshot has integers, which are floats here.
        groups, group_count: as for `feed`.

        Raises:
            SnapshotError: the bytes are not such a snapshot.
        """
        cdef NumberReader reader = NumberReader()
        cdef uint32_t number
        cdef int64_t cell
        cdef Memory group_memory
        cdef const uint32_t *group_of = instances.traces
        reader.open(as_bytes(snapshot), 0)
        if groups is not None:
            group_memory = contiguous(groups, sizeof(uint32_t), instances.count)
            group_of = <const uint32_t *> group_memory.buffer.buf
        self.make_room(max(group_count, instances.head_count), instances.count)
        for number in range(instances.count):
            if reader.get(1):
                cell = unzigzag(reader.get(UINT64_MAX))
                if from_integers:
                    cell = cell_of_integer(cell)
                self.replace(group_of[number], number, cell, True)
        reader.end()
        self.begin()

    @property
    def held_bytes(self):
        """The number of bytes that the state takes."""
        cdef size_t found = self.room * (sizeof(int64_t) + 1) + self.traces * sizeof(OverState)
        cdef size_t trace
        cdef uint32_t block
        if self.has_squares():
            found += self.traces * number_bytes(&self.squares)
        if self.kind == OVER_SUMS:
            found += self.traces * number_bytes(&self.sums)
        for trace in range(<size_t> self.traces):
            found += self.states[trace].sorted.block_room * sizeof(CodeBlock)
            for block in range(self.states[trace].sorted.block_count):
                found += self.states[trace].sorted.blocks[block].room * sizeof(int64_t)
        return found + self.journal.room * sizeof(Change)
