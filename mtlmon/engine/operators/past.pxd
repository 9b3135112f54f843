# cython: language_level=3
"""Declarations for the rows of a program that no future operator is below."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t


cdef struct Waking:
    # A row, and the time-stamp from which on its value can have changed.
    uint64_t time_stamp
    uint32_t row


cdef struct Steady:
    # A SINCE whose operands both hold, with its last witness, which is the last event.
    Run *run
    uint64_t upper
    uint32_t row


cdef class PastRows:
    cdef Program program
    cdef uint64_t evaluation            # the number of the last evaluation with these lists
    cdef uint64_t *letter               # of the last event
    # 0, which evaluates to what it is, for an atom that the formula does not need
    cdef uint32_t *row_of_atom
    cdef uint32_t *user_starts          # by row: where its users begin in `users`
    cdef uint32_t *users                # the rows of the past that have a row as an operand
    cdef uint32_t *others               # the rows of the future, operands before operators
    cdef uint32_t other_count
    # bitmaps by row: all rows of the past, and those to be evaluated at this event
    cdef uint64_t *all_rows
    cdef uint64_t *marked
    cdef uint32_t word_count
    cdef uint32_t row_count             # of the past
    cdef uint32_t pause, next_pause     # so many events evaluate all rows
    # rows to be evaluated at every event
    cdef uint32_t *active
    cdef uint32_t active_count
    cdef Steady *steady
    cdef uint32_t steady_count
    cdef uint32_t *steady_places        # by row: its place + 1, or 0
    # a heap of rows that wait for time to pass, each at most once
    cdef Waking *heap
    cdef uint32_t heap_count
    cdef uint32_t *heap_places          # by row: its place + 1, or 0
    cdef uint64_t *wake_times           # by row: may be later than that in the heap

    cdef void begin(
        self, uint64_t evaluation, const uint64_t *letter, uint64_t time_stamp
    ) noexcept nogil
    cdef void leave_steady(self, uint32_t row) noexcept nogil
    cdef void mark_users(self, uint32_t row) noexcept nogil
    cdef void plan(self, uint32_t row, Witnesses *witnesses, const uint32_t *values) noexcept nogil
    cdef void finish(
        self, uint64_t time_stamp, uint32_t evaluated, uint64_t evaluation
    ) noexcept nogil
    cdef bint is_paused(self) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef void _plan_since(
        self, uint32_t row, const Instruction *instruction, Witnesses *witnesses, bint left,
        bint right, bint value
    ) noexcept nogil
    cdef void _mark(self, uint32_t row) noexcept nogil
    cdef void _wake_at(self, uint32_t row, uint64_t time_stamp) noexcept nogil
    cdef void _put(self, uint32_t place, uint64_t time_stamp, uint32_t row) noexcept nogil
    cdef void _sink_first(self, Waking waking) noexcept nogil


cdef PastRows rows_of_the_past(Program program)
