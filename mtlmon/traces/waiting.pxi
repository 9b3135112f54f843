# cython: language_level=3
"""A heap of the streams that wait for time to pass, with the longest wait first.

Time alone decides a time-point after a bounded delay. The heap finds the streams whose delay is
over without looking at the others: it holds the streams that have something pending, ordered by a
lower bound of the time-stamp of their earliest pending time-point. When a stream is at the top and
has progressed meanwhile, it is put back with its current time-stamp.
"""

from cython cimport final
from libc.stdlib cimport free, qsort
from libc.string cimport memset

from mtlmon.engine.native cimport reserve


@final
cdef class WaitingStreams:
    """The streams that have something pending.

    Args:
        streams: the streams to choose from.
        delay: how long a time-point can be pending at most while time passes.

    Attributes:
        delay: as given.
    """

    def __cinit__(self, Streams streams not None, uint64_t delay):
        self.streams = streams
        self.delay = delay

    def __dealloc__(self):
        free(self.heap)
        free(self.is_in)
        free(self.due)

    cdef int note(self, const uint32_t *numbers, size_t count) except -1 nogil:
        """Note that events of these streams have come."""
        cdef uint64_t earliest = 0
        cdef size_t k
        self.know_all()
        for k in range(count):
            if not self.is_in[numbers[k]] and self.streams.earliest_pending(numbers[k], &earliest):
                self.push(numbers[k], earliest)
        return 0

    cdef int find_due(self, uint64_t time_stamp) except -1 nogil:
        """Take out the streams whose earliest pending time-point has waited longer than the delay.

        They are then in `due`. Once they have been settled, put them back with `note`.
        """
        cdef uint64_t earliest = 0
        cdef uint32_t number
        self.due_count = 0
        while self.count and self.is_over(self.heap[0].time_stamp, time_stamp):
            number = self.heap[0].number
            self.pop()
            if not self.streams.earliest_pending(number, &earliest):
                continue
            if not self.is_over(earliest, time_stamp):
                self.push(number, earliest)
                continue
            reserve(
                <void **> &self.due, &self.due_capacity, <size_t> self.due_count + 1,
                sizeof(uint32_t)
            )
            self.due[self.due_count] = number
            self.due_count += 1
        if self.due_count > 1:
            qsort(self.due, self.due_count, sizeof(uint32_t), compare_numbers)
        return 0

    cdef int find_next(self, uint64_t *time_stamp) except -1 nogil:
        """Lower a time to the first one at which a stream is due, if that is earlier."""
        cdef uint64_t earliest = 0
        cdef uint32_t number
        while self.count and self.is_over(self.heap[0].time_stamp, time_stamp[0]):
            number = self.heap[0].number
            if not self.streams.earliest_pending(number, &earliest):
                self.pop()
            elif earliest > self.heap[0].time_stamp:
                self.pop()
                self.push(number, earliest)
            else:
                # No overflow: the sum is below the time.
                time_stamp[0] = earliest + self.delay + 1
                return 0
        return 0

    cdef int renumber(self) except -1 nogil:
        """Start again with the new numbers of the streams."""
        cdef uint64_t earliest = 0
        cdef uint32_t number
        self.count = self.known = 0
        self.know_all()
        for number in range(self.streams.count):
            if self.streams.earliest_pending(number, &earliest):
                self.push(number, earliest)
        return 0

    cdef bint is_over(self, uint64_t earliest, uint64_t time_stamp) noexcept nogil:
        return time_stamp > earliest and time_stamp - earliest > self.delay

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the heap and the lists take."""
        return (
            self.capacity * sizeof(Waiting) + self.is_in_capacity
            + self.due_capacity * sizeof(uint32_t)
        )

    cdef int know_all(self) except -1 nogil:
        """Make room for all streams that exist."""
        cdef uint32_t count = self.streams.count
        if count <= self.known:
            return 0
        reserve(<void **> &self.is_in, &self.is_in_capacity, count, 1)
        memset(self.is_in + self.known, 0, count - self.known)
        self.known = count
        return 0

    cdef int push(self, uint32_t number, uint64_t time_stamp) except -1 nogil:
        cdef uint32_t place = self.count
        cdef uint32_t parent
        reserve(
            <void **> &self.heap, &self.capacity, <size_t> self.count + 1, sizeof(Waiting)
        )
        self.count += 1
        while place:
            parent = (place - 1) // 2
            if self.heap[parent].time_stamp <= time_stamp:
                break
            self.heap[place] = self.heap[parent]
            place = parent
        self.heap[place].time_stamp = time_stamp
        self.heap[place].number = number
        self.is_in[number] = True
        return 0

    cdef void pop(self) noexcept nogil:
        """Remove the first stream from the heap."""
        cdef Waiting last = self.heap[self.count - 1]
        cdef size_t place = 0
        cdef size_t child
        self.is_in[self.heap[0].number] = False
        self.count -= 1
        while True:
            child = 2 * place + 1
            if child >= self.count:
                break
            if (
                child + 1 < self.count
                and self.heap[child + 1].time_stamp < self.heap[child].time_stamp
            ):
                child += 1
            if last.time_stamp <= self.heap[child].time_stamp:
                break
            self.heap[place] = self.heap[child]
            place = child
        self.heap[place] = last


cdef int compare_numbers(const void *left, const void *right) noexcept nogil:
    cdef uint32_t one = (<const uint32_t *> left)[0]
    cdef uint32_t other = (<const uint32_t *> right)[0]
    return -1 if one < other else <int> (one > other)
