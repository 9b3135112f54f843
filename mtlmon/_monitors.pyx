# cython: language_level=3
"""Many streams against one formula, told apart by keys."""

from cython cimport final
from libc.stdint cimport uint32_t

from mtlmon._core cimport Monitor

from mtlmon.errors import MonitorBrokenError


@final
cdef class Monitors:
    """Monitors any number of streams, told apart by keys, against one formula.

    Takes what `Monitor` takes. Keys are hashable. A stream begins with its first event, and each
    has a clock of its own. Verdicts are those that a `Monitor` for each stream would give.

    A stream takes about 50 bytes, 24 more for each pending time-point, and what the dictionary of
    keys takes; `counters` tells.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        str unknown not None="ignore"
    ):
        self.streams = Streams(Monitor(formula, mode, bdd=bdd, unit=unit, unknown=unknown))
        self.numbers = {}

    def step(self, key, time_stamp, atoms=()):
        """Go on to the next event of a stream; its verdicts, in order of time-points.

        Raises what `Monitor.step` raises; other streams are not concerned.
        """
        cdef uint32_t number = self._load(key, True)
        try:
            return self.streams.worker.step(time_stamp, atoms)
        finally:
            self.streams.store(&self.streams.resting[number])

    def advance(self, key, time_stamp):
        """No later event of the stream comes below `time_stamp`: the verdicts that settles."""
        cdef uint32_t number = self._load(key, False)
        try:
            return self.streams.worker.advance(time_stamp)
        finally:
            self.streams.store(&self.streams.resting[number])

    def pending(self, key):
        """What `Monitor.pending` says of a stream."""
        cdef uint32_t number = self._load(key, False)
        try:
            return self.streams.worker.pending
        finally:
            self.streams.store(&self.streams.resting[number])

    def finish(self, end_time=None):
        """All streams end: iterate over (key, verdicts), by key in the order of first events.

        `end_time` is that of `Monitor.finish`, "last" meaning the last time-stamp of each stream.
        Streams are forgotten as they are finished.
        """
        cdef uint32_t number
        for key in list(self.numbers):
            number = self._load(key, False)
            try:
                verdicts = self.streams.worker.finish(end_time)
            finally:
                self.streams.worker.revive()
                self.streams.store(&self.streams.resting[number])
                self.forget(key)
            yield key, verdicts

    def forget(self, key):
        """Forget a stream; another event with its key begins a new one."""
        self.streams.worker.require_ready()
        self.streams.drop(self.numbers.pop(key))

    cdef uint32_t _load(self, object key, bint is_new) except? 0:
        """Make the stream of a key, which may be a new one, that at work; its number."""
        cdef uint32_t number
        self.streams.worker.require_ready()
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
        return iter(self.numbers)

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
        """events, true, false (with equivalents) of all streams together; streams, those of them
        that are kept whole, and bytes, what all streams take but for the whole ones, the keys and
        what is shared."""
        return self.streams.counters(len(self.numbers))

    def __repr__(self):
        return f"<Monitors in mode {self.mode} of {len(self)} streams>"
