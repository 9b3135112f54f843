# cython: language_level=3
"""Declarations for arrivals: which are admitted, and what they take back."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum RowOperation:
    INSERT
    RETRACT
    ADVANCE
    COMPLETE


cdef enum Counting:
    # what becomes of it that the events of an interval are counted
    COUNTED
    IS_KNOWN    # all events below its end are known anyway
    IS_LATE     # some of its events may be forgotten, and others were before it


cdef struct Interval:
    # Exactly so many events have time-stamps from `start` on that are below `end`.
    uint64_t start, end
    uint64_t expected, found


cdef class Admission(Replayer):
    cdef Arrivals arrivals
    cdef uint32_t *refused          # the places in the batch of rows that come too late
    cdef uint32_t refused_room
    cdef size_t refused_in_batch

    cdef readonly dict ids          # the number of a handle, by id
    cdef size_t swept_ids           # how many ids were left when old ones were last looked for
    cdef Handle *handles
    cdef uint32_t handle_room, handle_count
    cdef Words free_handles
    cdef bint takes_ids             # whether any row has had an id
    cdef Name *retracted            # events of chunks that this batch retracts
    cdef uint32_t retracted_room, retracted_in_batch
    cdef Name *withdrawn            # of histories that do not judge: what was retracted, to be told
    cdef uint32_t withdrawn_room, withdrawn_count

    cdef readonly dict awaited      # when the retraction of an id came that waits
    cdef readonly dict awaited_rows     # the same by trace, time-stamp and letter: lists
    cdef object awaited_since       # when retractions of rows came, and of what, in this order
    cdef dict waiting_rows          # places of arrivals by trace, time-stamp and letter, or None
    cdef Interval *intervals
    cdef uint32_t interval_count, interval_room
    cdef bint has_closed            # whether `closed_below` has moved, and time is yet to pass
    cdef list rejected              # pairs of their numbers and what is wrong
    cdef uint64_t earliest          # the least time-stamp of events, also of retracted ones
    cdef readonly uint64_t retracted_count, duplicate_count, unmatched_count, incomplete_count

    cdef bint is_plain(self)
    cdef int see(self, uint32_t trace, uint64_t time_stamp) noexcept nogil
    cdef bint is_late(self, uint32_t trace, uint64_t time_stamp) noexcept nogil
    cdef bint is_closed(self, uint32_t trace, uint64_t time_stamp) noexcept nogil
    cdef bint has_waited(self, uint32_t trace, uint64_t time_stamp) noexcept nogil
    cdef void refuse(self, size_t place) noexcept nogil
    cdef int admit_plain(self, size_t start, size_t count) except -1 nogil
    cdef size_t admit_rows(
        self, size_t start, size_t first, size_t count, const uint8_t *operations, list ids,
        const uint64_t *counted
    ) except? 0xFFFFFFFFFFFFFFFF
    cdef int insert(self, size_t place, uint32_t row, object name) except -1
    cdef int retract(self, size_t place, uint32_t row, object name) except -1
    cdef uint32_t known(self, object name) except? 0xFFFFFFFE
    cdef bint is_forgotten(self, const Handle *handle) noexcept nogil
    cdef bint is_same(self, const Handle *handle, uint32_t row)
    cdef int free_handle(self, uint32_t number) except -1
    cdef int add_id(self, object name, uint32_t row) except -1
    cdef int take_back(self, uint32_t number) except -1
    cdef int take_back_placed(self, uint32_t trace, uint64_t time_stamp, Point *point) except -1
    cdef int take_back_waiting(self, uint32_t row) except -1
    cdef int note_revised(self, uint32_t trace, uint64_t time_stamp, uint64_t offset) except -1
    cdef tuple row_key(self, uint32_t row)
    cdef bint was_awaited(self, object name, uint32_t row) except -1
    cdef int give_up_waiting(self) except -1
    cdef int forget_ids(self) except -1
    cdef void note_row(self, uint64_t time_stamp, int change) noexcept nogil
    cdef Counting count_events(self, uint64_t start, uint64_t end, uint64_t count) except *
    cdef str excess_in_intervals(self, uint64_t time_stamp, const Handle *former)
    cdef int reject(self, size_t place, uint32_t row, str reason) except -1
    cdef void close_intervals(self) noexcept nogil
    cdef uint64_t counted_until(self) noexcept nogil
