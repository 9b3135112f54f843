# cython: language_level=3
"""The order of the events that several policies have with the rows of a batch.

By default, each row is an event of every policy. If events have places, the events of a turn come
into one order, that of their places and at one place that of their time-stamps: each has a position
in this order, and the k-th events of several policies at one place and time-stamp have the same.
Ticks come before all else at their place: the row there moves the log's clock beyond them before it
lets rows go that have waited for it, whether or not the ticks were computed beforehand.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport reserve


@final
cdef class EventOrder:
    """The events of all policies in a call of `PolicyMonitors.feed`, and their order in each turn.

    Args:
        monitors: the KeyedMonitors, by policy.
        on_ticks: likewise, whether the events are ticks.
    """

    def __cinit__(self, list monitors not None, list on_ticks not None):
        self.monitors = monitors
        self.on_ticks = on_ticks
        self.policy_count = <uint32_t> len(monitors)
        self.sources = <Source *> calloc(self.policy_count, sizeof(Source))
        if self.sources == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        cdef uint32_t policy
        for policy in range(self.policy_count if self.sources != NULL else 0):
            free(self.sources[policy].positions)
        free(self.sources)
        free(self.times)
        free(self.rows_before)

    cdef int open(
        self, list events, object numbers, object places, object offsets, size_t row_count,
        list memories
    ) except -1:
        """Find the arrays of a call of `feed`; `memories` keeps them until it ends."""
        cdef EventColumns columns
        cdef Source *source
        cdef Memory memory
        cdef uint32_t policy
        cdef size_t k
        if not isinstance(numbers, (list, tuple)):
            numbers = [numbers] * self.policy_count
        if len(numbers) != len(events) or places is not None and len(places) != len(events):
            raise ValueError(f"expected an array for each of {self.policy_count} policies")
        self.has_places = places is not None
        self.row_times = NULL
        self.row_time_count = 0
        for policy in range(self.policy_count):
            columns = events[policy]
            source = &self.sources[policy]
            source.size = columns.count
            memory = stream_numbers(numbers[policy], columns.count)
            memories.append(memory)
            source.numbers = <const uint32_t *> memory.buffer.buf
            source.places = source.offsets = NULL
            if offsets is not None and offsets[policy] is not None:
                memory = stream_numbers(offsets[policy], columns.count)
                memories.append(memory)
                source.offsets = <const uint32_t *> memory.buffer.buf
            if places is None or places[policy] is None:
                if columns.count != row_count:
                    raise ValueError("different numbers of events")
                continue
            memory = stream_numbers(places[policy], columns.count)
            memories.append(memory)
            source.places = <const uint32_t *> memory.buffer.buf
            for k in range(source.size):
                if source.places[k] > row_count or k and source.places[k] < source.places[k - 1]:
                    raise ValueError("places of events decrease, or are behind the rows")
        return 0

    cdef int open_row_times(self, object row_times, size_t row_count, list memories) except -1:
        """Find the time-stamps of the rows of a call of `feed`, as `open` finds its arrays."""
        cdef Memory memory = Memory(row_times, sizeof(int64_t), row_count)
        memories.append(memory)
        if row_count > 1 and memory.buffer.strides[0] != sizeof(int64_t):
            raise ValueError("time-stamps have gaps between them")
        self.row_times = <const int64_t *> memory.buffer.buf
        self.row_time_count = row_count
        return 0

    cdef int find_events(
        self, uint32_t policy, EventColumns columns, size_t first, size_t end, size_t row_count,
        uint64_t tick_end
    ) except -1:
        """Find the events of a policy that come with the rows from `first` to before `end`.

        Of a policy that takes ticks, these are the events that are not done and below `tick_end`.
        """
        cdef KeyedMonitors one = self.monitors[policy]
        cdef Source *source = &self.sources[policy]
        if one.ticking is not None:
            source.first = columns.first_from(one.ticking.done, 0, columns.count)
            end = columns.first_from(tick_end, source.first, columns.count)
            source.tick_end = tick_end
        else:
            source.first = first_event(source, first)
            end = end_event(source, end, row_count)
        source.count = end - source.first
        return 0

    cdef int set_positions(self, list events, size_t first, size_t count) except -1:
        """Bring the events of the turn, which have been processed, into one order."""
        cdef EventColumns columns
        cdef KeyedMonitors one
        cdef Source *source
        cdef Cursor *cursors = <Cursor *> calloc(self.policy_count, sizeof(Cursor))
        cdef uint32_t policy
        if cursors == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            for policy in range(self.policy_count):
                source = &self.sources[policy]
                columns = events[policy]
                cursors[policy].time_stamps = columns.time_stamps
                cursors[policy].stride = columns.time_stride
                cursors[policy].count = source.count
                cursors[policy].is_tick = self.on_ticks[policy]
                one = self.monitors[policy]
                if one.ticking is not None:
                    cursors[policy].tick_times = one.ticking.tick_times
                    cursors[policy].tick_count = one.ticking.tick_count
                    cursors[policy].ticks = one.rows.policies
                    cursors[policy].streams = one.rows.streams
                    cursors[policy].verdict_count = one.rows.count
                    cursors[policy].failed_number = one.ticking.failed_number
                    cursors[policy].count = one.rows.count + one.ticking.has_failed
                    cursors[policy].is_ticking = True
                self.load_cursor(&cursors[policy], source)
                reserve(
                    <void **> &source.positions, &source.position_room, cursors[policy].count,
                    sizeof(uint32_t)
                )
            with nogil:
                self.merge_positions(cursors, first, count)
        finally:
            free(cursors)
        return 0

    cdef int merge_positions(
        self, Cursor *cursors, size_t first, size_t count
    ) except -1 nogil:
        """Take the next events in turn; all policies' next events of one order come together."""
        cdef Cursor *least
        cdef Cursor *cursor
        cdef Cursor found
        cdef uint32_t policy
        self.position_count = 0
        while True:
            least = NULL
            for policy in range(self.policy_count):
                cursor = &cursors[policy]
                if cursor.next < cursor.count and (
                    least == NULL or is_cursor_before(cursor, least)
                ):
                    least = cursor
            if least == NULL:
                return 0
            found = least[0]
            reserve(
                <void **> &self.times, &self.time_room, self.position_count + 1, sizeof(uint64_t)
            )
            reserve(
                <void **> &self.rows_before, &self.row_room, self.position_count + 1,
                sizeof(uint32_t)
            )
            self.times[self.position_count] = found.time_stamp
            if not found.is_tick and found.place < self.row_time_count:
                # it may have waited for this row
                self.times[self.position_count] = <uint64_t> self.row_times[found.place]
            self.rows_before[self.position_count] = <uint32_t> min(found.place - first, count)
            for policy in range(self.policy_count):
                cursor = &cursors[policy]
                # of ticks, each verdict is here
                while cursor.next < cursor.count and not is_cursor_before(&found, cursor):
                    self.sources[policy].positions[cursor.next] = <uint32_t> self.position_count
                    cursor.next += 1
                    self.load_cursor(cursor, &self.sources[policy])
                    if not cursor.is_ticking:
                        break
            self.position_count += 1

    cdef void load_cursor(self, Cursor *cursor, const Source *source) noexcept nogil:
        """Set what the order of the next event depends on, if there is one."""
        cdef size_t event = source.first + cursor.next
        cdef size_t tick
        if cursor.next >= cursor.count:
            return
        if cursor.is_ticking:
            tick = cursor.tick_count - 1
            cursor.number = cursor.failed_number
            if cursor.next < cursor.verdict_count:
                tick = cursor.ticks[cursor.next]
                cursor.number = cursor.streams[cursor.next]
            cursor.time_stamp = cursor.tick_times[tick]
            cursor.place = self.row_behind(cursor.time_stamp)
            return
        cursor.place = event if source.places == NULL else source.places[event]
        memcpy(
            &cursor.time_stamp, cursor.time_stamps + <Py_ssize_t> event * cursor.stride,
            sizeof(uint64_t)
        )
        cursor.number = 0

    cdef size_t row_behind(self, uint64_t time_stamp) noexcept nogil:
        """The index of the first row with a larger time-stamp; the number of rows for none."""
        cdef size_t low = 0
        cdef size_t high = self.row_time_count
        cdef size_t middle
        while low < high:
            middle = (low + high) // 2
            if <uint64_t> self.row_times[middle] <= time_stamp:
                low = middle + 1
            else:
                high = middle
        return low

    cdef size_t rows_read(self, size_t first, size_t place) noexcept nogil:
        """How many rows of a turn have come with a position: none comes with a tick."""
        cdef size_t row
        if not self.has_places:
            return place + 1
        row = first + self.rows_before[place]
        if row < self.row_time_count and <uint64_t> self.row_times[row] == self.times[place]:
            row += 1
        return row - first

    cdef bint is_row_done(self, size_t first, size_t place) noexcept nogil:
        """Whether no other position comes with the row of a position, or it comes with none."""
        cdef size_t following = place + 1
        if not self.has_places or following >= self.position_count:
            return True
        return (
            self.rows_before[following] != self.rows_before[place]
            or self.rows_read(first, place) == self.rows_before[place]
        )

    cdef size_t events_before(
        self, uint32_t policy, size_t position, size_t count
    ) noexcept nogil:
        """How many of a policy's first `count` events of the turn are before a position."""
        cdef const Source *source = &self.sources[policy]
        cdef size_t low = 0
        cdef size_t high = count
        cdef size_t middle
        if not self.has_places:
            return min(count, position)
        while low < high:
            middle = (low + high) // 2
            if source.positions[middle] < position:
                low = middle + 1
            else:
                high = middle
        return low

    cdef size_t held_bytes(self) noexcept:
        cdef uint32_t policy
        cdef size_t size = self.time_room * sizeof(uint64_t) + self.row_room * sizeof(uint32_t)
        for policy in range(self.policy_count):
            size += self.sources[policy].position_room * sizeof(uint32_t)
        return size


cdef size_t first_event(const Source *source, size_t row) noexcept nogil:
    """The index of the first event of a policy that comes with a row or a later one."""
    cdef size_t low = 0
    cdef size_t high = source.size
    cdef size_t middle
    if source.places == NULL:
        return min(row, source.size)
    while low < high:
        middle = (low + high) // 2
        if source.places[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


cdef size_t end_event(const Source *source, size_t row, size_t row_count) noexcept nogil:
    """The end of the events that come before a row; all events if there is no such row."""
    return source.size if row == row_count else first_event(source, row)


cdef inline bint is_cursor_before(const Cursor *one, const Cursor *other) noexcept nogil:
    if one.place != other.place:
        return one.place < other.place
    if one.is_tick != other.is_tick:
        return one.is_tick
    if one.time_stamp != other.time_stamp:
        return one.time_stamp < other.time_stamp
    return one.number < other.number
