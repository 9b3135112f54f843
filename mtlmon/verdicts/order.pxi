# cython: language_level=3
"""Sort Boolean verdicts into the order of their streams.

A stream of verdicts does not tell which earlier time-points still have no verdict, as the first
time-point of a class gets none until it is decided. So a verdict is held until no earlier
time-point can be open any more. There are two ways to know this: the earliest pending time-point of
the monitor (`set_bound`), or a reach: a verdict at time-stamp T implies that every time-point
before T - reach has its verdict. Without either, all verdicts are held to the end. Of the
time-points at T - reach itself, those that continue the released offsets are released, as offsets
count from 0 without gaps.

The held verdicts of a stream form a skew heap of runs of consecutive time-points (D. Sleator, R.
Tarjan, "Self-adjusting heaps", SIAM Journal on Computing 15, 1986): it needs no balancing, and is
merged from the top down without recursion.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT64_MAX, uint64_t
from libc.stdlib cimport free, realloc

from mtlmon.engine.native cimport VerdictRecord, VerdictRun, set_boolean


@cython.final
cdef class Sequencer:
    """Holds Boolean verdicts until no time-point before them is open.

    reach: how far apart in time a time-point and the verdicts written before its own may be, None
        if that is not known.

    Attributes:
        held_count: the number of held verdicts.
    """

    def __cinit__(self, reach=None):
        self.free_held = NONE
        if reach is not None:
            self.has_reach = True
            self.reach = reach

    def __dealloc__(self):
        free(self.held)
        free(self.streams)

    cdef bint add(self, size_t stream, const VerdictRun *run) noexcept nogil:
        """Hold the verdicts of a run of time-points; False if there is no memory."""
        cdef StreamOrder *order
        cdef Held *item
        cdef size_t number
        if not self.reserve_stream(stream):
            return False
        order = self.streams + stream
        self.held_count += run.length
        if order.latest != NONE:
            item = self.held + order.latest
            if (
                item.time_stamp == run.time_stamp
                and item.offset + item.length == run.offset
                and item.kind == run.kind
            ):
                item.length += run.length
                return True
        number = self.free_held
        if number != NONE:
            self.free_held = self.held[number].right
        else:
            if self.held_size == self.held_room and not enlarge(
                <void **> &self.held, &self.held_room, sizeof(Held)
            ):
                return False
            number = self.held_size
            self.held_size += 1
        item = self.held + number
        item.time_stamp = run.time_stamp
        item.offset = run.offset
        item.length = run.length
        item.kind = run.kind
        item.left = item.right = NONE
        order.first = self.merge(order.first, number)
        order.latest = number
        return True

    cdef bint is_late(self, size_t stream, uint64_t time_stamp, uint64_t offset) noexcept nogil:
        """Whether a later time-point of the stream has been released."""
        cdef const StreamOrder *order
        if stream >= self.stream_count:
            return False
        order = self.streams + stream
        return time_stamp < order.next_time_stamp or (
            time_stamp == order.next_time_stamp and offset < order.next_offset
        )

    cdef bint reserve_stream(self, size_t stream) noexcept nogil:
        """Make sure that the stream with this number exists; False if there is no memory."""
        while stream >= self.stream_count:
            if self.stream_count == self.stream_room and not enlarge(
                <void **> &self.streams, &self.stream_room, sizeof(StreamOrder)
            ):
                return False
            self.streams[self.stream_count].first = NONE
            self.streams[self.stream_count].latest = NONE
            self.streams[self.stream_count].time_stamp = 0
            self.streams[self.stream_count].next_time_stamp = 0
            self.streams[self.stream_count].next_offset = 0
            self.stream_count += 1
        return True

    cdef void note(self, size_t stream, uint64_t time_stamp) noexcept nogil:
        """Note that a verdict of any kind has come for a time-point of this time-stamp."""
        if time_stamp > self.streams[stream].time_stamp:
            self.streams[stream].time_stamp = time_stamp

    cdef void set_bound(self, uint64_t time_stamp, uint64_t offset) noexcept nogil:
        """Declare that no time-point before this one is open."""
        self.has_bound = True
        self.bound_time_stamp = time_stamp
        self.bound_offset = offset

    cdef void release_all(self) noexcept nogil:
        """Declare that nothing more will come."""
        self.set_bound(UINT64_MAX, UINT64_MAX)

    cdef size_t next(
        self, size_t stream, VerdictRecord *verdicts, size_t capacity
    ) noexcept nogil:
        """Release up to `capacity` verdicts of a stream, in order; 0 if all must wait."""
        cdef StreamOrder *order
        cdef Held *item
        cdef size_t count = 0
        cdef size_t number
        cdef uint64_t length, k
        if stream >= self.stream_count:
            return 0
        order = self.streams + stream
        while count < capacity and order.first != NONE:
            number = order.first
            length = min(self.releasable(order), <uint64_t> (capacity - count))
            if length == 0:
                break
            item = self.held + number
            for k in range(length):
                set_boolean(&verdicts[count], item.time_stamp, item.offset + k, item.kind)
                count += 1
            item.offset += length
            item.length -= length
            order.next_time_stamp = item.time_stamp
            order.next_offset = item.offset
            self.held_count -= length
            if item.length == 0:
                if order.latest == number:
                    order.latest = NONE
                order.first = self.merge(item.left, item.right)
                self.held[number].right = self.free_held
                self.free_held = number
        return count

    cdef uint64_t releasable(self, const StreamOrder *order) noexcept nogil:
        """How many time-points of the first held run no longer need to wait."""
        cdef const Held *item = self.held + order.first
        cdef uint64_t horizon
        if self.has_bound:
            if item.time_stamp != self.bound_time_stamp:
                return item.length if item.time_stamp < self.bound_time_stamp else 0
            if item.offset >= self.bound_offset:
                return 0
            return min(item.length, self.bound_offset - item.offset)
        if not self.has_reach or order.time_stamp < self.reach:
            return 0
        horizon = order.time_stamp - self.reach
        if item.time_stamp != horizon:
            return item.length if item.time_stamp < horizon else 0
        if item.offset == 0 or (
            order.next_time_stamp == horizon and order.next_offset == item.offset
        ):
            return item.length
        return 0

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the waiting verdicts take."""
        return self.held_room * sizeof(Held) + self.stream_room * sizeof(StreamOrder)

    cdef size_t merge(self, size_t one, size_t other) noexcept nogil:
        """Merge two heaps into one.

        The nodes of the right spines are merged in order of time. Each node gets the rest of the
        spine as its left child, and its former left child as its right child.
        """
        cdef size_t root = NONE
        cdef size_t *place = &root
        cdef Held *item
        while one != NONE and other != NONE:
            if is_before(self.held + other, self.held + one):
                one, other = other, one
            place[0] = one
            item = self.held + one
            one = item.right
            item.right = item.left
            place = &item.left
        place[0] = other if one == NONE else one
        return root


cdef inline bint is_before(const Held *one, const Held *other) noexcept nogil:
    if one.time_stamp != other.time_stamp:
        return one.time_stamp < other.time_stamp
    return one.offset < other.offset


cdef bint enlarge(void **items, size_t *room, size_t item_size) noexcept nogil:
    """Double the room of an array; False if there is no memory, and then the array is unchanged."""
    cdef size_t wanted = max(<size_t> 64, 2 * room[0])
    cdef void *larger
    if wanted > SIZE_MAX // item_size // 2:
        return False
    larger = realloc(items[0], wanted * item_size)
    if larger == NULL:
        return False
    items[0] = larger
    room[0] = wanted
    return True
