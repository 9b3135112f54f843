# cython: language_level=3
"""Finds the first time-point at which a policy is violated, with all of its valuations there."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes, damaged
from mtlmon.relational.native cimport HOLDS, MATCHES, Answer, AnswerBlock, AnswerKind


@final
cdef class FirstAnswers:
    """Keeps the answers of the first violation: by time-point, then by policy.

    widths: an array of uint32 with the number of variables of each policy.
    finds: for each policy whether it is a find, whose matches do not count, unless there is only
        one policy.
    has_others: whether there are other policies, without variables.

    Attributes:
        found: the violations of the first time-point so far.
        has_candidate: whether there are any.
        is_decided: whether no earlier time-point can be violated.
    """

    def __cinit__(self, widths, finds, *, bint has_others=False):
        cdef uint32_t policy
        self.found = AnswerBlock(widths)
        self.policy_count = self.found.policy_count
        finds = list(finds)
        if len(finds) != self.policy_count:
            raise ValueError("expected a mark for each policy")
        self.counts_matches = finds == [True] and not has_others
        self.decided = <uint64_t *> calloc(self.policy_count + 1, sizeof(uint64_t))
        if self.decided == NULL:
            raise MemoryError("mtlmon: out of memory")
        for policy in range(self.policy_count):
            if finds[policy] and not self.counts_matches:
                self.decided[policy] = UINT64_MAX

    def __dealloc__(self):
        free(self.decided)

    @property
    def time_point(self):
        """The time-stamp and offset of the first violation so far, or None."""
        if not self.has_candidate:
            return None
        return self.candidate.time_stamp, self.candidate.offset

    def put(self, AnswerBlock answers not None):
        """Take answers, all of those of each time-point together, and forget them.

        Return whether the first violation is known.
        """
        if answers.policy_count != self.policy_count:
            raise ValueError("answers of other policies")
        with nogil:
            self.take(answers)
        answers.clear()
        return self.is_decided

    def snapshot(self):
        """Return what is known as bytes for `restore`; texts have the same numbers there."""
        cdef NumberWriter writer = NumberWriter()
        cdef size_t k
        for k in range(self.policy_count):
            writer.put(self.decided[k])
        writer.put(self.is_decided)
        writer.put(self.has_candidate)
        if self.has_candidate:
            writer.put(self.candidate.policy)
            writer.put(self.candidate.kind)
            writer.put(<uint64_t> self.candidate.time_stamp)
            writer.put(self.candidate.offset)
            writer.put(self.candidate.point)
            writer.put(self.candidate.known)
            writer.put(self.found.count)
            writer.put(self.found.value_count)
            for k in range(self.found.value_count):
                writer.put(<uint64_t> self.found.values[k])
        return writer.taken()

    def restore(self, snapshot):
        """Continue from a snapshot of the same policies; this object must be new.

        Raises:
            SnapshotError: the bytes are not such a snapshot.
        """
        cdef NumberReader reader = NumberReader()
        cdef size_t k, i, count, width
        cdef list values
        reader.open(as_bytes(snapshot), 0)
        for k in range(self.policy_count):
            self.decided[k] = reader.get(UINT64_MAX)
        self.is_decided = reader.get(1)
        self.has_candidate = reader.get(1)
        if self.is_decided and not self.has_candidate:
            raise damaged()
        if self.has_candidate:
            if not self.policy_count:
                raise damaged()
            self.candidate.policy = <uint32_t> reader.get(self.policy_count - 1)
            self.candidate.kind = <AnswerKind> <int> reader.get(MATCHES)
            self.candidate.time_stamp = <int64_t> reader.get(INT64_MAX)
            self.candidate.offset = reader.get(UINT64_MAX)
            self.candidate.point = reader.get(INT64_MAX)
            self.candidate.known = reader.get(INT64_MAX)
            self.candidate.start = 0
            width = self.found.widths[self.candidate.policy]
            if self.candidate.kind == HOLDS:
                raise damaged()
            count = <size_t> (reader.get_count(<uint32_t> width) if width else reader.get(1))
            if reader.get(UINT64_MAX) != count * width:
                raise damaged()
            for k in range(count):
                values = []
                for i in range(width):
                    values.append(<int64_t> reader.get(UINT64_MAX))
                self.found.add(
                    self.candidate.policy, <int> self.candidate.kind, self.candidate.time_stamp,
                    self.candidate.offset, self.candidate.point, values
                )
        reader.end()

    cdef int take(self, AnswerBlock answers) except -1 nogil:
        cdef const Answer *answer
        cdef size_t k
        cdef bint is_same
        for k in range(answers.count):
            answer = &answers.answers[k]
            if answer.kind == MATCHES and not self.counts_matches:
                continue
            self.decided[answer.policy] = answer.point + 1
            if answer.kind == HOLDS or self.is_decided:
                continue
            is_same = self.has_candidate and (
                answer.point == self.candidate.point and answer.policy == self.candidate.policy
            )
            if self.has_candidate and not is_same:
                if answer.point > self.candidate.point:
                    continue
                if (
                    answer.point == self.candidate.point
                    and answer.policy > self.candidate.policy
                ):
                    continue
                self.found.clear()
            self.has_candidate = True
            self.candidate = answer[0]
            self.found.put(answer, answers.values + answer.start)
        self.is_decided = self.is_decided or (self.has_candidate and self.is_earliest())
        return 0

    cdef bint is_earliest(self) noexcept nogil:
        """Whether all policies are decided up to the candidate."""
        cdef uint32_t policy
        for policy in range(self.policy_count):
            if self.decided[policy] < self.candidate.point or (
                self.decided[policy] == self.candidate.point
                and policy <= self.candidate.policy
            ):
                return False
        return True
