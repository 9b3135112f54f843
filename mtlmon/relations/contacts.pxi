# cython: language_level=3
"""Which records may overlap or follow equal ones, so that they are not as few as can be."""

import os

from libc.stdint cimport uint64_t

from mtlmon.arrays.native cimport fold, prefetch


cdef enum:
    # how many records ahead slots are prefetched from memory
    AHEAD = 32


cdef struct ValueSlot:
    uint32_t row        # of the records of a value so far, the one that ends last; NONE if free
    uint32_t tag        # the upper half of the hash of the value


@final
cdef class Contacts:
    """Finds the records whose value others have that are valid at the same time, or just before.

    Values with equal hashes count as equal, so a few records may be found that touch none.

    Attributes:
        found: for each record whether it is one of them: the memory of an array of type uint8; None
            if there are none.
    """

    cdef readonly object found
    cdef uint64_t *hashes
    cdef ValueSlot *slots
    cdef uint8_t *is_in_contact     # for each slot
    cdef uint8_t *is_found          # for each record
    cdef size_t mask

    def __init__(self, Timeline timeline not None, list columns not None):
        """Look at all records.

        timeline: the records; only the order of starts is used.
        columns: their values: contiguous arrays of type int64.

        Raises ValueError for arrays of different lengths.
        """
        cdef list held = [contiguous(column, sizeof(int64_t), timeline.count) for column in columns]
        cdef size_t size = 64
        cdef uint64_t seed[2]
        cdef Memory memory
        cdef bint any_found
        if self.slots != NULL:
            raise ValueError("contacts were found before")
        chosen = os.urandom(sizeof(seed))
        memcpy(seed, <const char *> chosen, sizeof(seed))
        while size < 2 * timeline.count:
            size *= 2
        self.mask = size - 1
        self.hashes = <uint64_t *> room(timeline.count, sizeof(uint64_t))
        self.slots = <ValueSlot *> room(size, sizeof(ValueSlot))
        self.is_in_contact = <uint8_t *> zeros(size, 1)
        with nogil:
            fill_numbers(self.hashes, timeline.count, seed[0])
        for memory in held:
            with nogil:
                add_to_hashes(self.hashes, timeline.count, integers(memory), seed[1] | 1)
        with nogil:
            any_found = self.run(timeline)
        if any_found:
            self.is_found = <uint8_t *> room(timeline.count, 1)
            with nogil:
                self.collect(timeline.count)
            self.found = block_of(<void **> &self.is_found, timeline.count, 1)

    def __dealloc__(self):
        free(self.hashes)
        free(self.slots)
        free(self.is_in_contact)
        free(self.is_found)

    cdef bint run(self, Timeline timeline) noexcept nogil:
        cdef const int64_t *order = timeline.by_start
        cdef bint any_found = False
        cdef size_t k, row, ahead
        cdef ValueSlot *slot
        for k in range(self.mask + 1):
            self.slots[k].row = NONE
        for k in range(timeline.count):
            ahead = min(k + AHEAD, timeline.count - 1)
            ahead = ahead if order == NULL else <size_t> order[ahead]
            prefetch(&self.slots[self.hashes[ahead] & self.mask])
            row = k if order == NULL else <size_t> order[k]
            slot = self.slots + self.slot_of(self.hashes[row])
            if slot.row == NONE:
                slot.row = <uint32_t> row
                slot.tag = <uint32_t> (self.hashes[row] >> 32)
                continue
            if timeline.ends[slot.row] >= timeline.starts[row]:
                self.is_in_contact[slot - self.slots] = any_found = True
            if timeline.ends[slot.row] < timeline.ends[row]:
                slot.row = <uint32_t> row
        return any_found

    cdef void collect(self, size_t count) noexcept nogil:
        cdef size_t row
        for row in range(count):
            prefetch(&self.slots[self.hashes[min(row + AHEAD, count - 1)] & self.mask])
            self.is_found[row] = self.is_in_contact[self.slot_of(self.hashes[row])]

    cdef inline size_t slot_of(self, uint64_t hash) noexcept nogil:
        """The slot of a value, or a free one."""
        cdef size_t place = hash & self.mask
        while self.slots[place].row != NONE and self.slots[place].tag != <uint32_t> (hash >> 32):
            place = (place + 1) & self.mask
        return place


cdef void fill_numbers(uint64_t *numbers, size_t count, uint64_t number) noexcept nogil:
    cdef size_t k
    for k in range(count):
        numbers[k] = number


cdef void add_to_hashes(
    uint64_t *hashes, size_t count, const int64_t *values, uint64_t seed
) noexcept nogil:
    cdef size_t k
    for k in range(count):
        hashes[k] = fold(hashes[k] ^ <uint64_t> values[k], seed)
