# cython: language_level=3
"""Look-ups: the segment of a key that a time is in."""


cdef struct CodeSlot:
    int64_t value
    int64_t code        # negative in a free slot


@final
cdef class Codes:
    """Numbers integers in the order in which they first occur."""

    cdef CodeSlot *slots
    cdef size_t mask
    cdef readonly size_t count
    cdef uint64_t seed[2]

    def __cinit__(self):
        chosen = os.urandom(sizeof(self.seed))
        memcpy(self.seed, <const char *> chosen, sizeof(self.seed))
        self.seed[1] |= 1
        self.resize(64)

    def __dealloc__(self):
        free(self.slots)

    def number(self, values, size_t count):
        """Return the numbers of values, some of which may be new.

        values: a contiguous array of type int64.
        count: its length.

        Returns:
            The memory of an array of type int64.
        """
        return self.numbers_of(values, count, True)

    def find(self, values, size_t count):
        """Return the numbers of values as `number` does, but -1 for those that have none."""
        return self.numbers_of(values, count, False)

    cdef object numbers_of(self, object values, size_t count, bint adds):
        cdef Memory memory = contiguous(values, sizeof(int64_t), count)
        cdef int64_t *found = <int64_t *> room(count, sizeof(int64_t))
        try:
            with nogil:
                self.run(integers(memory), count, found, adds)
            return block_of(<void **> &found, count, sizeof(int64_t))
        finally:
            free(found)

    @property
    def values(self):
        """The values in the order of their numbers: the memory of an array of type int64."""
        cdef int64_t *found = <int64_t *> room(self.count, sizeof(int64_t))
        cdef size_t k
        for k in range(self.mask + 1):
            if self.slots[k].code >= 0:
                found[self.slots[k].code] = self.slots[k].value
        return block_of(<void **> &found, self.count, sizeof(int64_t))

    cdef int run(
        self, const int64_t *values, size_t count, int64_t *found, bint adds
    ) except -1 nogil:
        cdef size_t k
        cdef CodeSlot *slot
        for k in range(count):
            prefetch(&self.slots[self.hash_of(values[min(k + AHEAD, count - 1)]) & self.mask])
            slot = self.slot_of(values[k])
            if slot.code < 0 and adds:
                if 2 * (self.count + 1) > self.mask:
                    self.resize(2 * (self.mask + 1))
                    slot = self.slot_of(values[k])
                slot.value = values[k]
                slot.code = <int64_t> self.count
                self.count += 1
            found[k] = slot.code
        return 0

    cdef inline uint64_t hash_of(self, int64_t value) noexcept nogil:
        return fold(<uint64_t> value ^ self.seed[0], self.seed[1])

    cdef inline CodeSlot *slot_of(self, int64_t value) noexcept nogil:
        """The slot of a value, or a free one."""
        cdef size_t place = self.hash_of(value) & self.mask
        while self.slots[place].code >= 0 and self.slots[place].value != value:
            place = (place + 1) & self.mask
        return self.slots + place

    cdef int resize(self, size_t size) except -1 nogil:
        """Move all values to a table of another size."""
        cdef CodeSlot *former = self.slots
        cdef size_t former_size = self.mask + 1 if former != NULL else 0
        cdef size_t k
        cdef CodeSlot *slots
        with gil:
            slots = <CodeSlot *> room(size, sizeof(CodeSlot))
        for k in range(size):
            slots[k].code = -1
        self.slots = slots
        self.mask = size - 1
        for k in range(former_size):
            if former[k].code >= 0:
                self.slot_of(former[k].value)[0] = former[k]
        free(former)
        return 0


cdef struct Segment:
    int64_t start, end, row


