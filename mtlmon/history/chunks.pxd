# cython: language_level=3
"""Declarations for the events of a trace, in chunks with the engine's state at their starts."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from mtlmon.engine.native cimport Saved


cdef extern from *:
    """
    // Read a byte, to no purpose but that it is fetched; NULL is not read.
    #define mtlmon_touch(place) \
        do { if ((place) != NULL) (void) *(volatile const char *) (place); } while (0)
    """
    void touch "mtlmon_touch"(const void *place) noexcept nogil


cdef enum:
    # the kind of a time-point without a verdict, beside those of verdict records
    STILL_OPEN = 3
    NO_CHUNK = 0xFFFFFFFF
    # how many events a chunk has at least, but for the last one, and if none of them is final when
    # the next one begins
    LEAST_SPACING = 8
    DENSE_SPACING = 32
    # up to how many chunks are searched by halving only
    FEW_CHUNKS = 64
    # how far from the last one a chunk is looked for before all are searched
    NEAR_CHUNKS = 8
    # how many forgotten chunks are kept, of those with more room fewer, and how many words of a
    # state in each
    MOST_SPARE = 1 << 14
    MOST_SPARE_DENSE = 1 << 12
    MOST_SPARE_WORDS = 64


cdef enum RowFlag:
    HAS_ID = 1      # so it can be retracted
    IS_REMOVED = 2  # was retracted: it has a name, which no other row ever gets, and is not judged
    IS_DROPPED = 4  # was retracted while it waited: it never gets a name
    IS_HIDDEN = 8   # is no time-point of the policy now; it has a name, as that may change
    IS_PASSED = 10  # IS_GONE or IS_HIDDEN: it is not judged


cdef enum Emitted:
    # what has been said of a time-point at the ends of batches
    NOT_TOLD
    EMITTED            # it has had a verdict
    TOLD_GONE       # it has had one, and it was said that it is no time-point any more


cdef struct Rows:
    # Rows of one trace, in order of time. `offsets` is for what is found, unless they are named.
    const uint64_t *time_stamps
    const uint64_t *letters
    const uint8_t *flags
    uint64_t *offsets
    bint are_named          # their offsets are given, and may have gaps
    size_t count


cdef struct Point:
    # A time-point of the history; its time-stamp stands in an array of its own.
    uint64_t offset
    uint64_t reference_time_stamp, reference_offset     # 0 unless it is equivalent
    uint32_t mark       # one more than its number in the journal, if that entry is about it
    uint8_t kind
    uint8_t is_emitted     # a `Emitted`
    uint8_t flags       # of its row


cdef struct Chunk:
    uint64_t *time_stamps   # the block that has the letters and points, too
    uint64_t *letters
    Point *points
    uint32_t count, capacity
    bint advances           # time passes to `advance` before the first event
    uint64_t advance
    bint has_passed         # whether there may be rows that are not judged
    bint is_dirty           # whether a row was retracted or revised since the chunk was judged
    bint is_saved           # else the state at the start is not known yet
    Saved saved             # the state at the start, before time passes


cdef struct Trace:
    Chunk **chunks          # those that are remembered: from `first` to below `count`
    uint32_t first, count, capacity
    uint64_t kept_from      # the first chunk ends then or later; 0 if that is not known
    uint32_t recent         # the chunk of the time-point that was found last
    uint32_t searched       # the same, but for those of the last chunk
    bint has_begun
    bint has_retractable    # whether there have been rows that can be retracted
    uint64_t last           # when the history ends: its last event or advance
    uint64_t last_event, last_offset    # the name of the last event; 0 if there is none
    uint64_t now            # the largest time-stamp so far, also of events that wait
    bint has_now
    bint has_pending        # whether a time-point is undecided, and the name of the earliest one
    uint64_t pending_from
    uint64_t pending_offset
    uint64_t moved_at       # the moves of the journal when points of this trace moved last
    uint64_t advanced       # how far time has passed without an event, 0 if it has not
    uint64_t passed         # the same, whatever the wait is
    uint64_t forgotten      # the last event that is forgotten, 0 if there is none
    uint64_t settled        # everything below was found to be final


cdef struct SpareChunks:
    # Chunks that were forgotten, whose memory new ones take.
    Chunk **chunks
    uint32_t count


cdef int copy_saved(Saved *target, const Saved *source) except -1 nogil
cdef Chunk *new_chunk(SpareChunks *spare) except NULL nogil
cdef void free_chunk(Chunk *chunk) noexcept nogil
cdef int make_spare(SpareChunks *spare) except -1
cdef void free_spare(SpareChunks *spare) noexcept nogil
cdef void free_trace(Trace *trace) noexcept nogil
cdef int add_events(Chunk *chunk, const Rows *rows, size_t words, uint64_t offset) except -1 nogil
cdef int insert_events(Chunk *chunk, const Rows *rows, size_t words) except -1 nogil
cdef int insert_chunk(Trace *trace, uint32_t place, Chunk *chunk) except -1 nogil
cdef int split_chunk(
    Trace *trace, uint32_t place, uint32_t most, size_t words, SpareChunks *spare
) except -1 nogil
cdef uint32_t chunk_at(const Trace *trace, uint64_t time_stamp) noexcept nogil
cdef uint64_t next_offset(const Trace *trace, uint64_t time_stamp) noexcept nogil
cdef Point *find_point(Trace *trace, uint64_t time_stamp, uint64_t offset) noexcept nogil
cdef Point *find_equal(
    Trace *trace, uint64_t time_stamp, const uint64_t *letter, size_t words
) noexcept nogil
cdef const uint64_t *letter_of(
    const Trace *trace, const Point *point, size_t words
) noexcept nogil
cdef bint last_below(const Trace *trace, uint64_t bound, uint64_t *time_stamp) noexcept nogil
cdef size_t count_between(const Trace *trace, uint64_t start, uint64_t end) noexcept nogil
cdef void forget_chunks(Trace *trace, uint64_t bound, SpareChunks *spare) noexcept nogil


cdef inline Rows rows_between(
    const Rows *rows, size_t first, size_t last, size_t words
) noexcept nogil:
    """The rows from number `first` to below `last`."""
    cdef Rows part
    part.time_stamps = rows.time_stamps + first
    part.letters = rows.letters + first * words
    part.flags = rows.flags + first
    part.offsets = rows.offsets + first
    part.are_named = rows.are_named
    part.count = last - first
    return part


cdef inline uint64_t start_of(const Chunk *chunk) noexcept nogil:
    """No event below this time-stamp belongs to the chunk."""
    return chunk.advance if chunk.advances else chunk.time_stamps[0]


cdef inline uint64_t end_of(const Chunk *chunk) noexcept nogil:
    """The time of the last event or advance of the chunk."""
    return chunk.time_stamps[chunk.count - 1] if chunk.count else chunk.advance


cdef inline bint may_forget(const Trace *trace, uint64_t bound) noexcept nogil:
    """Whether there may be a chunk that ends below a time-stamp; no chunk is looked at."""
    return trace.first < trace.count and trace.kept_from < bound
