# cython: language_level=3
"""Histories in parts, from which `mtlmon.history.snapshots` makes bytes."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from mtlmon.engine.native cimport MAX_TIME_STAMP, give_state, put_word

from mtlmon.errors import SnapshotError

_DAMAGED = "the snapshot of a history is damaged"


def first_state(Histories histories not None):
    """The engine's snapshot of a trace without events."""
    histories.require_ready()
    histories.park()
    give_state(histories.session.table, &histories.session.state, &histories.blank)
    return histories.session.snapshot()


def trace_parts(Histories histories not None, uint32_t number):
    """What `add_trace` needs to rebuild a trace.

    Returns:
        The engine's snapshot at the start of what is remembered; time-stamps, letters, and
        whether each time-point has had a verdict, as bytes; the offset of the first event; the
        places of events before which time passes and the time-stamps it passes to; and whether
        the trace has events, where it ends, and the largest time-stamp so far or None.
    """
    cdef Trace *trace
    cdef const Chunk *chunk
    cdef uint32_t k, i
    cdef list time_stamps = []
    cdef list letters = []
    cdef list advances = []
    cdef bytearray told = bytearray()
    histories.require_ready()
    if number >= histories.trace_count:
        raise IndexError(number)
    trace = &histories.traces[number]
    histories.park()
    give_state(
        histories.session.table, &histories.session.state,
        &trace.live if trace.first == trace.count else &trace.chunks[trace.first].saved
    )
    state = histories.session.snapshot()
    offset = None
    for k in range(trace.first, trace.count):
        chunk = trace.chunks[k]
        if chunk.advances:
            advances.append((len(told), chunk.advance))
        if chunk.count == 0:
            continue
        if offset is None:
            offset = chunk.points[0].offset
        time_stamps.append((<char *> chunk.time_stamps)[:chunk.count * sizeof(uint64_t)])
        letters.append(
            (<char *> chunk.letters)[:chunk.count * histories.words * sizeof(uint64_t)]
        )
        for i in range(chunk.count):
            told.append(chunk.points[i].is_told)
    return (
        state, b"".join(time_stamps), b"".join(letters), bytes(told), offset or 0, advances,
        trace.has_begun, trace.last, trace.now if trace.has_now else None
    )


def add_trace(
    Histories histories not None, state, bytes time_stamps not None, bytes letters not None,
    bytes told not None, uint64_t offset, list advances not None, bint has_begun, uint64_t last, now
):
    """Add a trace from its parts: its events are judged again.

    Raises:
        SnapshotError: the parts do not fit each other.
    """
    cdef uint32_t number = histories.trace_count
    cdef size_t count = len(told)
    cdef size_t done = 0
    cdef size_t place, k
    cdef uint64_t clock = 0
    cdef const uint64_t *times = <const uint64_t *> <const char *> time_stamps
    cdef const uint64_t *bits = <const uint64_t *> <const char *> letters
    cdef const char *flags = told
    cdef size_t words = histories.words
    cdef size_t atoms = len(histories.session.program.atoms)
    cdef Trace *trace
    cdef Chunk *chunk
    cdef uint32_t c, i
    if len(time_stamps) != 8 * count or len(letters) != 8 * count * histories.words:
        raise SnapshotError(_DAMAGED)
    histories.park()
    histories.session.restore(state)
    clock = histories.session.state.clock
    for place, time_stamp in [*advances, (count, MAX_TIME_STAMP())]:
        if not done <= place <= count or time_stamp > MAX_TIME_STAMP():
            raise SnapshotError(_DAMAGED)
        for k in range(done, place):
            if times[k] < clock or times[k] > MAX_TIME_STAMP():
                raise SnapshotError(_DAMAGED)
            if not is_letter(bits + k * words, words, atoms):
                raise SnapshotError(_DAMAGED)
            clock = times[k]
        if time_stamp < clock:
            raise SnapshotError(_DAMAGED)
        clock = time_stamp
        done = place
    histories.make_traces(<size_t> number + 1)
    histories.loaded = number
    trace = &histories.traces[number]
    trace.has_begun = has_begun
    trace.last = last
    histories.session.enter()
    try:
        done = 0
        for place, time_stamp in [*advances, (count, None)]:
            if done < place:
                if done:
                    offset = next_offset(trace, times[done])
                histories.append(
                    number, times + done, bits + done * histories.words, place - done, offset
                )
                done = place
            if time_stamp is not None:
                # time has passed further already if later advances are forgotten
                trace.has_begun = False
                histories.pass_time(number, time_stamp)
    finally:
        if not histories.session.is_broken():
            histories.session.leave()
    trace.has_begun = has_begun
    trace.last = last
    if now is not None:
        trace.has_now = True
        trace.now = now
    done = 0
    for c in range(trace.first, trace.count):
        chunk = trace.chunks[c]
        for i in range(chunk.count):
            chunk.points[i].is_told = flags[done] != 0
            done += 1
    histories.journal.count = 0


def waiting_parts(Histories histories not None):
    """The events that wait, as bytes: time-stamps, letters and numbers of traces."""
    cdef size_t count = histories.arrivals.count
    if count == 0:
        return b"", b"", b""
    return (
        (<char *> histories.arrivals.time_stamps)[:count * sizeof(uint64_t)],
        (<char *> histories.arrivals.letters)[:count * histories.words * sizeof(uint64_t)],
        (<char *> histories.arrivals.traces)[:count * sizeof(uint32_t)],
    )


cdef bint is_letter(const uint64_t *letter, size_t words, size_t atoms) noexcept nogil:
    """Whether a letter has no bits beyond those of the formula's atoms."""
    cdef size_t k
    for k in range(words):
        if 64 * k >= atoms:
            if letter[k]:
                return False
        elif atoms - 64 * k < 64 and letter[k] >> (atoms - 64 * k):
            return False
    return True


def add_waiting(
    Histories histories not None, bytes time_stamps not None, bytes letters not None,
    bytes traces not None
):
    """Let events wait, after all traces have been added."""
    cdef size_t count = len(traces) // sizeof(uint32_t)
    cdef size_t k
    if (
        len(traces) != 4 * count or len(time_stamps) != 8 * count
        or len(letters) != 8 * count * histories.words
    ):
        raise SnapshotError(_DAMAGED)
    if count == 0:
        return
    make_arrival_room(&histories.arrivals, count, histories.words)
    memcpy(histories.arrivals.time_stamps, <const char *> time_stamps, len(time_stamps))
    memcpy(histories.arrivals.letters, <const char *> letters, len(letters))
    memcpy(histories.arrivals.traces, <const char *> traces, len(traces))
    for k in range(count):
        if (
            histories.arrivals.traces[k] >= histories.trace_count
            or histories.arrivals.time_stamps[k] > MAX_TIME_STAMP()
            or not is_letter(
                histories.arrivals.letters + k * histories.words, histories.words,
                len(histories.session.program.atoms)
            )
        ):
            raise SnapshotError(_DAMAGED)
    histories.arrivals.count = <uint32_t> count


def remembered_advances(Histories histories not None):
    """When time has passed, as far as it matters for traces whose first event is to come."""
    return [histories.advances.items[k] for k in range(histories.advances.count)]


def set_facts(
    Histories histories not None, now, list advances not None, uint64_t events, uint64_t late,
    uint64_t refused
):
    """Go on from a snapshot: the largest time-stamp so far or None, advances, and counts."""
    histories.has_now = now is not None
    histories.now_of_all = 0 if now is None else now
    for time_stamp in advances:
        put_word(&histories.advances, time_stamp)
    histories.event_count = events
    histories.late_count = late
    histories.refused_count = refused
