# cython: language_level=3
"""States of a whole program, where it has no states by trace.

What has ticks, rows that wait or instances has a state for all traces together, as bytes. For
`RoundHistory` it is the state of one kernel. `WholeStates` in Python keeps it for each slot, and
has one of them in the program.
"""


@final
cdef class WholeState(SavedState):
    """The state of a whole program.

    states: a `WholeStates`.
    """

    def __cinit__(self, states):
        self.is_by_trace = True

    cdef int compute(
        self, uint32_t trace, uint32_t group, RowChunk *chunk, const uint64_t *places,
        size_t count, int64_t until
    ) except -1:
        """Compute rows of a chunk, and what time brings that passes without a row.

        trace: the slot whose state is before the rows.
        group: the trace of `RoundHistory` that they belong to.
        until: how far time has passed; or 0.
        """
        passed, more = self.states.compute(
            trace, group, chunk.number, chunk.start,
            (<const char *> places)[: count * sizeof(uint64_t)], until
        )
        chunk.passed = max(chunk.passed, <int64_t> passed)
        chunk.more += <uint32_t> min(<size_t> more, <size_t> (UINT32_MAX // 4))
        return 0

    cdef int cut(
        self, uint32_t trace, uint32_t group, const RowChunk *chunk, const uint64_t *places,
        size_t count, int64_t until
    ) except -1:
        """Compute the rows that a chunk begins with, which it will not have any more."""
        self.states.cut(
            trace, group, chunk.number, (<const char *> places)[: count * sizeof(uint64_t)], until
        )
        return 0
