# cython: language_level=3
"""Many streams against one formula, told apart by keys."""

from cython cimport final
from libc.stdint cimport uint32_t

from libc.string cimport memset

from mtlmon._core cimport Monitor
from mtlmon.engine.native cimport HELD_KEYS, HOLDER_COUNT, HeldBytes, MemoryLimit

from mtlmon.errors import MemoryLimitError, MonitorBrokenError

cdef enum:
    # A key that is a short text; other objects are not looked into.
    KEY_BYTES = 60


@final
cdef class Monitors:
    """Monitors any number of streams, told apart by keys, against one formula.

    Takes what `Monitor` takes; `max_memory` is for all streams together. Keys are hashable. A
    stream begins with its first event, and each has a clock of its own. Verdicts are those that a
    `Monitor` for each stream would give.

    A stream takes about 50 bytes, 24 more for each pending time-point, and what the dictionary of
    keys takes; `counters` tells.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        str unknown not None="ignore", max_memory=None
    ):
        self.streams = Streams(Monitor(formula, mode, bdd=bdd, unit=unit, unknown=unknown))
        self.numbers = {}
        if max_memory is not None:
            from mtlmon.engine.memory_limit import memory_size

            self.memory = MemoryLimit(memory_size(max_memory))
            self.streams.worker.set_limit(self.memory, 1)
            self.check_memory([])

    def step(self, key, time_stamp, atoms=()):
        """Go on to the next event of a stream; its verdicts, in order of time-points.

        Raises what `Monitor.step` raises; other streams are not concerned, but by the limit of
        memory, which is common to all. `forget` makes room.
        """
        cdef uint32_t number
        if self.memory is not None and self.memory.total > self.memory.allowed:
            # It was too much after the event before; so this one is not taken.
            self.check_memory([])
        number = self._load(key, True)
        try:
            verdicts = self.streams.worker.step(time_stamp, atoms)
        finally:
            self.streams.store(&self.streams.resting[number])
        if self.memory is not None:
            self.check_memory(verdicts)
        return verdicts

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
                self.streams.store(&self.streams.resting[number])
                self.streams.worker.mark_ready()
                self.forget(key)
            yield key, verdicts

    def forget(self, key):
        """Forget a stream; another event with its key begins a new one."""
        self.streams.worker.require_ready()
        self.streams.drop(self.numbers.pop(key))

    cdef size_t key_bytes(self) except? 0:
        """What the dictionary of keys and these take."""
        return <size_t> self.numbers.__sizeof__() + KEY_BYTES * len(self.numbers)

    cdef int check_memory(self, list verdicts) except -1:
        """Raise MemoryLimitError, with these verdicts, when too much is held."""
        cdef HeldBytes held
        cdef bint is_relieved = False
        memset(&held, 0, sizeof(HeldBytes))
        self.streams.count_held(&held)
        held.of[HELD_KEYS] += self.key_bytes()
        if not self.memory.admits(&held):
            self.memory.note_relief()
            self.streams.relieve()
            is_relieved = True
            memset(&held, 0, sizeof(HeldBytes))
            self.streams.count_held(&held)
            held.of[HELD_KEYS] += self.key_bytes()
            self.memory.admits(&held)
        try:
            self.memory.require(is_relieved)
        except MemoryLimitError as error:
            error.verdicts = verdicts
            raise
        self.streams.worker.engine.set_room(self.memory)
        return 0

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
        what is shared; held_bytes, what all of it takes, which `max_memory` limits."""
        cdef HeldBytes held
        cdef dict counters = self.streams.counters(len(self.numbers))
        memset(&held, 0, sizeof(HeldBytes))
        self.streams.count_held(&held)
        held.of[HELD_KEYS] += self.key_bytes()
        counters["held_bytes"] = sum([held.of[k] for k in range(HOLDER_COUNT)])
        return counters

    def __repr__(self):
        return f"<Monitors in mode {self.mode} of {len(self)} streams>"
