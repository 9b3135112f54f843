# cython: language_level=3
"""The way of verdicts from monitors to sinks: resolver, filter, sink, and listeners beside it."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.engine.native cimport VerdictRecord, VerdictRun
from mtlmon.text.native cimport FILTER_FALSE, VerdictFilter
from mtlmon.verdicts.native cimport Resolver


@final
cdef class Delivery:
    """Passes verdicts on to a sink.

    Args:
        sink: takes the verdicts that pass the filter.
        filter: which verdicts the sink gets.
        resolves: whether the sink gets the Boolean verdict of every time-point instead of
            equivalences.
        policy_count: the number of policies whose streams the resolver keeps apart; 0 if streams
            come one after the other.
        violations: also gets all false time-points, resolved; or None.
        first: also learns all resolved verdicts; or None.
    """

    def __cinit__(
        self, Sink sink not None, VerdictFilter filter, bint resolves, uint32_t policy_count=0,
        VerdictRows violations=None, FirstViolation first=None
    ):
        self.sink = sink
        self.filter = filter
        self.resolves = resolves
        self.policy_count = policy_count
        self.violations = violations
        self.first = first
        if resolves or violations is not None or first is not None:
            self.resolver = Resolver()

    cdef int put(
        self, const VerdictRecord *records, size_t count, bint has_places, uint32_t stream,
        uint32_t policy
    ) except -1 nogil:
        """Pass on verdicts of one stream and policy.

        If the sink is full, some may stay in the resolver until `drain` is called.

        has_places: whether the verdicts are of several events, which their places tell apart;
            otherwise, all are of one event.
        """
        cdef bint has_memory
        self.stream = stream
        self.policy = policy
        if not self.resolves:
            self.sink.put(records, count, self.filter, stream, policy)
        if self.resolver is None:
            return 0
        if self.policy_count:
            self.resolver.stream = <uint64_t> stream * self.policy_count + policy
        if self.resolver.passes(records, count):
            self.pass_on(records, count)
            return 0
        if has_places:
            has_memory = self.resolver.push_events(records, count)
        else:
            has_memory = self.resolver.push(records, count)
        if not has_memory:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        self.drain()
        return 0

    cdef bint drain(self) except -1 nogil:
        """Pass on what the resolver has; False if the sink is full before all is passed on."""
        cdef VerdictRecord records[RUN_VERDICTS]
        cdef const VerdictRun *runs
        cdef size_t count
        while self.resolver is not None and (
            self.resolver.outcome_index < self.resolver.outcome_count
        ):
            if self.resolves and self.sink.is_full():
                return False
            if self.first is None and self.violations is None:
                runs = self.resolver.next_runs(RUN_VERDICTS, &count)
                self.sink.put_runs(runs, count, self.filter, self.stream, self.policy)
            else:
                count = self.resolver.next(records, RUN_VERDICTS)
                self.pass_on(records, count)
        return True

    cdef int pass_on(self, const VerdictRecord *records, size_t count) except -1 nogil:
        """Pass on resolved verdicts."""
        cdef size_t k
        if self.resolves:
            self.sink.put(records, count, self.filter, self.stream, self.policy)
        if self.first is not None:
            for k in range(count):
                self.first.note(&records[k], self.stream, self.policy)
        if self.violations is not None:
            self.violations.put(records, count, FILTER_FALSE, self.stream, self.policy)
        return 0
