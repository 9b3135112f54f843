# cython: language_level=3
"""The table of the relations that policies use: finds one by its name."""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

_KINDS = {
    "integer": INTEGER_CELL,
    "float": FLOAT_CELL,
    "boolean": BOOLEAN_CELL,
    "text": TEXT_CELL,
    "time": TIME_CELL,
}


@final
cdef class RelationTable:
    """The relations that are read, by name.

    relations: pairs of a name and the names of the kinds of its arguments. Their order is that of
        the atoms in blocks of time-points. Those of one name are read from the same rows.
    """

    def __cinit__(self, relations):
        cdef size_t k, position
        cdef size_t size = 8
        cdef ReadRelation *entry
        cdef ReadRelation *known
        cdef bytes name, kinds
        cdef uint8_t byte
        self.relations = tuple((name, tuple(kinds)) for name, kinds in relations)
        self.count = len(self.relations)
        self.kept = []
        while size < 2 * self.count:
            size *= 2
        self.entries = <ReadRelation *> calloc(self.count + 1, sizeof(ReadRelation))
        self.slots = <ReadRelation **> calloc(size, sizeof(ReadRelation *))
        if self.entries == NULL or self.slots == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.slot_mask = size - 1
        for k in range(self.count):
            entry = &self.entries[k]
            name = self.relations[k][0].encode()
            kinds = bytes([_KINDS[kind] for kind in self.relations[k][1]])
            self.kept += [name, kinds]
            entry.name = <const uint8_t *> PyBytes_AS_STRING(name)
            entry.length = <size_t> len(name)
            entry.number = <uint32_t> k
            entry.kinds = <const uint8_t *> PyBytes_AS_STRING(kinds)
            entry.width = <uint32_t> len(kinds)
            for byte in name:
                entry.hash = hash_byte(entry.hash, byte)
            entry.hash = finished_hash(entry.hash)
            known = self.find(entry.name, entry.length, entry.hash)
            if known != NULL:
                if known.width != entry.width:
                    raise ValueError(
                        f"two relations are called {self.relations[k][0]}, with {known.width} and "
                        f"{entry.width} arguments"
                    )
                entry.twin = known.twin
                known.twin = entry
                continue
            position = entry.hash & self.slot_mask
            while self.slots[position] != NULL:
                position = (position + 1) & self.slot_mask
            self.slots[position] = entry

    def __dealloc__(self):
        free(self.entries)
        free(self.slots)

    @property
    def absent(self):
        """The names of the relations that no time-point has had so far, in order."""
        cdef size_t k
        return tuple(dict.fromkeys(
            self.relations[k][0] for k in range(self.count) if not self.entries[k].is_seen
        ))

    cdef ReadRelation *find(
        self, const uint8_t *name, size_t length, uint64_t hash
    ) noexcept nogil:
        """The relation of a name, whose hash comes from `hash_byte`; NULL if there is none."""
        cdef size_t position = hash & self.slot_mask
        cdef ReadRelation *entry = self.slots[position]
        while entry != NULL:
            if (
                entry.hash == hash
                and entry.length == length
                and memcmp(entry.name, name, length) == 0
            ):
                return entry
            position = (position + 1) & self.slot_mask
            entry = self.slots[position]
        return NULL
