# cython: language_level=3
"""Declarations for the states of many streams of one program, saved between their events."""

from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT64_MAX, int64_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport (
    AtomSets,
    HeldBytes,
    MOST_SET_ATOMS,
    MemoryHolder,
    Mode,
    QueueNetwork,
    Register,
    Session,
    State,
    lowest_bit,
)


cdef struct Resting:
    # The saved state of a stream: a configuration of the table, or a whole state if it has none.
    uint64_t time_stamp
    uint64_t clock              # no event is below it
    uint64_t offset
    Register *registers
    State *whole
    uint32_t configuration
    uint32_t register_count
    uint32_t register_capacity
    bint is_broken


cdef class Streams(MemoryHolder):
    cdef Session worker             # holds the state of the stream being processed
    cdef State spare                # the worker's own state, while it holds a stream's whole state
    cdef bint has_spare
    cdef Mode mode_number
    cdef uint64_t *blank            # the key of a stream before its first event, all zeros
    cdef dict free_numbers          # those of dropped streams, as keys
    cdef Resting *resting           # by number of the stream
    cdef uint32_t count, capacity, whole_count
    cdef uint64_t event_count, true_count, false_count
    cdef size_t register_bytes
    cdef HeldBytes resting_bytes    # bytes of saved states outside the array
    cdef uint32_t *owners           # the streams of the verdicts in the worker's output
    cdef uint32_t owner_capacity
    cdef uint64_t compactions       # how often configurations may have got other numbers
    cdef size_t done                # events that the last `run` took, even if it failed
    # by stream, as bits: whether the first event of the next turn must be processed in any case, of
    # the streams for which this is known; and the events of a turn that are still to be processed
    cdef uint64_t *awake
    cdef uint64_t *marked
    cdef uint32_t awake_room, marked_room, awake_known
    # of a single stream, those that matter where nothing is pending or remembered
    cdef uint64_t *stirring
    cdef uint32_t stirring_room
    cdef bint has_stirring
    cdef size_t held[MOST_SET_ATOMS]        # how many events of the turn have each atom
    cdef uint64_t moving_atoms              # of which each event of the turn has one that may move
    cdef size_t processed           # how many events of the turn have been

    cdef dict counters(self, size_t count)
    cdef uint32_t add(self) except? 0
    cdef int extend(self, size_t count) except -1
    cdef int drop(self, uint32_t number) except -1
    cdef void clear(self, Resting *resting) noexcept nogil

    cdef int load(self, Resting *resting) except -1 nogil
    cdef int store(self, Resting *resting) except -1 nogil
    cdef int open_output(self) except -1 nogil
    cdef size_t run(
        self, const uint32_t *numbers, const uint64_t *time_stamps, const uint64_t *letters,
        size_t count, const uint32_t *offsets=*
    ) except? 0 nogil

    cdef bint step_at_rest(
        self, uint32_t number, uint64_t time_stamp, uint64_t offset, uint64_t letter, size_t place
    ) noexcept nogil
    cdef uint64_t next_offset(self, uint32_t number, uint64_t time_stamp) noexcept nogil
    cdef size_t count_moving(self, EventColumns events, size_t first, size_t last) noexcept nogil
    cdef int begin_sparse(
        self, EventColumns events, RowsByTrace rows, size_t first, size_t count
    ) except -1 nogil
    cdef bint run_sparse(
        self, EventColumns events, const uint32_t *numbers, RowsByTrace rows, size_t first,
        size_t count
    ) except -1 nogil
    cdef uint64_t settled_from(
        self, uint32_t configuration, uint32_t register_count, uint64_t time_stamp
    ) noexcept nogil
    cdef void count_passed(self) noexcept nogil
    cdef void count_empty(self, int64_t count) noexcept nogil
    cdef int know_awake(self) except -1 nogil
    cdef void wake(
        self, EventColumns events, uint32_t number, RowsByTrace rows, size_t first, size_t place,
        uint64_t due
    ) noexcept nogil
    cdef bint last_point(
        self, uint32_t number, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil
    cdef int catch_up(self, uint32_t number, uint64_t time_stamp, uint64_t offset) except -1 nogil
    cdef int catch_up_before(
        self, EventColumns events, RowsByTrace rows, size_t first
    ) except -1 nogil
    cdef int catch_up_with(self, RowsByTrace rows, uint32_t number) except -1 nogil
    cdef void drop_failed(self, size_t done, uint32_t known) noexcept nogil

    cdef int settle(
        self, uint32_t number, uint64_t time_stamp, uint64_t *change=*
    ) except -1 nogil
    cdef int end(self, Resting *resting) except -1 nogil
    cdef list pending(self, uint32_t number, uint64_t time_stamp)
    cdef void count_verdicts(self) noexcept nogil
    cdef bint earliest_pending(self, uint32_t number, uint64_t *time_stamp) noexcept nogil
    cdef bint earliest_point(
        self, uint32_t number, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil
    cdef bint is_idle(self, uint32_t number, uint64_t clock) noexcept nogil
    cdef bint is_settled(self, uint32_t number, uint64_t clock) except -1
    cdef int renumber(self, const uint32_t *new_numbers) except -1

    cdef void count_resting(self, HeldBytes *held) noexcept nogil
    cdef int own(self, uint32_t known, uint32_t number) except -1 nogil
    cdef int load_initial(self) except -1 nogil
    cdef int keep_registers(self, Resting *resting) except -1 nogil
    cdef int keep_whole(self, Resting *resting) except -1 nogil
    cdef void drop_registers(self, Resting *resting) noexcept nogil
    cdef int forget_transitions(self) except -1 nogil
    cdef void forget_blocks(self, QueueNetwork network) noexcept nogil
    cdef bint is_full(self) noexcept nogil
    cdef int maybe_compact(self) except -1 nogil
    cdef int compact(self) except -1
    cdef int compact_workspace(self) except -1


cdef inline size_t rarest_atoms(
    const AtomSets *sets, const size_t *held, uint64_t *atoms
) noexcept nogil:
    """Choose from sets of atoms the one that the fewest events have; return at most how many.

    held: how many events have each atom.
    """
    cdef size_t least = SIZE_MAX
    cdef size_t count
    cdef uint32_t k, atom
    for k in range(sets.count):
        count = 0
        for atom in range(MOST_SET_ATOMS):
            if sets.sets[k] >> atom & 1:
                count += held[atom]
        if count < least:
            least = count
            atoms[0] = sets.sets[k]
    return least


cdef inline size_t next_marked(const uint64_t *words, size_t place, size_t count) noexcept nogil:
    """The first marked place from one on; `count`, behind which none is marked, if there is none.
    """
    cdef uint64_t word
    while place < count:
        word = words[place >> 6] >> (place & 63)
        if word:
            return place + <size_t> lowest_bit(word)
        place = (place | 63) + 1
    return count
