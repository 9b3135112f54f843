# cython: language_level=3
"""Blocks of events: the time-stamps and letters that a source fills in and a loop processes."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

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
        self.own_time_stamps = <uint64_t *> calloc(self.room, sizeof(uint64_t))
        self.own_letters = <uint64_t *> calloc(self.room, letter_words * sizeof(uint64_t))
        self.clear()
        self.occurrences = <uint64_t *> calloc(letter_words, sizeof(uint64_t))
        if (
            self.own_time_stamps == NULL
            or self.own_letters == NULL
            or self.occurrences == NULL
        ):
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.own_time_stamps)
        free(self.own_letters)
        free(self.occurrences)

    cdef void read(self, EventColumns events, size_t first, size_t limit) noexcept nogil:
        """Fill the block with the events from number `first` on, and below `limit`."""
        self.next = 0
        self.count = min(self.room, limit - first)
        events.read(first, self.count, self.time_stamps, self.letters, self.letter_words)

    cdef ScanStatus scan(self, Scanner scanner, uint64_t loaded) noexcept nogil:
        """Fill the block with the next events of a log, of which `loaded` bytes were loaded."""
        cdef ScanStatus status
        self.clear()
        status = scanner.scan(self.time_stamps, self.letters, self.room, &self.count)
        self.note(scanner, loaded)
        return status

    cdef void note(self, Scanner scanner, uint64_t loaded) noexcept nogil:
        """Note how far the scanner has come."""
        note_place(scanner, loaded, &self.place)
        memcpy(self.occurrences, scanner.occurrences, self.letter_words * sizeof(uint64_t))

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
        """Drop the events that have not been processed, and refer to the block's own memory."""
        self.next = self.count = 0
        self.time_stamps = self.own_time_stamps
        self.letters = self.own_letters

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the block takes."""
        return self.room * (1 + self.letter_words) * sizeof(uint64_t)


cdef void note_place(Scanner scanner, uint64_t loaded, ScanPlace *place) noexcept nogil:
    """Note how far a scanner has come in a log, of which `loaded` bytes were loaded."""
    place.position = loaded - scanner.unread()
    place.line_count = scanner.line_count
    place.skipped_count = scanner.skipped_count
    place.time_stamp_end = scanner.last.value + 1 if scanner.last.is_known else 0
    place.held_bytes = scanner.held_bytes()
    place.in_long_line = scanner.in_long_line
