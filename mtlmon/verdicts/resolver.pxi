# cython: language_level=3
"""Resolve equivalence verdicts to Boolean verdicts.

For every open time-point that others are equivalent to, the resolver keeps the chain of those
others; when its Boolean verdict comes, they all get it. Consecutive time-points of one time-stamp
are kept as one run, so memory grows with the number of open runs of equivalents.

Several streams can share a resolver: the caller sets `stream` before `push`.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, SIZE_MAX, UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort

from mtlmon.engine.native cimport (
    NumberReader,
    NumberWriter,
    VERDICT_EQUIVALENT,
    VERDICT_FALSE,
    VERDICT_TRUE,
    VerdictKind,
    VerdictRecord,
    VerdictRun,
    as_bytes,
    damaged,
    set_boolean,
)

cdef size_t NONE = SIZE_MAX


@cython.final
cdef class Resolver:
    """Assigns a Boolean value to each time-point of a stream of verdicts.

    Attributes:
        open_count: the number of time-points whose equivalence has no value yet.
        true_count: the number of time-points that became true.
        false_count: the number of time-points that became false.
    """

    def __cinit__(self):
        self.free_run = NONE

    def __dealloc__(self):
        free(self.chains)
        free(self.runs)
        free(self.outcomes)

    def resolve(self, verdicts):
        """Take the verdicts of one event and return those that now have a Boolean value.

        verdicts: (time_stamp, offset, value) triples in time-point order. The value is a bool or,
        for an equivalence, the (time_stamp, offset) of the earlier time-point. The result has such
        triples in time-point order, with bools only.
        """
        return resolved_of(self, [list(verdicts)], False)

    def resolve_events(self, events):
        """Do the same as `resolve` for each of several events, at a time."""
        return resolved_of(self, events, True)

    cdef bint passes(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Whether these verdicts resolve to themselves; if so, they need no `push`.

        This is so if all are Boolean and nothing is equivalent to an open time-point.
        """
        cdef uint64_t true_count = 0
        cdef size_t k
        if self.chain_count:
            return False
        for k in range(count):
            if verdicts[k].kind == VERDICT_EQUIVALENT:
                return False
            true_count += verdicts[k].kind == VERDICT_TRUE
        self.true_count += true_count
        self.false_count += count - true_count
        return True

    cdef bint push(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Take the verdicts of one event, in time-point order; `next` returns what they resolve.

        The verdicts that an earlier call resolved must have been fetched. False if there is no
        memory.

        Equivalences are processed first, in reverse order, so that a reference is still known if it
        is itself the subject of an equivalence or of a Boolean verdict of the same event. If events
        are not known (`is_flat`), equivalents of equivalents are looked up instead.
        """
        self.clear_outcomes()
        return self.take_event(verdicts, count)

    cdef bint push_events(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Do the same as `push` for several events, whose verdicts have different places.

        PERF: how many verdicts an event brings, and of which kinds, is hard to predict, so verdicts
        are processed one by one; collecting each event's verdicts first took up to 10 ns an event
        more, and calls in place of what is inline here up to 5. Joining outcomes that continue each
        other gained nothing for EVENTUALLY[0,5] p on a dense log, and lost 2 ns for p UNTIL[0,5] q.
        """
        cdef const VerdictRecord *verdict
        cdef const Chain *chain
        cdef Run *run
        cdef size_t start = 0
        cdef size_t k
        self.clear_outcomes()
        for k in range(count):
            verdict = verdicts + k
            if verdict.place != verdicts[start].place:
                if self.is_unsorted:
                    self.sort_outcomes()
                self.event_start = self.outcome_count
                start = k
            if verdict.kind != VERDICT_EQUIVALENT:
                if not is_after_references(self, verdict.time_stamp, verdict.offset):
                    if not self.settle(verdict):
                        return False
                elif not add_outcome(
                    self, verdict.time_stamp, verdict.offset, 1, <VerdictKind> verdict.kind
                ):
                    return False
                continue
            if self.chain_count and is_after_references(self, verdict.time_stamp, verdict.offset):
                # the time-point may continue a run
                chain = self.chains + self.recent
                if (
                    chain.time_stamp == verdict.reference_time_stamp
                    and chain.offset == verdict.reference_offset
                    and chain.stream == self.stream
                    and chain.first != NONE
                ):
                    run = self.runs + chain.last
                    if (
                        run.time_stamp == verdict.time_stamp
                        and run.offset + run.length == verdict.offset
                    ):
                        run.length += 1
                        self.open_count += 1
                        continue
            if not self.take_equivalence(verdicts + start, k - start, verdict):
                return False
        if self.is_unsorted:
            self.sort_outcomes()
        return True

    cdef bint take_equivalence(
        self, const VerdictRecord *before, size_t count, const VerdictRecord *verdict
    ) noexcept nogil:
        """Take an equivalence after `count` other verdicts of its event; False without memory.

        If one of them is on the time-point it refers to, the equivalence means what that one says.
        """
        cdef VerdictRecord record
        cdef const VerdictRecord *other
        if count == 0 or self.chain_of(
            verdict.reference_time_stamp, verdict.reference_offset
        ) != NONE:
            return self.join(verdict)
        record = verdict[0]
        while True:
            other = verdict_on(
                before, count, record.reference_time_stamp, record.reference_offset
            )
            if other == NULL:
                return self.join(&record)
            if other.kind != VERDICT_EQUIVALENT:
                record.kind = other.kind
                return self.settle(&record)
            record.reference_time_stamp = other.reference_time_stamp
            record.reference_offset = other.reference_offset

    cdef bint take_event(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Append what the verdicts of one event resolve; False if there is no memory."""
        cdef size_t k
        self.event_start = self.outcome_count
        for k in range(count):
            if verdicts[count - 1 - k].kind == VERDICT_EQUIVALENT:
                if not self.join(verdicts + (count - 1 - k)):
                    return False
        for k in range(count):
            if verdicts[k].kind != VERDICT_EQUIVALENT:
                if not self.settle(verdicts + k):
                    return False
        if self.is_unsorted:
            self.sort_outcomes()
        return True

    cdef void clear_outcomes(self) noexcept nogil:
        """Drop the outcomes, which have been fetched."""
        self.outcome_count = self.outcome_index = 0
        self.outcome_position = 0
        self.event_start = 0
        self.is_unsorted = False

    cdef size_t next(self, VerdictRecord *verdicts, size_t capacity) noexcept nogil:
        """Fetch up to `capacity` resolved verdicts, in time-point order; 0 if there are none."""
        cdef size_t count = 0
        cdef const VerdictRun *run
        while count < capacity and self.outcome_index < self.outcome_count:
            run = self.outcomes + self.outcome_index
            set_boolean(
                &verdicts[count], run.time_stamp, run.offset + self.outcome_position,
                run.kind
            )
            count += 1
            self.outcome_position += 1
            if self.outcome_position == run.length:
                self.outcome_position = 0
                self.outcome_index += 1
        return count

    cdef const VerdictRun *next_runs(self, size_t capacity, size_t *count) noexcept nogil:
        """Fetch up to `capacity` resolved verdicts, in time-point order, as runs.

        The runs are valid until the next call. Their number is stored in `count`; it is 0 if there
        are no verdicts.
        """
        cdef const VerdictRun *runs = self.outcomes + self.outcome_index
        count[0] = 0
        if self.outcome_index == self.outcome_count:
            return runs
        if self.outcome_position == 0:
            while self.outcome_index < self.outcome_count and runs[count[0]].length <= capacity:
                capacity -= runs[count[0]].length
                count[0] += 1
                self.outcome_index += 1
            if count[0]:
                return runs
        count[0] = 1
        self.piece = runs[0]
        self.piece.offset += self.outcome_position
        self.piece.length -= self.outcome_position
        if self.piece.length > capacity:
            self.piece.length = capacity
            self.outcome_position += capacity
        else:
            self.outcome_position = 0
            self.outcome_index += 1
        return &self.piece

    cdef bint renumber(
        self, const uint32_t *new_numbers, uint32_t lanes, const uint32_t *groups, uint32_t group
    ) noexcept nogil:
        """Renumber the streams; False if there is no memory.

        Stream `lanes` * k + i becomes `lanes` * new_numbers[k] + i if groups[i] is `group`.
        """
        cdef Chain *old = self.chains
        cdef size_t size = 0 if old == NULL else self.chain_mask + 1
        cdef size_t slot, place, lane
        if self.chain_count == 0:
            return True
        self.chains = <Chain *> malloc(size * sizeof(Chain))
        if self.chains == NULL:
            self.chains = old
            return False
        for slot in range(size):
            self.chains[slot].first = NONE
        for slot in range(size):
            if old[slot].first != NONE:
                lane = old[slot].stream % lanes
                if groups[lane] == group:
                    old[slot].stream = (
                        <uint64_t> new_numbers[old[slot].stream // lanes] * lanes + lane
                    )
                place = hash_chain(old + slot) & self.chain_mask
                while self.chains[place].first != NONE:
                    place = (place + 1) & self.chain_mask
                self.chains[place] = old[slot]
        free(old)
        return True

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the open time-points and the verdicts to be fetched take."""
        return (
            (0 if self.chains == NULL else (self.chain_mask + 1) * sizeof(Chain))
            + self.run_room * sizeof(Run) + self.outcome_room * sizeof(VerdictRun)
        )

    cdef bint join(self, const VerdictRecord *verdict) noexcept nogil:
        """Append a time-point, with its own equivalents, to the chain of its reference."""
        cdef size_t slot = self.chain_of(verdict.reference_time_stamp, verdict.reference_offset)
        cdef size_t own, number
        cdef Chain *chain
        cdef Run *run
        if slot == NONE:
            if not self.reserve_chain():
                return False
            number = self.new_run(verdict.time_stamp, verdict.offset)
            if number == NONE:
                return False
            slot = self.find(verdict.reference_time_stamp, verdict.reference_offset)
            self.add_chain(slot, verdict.reference_time_stamp, verdict.reference_offset, number)
            chain = self.chains + slot
            chain.last = number
        else:
            chain = self.chains + slot
            run = self.runs + chain.last
            if (
                run.time_stamp == verdict.time_stamp
                and run.offset + run.length == verdict.offset
            ):
                run.length += 1
            elif run.time_stamp == verdict.time_stamp and run.offset == verdict.offset + 1:
                run.offset -= 1
                run.length += 1
            else:
                number = self.new_run(verdict.time_stamp, verdict.offset)
                if number == NONE:
                    return False
                self.runs[chain.last].next = number
                chain.last = number
        self.open_count += 1
        own = self.chain_of(verdict.time_stamp, verdict.offset)
        if own != NONE:
            self.runs[chain.last].next = self.chains[own].first
            chain.last = self.chains[own].last
            self.remove(own)
        return True

    cdef bint settle(self, const VerdictRecord *verdict) noexcept nogil:
        """Give a Boolean verdict to a time-point and to its equivalents."""
        cdef size_t number = self.outcome_count
        cdef uint64_t k
        cdef VerdictRun run
        if not add_outcome(
            self, verdict.time_stamp, verdict.offset, 1, <VerdictKind> verdict.kind
        ):
            return False
        if self.chain_count == 0:
            return True
        if not self.is_flat:
            return self.settle_equivalents(
                verdict.time_stamp, verdict.offset, <VerdictKind> verdict.kind
            )
        while number < self.outcome_count:
            run = self.outcomes[number]
            for k in range(run.length):
                if self.chain_count == 0:
                    return True
                if not self.settle_equivalents(
                    run.time_stamp, run.offset + k, <VerdictKind> verdict.kind
                ):
                    return False
            number += 1
        return True

    cdef bint settle_equivalents(
        self, uint64_t time_stamp, uint64_t offset, VerdictKind kind
    ) noexcept nogil:
        """Give a Boolean verdict to the equivalents of a time-point."""
        cdef size_t slot = self.chain_of(time_stamp, offset)
        cdef size_t first, last, number
        cdef Run *run
        if slot == NONE:
            return True
        first = number = self.chains[slot].first
        last = self.chains[slot].last
        self.remove(slot)
        while True:
            run = self.runs + number
            if not add_outcome(self, run.time_stamp, run.offset, run.length, kind):
                return False
            self.open_count -= run.length
            if number == last:
                break
            number = run.next
        self.runs[last].next = self.free_run
        self.free_run = first
        return True

    cdef void sort_outcomes(self) noexcept nogil:
        """Put the outcomes of the last event in the order of time-points."""
        qsort(
            self.outcomes + self.event_start, self.outcome_count - self.event_start,
            sizeof(VerdictRun), compare_runs
        )
        self.is_unsorted = False

    cdef size_t chain_of(self, uint64_t time_stamp, uint64_t offset) noexcept nogil:
        """The slot of a time-point's chain, or NONE if nothing is equivalent to the time-point.

        PERF: most verdicts are on time-points after all references, so nothing is looked up.
        """
        cdef size_t slot
        if is_after_references(self, time_stamp, offset):
            return NONE
        slot = self.find(time_stamp, offset)
        return slot if self.chains[slot].first != NONE else NONE

    cdef size_t find(self, uint64_t time_stamp, uint64_t offset) noexcept nogil:
        """The slot of a time-point's chain, or the free slot where it belongs."""
        cdef size_t slot = self.recent
        if self.chains[slot].first != NONE and self.is_slot_of(slot, time_stamp, offset):
            return slot
        slot = hash_time_point(self.stream, time_stamp, offset) & self.chain_mask
        while self.chains[slot].first != NONE and not self.is_slot_of(slot, time_stamp, offset):
            slot = (slot + 1) & self.chain_mask
        self.recent = slot
        return slot

    cdef bint is_slot_of(
        self, size_t slot, uint64_t time_stamp, uint64_t offset
    ) noexcept nogil:
        """Whether a slot that is not free has the chain of a time-point."""
        cdef const Chain *chain = self.chains + slot
        return (
            chain.time_stamp == time_stamp
            and chain.offset == offset
            and chain.stream == self.stream
        )

    cdef void add_chain(
        self, size_t slot, uint64_t time_stamp, uint64_t offset, size_t number
    ) noexcept nogil:
        """Use a free slot for a chain, which begins with the run of this number."""
        cdef Chain *chain = self.chains + slot
        chain.stream = self.stream
        chain.time_stamp = time_stamp
        chain.offset = offset
        chain.first = number
        self.chain_count += 1
        if time_stamp > self.latest_time_stamp:
            self.latest_time_stamp = time_stamp
            self.latest_offset = offset
        elif time_stamp == self.latest_time_stamp:
            self.latest_offset = max(self.latest_offset, offset)

    cdef void remove(self, size_t slot) noexcept nogil:
        """Free a slot, moving up the slots behind it that would not be found any more."""
        cdef size_t hole = slot
        cdef size_t home
        self.chain_count -= 1
        while True:
            slot = (slot + 1) & self.chain_mask
            if self.chains[slot].first == NONE:
                break
            home = hash_chain(self.chains + slot) & self.chain_mask
            # distances run forward from the home slot and wrap around the table's end
            if ((slot - home) & self.chain_mask) >= ((slot - hole) & self.chain_mask):
                self.chains[hole] = self.chains[slot]
                hole = slot
        self.chains[hole].first = NONE

    cdef void clear(self) noexcept nogil:
        """Forget the open time-points, all of which stay open in the counts."""
        cdef size_t slot
        self.clear_outcomes()
        self.open_count = 0
        if self.chain_count == 0:
            return
        for slot in range(self.chain_mask + 1):
            self.chains[slot].first = NONE
        self.chain_count = 0
        self.latest_time_stamp = self.latest_offset = 0
        self.run_count = 0
        self.free_run = NONE

    cdef bint reserve_chain(self) noexcept nogil:
        """Make sure that one more chain fits; False if there is no memory."""
        cdef Chain *old = self.chains
        cdef size_t old_size = 0 if old == NULL else self.chain_mask + 1
        cdef size_t slot, place, size
        if 4 * (self.chain_count + 1) <= 3 * old_size:
            return True
        size = max(<size_t> 64, 2 * old_size)
        if size > SIZE_MAX // sizeof(Chain) // 4:
            return False
        self.chains = <Chain *> malloc(size * sizeof(Chain))
        if self.chains == NULL:
            self.chains = old
            return False
        self.chain_mask = size - 1
        for slot in range(size):
            self.chains[slot].first = NONE
        for slot in range(old_size):
            if old[slot].first != NONE:
                place = hash_chain(old + slot) & self.chain_mask
                while self.chains[place].first != NONE:
                    place = (place + 1) & self.chain_mask
                self.chains[place] = old[slot]
        free(old)
        return True

    cdef size_t new_run(self, uint64_t time_stamp, uint64_t offset) noexcept nogil:
        """A run of one time-point, or NONE if there is no memory."""
        cdef size_t number = self.free_run
        if number != NONE:
            self.free_run = self.runs[number].next
        else:
            if self.run_count == self.run_room and not enlarge(
                <void **> &self.runs, &self.run_room, sizeof(Run)
            ):
                return NONE
            number = self.run_count
            self.run_count += 1
        self.runs[number].time_stamp = time_stamp
        self.runs[number].offset = offset
        self.runs[number].length = 1
        return number

    def snapshot(self, *, bint has_streams=False):
        """The open equivalences as bytes, for `restore` in any process; has no digest.

        Time-stamps are written as distances from the latest one, which keeps them short.

        has_streams: whether there are other streams than stream 0.
        """
        cdef NumberWriter writer = NumberWriter()
        cdef uint64_t latest = self.latest()
        cdef size_t slot
        writer.put(latest)
        writer.put(self.chain_count)
        if self.chain_count > 0:
            for slot in range(self.chain_mask + 1):
                if self.chains[slot].first != NONE:
                    if has_streams:
                        writer.put(self.chains[slot].stream)
                    self.put_chain(writer, self.chains + slot, latest)
        return writer.taken()

    def restore(self, snapshot, *, uint64_t stream_count=0):
        """Continue from the snapshot of another resolver; this one must be new.

        stream_count: how many streams there are, if the snapshot was made with `has_streams`.

        Raises:
            SnapshotError: the bytes are not a snapshot; the resolver must not be used after that.
        """
        cdef NumberReader reader = NumberReader()
        cdef uint64_t latest, _chain
        reader.open(as_bytes(snapshot), 0)
        latest = reader.get(INT64_MAX)
        for _chain in range(reader.get_count(6)):
            if stream_count:
                self.stream = reader.get(stream_count - 1)
            self.read_chain(reader, latest)
        reader.end()

    cdef uint64_t latest(self) noexcept nogil:
        """An upper bound of the open time-stamps."""
        cdef uint64_t latest = 0
        cdef size_t slot, number
        if self.chain_count == 0:
            return 0
        for slot in range(self.chain_mask + 1):
            number = self.chains[slot].first
            if number == NONE:
                continue
            # the time-points of a chain are later than the time-point they are equivalent to
            while number != self.chains[slot].last:
                latest = max(latest, self.runs[number].time_stamp)
                number = self.runs[number].next
            latest = max(latest, self.runs[number].time_stamp)
        return latest

    cdef int put_chain(self, NumberWriter writer, const Chain *chain, uint64_t latest) except -1:
        cdef size_t number = chain.first
        cdef uint64_t count = 1
        while number != chain.last:
            number = self.runs[number].next
            count += 1
        writer.put(latest - chain.time_stamp)
        writer.put(chain.offset)
        writer.put(count)
        number = chain.first
        while count > 0:
            writer.put(latest - self.runs[number].time_stamp)
            writer.put(self.runs[number].offset)
            writer.put(self.runs[number].length)
            number = self.runs[number].next
            count -= 1
        return 0

    cdef int read_chain(self, NumberReader reader, uint64_t latest) except -1:
        cdef uint64_t time_stamp = latest - reader.get(latest)
        cdef uint64_t offset = reader.get(UINT64_MAX)
        cdef uint64_t count = reader.get_count(3)
        cdef uint64_t _run, run_time_stamp, run_offset, length
        cdef size_t slot, number
        if not self.reserve_chain():
            raise MemoryError
        slot = self.find(time_stamp, offset)
        if count == 0 or self.chains[slot].first != NONE:
            raise damaged()
        for _run in range(count):
            run_time_stamp = latest - reader.get(latest)
            run_offset = reader.get(UINT64_MAX)
            length = reader.get(min(UINT64_MAX - run_offset, UINT64_MAX - self.open_count))
            if length == 0 or run_time_stamp < time_stamp or (
                run_time_stamp == time_stamp and run_offset <= offset
            ):
                raise damaged()
            number = self.new_run(run_time_stamp, run_offset)
            if number == NONE:
                raise MemoryError
            self.runs[number].length = length
            self.open_count += length
            if self.chains[slot].first == NONE:
                self.add_chain(slot, time_stamp, offset, number)
            else:
                self.runs[self.chains[slot].last].next = number
            self.chains[slot].last = number
        return 0


cdef list resolved_of(Resolver resolver, events, bint has_places):
    """Take the verdicts of events with `push_events` or, for one event, with `push`."""
    cdef VerdictRecord record
    cdef VerdictRecord *records
    cdef size_t count = <size_t> sum(map(len, events))
    cdef size_t k = 0
    cdef bint has_memory
    records = <VerdictRecord *> malloc(max(<size_t> 1, count) * sizeof(VerdictRecord))
    if records == NULL:
        raise MemoryError
    try:
        for place, verdicts in enumerate(events):
            for time_stamp, offset, value in verdicts:
                set_boolean(&records[k], time_stamp, offset, VERDICT_FALSE)
                records[k].place = place
                if isinstance(value, tuple):
                    records[k].kind = VERDICT_EQUIVALENT
                    records[k].reference_time_stamp, records[k].reference_offset = value
                elif value:
                    records[k].kind = VERDICT_TRUE
                k += 1
        if has_places:
            has_memory = resolver.push_events(records, count)
        else:
            has_memory = resolver.push(records, count)
        if not has_memory:
            raise MemoryError
    finally:
        free(records)
    resolved = []
    while resolver.next(&record, 1) > 0:
        resolved.append((record.time_stamp, record.offset, record.kind == VERDICT_TRUE))
    return resolved


cdef const VerdictRecord *verdict_on(
    const VerdictRecord *verdicts, size_t count, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    """The verdict on a time-point, among verdicts in the order of time-points; or NULL."""
    cdef size_t first = 0
    cdef size_t middle
    while first < count:
        middle = first + (count - first) // 2
        if verdicts[middle].time_stamp == time_stamp and verdicts[middle].offset == offset:
            return verdicts + middle
        if verdicts[middle].time_stamp < time_stamp or (
            verdicts[middle].time_stamp == time_stamp and verdicts[middle].offset < offset
        ):
            first = middle + 1
        else:
            count = middle
    return NULL


cdef inline bint is_after_references(
    Resolver resolver, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    """Whether a time-point is after all time-points that others are equivalent to."""
    return (
        resolver.chain_count == 0
        or time_stamp > resolver.latest_time_stamp
        or time_stamp == resolver.latest_time_stamp and offset > resolver.latest_offset
    )


cdef inline bint add_outcome(
    Resolver resolver, uint64_t time_stamp, uint64_t offset, uint64_t length, VerdictKind kind
) noexcept nogil:
    """Append a run of time-points to the outcomes; False if there is no memory."""
    cdef VerdictRun *run
    cdef size_t count = resolver.outcome_count
    cdef uint64_t true_length = length & -<uint64_t> (kind == VERDICT_TRUE)
    if count == resolver.outcome_room and not enlarge(
        <void **> &resolver.outcomes, &resolver.outcome_room, sizeof(VerdictRun)
    ):
        return False
    run = resolver.outcomes + count
    run.time_stamp = time_stamp
    run.offset = offset
    run.length = length
    run.kind = <uint8_t> kind
    if count > resolver.event_start and compare_runs(run - 1, run) > 0:
        resolver.is_unsorted = True
    resolver.outcome_count = count + 1
    resolver.true_count += true_length
    resolver.false_count += length - true_length
    return True


cdef inline size_t hash_chain(const Chain *chain) noexcept nogil:
    return hash_time_point(chain.stream, chain.time_stamp, chain.offset)


cdef inline size_t hash_time_point(
    uint64_t stream, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    cdef uint64_t value = (time_stamp * <uint64_t> 0x9E3779B97F4A7C15) ^ offset
    value += stream * <uint64_t> 0xC2B2AE3D27D4EB4F
    value *= <uint64_t> 0xD6E8FEB86659FD93
    return <size_t> (value ^ (value >> 32))


cdef int compare_runs(const void *left, const void *right) noexcept nogil:
    cdef const VerdictRun *a = <const VerdictRun *> left
    cdef const VerdictRun *b = <const VerdictRun *> right
    if a.time_stamp != b.time_stamp:
        return -1 if a.time_stamp < b.time_stamp else 1
    return -1 if a.offset < b.offset else <int> (a.offset > b.offset)
