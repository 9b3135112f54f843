# cython: language_level=3
"""Count the bytes that mtlmon's own structures hold, and stop at a limit.

Every structure knows the capacity of its arrays, so the total is computed on request, between two
blocks of events, and nothing is counted when memory is allocated. For Python objects and BDDs,
their number is multiplied by the measured size of one of them.

When the total exceeds the limit, the monitor first frees the transition table, which only serves
speed, and old expressions, which are garbage. If this does not free enough room for the next
blocks, it raises an error, because otherwise it would have to free memory at every block. Only the
tables of expressions can grow without bound within a single event; so before they grow, the
workspace compares the new size with the room that the last count has left. If the limit is low, the
transition table, memo tables, batches of verdicts and sorting each get a share of it as their
budget.

There is one counter for each run: monitors share nothing.
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
    """How many bytes may be held, and how many are held.

    Args:
        limit: the limit in bytes, or None if there is no limit.
        names: how the caller writes the options that messages recommend.
    """

    def __cinit__(self, limit=None, names=PYTHON):
        self.names = names
        self.allowed = NO_LIMIT() if limit is None else min(limit, NO_LIMIT())
        memset(&self.counted, 0, sizeof(HeldBytes))
        memset(&self.beside, 0, sizeof(HeldBytes))

    @property
    def limit(self):
        """The limit in bytes, or None."""
        return None if self.allowed == NO_LIMIT() else self.allowed

    @limit.setter
    def limit(self, value):
        self.allowed = NO_LIMIT() if value is None else min(value, NO_LIMIT())

    @property
    def peak(self):
        """The largest number of bytes that a count has found."""
        return self.highest

    @property
    def held(self):
        """The bytes that the last count has found, by category, without empty categories."""
        return {
            name: self.counted.of[k] for k, name in enumerate(_CATEGORIES) if self.counted.of[k]
        }

    def note(self, str category, size_t size):
        """Set how much of a category is held besides the structures that are counted."""
        self.beside.of[<int> _HOLDERS[category]] = size

    def check(self):
        """Count only what was noted.

        Raises:
            MemoryLimitError: the total is more than the limit.
        """
        cdef HeldBytes nothing
        memset(&nothing, 0, sizeof(HeldBytes))
        if not self.admits(&nothing):
            self.require(False)

    cdef int hold_to(self, MemoryHolder holder) except -1 nogil:
        """Raise MemoryLimitError if too much memory is held; call between two batches of events.
        """
        cdef HeldBytes held
        cdef bint is_relieved = False
        memset(&held, 0, sizeof(HeldBytes))
        holder.count_held(&held)
        if not self.admits(&held):
            self.before = self.counted
            is_relieved = holder.relieve()
            memset(&held, 0, sizeof(HeldBytes))
            holder.count_held(&held)
            self.admits(&held)
        self.require(is_relieved)
        if self.allowed != NO_LIMIT():
            holder.set_room(self)
        return 0

    cdef bint admits(self, const HeldBytes *held) noexcept nogil:
        """Record what is held; return whether it is within the limit."""
        cdef int k
        self.total = 0
        for k in range(HOLDER_COUNT):
            self.counted.of[k] = held.of[k] + self.beside.of[k]
            self.total += self.counted.of[k]
        self.highest = max(self.highest, self.total)
        return self.total <= self.allowed

    cdef int require(self, bint is_relieved) except -1 nogil:
        """Raise MemoryLimitError if the last recorded bytes are more than the limit.

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
        """How much a structure may hold that held `bytes` at the last count, if all others stay.

        This is slightly more than the limit allows: only between two events is it known what is
        garbage.
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
        """The error to raise, with `more` bytes of expressions in addition to the last count."""
        held = self.held
        if more:
            name = _CATEGORIES[HELD_EXPRESSIONS]
            held[name] = held.get(name, 0) + more
        return limit_error(self.allowed, held, self.names)


cdef class MemoryHolder:
    """The base of what a memory limit is checked for."""

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        """Add the bytes that all parts take."""

    cdef bint relieve(self) except -1 nogil:
        """Release inessential memory; False if there is no such memory."""
        return False

    cdef void set_room(self, MemoryLimit memory) noexcept nogil:
        """Take note of the room that the last count has left."""
