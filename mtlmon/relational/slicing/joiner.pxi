# cython: language_level=3
"""Joins the answers of slices: those that a slice owns, in the order of one monitor."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memset


cdef int compare_owned(const void *left, const void *right) noexcept nogil:
    """The order in which one monitor finds answers; those of a time-point in the order given."""
    cdef const OwnedAnswer *a = <const OwnedAnswer *> left
    cdef const OwnedAnswer *b = <const OwnedAnswer *> right
    if a.answer.known != b.answer.known:
        return -1 if a.answer.known < b.answer.known else 1
    if a.rank != b.rank:
        return -1 if a.rank < b.rank else 1
    if a.answer.point != b.answer.point:
        return -1 if a.answer.point < b.answer.point else 1
    return -1 if a.place < b.place else a.place > b.place


cdef inline bint is_same_point(const OwnedAnswer *a, const OwnedAnswer *b) noexcept nogil:
    return a.answer.point == b.answer.point and a.answer.policy == b.answer.policy


cdef void merge(
    const OwnedAnswer *left, const OwnedAnswer *right, const OwnedAnswer *end, OwnedAnswer *target
) noexcept nogil:
    """Merge answers from `left` to below `right`, and from there to below `end`."""
    cdef const OwnedAnswer *middle = right
    while left < middle or right < end:
        if right == end or (left < middle and compare_owned(left, right) <= 0):
            target[0] = left[0]
            left += 1
        else:
            target[0] = right[0]
            right += 1
        target += 1


@final
cdef class Joiner:
    """Joins the answers of slices.

    router: says which slice owns an answer.
    policy_count: how many of its policies are answered. The others are `find`s without exposed
        variables, whose valuations are only counted; by default, there are none.

    Attributes:
        wants_holding: whether time-points without violations are answered. The home of each policy
            must answer them then.
        valuations: for each policy, how many valuations `join` has moved or counted.
    """

    def __cinit__(self, Router router not None, policy_count=None):
        self.router = router
        self.policy_count = router.policy_count if policy_count is None else policy_count
        if self.policy_count > router.policy_count:
            raise ValueError("more policies than are routed")
        self.valuations = [0] * router.policy_count
        self.unused = []
        self.counts = <uint64_t *> calloc(router.policy_count + 1, sizeof(uint64_t))
        self.ends = <size_t *> calloc(router.slices, sizeof(size_t))
        if self.counts == NULL or self.ends == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.owned)
        free(self.merged)
        free(self.ends)
        free(self.counts)
        free(self.gathered.cells)
        free(self.order)
        free(self.spare)

    def take(self, list engines not None):
        """Take the answers of the engines of all slices, which may then go on.

        Returns:
            Blocks for `join`. It may be called for others meanwhile, by another thread.
        """
        cdef RelationalEngine engine
        cdef AnswerBlock block
        cdef list taken
        if <size_t> len(engines) != self.router.slices:
            raise ValueError("expected an engine for each slice")
        for engine in engines:
            if engine.policy_count != self.router.policy_count:
                raise ValueError("answers of other policies")
        engine = engines[0]
        self.first = engine
        taken = self.unused.pop() if self.unused else [
            engine.answers.empty_block() for _ in engines
        ]
        for block, engine in zip(taken, engines):
            block.swap(engine.answers)
        return taken

    def join(self, AnswerBlock target not None, list taken not None, known=None):
        """Move the answers that were taken to a block.

        taken: what `take` returned; it must not be used after that.
        known: leave out what was found when this many time-points had been read, or more.

        Returns:
            For each policy, the number of time-points with violations or matches.
        """
        cdef AnswerBlock block
        cdef uint64_t *found
        cdef uint32_t slice
        cdef size_t k
        cdef uint64_t limit = UINT64_MAX if known is None else known
        if target.policy_count != self.policy_count:
            raise ValueError("answers of other policies")
        if <size_t> len(taken) != self.router.slices:
            raise ValueError("expected the answers of each slice")
        self.count = 0
        memset(self.counts, 0, self.router.policy_count * sizeof(uint64_t))
        for slice in range(self.router.slices):
            block = taken[slice]
            with nogil:
                self.collect(block, slice, limit)
            self.ends[slice] = self.count
        found = <uint64_t *> calloc(self.router.policy_count + 1, sizeof(uint64_t))
        if found == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            with nogil:
                self.write(target, found)
            for block in taken:
                block.clear()
            self.unused.append(taken)
            self.valuations = [self.counts[k] for k in range(self.router.policy_count)]
            return [found[k] for k in range(self.policy_count)]
        finally:
            free(found)

    cdef int collect(self, AnswerBlock answers, uint32_t slice, uint64_t limit) except -1 nogil:
        """Note the answers that a slice owns, or count them, up to a number of time-points."""
        cdef size_t k
        cdef const Answer *answer
        cdef OwnedAnswer owned
        for k in range(answers.count):
            answer = &answers.answers[k]
            if limit <= answer.known:
                continue
            owned.values = answers.values + answer.start
            owned.is_row = answer.kind != HOLDS and (
                self.router.owner(answer.policy, owned.values) == slice
            )
            if answer.policy >= self.policy_count:
                self.counts[answer.policy] += owned.is_row
                continue
            if not owned.is_row and (
                not self.wants_holding or answer.kind == MATCHES
                or slice != self.router.policies[answer.policy].home
            ):
                continue
            owned.answer = answer
            owned.rank = self.router.policies[answer.policy].rank
            owned.place = self.count
            make_room(
                <void **> &self.owned, &self.room, self.count + 1, sizeof(OwnedAnswer)
            )
            self.owned[self.count] = owned
            self.count += 1
        return 0

    cdef int put_in_order(self) except -1 nogil:
        """Merge the answers of slices, those of each of which mostly are in order.

        PERF: where each event has an answer, a twentieth of the time of two slices went to `qsort`.
        """
        cdef size_t start = 0
        cdef size_t slice, k
        cdef size_t runs = self.router.slices
        cdef size_t kept
        if self.count < 2:
            return 0
        for slice in range(runs):
            for k in range(start + 1, self.ends[slice]):
                if compare_owned(&self.owned[k - 1], &self.owned[k]) > 0:
                    qsort(self.owned, self.count, sizeof(OwnedAnswer), compare_owned)
                    return 0
            start = self.ends[slice]
        while runs > 1:
            make_room(<void **> &self.merged, &self.merged_room, self.count, sizeof(OwnedAnswer))
            start = 0
            kept = 0
            for k in range(0, runs, 2):
                slice = min(k + 1, runs - 1)
                merge(
                    self.owned + start, self.owned + self.ends[k], self.owned + self.ends[slice],
                    self.merged + start
                )
                start = self.ends[slice]
                self.ends[kept] = start
                kept += 1
            runs = kept
            self.owned, self.merged = self.merged, self.owned
            self.room, self.merged_room = self.merged_room, self.room
        return 0

    cdef int write(self, AnswerBlock target, uint64_t *found) except -1 nogil:
        """Write the answers that have been noted."""
        cdef size_t first = 0
        cdef size_t end, k
        cdef uint32_t width
        cdef const OwnedAnswer *one
        cdef Answer answer
        cdef const int64_t *last
        cdef const int64_t *values
        self.put_in_order()
        while first < self.count:
            one = &self.owned[first]
            answer = one.answer[0]
            width = self.router.policies[answer.policy].reported
            self.gathered.width = width
            self.gathered.count = 0
            end = first
            while end < self.count and is_same_point(one, &self.owned[end]):
                if self.owned[end].is_row:
                    answer.kind = self.owned[end].answer.kind
                    copy_cells(new_row(&self.gathered), self.owned[end].values, width)
                end += 1
            first = end
            if self.gathered.count == 0:
                answer.kind = HOLDS
                target.put(&answer, NULL)
                continue
            found[answer.policy] += 1
            self.sort(answer.policy)
            last = NULL
            for k in range(self.gathered.count):
                values = row_of(&self.gathered, self.order[k])
                if last == NULL or not same_cells(last, values, width):
                    target.put(&answer, values)
                    self.counts[answer.policy] += 1
                last = values
        return 0

    cdef int sort(self, uint32_t policy) except -1 nogil:
        """Find the order of the rows that have been gathered."""
        cdef size_t k
        cdef size_t count = self.gathered.count
        make_room(<void **> &self.order, &self.order_room, count, sizeof(uint32_t))
        make_room(<void **> &self.spare, &self.spare_room, count, sizeof(uint32_t))
        for k in range(count):
            self.order[k] = <uint32_t> k
        if count > 1 and self.gathered.width:
            sort_rows(
                self.first.texts, self.first.kinds[policy].of, &self.gathered, self.order,
                self.spare
            )
        return 0
