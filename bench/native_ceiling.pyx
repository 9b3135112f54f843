# cython: language_level=3
"""The least that has to be done, which benchmarks hold a monitor against.

A scanner and a writer with no engine between them, and panes of windows with nothing around them.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from posix.unistd cimport read as read_from

from mtlmon.engine.native cimport VERDICT_TRUE, VerdictRecord
from mtlmon.text.native cimport (
    FILTER_ALL,
    SCAN_ERROR,
    SCAN_FULL,
    ScanStatus,
    Scanner,
    Writer,
)

from os import strerror

cdef enum:
    # as many as the monitor of a text log scans at a time
    BATCH_EVENTS = 512
    INPUT_BYTES = 1 << 18

cdef uint64_t LARGEST_TIME_STAMP = <uint64_t> 0x7FFFFFFFFFFFFFFF


@cython.final
cdef class Ceiling:
    """Scans a log and writes one verdict for each event.

    atoms: the atoms to look for.
    """

    cdef Scanner scanner
    cdef Writer writer
    cdef VerdictRecord verdicts[BATCH_EVENTS]
    cdef uint64_t time_stamps[BATCH_EVENTS]
    cdef uint64_t *letters
    # the last time-point
    cdef uint64_t time_stamp, offset

    def __cinit__(self, atoms=("p", "q")):
        cdef size_t k
        self.scanner = Scanner(atoms)
        self.writer = Writer()
        # no event has this time-stamp, so the first one begins to count
        self.time_stamp = LARGEST_TIME_STAMP + 1
        for k in range(BATCH_EVENTS):
            self.verdicts[k].reference_time_stamp = self.verdicts[k].reference_offset = 0
            self.verdicts[k].kind = VERDICT_TRUE
        self.letters = <uint64_t *> calloc(
            BATCH_EVENTS * self.scanner.letter_words, sizeof(uint64_t)
        )
        if self.letters == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.letters)

    def copy(self, int input_file, int output_file):
        """Read a log from a file descriptor to its end, write verdict lines to another.

        Raises:
            LogError, OSError.
        """
        cdef uint8_t *block = <uint8_t *> malloc(INPUT_BYTES)
        cdef Py_ssize_t size = 1
        cdef int error = 0
        try:
            if block == NULL:
                raise MemoryError
            while size > 0:
                with nogil:
                    size = read_from(input_file, block, INPUT_BYTES)
                    error = errno
                if size < 0:
                    raise OSError(error, strerror(error))
                if size > 0:
                    self.scanner.load(block, <size_t> size)
                else:
                    self.scanner.load_end()
                self.work(True)
                self.writer.flush(output_file)
        finally:
            free(block)

    def scan(self, log):
        """Scan a log that consists of whole lines; return how many events it has.

        Raises:
            LogError.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(log, &view, PyBUF_SIMPLE)
        try:
            self.scanner.load(<const uint8_t *> view.buf, <size_t> view.len)
            return self.work(False)
        finally:
            PyBuffer_Release(&view)

    cdef object work(self, bint writes):
        """Scan the loaded block; return how many events it has."""
        cdef size_t count = 0
        cdef size_t total = 0
        cdef ScanStatus status = SCAN_FULL
        cdef bint has_memory = True
        with nogil:
            while has_memory and status == SCAN_FULL:
                status = self.scanner.scan(self.time_stamps, self.letters, BATCH_EVENTS, &count)
                total += count
                if writes:
                    has_memory = self.write(count)
        if not has_memory:
            raise MemoryError
        if status == SCAN_ERROR:
            self.scanner.note_failure()
            raise self.scanner.failure
        return total

    cdef bint write(self, size_t count) noexcept nogil:
        """Write a verdict for each event scanned."""
        cdef uint64_t time_stamp = self.time_stamp
        cdef uint64_t offset = self.offset
        cdef size_t k
        for k in range(count):
            offset = offset + 1 if self.time_stamps[k] == time_stamp else 0
            time_stamp = self.time_stamps[k]
            self.verdicts[k].time_stamp = time_stamp
            self.verdicts[k].offset = offset
        self.time_stamp = time_stamp
        self.offset = offset
        return self.writer.write(self.verdicts, count, FILTER_ALL)


# ---- panes of windows --------------------------------------------------------------------------


cdef extern from *:
    """
    #define prefetch(place) __builtin_prefetch(place, 1)
    """
    void prefetch(const void *place) noexcept nogil


