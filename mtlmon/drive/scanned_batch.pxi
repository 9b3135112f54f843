# cython: language_level=3
"""Events that one thread scans while another one monitors those before them."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from mtlmon.text.native cimport SCAN_EMPTY, SCAN_ERROR, SCAN_FULL, ScanStatus, Scanner


@final
cdef class ScannedBatch:
    """Blocks of events that are scanned at once.

    They are the blocks that a loop without a second thread would scan, so it makes no difference
    to the loop where they come from.

    A batch belongs to one thread at a time: to the one that scans until it is handed over, then to
    the one that monitors until it is returned. Python's queues hand it over, and their locks order
    all that one thread has written before all that the other one reads.

    Args:
        block: the loop's block, for the size of blocks.
        size: the number of bytes that the batch may take; it has room for at least one block.
    """

    def __cinit__(self, EventBlock block not None, size_t size):
        self.letter_words = block.letter_words
        self.block_room = block.room
        self.room = max(<size_t> 1, size // block.held_bytes())
        self.status = SCAN_EMPTY
        self.event_counts = <size_t *> calloc(self.room, sizeof(size_t))
        self.places = <ScanPlace *> calloc(self.room, sizeof(ScanPlace))
        self.time_stamps = <uint64_t *> calloc(self.room, self.block_room * sizeof(uint64_t))
        self.letters = <uint64_t *> calloc(
            self.room, self.block_room * self.letter_words * sizeof(uint64_t)
        )
        self.occurrences = <uint64_t *> calloc(self.room, self.letter_words * sizeof(uint64_t))
        if (
            self.event_counts == NULL
            or self.places == NULL
            or self.time_stamps == NULL
            or self.letters == NULL
            or self.occurrences == NULL
        ):
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.event_counts)
        free(self.places)
        free(self.time_stamps)
        free(self.letters)
        free(self.occurrences)

    cdef void scan(self, Scanner scanner, uint64_t loaded) noexcept nogil:
        """Fill the batch with the next blocks of a log, of which `loaded` bytes were loaded."""
        cdef size_t k = 0
        self.next = 0
        self.status = SCAN_FULL
        while k < self.room and self.status == SCAN_FULL:
            self.status = scanner.scan(
                self.time_stamps + k * self.block_room,
                self.letters + k * self.block_room * self.letter_words,
                self.block_room,
                &self.event_counts[k],
            )
            note_place(scanner, loaded, &self.places[k])
            memcpy(
                self.occurrences + k * self.letter_words,
                scanner.occurrences,
                self.letter_words * sizeof(uint64_t),
            )
            k += 1
        self.count = k

    cdef ScanStatus take(self, EventBlock block) noexcept nogil:
        """Let the block refer to the next events, as if `EventBlock.scan` had filled it.

        SCAN_EMPTY means that the batch is used up. The batch must stay in place until the block is
        cleared.
        """
        cdef size_t k = self.next
        cdef size_t words = self.letter_words
        block.clear()
        if k == self.count:
            return SCAN_EMPTY
        self.next += 1
        block.count = self.event_counts[k]
        block.place = self.places[k]
        memcpy(block.occurrences, self.occurrences + k * words, words * sizeof(uint64_t))
        block.time_stamps = self.time_stamps + k * self.block_room
        block.letters = self.letters + k * self.block_room * words
        if self.next < self.count:
            return SCAN_FULL
        return SCAN_ERROR if self.status == SCAN_ERROR else SCAN_EMPTY

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the batch takes."""
        cdef size_t words = self.block_room * (1 + self.letter_words) + self.letter_words
        return self.room * (words * sizeof(uint64_t) + sizeof(size_t) + sizeof(ScanPlace))
