# cython: language_level=3
"""Aggregates over the records of groups that are valid now."""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from mtlmon.streams.native cimport (
    FINITE, FloatClass, Numbers, Specials, Term, add_magnitude, count_special, has_place,
    has_specials, number_of, resize_numbers, rounded, special_sum, take_numbers, term_of, widened,
)


cdef enum AggregateState:
    AGGREGATE_IS_NULL
    AGGREGATE_IS_FOUND
    AGGREGATE_OVERFLOWS


cdef class Aggregate:
    """One aggregate: what it is now for each group, and what it was in each record of the output.

    values: a contiguous array of type int64, integers or the bits of floats; None for counts.
    validity: a contiguous array of type uint8, which is not 0 for what is counted; None if that is
        all.
    count: their length.

    Attributes:
        results: the memory of an array of type int64 with the value of each record of the output.
        results_validity: the memory of an array of type uint8, which is 1 where there is a value;
            None if there is one in each record.
    """

    cdef Memory memory, validity_memory
    cdef const int64_t *values
    cdef const uint8_t *validity        # NULL if all are valid
    cdef readonly size_t count
    cdef int64_t *written
    cdef uint8_t *written_validity
    cdef uint32_t written_count
    cdef size_t most                    # as many values may be written
    cdef readonly object results, results_validity

    def __cinit__(self, values, validity, size_t count, *options):
        self.count = count
        if values is not None:
            self.memory = contiguous(values, sizeof(int64_t), count)
            self.values = integers(self.memory)
        if validity is not None:
            self.validity_memory = contiguous(validity, 1, count)
            self.validity = <const uint8_t *> self.validity_memory.buffer.buf

    def __dealloc__(self):
        free(self.written)
        free(self.written_validity)

    cdef int hand_over(self) except -1:
        """Let others read the results."""
        self.results = block_of(<void **> &self.written, self.written_count, sizeof(int64_t))
        if self.written_validity != NULL:
            self.results_validity = block_of(
                <void **> &self.written_validity, self.written_count, 1
            )
        return 0

    cdef int prepare(self, size_t most) except -1:
        """Make room for the values of so many records."""
        if self.written != NULL:
            raise ValueError("the aggregate has been computed")
        self.most = most
        self.written = <int64_t *> room(most, sizeof(int64_t))
        return 0

    cdef int resize(self, uint32_t groups) except -1:
        """Make room for the state of each group; there is none before."""
        raise NotImplementedError

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        """Take in a value whose record starts now."""
        return 0

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        """Take out a value whose record ends now."""
        return 0

    cdef AggregateState now(self, uint32_t group, int64_t now, int64_t *value) noexcept nogil:
        """Find the value of a group."""
        return AGGREGATE_IS_NULL

    cdef int require_values(self) except -1:
        if self.memory is None:
            raise ValueError("the aggregate needs values")
        return 0

    cdef inline bint is_valid(self, size_t row) noexcept nogil:
        return self.validity == NULL or self.validity[row] != 0

    cdef inline bint is_as_in(
        self, uint32_t place, AggregateState state, int64_t value
    ) noexcept nogil:
        """Whether a value is that of a record of the output."""
        cdef bint was_found = self.written_validity == NULL or self.written_validity[place]
        return was_found == (state == AGGREGATE_IS_FOUND) and (
            not was_found or self.written[place] == value
        )

    cdef inline int write(self, AggregateState state, int64_t value) except -1 nogil:
        """Write the value of the next record of the output."""
        cdef bint is_found = state == AGGREGATE_IS_FOUND
        if not is_found and self.written_validity == NULL:
            # the first record without a value
            with gil:
                self.written_validity = <uint8_t *> room(self.most, 1)
            memset(self.written_validity, 1, self.written_count)
        if self.written_validity != NULL:
            self.written_validity[self.written_count] = is_found
        self.written[self.written_count] = value if is_found else 0
        self.written_count += 1
        return 0


@final
cdef class CountAggregate(Aggregate):
    """The number of values that are valid."""

    cdef int64_t *counts

    def __dealloc__(self):
        free(self.counts)

    cdef int resize(self, uint32_t groups) except -1:
        self.counts = <int64_t *> zeros(groups, sizeof(int64_t))
        return 0

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        self.counts[group] += self.is_valid(row)
        return 0

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        self.counts[group] -= self.is_valid(row)
        return 0

    cdef AggregateState now(self, uint32_t group, int64_t now, int64_t *value) noexcept nogil:
        value[0] = self.counts[group]
        return AGGREGATE_IS_FOUND


cdef struct GroupSum:
    int64_t count
    Specials specials


