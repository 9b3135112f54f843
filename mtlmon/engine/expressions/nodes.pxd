# cython: language_level=3
"""Declarations for the hash-consed nodes of expressions."""

from cython cimport no_gc
from libc.stdint cimport uint8_t, uint32_t, uint64_t


# An expression is 2 * node number, plus 1 for the negation of the node. Node 0 is FALSE.
ctypedef uint32_t Expression

cdef enum:
    FALSE_EXPRESSION = 0
    TRUE_EXPRESSION = 1
    NO_EXPRESSION = 0xFFFFFFFF      # only to signal an error


cdef enum NodeKind:
    NODE_CONSTANT = 0
    NODE_CUBE = 1       # conjunction of literals; a single literal is never negated inside
    NODE_MIXED = 2      # neither a cube nor the negation of one: a BDD


cdef struct Node:
    uint64_t mask       # a bit for each kind of variable it mentions; kinds may share a bit
    uint32_t start      # in the pool: sorted literals of a cube, sorted slots of a BDD
    uint32_t length
    uint8_t kind
    uint8_t has_placeholder     # mentions an obligation that differs for each anchor
    uint8_t may_chain           # mentions two slots of one family


@no_gc
cdef class NodeTable:
    cdef Program program
    cdef SlotMap slots
    # The nodes, and the literals and slots that they consist of.
    cdef Node *nodes
    cdef uint32_t node_count, node_capacity, mixed_count
    cdef uint32_t *pool
    cdef uint32_t pool_count, pool_capacity
    cdef uint32_t *cube_table           # open addressing, node numbers, 0 for none
    cdef uint32_t cube_table_size, cube_count
    cdef Expression *literals           # by slot; FALSE_EXPRESSION if it was never used
    cdef uint32_t literal_capacity
    cdef uint8_t *is_seen               # by family: scratch memory
    # How many bytes the table may hold before it refuses to grow, and the limit that reports this;
    # None if there is no limit.
    cdef size_t room
    cdef MemoryLimit memory

    cdef uint32_t new_node(
        self, NodeKind kind, const uint32_t *items, uint32_t length
    ) except? NO_EXPRESSION nogil
    cdef Expression new_literal(self, uint32_t slot) except? NO_EXPRESSION nogil
    cdef Expression intern_cube(
        self, const uint32_t *literals, uint32_t length
    ) except? NO_EXPRESSION nogil
    cdef bint mentions(self, Expression expression, uint32_t slot) noexcept nogil
    cdef size_t node_bytes(self) noexcept nogil
    cdef int require_room(self, size_t held) except -1 nogil
    cdef int _grow_cube_table(self) except -1 nogil


cdef inline bint is_constant(Expression expression) noexcept nogil:
    return expression <= TRUE_EXPRESSION


cdef inline uint64_t mask_of(NodeTable table, Expression expression) noexcept nogil:
    return table.nodes[expression >> 1].mask


cdef inline Expression literal(NodeTable table, uint32_t slot) except? NO_EXPRESSION nogil:
    """The expression that consists of this slot only."""
    if slot < table.literal_capacity and table.literals[slot] != FALSE_EXPRESSION:
        return table.literals[slot]
    return table.new_literal(slot)
