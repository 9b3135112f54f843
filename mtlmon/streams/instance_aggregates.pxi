# cython: language_level=3
"""Aggregates over the living instances of streams with `per`.

Each trace, or each group of instances, has a counter, an exact sum or a sorted multiset, which
changes when an instance has a new value or ends. Where there are groups, their numbers take the
place of those of traces.
"""

from libc.float cimport DBL_MAX
from libc.math cimport isnan


cdef enum:
    LEAST_BUCKETS = 4


cdef enum OverKind:
    # How many instances have a value that is not 0, and aggregates of values.
    OVER_COUNT
    OVER_SUMS           # the sum, the average, the variance or its root
    OVER_LARGEST
    OVER_SMALLEST
    OVER_QUANTILE
    OVER_RANK           # how many values are above that of an instance, and 1
    OVER_BUCKETS        # a quantile of a histogram, of which each instance counts a bucket


cdef struct OverState:
    # What is kept for a trace, beside exact sums.
    int64_t count
    Specials specials
    Sorted sorted
    uint32_t *buckets           # numbers of instances, in the order of their bounds
    uint32_t bucket_count, bucket_room


cdef struct Bucket:
    # A bucket of a histogram: how many observations are at most at a bound.
    double bound, count


cdef inline double float_of(int64_t cell) noexcept nogil:
    cdef double value
    memcpy(&value, &cell, sizeof(value))
    return value


