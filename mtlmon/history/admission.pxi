# cython: language_level=3
"""Arrivals: which are admitted, which are known already, and what they take back.

Ids, retractions that wait for their events, and counted intervals are handled here. Which rows are
refused and what they mean depends on their order alone, and not on batches.
"""

from collections import deque

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from mtlmon.engine.native cimport put_word, reserve

from mtlmon.errors import EventError

cdef enum:
    # so many ids more than twice those that were left make it worth looking for old ones
    IDS_BETWEEN_SWEEPS = 1024


cdef class Admission(Replayer):
    """The traces of one formula with what waits: rows, ids, and retractions without events."""

    def __cinit__(self, *args, **kwargs):
        self.ids = {}
        self.awaited = {}
        self.awaited_rows = {}
        self.awaited_since = deque()
        self.rejected = []
        self.earliest = UINT64_MAX

    def __dealloc__(self):
        free_arrivals(&self.arrivals)
        free(self.refused)
        free(self.handles)
        free(self.free_handles.items)
        free(self.retracted)
        free(self.withdrawn)
        free(self.intervals)

    # ---- time ------------------------------------------------------------------------------

    cdef int see(self, uint32_t trace, uint64_t time_stamp) noexcept nogil:
        """Let the largest time-stamp so far be no less than this one."""
        if not self.has_now or time_stamp > self.now_of_all:
            self.now_of_all = time_stamp
            self.has_now = True
        if self.is_by_key and (
            not self.traces[trace].has_now or time_stamp > self.traces[trace].now
        ):
            self.traces[trace].now = time_stamp
            self.traces[trace].has_now = True
        return 0

    cdef bint is_late(self, uint32_t trace, uint64_t time_stamp) noexcept nogil:
        """Whether time has gone on too far for rows of this time-stamp."""
        cdef uint64_t now = self.now_of(trace)
        return self.has_lateness and now > time_stamp and now - time_stamp > self.lateness

    cdef bint is_closed(self, uint32_t trace, uint64_t time_stamp) noexcept nogil:
        """Whether it is too late to retract events of this time-stamp."""
        return time_stamp < self.admits_from(trace)

    cdef bint has_waited(self, uint32_t trace, uint64_t time_stamp) noexcept nogil:
        """Whether rows of this time-stamp have waited long enough.

        Where rows wait for all that is admitted, one that can be retracted waits for the latest
        retraction, too, so that no verdict changes.
        """
        cdef uint64_t now = self.now_of(trace)
        cdef bint waits_for_all = (
            self.has_lateness and 0 < self.wait == self.lateness
            and (self.takes_equal or self.takes_ids)
        )
        return time_stamp < self.closed_below or (
            now >= time_stamp and now - time_stamp >= self.wait + waits_for_all
        )

    # ---- rows ------------------------------------------------------------------------------

    cdef bint is_plain(self):
        """Whether rows without ids and operations need no more than their time-stamps."""
        return (
            self.interval_count == 0 and not self.awaited and not self.awaited_rows
            # else a row can be one too many
            and (self.closed_below == 0 or self.is_late(0, self.closed_below))
        )

    cdef void refuse(self, size_t place) noexcept nogil:
        self.refused[self.refused_in_batch] = <uint32_t> place
        self.refused_in_batch += 1
        self.refused_count += 1

    cdef int admit_plain(self, size_t start, size_t count) except -1 nogil:
        """Admit rows that only insert: the arrivals from number `start` on."""
        cdef size_t k
        cdef uint32_t row, trace
        cdef uint64_t time_stamp
        for k in range(count):
            row = <uint32_t> (start + k)
            trace = self.arrivals.traces[row]
            time_stamp = self.arrivals.time_stamps[row]
            self.see(trace, time_stamp)
            if self.is_late(trace, time_stamp):
                self.refuse(k)
                continue
            self.earliest = min(self.earliest, time_stamp)
            self.arrivals.flags[row] = 0
            self.arrivals.handles[row] = NO_HANDLE
            move_arrival(&self.arrivals, row, self.arrivals.count, self.words)
            self.arrivals.count += 1
        return 0

    cdef size_t admit_rows(
        self, size_t start, size_t first, size_t count, const uint8_t *operations, list ids,
        const uint64_t *counted
    ) except? 0xFFFFFFFFFFFFFFFF:
        """Admit the rows of a batch from number `first` on, up to one that lets time pass.

        Row k of the batch is arrival `start + k`. Returns the place of the row before which it
        stopped.

        Raises:
            EventError: there are more events in an interval than was said; the error tells where.
        """
        cdef size_t k
        cdef uint32_t row
        cdef object name
        self.waiting_rows = None
        for k in range(first, count):
            row = <uint32_t> (start + k)
            name = None if ids is None else ids[k]
            if operations == NULL or operations[k] == INSERT:
                self.see(self.arrivals.traces[row], self.arrivals.time_stamps[row])
                self.give_up_waiting()
                self.insert(k, row, name)
            elif operations[k] == RETRACT:
                self.retract(k, row, name)
            elif operations[k] == COMPLETE:
                try:
                    if self.count_events(
                        counted[2 * k], self.arrivals.time_stamps[row], counted[2 * k + 1]
                    ) == IS_LATE:
                        self.refuse(k)
                except EventError as error:
                    self.reject(k, row, f"counts too few: {error}")
            else:
                return k
            if self.interval_count:
                self.close_intervals()
        return count

    cdef int insert(self, size_t place, uint32_t row, object name) except -1:
        """Take a row that inserts an event."""
        cdef uint32_t trace = self.arrivals.traces[row]
        cdef uint64_t time_stamp = self.arrivals.time_stamps[row]
        cdef uint32_t known = NO_HANDLE
        cdef uint8_t flags = 0
        cdef str excess
        if self.is_late(trace, time_stamp):
            self.refuse(place)
            return 0
        if name is not None:
            flags = HAS_ID
            self.takes_ids = True
            known = self.known(name)
        if known != NO_HANDLE:
            if self.is_closed(self.handles[known].trace, self.handles[known].time_stamp):
                self.refuse(place)
                return 0
            if self.is_same(&self.handles[known], row):
                self.duplicate_count += 1
                return 0
        if time_stamp < self.closed_below:
            return self.reject(
                place, row, f"is one too many: all events below {self.closed_below} were there "
                "according to their counts"
            )
        if self.was_awaited(name, row):
            flags |= IS_REMOVED if self.has_waited(trace, time_stamp) else IS_DROPPED
            self.retracted_count += 1
        elif self.interval_count:
            excess = self.excess_in_intervals(
                time_stamp, NULL if known == NO_HANDLE else &self.handles[known]
            )
            if excess is not None:
                return self.reject(place, row, excess)
        if known != NO_HANDLE:
            self.take_back(known)
            self.retracted_count += 1
            del self.ids[name]
        self.earliest = min(self.earliest, time_stamp)
        self.arrivals.flags[row] = flags
        self.arrivals.handles[row] = NO_HANDLE
        move_arrival(&self.arrivals, row, self.arrivals.count, self.words)
        row = self.arrivals.count
        self.arrivals.count += 1
        if flags & (IS_REMOVED | IS_DROPPED):
            return 0
        self.note_row(time_stamp, 1)
        if name is not None:
            self.add_id(name, row)
        elif self.waiting_rows is not None:
            self.waiting_rows.setdefault(self.row_key(row), []).append(row)
        return 0

    cdef int retract(self, size_t place, uint32_t row, object name) except -1:
        """Take a row that retracts an event."""
        cdef uint32_t trace = self.arrivals.traces[row]
        cdef uint64_t time_stamp = self.arrivals.time_stamps[row]
        cdef uint32_t known
        cdef uint32_t k
        cdef Point *point
        cdef list places
        if name is not None:
            known = self.known(name)
            if known == NO_HANDLE:
                self.awaited.pop(name, None)
                self.awaited[name] = self.now_of_all
            elif self.is_closed(self.handles[known].trace, self.handles[known].time_stamp):
                self.refuse(place)
            else:
                self.take_back(known)
                self.retracted_count += 1
                del self.ids[name]
            return 0
        if self.is_closed(trace, time_stamp):
            self.refuse(place)
            return 0
        key = self.row_key(row)
        if self.waiting_rows is None:
            self.waiting_rows = {}
            for k in range(self.arrivals.count):
                if not self.arrivals.flags[k]:
                    self.waiting_rows.setdefault(self.row_key(k), []).append(k)
        places = self.waiting_rows.get(key)
        if places:
            self.take_back_waiting(places.pop())
            self.retracted_count += 1
            return 0
        point = find_equal(
            &self.traces[trace], time_stamp, self.arrivals.letters + row * self.words, self.words
        )
        if point != NULL:
            self.take_back_placed(trace, time_stamp, point)
            self.retracted_count += 1
            return 0
        self.awaited_rows.setdefault(key, []).append(self.now_of_all)
        self.awaited_since.append((self.now_of_all, key))
        return 0

    cdef int take_back(self, uint32_t number) except -1:
        """Retract the event of a handle, which is free afterwards."""
        cdef Handle *handle = &self.handles[number]
        cdef Point *point
        self.free_handle(number)
        if handle.waits:
            return self.take_back_waiting(handle.place)
        point = find_point(&self.traces[handle.trace], handle.time_stamp, handle.offset)
        if point != NULL:
            self.take_back_placed(handle.trace, handle.time_stamp, point)
        return 0

    cdef int take_back_placed(self, uint32_t trace, uint64_t time_stamp, Point *point) except -1:
        """Retract an event of a chunk, which has just been found."""
        cdef Chunk *chunk = self.traces[trace].chunks[self.traces[trace].recent]
        if not self.judges:
            reserve(
                <void **> &self.withdrawn, &self.withdrawn_room,
                <size_t> self.withdrawn_count + 1, sizeof(Name)
            )
            self.withdrawn[self.withdrawn_count].trace = trace
            self.withdrawn[self.withdrawn_count].time_stamp = time_stamp
            self.withdrawn[self.withdrawn_count].offset = point.offset
            self.withdrawn_count += 1
        withdraw(&self.journal, trace, time_stamp, point, IS_REMOVED)
        chunk.has_passed = chunk.is_dirty = True
        self.note_revised(trace, time_stamp, point.offset)
        self.event_count -= 1
        self.note_row(time_stamp, -1)
        return 0

    cdef int note_revised(self, uint32_t trace, uint64_t time_stamp, uint64_t offset) except -1:
        """Let the dirty chunk of a time-point be judged again at the next release."""
        cdef Name *name
        reserve(
            <void **> &self.retracted, &self.retracted_room,
            <size_t> self.retracted_in_batch + 1, sizeof(Name)
        )
        name = &self.retracted[self.retracted_in_batch]
        name.trace = trace
        name.time_stamp = time_stamp
        name.offset = offset
        self.retracted_in_batch += 1
        return 0

    cdef int take_back_waiting(self, uint32_t row) except -1:
        """Retract an arrival. It still has a name if it has waited long enough."""
        cdef uint64_t time_stamp = self.arrivals.time_stamps[row]
        if self.has_waited(self.arrivals.traces[row], time_stamp):
            self.arrivals.flags[row] |= IS_REMOVED
        else:
            self.arrivals.flags[row] |= IS_DROPPED
        self.note_row(time_stamp, -1)
        return 0

    cdef tuple row_key(self, uint32_t row):
        """What equal rows have in common."""
        return (
            self.arrivals.traces[row], self.arrivals.time_stamps[row],
            PyBytes_FromStringAndSize(
                <char *> (self.arrivals.letters + row * self.words),
                self.words * sizeof(uint64_t)
            ),
        )

    # ---- ids -------------------------------------------------------------------------------

    cdef uint32_t known(self, object name) except? 0xFFFFFFFE:
        """The handle of an id, or NO_HANDLE if there is none, or it is too old."""
        cdef object number = self.ids.get(name)
        if number is None:
            return NO_HANDLE
        if self.is_forgotten(&self.handles[<uint32_t> number]):
            self.free_handle(number)
            del self.ids[name]
            return NO_HANDLE
        return number

    cdef bint is_forgotten(self, const Handle *handle) noexcept nogil:
        """Whether an id is free again: its event is later than twice the lateness."""
        cdef uint64_t now = self.now_of(handle.trace)
        return self.has_lateness and now > handle.time_stamp and (
            now - handle.time_stamp > 2 * self.lateness
        )

    cdef int forget_ids(self) except -1:
        """Forget ids that are free again, if there may be many."""
        cdef list old
        if not self.has_lateness or <size_t> len(self.ids) <= (
            2 * self.swept_ids + IDS_BETWEEN_SWEEPS
        ):
            return 0
        old = [
            name for name, number in self.ids.items()
            if self.is_forgotten(&self.handles[<uint32_t> number])
        ]
        for name in old:
            self.free_handle(self.ids.pop(name))
        self.swept_ids = len(self.ids)
        return 0

    cdef bint is_same(self, const Handle *handle, uint32_t row):
        """Whether an arrival equals the event of a handle."""
        cdef const uint64_t *letter
        cdef Trace *trace = &self.traces[handle.trace]
        cdef Point *point
        if (
            handle.trace != self.arrivals.traces[row]
            or handle.time_stamp != self.arrivals.time_stamps[row]
        ):
            return False
        if handle.waits:
            letter = self.arrivals.letters + handle.place * self.words
        else:
            point = find_point(trace, handle.time_stamp, handle.offset)
            if point == NULL:
                return False
            letter = letter_of(trace, point, self.words)
        return memcmp(
            letter, self.arrivals.letters + row * self.words, self.words * sizeof(uint64_t)
        ) == 0

    cdef int free_handle(self, uint32_t number) except -1:
        """Let another id have a handle."""
        put_word(&self.free_handles, number)
        if self.handles[number].waits:
            self.arrivals.handles[self.handles[number].place] = NO_HANDLE
        return 0

    cdef int add_id(self, object name, uint32_t row) except -1:
        """Give an arrival a handle, and remember it by its id."""
        cdef uint32_t number
        if self.free_handles.count:
            self.free_handles.count -= 1
            number = <uint32_t> self.free_handles.items[self.free_handles.count]
        else:
            number = self.handle_count
            reserve(
                <void **> &self.handles, &self.handle_room, <size_t> number + 1, sizeof(Handle)
            )
            self.handle_count += 1
        self.handles[number].trace = self.arrivals.traces[row]
        self.handles[number].time_stamp = self.arrivals.time_stamps[row]
        self.handles[number].offset = 0
        self.handles[number].place = row
        self.handles[number].waits = True
        self.arrivals.handles[row] = number
        self.ids[name] = number
        return 0

    # ---- retractions that wait -------------------------------------------------------------

    cdef bint was_awaited(self, object name, uint32_t row) except -1:
        """Whether a retraction has waited for this event; it waits no longer."""
        cdef list times
        if name is not None:
            return self.awaited.pop(name, None) is not None
        if not self.awaited_rows:
            return False
        key = self.row_key(row)
        times = self.awaited_rows.get(key)
        if not times:
            return False
        del times[0]
        if not times:
            del self.awaited_rows[key]
        return True

    cdef int give_up_waiting(self) except -1:
        """Count the retractions that have waited longer than the lateness."""
        cdef list times
        cdef list old = []
        if not self.has_lateness:
            return 0
        if self.awaited:
            for name, since in self.awaited.items():
                if self.now_of_all - <uint64_t> since <= self.lateness:
                    break
                old.append(name)
            for name in old:
                del self.awaited[name]
            self.unmatched_count += len(old)
        while self.awaited_since:
            since, key = self.awaited_since[0]
            times = self.awaited_rows.get(key)
            if times and times[0] == since:
                if self.now_of_all - <uint64_t> since <= self.lateness:
                    break
                self.unmatched_count += 1
                del times[0]
                if not times:
                    del self.awaited_rows[key]
            self.awaited_since.popleft()
        return 0

    # ---- intervals whose events are counted ------------------------------------------------

    cdef void note_row(self, uint64_t time_stamp, int change) noexcept nogil:
        """Count an event more or less."""
        cdef uint32_t k
        for k in range(self.interval_count):
            if self.intervals[k].start <= time_stamp < self.intervals[k].end:
                self.intervals[k].found += change

    cdef Counting count_events(self, uint64_t start, uint64_t end, uint64_t count) except *:
        """Let it be known that exactly so many events lie in an interval of time.

        Raises:
            EventError: there are more already, or the interval is empty; nothing has changed.
        """
        cdef uint64_t found = 0
        cdef uint64_t behind = 0
        cdef bint has_all = start <= self.earliest
        cdef uint32_t k
        cdef Interval *interval
        if start >= end:
            raise EventError(f"the interval from {start} to below {end} is empty")
        if end <= self.admits_from(0):
            return IS_KNOWN
        if start < self.admits_from(0) and not has_all:
            return IS_LATE
        for k in range(self.trace_count):
            found += count_between(&self.traces[k], start, end)
            behind += count_between(&self.traces[k], end, UINT64_MAX)
        if has_all:
            # events that are forgotten are below the end
            found = self.event_count - behind
        for k in range(self.arrivals.count):
            found += (
                not self.arrivals.flags[k] & (IS_REMOVED | IS_DROPPED)
                and start <= self.arrivals.time_stamps[k] < end
            )
        if found > count:
            raise EventError(
                f"there are {found} events in [{start}, {end}) already, which are more than {count}"
            )
        reserve(
            <void **> &self.intervals, &self.interval_room, <size_t> self.interval_count + 1,
            sizeof(Interval)
        )
        interval = &self.intervals[self.interval_count]
        interval.start = start
        interval.end = end
        interval.expected = count
        interval.found = found
        self.interval_count += 1
        return COUNTED

    cdef str excess_in_intervals(self, uint64_t time_stamp, const Handle *former):
        """Say why an event is one too many; None if it is not, as it may replace another one."""
        cdef uint32_t k
        cdef uint64_t found
        cdef const Interval *interval
        for k in range(self.interval_count):
            interval = &self.intervals[k]
            if not interval.start <= time_stamp < interval.end:
                continue
            found = interval.found
            if former != NULL and interval.start <= former.time_stamp < interval.end:
                found -= 1
            if found >= interval.expected:
                return (
                    f"is one more than the {interval.expected} that lie in [{interval.start}, "
                    f"{interval.end}) according to their count"
                )
        return None

    cdef int reject(self, size_t place, uint32_t row, str reason) except -1:
        """Leave out a row that contradicts a count.

        Raises:
            EventError: such rows are not noted.
        """
        cdef uint64_t time_stamp = self.arrivals.time_stamps[row]
        if self.rejects:
            self.rejected.append((self.arrivals.numbers[row], reason))
            return 0
        raise EventError(
            f"the event at index {place}, of time {time_stamp}, {reason}; the rows before it have "
            "been taken", index=place
        )

    cdef void close_intervals(self) noexcept nogil:
        """Note up to when all events are known, and drop the intervals before.

        Time has passed up to there, as no event below can come any more.
        """
        cdef uint32_t k
        cdef uint32_t kept = 0
        cdef uint64_t closed = self.admits_from(0)
        cdef bint has_moved = True
        while has_moved:
            has_moved = False
            for k in range(self.interval_count):
                if (
                    self.intervals[k].start <= closed < self.intervals[k].end
                    and self.intervals[k].found == self.intervals[k].expected
                ):
                    closed = self.closed_below = self.intervals[k].end
                    has_moved = self.has_closed = True
        if self.has_closed:
            self.see(0, self.closed_below)
            self.passed_of_all = max(self.passed_of_all, self.closed_below)
        for k in range(self.interval_count):
            if self.intervals[k].end <= closed:
                self.incomplete_count += self.intervals[k].found < self.intervals[k].expected
                continue
            self.intervals[kept] = self.intervals[k]
            kept += 1
        self.interval_count = kept

    cdef uint64_t counted_until(self) noexcept nogil:
        """The end of the last interval all of whose events are there; 0 if there is none.

        At the end of a log, no other events come, even before it.
        """
        cdef uint64_t last = 0
        cdef uint32_t k
        for k in range(self.interval_count):
            if self.intervals[k].found == self.intervals[k].expected:
                last = max(last, self.intervals[k].end)
        return last
