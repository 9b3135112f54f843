# cython: language_level=3
"""Declarations for processing one event in a queue network."""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t


cdef class QueueNetwork:
    # A plan in use by one thread, on one state at a time.
    cdef Program program
    cdef NetworkPlan plan
    cdef const Operator *operators
    cdef uint32_t operator_count
    cdef const Operator *waiting    # those with a variable, by its number
    cdef uint32_t variable_count
    cdef uint64_t last_regular
    # sets of variables: those of NEXT, of UNTIL, of UNTIL with two operands; and of operators whose
    # operands can be undecided
    cdef uint16_t nexts, untils, binary_untils, users
    cdef uint32_t words
    cdef uint32_t slots
    cdef uint64_t *values           # of rows at the present time-point
    cdef uint64_t *images           # of variables at an event in an open block
    cdef uint64_t own[MOST_FUNCTION_WORDS]      # the value of the formula at the time-point
    cdef bint has_own
    cdef Words scratch
    cdef BlockAutomaton automaton   # of the last block while it is open
    cdef BlockAutomaton closed      # of closed blocks
    cdef uint64_t start_heads       # of the last new block that had no other
    cdef uint32_t start             # its state
    cdef bint has_automaton         # letters and the values of past operators fit into a word
    cdef BlockState loose           # of the last block, if the automaton does not have it
    cdef Words trial                # the functions of a block in a new state

    cdef int step(self, State *state, uint64_t time_stamp, const uint64_t *letter) except -1 nogil
    cdef int _step(
        self, uint32_t words, State *state, uint64_t time_stamp, const uint64_t *letter
    ) except -1 nogil
    cdef int advance(self, State *state, uint64_t time_stamp) except -1 nogil
    cdef int end(self, State *state) except -1 nogil
    cdef uint64_t next_change(self, const State *state) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef void detach(self, Network *network) noexcept nogil
    cdef void forget(self) noexcept nogil

    cdef const BlockStep *_new_step(
        self, uint32_t words, uint32_t source, uint64_t letter
    ) except? NULL nogil
    cdef void _note_news(self, uint32_t words, Network *network, uint64_t news) noexcept nogil
    cdef int _set_outcomes(
        self, uint32_t words, Network *network, History *history, TimeBlock *block,
        const uint32_t *outcomes
    ) except -1 nogil
    cdef uint32_t _class_at(self, const Network *network, uint32_t outcome) noexcept nogil
    cdef int _find_start(self, uint32_t words, Network *network, uint64_t heads) except -1 nogil
    cdef int _find_state(self, uint32_t words, Network *network) except -1 nogil
    cdef void _describe(
        self, uint32_t words, const uint64_t *functions, uint32_t class_count, BlockState *state
    ) noexcept nogil
    cdef void _find_halves(
        self, BlockState *state, uint32_t number, const uint64_t *right, uint32_t size
    ) noexcept nogil
    cdef void _unfold(self, uint32_t words, Network *network) noexcept nogil
    cdef void _unfold_classes(self, uint32_t words, Network *network) noexcept nogil
    cdef void _gather(self, uint32_t words, Network *network) noexcept nogil
    cdef void _emit_past(
        self, uint32_t words, Network *network, int64_t position, uint32_t variable,
        const BlockState *block
    ) noexcept nogil

    cdef int _find_closed(
        self, uint32_t words, Network *network, int64_t position, BlockState *state,
        const uint64_t *functions
    ) except -1 nogil
    cdef bint _intern_closed(
        self, uint32_t words, Network *network, int64_t position
    ) except -1 nogil
    cdef int _intern_trial(
        self, uint32_t words, uint32_t class_count, uint32_t *number
    ) except -1 nogil
    cdef bint _follow_closed(
        self, uint32_t words, Network *network, History *history, int64_t position, uint32_t code
    ) except -1 nogil
    cdef const BlockStep *_new_closed_step(
        self, uint32_t words, uint32_t source, uint32_t code
    ) except? NULL nogil
    cdef void _write_out(self, uint32_t words, Network *network, int64_t position) noexcept nogil

    cdef bint _is_unknown(
        self, uint32_t words, const Network *network, const Operator *temporal, int64_t position
    ) noexcept nogil
    cdef bint _is_asked(
        self, uint32_t words, const Network *network, const Operator *temporal
    ) noexcept nogil
    cdef uint64_t *_function(
        self, uint32_t words, const Network *network, int64_t position, uint32_t slot
    ) noexcept nogil
    cdef uint32_t _slot_words(self, uint32_t words, uint32_t slot) noexcept nogil
    cdef uint64_t *_present(
        self, uint32_t words, const uint64_t *present, uint32_t temporal, uint32_t which
    ) noexcept nogil
    cdef const uint64_t *_class_function(
        self, const Network *network, int64_t position, uint32_t number, uint32_t place
    ) noexcept nogil
    cdef int _pass_time(
        self, uint32_t words, Network *network, History *history, uint64_t time_stamp
    ) except -1 nogil
    cdef int _close_block(self, uint32_t words, Network *network) except -1 nogil
    cdef uint64_t _asked(self, uint32_t words, const Network *network) noexcept nogil
    cdef uint64_t _keep_functions(
        self, uint32_t words, Network *network, int64_t position, const BlockState *state,
        const uint64_t *functions, uint64_t asked
    ) noexcept nogil
    cdef int _open_block(
        self, uint32_t words, Network *network, uint64_t time_stamp
    ) except -1 nogil
    cdef void _emit(
        self, uint32_t words, Network *network, int64_t position, uint32_t number, uint32_t side,
        bint value
    ) noexcept nogil
    cdef void _evaluate(
        self, uint32_t words, uint64_t *present, uint64_t now, const uint64_t *letter, bint is_new
    ) noexcept nogil
    cdef void _update_present(
        self, uint32_t words, uint64_t *present, bint is_new
    ) noexcept nogil
    cdef void _order(self, uint32_t words, uint64_t *function, uint64_t begun) noexcept nogil
    cdef int _begin_windows(
        self, uint32_t words, Network *network, History *history
    ) except -1 nogil
    cdef int _order_block(
        self, uint32_t words, Network *network, History *history, int64_t position,
        uint32_t variable
    ) except -1 nogil
    cdef int _reach_next(
        self, uint32_t words, Network *network, History *history, uint64_t time_stamp
    ) except -1 nogil
    cdef int _substitute_classes(
        self, uint32_t words, Network *network, History *history
    ) except -1 nogil
    cdef void _note_present(self, uint32_t words, Network *network) noexcept nogil
    cdef void _note(
        self, uint32_t words, Network *network, uint32_t variable, const BlockState *block
    ) noexcept nogil
    cdef void _note_halves(
        self, uint32_t words, Network *network, const BlockState *block
    ) noexcept nogil
    cdef void _note_half(
        self, uint32_t words, Network *network, uint32_t number, int64_t position, bint value
    ) noexcept nogil
    cdef bint _can_imply(self, const TimeBlock *block, uint32_t number) noexcept nogil
    cdef int _imply(
        self, uint32_t words, Network *network, History *history, int64_t position, uint32_t number
    ) except -1 nogil
    cdef int _settle(self, uint32_t words, Network *network, History *history) except -1 nogil
    cdef void _fix(
        self, uint32_t words, Network *network, int64_t position, uint32_t number, uint32_t side,
        uint32_t slot, uint32_t variable, uint8_t worth, uint32_t inner=*
    ) noexcept nogil
    cdef int _recount(self, uint32_t words, Network *network, int64_t position) except -1 nogil
    cdef bint _recount_open(self, uint32_t words, Network *network) except -1 nogil
    cdef int _lose(
        self, uint32_t words, Network *network, int64_t position, uint64_t variables
    ) except -1 nogil
    cdef bint _silence(
        self, uint32_t words, Network *network, int64_t position, const Operator *temporal
    ) except -1 nogil
    cdef bint _say_nothing(
        self, uint32_t words, uint64_t *functions, const Operator *temporal
    ) noexcept nogil
    cdef int _new_class(
        self, uint32_t words, Network *network, TimeBlock *block, uint32_t *number
    ) except -1 nogil
    cdef int _drop(
        self, uint32_t words, Network *network, int64_t position, uint32_t number
    ) except -1 nogil
    cdef int _review(
        self, uint32_t words, Network *network, History *history, int64_t position
    ) except -1 nogil
    cdef int _mark_dirty(self, Network *network, int64_t position) except -1 nogil
    cdef void _unlink(
        self, uint32_t words, Network *network, TimeBlock *block, uint32_t number, uint32_t before
    ) noexcept nogil
    cdef int _merge(self, uint32_t words, Network *network, History *history) except -1 nogil
    cdef int _place(
        self, uint32_t words, Network *network, State *state, uint32_t outcome, uint32_t number
    ) except -1 nogil
    cdef uint32_t _own_outcome(
        self, uint32_t words, const Network *network, uint32_t *number
    ) noexcept nogil
    cdef int _tidy(self, uint32_t words, Network *network) except -1 nogil
    cdef int _settle_witnesses(
        self, uint32_t words, Network *network, uint32_t number, int64_t closed
    ) except -1 nogil
