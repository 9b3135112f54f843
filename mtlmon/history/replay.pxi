# cython: language_level=3
"""Many traces of one formula, whose late events are judged again in their places.

This follows R. Barga, J. Goldstein, M. Ali, M. Hong, "Consistent Streaming Through Time" (CIDR
2007), and J. Goldstein, M. Hong, "Operator Algorithm Design for Speculative Stream Processing".

A late event is put into its chunk, and events are judged again from the state at the start of that
chunk. Where the state at the start of a later chunk is what it was, all that follows stays as it
is. So no operator needs an algorithm of its own for late events. After a retraction, the chunk is
judged again as after a late event.

A time-point is undecided if it is pending in the engine, so a replay that reaches the present
withdraws the verdicts of the time-points that are then pending.

An event that can still be retracted does not prove that time has passed. So the bound below which
everything is final counts only events that are too old to be retracted.

PERF: between batches, the states at the ends of the traces rest as those of keys do
(`traces/at_rest`). To write them as words and read them again for each key of a batch took up to
nine tenths of the time.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from mtlmon.engine.native cimport (
    NONE as NO_ENTRY,
    Session,
    State,
    give_state,
    nanoseconds,
    reserve,
    set_next_offset,
    state_equals,
    take_state,
)

from mtlmon.errors import MonitorBrokenError

cdef enum:
    # how long a batch works without looking for signals
    RUN_NANOSECONDS = 50 * 1000 * 1000
    # how many chunks are judged without a look at the clock
    CHUNKS_BETWEEN_LOOKS = 64


cdef inline bint is_next(const Chunk *chunk, size_t place, bint is_within) noexcept nogil:
    """Whether the name of an event follows that of the one before, which are of one time-stamp if
    `is_within`.
    """
    if chunk.time_stamps[place] == chunk.time_stamps[place - 1]:
        return chunk.points[place].offset == chunk.points[place - 1].offset + 1
    return not is_within and chunk.points[place].offset == 0


cdef class Replayer:
    """The traces of one formula, by number, without what waits; see `Histories`."""

    def __cinit__(
        self, Session session not None, *, lateness=None, uint64_t wait=0, delay=None,
        bint is_by_key=False, uint32_t spacing=0, bint can_reopen=True, bint takes_equal=False,
        bint judges=True, bint is_named=False, bint rejects=False
    ):
        self.session = session
        self.judges = judges
        self.is_named = is_named
        self.rejects = rejects
        self.words = session.letter_words if judges else 1
        self.loaded = NO_TRACE
        self.has_lateness = lateness is not None
        self.lateness = 0 if lateness is None else lateness
        self.wait = wait
        self.has_delay = delay is not None
        self.delay = 0 if delay is None else delay
        self.is_by_key = is_by_key
        self.spacing = spacing
        self.can_reopen = can_reopen
        self.takes_equal = takes_equal
        self.ends = Streams(session)
        make_spare(&self.spare)

    def __dealloc__(self):
        cdef uint32_t k
        for k in range(self.trace_count):
            free_trace(&self.traces[k])
        free(self.traces)
        free(self.taken.words.items)
        free(self.journal.entries)
        free(self.pending.times)
        free_spare(&self.spare)
        free(self.advances.items)

    cdef int require_ready(self) except -1:
        if self.is_broken:
            raise MonitorBrokenError(
                "the history was interrupted in the middle of a batch and cannot go on; "
                "restore a snapshot, or start a new one"
            )
        return 0

    cdef int make_traces(self, size_t count) except -1:
        """Make sure that the traces with numbers below `count` exist."""
        reserve(<void **> &self.traces, &self.trace_capacity, count, sizeof(Trace))
        self.ends.extend(count)
        make_leaves(&self.pending, count)
        while self.trace_count < count:
            memset(&self.traces[self.trace_count], 0, sizeof(Trace))
            self.trace_count += 1
        return 0

    # ---- time ----------------------------------------------------------------------------------

    cdef uint64_t now_of(self, uint32_t number) noexcept nogil:
        """The largest time-stamp so far."""
        return self.traces[number].now if self.is_by_key else self.now_of_all

    cdef uint64_t passed_of(self, uint32_t number) noexcept nogil:
        """How far time has passed without an event, whatever the wait is."""
        return self.traces[number].passed if self.is_by_key else self.passed_of_all

    cdef bint bound_of(self, uint32_t number, uint64_t *bound) noexcept nogil:
        """Whether there is a time-stamp below which everything is final, and which."""
        cdef uint64_t now = self.now_of(number)
        cdef uint64_t admits_from = self.admits_from(number)
        if not self.has_delay or admits_from < self.delay:
            return False
        if self.closed_below == 0 and (not self.has_lateness or now < self.lateness):
            return False
        bound[0] = admits_from - self.delay
        # Time may not have passed as far in this trace as in others, or for what waits.
        if self.traces[number].has_pending:
            bound[0] = min(bound[0], self.traces[number].pending_from)
        if self.can_reopen and (self.takes_equal or self.traces[number].has_retractable):
            bound[0] = min(bound[0], self.certain_of(number, admits_from))
        # There may have been no event that could be retracted then.
        self.traces[number].settled = bound[0] = max(bound[0], self.traces[number].settled)
        return True

    cdef bint bound_of_all(self, uint64_t *bound) noexcept nogil:
        """Whether there is a time-stamp below which everything is final in all traces, and which.

        It stays as it is if there are no traces.
        """
        cdef uint64_t least = bound[0]
        cdef uint64_t other
        cdef uint32_t k
        if self.trace_count == 0:
            return True
        if not self.bound_of(0, &least):
            return False
        if self.is_by_key or (
            self.can_reopen and (self.takes_equal or self.has_retractable)
        ):
            for k in range(1, self.trace_count):
                if not self.bound_of(k, &other):
                    return False
                least = min(least, other)
        else:
            # It is the same in all traces but for what is undecided there.
            least = min(self.admits_from(0) - self.delay, least_time(&self.pending))
        bound[0] = least
        return True

    cdef uint64_t admits_from(self, uint32_t number) noexcept nogil:
        """Below this time-stamp, no event can come or be retracted any more."""
        cdef uint64_t now = self.now_of(number)
        if self.has_lateness and now >= self.lateness:
            return max(self.closed_below, now - self.lateness)
        return self.closed_below

    cdef uint64_t certain_of(self, uint32_t number, uint64_t admits_from) noexcept nogil:
        """Verdicts below this time-stamp stay, even if all that can be retracted is retracted.

        The events after the last one that stays may be all that shows that time has passed.
        """
        cdef uint64_t certain
        if self.traces[number].advanced >= admits_from:
            return UINT64_MAX
        if not last_below(&self.traces[number], admits_from, &certain):
            # no time-point is left below
            return UINT64_MAX
        return certain - min(certain, self.delay)

    cdef void note_pending(self, uint32_t number) noexcept nogil:
        """Note the earliest undecided time-point of the trace whose end the session is at."""
        cdef Trace *trace = &self.traces[number]
        cdef uint64_t before = trace.pending_from if trace.has_pending else UINT64_MAX
        cdef uint64_t now
        trace.has_pending = self.session.earliest_pending(
            &trace.pending_from, &trace.pending_offset
        )
        now = trace.pending_from if trace.has_pending else UINT64_MAX
        if now != before:
            set_time(&self.pending, number, now)

    # ---- one trace -------------------------------------------------------------------------

    cdef int take(
        self, uint32_t number, const Rows *rows, const Name *retracted, size_t retracted_count
    ) except -1 nogil:
        """Judge events in order of time, which may be late, and those around retracted ones.

        The chunks of retracted events are dirty; the names are in order of time.
        """
        cdef Trace *trace = &self.traces[number]
        cdef Rows part
        cdef size_t late = 0
        cdef size_t done = 0
        cdef size_t removed = 0
        cdef const Point *point
        cdef uint32_t place
        for done in range(rows.count):
            self.event_count += not rows.flags[done] & IS_PASSED
        done = 0
        if rows.count and not trace.has_begun and not self.is_by_key:
            for done in range(self.advances.count):
                self.pass_time(number, self.advances.items[done])
            done = 0
        if trace.has_begun:
            while late < rows.count and rows.time_stamps[late] < trace.last:
                late += 1
        self.late_count += late
        while done < late or removed < retracted_count:
            place = NO_CHUNK
            if done < late:
                place = self.place_for(trace, rows.time_stamps[done])
            if removed < retracted_count:
                point = find_point(trace, retracted[removed].time_stamp, retracted[removed].offset)
                if point == NULL or not trace.chunks[trace.recent].is_dirty:
                    removed += 1
                    continue
                place = min(place, trace.recent)
            part = rows_between(rows, done, late, self.words)
            done += self.replay(number, place, &part)
        if late < rows.count:
            part = rows_between(rows, late, rows.count, self.words)
            self.append(number, &part, next_offset(trace, rows.time_stamps[late]))
        return 0

    cdef uint32_t place_for(self, Trace *trace, uint64_t time_stamp) except? 0 nogil:
        """The chunk that a late event belongs to."""
        cdef uint32_t place = chunk_at(trace, time_stamp)
        if place == NO_CHUNK:
            place = trace.first
            if trace.chunks[place].advances:
                self.begin_earlier(trace)
                place = trace.first
        # names that verdicts are about are near
        trace.searched = place
        return place

    cdef int append(self, uint32_t number, const Rows *rows, uint64_t offset) except -1 nogil:
        """Judge events at the end of the history; the first one gets this offset."""
        cdef Trace *trace = &self.traces[number]
        cdef Chunk *chunk
        cdef const Point *points
        cdef Rows part
        cdef size_t done = 0
        cdef size_t now
        cdef uint32_t place
        cdef uint64_t latest_offset = 0
        self.make_live(number)
        while done < rows.count:
            if trace.first == trace.count:
                self.new_last_chunk(trace)
            chunk = trace.chunks[trace.count - 1]
            if chunk.count >= self.spacing_of(chunk) or (
                chunk.count >= LEAST_SPACING and start_of(chunk) < trace.settled
                and not self.spacing
            ):
                self.new_last_chunk(trace)
                chunk = trace.chunks[trace.count - 1]
            now = min(rows.count - done, <size_t> (self.spacing_of(chunk) - chunk.count))
            if done:
                offset = 0
                if rows.time_stamps[done] == rows.time_stamps[done - 1]:
                    offset = latest_offset + 1
            place = chunk.count
            part = rows_between(rows, done, done + now, self.words)
            points = chunk.points
            add_events(chunk, &part, self.words, offset)
            if chunk.points != points and place:
                self.note_moved(trace)
            latest_offset = chunk.points[chunk.count - 1].offset
            self.run_chunk(number, chunk, place)
            done += now
            trace.last = trace.last_event = rows.time_stamps[done - 1]
            trace.last_offset = latest_offset
            trace.has_begun = True
            self.look_around()
        self.note_pending(number)
        return 0

    cdef int pass_time(self, uint32_t number, uint64_t time_stamp) except -1 nogil:
        """Let time pass at the end of the history, or in its place if there are events behind."""
        cdef Trace *trace = &self.traces[number]
        cdef Chunk *chunk
        if trace.has_begun and time_stamp <= trace.last:
            # events that stay have shown as much
            if time_stamp <= trace.advanced or not (self.takes_equal or trace.has_retractable):
                return 0
            return self.pass_time_between(number, time_stamp)
        self.make_live(number)
        self.new_last_chunk(trace)
        chunk = trace.chunks[trace.count - 1]
        chunk.advances = True
        chunk.advance = time_stamp
        trace.last = time_stamp
        trace.advanced = time_stamp
        trace.has_begun = True
        self.run_chunk(number, chunk, 0)
        self.note_pending(number)
        return self.look_around()

    cdef int pass_time_between(self, uint32_t number, uint64_t time_stamp) except -1 nogil:
        """Let time pass before events, further than ever without one."""
        cdef Trace *trace = &self.traces[number]
        cdef Chunk *chunk
        cdef Rows none
        cdef uint32_t place = chunk_at(trace, time_stamp - 1)
        cdef uint32_t before = 0
        if place == NO_CHUNK:
            place = trace.first
        else:
            chunk = trace.chunks[place]
            while before < chunk.count and chunk.time_stamps[before] < time_stamp:
                before += 1
            if before and before < chunk.count:
                split_chunk(trace, place, before, self.words, &self.spare)
                self.note_moved(trace)
            # no event is between this time and where time passes to in the chunk
            place += before > 0
        trace.advanced = time_stamp
        if place == trace.count:
            # what was behind is forgotten, so it stays
            return 0
        chunk = trace.chunks[place]
        chunk.advances = True
        chunk.advance = time_stamp
        memset(&none, 0, sizeof(Rows))
        self.replay(number, place if chunk.is_saved else place - 1, &none)
        return self.look_around()

    cdef size_t replay(
        self, uint32_t number, uint32_t place, const Rows *rows
    ) except? 0xFFFFFFFFFFFFFFFF nogil:
        """Judge again from a chunk on, and insert late events as far as that goes; return how many.

        PERF: one session judges the events at the end and those that are judged again. A second one
        would save the loading of states at the end, but would learn the same transitions again.
        """
        cdef Trace *trace = &self.traces[number]
        cdef Chunk *chunk
        cdef Chunk *following
        cdef Rows part
        cdef size_t done = 0
        cdef size_t last
        self.park()
        give_state(
            self.session.table, &self.session.state, &trace.chunks[place].saved
        )
        self.replays += 1
        while True:
            chunk = trace.chunks[place]
            last = rows.count
            if place + 1 < trace.count:
                last = done
                while last < rows.count and (
                    rows.time_stamps[last] < start_of(trace.chunks[place + 1])
                ):
                    last += 1
            part = rows_between(rows, done, last, self.words)
            insert_events(chunk, &part, self.words)
            if part.count:
                self.note_moved(trace)
            done = last
            self.keep_short(trace, place)
            self.run_chunk(number, chunk, 0)
            chunk.is_dirty = False
            self.replayed_chunks += 1
            self.replayed_events += chunk.count
            self.look_around()
            if place + 1 == trace.count:
                self.reopen(number)
                self.note_pending(number)
                self.ends.clear(&self.ends.resting[number])
                self.loaded = number
                return done
            following = trace.chunks[place + 1]
            if following.is_saved and state_equals(
                self.session.table, &self.session.state, &following.saved, &self.session.words
            ):
                self.early_stops += 1
                return done
            self.save_start(following)
            place += 1

    cdef int begin_earlier(self, Trace *trace) except -1 nogil:
        """Put an empty chunk before the first one, in which time passes too early."""
        cdef Chunk *following = trace.chunks[trace.first]
        cdef Chunk *chunk = new_chunk(&self.spare)
        cdef bint is_done = False
        try:
            insert_chunk(trace, trace.first, chunk)
            is_done = True
        finally:
            if not is_done:
                free_chunk(chunk)
        chunk.saved = following.saved
        chunk.is_saved = True
        memset(&following.saved, 0, sizeof(Saved))
        following.is_saved = False
        return 0

    cdef void note_moved(self, Trace *trace) noexcept nogil:
        """Note that time-points of a trace are no longer where they were in memory."""
        self.journal.moves += 1
        trace.moved_at = self.journal.moves

    cdef int keep_short(self, Trace *trace, uint32_t place) except -1 nogil:
        """Split a chunk that has twice as many events as it should have."""
        cdef uint32_t most = self.spacing_of(trace.chunks[place])
        while trace.chunks[place].count >= 2 * <size_t> most:
            # from the end on, so that the first part keeps its place
            split_chunk(
                trace, place, trace.chunks[place].count - most, self.words, &self.spare
            )
            self.note_moved(trace)
        return 0

    cdef uint32_t spacing_of(self, const Chunk *chunk) noexcept nogil:
        """How many events a chunk should have: a state takes as much memory as they do.

        PERF: with 8 for all, 30,000 rows within the lateness of 1,000 keys, the command took 1.14
        of the time without late rows and 1.13 with one percent of them.
        """
        if self.spacing:
            return self.spacing
        return max(<uint32_t> DENSE_SPACING, chunk.saved.words.count)

    cdef int run_chunk(self, uint32_t number, Chunk *chunk, uint32_t first) except -1 nogil:
        """Judge the events of a chunk from number `first` on, and let time pass before event 0."""
        cdef size_t done = first
        cdef size_t last
        if not self.judges:
            return 0
        if first == 0 and chunk.advances:
            self.session.pass_time(chunk.advance)
            self.apply(number, NULL, 0)
        if not chunk.has_passed:
            return self.run_events(number, chunk, first, chunk.count)
        while done < chunk.count:
            last = done
            while last < chunk.count and not chunk.points[last].flags & IS_PASSED:
                last += 1
            self.run_events(number, chunk, done, last)
            done = last + 1
        return 0

    cdef int run_events(
        self, uint32_t number, Chunk *chunk, size_t first, size_t last
    ) except -1 nogil:
        """Judge events of a chunk, of which none was retracted."""
        cdef State *state = &self.session.state
        cdef size_t done = first
        cdef size_t begin, end
        cdef uint64_t offset
        cdef bint is_given
        while done < last:
            offset = 0
            if state.event_count and state.time_stamp == chunk.time_stamps[done]:
                offset = state.offset + 1
            # Events of this time-stamp were retracted, or passed over: the others keep their names.
            is_given = offset != chunk.points[done].offset
            end = last
            if is_given or self.is_named:
                end = done + 1
                while end < last and is_next(chunk, end, is_given):
                    end += 1
            if is_given:
                set_next_offset(state, chunk.time_stamps[done], chunk.points[done].offset)
            while done < end:
                begin = done
                done += self.session.run(
                    chunk.time_stamps + done, chunk.letters + done * self.words, end - done
                )
                self.apply(number, chunk, begin)
            if is_given:
                state.first_offset = 0
        return 0

    cdef int apply(self, uint32_t number, const Chunk *chunk, size_t begin) except -1 nogil:
        """Give time-points the verdicts of the session; those that are forgotten have them.

        PERF: many verdicts are of the event that brings them, which needs no search.

        Args:
            number: the number of the trace.
            chunk: has the events that have brought the verdicts; NULL if time has.
            begin: the number of the first of these events in the chunk.
        """
        cdef const VerdictRecord *verdict
        cdef Point *point
        cdef size_t k, place
        for k in range(self.session.verdict_count):
            verdict = &self.session.verdicts[k]
            point = NULL
            if chunk != NULL:
                place = begin + verdict.place
                if place < chunk.count and chunk.time_stamps[place] == verdict.time_stamp:
                    point = &chunk.points[place]
            if point == NULL or point.offset != verdict.offset:
                point = find_point(&self.traces[number], verdict.time_stamp, verdict.offset)
            if point != NULL:
                set_verdict(&self.journal, number, verdict.time_stamp, point, verdict)
        return 0

    cdef int reopen(self, uint32_t number) except -1 nogil:
        """Take the verdicts of time-points that are undecided at the end of the history."""
        cdef Trace *trace = &self.traces[number]
        cdef State *state = &self.session.state
        cdef uint64_t time_stamp, offset
        cdef Point *point
        cdef uint32_t k
        cdef uint32_t entry = NO_ENTRY
        if state.is_structured:
            entry = state.history.first
        k = state.register_base
        while True:
            if state.is_structured:
                if entry == NO_ENTRY:
                    return 0
                time_stamp = state.history.entries[entry].time_stamp
                offset = state.history.entries[entry].offset
                entry = state.history.entries[entry].later
            else:
                if k == state.register_base + state.register_count:
                    return 0
                time_stamp = state.registers[k].time_stamp
                offset = state.registers[k].offset
                k += 1
            point = find_point(trace, time_stamp, offset)
            if point != NULL:
                set_verdict(&self.journal, number, time_stamp, point, NULL)

    # ---- states ----------------------------------------------------------------------------

    cdef int make_live(self, uint32_t number) except -1 nogil:
        """Let the session have the state at the end of a trace."""
        if self.loaded != number:
            self.park()
            self.ends.load(&self.ends.resting[number])
            self.loaded = number
        return 0

    cdef int park(self) except -1 nogil:
        """Put the state that the session holds back to its trace."""
        if self.loaded != NO_TRACE:
            self.ends.store(&self.ends.resting[self.loaded])
            self.loaded = NO_TRACE
        return 0

    cdef int keep_small(self) except -1 nogil:
        """Forget transitions and expressions that no state needs, once they take much memory."""
        if self.ends.is_full():
            take_state(self.session.table, &self.session.state, &self.taken)
            self.ends.maybe_compact()
            give_state(self.session.table, &self.session.state, &self.taken)
        return 0

    cdef int save_start(self, Chunk *chunk) except -1 nogil:
        """Keep the session's state as that at the start of a chunk."""
        take_state(self.session.table, &self.session.state, &self.taken)
        copy_saved(&chunk.saved, &self.taken)
        chunk.is_saved = True
        return 0

    cdef int new_last_chunk(self, Trace *trace) except -1 nogil:
        """Add an empty chunk that begins with the session's state."""
        cdef Chunk *chunk = new_chunk(&self.spare)
        cdef bint is_done = False
        try:
            self.save_start(chunk)
            insert_chunk(trace, trace.count, chunk)
            is_done = True
        finally:
            if not is_done:
                free_chunk(chunk)
        return 0

    # ---- what is forgotten -----------------------------------------------------------------

    cdef void forget_some(self) noexcept nogil:
        """Forget what is final, in as many traces as there were events since the last time.

        So what is held follows the lateness, and not the size of batches.

        PERF: the first chunk of a trace has not been used for long, so it is far away in memory.
        The chunks of several traces are fetched at the same time.
        """
        cdef uint32_t due[DUE_TRACES]
        cdef uint64_t bounds[DUE_TRACES]
        cdef uint64_t most = self.event_count - self.swept_events + SWEPT_TRACES
        cdef uint64_t left = min(<uint64_t> self.trace_count, most)
        cdef uint32_t count, k
        cdef Trace *trace
        self.swept_events = self.event_count
        while left:
            count = 0
            while left and count < DUE_TRACES:
                left -= 1
                if self.swept >= self.trace_count:
                    self.swept = 0
                if self.bound_of(self.swept, &bounds[count]) and may_forget(
                    &self.traces[self.swept], bounds[count]
                ):
                    due[count] = self.swept
                    count += 1
                self.swept += 1
            for k in range(count):
                trace = &self.traces[due[k]]
                touch(trace.chunks[trace.first])
            for k in range(count):
                trace = &self.traces[due[k]]
                touch(trace.chunks[trace.first].time_stamps)
            for k in range(count):
                forget_chunks(&self.traces[due[k]], bounds[k], &self.spare)

    cdef int look_around(self) except -1 nogil:
        """Look for signals every now and then, and at what the session holds.

        PERF: to read the clock for each event took 3% of the time where events are of many traces.
        """
        self.keep_small()
        if self.chunks_until_look:
            self.chunks_until_look -= 1
            return 0
        self.chunks_until_look = CHUNKS_BETWEEN_LOOKS
        if nanoseconds() >= self.deadline:
            self.deadline = nanoseconds() + RUN_NANOSECONDS
            with gil:
                PyErr_CheckSignals()
        return 0
