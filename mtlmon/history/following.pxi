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

from mtlmon.arrays.native cimport EventColumns, Memory


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
