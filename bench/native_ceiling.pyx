# cython: language_level=3
"""Scanner and writer with no engine between them: what benchmarks hold a monitor against."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
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
