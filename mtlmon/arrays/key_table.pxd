# cython: language_level=3
"""Declarations for the table that numbers the keys of rows."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct Slot:
    uint32_t number     # NONE in a free slot
    uint32_t tag        # the upper half of the key's hash


cdef struct Text:
    const uint8_t *place
    size_t length


cdef class KeyTable:
    cdef readonly size_t columns
    cdef size_t count
    cdef Slot *slots
    cdef size_t slot_mask
    cdef int home_shift             # 64 less the binary logarithm of the number of slots
    # The texts one after the other; with several columns, every text but the last has its length
    # before it.
    cdef uint8_t *texts
    cdef size_t text_room
    cdef uint64_t *ends             # the ends of the texts in `texts`, by number
    cdef size_t end_room
    cdef uint8_t *joined            # the joined texts of one row with several columns
    cdef size_t joined_room
    cdef uint64_t seed[3]
    # While keys are read beside: the former places of `texts` and `ends`.
    cdef bint is_read_beside
    cdef void **former
    cdef size_t former_count, former_room, former_bytes

    cdef int make_room(
        self, void **block, size_t *room, size_t used, size_t needed, size_t item_size
    ) except -1 nogil
    cdef void free_former(self) noexcept nogil
    cdef int check_cells(self, list cells) except -1
    cdef Text joined_text(self, list cells, size_t row) except *
    cdef Slot *slot_of(self, Text text, uint64_t hash) noexcept nogil
    cdef int number_texts(self, TextCells cells, uint32_t *numbers) except -1 nogil
    cdef void find_texts(self, TextCells cells, uint32_t *numbers) noexcept nogil
    cdef int number_joined(self, list cells, uint32_t *numbers) except -1
    cdef int number_entries(
        self, TextCells dictionary, uint32_t *number_of, const uint8_t *indices, size_t count,
        uint32_t *numbers
    ) except -1 nogil
    cdef uint32_t number_of(self, Text text, uint64_t hash) except? 4294967295 nogil
    cdef int append(self, Text text) except -1 nogil
    cdef int reserve_joined(self, size_t size) except -1
    cdef int resize(self, size_t size, const uint32_t *numbers) except -1 nogil
    cdef size_t home_of(self, uint32_t tag) noexcept nogil
    cdef Slot *free_slot(self, uint32_t tag) noexcept nogil
    cdef size_t text_size(self) noexcept nogil
    cdef Text text_of(self, size_t number) noexcept nogil
    cdef Text column_text(self, size_t number, size_t column) noexcept nogil
    cdef uint64_t hash_of(self, Text text) noexcept nogil
