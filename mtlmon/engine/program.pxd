# cython: language_level=3
"""Declarations for the compiled formula."""

from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t

# The largest time-stamp and bound; UNBOUNDED represents an upper bound without limit.
cdef enum:
    NO_SLOT = 0xFFFFFFFF
    NO_FIXED_VERDICT = 0xFF

cdef inline uint64_t MAX_TIME_STAMP() noexcept nogil:
    return (<uint64_t> 1 << 63) - 1


cdef inline uint64_t UNBOUNDED() noexcept nogil:
    return UINT64_MAX


cdef enum Operation:
    # The order is that of mtlmon.engine.compile.OPERATIONS.
    OP_FALSE = 0
    OP_ATOM = 1
    OP_AND = 2
    OP_PREVIOUS = 3
    OP_SINCE = 4
    OP_NEXT = 5
    OP_UNTIL = 6
    OP_OUTER_UNTIL = 7
    OPERATION_COUNT = 8


cdef struct Instruction:
    uint64_t lower
    uint64_t upper      # UNBOUNDED() if there is no limit
    # Operands: instruction number * 2 + 1 if negated. Instruction 0 is FALSE.
    uint32_t left
    uint32_t right
    # What the instruction owns: the number of its atom (ATOM), stored value (PREVIOUS), witnesses
    # (SINCE), slot (NEXT), family of obligations (UNTIL) or outer operator (OUTER_UNTIL).
    uint32_t index
    uint8_t operation


cdef enum:
    # Programs with more atoms have no `AtomSets`.
    MOST_SET_ATOMS = 6
    MOST_ATOM_SETS = 20


cdef struct AtomSets:
    # Sets of atoms, as bits: if an event has no atom of one of them, it makes no difference. None
    # is part of another one. There are none if every event may make a difference.
    uint32_t count
    uint8_t sets[MOST_ATOM_SETS]


cdef struct OuterUntil:
    # An UNTIL below no temporal operator. Its obligations are placeholders, one for each phase.
    uint64_t lower
    uint64_t upper
    uint32_t open_slot
    uint32_t closed_slot    # NO_SLOT if lower is 0


cdef class Program:
    cdef Instruction *instructions
    cdef uint32_t instruction_count
    cdef readonly uint32_t root         # an operand
    cdef uint32_t atom_count
    cdef uint32_t previous_count
    cdef uint32_t since_count
    cdef uint32_t family_count
    # Fixed slots: the slots of NEXT and of the outer UNTILs, with one variable each for the whole
    # program.
    cdef uint32_t fixed_slot_count
    cdef uint8_t *is_placeholder        # of each fixed slot: means another obligation per anchor
    cdef uint32_t *slot_outer           # of each fixed slot: its outer UNTIL, NO_SLOT for NEXT
    cdef OuterUntil *outer_untils
    cdef uint32_t outer_count
    cdef readonly tuple atoms
    cdef readonly bint is_bounded
    # the verdict of every event without atoms, if these make no difference to any other
    # time-point, else NO_FIXED_VERDICT
    cdef uint8_t empty_verdict
    # for events that have this verdict, too, and make no difference to any other time-point; and to
    # one of those behind them if nothing is pending or remembered
    cdef AtomSets moving, stirring
    cdef readonly tuple rows
    cdef NetworkPlan plan               # None if the formula needs expressions

    cdef size_t held_bytes(self) noexcept nogil
    cdef int _find_idle_letters(self) except -1
    cdef uint8_t _verdict_of(self, uint64_t letter, bint is_new, uint8_t *values) noexcept nogil
    cdef void _find_sets(self, bint is_new, uint8_t *values, AtomSets *found) noexcept nogil
    cdef int _read_row(self, uint32_t number, tuple row) except -1
    cdef uint32_t _new_slot(self, bint is_placeholder, uint32_t outer) noexcept
    cdef void _new_outer_until(self, Instruction *instruction) noexcept
