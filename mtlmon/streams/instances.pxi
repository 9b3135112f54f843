# cython: language_level=3
"""Instances of streams with `per`: which ones are alive."""

from mtlmon.errors import MtlmonError


cdef enum:
    # The number of an instance where there is none.
    NO_INSTANCE = 0xFFFFFFFF
    LEAST_PLACES = 64


# Row r of a batch is at the moment 4r + 1. Instances begin before it, at 4r, and end behind it, at
# 4r + 2. What is between two rows, as ticks and the ends that time brings, is before the next one,
# at 4r - 1, in the order of time. So are instances that begin and end at ticks.


cdef struct Turn:
    # The birth or death of an instance at a moment of the batch.
    int64_t moment
    int64_t time                # of what time brings; below all times for the others
    uint32_t number
    bint is_birth


cdef struct Leaving:
    # Instances that end behind a tick. They have a turn when those of all traces at its time have
    # begun, as turns are in the order of time.
    uint32_t *numbers
    size_t count, room
    int64_t moment, time


cdef inline bint has_come(const Turn *turn, int64_t moment, int64_t time) noexcept nogil:
    """Whether a turn has come at a moment and time."""
    return turn.moment < moment or (turn.moment == moment and turn.time <= time)


cdef inline int64_t moment_of(const int64_t *moments, size_t place) noexcept nogil:
    """The moment of a time-point; time-points are the rows if there are no moments."""
    return 4 * <int64_t> place + 1 if moments == NULL else moments[place]


cdef struct KeyColumns:
    # Columns of cells, of which those of a row are a key; no key if one of them is null.
    const int64_t **cells
    const uint8_t **masks


cdef inline bint has_key(const KeyColumns *keys, uint32_t width, size_t row) noexcept nogil:
    cdef uint32_t k
    for k in range(width):
        if keys.masks[k] != NULL and not keys.masks[k][row]:
            return False
    return True