@final
cdef class SumAggregate(Aggregate):
    """Sums or averages, which are exact until they are rounded once.

    is_float: whether values are floats; otherwise, they are integers.
    is_average: whether they are averages, which are floats.
    """

    cdef bint is_float, is_average
    cdef GroupSum *sums
    cdef Numbers numbers

    def __init__(self, values, validity, size_t count, bint is_float, bint is_average):
        self.is_float = is_float
        self.is_average = is_average
        self.numbers.width = 4 if is_float else 2
        self.numbers.exponent = -128 if is_float else 0

    def __dealloc__(self):
        free(self.sums)
        free(self.numbers.words)

    cdef int resize(self, uint32_t groups) except -1:
        self.require_values()
        self.sums = <GroupSum *> zeros(groups, sizeof(GroupSum))
        return resize_numbers(&self.numbers, groups)

    cdef inline int add(self, uint32_t group, size_t row, int sign) except -1 nogil:
        cdef Term term
        cdef FloatClass found
        cdef Numbers wide
        if not self.is_valid(row):
            return 0
        self.sums[group].count += sign
        found = term_of(self.is_float, self.values[row], &term)
        if found != FINITE:
            count_special(&self.sums[group].specials, found, sign)
        elif term.magnitude:
            if not has_place(&self.numbers, term.exponent, 64):
                wide = widened(&self.numbers, term.exponent, 64, False)
                if wide.words == NULL:
                    with gil:
                        raise MemoryError("mtlmon: out of memory")
                take_numbers(&self.numbers, &wide)
            add_magnitude(
                number_of(&self.numbers, group), self.numbers.width, term.magnitude,
                <uint32_t> (term.exponent - self.numbers.exponent), term.is_negative ^ (sign < 0)
            )
        return 0

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        return self.add(group, row, 1)

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        return self.add(group, row, -1)

    cdef AggregateState now(self, uint32_t group, int64_t now, int64_t *value) noexcept nogil:
        cdef const GroupSum *found = &self.sums[group]
        cdef const uint64_t *words = number_of(&self.numbers, group)
        cdef double total
        if not found.count:
            return AGGREGATE_IS_NULL
        if not self.is_float and not self.is_average:
            value[0] = <int64_t> words[0]
            if words[1] != <uint64_t> (value[0] >> 63):
                return AGGREGATE_OVERFLOWS
            return AGGREGATE_IS_FOUND
        if has_specials(&found.specials):
            total = special_sum(&found.specials)
        else:
            total = rounded(words, self.numbers.width, self.numbers.exponent)
        if self.is_average:
            total /= <double> found.count
        # relations have one zero only
        total += 0.0
        memcpy(value, &total, sizeof(total))
        return AGGREGATE_IS_FOUND


cdef struct HeapEntry:
    int64_t key, end


cdef struct GroupHeap:
    # Keys with the ends of their records; those that have ended may stay below the least one.
    HeapEntry *entries
    uint32_t count, room
    uint32_t valid          # how many have not ended


@final
cdef class LeastAggregate(Aggregate):
    """The least value, as an integer."""

    cdef GroupHeap *heaps
    cdef uint32_t groups

    def __dealloc__(self):
        cdef uint32_t group
        for group in range(self.groups):
            free(self.heaps[group].entries)
        free(self.heaps)

    cdef int resize(self, uint32_t groups) except -1:
        self.require_values()
        self.heaps = <GroupHeap *> zeros(groups, sizeof(GroupHeap))
        self.groups = groups
        return 0

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        cdef GroupHeap *heap = &self.heaps[group]
        if not self.is_valid(row):
            return 0
        if heap.count > 2 * <size_t> heap.valid + 32:
            drop_ended(heap, now)
        reserve(
            <void **> &heap.entries, &heap.room, <size_t> heap.count + 1, sizeof(HeapEntry)
        )
        heap.valid += 1
        rise(heap.entries, heap.count, self.values[row], end)
        heap.count += 1
        return 0

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        self.heaps[group].valid -= self.is_valid(row)
        return 0

    cdef AggregateState now(self, uint32_t group, int64_t now, int64_t *value) noexcept nogil:
        cdef GroupHeap *heap = &self.heaps[group]
        while heap.count and heap.entries[0].end <= now:
            heap.count -= 1
            sink(heap.entries, heap.count, 0, heap.entries[heap.count])
        if not heap.count:
            return AGGREGATE_IS_NULL
        value[0] = heap.entries[0].key
        return AGGREGATE_IS_FOUND


cdef inline void rise(HeapEntry *entries, size_t place, int64_t key, int64_t end) noexcept nogil:
    """Put an entry at a free place at the end of a heap, and bring it where it belongs."""
    cdef size_t above
    while place:
        above = (place - 1) // 2
        if entries[above].key <= key:
            break
        entries[place] = entries[above]
        place = above
    entries[place].key = key
    entries[place].end = end


cdef inline void sink(
    HeapEntry *entries, size_t count, size_t place, HeapEntry entry
) noexcept nogil:
    """Put an entry at a place of a heap of so many entries, or below it."""
    cdef size_t below
    if not count:
        return
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and entries[below + 1].key < entries[below].key:
            below += 1
        if entries[below].key >= entry.key:
            break
        entries[place] = entries[below]
        place = below
    entries[place] = entry


cdef void drop_ended(GroupHeap *heap, int64_t now) noexcept nogil:
    """Forget entries whose records have ended, and make a heap of the others."""
    cdef size_t k
    cdef uint32_t count = 0
    for k in range(heap.count):
        if heap.entries[k].end > now:
            heap.entries[count] = heap.entries[k]
            count += 1
    heap.count = count
    for k in range(count // 2, 0, -1):
        sink(heap.entries, count, k - 1, heap.entries[k - 1])
