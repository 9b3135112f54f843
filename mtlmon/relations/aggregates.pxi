# cython: language_level=3
"""Aggregates over the records of groups that are valid now."""

from libc.math cimport NAN
from libc.stdint cimport INT64_MAX
from libc.string cimport memcpy, memset

from mtlmon.streams.native cimport (
    FINITE, FOUND, NOTHING, OVERFLOWS, SUM, VARIANCE, FloatClass, Numbers, Sorted, Specials,
    SumKind, Term, add_magnitude, add_product, count_special, deviation_quantile, free_sorted,
    has_place, insert_code, number_of, quantile_of, remove_code, resize_numbers, result_of_sums,
    sum_kind, take_numbers, term_of, widened,
)


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

    cdef int now(self, uint32_t group, int64_t now, int64_t *value) except -1 nogil:
        """Find the value of a group; returns NOTHING for null, FOUND or OVERFLOWS."""
        return NOTHING

    cdef int require_values(self) except -1:
        if self.memory is None:
            raise ValueError("the aggregate needs values")
        return 0

    cdef inline bint is_valid(self, size_t row) noexcept nogil:
        return self.validity == NULL or self.validity[row] != 0

    cdef inline bint is_as_in(
        self, uint32_t place, int state, int64_t value
    ) noexcept nogil:
        """Whether a value is that of a record of the output."""
        cdef bint was_found = self.written_validity == NULL or self.written_validity[place]
        return was_found == (state == FOUND) and (
            not was_found or self.written[place] == value
        )

    cdef inline int write(self, int state, int64_t value) except -1 nogil:
        """Write the value of the next record of the output."""
        cdef bint is_found = state == FOUND
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

    cdef int now(self, uint32_t group, int64_t now, int64_t *value) except -1 nogil:
        value[0] = self.counts[group]
        return FOUND


@final
cdef class DistinctAggregate(Aggregate):
    """The number of different values.

    values: a number for each different value of each group, from 0 on.
    limit: a limit that all of them are below.
    """

    cdef int64_t *counts        # of records, by the numbers of values
    cdef int64_t *distinct      # of different values, by group

    def __init__(self, values, validity, size_t count, size_t limit):
        cdef size_t row
        cdef bint is_right = True
        self.require_values()
        with nogil:
            for row in range(count):
                is_right &= 0 <= self.values[row] < <int64_t> limit
        if not is_right or self.counts != NULL:
            raise ValueError("a number of a value is too great")
        self.counts = <int64_t *> zeros(limit, sizeof(int64_t))

    def __dealloc__(self):
        free(self.counts)
        free(self.distinct)

    cdef int resize(self, uint32_t groups) except -1:
        if self.counts == NULL:
            raise ValueError("there are no values")
        self.distinct = <int64_t *> zeros(groups, sizeof(int64_t))
        return 0

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        if self.is_valid(row):
            self.distinct[group] += self.counts[self.values[row]] == 0
            self.counts[self.values[row]] += 1
        return 0

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        if self.is_valid(row):
            self.counts[self.values[row]] -= 1
            self.distinct[group] -= self.counts[self.values[row]] == 0
        return 0

    cdef int now(self, uint32_t group, int64_t now, int64_t *value) except -1 nogil:
        value[0] = self.distinct[group]
        return FOUND


cdef struct GroupSum:
    int64_t count
    Specials specials


@final
cdef class SumAggregate(Aggregate):
    """Sums, averages, variances or standard deviations, exact until they are rounded once.

    kind: "sum", "avg", "var" or "stddev".
    is_float: whether values are floats; otherwise, they are integers.
    """

    cdef SumKind kind
    cdef bint is_float
    cdef GroupSum *sums
    cdef Numbers numbers
    cdef Numbers squares        # unused for sums and averages

    def __init__(self, values, validity, size_t count, str kind not None, bint is_float):
        self.kind = sum_kind(kind)
        self.is_float = is_float
        self.numbers.width = 4 if is_float else 2
        self.numbers.exponent = -128 if is_float else 0
        self.squares.width = 2 * self.numbers.width
        self.squares.exponent = 2 * self.numbers.exponent

    def __dealloc__(self):
        free(self.sums)
        free(self.numbers.words)
        free(self.squares.words)

    cdef inline bint has_squares(self) noexcept nogil:
        return self.kind >= VARIANCE

    cdef int resize(self, uint32_t groups) except -1:
        self.require_values()
        self.sums = <GroupSum *> zeros(groups, sizeof(GroupSum))
        if self.has_squares():
            resize_numbers(&self.squares, groups)
        return resize_numbers(&self.numbers, groups)

    cdef int widen(self, int exponent) except -1 nogil:
        """Make all numbers wide enough for terms with this exponent."""
        cdef Numbers wide = widened(&self.numbers, exponent, 64, False)
        cdef Numbers squares
        squares.words = NULL
        if self.has_squares():
            squares = widened(&self.numbers, exponent, 64, True)
        if wide.words == NULL or (self.has_squares() and squares.words == NULL):
            free(wide.words)
            free(squares.words)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        take_numbers(&self.numbers, &wide)
        if self.has_squares():
            take_numbers(&self.squares, &squares)
        return 0

    cdef inline int add(self, uint32_t group, size_t row, int sign) except -1 nogil:
        cdef Term term
        cdef FloatClass found
        cdef uint32_t shift
        if not self.is_valid(row):
            return 0
        self.sums[group].count += sign
        found = term_of(self.is_float, self.values[row], &term)
        if found != FINITE:
            count_special(&self.sums[group].specials, found, sign)
        elif term.magnitude:
            if not has_place(&self.numbers, term.exponent, 64):
                self.widen(term.exponent)
            shift = <uint32_t> (term.exponent - self.numbers.exponent)
            add_magnitude(
                number_of(&self.numbers, group), self.numbers.width, term.magnitude, shift,
                term.is_negative ^ (sign < 0)
            )
            if self.has_squares():
                add_product(
                    number_of(&self.squares, group), self.squares.width, term.magnitude,
                    term.magnitude, 2 * shift, sign < 0
                )
        return 0

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        return self.add(group, row, 1)

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        return self.add(group, row, -1)

    cdef int now(self, uint32_t group, int64_t now, int64_t *value) except -1 nogil:
        cdef const GroupSum *found = &self.sums[group]
        cdef int state = result_of_sums(
            self.kind, self.is_float, found.count, &found.specials, &self.numbers, &self.squares,
            group, value
        )
        if state == FOUND and (self.is_float or self.kind != SUM):
            canonical_float(value)
        return state


