# cython: language_level=3
"""Blocks of answers: which values violate a policy, or satisfy a find, at a time-point.

The engine fills blocks, and sinks make lines or tables of them. Answers come in the order of
time-points for each policy, those of a time-point in the order of their values.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mtlmon.arrays.native cimport Memory


@final
cdef class AnswerBlock:
    """Answers that wait to be written.

    widths: a contiguous array of uint32 with the number of variables of each policy.
    """

    def __cinit__(self, widths):
        cdef Memory memory = Memory(widths, sizeof(uint32_t), 0)
        if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
            raise ValueError("widths have gaps between them")
        self.kept_widths = memory
        self.widths = <const uint32_t *> memory.buffer.buf
        self.policy_count = <uint32_t> memory.buffer.shape[0]

    def __dealloc__(self):
        free(self.answers)
        free(self.values)

    def __len__(self):
        return self.count

    cdef void clear(self) noexcept nogil:
        self.count = self.value_count = 0

    cdef int put(self, const Answer *answer, const int64_t *values) except -1 nogil:
        """Add an answer; its `start` is set here."""
        cdef size_t width = 0 if answer.kind == HOLDS else self.widths[answer.policy]
        make_room(<void **> &self.answers, &self.answer_room, self.count + 1, sizeof(Answer))
        make_room(
            <void **> &self.values, &self.value_room, self.value_count + width + 1,
            sizeof(int64_t)
        )
        self.answers[self.count] = answer[0]
        self.answers[self.count].start = self.value_count
        if width:
            memcpy(self.values + self.value_count, values, width * sizeof(int64_t))
        self.count += 1
        self.value_count += width
        return 0

    cdef AnswerBlock empty_block(self):
        """Return a block with the same widths, without answers."""
        cdef Memory memory = self.kept_widths
        return AnswerBlock(<object> memory.buffer.obj)

    cdef void swap(self, AnswerBlock other) noexcept nogil:
        """Exchange the answers with those of a block with the same widths."""
        self.answers, other.answers = other.answers, self.answers
        self.values, other.values = other.values, self.values
        self.count, other.count = other.count, self.count
        self.value_count, other.value_count = other.value_count, self.value_count
        self.answer_room, other.answer_room = other.answer_room, self.answer_room
        self.value_room, other.value_room = other.value_room, self.value_room

    def take(self):
        """Return the answers as tuples (policy, kind, time-stamp, offset, point, cells), and
        forget them. The kind is 0 for a violation, 1 for none, 2 for a match, 3 for no violation
        for a key."""
        cdef size_t k, i, width
        cdef Answer *answer
        found = []
        for k in range(self.count):
            answer = &self.answers[k]
            width = 0 if answer.kind == HOLDS else self.widths[answer.policy]
            cells = tuple([self.values[answer.start + i] for i in range(width)])
            found.append(
                (answer.policy, <int> answer.kind, answer.time_stamp, answer.offset, answer.point,
                 cells)
            )
        self.clear()
        return found

    def heads(self):
        """Return the policy (uint32), the kind (uint8) and the offset (uint64) of each answer, and
        how many time-points had been read when it was found (uint64), as bytes of arrays."""
        cdef size_t k
        cdef uint32_t *policies
        cdef uint8_t *kinds
        cdef uint64_t *offsets
        cdef uint64_t *known
        parts = [PyBytes_FromStringAndSize(NULL, self.count * size) for size in (4, 1, 8, 8)]
        policies = <uint32_t *> PyBytes_AS_STRING(parts[0])
        kinds = <uint8_t *> PyBytes_AS_STRING(parts[1])
        offsets = <uint64_t *> PyBytes_AS_STRING(parts[2])
        known = <uint64_t *> PyBytes_AS_STRING(parts[3])
        for k in range(self.count):
            policies[k] = self.answers[k].policy
            kinds[k] = <uint8_t> self.answers[k].kind
            offsets[k] = self.answers[k].offset
            known[k] = self.answers[k].known
        return tuple(parts)

    def set_offsets(self, offsets):
        """Set the offset of each answer: a contiguous array of uint64."""
        cdef Memory memory = Memory(offsets, sizeof(uint64_t), 0)
        cdef const uint64_t *values = <const uint64_t *> memory.buffer.buf
        cdef size_t k
        if <size_t> memory.buffer.shape[0] != self.count or (
            self.count > 1 and memory.buffer.strides[0] != sizeof(uint64_t)
        ):
            raise ValueError("expected an offset for each answer, without gaps between them")
        for k in range(self.count):
            self.answers[k].offset = values[k]

    def points(self):
        """Return the number of each answer's time-point in the log, as bytes of uint64."""
        cdef size_t k
        cdef uint64_t *numbers
        found = PyBytes_FromStringAndSize(NULL, self.count * sizeof(uint64_t))
        numbers = <uint64_t *> PyBytes_AS_STRING(found)
        for k in range(self.count):
            numbers[k] = self.answers[k].point
        return found

    def add(self, policy, kind, time_stamp, offset, point, cells=(), known=None):
        """Add an answer, given as `take` returns it.

        known: how many time-points had been read; by default, those up to its own.
        """
        cdef Answer answer
        cdef size_t k
        cdef int64_t *values
        if not 0 <= policy < self.policy_count:
            raise ValueError(f"no policy has the number {policy}")
        if len(cells) != (0 if kind == HOLDS else self.widths[policy]):
            raise ValueError(f"policy {policy} has another number of variables")
        answer.policy, answer.kind = policy, <AnswerKind> <int> kind
        answer.time_stamp, answer.offset, answer.point = time_stamp, offset, point
        answer.known = point + 1 if known is None else known
        answer.start = 0
        values = <int64_t *> malloc((len(cells) + 1) * sizeof(int64_t))
        if values == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            for k in range(len(cells)):
                values[k] = cells[k]
            self.put(&answer, values)
        finally:
            free(values)
