# cython: language_level=3
"""Monitors of many streams against one formula, identified by keys."""

from cython cimport final
from libc.stdint cimport uint32_t

from libc.string cimport memset

from mtlmon._core cimport Monitor
from mtlmon.engine.native cimport (
    Guard, GuardedIterator, HELD_KEYS, HOLDER_COUNT, HeldBytes, MemoryLimit,
)

from mtlmon.errors import CopyError, MemoryLimitError, MonitorBrokenError

cdef enum:
    # The estimated size of a key that is a short text; other objects are not measured.
    KEY_BYTES = 60


@final
cdef class Monitors:
    """Monitors any number of streams, identified by keys, against one formula.

    The arguments are those of `Monitor`; `max_memory` applies to all streams together. Keys must be
    hashable. A stream begins with its first event, and each stream has its own clock. The verdicts
    are the same as those of a separate `Monitor` for each stream.

    A stream takes about 50 bytes, plus 24 for each pending time-point and its share of the
    dictionary of keys; `counters` tells the exact number.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        str unknown not None="ignore", max_memory=None
    ):
        self.guard = Guard("set of monitors")
        self.streams = Streams(Monitor(formula, mode, bdd=bdd, unit=unit, unknown=unknown))
        self.numbers = {}
        if max_memory is not None:
            from mtlmon.engine.memory_limit import memory_size

            self.memory = MemoryLimit(memory_size(max_memory))
            self.streams.worker.set_limit(self.memory, 1)
            self.check_memory([])

    def step(self, key, time_stamp, atoms=()):
        """Process the next event of a stream and return its verdicts, in the order of time-points.

        Raises the errors of `Monitor.step`. An error of one stream does not affect the others,
        except for the memory limit, which all streams share. `forget` frees memory.
        """
        cdef uint32_t number
        self.guard.enter()
        try:
            if self.memory is not None and self.memory.total > self.memory.allowed:
                # The previous event already exceeded the limit, so this event is refused.
                self.check_memory([])
            number = self._load(key, True)
            try:
                verdicts = self.streams.worker.step(time_stamp, atoms)
            finally:
                self.streams.store(&self.streams.resting[number])
            if self.memory is not None:
                self.check_memory(verdicts)
        finally:
            self.guard.leave()
        return verdicts

    def advance(self, key, time_stamp):
        """Declare that no later event of the stream is below `time_stamp`; return the verdicts."""
        cdef uint32_t number
        with self.guard:
            number = self._load(key, False)
            try:
                return self.streams.worker.advance(time_stamp)
            finally:
                self.streams.store(&self.streams.resting[number])

    def pending(self, key):
        """The pending time-points of a stream, as `Monitor.pending` returns them."""
        cdef uint32_t number
        with self.guard:
            number = self._load(key, False)
            try:
                return self.streams.worker.pending
            finally:
                self.streams.store(&self.streams.resting[number])

    def finish(self, end_time=None):
        """End all streams: iterate over (key, verdicts), by key in the order of first events.

        `end_time` is as in `Monitor.finish`; "last" means the last time-stamp of each stream. Each
        stream is forgotten once it is finished.
        """
        return GuardedIterator(self._finish(end_time), "end of monitors")

    def _finish(self, end_time):
        for key in list(self.numbers):
            yield key, self._end(key, end_time)

    cdef list _end(self, key, end_time):
        """Finish and forget a stream; return its last verdicts."""
        cdef uint32_t number
        with self.guard:
            number = self._load(key, False)
            try:
                return self.streams.worker.finish(end_time)
            finally:
                self.streams.store(&self.streams.resting[number])
                self.streams.worker.mark_ready()
                self.streams.drop(self.numbers.pop(key))

    def forget(self, key):
        """Forget a stream; a later event with its key begins a new stream."""
        with self.guard:
            self.streams.drop(self.numbers.pop(key))

    cdef size_t key_bytes(self) except? 0:
        """The bytes that the dictionary of keys and the keys themselves take."""
        return <size_t> self.numbers.__sizeof__() + KEY_BYTES * len(self.numbers)

    cdef int check_memory(self, list verdicts) except -1:
        """Raise MemoryLimitError, with these verdicts, if too much memory is held."""
        self.memory.note("keys", self.key_bytes())
        try:
            self.memory.hold_to(self.streams)
        except MemoryLimitError as error:
            error.verdicts = verdicts
            raise
        return 0

    cdef uint32_t _load(self, object key, bint is_new) except? 0:
        """Load the stream of a key, which may be new, into the worker, and return its number.

        Only for calls under the guard.
        """
        cdef uint32_t number
        known = self.numbers.get(key)
        if known is None:
            if not is_new:
                raise KeyError(key)
            known = self.streams.add()
            self.numbers[key] = known
        number = known
        if self.streams.resting[number].is_broken:
            raise MonitorBrokenError(
                f"the stream {key!r} was interrupted in the middle of an event and cannot go on; "
                "forget it to start a new one"
            )
        self.streams.load(&self.streams.resting[number])
        return number

    def __len__(self):
        return len(self.numbers)

    def __contains__(self, key):
        return key in self.numbers

    def __iter__(self):
        return iter(list(self.numbers))

    @property
    def program(self):
        return self.streams.worker.program

    @property
    def mode(self):
        return self.streams.worker.mode

    @property
    def atoms(self):
        return self.streams.worker.atoms

    @property
    def counters(self):
        """events, true, false (including equivalents) of all streams together; streams, of which
        those that are kept whole, and bytes, the memory of all streams except for the whole ones,
        the keys and shared structures; held_bytes, the memory of everything, which `max_memory`
        limits.
        """
        cdef HeldBytes held
        cdef dict counters
        memset(&held, 0, sizeof(HeldBytes))
        with self.guard:
            counters = self.streams.counters(len(self.numbers))
            self.streams.count_held(&held)
            held.of[HELD_KEYS] += self.key_bytes()
        counters["held_bytes"] = sum([held.of[k] for k in range(HOLDER_COUNT)])
        return counters

    def __reduce__(self):
        raise CopyError(
            "monitors of many streams cannot be copied or pickled: keep the events of each key, or "
            "make a Monitor for each key, which can be"
        )

    def __repr__(self):
        return f"<Monitors in mode {self.mode} of {len(self)} streams>"
