# cython: language_level=3
"""The chunks of rows that `RoundHistory` has."""

cdef enum:
    # words of a row: its time-stamp, its offset, and its place among the rows of the caller
    ROW_WORDS = 3
    # how many chunks a trace has room for at first
    FEW_CHUNKS = 2
    # the rows that a chunk has room for at first
    FEW_ROWS = 4
    # how many traces a batch looks at for rows to forget, beside those that it has rows of
    SWEPT_TRACES = 64


cdef struct RowChunk:
    uint64_t *words             # the places of the states at the start, by kernel; then the rows
    uint32_t count, room        # of rows
    uint32_t most               # how many rows it should have: no fewer words than its state
    uint32_t more               # what else counts as rows: see `WholeState.compute`
    bint is_dirty, is_saved
    int64_t start               # no row below belongs here, but for the first chunk
    int64_t passed              # how far time was known to have passed behind the rows; or 0
    uint64_t number             # no other chunk has had it


cdef struct RowTrace:
    RowChunk *chunks
    uint32_t first, count, room     # of chunks: those before the first one are forgotten
    uint32_t dirty_from, dirty_to   # the first and last chunk to compute again
    bint is_dirty, has_begun
    int64_t last                # no row in order is below: the time-stamp of the last one, or more
    int64_t bound               # no row below came or went when it was last looked at


cdef struct Replay:
    # A trace that is computed again: the number of its state there, and the next chunk.
    uint32_t trace, slot, chunk


cdef struct RowBuffers:
    # The rows of a call.
    uint32_t *slots
    uint64_t *places            # among the rows of the caller
    int64_t *moments            # see `Marks`
    size_t room
