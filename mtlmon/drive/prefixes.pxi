# cython: language_level=3
"""A table that gives numbers to the prefixes of lines, for as long as they are needed.

The table uses open addressing. It reuses the numbers of removed prefixes.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from mtlmon.engine.native cimport chunk_size

NO_PREFIX = SIZE_MAX


@cython.final
cdef class PrefixTable:
    """Maps prefixes to numbers, and numbers to prefixes."""

    def __cinit__(self):
        self.first_free = self.latest = NO_PREFIX

    def __dealloc__(self):
        cdef size_t number
        for number in range(self.size):
            free(self.prefixes[number].text)
        free(self.prefixes)
        free(self.slots)

    cdef size_t find(self, const uint8_t *text, size_t size) noexcept nogil:
        """Return the number of a prefix, or NO_PREFIX if it has none."""
        cdef size_t number = self.latest
        if number != NO_PREFIX and is_text(self.prefixes + number, text, size):
            return number
        if self.used_count == 0:
            return NO_PREFIX
        number = self.slots[self.slot_of(text, size, hash_text(text, size))]
        if number != NO_PREFIX:
            self.latest = number
        return number

    cdef size_t add(self, const uint8_t *text, size_t size) noexcept nogil:
        """Add a prefix that has no number; return its number, or NO_PREFIX if memory is out."""
        cdef size_t number, slot
        cdef uint64_t hash
        cdef uint8_t *copy
        cdef Prefix *prefix
        if not self.reserve():
            return NO_PREFIX
        copy = <uint8_t *> malloc(max(<size_t> 1, size))
        if copy == NULL:
            return NO_PREFIX
        self.text_bytes += chunk_size(max(<size_t> 1, size))
        memcpy(copy, text, size)
        hash = hash_text(text, size)
        slot = self.slot_of(text, size, hash)
        number = self.first_free
        if number == NO_PREFIX:
            number = self.size
            self.size += 1
        else:
            self.first_free = self.prefixes[number].next
        prefix = self.prefixes + number
        prefix.text = copy
        prefix.size = size
        prefix.hash = hash
        prefix.open_count = 0
        self.slots[slot] = number
        self.used_count += 1
        self.latest = number
        return number

    cdef void remove(self, size_t number) noexcept nogil:
        """Remove a prefix; move up the entries after its slot that could not be found otherwise."""
        cdef Prefix *prefix = self.prefixes + number
        cdef size_t slot = self.slot_of(prefix.text, prefix.size, prefix.hash)
        cdef size_t hole = slot
        cdef size_t home
        self.text_bytes -= chunk_size(max(<size_t> 1, prefix.size))
        free(prefix.text)
        prefix.text = NULL
        prefix.next = self.first_free
        self.first_free = number
        self.used_count -= 1
        if self.latest == number:
            self.latest = NO_PREFIX
        while True:
            slot = (slot + 1) & self.slot_mask
            if self.slots[slot] == NO_PREFIX:
                break
            home = <size_t> self.prefixes[self.slots[slot]].hash & self.slot_mask
            # Distances count forward from the home slot, and wrap around at the end of the table.
            if ((slot - home) & self.slot_mask) >= ((slot - hole) & self.slot_mask):
                self.slots[hole] = self.slots[slot]
                hole = slot
        self.slots[hole] = NO_PREFIX

    cdef size_t slot_of(self, const uint8_t *text, size_t size, uint64_t hash) noexcept nogil:
        """Return the slot of a prefix, or the free slot where it belongs."""
        cdef size_t slot = <size_t> hash & self.slot_mask
        while self.slots[slot] != NO_PREFIX and not (
            self.prefixes[self.slots[slot]].hash == hash
            and is_text(self.prefixes + self.slots[slot], text, size)
        ):
            slot = (slot + 1) & self.slot_mask
        return slot

    cdef size_t held_bytes(self) noexcept nogil:
        """Return the number of bytes that the table takes."""
        cdef size_t slots = 0 if self.slots == NULL else self.slot_mask + 1
        return self.text_bytes + self.room * sizeof(Prefix) + slots * sizeof(size_t)

    cdef bint reserve(self) noexcept nogil:
        """Make room for one more prefix; return False if memory is out."""
        cdef size_t wanted, number, slot
        cdef void *larger
        if self.first_free == NO_PREFIX and self.size == self.room:
            wanted = max(<size_t> 16, 2 * self.room)
            if wanted > SIZE_MAX // sizeof(Prefix) // 4:
                return False
            larger = realloc(self.prefixes, wanted * sizeof(Prefix))
            if larger == NULL:
                return False
            self.prefixes = <Prefix *> larger
            self.room = wanted
        if self.slots != NULL and 2 * (self.used_count + 1) <= self.slot_mask:
            return True
        wanted = 32 if self.slots == NULL else 2 * (self.slot_mask + 1)
        larger = malloc(wanted * sizeof(size_t))
        if larger == NULL:
            return False
        free(self.slots)
        self.slots = <size_t *> larger
        self.slot_mask = wanted - 1
        for slot in range(wanted):
            self.slots[slot] = NO_PREFIX
        for number in range(self.size):
            if self.prefixes[number].text != NULL:
                slot = <size_t> self.prefixes[number].hash & self.slot_mask
                while self.slots[slot] != NO_PREFIX:
                    slot = (slot + 1) & self.slot_mask
                self.slots[slot] = number
        return True


cdef inline bint is_text(const Prefix *prefix, const uint8_t *text, size_t size) noexcept nogil:
    """Whether a prefix has this text."""
    return (
        prefix.text != NULL and prefix.size == size and memcmp(prefix.text, text, size) == 0
    )


cdef inline uint64_t hash_text(const uint8_t *text, size_t size) noexcept nogil:
    """Hash a text by multiplication of 8-byte words; high bits are mixed into low ones."""
    cdef uint64_t value = size * <uint64_t> 0x9E3779B97F4A7C15
    cdef uint64_t word
    while size > 0:
        word = 0
        memcpy(&word, text, min(size, <size_t> 8))
        value = (value ^ word) * <uint64_t> 0xD6E8FEB86659FD93
        value ^= value >> 29
        if size <= 8:
            break
        text += 8
        size -= 8
    return value ^ (value >> 32)
