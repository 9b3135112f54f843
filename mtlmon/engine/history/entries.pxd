# cython: language_level=3
"""Declarations for pending time-points: entries in time order, grouped by expression."""

from libc.stdint cimport uint32_t, uint64_t


cdef enum:
    NONE = 0xFFFFFFFF


cdef enum Mode:
    MODE_NAIVE = 0
    MODE_LOCAL = 1
    MODE_GLOBAL = 2


cdef struct Entry:
    uint64_t time_stamp
    uint64_t offset
    uint64_t weight         # time-points it represents: itself and its equivalents
    uint32_t group          # NONE while it is not in a group
    uint32_t next_member    # members of a group form a ring
    uint32_t previous_member
    uint32_t earlier        # neighbours in time; `later` also links the free entries
    uint32_t later
    uint32_t merged_into    # the entry it was found equivalent to at this event, or NONE
    uint32_t cursor_count   # thresholds that have come as far as this entry


cdef struct Group:
    Expression expression
    uint32_t any_member
    uint32_t size
    uint32_t latest         # the latest member in time
    uint32_t place          # in the heap of active groups; links the free groups
    uint64_t kinds          # bits of the kinds of its variables, in their phases
    uint64_t due            # when time next opens or ends the window of one of them
    # A family whose open obligation the group demands, if the group is a cube that demands no
    # placeholder; else NONE.
    uint32_t demanded


cdef struct Threshold:
    # When time is this far past a time-point, its own outer obligation opens or is over.
    uint64_t distance
    uint32_t slot           # the placeholder that changes then
    uint32_t cursor         # the earliest entry not yet past it, or NONE
    bint is_end             # over once time is *beyond* the distance; else opens at the distance


cdef struct Change:
    # An entry that moves from one group to another, or a group with a new expression.
    uint32_t subject
    Expression expression


cdef struct History:
    Mode mode
    Entry *entries
    uint32_t entry_count, entry_capacity, free_entry
    uint32_t first, last            # in time
    Group *groups
    uint32_t group_count, group_capacity, free_group
    uint32_t *active                # groups in use: a heap, with the first due group on top
    uint32_t active_count, active_capacity
    uint32_t *table                 # expression -> group + 1, open addressing
    uint32_t table_size
    Threshold *thresholds
    uint32_t threshold_count
    uint32_t recent_group           # the group of the last time-point added; may be free by now
    uint64_t next_due               # no threshold is crossed before this time-stamp
    uint64_t kinds                  # at least the kinds of all groups
    uint32_t pending_count, peak_pending
    uint64_t true_count, false_count
    # The current event adds to each cube that rules out this placeholder the demand for the
    # obligation of this family that ends last. This does not change cubes that demand another
    # obligation of the family.
    uint64_t absorbed_kind
    uint32_t absorbing_family
    # The verdicts of the current event. The reference of an equivalence is an entry, stored in the
    # field of the offset, until all merging is done.
    VerdictRecord *verdicts
    uint32_t verdict_count, verdict_capacity
    Change *changes
    uint32_t change_count, change_capacity
    uint32_t *dropped
    uint32_t dropped_count, dropped_capacity


cdef int init_history(History *history, Program program, Mode mode) except -1
cdef void free_history(History *history) noexcept nogil
cdef void held_by_history(const History *history, HeldBytes *held) noexcept nogil

cdef uint32_t find_group(History *history, Expression expression) noexcept nogil
cdef int new_group(History *history, Expression expression, uint32_t *number) except -1 nogil
cdef void release_group(History *history, uint32_t number) noexcept nogil
cdef void set_due(History *history, uint32_t number, uint64_t due) noexcept nogil
cdef void put_in_table(History *history, uint32_t group) noexcept nogil
cdef void take_from_table(History *history, uint32_t group) noexcept nogil
cdef void rehash(History *history) noexcept nogil

cdef int new_entry(
    History *history, uint64_t time_stamp, uint64_t offset, uint32_t *number
) except -1 nogil
cdef void take_from_time(History *history, uint32_t number) noexcept nogil
cdef void free_entry(History *history, uint32_t number) noexcept nogil
cdef void link_member(History *history, uint32_t number, uint32_t group_number) noexcept nogil
cdef void unlink_member(History *history, uint32_t number) noexcept nogil


cdef inline bint is_earlier(const History *history, uint32_t a, uint32_t b) noexcept nogil:
    """Whether entry a is before entry b in time."""
    cdef const Entry *first = &history.entries[a]
    cdef const Entry *second = &history.entries[b]
    if first.time_stamp != second.time_stamp:
        return first.time_stamp < second.time_stamp
    return first.offset < second.offset


cdef inline uint64_t due_time(const History *history, const Threshold *threshold) noexcept nogil:
    """The first time-stamp at which the entry at the cursor has crossed the threshold."""
    cdef uint64_t due = history.entries[threshold.cursor].time_stamp + threshold.distance
    if not threshold.is_end:
        return due
    # No event is later than the largest time-stamp.
    return (due if due < MAX_TIME_STAMP() else MAX_TIME_STAMP()) + 1
