# cython: language_level=3
"""Monitor events from arrays, in a single call that no other call can interrupt."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport EndTime, Session
from mtlmon.text.native cimport FILTER_ALL

from mtlmon.errors import MemoryLimitError


def feed_columns(Session monitor not None, list batches not None, offsets=None):
    """Process the events of all batches, each an EventColumns; return the verdict records.

    Args:
        monitor: processes the events.
        batches: the events.
        offsets: for a single batch, the offset of each event within its time-stamp, a buffer of
            uint32 without gaps; None if they are consecutive.

    Raises:
        TimeStampError: a time-stamp is not valid; the monitor is unchanged.
        LimitError, MemoryError, KeyboardInterrupt: raised in the middle of an event. The
            exception's attribute `records` is what would have been returned.
        MemoryLimitError: likewise, but the monitor can go on if it is raised between two events.
    """
    cdef VerdictRows rows = VerdictRows()
    cdef SessionLoop loop = SessionLoop(monitor, Delivery(rows, FILTER_ALL, False))
    cdef EventColumns batch
    cdef size_t count = 0
    cdef uint64_t clock
    cdef EndTime end
    cdef Memory memory = None
    cdef const uint32_t *places = NULL
    if offsets is not None:
        (batch,) = batches
        memory = Memory(offsets, sizeof(uint32_t), batch.count)
        places = contiguous_numbers(memory)
    rows.has_owners = False
    memset(&end, 0, sizeof(EndTime))
    monitor.enter()
    try:
        clock = monitor.state.clock
        for batch in batches:
            batch.check_time_stamps(clock, count, 0, batch.count)
            clock = batch.last_time_stamp(clock)
            count += batch.count
    except BaseException:
        monitor.leave()
        raise
    try:
        if monitor.memory is not None:
            monitor.memory.hold_to(monitor)
        # Every time-point has one verdict; memory that is not written to costs nothing.
        rows.grow(count + monitor.pending_count())
        for batch in batches:
            with nogil:
                loop.run_columns(batch, NULL, 0, &end, places)
    except BaseException as error:
        monitor.leave_unless_broken(isinstance(error, MemoryLimitError))
        error.records = memoryview(rows.take_records())
        raise
    monitor.leave()
    return memoryview(rows.take_records())
