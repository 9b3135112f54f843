# cython: language_level=3
"""Blocks of events: the time-stamps and letters that a source fills in and a loop processes."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from mtlmon.arrays.native cimport BLOCK_EVENTS, EventColumns
from mtlmon.engine.native cimport MAX_TIME_STAMP
from mtlmon.text.native cimport ScanStatus, Scanner

cdef enum:
    # 64-bit words of letters in a block, unless a letter has more
    BLOCK_WORDS = 8192


@final
cdef class EventBlock:
    """Room for a block of events whose letters have so many 64-bit words."""

    def __cinit__(self, size_t letter_words):
        self.letter_words = letter_words
        self.room = max(<size_t> 1, min(<size_t> BLOCK_EVENTS, BLOCK_WORDS // letter_words))
        self.time_stamps = <uint64_t *> calloc(self.room, sizeof(uint64_t))
        self.letters = <uint64_t *> calloc(self.room, letter_words * sizeof(uint64_t))
        if self.time_stamps == NULL or self.letters == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.time_stamps)
        free(self.letters)

    cdef void read(self, EventColumns events, size_t first, size_t limit) noexcept nogil:
        """Fill the block with the events from number `first` on, and below `limit`."""
        self.next = 0
        self.count = min(self.room, limit - first)
        events.read(first, self.count, self.time_stamps, self.letters, self.letter_words)

    cdef ScanStatus scan(self, Scanner scanner) noexcept nogil:
        """Fill the block with the next events of a log."""
        self.next = 0
        return scanner.scan(self.time_stamps, self.letters, self.room, &self.count)

    cdef bint decreases(self, size_t limit, uint64_t clock) noexcept nogil:
        """Whether an event below number `limit` has a time-stamp that no event may have now."""
        cdef bint is_wrong = False
        cdef size_t k
        if self.next < limit:
            is_wrong = (
                self.time_stamps[self.next] < clock
                or self.time_stamps[limit - 1] > MAX_TIME_STAMP()
            )
        for k in range(self.next + 1, limit):
            is_wrong |= self.time_stamps[k] < self.time_stamps[k - 1]
        return is_wrong

    cdef void clear(self) noexcept nogil:
        """Drop the events that have not been processed."""
        self.next = self.count = 0

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the block takes."""
        return self.room * (1 + self.letter_words) * sizeof(uint64_t)