@final
cdef class Instances:
    """The instances of a stream, which begin and end at rows of many traces.

    An instance has a key of cells. It gets a number when it begins, and another one if it begins
    again. Numbers of instances that have ended are free after the next `compact`.

    Between `begin` and the next `begin`, `undo` takes everything back.

    text_columns: for each cell of a key, whether it is the number of a text.
    age: how long after its first row an instance ends; 0 for never.
    silence: how long after its last row an instance ends; 0 for never.
    has_births: whether `births_of` is used.
    """

    cdef uint32_t width
    cdef object text_columns
    cdef int64_t *keys          # `width` cells for each number
    cdef uint32_t *traces
    cdef uint8_t *alive
    cdef uint32_t *following    # links between the living instances of a trace
    cdef uint32_t *preceding
    cdef uint32_t *heads        # the first of them, by trace
    cdef uint32_t head_count
    cdef uint32_t room          # how many numbers there is room for
    cdef readonly uint32_t count
    cdef readonly uint32_t living
    cdef readonly uint32_t peak     # how many were alive at once, since the last `begin`
    cdef uint32_t *places       # a hash table of open addressing: the numbers of the living
    cdef size_t mask
    cdef Turn *turns          # those of the batch
    cdef size_t turn_count, turn_room
    cdef uint32_t marked_count
    cdef int64_t age
    cdef readonly int64_t silence
    cdef bint keeps_births
    cdef int64_t *births        # the times of first rows, by number; NULL if they do not matter
    cdef uint32_t oldest, marked_oldest     # no instance below it has its age to come
    cdef bint keeps_ended       # whether numbers of some that have ended are kept
    cdef Leaving leaving        # those that end behind the present tick
    cdef UseOrder uses          # the living in the order of their last rows, if that matters

    def __cinit__(self, text_columns, int64_t age=0, int64_t silence=0, bint has_births=False):
        if age < 0 or silence < 0:
            raise ValueError("instances end after a length of time")
        self.age = age
        self.silence = silence
        self.keeps_births = has_births or age > 0
        init_uses(&self.uses)
        self.text_columns = tuple(map(bool, text_columns))
        self.width = <uint32_t> len(self.text_columns)
        if self.width == 0:
            raise ValueError("an instance needs a key")
        self.resize_places(LEAST_PLACES)

    def __dealloc__(self):
        free(self.keys)
        free(self.traces)
        free(self.alive)
        free(self.following)
        free(self.preceding)
        free(self.heads)
        free(self.places)
        free(self.turns)
        free(self.births)
        free(self.leaving.numbers)
        free_uses(&self.uses)

    def forget_silent(self, int64_t length):
        """Forget instances after so much silence, too; there must be none yet."""
        if self.count or length < 1:
            raise ValueError("there are instances, or no time passes until they are forgotten")
        self.silence = min(self.silence, length) if self.silence else length

    cdef int resize_places(self, size_t size) except -1 nogil:
        """Make the hash table anew, with another size, a power of two."""
        cdef uint32_t *places = NULL
        cdef uint32_t number
        resized(<void **> &places, size, sizeof(uint32_t))
        memset(places, 0xFF, size * sizeof(uint32_t))
        free(self.places)
        self.places = places
        self.mask = size - 1
        for number in range(self.count):
            if self.alive[number]:
                self.insert(number)
        return 0

    cdef int resize_numbers(self, uint32_t room) except -1 nogil:
        self.room = min(room, self.room)
        resized(<void **> &self.keys, <size_t> room * self.width, sizeof(int64_t))
        resized(<void **> &self.traces, room, sizeof(uint32_t))
        resized(<void **> &self.alive, room, 1)
        resized(<void **> &self.following, room, sizeof(uint32_t))
        resized(<void **> &self.preceding, room, sizeof(uint32_t))
        if self.keeps_births:
            resized(<void **> &self.births, room, sizeof(int64_t))
        if self.silence:
            resize_uses(&self.uses, room)
        self.room = room
        return 0

    cdef int make_room(self, uint32_t traces) except -1:
        """Make room for the traces below `traces`."""
        cdef uint32_t room
        if traces > self.head_count:
            room = room_for(traces, self.head_count)
            resized(<void **> &self.heads, room, sizeof(uint32_t))
            memset(
                self.heads + self.head_count, 0xFF, (room - self.head_count) * sizeof(uint32_t)
            )
            self.head_count = room
        return 0

    cdef inline size_t wanted_place(
        self, uint32_t trace, const int64_t **cells, size_t row
    ) noexcept nogil:
        """The place in the hash table where the search for a key begins."""
        cdef uint64_t hash = group_hash(trace, cells[0][row])
        cdef uint32_t k
        for k in range(1, self.width):
            hash = group_hash(<uint32_t> hash ^ <uint32_t> (hash >> 32), cells[k][row])
        return <size_t> hash & self.mask

    cdef inline size_t own_place(self, uint32_t number) noexcept nogil:
        """The place where the search for an instance begins."""
        cdef const int64_t *cells = self.keys + <size_t> number * self.width
        cdef uint64_t hash = group_hash(self.traces[number], cells[0])
        cdef uint32_t k
        for k in range(1, self.width):
            hash = group_hash(<uint32_t> hash ^ <uint32_t> (hash >> 32), cells[k])
        return <size_t> hash & self.mask

    cdef inline uint32_t found(
        self, uint32_t trace, const KeyColumns *keys, size_t row
    ) noexcept nogil:
        """The number of the living instance with the key of a row; NO_INSTANCE if there is none."""
        cdef size_t place = self.wanted_place(trace, keys.cells, row)
        cdef uint32_t number = self.places[place]
        cdef uint32_t k
        while number != NO_INSTANCE:
            if self.traces[number] == trace:
                k = 0
                while (
                    k < self.width
                    and self.keys[<size_t> number * self.width + k] == keys.cells[k][row]
                ):
                    k += 1
                if k == self.width:
                    return number
            place = (place + 1) & self.mask
            number = self.places[place]
        return NO_INSTANCE

    cdef inline void insert(self, uint32_t number) noexcept nogil:
        """Put an instance into the hash table, which has room."""
        cdef size_t place = self.own_place(number)
        while self.places[place] != NO_INSTANCE:
            place = (place + 1) & self.mask
        self.places[place] = number

    cdef void remove(self, uint32_t number) noexcept nogil:
        """Take an instance out of the hash table, and let no other be cut off from its place."""
        cdef size_t place = self.own_place(number)
        cdef size_t free_place, wanted
        while self.places[place] != number:
            place = (place + 1) & self.mask
        free_place = place
        while True:
            place = (place + 1) & self.mask
            if self.places[place] == NO_INSTANCE:
                break
            wanted = self.own_place(self.places[place])
            if ((place - wanted) & self.mask) >= ((place - free_place) & self.mask):
                self.places[free_place] = self.places[place]
                free_place = place
        self.places[free_place] = NO_INSTANCE

    cdef inline void enter(self, uint32_t number) noexcept nogil:
        """Let an instance live that was not, or the last that left live again."""
        cdef uint32_t trace = self.traces[number]
        cdef uint32_t head = self.heads[trace]
        self.alive[number] = 1
        self.living += 1
        self.insert(number)
        self.preceding[number] = NO_INSTANCE
        self.following[number] = head
        if head != NO_INSTANCE:
            self.preceding[head] = number
        self.heads[trace] = number

    cdef inline void leave(self, uint32_t number) noexcept nogil:
        cdef uint32_t before = self.preceding[number]
        cdef uint32_t behind = self.following[number]
        self.alive[number] = 0
        self.living -= 1
        self.remove(number)
        if before == NO_INSTANCE:
            self.heads[self.traces[number]] = behind
        else:
            self.following[before] = behind
        if behind != NO_INSTANCE:
            self.preceding[behind] = before

    cdef inline int note(
        self, int64_t moment, int64_t time, uint32_t number, bint is_birth
    ) except -1 nogil:
        cdef Turn *turn
        if self.turn_count == self.turn_room:
            self.turn_room = max(<size_t> LEAST_PLACES, 2 * self.turn_room)
            resized(<void **> &self.turns, self.turn_room, sizeof(Turn))
        turn = &self.turns[self.turn_count]
        turn.moment = moment
        turn.time = time
        turn.number = number
        turn.is_birth = is_birth
        self.turn_count += 1
        return 0

    cdef inline int end(self, int64_t moment, int64_t time, uint32_t number) except -1 nogil:
        self.note(moment, time, number, False)
        self.leave(number)
        if self.silence:
            use(&self.uses, number, 0, LEFT)
        return 0

    cdef int end_behind(self, int64_t moment, int64_t time, uint32_t number) except -1 nogil:
        """End an instance behind a tick; see `Leaving`."""
        cdef Leaving *leaving = &self.leaving
        if leaving.count == leaving.room:
            leaving.room = max(<size_t> LEAST_PLACES, 2 * leaving.room)
            resized(<void **> &leaving.numbers, leaving.room, sizeof(uint32_t))
        leaving.numbers[leaving.count] = number
        leaving.count += 1
        leaving.moment = moment
        leaving.time = time
        return 0

    cdef int let_leave(self, int64_t now) except -1 nogil:
        """End the instances that do so behind a tick before a time."""
        cdef Leaving *leaving = &self.leaving
        cdef size_t k
        if leaving.count == 0 or leaving.time >= now:
            return 0
        for k in range(leaving.count):
            self.end(leaving.moment, leaving.time + 1, leaving.numbers[k])
        leaving.count = 0
        return 0

    cdef int expire(self, int64_t moment, int64_t now) except -1 nogil:
        """End the instances whose time has come, in the order of these times."""
        cdef int64_t by_age, by_silence
        cdef bint is_old, is_silent
        while True:
            by_age = by_silence = INT64_MAX
            is_old = is_silent = False
            # what is due is not later than now, so its time is a number
            if self.age:
                while self.oldest < self.count and not self.alive[self.oldest]:
                    self.oldest += 1
                if self.oldest < self.count and self.births[self.oldest] <= now - self.age:
                    is_old = True
                    by_age = self.births[self.oldest] + self.age
            if self.silence and self.uses.first != END_OF_LIST:
                if self.uses.times[self.uses.first] <= now - self.silence:
                    is_silent = True
                    by_silence = self.uses.times[self.uses.first] + self.silence
            if is_old and by_age <= by_silence:
                self.end(moment, by_age, self.oldest)
            elif is_silent:
                self.end(moment, by_silence, self.uses.first)
            else:
                return 0

    cdef int pass_ticks(
        self, EndingTicks ticks, int64_t moment, int64_t limit, size_t rows
    ) except -1 nogil:
        """End instances at their ticks below a time; returns OVERFLOWS if that is not known.

        An instance is alive at the tick that ends it, and dead at the next time.

        rows: how many rows there must be room for in the kernels besides.
        """
        cdef int64_t time
        cdef uint32_t number
        while True:
            time = ticks.next_of_all()
            if time >= limit:
                return FOUND
            # time ends instances before the ticks
            self.expire(moment, time)
            if not self.living:
                ticks.heap_count = 0
                ticks.next_time = ticks.multiple_from(limit)
                continue
            with gil:
                ticks.make_room(self.count, rows + self.living)
            if ticks.is_from_beginning:
                while ticks.heap_count and ticks.heap[0].time == time:
                    number = ticks.heap[0].number
                    ticks.pass_first(self.alive[number])
                    if self.alive[number]:
                        if self.pass_tick(ticks, moment, time, number) == OVERFLOWS:
                            return OVERFLOWS
                continue
            ticks.next_time = time_after(time, ticks.period)
            for number in range(self.count):
                if self.alive[number]:
                    if self.pass_tick(ticks, moment, time, number) == OVERFLOWS:
                        return OVERFLOWS

    cdef inline int pass_tick(
        self, EndingTicks ticks, int64_t moment, int64_t time, uint32_t number
    ) except -1 nogil:
        cdef int found = NOTHING
        if ticks.has_tick(time, self.traces[number]):
            found = ticks.ends_at(time, number)
            if found == FOUND:
                self.end(moment, time + 1, number)
        return found

    cdef inline uint32_t start(
        self, size_t row, int64_t now, uint32_t trace, const KeyColumns *keys, int64_t moment,
        int64_t time
    ) except? 0 nogil:
        cdef uint32_t number = self.count
        cdef uint32_t k
        if number == self.room:
            if number >= MOST_TRACES // 2:
                with gil:
                    raise LimitError("more than 2^31 instances of a stream")
            self.resize_numbers(max(<uint32_t> LEAST_PLACES, number + number // 2))
        if 3 * <size_t> (self.living + 1) > 2 * self.mask:
            self.resize_places(2 * (self.mask + 1))
        self.note(moment, time, number, True)
        if self.keeps_births:
            self.births[number] = now
        self.traces[number] = trace
        for k in range(self.width):
            self.keys[<size_t> number * self.width + k] = keys.cells[k][row]
        self.alive[number] = 0
        self.count += 1
        self.enter(number)
        self.peak = max(self.peak, self.living)
        if self.silence:
            use(&self.uses, number, now, ENTERED)
        return number

    def run(
        self, Batch batch not None, keys, key_masks, starts, ends, end_keys, end_masks, numbers,
        int64_t limit=0, EndingTicks ticks=None, Machine machine=None, inputs=(), input_masks=(),
        results=(), validities=(), Batch rows=None, places=None
    ):
        """Find the instances that rows belong to, and begin and end instances.

        keys, key_masks: arrays of the cells of keys, and for each its mask or None; a row whose key
            has a null belongs to no instance.
        starts: an array of bytes: where instances may begin; None for all rows.
        ends: an array of bytes: behind which rows instances end; None if they never do.
        end_keys, end_masks: the cells and masks of the keys of instances that end; None if all
            instances of the row's trace do.
        numbers: a contiguous array of integers of type uint32, which become the numbers of
            instances, 2^32-1 for rows that belong to none.
        limit: time has passed up to below this time, if it is above that of the last row.
        ticks: what ends instances at ticks, which has begun with these rows; None if nothing does.
        machine: computes values of instances at their rows, of which the last is true where an
            instance ends; None if no values of their own end instances. It has one kind of rows.
        inputs, input_masks, results, validities: as for `Machine.run`.
        rows: where instances begin and end at ticks, which are then in the batch, the rows; None
            elsewhere. There is no machine then.
        places: how many rows come before each tick, an array of type int64.

        Returns the number of rows that are done: if it is below that of all rows, an operation of
        a machine overflows in the next row, or, as `ticks` says, at a tick.
        """
        cdef list held = []
        cdef void **columns = NULL
        cdef size_t done, k
        cdef size_t count = batch.count
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), count, True)
        cdef uint32_t *found = <uint32_t *> number_memory.buffer.buf
        cdef Columns own = Columns(keys, key_masks, self.width, count)
        cdef Columns ended
        cdef Memory start_memory, end_memory
        cdef const uint8_t *start_bytes = NULL
        cdef const uint8_t *end_bytes = NULL
        cdef KeyColumns *end_columns = NULL
        cdef Memory place_memory
        cdef const int64_t *before = NULL
        cdef int64_t last = 4 * <int64_t> (count if rows is None else rows.count) - 1
        if rows is not None:
            if machine is not None:
                raise ValueError("instances with rows do not begin at ticks")
            place_memory = contiguous(places, sizeof(int64_t), count)
            before = <const int64_t *> place_memory.buffer.buf
            for k in range(count):
                if not (before[k - 1] if k else 0) <= before[k] <= <int64_t> rows.count:
                    raise ValueError("ticks come before rows of the batch, in order")
            self.leaving.count = 0
        if starts is not None:
            start_memory = contiguous(starts, 1, count)
            start_bytes = <const uint8_t *> start_memory.buffer.buf
        if ends is not None:
            end_memory = contiguous(ends, 1, count)
            end_bytes = <const uint8_t *> end_memory.buffer.buf
            if end_keys is not None:
                ended = Columns(end_keys, end_masks, self.width, count)
                end_columns = &ended.keys
        self.make_room(batch.traces)
        if machine is not None:
            columns = machine.held_columns(held, inputs, input_masks, results, validities, count)
        try:
            for k in range(machine.kernel_count if machine is not None else 0):
                # each row may begin an instance
                (<Kernel> machine.kernels[k]).make_room(self.count + <uint32_t> count, count)
            if ticks is not None:
                ticks.make_room(self.count + <uint32_t> count, count)
                self.find_ticks(ticks)
            with nogil:
                done = self.run_rows(
                    batch, &own.keys, start_bytes, end_bytes, end_columns, found, machine, columns,
                    ticks, rows, before
                )
                if done == count and (ticks is None or not ticks.has_failed):
                    if ticks is not None:
                        self.pass_ticks(ticks, last, limit, 0)
                    self.expire(last, limit - 1)
        finally:
            free(columns)
        return done

    cdef int find_ticks(self, EndingTicks ticks) except -1:
        """Find the next ticks of the living instances that count them from their beginnings."""
        cdef uint32_t number
        if ticks.is_from_beginning:
            if not self.keeps_births:
                raise ValueError("the times of the first rows are not known")
            for number in range(self.count):
                if self.alive[number]:
                    ticks.push(number, self.births[number])
        return 0

    cdef size_t run_rows(
        self, Batch batch, const KeyColumns *keys, const uint8_t *starts, const uint8_t *ends,
        const KeyColumns *end_keys, uint32_t *numbers, Machine machine, void **columns,
        EndingTicks ticks, Batch rows, const int64_t *places
    ) except? 0 nogil:
        cdef size_t row, later
        cdef uint32_t trace, number
        cdef int64_t now, moment, place
        cdef size_t passed = 0
        cdef bint is_at_ticks = rows is not None
        cdef void **outputs = NULL
        cdef size_t last = 0
        if columns != NULL:
            outputs = columns + 2 * machine.input_count
            last = 2 * (machine.output_count - 1)
        for row in range(batch.count):
            later = row + AHEAD
            if later < batch.count:
                prefetch(&self.places[self.wanted_place(batch.trace(later), keys.cells, later)])
            trace = batch.trace(row)
            now = batch.time_stamps[row]
            place = <int64_t> row
            if is_at_ticks:
                place = places[row]
                while <int64_t> passed < place:
                    if self.pass_time(
                        ticks, 4 * <int64_t> passed - 1, rows.time_stamps[passed],
                        batch.count - row
                    ) == OVERFLOWS:
                        return row
                    passed += 1
            if self.pass_time(ticks, 4 * place - 1, now, batch.count - row) == OVERFLOWS:
                return row
            number = NO_INSTANCE
            if has_key(keys, self.width, row):
                number = self.found(trace, keys, row)
                if number != NO_INSTANCE:
                    if self.silence:
                        use(&self.uses, number, now, USED)
                elif starts == NULL or starts[row]:
                    if is_at_ticks:
                        number = self.start(row, now, trace, keys, 4 * place - 1, now)
                    else:
                        number = self.start(row, now, trace, keys, 4 * place, INT64_MIN)
                    if ticks is not None and ticks.is_from_beginning:
                        ticks.push(number, now)
            numbers[row] = number
            if ticks is not None and number != NO_INSTANCE:
                if ticks.take_row(now, number, row) == OVERFLOWS:
                    return row
            moment = 4 * <int64_t> row + 2
            if columns != NULL and number != NO_INSTANCE:
                if machine.compute_of_instance(now, number, row, columns, outputs) == OVERFLOWS:
                    return row
                if (<uint8_t *> outputs[last + 1])[row] and (<int64_t *> outputs[last])[row]:
                    self.end(moment, INT64_MIN, number)
            if ends == NULL or not ends[row]:
                continue
            if is_at_ticks:
                number = self.heads[trace]
                if end_keys != NULL:
                    number = NO_INSTANCE
                    if has_key(end_keys, self.width, row):
                        number = self.found(trace, end_keys, row)
                while number != NO_INSTANCE:
                    self.end_behind(4 * place - 1, now, number)
                    number = self.following[number] if end_keys == NULL else NO_INSTANCE
            elif end_keys == NULL:
                while self.heads[trace] != NO_INSTANCE:
                    self.end(moment, INT64_MIN, self.heads[trace])
            elif has_key(end_keys, self.width, row):
                number = self.found(trace, end_keys, row)
                if number != NO_INSTANCE:
                    self.end(moment, INT64_MIN, number)
        if is_at_ticks:
            for row in range(passed, rows.count):
                if self.pass_time(
                    ticks, 4 * <int64_t> row - 1, rows.time_stamps[row], 0
                ) == OVERFLOWS:
                    return batch.count
            self.let_leave(INT64_MAX)
        return batch.count

    cdef inline int pass_time(
        self, EndingTicks ticks, int64_t moment, int64_t now, size_t rows
    ) except -1 nogil:
        """End what ends before a row or tick at some time; see `pass_ticks`."""
        self.let_leave(now)
        if ticks is not None and self.pass_ticks(ticks, moment, now, rows) == OVERFLOWS:
            return OVERFLOWS
        if self.age or self.silence:
            self.expire(moment, now)
        return FOUND

    cdef inline void redo(self, const Turn *turn) noexcept nogil:
        if turn.is_birth:
            self.enter(turn.number)
        else:
            self.leave(turn.number)

    cdef inline void take_back(self, const Turn *turn) noexcept nogil:
        if turn.is_birth:
            self.leave(turn.number)
        else:
            self.enter(turn.number)

    def find(self, Batch batch not None, keys, masks, numbers, moments=None):
        """Find the living instances with the given keys at the rows of the last `run`.

        keys, masks: as for `run`.
        numbers: as for `run`; 2^32-1 if there is no such instance.
        moments: for each time-point of the batch its moment (see `Turn`) among the rows of the last
            `run`, which never decrease, an array of integers of type int64; None if the batch is of
            these rows.
        """
        cdef size_t count = batch.count
        cdef Memory moment_memory
        cdef const int64_t *moment_cells = NULL
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), count, True)
        cdef uint32_t *found = <uint32_t *> number_memory.buffer.buf
        cdef Columns columns = Columns(keys, masks, self.width, count)
        cdef size_t row
        cdef size_t place = self.turn_count
        if moments is not None:
            moment_memory = contiguous(moments, sizeof(int64_t), count)
            moment_cells = <const int64_t *> moment_memory.buffer.buf
        with nogil:
            while place:
                place -= 1
                self.take_back(&self.turns[place])
            for row in range(count):
                while place < self.turn_count and has_come(
                    &self.turns[place], moment_of(moment_cells, row), batch.time_stamps[row]
                ):
                    self.redo(&self.turns[place])
                    place += 1
                found[row] = NO_INSTANCE
                if has_key(&columns.keys, self.width, row):
                    found[row] = self.found(batch.trace(row), &columns.keys, row)
            while place < self.turn_count:
                self.redo(&self.turns[place])
                place += 1

    def living_of(self, Batch batch not None, wanted=None):
        """Find all living instances of the traces of rows, at the rows of the last `run`.

        batch: these rows.
        wanted: an array of bytes: at which rows; None for all.

        Returns bytes of int64 items: for each such row and instance the index of the row, shifted
        to the left by 32 bits, and the number of the instance. Those of a row are in any order.
        """
        cdef size_t count = batch.count
        cdef Memory memory
        cdef const uint8_t *is_wanted = NULL
        cdef int64_t *found = NULL
        cdef size_t found_count = 0
        cdef size_t room = 0
        cdef size_t place = self.turn_count
        cdef size_t row
        cdef uint32_t number
        if wanted is not None:
            memory = contiguous(wanted, 1, count)
            is_wanted = <const uint8_t *> memory.buffer.buf
        try:
            with nogil:
                while place:
                    place -= 1
                    self.take_back(&self.turns[place])
                try:
                    for row in range(count):
                        while place < self.turn_count and has_come(
                            &self.turns[place], 4 * <int64_t> row + 1, batch.time_stamps[row]
                        ):
                            self.redo(&self.turns[place])
                            place += 1
                        if is_wanted != NULL and not is_wanted[row]:
                            continue
                        if room - found_count < self.living:
                            room = max(2 * room, found_count + self.living)
                            resized(<void **> &found, room, sizeof(int64_t))
                        number = self.heads[batch.trace(row)]
                        while number != NO_INSTANCE:
                            found[found_count] = <int64_t> row << 32 | <int64_t> number
                            found_count += 1
                            number = self.following[number]
                finally:
                    while place < self.turn_count:
                        self.redo(&self.turns[place])
                        place += 1
            return (<const char *> found)[:found_count * sizeof(int64_t)]
        finally:
            free(found)

    def count_living(self, counts):
        """Count the living instances of each trace into an array of integers of type int64."""
        cdef Memory memory = contiguous(counts, sizeof(int64_t), 0, True)
        cdef int64_t *found = <int64_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0]
        cdef uint32_t number
        with nogil:
            memset(found, 0, count * sizeof(int64_t))
            for number in range(self.count):
                if self.alive[number] and self.traces[number] < count:
                    found[self.traces[number]] += 1

    def living_at(self, numbers, moments, times, flags):
        """Find out which instances are alive at time-points among the rows of the last `run`.

        numbers: the number of an instance for each time-point, an array of type uint32.
        moments: as for `find`.
        times: the times of the time-points, an array of type int64.
        flags: an array of bytes, which become 1 for those that are alive and else 0.
        """
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), 0)
        cdef size_t count = <size_t> number_memory.buffer.shape[0]
        cdef Memory moment_memory = contiguous(moments, sizeof(int64_t), count)
        cdef Memory time_memory = contiguous(times, sizeof(int64_t), count)
        cdef Memory flag_memory = contiguous(flags, 1, count, True)
        cdef const uint32_t *wanted = <const uint32_t *> number_memory.buffer.buf
        cdef const int64_t *moment_cells = <const int64_t *> moment_memory.buffer.buf
        cdef const int64_t *time_cells = <const int64_t *> time_memory.buffer.buf
        cdef uint8_t *found = <uint8_t *> flag_memory.buffer.buf
        cdef size_t k
        cdef size_t place = self.turn_count
        with nogil:
            while place:
                place -= 1
                self.take_back(&self.turns[place])
            for k in range(count):
                while place < self.turn_count and has_come(
                    &self.turns[place], moment_cells[k], time_cells[k]
                ):
                    self.redo(&self.turns[place])
                    place += 1
                found[k] = wanted[k] < self.count and self.alive[wanted[k]]
            while place < self.turn_count:
                self.redo(&self.turns[place])
                place += 1

    def traces_of(self, numbers, traces):
        """Find the traces of instances.

        numbers: numbers of instances, an array of type uint32.
        traces: an array of the same type and length, which gets the numbers of their traces.
        """
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), 0)
        cdef size_t count = <size_t> number_memory.buffer.shape[0]
        cdef Memory trace_memory = contiguous(traces, sizeof(uint32_t), count, True)
        cdef const uint32_t *wanted = <const uint32_t *> number_memory.buffer.buf
        cdef uint32_t *found = <uint32_t *> trace_memory.buffer.buf
        cdef size_t k
        for k in range(count):
            if wanted[k] >= self.count:
                raise ValueError("there is no such instance")
            found[k] = self.traces[wanted[k]]

    def cells_of(self, size_t column, numbers, cells):
        """Find one cell of the keys of instances.

        column: which cell.
        numbers: numbers of instances, an array of type uint32.
        cells: an array of type int64 of the same length, which gets the cells.
        """
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), 0)
        cdef size_t count = <size_t> number_memory.buffer.shape[0]
        cdef Memory cell_memory = contiguous(cells, sizeof(int64_t), count, True)
        cdef const uint32_t *wanted = <const uint32_t *> number_memory.buffer.buf
        cdef int64_t *found = <int64_t *> cell_memory.buffer.buf
        cdef size_t k
        if column >= self.width:
            raise ValueError("there is no such cell")
        for k in range(count):
            if wanted[k] >= self.count:
                raise ValueError("there is no such instance")
            found[k] = self.keys[<size_t> wanted[k] * self.width + column]

    def births_of(self, numbers, times):
        """Find the times of the first rows of instances.

        numbers: numbers of instances, an array of type uint32.
        times: an array of type int64 of the same length, which gets the times.
        """
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), 0)
        cdef size_t count = <size_t> number_memory.buffer.shape[0]
        cdef Memory time_memory = contiguous(times, sizeof(int64_t), count, True)
        cdef const uint32_t *wanted = <const uint32_t *> number_memory.buffer.buf
        cdef int64_t *found = <int64_t *> time_memory.buffer.buf
        cdef size_t k
        for k in range(count):
            if wanted[k] >= self.count or not self.keeps_births:
                raise ValueError("the time of the first row is not known")
            found[k] = self.births[wanted[k]]

    def begin(self):
        """Begin a batch: what was done before can no longer be undone."""
        self.turn_count = 0
        self.uses.use_count = 0
        self.marked_count = self.count
        self.marked_oldest = self.oldest
        self.peak = self.living

    def undo(self):
        """Return to the state at the last `begin`."""
        while self.turn_count:
            self.turn_count -= 1
            self.take_back(&self.turns[self.turn_count])
        undo_uses(&self.uses)
        self.count = self.marked_count
        self.oldest = self.marked_oldest

    def settled(self, flags):
        """Set the bytes of traces with a living instance to 0."""
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef uint8_t *bytes_of = <uint8_t *> memory.buffer.buf
        cdef size_t trace
        for trace in range(min(<size_t> memory.buffer.shape[0], <size_t> self.head_count)):
            if self.heads[trace] != NO_INSTANCE:
                bytes_of[trace] = 0

    def keep_ended(self):
        """Let `compact` keep some instances that have ended; there must have been no row."""
        self.keeps_ended = True

    def compact(self, new_traces=None, is_needed=None):
        """Give the living instances new numbers, in the same order, and forget the others.

        new_traces: bytes of uint32 items: the new numbers of traces, indexed by the current ones,
            2^32-1 for traces whose instances are to be forgotten; None if traces stay as they are.
        is_needed: an array of bytes: which instances get new numbers also if they have ended; None
            for none.

        Returns bytes of uint32 items: the new numbers of instances, indexed by the current ones;
        2^32-1 for those that are forgotten.
        """
        cdef Memory memory, flag_memory
        cdef const uint32_t *traces = NULL
        cdef const uint8_t *flags = NULL
        cdef size_t trace_count = 0
        cdef size_t size = LEAST_PLACES
        cdef uint32_t number, trace
        cdef uint32_t kept = 0
        cdef uint32_t *order = NULL
        cdef size_t used, k
        cdef bint is_kept
        result = bytearray(self.count * sizeof(uint32_t))
        cdef uint32_t *new_numbers = <uint32_t *> <char *> result
        if new_traces is not None:
            memory = contiguous(new_traces, 1, 0)
            traces = <const uint32_t *> memory.buffer.buf
            trace_count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        if is_needed is not None:
            flag_memory = contiguous(is_needed, 1, self.count)
            flags = <const uint8_t *> flag_memory.buffer.buf
        used = self.in_order_of_use(&order)
        for number in range(self.count):
            trace = self.traces[number]
            if traces != NULL:
                trace = traces[trace] if trace < trace_count else FORGOTTEN
            is_kept = self.alive[number] or (flags != NULL and flags[number])
            if not is_kept or trace == FORGOTTEN:
                new_numbers[number] = FORGOTTEN
                continue
            new_numbers[number] = kept
            self.traces[kept] = trace
            self.alive[kept] = self.alive[number]
            if self.keeps_births:
                self.births[kept] = self.births[number]
            if self.silence:
                self.uses.times[kept] = self.uses.times[number]
            memmove(
                self.keys + <size_t> kept * self.width, self.keys + <size_t> number * self.width,
                self.width * sizeof(int64_t)
            )
            kept += 1
        self.count = kept
        try:
            if self.room > 4 * max(kept, <uint32_t> LEAST_PLACES):
                self.resize_numbers(2 * max(kept, <uint32_t> LEAST_PLACES))
            while 3 * <size_t> kept > size:
                size *= 2
            self.rebuild(size)
            restart_uses(&self.uses)
            for k in range(used):
                if new_numbers[order[k]] != FORGOTTEN:
                    link_use(&self.uses, new_numbers[order[k]], self.uses.last)
        finally:
            free(order)
        return bytes(result)

    cdef size_t in_order_of_use(self, uint32_t **found) except? 0:
        """List the living instances in the order of their last rows, if that matters.

        found: gets an array of numbers, which the caller frees. Returns how many these are.
        """
        cdef size_t count = 0
        cdef uint32_t number = self.uses.first
        if number != END_OF_LIST:
            resized(<void **> found, self.living, sizeof(uint32_t))
        while number != END_OF_LIST:
            found[0][count] = number
            count += 1
            number = self.uses.later[number]
        return count

    cdef int rebuild(self, size_t size) except -1:
        """Make the hash table and the links anew, for those of `count` instances that live."""
        cdef uint32_t count = self.count
        cdef uint32_t number
        self.count = 0
        self.resize_places(size)
        self.count = count
        self.living = 0
        if self.head_count:
            memset(self.heads, 0xFF, self.head_count * sizeof(uint32_t))
        for number in range(count):
            if self.alive[number]:
                self.enter(number)
        self.oldest = 0
        self.begin()
        return 0

    def mark_texts(self, flags):
        """Find the texts that keys have; see `Kernel.mark_texts`."""
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef TextMarks marks = marks_to_set(memory)
        self.visit_texts(&marks)

    def renumber_texts(self, new_numbers):
        """Give the texts of keys new numbers; `compact` comes before."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef TextMarks marks = marks_to_renumber(memory)
        self.visit_texts(&marks)
        self.rebuild(self.mask + 1)

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        cdef uint32_t number, k
        for k in range(self.width):
            if self.text_columns[k]:
                # those that have ended are in groups with others
                for number in range(self.count):
                    visit_text(&self.keys[<size_t> number * self.width + k], marks)
        return 0

    def snapshot(self):
        """Return the instances as bytes for `restore`; `compact` comes before."""
        cdef NumberWriter writer = NumberWriter()
        cdef uint32_t number
        cdef size_t k
        if self.living != self.count and not self.keeps_ended:
            raise MtlmonError("instances that have ended are not in snapshots")
        self.begin()
        writer.put(self.count)
        for number in range(self.count):
            writer.put(self.traces[number])
            if self.keeps_ended:
                writer.put(self.alive[number])
            if self.keeps_births:
                writer.put(zigzag(self.births[number]))
            if self.silence:
                writer.put(zigzag(self.uses.times[number]))
            for k in range(self.width):
                writer.put(zigzag(self.keys[<size_t> number * self.width + k]))
        number = self.uses.first
        while number != END_OF_LIST:
            writer.put(number)
            number = self.uses.later[number]
        return writer.taken()

    def restore(self, snapshot, from_integers=()):
        """Continue from a snapshot of instances with the same arguments; there must be none yet.

        from_integers: for each value of a key, whether the snapshot has integers, which are floats
        here; none of them are by default.

        Raises:
            SnapshotError: the bytes are not such a snapshot.
        """
        cdef NumberReader reader = NumberReader()
        cdef uint64_t count
        cdef uint32_t number
        cdef size_t k
        cdef size_t size = LEAST_PLACES
        cdef int64_t key
        if self.count:
            raise MtlmonError("instances can only be restored before the first one")
        reader.open(as_bytes(snapshot), 0)
        count = reader.get_count(1 + self.width)
        if count > MOST_TRACES // 2:
            raise damaged()
        if count:
            self.resize_numbers(<uint32_t> count)
        for number in range(<uint32_t> count):
            self.traces[number] = <uint32_t> reader.get(MOST_TRACES - 1)
            self.make_room(self.traces[number] + 1)
            self.alive[number] = 1
            if self.keeps_ended:
                self.alive[number] = <uint8_t> reader.get(1)
            if self.keeps_births:
                self.births[number] = unzigzag(reader.get(UINT64_MAX))
            if self.silence:
                self.uses.times[number] = unzigzag(reader.get(UINT64_MAX))
            for k in range(self.width):
                key = unzigzag(reader.get(UINT64_MAX))
                if from_integers and from_integers[k]:
                    key = cell_of_integer(key)
                self.keys[<size_t> number * self.width + k] = key
        if self.silence:
            self.restore_uses(reader, <uint32_t> count)
        reader.end()
        while 3 * count > size:
            size *= 2
        self.count = <uint32_t> count
        self.rebuild(size)

    cdef int restore_uses(self, NumberReader reader, uint32_t count) except -1:
        """Read the order of the last rows of instances, whose numbers are below `count`."""
        cdef uint32_t number, k
        cdef uint32_t living = 0
        for number in range(count):
            self.uses.earlier[number] = number
            living += self.alive[number]
        for k in range(living):
            number = <uint32_t> reader.get(count - 1)
            if self.uses.earlier[number] != number or not self.alive[number]:
                raise damaged()
            link_use(&self.uses, number, self.uses.last)
        return 0

    @property
    def held_bytes(self):
        """The number of bytes that the instances take."""
        return (
            self.room * (self.width * sizeof(int64_t) + 3 * sizeof(uint32_t) + 1)
            + (self.mask + 1) * sizeof(uint32_t) + self.head_count * sizeof(uint32_t)
            + self.turn_room * sizeof(Turn)
            + (self.room * sizeof(int64_t) if self.keeps_births else 0)
            + (use_bytes(&self.uses, self.room) if self.silence else 0)
            + self.leaving.room * sizeof(uint32_t)
        )


@final
cdef class Columns:
    """Columns of keys, which are held as long as this exists."""

    cdef KeyColumns keys
    cdef list held

    def __cinit__(self, cells, masks, uint32_t width, size_t count):
        cdef size_t k
        self.held = []
        if <size_t> len(cells) != width or <size_t> len(masks) != width:
            raise ValueError("a wrong number of columns")
        resized(<void **> &self.keys.cells, width, sizeof(void *))
        resized(<void **> &self.keys.masks, width, sizeof(void *))
        for k in range(width):
            self.keys.cells[k] = <const int64_t *> held_array(
                self.held, cells[k], sizeof(int64_t), count, False
            )
            self.keys.masks[k] = NULL
            if masks[k] is not None:
                self.keys.masks[k] = <const uint8_t *> held_array(
                    self.held, masks[k], 1, count, False
                )

    def __dealloc__(self):
        free(self.keys.cells)
        free(self.keys.masks)