cdef inline void canonical_float(int64_t *cell) noexcept nogil:
    """Relations have one zero and one NaN only."""
    cdef double value
    memcpy(&value, cell, sizeof(value))
    value = NAN if value != value else value + 0.0
    memcpy(cell, &value, sizeof(value))


@final
cdef class QuantileAggregate(Aggregate):
    """Quantiles of floats, interpolated linearly between the two nearest values.

    values: integers in the order of the floats; 2^63 - 1 for NaN.
    share: which quantile, from 0 to 1.
    of_deviations: whether it is one of the absolute deviations from the median.
    """

    cdef double share
    cdef bint of_deviations
    cdef Sorted *sorted
    cdef uint32_t groups

    def __init__(self, values, validity, size_t count, double share, bint of_deviations=False):
        if not 0 <= share <= 1:
            raise ValueError(f"a quantile is from 0 to 1, not {share}")
        self.share = share
        self.of_deviations = of_deviations

    def __dealloc__(self):
        cdef uint32_t group
        for group in range(self.groups):
            free_sorted(&self.sorted[group])
        free(self.sorted)

    cdef int resize(self, uint32_t groups) except -1:
        self.require_values()
        self.sorted = <Sorted *> zeros(groups, sizeof(Sorted))
        self.groups = groups
        return 0

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        if not self.is_valid(row):
            return 0
        if self.values[row] == INT64_MAX:
            self.sorted[group].undefined += 1
            return 0
        return insert_code(&self.sorted[group], self.values[row])

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        if not self.is_valid(row):
            return 0
        if self.values[row] == INT64_MAX:
            self.sorted[group].undefined -= 1
        else:
            remove_code(&self.sorted[group], self.values[row])
        return 0

    cdef int now(self, uint32_t group, int64_t now, int64_t *value) except -1 nogil:
        cdef const Sorted *sorted = &self.sorted[group]
        cdef double found = NAN
        if not sorted.undefined:
            if not sorted.count:
                return NOTHING
            if self.of_deviations:
                found = deviation_quantile(sorted, self.share)
            else:
                found = quantile_of(sorted, self.share)
        memcpy(value, &found, sizeof(found))
        canonical_float(value)
        return FOUND


@final
cdef class OwnAggregate(Aggregate):
    """An aggregate that Python computes.

    calls: an object with the methods `enter(group, row)`, `leave(group, row)` and `now(group)`,
        which returns the number of a value, equal ones for equal values, or -1 for null.
    """

    cdef object calls

    def __init__(self, values, validity, size_t count, calls not None):
        self.calls = calls

    cdef int resize(self, uint32_t groups) except -1:
        return 0

    cdef int enter(self, uint32_t group, size_t row, int64_t now, int64_t end) except -1 nogil:
        if self.is_valid(row):
            with gil:
                self.calls.enter(group, row)
        return 0

    cdef int leave(self, uint32_t group, size_t row) except -1 nogil:
        if self.is_valid(row):
            with gil:
                self.calls.leave(group, row)
        return 0

    cdef int now(self, uint32_t group, int64_t now, int64_t *value) except -1 nogil:
        with gil:
            value[0] = self.calls.now(group)
        return NOTHING if value[0] < 0 else FOUND


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

    cdef int now(self, uint32_t group, int64_t now, int64_t *value) except -1 nogil:
        cdef GroupHeap *heap = &self.heaps[group]
        while heap.count and heap.entries[0].end <= now:
            heap.count -= 1
            sink(heap.entries, heap.count, 0, heap.entries[heap.count])
        if not heap.count:
            return NOTHING
        value[0] = heap.entries[0].key
        return FOUND


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
