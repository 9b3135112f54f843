# cython: language_level=3
"""Hash-consed nodes, which represent expressions.

Conjunctions of literals (*cubes*) and their negations, disjunctions (*clauses*), are stored as
sorted literals; a node of any other function, a BDD, lists the slots that the function depends on.

An expression is the number of a node and a complement bit, which turns a cube into a clause. A BDD
whose function is a cube or a clause becomes a node of that form, so expressions are equivalent if
and only if their numbers are equal. Most formulas never need a BDD, and then `dd` is not imported.
"""

from cython cimport no_gc
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset


cdef enum:
    INITIAL_CUBE_TABLE = 1 << 7


@no_gc
cdef class NodeTable:
    """Nodes over the slots of one program; equal cubes share a node."""

    def __cinit__(self, Program program not None, *_arguments):
        self.program = program
        self.room = NO_LIMIT()
        self.cube_table = <uint32_t *> calloc(INITIAL_CUBE_TABLE, sizeof(uint32_t))
        self.cube_table_size = INITIAL_CUBE_TABLE
        self.is_seen = <uint8_t *> calloc(<size_t> program.family_count + 1, sizeof(uint8_t))
        if self.cube_table == NULL or self.is_seen == NULL:
            raise MemoryError("mtlmon: out of memory")
        init_slots(&self.slots, program.fixed_slot_count, program.family_count)
        self.new_node(NODE_CONSTANT, NULL, 0)

    def __dealloc__(self):
        free_slots(&self.slots)
        free(self.nodes)
        free(self.pool)
        free(self.cube_table)
        free(self.literals)
        free(self.is_seen)

    cdef uint32_t new_node(
        self, NodeKind kind, const uint32_t *items, uint32_t length
    ) except? NO_EXPRESSION nogil:
        """Create a node of these literals or slots, and return its number."""
        cdef uint32_t number = self.node_count
        cdef uint32_t i, slot, family
        cdef Node *node
        if self.room != NO_LIMIT() and (
            number == self.node_capacity or self.pool_count + length > self.pool_capacity
        ):
            self.require_room(self.node_bytes())
        reserve(<void **> &self.nodes, &self.node_capacity, <size_t> number + 1, sizeof(Node))
        reserve(
            <void **> &self.pool, &self.pool_capacity, <size_t> self.pool_count + length,
            sizeof(uint32_t)
        )
        node = &self.nodes[number]
        memset(node, 0, sizeof(Node))
        node.kind = kind
        self.mixed_count += kind == NODE_MIXED
        node.start = self.pool_count
        node.length = length
        if length:
            memcpy(self.pool + self.pool_count, items, length * sizeof(uint32_t))
        for i in range(length):
            slot = items[i] >> 1 if kind == NODE_CUBE else items[i]
            family = family_of(&self.slots, slot)
            if family == NO_FAMILY:
                node.mask |= slot_bit(slot)
                node.has_placeholder |= self.program.is_placeholder[slot]
            else:
                node.mask |= (
                    kind_bit(&self.slots, family, KIND_TIME)
                    | kind_bit(&self.slots, family, KIND_OPEN)
                    | kind_bit(&self.slots, family, KIND_CLOSED)
                )
                # The flag of each family is valid only during this loop.
                node.may_chain |= self.is_seen[family]
                self.is_seen[family] = True
        for i in range(length):
            slot = items[i] >> 1 if kind == NODE_CUBE else items[i]
            family = family_of(&self.slots, slot)
            if family != NO_FAMILY:
                self.is_seen[family] = False
        self.pool_count += length
        self.node_count += 1
        return number

    cdef Expression new_literal(self, uint32_t slot) except? NO_EXPRESSION nogil:
        """The expression that consists of this slot only, which is used for the first time."""
        cdef uint32_t known = self.literal_capacity
        cdef uint32_t item = 2 * slot
        if slot >= known:
            reserve(
                <void **> &self.literals, &self.literal_capacity, <size_t> slot + 1,
                sizeof(Expression)
            )
            memset(
                self.literals + known, 0, (self.literal_capacity - known) * sizeof(Expression)
            )
        self.literals[slot] = 2 * self.new_node(NODE_CUBE, &item, 1)
        return self.literals[slot]

    cdef Expression intern_cube(
        self, const uint32_t *literals, uint32_t length
    ) except? NO_EXPRESSION nogil:
        """The conjunction of sorted literals of different slots."""
        cdef uint64_t position
        cdef uint32_t number
        cdef Node *node
        if length == 0:
            return TRUE_EXPRESSION
        if length == 1:
            return literal(self, literals[0] >> 1) ^ (literals[0] & 1)
        if 2 * (self.cube_count + 1) > self.cube_table_size:
            self._grow_cube_table()
        position = hash_sequence(1, literals, length) & (self.cube_table_size - 1)
        while self.cube_table[position]:
            number = self.cube_table[position]
            node = &self.nodes[number]
            if node.length == length and memcmp(
                self.pool + node.start, literals, length * sizeof(uint32_t)
            ) == 0:
                return 2 * number
            position = (position + 1) & (self.cube_table_size - 1)
        number = self.new_node(NODE_CUBE, literals, length)
        self.cube_table[position] = number
        self.cube_count += 1
        return 2 * number

    cdef size_t node_bytes(self) noexcept nogil:
        """The bytes that the nodes and what belongs to them take."""
        return (
            self.node_capacity * sizeof(Node)
            + (
                <size_t> self.pool_capacity + self.cube_table_size + self.literal_capacity
            ) * sizeof(uint32_t)
            + self.program.family_count
            + held_by_slots(&self.slots)
        )

    cdef int require_room(self, size_t held) except -1 nogil:
        """Refuse to grow if the memory that is held exceeds the available room.

        This stops an event whose expressions grow without end.
        """
        if held > self.room:
            with gil:
                raise self.memory.exceeded(held - self.room + self.memory.room_for(0))
        return 0

    cdef int _grow_cube_table(self) except -1 nogil:
        cdef uint32_t size = 2 * self.cube_table_size
        cdef uint32_t *table
        cdef uint32_t i, number
        cdef uint64_t position
        table = NULL if size == 0 else <uint32_t *> calloc(size, sizeof(uint32_t))
        if table == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        for i in range(self.cube_table_size):
            number = self.cube_table[i]
            if number:
                position = hash_sequence(
                    1, self.pool + self.nodes[number].start, self.nodes[number].length
                ) & (size - 1)
                while table[position]:
                    position = (position + 1) & (size - 1)
                table[position] = number
        free(self.cube_table)
        self.cube_table = table
        self.cube_table_size = size
        return 0

    cdef bint mentions(self, Expression expression, uint32_t slot) noexcept nogil:
        """Whether the expression depends on the slot."""
        cdef Node *node = &self.nodes[expression >> 1]
        cdef const uint32_t *items = self.pool + node.start
        cdef uint32_t shift = node.kind == NODE_CUBE
        cdef uint32_t low = 0
        cdef uint32_t high = node.length
        cdef uint32_t middle
        while low < high:
            middle = (low + high) // 2
            if items[middle] >> shift < slot:
                low = middle + 1
            else:
                high = middle
        return low < node.length and items[low] >> shift == slot
