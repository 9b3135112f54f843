# cython: language_level=3
"""Counts the bytes that mtlmon's own structures hold, and stops at a limit.

Every structure knows the capacity of its arrays, so what is held is summed when it is asked for,
between two blocks of events, and nothing is counted where memory is allocated. Only the tables of
expressions can grow without bound within a single event; they are told how much room they have.

There is one count for each run: nothing is shared between monitors.
"""

from cython cimport final
from libc.string cimport memset

from mtlmon.engine.memory_limit import CATEGORIES as _CATEGORIES, limit_error
from mtlmon.support.option_names import PYTHON

_HOLDERS = {name: number for number, name in enumerate(_CATEGORIES)}
if len(_HOLDERS) != HOLDER_COUNT:
    raise ImportError("mtlmon.engine.memory_limit does not name all holders of memory")


@final
cdef class MemoryLimit:
    """How many bytes may be held, and how many are.

    Args:
        limit: in bytes; None if there is no limit.
        names: how the caller writes the options that messages recommend.
    """

    def __cinit__(self, limit=None, names=PYTHON):
        self.names = names
        self.allowed = NO_LIMIT() if limit is None else min(limit, NO_LIMIT())
        memset(&self.counted, 0, sizeof(HeldBytes))
        memset(&self.beside, 0, sizeof(HeldBytes))

    @property
    def limit(self):
        """In bytes, or None."""
        return None if self.allowed == NO_LIMIT() else self.allowed

    @limit.setter
    def limit(self, value):
        self.allowed = NO_LIMIT() if value is None else min(value, NO_LIMIT())

    @property
    def peak(self):
        """The most bytes that were held at a time when they were counted."""
        return self.highest

    @property
    def held(self):
        """The bytes held when they were counted last, by category, where there are any."""
        return {
            name: self.counted.of[k] for k, name in enumerate(_CATEGORIES) if self.counted.of[k]
        }

    def note(self, str category, size_t size):
        """Say how much of a category is held beside the structures that are counted."""
        self.beside.of[<int> _HOLDERS[category]] = size

    def check(self):
        """Count what was noted, and nothing else.

        Raises:
            MemoryLimitError: it is more than the limit.
        """
        cdef HeldBytes nothing
        memset(&nothing, 0, sizeof(HeldBytes))
        if not self.admits(&nothing):
            self.require(False)

    cdef bint admits(self, const HeldBytes *held) noexcept nogil:
        """Take note of what is held; whether that is within the limit."""
        cdef int k
        self.total = 0
        for k in range(HOLDER_COUNT):
            self.counted.of[k] = held.of[k] + self.beside.of[k]
            self.total += self.counted.of[k]
        self.highest = max(self.highest, self.total)
        return self.total <= self.allowed

    cdef void note_relief(self) noexcept nogil:
        """What was counted last is too much: what can be done without is given up now."""
        self.before = self.counted

    cdef int require(self, bint is_relieved) except -1 nogil:
        """Raise MemoryLimitError if the bytes noted last are more than the limit.

        is_relieved: what can be done without was just given up. Then some room must be left, or
            that would have to be done again and again.
        """
        cdef size_t most = self.allowed
        if is_relieved and self.allowed != NO_LIMIT():
            most -= self.allowed // 16
        if self.total > most:
            if is_relieved and self.total <= self.allowed:
                self.counted = self.before
            with gil:
                raise self.exceeded(0)
        return 0

    cdef size_t room_for(self, size_t bytes) noexcept nogil:
        """How much a structure that held so much at the last count may hold, all others as then.

        That is a little more than the limit: what is garbage is only known between two events.
        """
        if self.allowed == NO_LIMIT():
            return NO_LIMIT()
        return bytes + self.allowed // 4 + (
            self.allowed - self.total if self.total < self.allowed else 0
        )

    cdef size_t share(self, size_t parts) noexcept nogil:
        """One of so many parts of the limit."""
        return self.allowed // parts

    cdef object exceeded(self, size_t more):
        """The error to raise, with so many more bytes of expressions than at the last count."""
        held = self.held
        if more:
            name = _CATEGORIES[HELD_EXPRESSIONS]
            held[name] = held.get(name, 0) + more
        return limit_error(self.allowed, held, self.names)
