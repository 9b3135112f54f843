# cython: language_level=3
"""Batches of rows, as all kernels of a program see them."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, int64_t, uint32_t

from mtlmon.arrays.native cimport Memory

from mtlmon.errors import LimitError


@final
cdef class Batch:
    """The time-stamps of some rows, and the numbers of the traces that the rows belong to.

    time_stamps: a contiguous array of integers of type int64, which do not decrease.
    numbers: a contiguous array of integers of type uint32; None if there is only one trace.
    clock: the last time-stamp before the batch.
    is_by_trace: the time-stamps do not decrease in each trace, whatever they do between traces; see
        `Kernel.by_trace`.

    Raises ValueError for time-stamps below the clock or one before them.
    """

    cdef readonly size_t count
    cdef readonly uint32_t traces       # all numbers are below this
    cdef readonly object times          # the array of time-stamps
    cdef readonly object numbers_of_traces      # the array of numbers, or None
    cdef Memory time_memory, number_memory
    cdef const int64_t *time_stamps
    cdef const uint32_t *numbers        # NULL if there is only one trace

    # for states by trace: before which rows to save states
    cdef readonly bint is_by_trace
    cdef Memory mark_memory, place_memory
    cdef Marks marks

    def __cinit__(
        self, time_stamps, numbers, size_t count, int64_t clock=0, bint is_by_trace=False
    ):
        cdef uint32_t largest = 0
        cdef size_t k
        cdef int64_t latest = 0 if is_by_trace else clock
        cdef bint is_ordered = clock >= 0
        if is_by_trace and numbers is None:
            raise ValueError("rows by trace have the numbers of their traces")
        self.count = count
        self.is_by_trace = is_by_trace
        self.times = time_stamps
        self.numbers_of_traces = numbers
        self.time_memory = contiguous(time_stamps, sizeof(int64_t), count)
        self.time_stamps = <const int64_t *> self.time_memory.buffer.buf
        self.numbers = NULL
        if numbers is not None:
            self.number_memory = contiguous(numbers, sizeof(uint32_t), count)
            self.numbers = <const uint32_t *> self.number_memory.buffer.buf
        with nogil:
            for k in range(count):
                is_ordered &= self.time_stamps[k] >= latest
                latest = 0 if is_by_trace else self.time_stamps[k]
            if self.numbers != NULL:
                for k in range(count):
                    largest = max(largest, self.numbers[k])
        if not is_ordered:
            raise ValueError("time-stamps are negative or decrease")
        if largest == UINT32_MAX:
            raise LimitError("more than 2^32 - 1 different keys")
        self.traces = largest + 1

    def mark(self, moments, places, size_t width):
        """Let kernels with states by trace save the states before some rows.

        moments: for each row as of when to save the state of its trace, or NO_MARK; a contiguous
            array of 64-bit items.
        places: gets the places of the states, `width` for each row that has a moment; likewise.
        width: how many kernels there are.
        """
        cdef Memory mark_memory = contiguous(moments, sizeof(int64_t), self.count)
        cdef const int64_t *given = <const int64_t *> mark_memory.buffer.buf
        cdef size_t marked = 0
        cdef size_t k
        for k in range(self.count):
            marked += given[k] != NO_MARK
        self.place_memory = contiguous(places, sizeof(uint64_t), marked * width, True)
        self.mark_memory = mark_memory
        self.marks.moments = given
        self.marks.places = <uint64_t *> self.place_memory.buffer.buf
        self.marks.width = width

    cdef inline uint32_t trace(self, size_t row) noexcept nogil:
        return 0 if self.numbers == NULL else self.numbers[row]


cdef Memory contiguous(object array, Py_ssize_t item_size, size_t count, bint is_writable=False):
    """Hold an array of at least `count` items without gaps between them."""
    cdef Memory memory = Memory(array, item_size, count, is_writable)
    if count > 1 and memory.buffer.strides[0] != item_size:
        raise ValueError("items have gaps between them")
    return memory
