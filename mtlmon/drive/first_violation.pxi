# cython: language_level=3
"""Find the earliest violation of several policies, and how far a log must be read to know it.

Policies process thousands of events at a time, so more events have been read when the first
violation is found. The counts must not depend on that, so they are recorded at the event or tick at
which the violation became known to be the first.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from mtlmon.engine.native cimport VERDICT_FALSE, VERDICT_TRUE, VerdictRecord


@final
cdef class FirstViolation:
    """Finds the earliest violation among resolved verdicts that come in the order of events.

    On a single trace, violations are ordered by time-point, then by policy. With keys, which do not
    determine the order of events, violations are ordered by time-stamp, policy, number of the key
    and offset.

    Args:
        policy_count: the number of policies.

    Attributes:
        is_found: whether there is a violation.
        time_stamp: the time-stamp of the earliest violation so far.
        offset: the offset of the earliest violation so far.
        policy: the policy of the earliest violation so far.
        stream: the stream of the earliest violation so far.
        event_count: the number of events after which it was known that no earlier violation is
            among the events read. Once everything before the violation is decided, reading could
            have stopped there. An event that comes behind a tick is not among those before it.
        has_keys: whether there are keys; set by `with_keys`.
    """

    def __cinit__(self, uint32_t policy_count):
        self.policy_count = policy_count
        self.running = <uint64_t *> calloc(2 * <size_t> policy_count, sizeof(uint64_t))
        self.known = <uint64_t *> calloc(2 * <size_t> policy_count, sizeof(uint64_t))
        self.known_events = <uint64_t *> calloc(policy_count, sizeof(uint64_t))
        if self.running == NULL or self.known == NULL or self.known_events == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.running)
        free(self.known)
        free(self.known_events)
        free(self.on_ticks)

    def with_keys(self):
        """Declare that there are keys: events of the same time-stamp come in any order."""
        self.has_keys = True

    def with_ticks(self, on_ticks):
        """Declare for each policy whether it is on ticks: a tick comes behind the events of its
        time-stamp, but is in order before all of them but the first.
        """
        cdef uint32_t policy
        cdef bint is_on_ticks
        if len(on_ticks) != <Py_ssize_t> self.policy_count or self.on_ticks != NULL:
            raise ValueError(f"expected for {self.policy_count} policies whether each has ticks")
        self.on_ticks = <uint8_t *> calloc(self.policy_count, sizeof(uint8_t))
        if self.on_ticks == NULL:
            raise MemoryError("mtlmon: out of memory")
        for policy, is_on_ticks in enumerate(on_ticks):
            self.on_ticks[policy] = is_on_ticks

    @property
    def needs_later_time(self):
        """Whether the violation can be known to be the first one only once time has gone on."""
        return self.waits_for_time()

    def counts(self, uint32_t policy):
        """All time-points of a policy, and those known to be true and false, when it was known
        that no earlier violation is among the events read.
        """
        if policy >= self.policy_count:
            raise IndexError("there is no such policy")
        return self.known_events[policy], self.known[2 * policy], self.known[2 * policy + 1]

    cdef void note(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy
    ) noexcept nogil:
        """Take a Boolean verdict that the current event has brought."""
        self.running[2 * policy + (record.kind != VERDICT_TRUE)] += 1
        if record.kind == VERDICT_FALSE and (
            not self.is_found or self.is_before(record, stream, policy)
        ):
            self.is_found = True
            self.time_stamp = record.time_stamp
            self.offset = record.offset
            self.stream = stream
            self.policy = policy
            self.has_news = True
        elif self.is_found and self.is_concerned(record, policy):
            self.has_news = True

    cdef void begin_event(self, uint64_t time_stamp) noexcept nogil:
        """Begin an event, before its verdicts."""
        self.clock = time_stamp

    cdef bint has_no_order(self) noexcept nogil:
        """Whether a violation that is before this one may come later at the same time-stamp."""
        return self.has_keys or (self.on_ticks != NULL and not self.on_ticks[self.policy])

    cdef bint waits_for_time(self) noexcept nogil:
        """Whether the first event after the violation's time-stamp has yet to come."""
        return self.is_found and not self.is_past and self.has_no_order()

    cdef bint end_event(self, uint64_t event_count) noexcept nogil:
        """End an event: all its verdicts have come.

        Returns:
            Whether the caller has to set `known_events`.
        """
        cdef bint has_news
        if self.waits_for_time() and self.clock > self.time_stamp:
            self.is_past = True
            self.has_news = True
        has_news = self.has_news
        if has_news:
            self.has_news = False
            self.event_count = event_count
            memcpy(self.known, self.running, 2 * <size_t> self.policy_count * sizeof(uint64_t))
        return has_news

    cdef bint is_concerned(self, const VerdictRecord *record, uint32_t policy) noexcept nogil:
        """Whether the violation could not be known to be the first before this verdict."""
        if self.has_keys or record.time_stamp != self.time_stamp:
            return record.time_stamp <= self.time_stamp
        if record.offset != self.offset:
            return record.offset < self.offset
        return policy <= self.policy

    cdef bint is_before(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy
    ) noexcept nogil:
        if record.time_stamp != self.time_stamp:
            return record.time_stamp < self.time_stamp
        if not self.has_keys:
            if record.offset != self.offset:
                return record.offset < self.offset
            return policy < self.policy
        if policy != self.policy:
            return policy < self.policy
        if stream != self.stream:
            return stream < self.stream
        return record.offset < self.offset
