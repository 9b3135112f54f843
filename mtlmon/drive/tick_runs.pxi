# cython: language_level=3
"""The ticks of a policy: each stream has the same letter at each of them until the next is given.

A stream comes to rest when an event leads its state back to where it was and has a verdict at once,
and nobody wants such verdicts. From then on, each further tick with this letter would do the same.
So these ticks are only counted, until another letter is given.

Ticks of one time come in the order of streams, whether these rest or not. Streams with ticks are
never forgotten: if one came back, neither its place in this order nor the number of its ticks would
be known.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport (
    NO_CONFIGURATION,
    NumberReader,
    NumberWriter,
    VERDICT_EQUIVALENT,
    VERDICT_FALSE,
    VERDICT_TRUE,
    Verdicts,
    damaged,
    reserve,
)
from mtlmon.traces.native cimport Resting, Streams, WaitingStreams

cdef enum:
    NO_VERDICT = 0
    # an equivalence, or several verdicts; Boolean verdicts are their kind plus 1
    OTHER_VERDICTS = 3


cdef int reserve_events(TickEvents *events, size_t count, size_t words) except -1 nogil:
    """Make room for so many events."""
    cdef size_t room = max(count, events.room + events.room // 2)
    if count <= events.room:
        return 0
    events.room = 0
    if not (
        has_resized(<void **> &events.numbers, room, sizeof(uint32_t))
        and has_resized(<void **> &events.letters, room, words * sizeof(uint64_t))
        and has_resized(<void **> &events.time_stamps, room, sizeof(uint64_t))
        and has_resized(<void **> &events.configurations, room, sizeof(uint32_t))
        and has_resized(<void **> &events.verdicts, room, sizeof(uint8_t))
    ):
        with gil:
            raise MemoryError("mtlmon: out of memory")
    events.room = room
    return 0


cdef bint has_resized(void **block, size_t count, size_t item_size) noexcept nogil:
    cdef void *grown
    if count > SIZE_MAX // 2 // item_size:
        return False
    grown = realloc(block[0], count * item_size)
    if grown == NULL:
        return False
    block[0] = grown
    return True


cdef void free_events(TickEvents *events) noexcept nogil:
    free(events.numbers)
    free(events.letters)
    free(events.time_stamps)
    free(events.configurations)
    free(events.verdicts)


@final
cdef class TickRuns:
    """The ticks of a period at which the monitors of a policy have events.

    period: the period; 1 if all ticks are given.
    rests_when_false, rests_when_true: whether nobody wants such verdicts.
    """

    def __cinit__(
        self, Streams streams not None, uint64_t period, bint rests_when_false,
        bint rests_when_true
    ):
        if not period:
            raise ValueError("a period is not 0")
        self.streams = streams
        self.block = EventBlock(streams.worker.letter_words)
        self.period = period
        self.may_rest[<int> VERDICT_FALSE] = rests_when_false
        self.may_rest[<int> VERDICT_TRUE] = rests_when_true

    def __dealloc__(self):
        free_events(&self.awake)
        free_events(&self.events)
        free(self.resting)
        free(self.tick_times)

    cdef int resume(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count,
        uint64_t end, VerdictRows rows, VerdictFilter filter, WaitingStreams waiting
    ) except -1 nogil:
        """Take all ticks below a time, with some events where letters change.

        The verdicts are added to `rows`; their `policies` are indices into `tick_times`.
        """
        cdef size_t last = first + count
        cdef uint64_t time_stamp
        cdef uint32_t room = self.resting_room
        self.tick_count = 0
        self.has_failed = False
        reserve(<void **> &self.resting, &self.resting_room, self.streams.count, sizeof(uint8_t))
        if room < self.resting_room:
            memset(self.resting + room, 0, self.resting_room - room)
        self.block.next = self.block.count = 0
        while True:
            time_stamp = self.next if self.awake.count else UINT64_MAX
            if first < last:
                time_stamp = min(time_stamp, events.time_stamp_of(first))
            if time_stamp >= end:
                break
            self.gather(events, numbers, &first, last, time_stamp)
            self.run(time_stamp, rows, filter, waiting)
            self.next = time_stamp + self.period
        self.done = max(self.done, end)
        return 0

    cdef int gather(
        self, EventColumns events, const uint32_t *numbers, size_t *next_event, size_t last,
        uint64_t time_stamp
    ) except -1 nogil:
        """Bring the streams that are awake and those with a new letter in order."""
        cdef TickEvents *found = &self.events
        cdef size_t words = self.streams.worker.letter_words
        cdef size_t k = 0
        cdef size_t given = next_event[0]
        cdef const uint64_t *letter
        cdef uint32_t number
        found.count = 0
        while True:
            if given < last and self.block.next == self.block.count:
                self.block.read(events, given, last)
            if given < last and self.block.time_stamps[self.block.next] == time_stamp and (
                k == self.awake.count or numbers[given] <= self.awake.numbers[k]
            ):
                number = numbers[given]
                letter = self.block.letters + self.block.next * words
                self.block.next += 1
                given += 1
                if k < self.awake.count and self.awake.numbers[k] == number:
                    k += 1
                elif self.resting[number]:
                    self.wake(number, time_stamp)
            elif k < self.awake.count:
                number = self.awake.numbers[k]
                letter = self.awake.letters + k * words
                k += 1
            else:
                break
            reserve_events(found, found.count + 1, words)
            found.numbers[found.count] = number
            found.time_stamps[found.count] = time_stamp
            memcpy(found.letters + found.count * words, letter, words * sizeof(uint64_t))
            found.count += 1
        next_event[0] = given
        return 0

    cdef int run(
        self, uint64_t time_stamp, VerdictRows rows, VerdictFilter filter, WaitingStreams waiting
    ) except -1 nogil:
        """Let the monitors process the events of a tick, and find the streams that then rest."""
        cdef TickEvents *events = &self.events
        cdef size_t words = self.streams.worker.letter_words
        cdef const Resting *resting
        cdef uint64_t compactions = self.streams.compactions
        cdef size_t done = 0
        cdef bint is_done
        cdef size_t k
        for k in range(events.count):
            resting = &self.streams.resting[events.numbers[k]]
            events.verdicts[k] = NO_VERDICT
            events.configurations[k] = NO_CONFIGURATION
            if resting.time_stamp + self.period == time_stamp and not resting.register_count:
                events.configurations[k] = resting.configuration
        while done < events.count:
            is_done = False
            try:
                self.streams.run(
                    events.numbers + done, events.time_stamps + done,
                    events.letters + done * words, events.count - done
                )
                is_done = True
            finally:
                # also after an error, for the verdicts of the events before it
                self.take(done, time_stamp, rows, filter)
                if waiting is not None:
                    waiting.note(events.numbers + done, self.streams.done)
                done += self.streams.done
                if not is_done and done < events.count:
                    self.has_failed = True
                    self.failed_number = events.numbers[done]
                    self.note_tick(time_stamp)
        return self.let_rest(time_stamp, compactions)

    cdef int take(
        self, size_t first, uint64_t time_stamp, VerdictRows rows, VerdictFilter filter
    ) except -1 nogil:
        """Take the verdicts of the events from number `first` on."""
        cdef const Verdicts *output = &self.streams.worker.output
        cdef uint32_t known = rows.count
        cdef uint8_t *verdict
        cdef uint32_t k
        for k in range(output.count):
            verdict = &self.events.verdicts[first + output.records[k].place]
            if verdict[0] or output.records[k].kind == VERDICT_EQUIVALENT:
                verdict[0] = OTHER_VERDICTS
            else:
                verdict[0] = output.records[k].kind + 1
        rows.put_owned(output, self.streams.owners, filter, 0)
        if rows.count > known:
            self.note_tick(time_stamp)
        for k in range(known, rows.count):
            rows.policies[k] = self.tick_count - 1
        return 0

    cdef int note_tick(self, uint64_t time_stamp) except -1 nogil:
        """Make a tick the last one that matters to others."""
        if self.tick_count and self.tick_times[self.tick_count - 1] == time_stamp:
            return 0
        reserve(
            <void **> &self.tick_times, &self.tick_room, <size_t> self.tick_count + 1,
            sizeof(uint64_t)
        )
        self.tick_times[self.tick_count] = time_stamp
        self.tick_count += 1
        return 0

    cdef int let_rest(self, uint64_t time_stamp, uint64_t compactions) except -1 nogil:
        """Find the streams that rest after the events of a tick; the others stay awake."""
        cdef TickEvents *events = &self.events
        cdef size_t words = self.streams.worker.letter_words
        cdef bint is_comparable = compactions == self.streams.compactions
        cdef const Resting *resting
        cdef uint8_t verdict
        cdef size_t kept = 0
        cdef size_t k
        if self.is_complete:
            return 0
        reserve_events(&self.awake, events.count, words)
        for k in range(events.count):
            resting = &self.streams.resting[events.numbers[k]]
            verdict = events.verdicts[k]
            if (
                is_comparable
                and verdict != NO_VERDICT
                and verdict != OTHER_VERDICTS
                and self.may_rest[verdict - 1]
                and events.configurations[k] != NO_CONFIGURATION
                and events.configurations[k] == resting.configuration
                and not resting.register_count
                and not resting.is_broken
            ):
                self.resting[events.numbers[k]] = verdict
                self.sleepers[verdict - 1] += 1
                self.asleep_from[verdict - 1] += time_stamp // self.period
                continue
            self.awake.numbers[kept] = events.numbers[k]
            memcpy(
                self.awake.letters + kept * words, events.letters + k * words,
                words * sizeof(uint64_t)
            )
            kept += 1
        self.awake.count = kept
        return 0

    cdef void wake(self, uint32_t number, uint64_t time_stamp) noexcept nogil:
        """Let a stream have taken all ticks below one."""
        cdef Resting *resting = &self.streams.resting[number]
        cdef int verdict = self.resting[number] - 1
        cdef uint64_t asleep_from = resting.time_stamp // self.period
        self.resting[number] = 0
        self.sleepers[verdict] -= 1
        self.asleep_from[verdict] -= asleep_from
        self.slept[verdict] += time_stamp // self.period - 1 - asleep_from
        resting.time_stamp = resting.clock = time_stamp - self.period

    cdef int give_all(self) except -1 nogil:
        """Repeat no letter from now on: each further event is given."""
        cdef uint64_t time_stamp = self.done + (self.period - self.done % self.period) % self.period
        cdef size_t k
        if self.is_complete:
            return 0
        for k in range(min(<size_t> self.resting_room, <size_t> self.streams.count)):
            if self.resting[k]:
                self.wake(<uint32_t> k, time_stamp)
        self.awake.count = 0
        self.is_complete = True
        return 0

    cdef uint64_t slept_count(self, int verdict) noexcept nogil:
        """How many ticks with a verdict streams have not taken, but only counted.

        Sums of numbers of ticks may overflow, but differences of them are right.
        """
        cdef uint64_t last = (self.done - 1) // self.period
        if not self.sleepers[verdict]:
            return self.slept[verdict]
        return self.slept[verdict] + self.sleepers[verdict] * last - self.asleep_from[verdict]

    cdef size_t held_bytes(self) noexcept nogil:
        cdef size_t words = self.streams.worker.letter_words
        cdef size_t each = 2 * sizeof(uint32_t) + sizeof(uint8_t) + (1 + words) * sizeof(uint64_t)
        return (
            (self.awake.room + self.events.room) * each
            + self.resting_room * sizeof(uint8_t)
            + self.tick_room * sizeof(uint64_t)
            + self.block.held_bytes()
        )

    cdef int put(self, NumberWriter writer) except -1:
        """Write the state."""
        cdef size_t words = self.streams.worker.letter_words
        cdef uint64_t count = 0
        cdef size_t k
        cdef uint32_t latest = 0
        writer.put(self.done)
        writer.put(self.next)
        writer.put(self.is_complete)
        writer.put(self.awake.count)
        for k in range(self.awake.count):
            writer.put(self.awake.numbers[k] - latest)
            latest = self.awake.numbers[k]
        for k in range(self.awake.count * words):
            writer.put(self.awake.letters[k])
        for k in range(2):
            writer.put(self.slept[k])
            count += self.sleepers[k]
        writer.put(count)
        latest = 0
        for k in range(min(self.resting_room, self.streams.count)):
            if self.resting[k]:
                writer.put(<uint32_t> k - latest)
                writer.put(self.resting[k] - 1)
                latest = <uint32_t> k
        return 0

    cdef int read(self, NumberReader reader) except -1:
        """Read the state; that of the streams has been read.

        Raises:
            SnapshotError: the numbers are damaged.
        """
        cdef size_t words = self.streams.worker.letter_words
        cdef uint64_t count, number, k
        cdef uint8_t verdict
        cdef const Resting *resting
        self.done = reader.get(<uint64_t> 1 << 63)
        self.next = reader.get(UINT64_MAX)
        self.is_complete = reader.get(1) != 0
        count = reader.get_count(1)
        reserve_events(&self.awake, count, words)
        reserve(<void **> &self.resting, &self.resting_room, self.streams.count, sizeof(uint8_t))
        if self.resting_room:
            memset(self.resting, 0, self.resting_room)
        number = 0
        for k in range(count):
            number += reader.get(UINT32_MAX)
            if number >= self.streams.count or (
                k and number == self.awake.numbers[k - 1]
            ):
                raise damaged()
            self.awake.numbers[k] = <uint32_t> number
            # until all is read, they count as at rest, so that no stream is twice among all
            self.resting[number] = 1
        for k in range(count * words):
            self.awake.letters[k] = reader.get(UINT64_MAX)
        self.awake.count = count
        for k in range(2):
            self.slept[k] = reader.get(UINT64_MAX)
        count = reader.get_count(2)
        number = 0
        for _ in range(count):
            number += reader.get(UINT32_MAX)
            verdict = <uint8_t> reader.get(1)
            if number >= self.streams.count or self.resting[number]:
                raise damaged()
            resting = &self.streams.resting[number]
            if resting.whole != NULL or resting.register_count:
                raise damaged()
            self.resting[number] = verdict + 1
            self.sleepers[verdict] += 1
            self.asleep_from[verdict] += resting.time_stamp // self.period
        for k in range(self.awake.count):
            self.resting[self.awake.numbers[k]] = 0
        return 0
