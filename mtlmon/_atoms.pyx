# cython: language_level=3
"""The table of the atoms that a formula names: from the bytes of a name to its bit in a letter.

A *letter* is the set of atoms of a time-point as 64-bit words, bit i of them standing for
`atoms[i]`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT32_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

cdef size_t NOT_FOUND = SIZE_MAX


@cython.final
cdef class AtomTable:
    """Finds atoms by name, as UTF-8 bytes.

    atoms: the names, all different.
    """

    def __cinit__(self, atoms):
        self.atoms = tuple(atoms)
        self.names = [name.encode() for name in self.atoms]
        self.letter_words = max(<Py_ssize_t> 1, (len(self.names) + 63) // 64)
        if self.letter_words > UINT32_MAX:
            raise MemoryError
        self.fill()

    def __dealloc__(self):
        free(self.slots)

    cdef int fill(self) except -1:
        """Enter the atoms into the hash table and the short cuts before it."""
        cdef size_t index, position
        cdef size_t size = 8
        cdef size_t wanted = 2 * <size_t> len(self.names)
        cdef bytes name
        cdef AtomSlot slot
        while size < wanted:
            size *= 2
        self.slots = <AtomSlot *> malloc(size * sizeof(AtomSlot))
        if self.slots == NULL:
            raise MemoryError
        for position in range(size):
            self.slots[position].index = NOT_FOUND
        self.slot_mask = size - 1
        for index, name in enumerate(self.names):
            slot.name = <const uint8_t *> PyBytes_AS_STRING(name)
            slot.length = <size_t> len(name)
            slot.index = index
            slot.hash = hash_name(slot.name, slot.length)
            position = slot.hash & self.slot_mask
            while self.slots[position].index != NOT_FOUND:
                position = (position + 1) & self.slot_mask
            self.slots[position] = slot
            if slot.length == 1:
                self.single_word[slot.name[0]] = <uint32_t> (index // 64)
                self.single_bit[slot.name[0]] = <uint64_t> 1 << (index % 64)
            if slot.length > 0:
                self.lengths[slot.name[0]] |= <uint64_t> 1 << (slot.length % 64)
        return 0

    cdef void add(self, const uint8_t *name, size_t length, uint64_t *letter) noexcept nogil:
        """Set the bit of an atom in a letter; a name that the table does not hold changes nothing.

        length: at least 1.
        """
        cdef uint64_t name_hash
        cdef size_t position
        cdef AtomSlot *slot
        if not self.lengths[name[0]] >> (length % 64) & 1:
            return
        name_hash = hash_name(name, length)
        position = name_hash & self.slot_mask
        slot = self.slots + position
        while slot.index != NOT_FOUND:
            if (
                slot.hash == name_hash
                and slot.length == length
                and memcmp(slot.name, name, length) == 0
            ):
                letter[slot.index // 64] |= <uint64_t> 1 << (slot.index % 64)
                return
            position = (position + 1) & self.slot_mask
            slot = self.slots + position


cdef uint64_t hash_name(const uint8_t *name, size_t length) noexcept nogil:
    """A hash over length and bytes, eight bytes at a time."""
    cdef uint64_t value = length * <uint64_t> 0x9E3779B97F4A7C15
    cdef uint64_t word
    while length > 0:
        word = 0
        if length >= sizeof(word):
            memcpy(&word, name, sizeof(word))
            name += sizeof(word)
            length -= sizeof(word)
        else:
            while length > 0:
                length -= 1
                word = word << 8 | name[length]
        value = (value ^ word) * <uint64_t> 0xD6E8FEB86659FD93
        value ^= value >> 32
    return value
