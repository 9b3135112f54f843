# cython: language_level=3
"""The table of the atoms that a formula names: maps the bytes of a name to a bit in a letter.

A *letter* is the set of atoms of a time-point as 64-bit words; bit i of them represents `atoms[i]`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT32_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

cdef enum:
    # attempts to find places for short atoms; after some of them, the table is doubled
    ATTEMPTS = 48
    ATTEMPTS_PER_SIZE = 8

cdef size_t NOT_FOUND = SIZE_MAX
cdef uint64_t MULTIPLIER_STEP = <uint64_t> 0x5851F42D4C957F2D


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
        if self.letter_words == 1:
            self.fill_short()

    def __dealloc__(self):
        free(self.slots)
        free(self.short_atoms)

    cdef int fill(self) except -1:
        """Add the atoms to the hash table and to the shortcuts before it."""
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

    cdef int fill_short(self) except -1:
        """Add the short atoms to a table in which no two of them share a place."""
        cdef ShortAtom atoms[64]
        cdef size_t count = 0, index
        cdef unsigned bits = 3
        cdef unsigned attempt
        cdef bytes name
        for index, name in enumerate(self.names):
            # longer names, and names with such a byte, are not read as short names
            if len(name) <= LONGEST_SHORT and b"\0" not in name:
                padded = name.ljust(LONGEST_SHORT, b"\0")
                atoms[count].first = int.from_bytes(padded[:8], "little")
                atoms[count].second = int.from_bytes(padded[8:], "little")
                atoms[count].bit = <uint64_t> 1 << index
                count += 1
        while 1 << bits < 2 * count:
            bits += 1
        self.multipliers[:] = [0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93]
        # 64 atoms find their own places in 2^11 in one of three attempts
        for attempt in range(ATTEMPTS):
            if self.place_short(atoms, count, bits + attempt // ATTEMPTS_PER_SIZE):
                break
            self.multipliers[0] *= MULTIPLIER_STEP
            self.multipliers[1] *= MULTIPLIER_STEP
        return 0

    cdef int place_short(self, const ShortAtom *atoms, size_t count, unsigned bits) except -1:
        """Fill a table of 2^bits places; if two atoms share a place, empty it and return False."""
        cdef size_t size = <size_t> 1 << bits
        cdef size_t k
        cdef ShortAtom *place
        self.short_atoms = <ShortAtom *> calloc(size, sizeof(ShortAtom))
        if self.short_atoms == NULL:
            raise MemoryError
        self.short_shift = 64 - bits
        for k in range(count):
            place = self.short_atoms + short_place(self, atoms[k].first, atoms[k].second)
            if place.bit != 0:
                free(self.short_atoms)
                self.short_atoms = NULL
                return False
            place[0] = atoms[k]
        return True

    cdef void add(self, const uint8_t *name, size_t length, uint64_t *letter) noexcept nogil:
        """Set the bit of an atom in a letter; ignore a name that is not in the table.

        length: at least 1.
        """
        cdef uint64_t name_hash
        cdef size_t position
        cdef AtomSlot *slot
        if length == 1:
            letter[self.single_word[name[0]]] |= self.single_bit[name[0]]
            return
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
    """A hash of the length and the bytes, eight bytes at a time."""
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
