# cython: language_level=3
"""Monitor text logs and return verdict records, for callers that do not need text."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from mtlmon.arrays.native cimport BLOCK_EVENTS
from mtlmon.text.native cimport SCAN_ERROR, SCAN_FULL, ScanStatus, Scanner


@final
cdef class LogRecords:
    """Monitors a text log.

    Args:
        monitor: a monitor that has not seen an event of its current stream; do not use it
            elsewhere.
        path: the log's name in error messages.

    Attributes:
        scanner: the scanner of the log.
    """

    def __cinit__(self, SuccessiveMonitor monitor not None, *, str path="<log>"):
        cdef size_t words
        self.monitor = monitor
        self.scanner = Scanner(monitor.atoms, path=path)
        words = self.scanner.letter_words
        self.room = max(<size_t> 1, min(<size_t> BLOCK_EVENTS, BLOCK_WORDS // words))
        self.time_stamps = <uint64_t *> calloc(self.room, sizeof(uint64_t))
        self.letters = <uint64_t *> calloc(self.room * words, sizeof(uint64_t))
        if self.time_stamps == NULL or self.letters == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.time_stamps)
        free(self.letters)

    def feed(self, block):
        """Process a block of bytes of the log; return the bytes of the verdict records this brings.

        Raises:
            LogError: a line cannot be read.
            LimitError, MemoryError: raised in the middle of an event, which leaves the monitor
                broken.
        """
        cdef Py_buffer view
        self.scanner.check_failure()
        self.monitor.begin()
        try:
            PyObject_GetBuffer(block, &view, PyBUF_SIMPLE)
            try:
                self.scanner.load(<const uint8_t *> view.buf, <size_t> view.len)
                with nogil:
                    self.work()
            finally:
                PyBuffer_Release(&view)
            return self.monitor.taken()[0]
        finally:
            self.monitor.is_busy = False

    def finish(self):
        """End the log and the monitor's current stream; return the bytes of the verdict records.

        Raises the errors of `feed`, for a last line without a line feed.
        """
        self.scanner.check_failure()
        self.monitor.begin()
        try:
            self.scanner.load_end()
            with nogil:
                self.work()
                self.monitor.end_stream(0)
            return self.monitor.taken()[0]
        finally:
            self.monitor.is_busy = False

    cdef int work(self) except -1 nogil:
        """Monitor the events of the block that is loaded into the scanner."""
        cdef ScanStatus status = SCAN_FULL
        cdef size_t count = 0
        while status == SCAN_FULL:
            status = self.scanner.scan(self.time_stamps, self.letters, self.room, &count)
            self.monitor.run_stream(self.time_stamps, self.letters, count, 0)
        if status == SCAN_ERROR:
            with gil:
                self.scanner.note_failure()
                raise self.scanner.failure
        return 0
