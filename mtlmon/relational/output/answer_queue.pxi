# cython: language_level=3
"""Answers that wait until the verdicts of other policies have come as far."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, uint64_t

from mtlmon.relational.native cimport Answer, AnswerBlock


@final
cdef class AnswerQueue:
    """Keeps answers with the number of time-points that had been read when they were found.

    widths: an array of uint32 with the number of variables of each policy.
    """

    def __cinit__(self, widths):
        self.waiting = AnswerBlock(widths)

    def __len__(self):
        return self.waiting.count - self.next

    def put(self, AnswerBlock answers not None):
        """Add answers, and forget them."""
        cdef size_t k
        if answers.policy_count != self.waiting.policy_count:
            raise ValueError("answers of other policies")
        if self.next == self.waiting.count:
            self.waiting.clear()
            self.next = 0
        with nogil:
            for k in range(answers.count):
                self.waiting.put(
                    &answers.answers[k], answers.values + answers.answers[k].start
                )
        answers.clear()

    def known(self):
        """Return how many time-points had been read when the answers were found, each once."""
        cdef size_t k
        cdef uint64_t last = UINT64_MAX
        found = []
        for k in range(self.next, self.waiting.count):
            if self.waiting.answers[k].known != last:
                last = self.waiting.answers[k].known
                found.append(last)
        return found

    def take(self, AnswerBlock target not None, uint64_t known):
        """Move the answers to a block that were found among the first time-points.

        known: the number of these time-points.
        """
        cdef const Answer *answer
        if target.policy_count != self.waiting.policy_count:
            raise ValueError("answers of other policies")
        with nogil:
            while self.next < self.waiting.count:
                answer = &self.waiting.answers[self.next]
                if answer.known > known:
                    break
                target.put(answer, self.waiting.values + answer.start)
                self.next += 1
