# cython: language_level=3
"""Declarations for the states of temporal operators."""

from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t


cdef enum StateKind:
    WINDOW                      # ONCE, EVENTUALLY
    COUNTS                      # HISTORICALLY, ALWAYS
    SINCE_STATE
    UNTIL_STATE
    NEIGHBOUR                   # PREVIOUS, NEXT
    PRESENT                     # a let that uses itself, at the time-point
    GROUPS                      # an aggregate of the rows of another state
    SPANS                       # when the rows of another state were live


cdef enum LeftKind:
    BREAKS                      # NOT of a formula, whose rows end what they match
    RUNS                        # a formula, whose rows let go on what they match
    MARKS                       # like RUNS, among what the next conjunct ends
    ENDS                        # a formula, whose rows end what they match and MARKS does not
    FILTERS                     # anything else: evaluated for all slots


cdef enum Ordering:
    UNORDERED
    LEAST_FIRST
    LARGEST_FIRST


cdef struct HeapNode:
    # Of a row in the heap of its group, or in the list of its group, which has no children.
    uint32_t child              # the first of its children, or NONE
    uint32_t next               # the sibling behind it, or NONE
    uint32_t previous           # the sibling before it; of a first child, the parent


cdef struct Entry:
    # of a window whose rows are pruned, also one without a slot, which does not count
    int64_t time_stamp
    uint64_t point
    uint64_t since              # UNTIL: from this time-point on, the left side holds
    uint32_t slot
    uint32_t epoch              # of the slot; entries of an earlier one do not count
    uint64_t next               # the number of the next entry of the slot, or NOWHERE


cdef struct CountedPoint:
    int64_t time_stamp
    uint64_t point


cdef struct Jump:
    # Of an entry to earlier ones of its slot, so that each is found in a logarithm of steps.
    uint64_t previous           # the number of the entry before it, or NOWHERE
    uint64_t far                # of one that is further away


cdef struct Slot:
    # SPANS: `head` is the time-point at which the row became live, `tail` the one at which it
    # ended, or NOWHERE.
    uint64_t references         # its entries, or time-points or rows that count
    uint32_t epoch
    uint64_t head               # the number of its first entry that counts, or NOWHERE
    uint64_t tail
    bint is_live                # whether some entry counts
    int64_t time_stamp          # SINCE: of the first that counts
    uint64_t mark               # RUNS, MARKS: what let it go on last
    uint32_t next_live, previous_live


cdef struct Left:
    # A conjunct of the left side of SINCE or UNTIL.
    LeftKind kind
    uint32_t operand            # the query whose rows all but FILTERS take
    RowQueue inbox              # these rows
    uint32_t index              # SINCE: the index of the slots that match those rows
    uint32_t block              # FILTERS
    # SINCE: where a row has the columns of the index. UNTIL: the column of the slots that each
    # column of a row is.
    uint32_t *columns
    uint32_t column_count
    Numbers texts               # the columns of its rows that are texts
    # UNTIL: for each row when it came last, and for RUNS since when at each time-point
    Rows known
    Index by_row
    uint64_t *latest
    uint64_t *starts
    uint32_t *free_slots
    size_t free_count, free_room, latest_room, start_room
    RowQueue expiring


cdef struct State:
    StateKind kind
    uint32_t operand            # the query whose rows it takes
    bint is_future
    bint is_strict              # SINCE, UNTIL: whether the present does not count
    bint is_eager               # whether it takes in each time-point at that time-point
    bint is_present             # whether early blocks look at it, and late ones do not
    int64_t lower
    int64_t upper               # -1: no bound
    RowQueue inbox
    Numbers texts               # the columns of its rows that are texts
    size_t patience             # how many time-points may wait in the inbox
    Left *lefts
    uint32_t left_count
    Rows rows                   # of the slots
    Slot *slots
    size_t slot_room
    uint32_t *free_slots
    size_t free_count, free_room
    Index *indexes              # the first is on all columns, and has slots that are not live
    uint32_t index_count
    Entry *entries
    size_t first_entry, entry_end, entry_room
    uint64_t entry_base         # the number of the entry at place 0
    uint32_t first_live
    size_t live_count
    uint64_t position           # the time-point at which it stands; UINT64_MAX before the first
    int64_t now
    uint64_t processed          # SINCE, UNTIL: the time-points before it have been taken in
    uint64_t stamp              # of the last use of marks
    # COUNTS: the time-points that are in the window or wait for it
    CountedPoint *times
    size_t first_time, window_end, time_end, time_room
    uint64_t total              # how many time-points are in the window
    # WINDOW: whether all time-points of its rows are kept, and their jumps; `since` counts them
    bint is_exact
    Jump *jumps
    size_t jump_room
    State *pruning              # WINDOW: groups with lists that alone look at it, or NULL
    # GROUPS, SPANS: the state whose live rows they are of; and the states that are of this one
    State *parent
    State **groupings
    uint32_t grouping_count
    Numbers grouped_by          # the columns of the parent's rows that are its own
    uint32_t valued             # the column whose values are summed or ordered, or NONE
    # of 128 bits for each slot; if values are ordered, the slots of the parent that come first
    # and, in a list, last
    uint64_t *sums
    size_t sum_room
    Ordering ordering           # of the values, if the first of them is asked for
    bint is_list                # whether the rows of a group are a list in their order, or a heap
    uint32_t cell               # the CellKind of these
    PyObject *texts_by_number   # the engine's table, which it keeps
    HeapNode *nodes             # of the slots of the parent
    size_t node_room
    # NEIGHBOUR, PRESENT
    Rows current
    bint is_current
