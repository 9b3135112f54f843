# cython: language_level=3
"""Declarations for processing one event in a queue network."""

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef class QueueNetwork:
    # A plan in use by one thread, on one state at a time.
    cdef Program program
    cdef NetworkPlan plan
    cdef const Operator *operators
    cdef uint32_t operator_count
    cdef uint32_t words
    cdef uint32_t slots
    cdef uint64_t *values           # of rows at the present time-point
    cdef uint64_t *images           # of variables at an event in an open block
    cdef uint64_t own[MOST_FUNCTION_WORDS]      # the value of the formula at the time-point
    cdef bint has_own
    cdef Words scratch

    cdef int step(self, State *state, uint64_t time_stamp, const uint64_t *letter) except -1 nogil
    cdef int _step(
        self, uint32_t words, State *state, uint64_t time_stamp, const uint64_t *letter
    ) except -1 nogil
    cdef int advance(self, State *state, uint64_t time_stamp) except -1 nogil
    cdef int end(self, State *state) except -1 nogil
    cdef uint64_t next_change(self, const State *state) noexcept nogil

    cdef bint _is_unknown(
        self, uint32_t words, const Network *network, const Operator *temporal, int64_t position
    ) noexcept nogil
    cdef uint64_t *_function(
        self, uint32_t words, const Network *network, int64_t position, uint32_t slot
    ) noexcept nogil
    cdef uint64_t *_present(
        self, uint32_t words, const Network *network, uint32_t temporal, uint32_t which
    ) noexcept nogil
    cdef int _pass_time(
        self, uint32_t words, Network *network, History *history, uint64_t time_stamp
    ) except -1 nogil
    cdef int _close_block(self, uint32_t words, Network *network) except -1 nogil
    cdef int _open_block(
        self, uint32_t words, Network *network, uint64_t time_stamp
    ) except -1 nogil
    cdef void _tell(
        self, uint32_t words, Network *network, int64_t position, uint32_t number, uint32_t side,
        const uint64_t *function
    ) noexcept nogil
    cdef void _evaluate(
        self, uint32_t words, Network *network, const uint64_t *letter, bint is_new
    ) noexcept nogil
    cdef void _update_present(self, uint32_t words, Network *network, bint is_new) noexcept nogil
    cdef void _reach_next(
        self, uint32_t words, Network *network, uint64_t time_stamp
    ) noexcept nogil
    cdef int _substitute_classes(
        self, uint32_t words, Network *network, History *history
    ) except -1 nogil
    cdef void _note_present(self, uint32_t words, Network *network) noexcept nogil
    cdef int _settle(self, uint32_t words, Network *network, History *history) except -1 nogil
    cdef void _fix(
        self, uint32_t words, Network *network, int64_t position, uint32_t number, uint32_t side,
        uint32_t slot, uint32_t variable, bint worth
    ) noexcept nogil
    cdef void _recount(self, uint32_t words, Network *network, int64_t position) noexcept nogil
    cdef bint _recount_open(self, uint32_t words, Network *network) noexcept nogil
    cdef void _lose(
        self, uint32_t words, Network *network, int64_t position, uint64_t variables
    ) noexcept nogil
    cdef bint _silence(
        self, uint32_t words, Network *network, int64_t position, const Operator *temporal
    ) noexcept nogil
    cdef int _new_class(
        self, uint32_t words, Network *network, TimeBlock *block, uint32_t *number
    ) except -1 nogil
    cdef void _drop(
        self, uint32_t words, Network *network, int64_t position, uint32_t number
    ) noexcept nogil
    cdef int _review(
        self, uint32_t words, Network *network, History *history, int64_t position
    ) except -1 nogil
    cdef void _unlink(
        self, uint32_t words, Network *network, TimeBlock *block, uint32_t number, uint32_t before
    ) noexcept nogil
    cdef int _merge(self, uint32_t words, Network *network, History *history) except -1 nogil
    cdef int _place(
        self, uint32_t words, Network *network, History *history, uint64_t time_stamp,
        uint64_t offset
    ) except -1 nogil
    cdef int _tidy(self, uint32_t words, Network *network) except -1 nogil
    cdef int _settle_witnesses(
        self, uint32_t words, Network *network, uint32_t number, int64_t closed
    ) except -1 nogil
