# cython: language_level=3
"""Declarations for Boolean expressions over obligations."""

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef enum:
    # literals to process between two checks for signals, some 50 ms of work: each check takes the
    # GIL
    PATIENCE = 1 << 24


cdef struct PairEntry:
    Expression left
    Expression right
    Expression result


cdef class Workspace(NodeTable)


# The image of a slot at the current event.
ctypedef Expression (*ImageOf)(
    Workspace workspace, void *context, uint32_t slot
) except? NO_EXPRESSION nogil


cdef class Workspace(NodeTable):
    cdef str bdd_choice
    # The obligations of the state in use: chained variables depend on their order.
    cdef Family *families
    # The numbers that justify a compaction.
    cdef uint32_t compact_at, compact_pool_at, compact_mixed_at
    # Scratch memory.
    cdef uint32_t *merged
    cdef uint32_t merged_capacity
    cdef Expression *images             # a stack
    cdef uint32_t image_count, image_capacity
    cdef uint32_t *chain_least          # by family: literal + 1, or 0
    cdef uint32_t *chain_greatest
    cdef bint *is_endless               # by family: whether none of its windows has an end
    # Memo tables of fixed budget.
    cdef PairEntry *pairs
    cdef uint32_t pairs_size, pair_count
    cdef uint32_t memo_shift            # by how many powers of two they are smaller
    cdef SequenceMemo memo
    # Mixed functions.
    cdef object manager                 # a bdd.Manager, or None until the first is needed
    cdef dict functions                 # node number -> Function
    cdef dict node_of_function          # int(Function) -> node number
    cdef size_t counted                 # bytes at the last count of a run with a limit
    cdef size_t bdd_bytes               # the size of the functions and the manager at the last look
    cdef uint64_t compactions
    cdef uint64_t bdd_operations
    # How much work remains until the next check for signals.
    cdef int64_t patience

    cdef Expression conjoin(self, Expression left, Expression right) except? NO_EXPRESSION nogil
    cdef int _grow_pairs(self) except -1 nogil
    cdef int push(self, Expression expression) except -1 nogil
    cdef Expression conjoin_pushed(
        self, uint32_t base, uint32_t likely
    ) except? NO_EXPRESSION nogil
    cdef Expression substitute(
        self, Expression expression, ImageOf image_of, void *context
    ) except? NO_EXPRESSION nogil
    cdef Expression intern_nodes(self, list nodes, uint64_t root) except? NO_EXPRESSION
    cdef Workspace compacted(self, Expression **roots, size_t root_count)
    cdef size_t held_bytes(self) noexcept nogil
    cdef int set_memo_share(self, size_t share) except -1
    cdef void set_compaction(self, uint32_t growth) noexcept nogil
    cdef int shrink_memos(self, uint32_t shift) except -1
    cdef int _count_bdds(self) except -1
    cdef size_t _native_bytes(self) noexcept nogil

    cdef int _allocate(self) except -1
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
    cdef uint32_t _reduce_literals(self, uint32_t length) noexcept nogil
    cdef Expression _reduce_mixed(self, uint32_t node) except? NO_EXPRESSION nogil
    cdef int _require_manager(self) except -1
    cdef object ask(self, str method, tuple arguments)
    cdef object _negated(self, object function)
    cdef object _function(self, Expression expression)
    cdef Expression _intern_function(self, object function) except? NO_EXPRESSION
    cdef int _take(self, list items) except -1
    cdef Expression _copy_node(self, uint32_t number, Workspace target) except? NO_EXPRESSION
    cdef bint _is_in_chain(self, uint32_t slot) noexcept nogil
    cdef uint64_t _place_in_chain(self, uint32_t slot) noexcept nogil
    cdef int look_at_signals(self) except -1 nogil


cdef inline int spend(Workspace workspace, uint32_t work) except -1 nogil:
    """Count the literals that are processed; regularly check for a signal that asks to stop."""
    workspace.patience -= 1 + <int64_t> work
    if workspace.patience < 0:
        return workspace.look_at_signals()
    return 0


cdef inline Expression conjunction(
    Workspace workspace, Expression left, Expression right
) except? NO_EXPRESSION nogil:
    """left AND right; constants and equal operands need no call."""
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


cdef inline bint is_worth_compacting(Workspace workspace) noexcept nogil:
    """Whether the tables are several times larger than after the last compaction."""
    return (
        workspace.node_count > workspace.compact_at
        or workspace.pool_count > workspace.compact_pool_at
        or workspace.mixed_count > workspace.compact_mixed_at
    )
