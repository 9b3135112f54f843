# cython: language_level=3
"""The starts and ends of records in order of time."""

from cpython.buffer cimport PyBuffer_FillInfo
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MIN, SIZE_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc

from mtlmon.arrays.native cimport Memory
from mtlmon.engine.native cimport zeros


cdef enum:
    # The end of a record without end.
    NO_END = 0x7FFFFFFFFFFFFFFF
    # No index of a row, output record or group.
    NONE = 0xFFFFFFFF


cdef extern from *:
    """
    #include <stdlib.h>
    #include <sys/mman.h>

    /* Memory that nothing has been written to.
       PERF: in pages of 4 kB, the counts of 2 M rows in 100 groups took 179 instead of 119 ms. */
    static void *new_block(size_t size)
    {
    #ifdef MADV_HUGEPAGE
        const size_t page = 1 << 21;
        void *block;
        if (size >= 2 * page) {
            if (posix_memalign(&block, page, size)) {
                return NULL;
            }
            madvise(block, size, MADV_HUGEPAGE);
            return block;
        }
    #endif
        return malloc(size);
    }
    """
    void *new_block(size_t size) noexcept nogil


cdef void *room(size_t count, size_t item_size) except NULL:
    """Memory for so many items, which takes up only as much as is written to."""
    cdef void *found = NULL
    if count <= SIZE_MAX // item_size:
        found = new_block(max(count, 1) * item_size)
    if found == NULL:
        raise MemoryError("mtlmon: out of memory")
    return found


cdef Memory contiguous(object array, Py_ssize_t item_size, size_t count):
    """An array of so many items, one behind the other."""
    cdef Memory memory = Memory(array, item_size, count)
    if count > 1 and memory.buffer.strides[0] != item_size:
        raise ValueError("not a contiguous array")
    return memory


cdef const int64_t *integers(Memory memory) noexcept nogil:
    return <const int64_t *> memory.buffer.buf


# PERF: results as bytes took 0.20 instead of 0.15 s for the counts of 2 M rows in 100 groups, which
# are 4 M records: the first write to a page of memory is expensive.
@final
cdef class Block:
    """Memory that a sweep has filled, as a buffer of bytes, which cannot be written to."""

    cdef void *items
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.items)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.items, self.size, True, flags)


cdef object block_of(void **items, size_t count, size_t item_size):
    """Take over some items, as a view of bytes, and give back the room behind them."""
    cdef Block block = Block()
    cdef void *fitting = realloc(items[0], max(count, 1) * item_size)
    # a buffer without items has a place, too
    block.items = items[0] if fitting == NULL else fitting
    if block.items == NULL:
        raise MemoryError("mtlmon: out of memory")
    block.size = <Py_ssize_t> (count * item_size)
    items[0] = NULL
    return memoryview(block)


@final
cdef class Timeline:
    """Records in order of their starts, and in order of their ends.

    starts: a contiguous array of type int64.
    ends: another, each greater than the start; 2^63 - 1 for no end.
    by_start: the rows in order of start, of type int64; None if that is their order.
    by_end: the rows in order of end; None if that is their order.
    has_ends: whether the order of the ends is asked for; without, it may be any.

    Raises ValueError for arrays of other types or lengths, too many records, or rows that do not
    exist.
    """

    cdef readonly size_t count
    cdef Memory start_memory, end_memory, by_start_memory, by_end_memory
    cdef const int64_t *starts
    cdef const int64_t *ends
    cdef const int64_t *by_start    # NULL for the order of rows
    cdef const int64_t *by_end

    def __cinit__(self, starts, ends, by_start, by_end, size_t count, bint has_ends=True):
        if count >= NONE:
            raise ValueError("more than 2^32 - 2 records")
        self.count = count
        self.start_memory = contiguous(starts, sizeof(int64_t), count)
        self.end_memory = contiguous(ends, sizeof(int64_t), count)
        self.starts = integers(self.start_memory)
        self.ends = integers(self.end_memory)
        if by_start is not None:
            self.by_start_memory = contiguous(by_start, sizeof(int64_t), count)
            self.by_start = integers(self.by_start_memory)
        if by_end is not None:
            self.by_end_memory = contiguous(by_end, sizeof(int64_t), count)
            self.by_end = integers(self.by_end_memory)
        self.check(self.by_start, self.starts)
        if has_ends:
            self.check(self.by_end, self.ends)

    cdef int check(self, const int64_t *order, const int64_t *times) except -1:
        cdef size_t k
        cdef int64_t row
        cdef int64_t last = 0
        cdef bint is_right = True
        with nogil:
            for k in range(self.count):
                row = <int64_t> k if order == NULL else order[k]
                if row < 0 or <size_t> row >= self.count or (k and times[row] < last):
                    is_right = False
                    break
                last = times[row]
        if not is_right:
            raise ValueError("rows are not in the order of time")
        return 0

    cdef inline Endpoints endpoints(self) noexcept nogil:
        """All starts and ends, from the first one on."""
        cdef Endpoints found
        found.starts = self.starts
        found.ends = self.ends
        found.by_start = self.by_start
        found.by_end = self.by_end
        found.count = self.count
        found.started = found.ended = 0
        find_next_start(&found)
        find_next_end(&found)
        return found


