# cython: language_level=3
"""Read text logs as columns: blocks of bytes in, arrays of time-stamps and letters out."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT64_MAX, uint64_t

from mtlmon.arrays.native cimport Block
from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes, damaged
from mtlmon.text.native cimport SCAN_EMPTY, SCAN_ERROR, SCAN_FULL, ScanStatus, Scanner

cdef enum:
    READ_EVENTS = 1 << 13
    READ_WORDS = 1 << 16


@cython.final
cdef class TextEvents:
    """Reads the events of a text log, batch by batch.

    The arguments are those of `Scanner`.

    Attributes:
        scanner: records what has been read, and which errors occurred.
        lines: after `number_lines`, the bytes of the numbers of the lines of the events that `read`
            has returned last, from 1, of 64 bits.
    """

    cdef readonly Scanner scanner
    cdef readonly bytes lines
    cdef bint numbers_lines
    cdef Block block
    cdef ScanStatus status
    cdef uint64_t loaded

    def __cinit__(self, tuple atoms not None, *, str path="<log>", bint skip_errors=False):
        self.scanner = Scanner(atoms, path=path, skip_errors=skip_errors)
        self.status = SCAN_EMPTY
        self.lines = b""

    def number_lines(self):
        """From now on, tell the lines of events."""
        self.numbers_lines = True

    @property
    def held_bytes(self):
        """The bytes of memory that reading takes, not including the block."""
        return self.scanner.held_bytes()

    def load(self, block):
        """Load a block of bytes for `read`; the block must not change until it has been read."""
        self.block = Block(block)
        self.scanner.load(self.block.data, self.block.size)
        self.loaded += self.block.size
        self.status = SCAN_FULL

    def load_end(self):
        """End the log: `read` then returns a last line that has no line feed."""
        self.block = None
        self.scanner.load_end()
        self.status = SCAN_FULL

    @property
    def position(self):
        """How many bytes of the log have been read, up to the end of a line."""
        return self.loaded - self.scanner.unread()

    def snapshot(self):
        """Return what is known after the first `position` bytes of the log, for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        cdef ScanPlace place
        note_place(self.scanner, self.loaded, &place)
        writer.put(place.position)
        writer.put(self.scanner.letter_words)
        put_place(writer, &place, self.scanner.occurrences, self.scanner.letter_words)
        return writer.taken()

    def restore(self, snapshot):
        """Continue from a snapshot; the next block to load is the log from `position` on.

        Raises:
            SnapshotError: the bytes are no snapshot of such a reader, or lines were skipped before
                it that this reader does not skip.
        """
        cdef NumberReader reader = NumberReader()
        reader.open(as_bytes(snapshot), 0)
        self.loaded = reader.get(INT64_MAX)
        if reader.get(UINT64_MAX) != self.scanner.letter_words:
            raise damaged()
        read_scanner(reader, self.scanner)
        reader.end()

    def read(self):
        """Return the next events of the block.

        Returns:
            Bytes of as many time-stamps as there are events, of 64 bits, and of their letters, each
            of `scanner.letter_words` words of 64 bits. Both are empty when the block is used up.

        Raises:
            LogError: the next line cannot be read.
        """
        cdef size_t words = self.scanner.letter_words
        cdef size_t capacity = max(<size_t> 1, min(<size_t> READ_EVENTS, READ_WORDS // words))
        cdef size_t count = 0
        cdef uint64_t *times
        cdef uint64_t *masks
        cdef uint64_t *lines = NULL
        cdef size_t found = 0
        if self.status != SCAN_FULL:
            if self.status == SCAN_ERROR:
                raise self.scanner.failure
            return b"", b""
        time_stamps = PyBytes_FromStringAndSize(NULL, capacity * sizeof(uint64_t))
        letters = PyBytes_FromStringAndSize(NULL, capacity * words * sizeof(uint64_t))
        times = <uint64_t *> PyBytes_AS_STRING(time_stamps)
        masks = <uint64_t *> PyBytes_AS_STRING(letters)
        if self.numbers_lines:
            line_numbers = PyBytes_FromStringAndSize(NULL, capacity * sizeof(uint64_t))
            lines = <uint64_t *> PyBytes_AS_STRING(line_numbers)
        with nogil:
            if lines == NULL:
                self.status = self.scanner.scan(times, masks, capacity, &count)
            else:
                # The scanner knows only the line that it has read last.
                while count < capacity:
                    self.status = self.scanner.scan(times + count, masks + count * words, 1, &found)
                    if found:
                        lines[count] = self.scanner.line_count
                        count += 1
                    if self.status != SCAN_FULL:
                        break
        if lines != NULL:
            self.lines = line_numbers[:count * sizeof(uint64_t)]
        if self.status == SCAN_ERROR:
            self.scanner.note_failure()
            if count == 0:
                raise self.scanner.failure
        return (
            time_stamps[:count * sizeof(uint64_t)], letters[:count * words * sizeof(uint64_t)]
        )
