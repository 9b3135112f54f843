# cython: language_level=3
"""Boolean expressions over obligations, hash-consed: equivalent expressions have equal ids."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mtlmon._memo cimport SequenceMemo
from mtlmon._program cimport Program
from mtlmon._slots cimport SlotMap
from mtlmon._windows cimport Family, Window

# An expression is 2 * node number, plus 1 for the negation of the node. Node 0 is FALSE.
ctypedef uint32_t Expression

cdef enum:
    FALSE_EXPRESSION = 0
    TRUE_EXPRESSION = 1
    NO_EXPRESSION = 0xFFFFFFFF      # only as the mark of an error


cdef enum NodeKind:
    NODE_CONSTANT = 0
    NODE_CUBE = 1       # conjunction of literals; a single literal is never negated inside
    NODE_MIXED = 2      # everything that is neither a cube nor the negation of one: a BDD


cdef struct Node:
    uint64_t mask       # one bit for each kind of variable it mentions, several kinds to a bit
    uint32_t start      # in the pool: sorted literals of a cube, sorted slots of a BDD
    uint32_t length
    uint8_t kind
    uint8_t has_placeholder     # mentions an obligation that is another one for each anchor
    uint8_t may_chain           # mentions two slots of one family


cdef struct PairEntry:
    Expression left
    Expression right
    Expression result


cdef class Workspace


# What a slot becomes at the event under way.
ctypedef Expression (*ImageOf)(
    Workspace workspace, void *context, uint32_t slot
) except? NO_EXPRESSION nogil


cdef class Workspace:
    cdef Program program
    cdef str bdd_choice
    # The obligations of the state at work: order matters to chained variables.
    cdef Family *families
    # Nodes, and the literals and slots they are made of.
    cdef Node *nodes
    cdef uint32_t node_count, node_capacity
    cdef uint32_t *pool
    cdef uint32_t pool_count, pool_capacity
    cdef uint32_t *cube_table           # open addressing, node numbers, 0 for none
    cdef uint32_t cube_table_size, cube_count
    cdef Expression *literals           # by slot; FALSE_EXPRESSION where it was never used
    cdef uint32_t literal_capacity
    cdef uint32_t mixed_count
    # How many of each are worth a compaction.
    cdef uint32_t compact_at, compact_pool_at, compact_mixed_at
    cdef SlotMap slots
    # Scratch memory.
    cdef uint32_t *merged
    cdef uint32_t merged_capacity
    cdef Expression *images             # a stack
    cdef uint32_t image_count, image_capacity
    cdef uint32_t *chain_least          # by family: literal + 1, or 0
    cdef uint32_t *chain_greatest
    # Memo tables of fixed budget.
    cdef PairEntry *pairs
    cdef SequenceMemo memo
    # Mixed functions.
    cdef object manager                 # mtlmon.bdd.Manager, None before the first is needed
    cdef dict functions                 # node number -> Function
    cdef dict node_of_function          # int(Function) -> node number
    cdef uint64_t compactions
    cdef uint64_t bdd_operations

    cdef Expression new_literal(self, uint32_t slot) except? NO_EXPRESSION nogil
    cdef bint mentions(self, Expression expression, uint32_t slot) noexcept nogil
    cdef Expression conjoin(self, Expression left, Expression right) except? NO_EXPRESSION nogil
    cdef int push(self, Expression expression) except -1 nogil
    cdef Expression conjoin_pushed(self, uint32_t base) except? NO_EXPRESSION nogil
    cdef Expression substitute(
        self, Expression expression, ImageOf image_of, void *context
    ) except? NO_EXPRESSION nogil
    cdef bint is_worth_compacting(self) noexcept nogil
    cdef Workspace compacted(self, Expression **roots, size_t root_count)

    cdef int _allocate(self) except -1
    cdef uint32_t _new_node(
        self, NodeKind kind, const uint32_t *items, uint32_t length
    ) except? NO_EXPRESSION nogil
    cdef Expression _intern_cube(
        self, const uint32_t *literals, uint32_t length
    ) except? NO_EXPRESSION nogil
    cdef int _grow_cube_table(self) except -1 nogil
    cdef uint32_t _view(
        self, Expression expression, const uint32_t **literals, uint32_t *single
    ) noexcept nogil
    cdef Expression _conjoin_raw(
        self, Expression left, Expression right
    ) except? NO_EXPRESSION nogil
    cdef Expression _conjoin_cubes(
        self, const uint32_t *left, uint32_t left_length, const uint32_t *right,
        uint32_t right_length
    ) except? NO_EXPRESSION nogil
    cdef Expression _conjoin_clause(
        self, Expression cube, const uint32_t *literals, uint32_t length, Expression clause
    ) except? NO_EXPRESSION nogil
    cdef Expression _conjoin_mixed(
        self, Expression left, Expression right
    ) except? NO_EXPRESSION nogil
    cdef Expression _substitute_cube(
        self, uint32_t node, ImageOf image_of, void *context
    ) except? NO_EXPRESSION nogil
    cdef Expression _substitute_mixed(
        self, uint32_t node, ImageOf image_of, void *context
    ) except? NO_EXPRESSION nogil
    cdef Expression _compose(self, uint32_t node, uint32_t base) except? NO_EXPRESSION
    cdef uint32_t _levels(self, const Expression *expressions, uint32_t count) except? 0
    cdef Expression _modulo_chains(
        self, uint32_t node, uint32_t base, uint32_t count
    ) except? NO_EXPRESSION
    cdef Expression _reduce(self, Expression expression) except? NO_EXPRESSION nogil
    cdef Expression _reduce_cube(self, uint32_t node) except? NO_EXPRESSION nogil
    cdef Expression _reduce_mixed(self, uint32_t node) except? NO_EXPRESSION nogil
    cdef object _function(self, Expression expression)
    cdef Expression _intern_function(self, object function) except? NO_EXPRESSION
    cdef int _take(self, list items) except -1
    cdef Expression _copy_node(self, uint32_t number, Workspace target) except? NO_EXPRESSION
    cdef Window *_open_window(self, uint32_t slot) noexcept nogil


cdef inline bint is_constant(Expression expression) noexcept nogil:
    return expression <= TRUE_EXPRESSION


cdef inline Expression conjunction(
    Workspace workspace, Expression left, Expression right
) except? NO_EXPRESSION nogil:
    """left AND right, constants and equal operands without a call."""
    if left == FALSE_EXPRESSION or right == FALSE_EXPRESSION or left == right ^ 1:
        return FALSE_EXPRESSION
    if left == TRUE_EXPRESSION or left == right:
        return right
    if right == TRUE_EXPRESSION:
        return left
    return workspace.conjoin(left, right)


cdef inline Expression disjunction(
    Workspace workspace, Expression left, Expression right
) except? NO_EXPRESSION nogil:
    """left OR right, by De Morgan's law."""
    return conjunction(workspace, left ^ 1, right ^ 1) ^ 1


cdef inline uint64_t mask_of(Workspace workspace, Expression expression) noexcept nogil:
    return workspace.nodes[expression >> 1].mask


cdef inline Expression literal(Workspace workspace, uint32_t slot) except? NO_EXPRESSION nogil:
    """The expression that is just this slot."""
    if slot < workspace.literal_capacity and workspace.literals[slot] != FALSE_EXPRESSION:
        return workspace.literals[slot]
    return workspace.new_literal(slot)
