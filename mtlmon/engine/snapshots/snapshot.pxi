# cython: language_level=3
"""Snapshots: encode a state as bytes that outlive the process, and decode it.

A snapshot is the word `mtlmon`, a version, a digest of the program and the mode, a digest of all
that follows, and the state as numbers in the form of `encoding`: its counters, its clock, and the
words of its canonical form. The content of a snapshot is not trusted: every number is checked
before it is used, and nothing is allocated that the bytes do not account for.
"""

from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT32_MAX, UINT64_MAX, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

from mtlmon.errors import SnapshotError

_MAGIC = b"mtlmon"
_VERSION = 2
_HEADER_BYTES = len(_MAGIC) + 1 + 2 * DIGEST_BYTES


cdef bytes kind_of(Engine engine, Mode mode):
    """The digest that identifies the program and the mode of a snapshot."""
    return digest(repr((engine.program.__reduce__()[1], <int> mode)).encode())


# ---- writing -----------------------------------------------------------------------------------


cdef bytes encode(Table table, State *state):
    """The snapshot of a state, as it is between events."""
    body = encode_body(table, state)
    return b"%b%c%b%b%b" % (
        _MAGIC, _VERSION, kind_of(table.engine, state.history.mode), digest(body), body
    )


cdef bytes encode_body(Table table, State *state):
    """What a snapshot has behind its head."""
    cdef NumberWriter writer = NumberWriter()
    cdef Words words
    cdef uint32_t k
    memset(&words, 0, sizeof(Words))
    put_counters(writer, state)
    try:
        write_state(table, state, &words)
        for k in range(words.count):
            # A function that is true everywhere is the largest of all words.
            writer.put(words.items[k] + 1)
    finally:
        free(words.items)
    return writer.taken()


cdef int put_counters(NumberWriter writer, const State *state) except -1:
    writer.put(state.event_count)
    writer.put(state.time_stamp)
    writer.put(state.offset)
    writer.put(state.clock - state.time_stamp)
    writer.put(state.history.true_count)
    writer.put(state.history.false_count)
    writer.put(state.history.peak_pending)
    return 0


# ---- reading -----------------------------------------------------------------------------------


cdef int decode(Table table, State *state, Mode mode, snapshot) except -1:
    """Load a snapshot into a zeroed state; free it with `free_state` even after an error.

    Raises SnapshotError if the bytes are not a snapshot of this version, program and mode.
    """
    cdef bytes data = as_bytes(snapshot)
    if len(data) < _HEADER_BYTES or not data.startswith(_MAGIC):
        raise SnapshotError("this is not a snapshot of a monitor")
    if data[len(_MAGIC)] != _VERSION:
        raise SnapshotError(
            f"the snapshot has version {data[len(_MAGIC)]}; this version of mtlmon reads "
            f"version {_VERSION} only"
        )
    place = len(_MAGIC) + 1
    if data[place:place + DIGEST_BYTES] != kind_of(table.engine, mode):
        raise SnapshotError("the snapshot is of another formula or mode")
    if data[place + DIGEST_BYTES:_HEADER_BYTES] != digest(memoryview(data)[_HEADER_BYTES:]):
        raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
    return decode_body(table, state, mode, data, _HEADER_BYTES)


cdef int decode_body(
    Table table, State *state, Mode mode, bytes data, size_t place
) except -1:
    """Load what a snapshot has behind its head, from a position on, into a zeroed state."""
    cdef NumberReader reader = NumberReader()
    cdef Words words
    memset(&words, 0, sizeof(Words))
    init_state(state, table.engine.program, mode)
    reader.open(data, place)
    get_counters(reader, state)
    try:
        # Each word takes at least one byte.
        reserve_words(&words, reader.size - reader.place)
        while reader.place < reader.size:
            words.items[words.count] = reader.get(UINT64_MAX) - 1
            words.count += 1
        if not read_state(table, state, words.items, words.count):
            raise damaged()
    finally:
        free(words.items)
    return 0


cdef int get_counters(NumberReader reader, State *state) except -1:
    """Read what `put_counters` has written."""
    state.event_count = reader.get(UINT64_MAX)
    state.time_stamp = reader.get(INT64_MAX)
    state.offset = reader.get(UINT64_MAX)
    # At most one beyond the largest time-stamp, which is the end of a complete log.
    state.clock = state.time_stamp + reader.get(MAX_TIME_STAMP() + 1 - state.time_stamp)
    state.history.true_count = reader.get(UINT64_MAX)
    state.history.false_count = reader.get(UINT64_MAX)
    state.history.peak_pending = <uint32_t> reader.get(UINT32_MAX)
    return 0
