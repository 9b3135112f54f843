# cython: language_level=3
"""How often each value occurs, as records that are as few as can be."""

from mtlmon.engine.native cimport reserve


cdef enum MultiplicityRule:
    EACH        # as often as in both
    ONCE        # once
    LESS        # as often as in the left one, less as often as in the right one
    ABSENT      # as often as in the left one, unless it is in the right one
    LEAST       # as often as in that where it is less often
    MOST        # as often as in that where it is more often


cdef dict RULES = {
    "each": EACH, "once": ONCE, "less": LESS, "absent": ABSENT, "least": LEAST, "most": MOST
}


cdef struct Occurrences:
    # How often a value is valid, and a queue of the records in the output that are open.
    uint32_t left, right
    uint32_t level
    uint32_t first_open, last_open


@final
cdef class Multiplicities:
    """Computes relations that depend only on how often each value is valid at each time.

    Of equal records of the output, the one that starts first ends first, and none starts where an
    equal one ends.

    Attributes:
        starts, ends, values: the output in order of start: the memory of arrays of types int64,
            int64 and uint32.
    """

    cdef readonly object starts, ends, values
    cdef Occurrences *occurrences
    cdef Touched touched
    cdef int64_t *start_times
    cdef int64_t *end_times
    cdef uint32_t *numbers
    cdef uint32_t *following        # the next open record of the same value
    cdef uint32_t count
    cdef uint32_t start_room, end_room, number_room, following_room

    def __init__(
        self, str rule, Timeline timeline not None, Numbering values not None, size_t left
    ):
        """Compute the output.

        rule: one of "each", "once", "less", "absent", "least" and "most".
        timeline: the records of the left relation, then those of the right one.
        values: a number for each different value.
        left: the number of records of the left relation.

        Raises ValueError for other rules or lengths, MemoryError for too many records.
        """
        if rule not in RULES:
            raise ValueError(f"unknown rule {rule!r}")
        if values.count != timeline.count or left > timeline.count or self.occurrences != NULL:
            raise ValueError("the arrays are of different lengths")
        self.occurrences = <Occurrences *> zeros(values.limit, sizeof(Occurrences))
        prepare_touched(&self.touched, values.limit)
        cdef MultiplicityRule wanted = RULES[rule]
        with nogil:
            self.run(wanted, timeline, values.numbers, left)
        self.starts = block_of(<void **> &self.start_times, self.count, sizeof(int64_t))
        self.ends = block_of(<void **> &self.end_times, self.count, sizeof(int64_t))
        self.values = block_of(<void **> &self.numbers, self.count, sizeof(uint32_t))

    def __dealloc__(self):
        free(self.occurrences)
        free_touched(&self.touched)
        free(self.start_times)
        free(self.end_times)
        free(self.numbers)
        free(self.following)

    cdef int run(
        self, MultiplicityRule rule, Timeline timeline, const uint32_t *values, size_t left
    ) except -1 nogil:
        cdef Endpoints endpoints = timeline.endpoints()
        cdef int64_t time
        cdef size_t row
        cdef uint32_t k
        while next_time(&endpoints, &time):
            while ends_at(&endpoints, time, &row):
                self.count_row(values[row], row < left, -1)
            while starts_at(&endpoints, time, &row):
                self.count_row(values[row], row < left, 1)
            for k in range(self.touched.count):
                self.settle(rule, self.touched.items[k], time)
            self.touched.count = 0
        return 0

    cdef inline void count_row(self, uint32_t value, bint is_left, int change) noexcept nogil:
        cdef Occurrences *found = &self.occurrences[value]
        if is_left:
            found.left += <uint32_t> change
        else:
            found.right += <uint32_t> change
        touch(&self.touched, value)

    cdef inline int settle(
        self, MultiplicityRule rule, uint32_t value, int64_t time
    ) except -1 nogil:
        """Open or close records of a value, as many as there are more or fewer now."""
        cdef Occurrences *found = &self.occurrences[value]
        cdef uint32_t level = level_of(rule, found.left, found.right)
        self.touched.is_touched[value] = 0
        while found.level > level:
            self.end_times[found.first_open] = time
            found.first_open = self.following[found.first_open]
            found.level -= 1
        while found.level < level:
            self.open(found, value, time)
        return 0

    cdef int open(self, Occurrences *found, uint32_t value, int64_t time) except -1 nogil:
        cdef uint32_t place = self.count
        cdef size_t needed = <size_t> place + 1
        reserve(<void **> &self.start_times, &self.start_room, needed, sizeof(int64_t))
        reserve(<void **> &self.end_times, &self.end_room, needed, sizeof(int64_t))
        reserve(<void **> &self.numbers, &self.number_room, needed, sizeof(uint32_t))
        reserve(<void **> &self.following, &self.following_room, needed, sizeof(uint32_t))
        self.start_times[place] = time
        self.end_times[place] = NO_END
        self.numbers[place] = value
        self.following[place] = NONE
        if found.level:
            self.following[found.last_open] = place
        else:
            found.first_open = place
        found.last_open = place
        found.level += 1
        self.count += 1
        return 0


cdef inline uint32_t level_of(MultiplicityRule rule, uint32_t left, uint32_t right) noexcept nogil:
    if rule == EACH:
        return left + right
    if rule == ONCE:
        return left + right > 0
    if rule == LESS:
        return left - right if left > right else 0
    if rule == ABSENT:
        return 0 if right else left
    if rule == LEAST:
        return min(left, right)
    return max(left, right)
