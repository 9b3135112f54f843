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
from libc.stdlib cimport free, malloc, qsort, realloc

from mtlmon.engine.native cimport (
    NumberReader,
    NumberWriter,
    VERDICT_EQUIVALENT,
    VERDICT_FALSE,
    VERDICT_TRUE,
    VerdictKind,
    VerdictRecord,
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
        cdef VerdictRecord record
        cdef VerdictRecord *records
        cdef size_t k, count
        verdicts = list(verdicts)
        count = <size_t> len(verdicts)
        records = <VerdictRecord *> malloc(max(<size_t> 1, count) * sizeof(VerdictRecord))
        if records == NULL:
            raise MemoryError
        try:
            for k in range(count):
                time_stamp, offset, value = verdicts[k]
                records[k].time_stamp = time_stamp
                records[k].offset = offset
                if isinstance(value, tuple):
                    records[k].kind = VERDICT_EQUIVALENT
                    records[k].reference_time_stamp, records[k].reference_offset = value
                else:
                    records[k].kind = VERDICT_TRUE if value else VERDICT_FALSE
            if not self.push(records, count):
                raise MemoryError
        finally:
            free(records)
        resolved = []
        while self.next(&record, 1) > 0:
            resolved.append((record.time_stamp, record.offset, record.kind == VERDICT_TRUE))
        return resolved

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
        self.outcome_count = self.outcome_index = 0
        self.outcome_position = 0
        return self.take_event(verdicts, count)

    cdef bint push_events(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Do the same as `push` for several events, whose verdicts have different places."""
        cdef size_t first = 0
        cdef size_t end
        self.outcome_count = self.outcome_index = 0
        self.outcome_position = 0
        while first < count:
            end = first + 1
            while end < count and verdicts[end].place == verdicts[first].place:
                end += 1
            if not self.take_event(verdicts + first, end - first):
                return False
            first = end
        return True

    cdef bint take_event(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        """Append what the verdicts of one event resolve; False if there is no memory."""
        cdef size_t first = self.outcome_count
        cdef size_t k
        for k in range(count):
            if verdicts[count - 1 - k].kind == VERDICT_EQUIVALENT:
                if not self.join(verdicts + (count - 1 - k)):
                    return False
        for k in range(count):
            if verdicts[k].kind != VERDICT_EQUIVALENT:
                if not self.settle(verdicts + k):
                    return False
        self.sort_outcomes(first)
        return True

    cdef size_t next(self, VerdictRecord *verdicts, size_t capacity) noexcept nogil:
        """Fetch up to `capacity` resolved verdicts, in time-point order; 0 if there are none."""
        cdef size_t count = 0
        cdef Run *run
        while count < capacity and self.outcome_index < self.outcome_count:
            run = self.outcomes + self.outcome_index
            set_boolean(
                &verdicts[count], run.time_stamp, run.offset + self.outcome_position,
                <uint8_t> run.next
            )
            count += 1
            self.outcome_position += 1
            if self.outcome_position == run.length:
                self.outcome_position = 0
                self.outcome_index += 1
        return count

    cdef bint renumber(self, const uint32_t *new_numbers, uint32_t lanes) noexcept nogil:
        """Renumber the streams; False if there is no memory.

        Stream `lanes` * k + i becomes `lanes` * new_numbers[k] + i.
        """
        cdef Chain *old = self.chains
        cdef size_t size = 0 if old == NULL else self.chain_mask + 1
        cdef size_t slot, place
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
                old[slot].stream = (
                    <uint64_t> new_numbers[old[slot].stream // lanes] * lanes
                    + old[slot].stream % lanes
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
            + (self.run_room + self.outcome_room) * sizeof(Run)
        )

    cdef bint join(self, const VerdictRecord *verdict) noexcept nogil:
        """Append a time-point, with its own equivalents, to the chain of its reference."""
        cdef size_t slot, own, number
        cdef Chain *chain
        cdef Run *run
        if not self.reserve_chain():
            return False
        slot = self.find(verdict.reference_time_stamp, verdict.reference_offset)
        chain = self.chains + slot
        run = NULL if chain.first == NONE else self.runs + chain.last
        if (
            run != NULL
            and run.time_stamp == verdict.time_stamp
            and run.offset + run.length == verdict.offset
        ):
            run.length += 1
        elif (
            run != NULL
            and run.time_stamp == verdict.time_stamp
            and run.offset == verdict.offset + 1
        ):
            run.offset -= 1
            run.length += 1
        else:
            number = self.new_run(verdict.time_stamp, verdict.offset)
            if number == NONE:
                return False
            if chain.first == NONE:
                self.add_chain(
                    slot, verdict.reference_time_stamp, verdict.reference_offset, number
                )
            else:
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
        cdef Run run
        if not self.add_outcome(verdict.time_stamp, verdict.offset, 1, verdict.kind):
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
            if not self.add_outcome(run.time_stamp, run.offset, run.length, kind):
                return False
            self.open_count -= run.length
            if number == last:
                break
            number = run.next
        self.runs[last].next = self.free_run
        self.free_run = first
        return True

    cdef bint add_outcome(
        self, uint64_t time_stamp, uint64_t offset, uint64_t length, size_t kind
    ) noexcept nogil:
        cdef Run *run
        cdef void *larger
        if self.outcome_count == self.outcome_room:
            larger = enlarged(self.outcomes, &self.outcome_room)
            if larger == NULL:
                return False
            self.outcomes = <Run *> larger
        run = self.outcomes + self.outcome_count
        run.time_stamp = time_stamp
        run.offset = offset
        run.length = length
        run.next = kind
        self.outcome_count += 1
        if kind == VERDICT_TRUE:
            self.true_count += length
        else:
            self.false_count += length
        return True

    cdef void sort_outcomes(self, size_t first) noexcept nogil:
        """Put the outcomes from number `first` on in the order of time-points."""
        cdef size_t k
        for k in range(first + 1, self.outcome_count):
            if compare_runs(self.outcomes + k - 1, self.outcomes + k) > 0:
                qsort(
                    self.outcomes + first, self.outcome_count - first, sizeof(Run), compare_runs
                )
                return

    cdef size_t chain_of(self, uint64_t time_stamp, uint64_t offset) noexcept nogil:
        """The slot of a time-point's chain, or NONE if nothing is equivalent to the time-point.

        PERF: most verdicts are on time-points after all references, so nothing is looked up.
        """
        cdef size_t slot
        if self.chain_count == 0 or time_stamp > self.latest_time_stamp or (
            time_stamp == self.latest_time_stamp and offset > self.latest_offset
        ):
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
        self.outcome_count = self.outcome_index = 0
        self.outcome_position = 0
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
        cdef void *larger
        if number != NONE:
            self.free_run = self.runs[number].next
        else:
            if self.run_count == self.run_room:
                larger = enlarged(self.runs, &self.run_room)
                if larger == NULL:
                    return NONE
                self.runs = <Run *> larger
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


cdef void *enlarged(Run *runs, size_t *room) noexcept nogil:
    """Double the room of the array; NULL if there is no memory, and then it is unchanged."""
    cdef size_t wanted = max(<size_t> 64, 2 * room[0])
    cdef void *larger
    if wanted > SIZE_MAX // sizeof(Run) // 2:
        return NULL
    larger = realloc(runs, wanted * sizeof(Run))
    if larger != NULL:
        room[0] = wanted
    return larger


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
    cdef const Run *a = <const Run *> left
    cdef const Run *b = <const Run *> right
    if a.time_stamp != b.time_stamp:
        return -1 if a.time_stamp < b.time_stamp else 1
    return -1 if a.offset < b.offset else <int> (a.offset > b.offset)
