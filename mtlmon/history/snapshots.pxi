# cython: language_level=3
"""Histories in parts, from which `mtlmon.history.snapshots` makes bytes."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mtlmon.engine.native cimport MAX_TIME_STAMP, State, give_state, put_word, reserve

from mtlmon.errors import SnapshotError

_DAMAGED = "the snapshot of a history is damaged"


def first_state(Histories histories not None):
    """The engine's snapshot of a trace without events."""
    histories.require_ready()
    histories.park()
    histories.ends.load_initial()
    return uncounted(histories)


def trace_parts(Histories histories not None, uint32_t number):
    """What `add_trace` needs to rebuild a trace.

    Returns:
        The engine's snapshot at the start of what is remembered; time-stamps, letters, with all
        offsets behind them if events come with these, and what has been told of each time-point,
        with four times the flags of its row, as bytes; the offset of the first event; the places of
        events before which time passes and the time-stamps it passes to; and whether the trace has
        events, where it ends, the largest time-stamp so far or None, how far time has passed with
        the wait and without it, the last event that is forgotten, what is final, and whether there
        have been rows that can be retracted.
    """
    cdef Trace *trace
    cdef const Chunk *chunk
    cdef uint32_t k, i
    cdef list time_stamps = []
    cdef list letters = []
    cdef list offsets = []
    cdef list advances = []
    cdef bytearray emitted = bytearray()
    histories.require_ready()
    if number >= histories.trace_count:
        raise IndexError(number)
    trace = &histories.traces[number]
    histories.park()
    if trace.first == trace.count:
        histories.make_live(number)
    else:
        give_state(
            histories.session.table, &histories.session.state, &trace.chunks[trace.first].saved
        )
    state = uncounted(histories)
    offset = None
    for k in range(trace.first, trace.count):
        chunk = trace.chunks[k]
        if chunk.advances:
            advances.append((len(emitted), chunk.advance))
        if chunk.count == 0:
            continue
        if offset is None:
            offset = chunk.points[0].offset
        time_stamps.append((<char *> chunk.time_stamps)[:chunk.count * sizeof(uint64_t)])
        letters.append(
            (<char *> chunk.letters)[:chunk.count * histories.words * sizeof(uint64_t)]
        )
        for i in range(chunk.count):
            emitted.append(chunk.points[i].is_emitted | chunk.points[i].flags << 2)
            if histories.is_named:
                offsets.append(chunk.points[i].offset.to_bytes(8, "little"))
    return (
        state, b"".join(time_stamps), b"".join(letters + offsets), bytes(emitted), offset or 0,
        advances, trace.has_begun, trace.last, trace.now if trace.has_now else None, trace.advanced,
        trace.passed, trace.forgotten, trace.settled, bool(trace.has_retractable)
    )


cdef bytes uncounted(Histories histories):
    """The snapshot of the session's state, which does not depend on how the state was reached."""
    cdef State *state = &histories.session.state
    state.event_count = min(state.event_count, <uint64_t> 1)
    state.history.true_count = state.history.false_count = state.history.peak_pending = 0
    return histories.session.snapshot()


def add_trace(
    Histories histories not None, state, bytes time_stamps not None, bytes letters not None,
    bytes emitted not None, uint64_t offset, list advances not None, bint has_begun, uint64_t last,
    now, uint64_t advanced, uint64_t passed, uint64_t forgotten, uint64_t settled,
    bint has_retractable
):
    """Add a trace from its parts: its events are judged again.

    Raises:
        SnapshotError: the parts do not fit each other.
    """
    cdef uint32_t number = histories.trace_count
    cdef size_t count = len(emitted)
    cdef size_t done = 0
    cdef size_t place, k
    cdef uint64_t clock = 0
    cdef const uint64_t *times = <const uint64_t *> <const char *> time_stamps
    cdef const uint64_t *bits = <const uint64_t *> <const char *> letters
    cdef bytes flags = bytes([flag >> 2 for flag in emitted])
    cdef bytearray offsets = bytearray(8 * count)
    cdef Rows rows, part
    cdef size_t words = histories.words
    cdef size_t atoms = atom_count(histories)
    cdef Trace *trace
    cdef Chunk *chunk
    cdef uint32_t c, i
    if len(time_stamps) != 8 * count or (
        len(letters) != 8 * count * (histories.words + histories.is_named)
    ):
        raise SnapshotError(_DAMAGED)
    if histories.is_named:
        offsets = bytearray(letters[8 * count * words:])
    for flag in emitted:
        if flag & 3 > TOLD_GONE or flag >> 2 & ~(HAS_ID | IS_REMOVED | IS_HIDDEN):
            raise SnapshotError(_DAMAGED)
    rows.time_stamps = times
    rows.letters = bits
    rows.flags = <const uint8_t *> <const char *> flags
    rows.offsets = <uint64_t *> <char *> offsets
    rows.are_named = histories.is_named
    rows.count = count
    for k in range(1, count if histories.is_named else 0):
        if times[k] == times[k - 1] and rows.offsets[k] <= rows.offsets[k - 1]:
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
                part = rows_between(&rows, done, place, words)
                histories.append(number, &part, offset)
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
    trace.advanced = advanced
    trace.passed = passed
    trace.forgotten = forgotten
    trace.settled = settled
    trace.has_retractable = has_retractable
    histories.has_retractable = histories.has_retractable or has_retractable
    if now is not None:
        trace.has_now = True
        trace.now = now
    done = 0
    for c in range(trace.first, trace.count):
        chunk = trace.chunks[c]
        for i in range(chunk.count):
            chunk.points[i].is_emitted = emitted[done] & 3
            done += 1
    histories.journal.count = 0