@final
cdef class Segments:
    """Finds the record of a key that is valid at a time.

    Attributes:
        overlapping: for each key, whether two of its records are valid at the same time: the memory
            of an array of type uint8; None if that is so for no key. Such keys cannot be looked up.
    """

    cdef readonly object overlapping
    cdef readonly size_t keys
    cdef Segment *segments      # those of one key after those of another, in order of start
    cdef size_t *firsts         # for each key, the first of its segments, and the end of the last
    cdef uint8_t *overlaps

    def __init__(self, Timeline timeline not None, codes, rows, size_t keys):
        """Put records in order of their keys.

        timeline: the records; only the order of starts is used.
        codes: the number of the key of each record, a contiguous array of type int64; negative for
            what is never found.
        rows: what is found for each record, a contiguous array of type int64; None for its place.
        keys: the number of keys.

        Raises ValueError for arrays of other lengths, or greater numbers of keys.
        """
        cdef Memory memory = contiguous(codes, sizeof(int64_t), timeline.count)
        cdef Memory of_rows
        cdef const int64_t *numbers = integers(memory)
        cdef const int64_t *found = NULL
        cdef size_t k
        cdef bint is_right = True
        cdef bint any_overlap
        if rows is not None:
            of_rows = contiguous(rows, sizeof(int64_t), timeline.count)
            found = integers(of_rows)
        if self.firsts != NULL:
            raise ValueError("the records are known")
        if keys >= NONE:
            raise ValueError("more than 2^32 - 2 keys")
        with nogil:
            for k in range(timeline.count):
                is_right &= numbers[k] < <int64_t> keys
        if not is_right:
            raise ValueError("a number of a key is too great")
        self.keys = keys
        self.firsts = <size_t *> zeros(keys + 1, sizeof(size_t))
        self.segments = <Segment *> room(timeline.count, sizeof(Segment))
        self.overlaps = <uint8_t *> zeros(keys, 1)
        with nogil:
            self.sort(timeline, numbers, found)
            any_overlap = self.find_overlaps()
        if any_overlap:
            self.overlapping = block_of(<void **> &self.overlaps, keys, 1)

    def __dealloc__(self):
        free(self.firsts)
        free(self.segments)
        free(self.overlaps)

    cdef void sort(
        self, Timeline timeline, const int64_t *codes, const int64_t *rows
    ) noexcept nogil:
        cdef const int64_t *order = timeline.by_start
        cdef size_t total = 0
        cdef size_t k, row, count
        cdef Segment *segment
        for k in range(timeline.count):
            if codes[k] >= 0:
                self.firsts[codes[k]] += 1
        for k in range(self.keys + 1):
            count = self.firsts[k]
            self.firsts[k] = total
            total += count
        for k in range(timeline.count):
            row = k if order == NULL else <size_t> order[k]
            if codes[row] < 0:
                continue
            segment = self.segments + self.firsts[codes[row]]
            self.firsts[codes[row]] += 1
            segment.start = timeline.starts[row]
            segment.end = timeline.ends[row]
            segment.row = <int64_t> row if rows == NULL else rows[row]
        # each is where the next one began
        for k in range(self.keys, 0, -1):
            self.firsts[k] = self.firsts[k - 1]
        self.firsts[0] = 0

    cdef bint find_overlaps(self) noexcept nogil:
        cdef bint any_overlap = False
        cdef size_t key, k
        for key in range(self.keys):
            for k in range(self.firsts[key] + 1, self.firsts[key + 1]):
                if self.segments[k - 1].end > self.segments[k].start:
                    self.overlaps[key] = any_overlap = True
                    break
        return any_overlap

    def find(self, times, codes, size_t count, int64_t nothing):
        """Find what is valid at times.

        times: a contiguous array of type int64.
        codes: the number of the key of each, a contiguous array of type int64; there may be no such
            key.
        count: their length.
        nothing: what is found where no record is.

        Returns:
            The memory of an array of type int64.

        Raises ValueError for arrays of other lengths.
        """
        cdef Memory of_times = contiguous(times, sizeof(int64_t), count)
        cdef Memory of_codes = contiguous(codes, sizeof(int64_t), count)
        cdef int64_t *found = <int64_t *> room(count, sizeof(int64_t))
        try:
            with nogil:
                self.run(integers(of_times), integers(of_codes), count, nothing, found)
            return block_of(<void **> &found, count, sizeof(int64_t))
        finally:
            free(found)

    cdef void run(
        self, const int64_t *times, const int64_t *codes, size_t count, int64_t nothing,
        int64_t *found
    ) noexcept nogil:
        cdef size_t first[AHEAD]
        cdef size_t last[AHEAD]
        cdef size_t done = 0
        cdef size_t k, several
        # PERF: places are read from memory for many rows at once
        while done < count:
            several = min(<size_t> AHEAD, count - done)
            for k in range(several):
                if self.is_key(codes[done + k]):
                    prefetch(&self.firsts[codes[done + k]])
            for k in range(several):
                first[k] = last[k] = 0
                if self.is_key(codes[done + k]):
                    first[k] = self.firsts[codes[done + k]]
                    last[k] = self.firsts[codes[done + k] + 1]
                    prefetch(&self.segments[first[k] + (last[k] - first[k]) // 2])
            for k in range(several):
                found[done + k] = self.find_one(times[done + k], first[k], last[k], nothing)
            done += several

    cdef inline bint is_key(self, int64_t code) noexcept nogil:
        return code >= 0 and <size_t> code < self.keys

    cdef inline int64_t find_one(
        self, int64_t time, size_t first, size_t last, int64_t nothing
    ) noexcept nogil:
        """What is valid at a time, of the segments of a key."""
        cdef size_t count = last - first
        cdef size_t half
        if not count:
            return nothing
        # the last segment that starts up to the time, or the first one
        while count > 1:
            half = count // 2
            first += half if self.segments[first + half].start <= time else 0
            count -= half
        if self.segments[first].start <= time and (
            time < self.segments[first].end or self.segments[first].end == NO_END
        ):
            return self.segments[first].row
        return nothing