@final
cdef class Over:
    """An aggregate over the values of the living instances of each trace.

    An instance has the value of its last row; null is no value.

    kind: "count" (of values other than 0), "sum", "avg", "var", "stddev", "min", "max", "quantile",
    "rank" or "histogram_quantile".
    is_float: whether values are floats, as those of quantiles; otherwise, they are integers.
    share: of a quantile.
    is_text: whether values are numbers of texts, for "min" and "max"; then `set_ranks` comes first.
    """

    cdef OverKind kind
    cdef SumKind of_sums
    cdef bint is_float
    cdef readonly bint is_text
    cdef Ranks ranks
    cdef Memory rank_memory
    cdef double share
    cdef int64_t *cells         # by number of the instance
    cdef uint8_t *has_value
    cdef double *bounds         # of buckets, by number of the instance; NULL for other kinds
    cdef uint32_t room
    cdef OverState *states      # by trace
    cdef Numbers sums
    cdef Numbers squares        # unused for sums and averages
    cdef uint32_t traces
    cdef Journal journal        # the value of an instance before; the note has its trace
    cdef QueueKind order

    def __cinit__(
        self, str kind not None, bint is_float, double share=0.5, bint is_text=False
    ):
        kinds = {
            "count": OVER_COUNT, "max": OVER_LARGEST, "min": OVER_SMALLEST,
            "quantile": OVER_QUANTILE, "rank": OVER_RANK, "histogram_quantile": OVER_BUCKETS,
        }
        self.kind = kinds.get(kind, OVER_SUMS)
        if self.kind == OVER_SUMS:
            self.of_sums = sum_kind(kind)
        if self.kind in (OVER_QUANTILE, OVER_BUCKETS) and not (is_float and 0 <= share <= 1):
            raise ValueError("quantiles are of floats, and have a share from 0 to 1")
        if is_text and (is_float or self.kind not in (OVER_LARGEST, OVER_SMALLEST)):
            raise ValueError("texts have a least and a greatest one, and no other aggregates")
        self.is_text = is_text
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
                free(self.states[trace].buckets)
        free(self.cells)
        free(self.has_value)
        free(self.bounds)
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
            if self.kind == OVER_BUCKETS:
                resized(<void **> &self.bounds, room, sizeof(double))
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
            if self.kind == OVER_RANK and self.is_float and cell == INT64_MIN:
                # both zeros have the same place
                cell = 0
            code = self.code_of(cell)
            if self.is_float and code == INT64_MAX:
                state.sorted.undefined += sign
            elif sign > 0:
                insert_code(&state.sorted, code)
            else:
                remove_code(&state.sorted, code)
        return 0

    cdef inline int64_t code_of(self, int64_t cell) noexcept nogil:
        """A number in the order of values, the wanted ones last; it tells which text it is."""
        cdef int64_t code
        if not self.is_text:
            return order_code(self.order, self.is_float, False, cell)
        code = <int64_t> (<uint64_t> rank_of(&self.ranks, cell) << 32 | <uint32_t> cell)
        return -code if self.order == SMALLEST else code

    cdef inline int64_t cell_of(self, int64_t code) noexcept nogil:
        if self.is_text:
            return <uint32_t> (-code if self.order == SMALLEST else code)
        return cell_of_code(self.order, self.is_float, False, code)

    def set_ranks(self, ranks):
        """Tell the order of all texts; see `Kernel.set_ranks`. That of known ones is as before."""
        cdef size_t count = <size_t> len(ranks)
        if count >> 31:
            raise LimitError("2^31 texts or more are compared")
        self.rank_memory = contiguous(ranks, sizeof(uint32_t), count)
        self.ranks.places = <const uint32_t *> self.rank_memory.buffer.buf
        self.ranks.count = count
        self.code_texts(NULL)

    cdef void code_texts(self, const TextMarks *marks) noexcept nogil:
        """Give texts the codes of their ranks, or of their numbers, which are in the same order."""
        cdef Sorted *sorted
        cdef CodeBlock *block
        cdef size_t trace
        cdef uint32_t k, place
        cdef int64_t cell
        for trace in range(<size_t> self.traces):
            sorted = &self.states[trace].sorted
            for k in range(sorted.block_count):
                block = &sorted.blocks[k]
                for place in range(block.count):
                    cell = self.cell_of(block.codes[place])
                    if marks != NULL:
                        visit_text(&cell, marks)
                    block.codes[place] = self.code_of(cell)

    def mark_texts(self, flags):
        """Find the texts that instances have; see `Kernel.mark_texts`."""
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef TextMarks marks = marks_to_set(memory)
        self.visit_texts(&marks)

    def renumber_texts(self, new_numbers):
        """Give texts new numbers, as `Kernel.renumber_texts`; `set_ranks` comes behind."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef TextMarks marks = marks_to_renumber(memory)
        self.visit_texts(&marks)

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        cdef uint32_t number
        self.begin()
        for number in range(self.room):
            if self.has_value[number]:
                visit_text(&self.cells[number], marks)
        if marks.numbers != NULL:
            self.code_texts(marks)
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
        cdef int64_t before
        cdef bint had_value
        if self.kind == OVER_BUCKETS and (isnan(self.bounds[number]) or isnan(float_of(cell))):
            # it is no bucket, or counts nothing
            has_value = False
        if self.has_value[number] and has_value and self.cells[number] == cell:
            return 0
        before = self.cells[number]
        had_value = self.has_value[number]
        reserve_changes(&self.journal, 1)
        self.put(trace, number, cell, has_value)
        note_change(&self.journal, number, before, <int64_t> trace << 1 | had_value)
        return 0

    cdef int put(
        self, uint32_t trace, uint32_t number, int64_t cell, bint has_value
    ) except -1 nogil:
        """Let an instance have a value or none in the place of the one before."""
        if self.kind == OVER_BUCKETS:
            if has_value and not self.has_value[number]:
                self.add_bucket(&self.states[trace], number)
            elif self.has_value[number] and not has_value:
                self.remove_bucket(&self.states[trace], number)
        else:
            # the new value comes first, so that an error of memory leaves the state as it was
            if has_value:
                self.change(trace, cell, 1)
            if self.has_value[number]:
                self.change(trace, self.cells[number], -1)
        self.cells[number] = cell
        self.has_value[number] = has_value
        return 0

    cdef int add_bucket(self, OverState *state, uint32_t number) except -1 nogil:
        cdef uint32_t place
        if state.bucket_count == state.bucket_room:
            place = max(<uint32_t> LEAST_BUCKETS, 2 * state.bucket_room)
            resized(<void **> &state.buckets, place, sizeof(uint32_t))
            state.bucket_room = place
        place = state.bucket_count
        while place and self.is_below(number, state.buckets[place - 1]):
            state.buckets[place] = state.buckets[place - 1]
            place -= 1
        state.buckets[place] = number
        state.bucket_count += 1
        return 0

    cdef inline bint is_below(self, uint32_t number, uint32_t other) noexcept nogil:
        """Whether the bucket of one instance comes before that of another: by bound, and by birth.

        So the sum of floats with one bound has an order.
        """
        cdef double bound = self.bounds[number]
        return bound < self.bounds[other] or (bound == self.bounds[other] and number < other)

    cdef int remove_bucket(self, OverState *state, uint32_t number) except -1 nogil:
        cdef uint32_t place = 0
        while place < state.bucket_count and state.buckets[place] != number:
            place += 1
        if place == state.bucket_count:
            with gil:
                raise AssertionError("no such bucket has been added")
        state.bucket_count -= 1
        memmove(
            state.buckets + place, state.buckets + place + 1,
            (state.bucket_count - place) * sizeof(uint32_t)
        )
        return 0

    cdef bint next_bucket(
        self, const OverState *state, uint32_t *place, Bucket *bucket
    ) noexcept nogil:
        """Go on to the next bucket of a histogram; return whether there is one.

        Buckets of one bound are one. Counts do not decrease: one that is less than the count before
        it, or hardly differs from it, becomes that, as differences of floats have small errors.
        """
        cdef double count = 0
        cdef double least
        if place[0] == state.bucket_count:
            return False
        bucket.bound = self.bounds[state.buckets[place[0]]]
        while place[0] < state.bucket_count:
            if self.bounds[state.buckets[place[0]]] != bucket.bound:
                break
            count += float_of(self.cells[state.buckets[place[0]]])
            place[0] += 1
        least = fabs(bucket.count) + fabs(count)
        if not (
            count < bucket.count
            or fabs(count - bucket.count) / min(least, DBL_MAX) < 1e-12
        ):
            bucket.count = count
        return True

    cdef int quantile_of_buckets(self, const OverState *state, int64_t *result) noexcept nogil:
        """Interpolate on a line in the bucket that has a share of the observations."""
        cdef Bucket bucket, below
        cdef uint32_t place = 0
        cdef double wanted, found
        cdef size_t count = 0
        bucket.count = -INFINITY
        while self.next_bucket(state, &place, &bucket):
            count += 1
        if count < 2 or bucket.bound != INFINITY or bucket.count == 0:
            return NOTHING
        wanted = self.share * bucket.count
        place = 0
        bucket.count = -INFINITY
        below.bound = 0
        below.count = 0
        self.next_bucket(state, &place, &bucket)
        if bucket.count < wanted or bucket.bound > 0:
            while bucket.count < wanted and place < state.bucket_count:
                below = bucket
                self.next_bucket(state, &place, &bucket)
            found = below.bound
            if bucket.bound != INFINITY:
                found += (bucket.bound - below.bound) * (
                    (wanted - below.count) / (bucket.count - below.count)
                )
        else:
            found = bucket.bound
        if isnan(found):
            return NOTHING
        memcpy(result, &found, sizeof(found))
        return FOUND

    cdef int get(self, uint32_t trace, uint32_t own, int64_t *result) noexcept nogil:
        """Find the result of a trace or group; `own` is the instance that has a rank."""
        cdef OverState *state
        cdef const CodeBlock *block
        cdef double found
        cdef int64_t code
        if self.kind == OVER_RANK:
            if own == NO_INSTANCE or not self.has_value[own]:
                return NOTHING
            code = self.cells[own]
            if self.is_float and code == INT64_MIN:
                code = 0
            code = order_code(self.order, self.is_float, False, code)
            if self.is_float and code == INT64_MAX:
                return NOTHING
            result[0] = 1
            if trace != NO_INSTANCE:
                result[0] += codes_above(&self.states[trace].sorted, code)
            return FOUND
        if trace == NO_INSTANCE:
            result[0] = 0
            return FOUND if self.kind == OVER_COUNT else NOTHING
        state = &self.states[trace]
        result[0] = state.count
        if self.kind == OVER_COUNT:
            return FOUND
        if self.kind == OVER_BUCKETS:
            return self.quantile_of_buckets(state, result)
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
            result[0] = self.cell_of(block.codes[block.count - 1])
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
        uint32_t group_count=0, owners=None, bounds=None
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
        owners: for each time-point the number of the instance whose rank is wanted, 2^32-1 if there
            is none, an array of type uint32; for ranks.
        bounds: the bound of each instance's bucket, an array of type float64; for histograms.
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
        cdef Memory moment_memory, wanted_memory, group_memory, wanted_group_memory, owner_memory
        cdef const uint32_t *owner = NULL
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
        if owners is not None:
            owner_memory = contiguous(owners, sizeof(uint32_t), count)
            owner = <const uint32_t *> owner_memory.buffer.buf
        self.take_bounds(instances, bounds)
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
                    NO_INSTANCE if owner == NULL else owner[row], &result_cells[row],
                )
                if valid[row] == OVERFLOWS:
                    with gil:
                        return row
            # those behind the last time-point
            while place < instances.turn_count:
                self.turn(group_of, &instances.turns[place], birth, has_birth)
                place += 1
        return count

    cdef int take_bounds(self, Instances instances, bounds) except -1:
        """Remember the bounds of buckets; those of instances never change."""
        cdef Memory memory
        if self.kind == OVER_BUCKETS:
            memory = contiguous(bounds, sizeof(double), instances.count)
            memcpy(self.bounds, memory.buffer.buf, instances.count * sizeof(double))
        return 0

    def begin(self):
        """Begin a batch: what was done before can no longer be undone."""
        self.journal.count = 0

    def undo(self):
        """Return to the state at the last `begin`."""
        cdef Change *change
        while self.journal.count:
            change = &self.journal.changes[self.journal.count - 1]
            self.put(<uint32_t> (change.note >> 1), change.place, change.cell, change.note & 1)
            self.journal.count -= 1

    def keep(self, new_numbers, new_traces=None):
        """Give instances and traces new numbers; see `Instances.compact`."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        self.begin()
        if self.kind == OVER_BUCKETS:
            moved_states(self.bounds, sizeof(double), self.room, numbers, count)
            self.renumber_buckets(numbers, count)
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
                free(self.states[trace].buckets)
        moved_states(self.states, sizeof(OverState), self.traces, numbers, count)
        if self.kind == OVER_SUMS:
            moved_states(self.sums.words, number_bytes(&self.sums), self.traces, numbers, count)
        if self.has_squares():
            moved_states(
                self.squares.words, number_bytes(&self.squares), self.traces, numbers, count
            )
        return 0

    cdef int renumber_buckets(self, const uint32_t *numbers, size_t count) except -1:
        """Give the instances in histograms new numbers; those that are forgotten leave."""
        cdef OverState *state
        cdef size_t trace
        cdef uint32_t k, kept
        for trace in range(<size_t> self.traces):
            state = &self.states[trace]
            kept = 0
            for k in range(state.bucket_count):
                if state.buckets[k] < count and numbers[state.buckets[k]] != FORGOTTEN:
                    state.buckets[kept] = numbers[state.buckets[k]]
                    kept += 1
            state.bucket_count = kept
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
        uint32_t group_count=0, bounds=None
    ):
        """Continue from the snapshot of values of the same instances, which have been restored.

        from_integers: the snapshot has integers, which are floats here.
        groups, group_count, bounds: as for `feed`.

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
        self.take_bounds(instances, bounds)
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
        if self.kind == OVER_BUCKETS:
            found += self.room * sizeof(double)
        for trace in range(<size_t> self.traces):
            found += self.states[trace].bucket_room * sizeof(uint32_t)
            found += self.states[trace].sorted.block_room * sizeof(CodeBlock)
            for block in range(self.states[trace].sorted.block_count):
                found += self.states[trace].sorted.blocks[block].room * sizeof(int64_t)
        return found + self.journal.room * sizeof(Change)
