# cython: language_level=3
"""Classes of undecided time-points whose values are the same function."""

from libc.stdint cimport uint32_t, uint64_t


cdef uint32_t add_class(
    uint64_t *classes, uint32_t *count, const uint64_t *function, uint32_t words
) noexcept nogil:
    """The outcome of time-points with this function, which is added to different ones if need be.
    """
    cdef uint32_t i
    if is_false(function, words):
        return OUTCOME_FALSE
    if is_true(function, words):
        return OUTCOME_TRUE
    for i in range(count[0]):
        if are_equal(classes + <size_t> i * words, function, words):
            return OUTCOME_CLASS + i
    copy_function(classes + <size_t> count[0] * words, function, words)
    count[0] += 1
    return OUTCOME_CLASS + count[0] - 1


cdef int decide_members(
    Network *network, History *history, uint32_t number, uint32_t outcome
) except -1 nogil:
    """Output the verdicts of a class."""
    cdef uint32_t entry = network.classes[number].first_member
    cdef uint32_t following
    while entry != NONE:
        following = history.entries[entry].next_member
        decide(history, entry, outcome)
        entry = following
    return 0


cdef int merge_members(
    Network *network, History *history, uint32_t number, uint32_t earlier
) except -1 nogil:
    """Let a class join an earlier one."""
    cdef TimePointClass *kept = &network.classes[earlier]
    cdef TimePointClass *other = &network.classes[number]
    if history.mode == MODE_NAIVE:
        history.entries[kept.last_member].next_member = other.first_member
        kept.last_member = other.last_member
        return 0
    return merge(history, other.first_member, kept.first_member)