def waiting_parts(Histories histories not None):
    """The events that wait, as bytes: time-stamps, letters, numbers of traces, rows and ids."""
    cdef size_t count = histories.arrivals.count
    cdef size_t k
    cdef dict numbers = {}
    cdef list found = []
    if count == 0:
        return b"", b"", b"", b"", b""
    for number, handle in enumerate(histories.ids.values()):
        numbers[handle] = number
    for k in range(count):
        found.append(numbers.get(histories.arrivals.handles[k], <uint32_t> NO_HANDLE))
    return (
        (<char *> histories.arrivals.time_stamps)[:count * sizeof(uint64_t)],
        (<char *> histories.arrivals.letters)[:count * histories.words * sizeof(uint64_t)],
        (<char *> histories.arrivals.traces)[:count * sizeof(uint32_t)],
        (<char *> histories.arrivals.numbers)[:count * sizeof(uint64_t)],
        b"".join([number.to_bytes(4, "little") for number in found]),
    )


def facts_of(Histories histories not None):
    """What is known beside traces and events that wait, for `set_facts`, as JSON can say it.

    Of each id there are the trace, the time-stamp and the offset of its event, -1 if that waits; of
    each retraction that waits since when, and its id, or the trace, time-stamp and letter.
    """
    cdef list ids = []
    cdef list intervals = []
    cdef const Handle *handle
    cdef const Interval *interval
    cdef uint32_t k
    for name, number in histories.ids.items():
        handle = &histories.handles[<uint32_t> number]
        ids.append((name, handle.trace, handle.time_stamp, -1 if handle.waits else handle.offset))
    for k in range(histories.interval_count):
        interval = &histories.intervals[k]
        intervals.append((interval.start, interval.end, interval.expected, interval.found))
    return {
        "ids": ids,
        "awaited": list(histories.awaited.items()),
        "awaited_rows": [
            (trace, time_stamp, letter.hex(), since)
            for since, (trace, time_stamp, letter) in histories.awaited_since
            if since in histories.awaited_rows.get((trace, time_stamp, letter), ())
        ],
        "intervals": intervals,
        # as far as it matters for traces whose first event is to come
        "advances": [histories.advances.items[k] for k in range(histories.advances.count)],
        "now": histories.now_of_all if histories.has_now else None,
        "known": [
            histories.passed_of_all, histories.closed_below, histories.earliest,
            bool(histories.takes_ids), histories.event_count, histories.late_count,
            histories.refused_count, histories.retracted_count, histories.duplicate_count,
            histories.unmatched_count, histories.incomplete_count, histories.row_count,
        ],
    }


def set_facts(Histories histories not None, dict facts not None, bytes waiting not None):
    """Go on from what `facts_of` has returned, after all events have been added.

    waiting: for each event that waits the number of its id, as `waiting_parts` returns them.

    Raises:
        SnapshotError: the facts do not fit the events, or each other.
    """
    cdef Interval *interval
    add_ids(histories, facts["ids"], waiting)
    reserve(
        <void **> &histories.intervals, &histories.interval_room, len(facts["intervals"]),
        sizeof(Interval)
    )
    for start, end, expected, found in facts["intervals"]:
        interval = &histories.intervals[histories.interval_count]
        interval.start = start
        interval.end = end
        interval.expected = expected
        interval.found = found
        histories.interval_count += 1
    for time_stamp in facts["advances"]:
        put_word(&histories.advances, time_stamp)
    histories.has_now = facts["now"] is not None
    histories.now_of_all = facts["now"] or 0
    (
        histories.passed_of_all, histories.closed_below, histories.earliest, histories.takes_ids,
        histories.event_count, histories.late_count, histories.refused_count,
        histories.retracted_count, histories.duplicate_count, histories.unmatched_count,
        histories.incomplete_count, histories.row_count,
    ) = facts["known"]
    add_retractions(histories, facts["awaited"], facts["awaited_rows"])


