# cython: language_level=3
"""Histories that do not admit events themselves, but follow others that do not judge them.

Letters that depend on other events are known only once it is known which events there are. So one
object of histories admits the events of a log and gives them their names, with numbers for their
contents, and others judge them under these names. They hear which events are new, which time-points
have other letters, and which are withdrawn or no longer chosen.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport NO_FIXED_VERDICT
from mtlmon.traces.native cimport next_marked


def next_row(Histories histories not None):
    """The number of the next row among all that come."""
    return histories.row_count


def skip_row(Histories histories not None):
    """Count a row that only lets time pass, which `Histories.push` does not get."""
    histories.row_count += 1


def placements(Histories histories not None):
    """What has become of events since the last call.

    Returns:
        The events that have their names now, by trace and time, and those that were retracted
        after that: as bytes, `PlacedRow` and `Name`.
    """
    cdef bytes placed = PyBytes_FromStringAndSize(
        <char *> histories.placed, histories.placed_count * sizeof(PlacedRow)
    )
    cdef bytes withdrawn = PyBytes_FromStringAndSize(
        <char *> histories.withdrawn, histories.withdrawn_count * sizeof(Name)
    )
    histories.placed_count = 0
    histories.withdrawn_count = 0
    # nothing is told of verdicts
    histories.journal.count = 0
    histories.forget_some()
    return placed, withdrawn


def follow(Histories histories not None, EventColumns columns not None, numbers, flags):
    """Take events that have been admitted, in any order in which their names follow each other.

    Args:
        histories: take the events; they have no wait.
        columns: the events.
        numbers: the numbers of their traces, a buffer of uint32.
        flags: the flags of their rows, a buffer of uint8.
    """
    cdef size_t count = columns.count
    cdef size_t k
    cdef uint32_t start = histories.arrivals.count
    cdef const uint8_t *flag_of
    cdef Memory memory = Memory(flags, sizeof(uint8_t), count)
    cdef bint is_done = False
    histories.require_ready()
    histories.read_batch(columns, numbers)
    flag_of = <const uint8_t *> memory.buffer.buf
    for k in range(count):
        histories.arrivals.flags[start + k] = flag_of[k]
        histories.arrivals.handles[start + k] = NO_HANDLE
    histories.arrivals.count += <uint32_t> count
    histories.session.enter()
    try:
        with nogil:
            histories.release(True)
        is_done = True
    finally:
        histories.is_broken = not is_done
        if not histories.session.is_broken():
            histories.session.leave()


def fixed_verdict(Histories histories not None):
    """The kind of the verdict of all events without atoms, if these make no difference to others.

    None if they may.
    """
    cdef uint8_t kind = histories.session.program.empty_verdict
    return None if kind == NO_FIXED_VERDICT else kind


def follow_some(
    Histories histories not None, EventColumns columns not None, numbers, offsets, admitted,
    touched, Histories leader not None, bint is_sparse
):
    """Take the events of a batch that can make a difference, in the order in which they come.

    If a later event of a trace has shown how far time has passed, this is known as well.

    Args:
        histories: take the events; they have no wait.
        columns: the events.
        numbers: the numbers of their traces, a buffer of uint32; None if all are of trace 0.
        offsets: their offsets, a buffer of uint64.
        admitted: which of them are admitted, a buffer of uint8.
        touched: the numbers of the traces that they are of, a buffer of uint32.
        leader: has admitted them.
        is_sparse: whether those without atoms are passed over, as `fixed_verdict` allows.

    Returns:
        How many events were taken.
    """
    cdef size_t count = columns.count
    cdef size_t words = (count + 63) // 64
    cdef size_t most = min(count, columns.most_held(0, count)) if is_sparse else count
    cdef size_t place, k
    cdef uint32_t number
    cdef uint32_t taken = 0
    cdef Memory memory_of_numbers
    cdef Memory memory_of_offsets = Memory(offsets, sizeof(uint64_t), count)
    cdef Memory memory_of_admitted = Memory(admitted, sizeof(uint8_t), count)
    cdef Memory memory_of_touched = Memory(touched, sizeof(uint32_t), len(touched))
    cdef size_t touched_count = len(touched)
    cdef const uint32_t *number_of = NULL
    cdef const uint64_t *offset_of = <const uint64_t *> memory_of_offsets.buffer.buf
    cdef const uint8_t *is_admitted = <const uint8_t *> memory_of_admitted.buffer.buf
    cdef const uint32_t *touched_of = <const uint32_t *> memory_of_touched.buffer.buf
    cdef Arrivals *arrivals = &histories.arrivals
    cdef bint is_done = False
    histories.require_ready()
    if not histories.is_named:
        raise ValueError("these events have no names of their own")
    if numbers is not None:
        memory_of_numbers = Memory(numbers, sizeof(uint32_t), count)
        number_of = <const uint32_t *> memory_of_numbers.buffer.buf
    histories.make_traces(leader.trace_count)
    reserve(<void **> &histories.marked, &histories.marked_room, words, sizeof(uint64_t))
    if most < count:
        columns.mark_held(0, count, histories.marked)
    else:
        memset(histories.marked, 0xFF, words * sizeof(uint64_t))
    make_arrival_room(arrivals, most, histories.words)
    histories.session.enter()
    try:
        with nogil:
            place = next_marked(histories.marked, 0, count)
            while place < count:
                if is_admitted[place]:
                    number = 0 if number_of == NULL else number_of[place]
                    if number >= histories.trace_count:
                        with gil:
                            raise IndexError(number)
                    columns.read(
                        place, 1, arrivals.time_stamps + taken,
                        arrivals.letters + taken * histories.words, histories.words
                    )
                    arrivals.traces[taken] = number
                    arrivals.flags[taken] = 0
                    arrivals.handles[taken] = NO_HANDLE
                    # the name of a row, in the place of its number
                    arrivals.numbers[taken] = offset_of[place]
                    taken += 1
                place = next_marked(histories.marked, place + 1, count)
            arrivals.count = taken
            histories.release(True)
            for k in range(touched_count):
                number = touched_of[k]
                if number < histories.trace_count:
                    taken += histories.catch_up(number, &leader.traces[number])
            # as many traces are looked at for what can be forgotten
            histories.swept_events -= touched_count
        is_done = True
    finally:
        histories.is_broken = not is_done
        if not histories.session.is_broken():
            histories.session.leave()
    return taken


def revise(
    Histories histories not None, EventColumns columns not None, numbers, offsets, flags
):
    """Give time-points other letters or flags; `follow` or `judge_again` judges them.

    Args:
        histories: have had the events.
        columns: the time-stamps, and the letters as they are now.
        numbers: the numbers of their traces, a buffer of uint32.
        offsets: their offsets, a buffer of uint64.
        flags: the flags of their rows as they are now, a buffer of uint8. An event that was
            retracted stays so.
    """
    cdef size_t count = columns.count
    cdef size_t k
    cdef uint32_t trace
    cdef uint8_t flag
    cdef uint64_t time_stamp
    cdef const uint32_t *number_of
    cdef const uint64_t *offset_of
    cdef const uint8_t *flag_of
    cdef Memory memory_of_numbers = Memory(numbers, sizeof(uint32_t), count)
    cdef Memory memory_of_offsets = Memory(offsets, sizeof(uint64_t), count)
    cdef Memory memory_of_flags = Memory(flags, sizeof(uint8_t), count)
    cdef Point *point
    cdef Chunk *chunk
    histories.require_ready()
    if count == 0:
        return
    number_of = <const uint32_t *> memory_of_numbers.buffer.buf
    offset_of = <const uint64_t *> memory_of_offsets.buffer.buf
    flag_of = <const uint8_t *> memory_of_flags.buffer.buf
    reserve(
        <void **> &histories.letters, &histories.letter_room, count,
        histories.words * sizeof(uint64_t)
    )
    reserve(<void **> &histories.time_stamps, &histories.time_room, count, sizeof(uint64_t))
    columns.read(0, count, histories.time_stamps, histories.letters, histories.words)
    for k in range(count):
        trace = number_of[k]
        time_stamp = histories.time_stamps[k]
        if trace >= histories.trace_count:
            raise IndexError(trace)
        point = find_point(&histories.traces[trace], time_stamp, offset_of[k])
        if point == NULL:
            # its verdict is final, so no letter that it depends on can change
            continue
        chunk = histories.traces[trace].chunks[histories.traces[trace].recent]
        memcpy(
            chunk.letters + (point - chunk.points) * histories.words,
            histories.letters + k * histories.words, histories.words * sizeof(uint64_t)
        )
        flag = (point.flags & IS_REMOVED | flag_of[k]) & IS_PASSED
        if flag and not point.flags & IS_PASSED:
            withdraw(&histories.journal, trace, time_stamp, point, flag)
            histories.event_count -= 1
        elif flag == 0 and point.flags & IS_HIDDEN:
            bring_back(&histories.journal, trace, time_stamp, point)
            histories.event_count += 1
        point.flags |= flag
        chunk.has_passed = chunk.has_passed or flag != 0
        chunk.is_dirty = True
        histories.note_revised(trace, time_stamp, point.offset)


def keep_time(Histories histories not None, Histories leader not None, bound=None):
    """Let it be as late as it is for others, and let the same events still be admitted.

    Args:
        histories: the histories.
        leader: the others.
        bound: letters stay below this time only, which all traces share; None if they stay where no
            event is admitted any more.
    """
    cdef uint32_t k
    cdef uint64_t known
    histories.has_now = leader.has_now
    histories.now_of_all = leader.now_of_all
    histories.closed_below = leader.closed_below
    if bound is not None:
        known = bound
        histories.closed_below = min(histories.closed_below, known)
        if known <= UINT64_MAX - histories.lateness:
            histories.now_of_all = min(histories.now_of_all, known + histories.lateness)
    if not leader.is_by_key:
        return
    histories.make_traces(leader.trace_count)
    for k in range(leader.trace_count):
        histories.traces[k].has_now = leader.traces[k].has_now
        histories.traces[k].now = leader.traces[k].now


def pass_time_of(Histories histories not None, uint64_t time_stamp, number=None):
    """Let time pass in all traces that have events, or in one, whatever the time is."""
    cdef uint32_t k
    cdef bint is_done = False
    histories.require_ready()
    histories.session.enter()
    try:
        if number is not None:
            histories.make_traces(<size_t> number + 1)
            histories.pass_time(number, time_stamp)
        else:
            histories.note_advance(time_stamp)
            for k in range(histories.trace_count):
                if histories.traces[k].has_begun:
                    histories.pass_time(k, time_stamp)
        is_done = True
    finally:
        histories.is_broken = not is_done
        if not histories.session.is_broken():
            histories.session.leave()
