# cython: language_level=3
"""The rows of a turn by the traces that they belong to, for all policies of a partition at once.

A policy passes over rows that make no difference to it, so its states do not know how many rows
their traces have had at the present time-stamp. This is known here.
"""

from cython cimport final
from libc.stdlib cimport free
from libc.string cimport memset

from mtlmon.engine.native cimport reserve


@final
cdef class RowsByTrace:
    """The names of rows in their traces, and the order of the rows of each."""

    def __dealloc__(self):
        free(self.latest)
        free(self.offsets)
        free(self.following)
        free(self.traces)
        free(self.firsts)

    cdef int note_state(self, uint32_t trace, uint64_t time_stamp, uint64_t offset) except -1:
        """Note that a trace has had a row, which some state has taken; call before the first turn.
        """
        cdef Latest *latest
        self.have_traces(<size_t> trace + 1)
        self.before = 1
        latest = &self.latest[trace]
        if not latest.number or latest.time_stamp < time_stamp or (
            latest.time_stamp == time_stamp and latest.offset < offset
        ):
            latest.time_stamp = time_stamp
            latest.offset = offset
            latest.number = 1
        return 0

    cdef int have_traces(self, size_t count) except -1 nogil:
        if count > self.trace_count:
            reserve(<void **> &self.latest, &self.latest_room, count, sizeof(Latest))
            memset(
                self.latest + self.trace_count, 0, (count - self.trace_count) * sizeof(Latest)
            )
            self.trace_count = <uint32_t> count
        return 0

    cdef int begin(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count,
        size_t traces
    ) except -1 nogil:
        """Take the rows of the next turn, in the order of time; there are so many traces by then.
        """
        cdef Latest *latest
        cdef uint64_t time_stamp
        cdef size_t k
        self.have_traces(traces)
        reserve(<void **> &self.offsets, &self.offset_room, count, sizeof(uint64_t))
        reserve(<void **> &self.following, &self.following_room, count, sizeof(uint32_t))
        reserve(<void **> &self.traces, &self.trace_room, count, sizeof(uint32_t))
        reserve(<void **> &self.firsts, &self.first_room, count, sizeof(uint32_t))
        self.before += self.row_count
        self.row_count = <uint32_t> count
        self.present_count = 0
        for k in range(count):
            latest = &self.latest[numbers[first + k]]
            time_stamp = events.time_stamp_of(first + k)
            if latest.number and latest.time_stamp == time_stamp:
                latest.offset += 1
            else:
                latest.time_stamp = time_stamp
                latest.offset = 0
            self.offsets[k] = latest.offset
            self.following[k] = NO_ROW
            if latest.number > self.before:
                self.following[latest.number - self.before - 1] = <uint32_t> k
            else:
                self.traces[self.present_count] = numbers[first + k]
                self.firsts[self.present_count] = <uint32_t> k
                self.present_count += 1
            latest.number = self.before + k + 1
        return 0

    cdef int renumber(self, const uint32_t *new_numbers) noexcept nogil:
        """Give traces new numbers, in the same order; forget those with NO_NUMBER."""
        cdef uint32_t kept = 0
        cdef uint32_t k
        for k in range(self.trace_count):
            if new_numbers[k] != NO_NUMBER:
                self.latest[kept] = self.latest[k]
                kept += 1
        self.trace_count = kept
        return 0

    cdef size_t held_bytes(self) noexcept nogil:
        return (
            self.latest_room * sizeof(Latest) + self.offset_room * sizeof(uint64_t)
            + (<size_t> self.following_room + self.trace_room + self.first_room) * sizeof(uint32_t)
        )