cdef int add_ids(Histories histories, list ids, bytes waiting) except -1:
    """Remember ids, with the numbers that events which wait have among them."""
    cdef uint32_t number, k
    cdef Handle *handle
    cdef const uint32_t *numbers = <const uint32_t *> <const char *> waiting
    if <size_t> len(ids) >= <size_t> NO_HANDLE or (
        len(waiting) != 4 * <size_t> histories.arrivals.count
    ):
        raise SnapshotError(_DAMAGED)
    reserve(<void **> &histories.handles, &histories.handle_room, len(ids), sizeof(Handle))
    for number, (name, trace, time_stamp, offset) in enumerate(ids):
        if trace >= histories.trace_count:
            raise SnapshotError(_DAMAGED)
        handle = &histories.handles[number]
        handle.trace = trace
        handle.time_stamp = time_stamp
        handle.waits = offset < 0
        handle.offset = 0 if offset < 0 else offset
        handle.place = NO_HANDLE
        histories.ids[name] = number
    histories.handle_count = <uint32_t> len(ids)
    if len(histories.ids) != histories.handle_count:
        raise SnapshotError(_DAMAGED)
    for k in range(histories.arrivals.count):
        number = numbers[k]
        histories.arrivals.handles[k] = number
        histories.arrivals.flags[k] = 0
        if number == NO_HANDLE:
            continue
        if number >= histories.handle_count or not histories.handles[number].waits:
            raise SnapshotError(_DAMAGED)
        histories.arrivals.flags[k] = HAS_ID
        histories.handles[number].place = k
    for number in range(histories.handle_count):
        if histories.handles[number].waits and histories.handles[number].place == NO_HANDLE:
            raise SnapshotError(_DAMAGED)
    return 0


cdef int add_retractions(Histories histories, list ids, list rows) except -1:
    """Let retractions wait.

    Raises:
        SnapshotError: they came later than the last row, or are of no trace or letter there is.
    """
    cdef uint64_t time_stamp, since
    cdef uint32_t trace
    cdef bytes letter
    cdef tuple key
    for name, since in ids:
        if since > histories.now_of_all:
            raise SnapshotError(_DAMAGED)
        histories.awaited[name] = since
    for trace, time_stamp, text, since in rows:
        letter = bytes.fromhex(text)
        if (
            since > histories.now_of_all or trace >= histories.trace_count
            or len(letter) != histories.words * sizeof(uint64_t)
        ):
            raise SnapshotError(_DAMAGED)
        key = (trace, time_stamp, letter)
        histories.awaited_rows.setdefault(key, []).append(since)
        histories.awaited_since.append((since, key))
    return 0


cdef size_t atom_count(Histories histories):
    """How many bits letters have."""
    return len(histories.session.program.atoms) if histories.judges else 64


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
    bytes traces not None, bytes numbers not None
):
    """Let events wait, after all traces have been added; then call `add_ids`."""
    cdef size_t count = len(traces) // sizeof(uint32_t)
    cdef size_t k
    if (
        len(traces) != 4 * count or len(time_stamps) != 8 * count
        or len(letters) != 8 * count * histories.words or len(numbers) != 8 * count
    ):
        raise SnapshotError(_DAMAGED)
    if count == 0:
        return
    make_arrival_room(&histories.arrivals, count, histories.words)
    memcpy(histories.arrivals.time_stamps, <const char *> time_stamps, len(time_stamps))
    memcpy(histories.arrivals.letters, <const char *> letters, len(letters))
    memcpy(histories.arrivals.traces, <const char *> traces, len(traces))
    memcpy(histories.arrivals.numbers, <const char *> numbers, len(numbers))
    for k in range(count):
        if (
            histories.arrivals.traces[k] >= histories.trace_count
            or histories.arrivals.time_stamps[k] > MAX_TIME_STAMP()
            or not is_letter(
                histories.arrivals.letters + k * histories.words, histories.words,
                atom_count(histories)
            )
        ):
            raise SnapshotError(_DAMAGED)
    histories.arrivals.count = <uint32_t> count