cdef enum:
    # of a pane: its count, the words of an exact sum or a maximum, and what fills a cache line
    LINE_WORDS = 8
    SUM_WORDS = 4
    AHEAD = 8


cdef inline void add_float(uint64_t *words, uint64_t bits) noexcept nogil:
    """Add a float between 2^-75 and 2^50 to an exact sum of four words, of multiples of 2^-128."""
    cdef uint32_t shift = <uint32_t> (bits >> 52 & 0x7FF) - 1075 + 128
    cdef uint64_t magnitude = bits & ((<uint64_t> 1 << 52) - 1) | <uint64_t> 1 << 52
    cdef uint32_t place = shift >> 6
    cdef uint64_t low = magnitude << (shift & 63)
    cdef uint64_t high = magnitude >> 1 >> (63 - (shift & 63))
    cdef uint64_t second = words[place + 1]
    words[place] += low
    high += words[place] < low
    words[place + 1] += high
    words[place + 2] += words[place + 1] < second


cdef inline void add_pane(uint64_t *words, const uint64_t *pane) noexcept nogil:
    """Add the count and the sum of a pane to those of a trace."""
    cdef uint64_t carry = 0
    cdef uint64_t word
    cdef size_t k
    words[0] += pane[0]
    for k in range(1, SUM_WORDS + 1):
        word = words[k] + carry
        carry = word < carry
        words[k] = word + pane[k]
        carry += words[k] < word


def fill_panes(
    const int64_t[::1] seconds, const uint32_t[::1] keys, const double[::1] values, uint32_t traces,
    int64_t period, str kind
):
    """Put rows in panes, and at ticks panes in the states of traces; read the state of each trace.

    No row is forgotten, and what is read is only added up: the answer.

    kind: "count", "avg" or "max".
    """
    cdef size_t count = len(seconds)
    cdef uint32_t *latest = <uint32_t *> calloc(traces, sizeof(uint32_t))
    cdef uint32_t *numbers = <uint32_t *> malloc(count * sizeof(uint32_t))
    cdef uint64_t *panes = <uint64_t *> malloc(count * LINE_WORDS * sizeof(uint64_t))
    cdef uint64_t *states = <uint64_t *> malloc(traces * LINE_WORDS * sizeof(uint64_t))
    cdef bint has_sum = kind == "avg"
    cdef bint has_most = kind == "max"
    cdef size_t k, j
    cdef size_t opened = 0
    cdef size_t end = 0
    cdef uint32_t key, index
    cdef int64_t limit = period
    cdef uint64_t bits
    cdef uint64_t *pane
    cdef double most
    cdef double total = 0
    try:
        if latest == NULL or numbers == NULL or panes == NULL or states == NULL:
            raise MemoryError
        with nogil:
            memset(states, 0, traces * LINE_WORDS * sizeof(uint64_t))
            for k in range(count):
                if k + 2 * AHEAD < count:
                    prefetch(&latest[keys[k + 2 * AHEAD]])
                    index = latest[keys[k + AHEAD]]
                    prefetch(&numbers[index])
                    prefetch(&panes[index * LINE_WORDS])
                if seconds[k] > limit:
                    for j in range(opened, end):
                        if j + AHEAD < end:
                            prefetch(&states[numbers[j + AHEAD] * LINE_WORDS])
                        add_pane(&states[numbers[j] * LINE_WORDS], &panes[j * LINE_WORDS])
                    for j in range(traces):
                        total += <double> states[j * LINE_WORDS]
                    opened = end
                    limit += period
                key = keys[k]
                index = latest[key]
                if index < opened or index >= end or numbers[index] != key:
                    index = <uint32_t> end
                    latest[key] = index
                    numbers[index] = key
                    memset(&panes[index * LINE_WORDS], 0, LINE_WORDS * sizeof(uint64_t))
                    end += 1
                pane = &panes[index * LINE_WORDS]
                pane[0] += 1
                if has_sum:
                    memcpy(&bits, &values[k], sizeof(bits))
                    add_float(pane + 1, bits)
                elif has_most:
                    memcpy(&most, pane + 1, sizeof(most))
                    if values[k] > most:
                        memcpy(pane + 1, &values[k], sizeof(most))
        return total
    finally:
        free(latest)
        free(numbers)
        free(panes)
        free(states)