# PERF: with the places in the object and not in a struct of the loop, which is kept in registers,
# the counts of 2 M rows in 100 groups took 119 instead of 103 ms.
cdef struct Endpoints:
    const int64_t *starts
    const int64_t *ends
    const int64_t *by_start
    const int64_t *by_end
    size_t count, started, ended        # records; how many have started and ended
    size_t starting, ending             # the rows of the next ones
    int64_t next_start, next_end        # their times; NO_END if there is none


cdef inline void find_next_start(Endpoints *endpoints) noexcept nogil:
    endpoints.next_start = NO_END
    if endpoints.started < endpoints.count:
        endpoints.starting = endpoints.started
        if endpoints.by_start != NULL:
            endpoints.starting = <size_t> endpoints.by_start[endpoints.started]
        endpoints.next_start = endpoints.starts[endpoints.starting]


cdef inline void find_next_end(Endpoints *endpoints) noexcept nogil:
    endpoints.next_end = NO_END
    if endpoints.ended < endpoints.count:
        endpoints.ending = endpoints.ended
        if endpoints.by_end != NULL:
            endpoints.ending = <size_t> endpoints.by_end[endpoints.ended]
        endpoints.next_end = endpoints.ends[endpoints.ending]


cdef inline bint next_time(const Endpoints *endpoints, int64_t *time) noexcept nogil:
    """Find the next time at which a record starts or ends; returns False if there is none."""
    time[0] = min(endpoints.next_start, endpoints.next_end)
    return time[0] != NO_END


cdef inline bint starts_at(Endpoints *endpoints, int64_t time, size_t *row) noexcept nogil:
    """Take the next record that starts at a time, if there is one."""
    if endpoints.next_start != time:
        return False
    row[0] = endpoints.starting
    endpoints.started += 1
    find_next_start(endpoints)
    return True


cdef inline bint ends_at(Endpoints *endpoints, int64_t time, size_t *row) noexcept nogil:
    """Take the next record that ends at a time, if there is one."""
    if endpoints.next_end != time:
        return False
    row[0] = endpoints.ending
    endpoints.ended += 1
    find_next_end(endpoints)
    return True


@final
cdef class Numbering:
    """A number below 2^32 - 1 for each record: of its value, group or key.

    numbers: a contiguous array of type uint32.

    Raises ValueError for an array of another type or length.
    """

    cdef Memory memory
    cdef const uint32_t *numbers
    cdef readonly size_t count
    cdef readonly uint32_t limit        # all numbers are below this

    def __cinit__(self, numbers, size_t count):
        cdef size_t k
        self.memory = contiguous(numbers, sizeof(uint32_t), count)
        self.numbers = <const uint32_t *> self.memory.buffer.buf
        self.count = count
        cdef uint32_t largest = 0
        with nogil:
            for k in range(count):
                largest = max(largest, self.numbers[k])
        if largest == NONE:
            raise ValueError("a number is too great")
        self.limit = largest + 1


def has_overlaps(Timeline timeline not None, Numbering numbers not None):
    """Return whether two records with the same number are valid at the same time.

    timeline: the records; only the order of starts is used.

    Raises ValueError for arrays of different lengths.
    """
    cdef int64_t *ends
    cdef size_t row = 0
    cdef size_t k
    cdef bint found = False
    if numbers.count != timeline.count:
        raise ValueError("the arrays are of different lengths")
    ends = <int64_t *> room(numbers.limit, sizeof(int64_t))
    with nogil:
        for k in range(numbers.limit):
            ends[k] = INT64_MIN
        for k in range(timeline.count):
            row = k if timeline.by_start == NULL else <size_t> timeline.by_start[k]
            if ends[numbers.numbers[row]] > timeline.starts[row]:
                found = True
                break
            ends[numbers.numbers[row]] = timeline.ends[row]
    free(ends)
    return found


cdef struct Touched:
    # What has changed at the present time, each once.
    uint32_t *items
    uint8_t *is_touched
    uint32_t count


cdef int prepare_touched(Touched *touched, uint32_t limit) except -1:
    """Make room for all numbers below a limit."""
    touched.is_touched = <uint8_t *> zeros(limit, 1)
    touched.items = <uint32_t *> room(<size_t> limit + 1, sizeof(uint32_t))
    return 0


cdef inline void free_touched(Touched *touched) noexcept nogil:
    free(touched.items)
    free(touched.is_touched)


cdef inline void touch(Touched *touched, uint32_t item) noexcept nogil:
    # an item that is there already is written behind the last one, and stays behind it
    touched.items[touched.count] = item
    touched.count += not touched.is_touched[item]
    touched.is_touched[item] = 1
