# cython: language_level=3
"""The least or the largest value of each group, while rows come and go.

The rows of a group are a pairing heap, whose nodes are the slots of the parent: M. Fredman,
R. Sedgewick, D. Sleator, R. Tarjan, "The Pairing Heap: A New Form of Self-Adjusting Heap"
(Algorithmica 1986). A row joins in constant time, and leaves, wherever it is, in a logarithm of
steps on average.

A window of the past that nothing else looks at remembers only rows that can still come first: a
later row stays longer, so the rows of its group with no better value are dropped. What is left is
a list in the order of values, in which a row that comes is mostly the last one.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport KeyTable


cdef void use_texts_of_groups(RelationalEngine engine) noexcept:
    """Let groups compare texts by the table that the engine has now."""
    cdef size_t k
    for k in range(engine.state_count):
        engine.states[k].texts_by_number = <PyObject *> engine.texts


cdef inline int64_t value_in(const State *groups, uint32_t number) noexcept nogil:
    return cells_of(groups.parent, number)[groups.valued]


cdef inline bint comes_before(const State *groups, uint32_t left, uint32_t right) noexcept nogil:
    cdef int order = compare_cells(
        <KeyTable> groups.texts_by_number, <CellKind> groups.cell, value_in(groups, left),
        value_in(groups, right)
    )
    return order > 0 if groups.ordering == LARGEST_FIRST else order < 0


cdef uint32_t melded(State *groups, uint32_t first, uint32_t second) noexcept nogil:
    """Make one heap of two; return its root."""
    cdef HeapNode *nodes = groups.nodes
    if comes_before(groups, second, first):
        first, second = second, first
    nodes[second].previous = first
    nodes[second].next = nodes[first].child
    if nodes[first].child != NONE:
        nodes[nodes[first].child].previous = second
    nodes[first].child = second
    return first


cdef uint32_t melded_siblings(State *groups, uint32_t first) noexcept nogil:
    """Make one heap of siblings: of pairs from the first on, then of these from the last on."""
    cdef HeapNode *nodes = groups.nodes
    cdef uint32_t pairs = NONE
    cdef uint32_t second, following
    while first != NONE:
        second = nodes[first].next
        following = NONE
        if second != NONE:
            following = nodes[second].next
            first = melded(groups, first, second)
        nodes[first].next = pairs
        pairs = first
        first = following
    if pairs == NONE:
        return NONE
    second = nodes[pairs].next
    while second != NONE:
        following = nodes[second].next
        pairs = melded(groups, pairs, second)
        second = following
    return pairs


cdef int add_value(State *groups, uint32_t group, uint32_t number) except -1 nogil:
    """Add the row of a slot of the parent to a group."""
    cdef uint64_t *root = groups.sums + 2 * group
    make_room(
        <void **> &groups.nodes, &groups.node_room, groups.parent.rows.count, sizeof(HeapNode)
    )
    groups.nodes[number].child = NONE
    if groups.is_list:
        insert(groups, root, number)
        return 0
    root[0] = number if root[0] == NONE else melded(groups, <uint32_t> root[0], number)
    return 0


cdef void remove_value(State *groups, uint32_t group, uint32_t number) noexcept nogil:
    """Take the row of a slot of the parent out of its group."""
    cdef HeapNode *nodes = groups.nodes
    cdef HeapNode *node = &nodes[number]
    cdef uint64_t *root = groups.sums + 2 * group
    cdef uint32_t children
    if groups.is_list:
        unlink(groups, root, number)
        return
    children = melded_siblings(groups, node.child)
    if root[0] == number:
        root[0] = children
        return
    if nodes[node.previous].child == number:
        nodes[node.previous].child = node.next
    else:
        nodes[node.previous].next = node.next
    if node.next != NONE:
        nodes[node.next].previous = node.previous
    if children != NONE:
        root[0] = melded(groups, <uint32_t> root[0], children)


cdef void insert(State *groups, uint64_t *ends, uint32_t number) noexcept nogil:
    """Add a row to the list of its group, before those that are not better."""
    cdef HeapNode *nodes = groups.nodes
    cdef uint32_t previous = <uint32_t> ends[1]
    cdef uint32_t next = NONE
    while previous != NONE and not comes_before(groups, previous, number):
        next = previous
        previous = nodes[previous].previous
    nodes[number].previous = previous
    nodes[number].next = next
    if previous == NONE:
        ends[0] = number
    else:
        nodes[previous].next = number
    if next == NONE:
        ends[1] = number
    else:
        nodes[next].previous = number


cdef void unlink(State *groups, uint64_t *ends, uint32_t number) noexcept nogil:
    """Take a row out of the list of its group."""
    cdef HeapNode *nodes = groups.nodes
    cdef uint32_t previous = nodes[number].previous
    cdef uint32_t next = nodes[number].next
    if previous == NONE:
        ends[0] = next
    else:
        nodes[previous].next = next
    if next == NONE:
        ends[1] = previous
    else:
        nodes[next].previous = previous


cdef bint is_dominated(State *window, const int64_t *row, int64_t time_stamp) noexcept nogil:
    """Whether a row of its group that stays as long as a row is as good, and another one."""
    cdef State *groups = window.pruning
    cdef uint32_t group = first_slot(&groups.indexes[0], &groups.rows, row, groups.grouped_by.of)
    cdef uint32_t last
    cdef int order
    if group == NONE:
        return False
    # a group has rows
    last = <uint32_t> groups.sums[2 * group + 1]
    if window.upper >= 0 and (
        entry_of(window, window.slots[last].tail).time_stamp < time_stamp
    ):
        return False
    order = compare_cells(
        <KeyTable> groups.texts_by_number, <CellKind> groups.cell, value_in(groups, last),
        row[groups.valued]
    )
    return order >= 0 if groups.ordering == LARGEST_FIRST else order <= 0


cdef void drop_dominated(State *window, uint32_t number) noexcept nogil:
    """Drop the rows of a group behind the one of a slot, which has come last."""
    cdef HeapNode *nodes = window.pruning.nodes
    cdef Slot *slot
    cdef Entry *entry
    cdef uint32_t dropped
    cdef uint64_t place
    while nodes[number].next != NONE:
        dropped = nodes[number].next
        slot = &window.slots[dropped]
        place = slot.head
        while place != NOWHERE:
            entry = entry_of(window, place)
            entry.slot = NONE
            place = entry.next
        end_live(window, dropped)
        slot.references = 0
        free_slot(window, dropped)
    while window.entry_end > window.first_entry and (
        window.entries[window.entry_end - 1].slot == NONE
    ):
        window.entry_end -= 1
