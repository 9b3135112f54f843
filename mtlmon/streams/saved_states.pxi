# cython: language_level=3
"""States that are bytes: an object of Python has them, by the slots of traces."""


cdef class SavedState(Kernel):
    """A kernel whose states are bytes for `RoundHistory`.

    states: has the states of slots, with the methods `saved`, `load` and `move`.
    """

    cdef object states

    def __cinit__(self, states):
        self.states = states

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        return 0

    cdef uint64_t save(self, uint32_t trace, int64_t moment) except? 0 nogil:
        with gil:
            return self.kept(self.states.saved(trace))

    cdef uint64_t kept(self, bytes state) except? 0:
        """Keep a state: the number of its bytes, and these."""
        cdef size_t size = <size_t> len(state)
        cdef uint64_t place = self.arena.take(words_of_bytes(size), self.number)
        cdef uint64_t *words = self.arena.at(place)
        words[words_of_bytes(size) - 1] = 0
        words[0] = size
        memcpy(words + 1, <const char *> state, size)
        return place

    cdef int load(self, uint32_t trace, uint64_t place) except -1 nogil:
        with gil:
            self.states.load(trace, None if place == 0 else self.bytes_at(place))
        return 0

    cdef bytes bytes_at(self, uint64_t place):
        """A state that was saved."""
        cdef const uint64_t *words = self.arena.at(place)
        return (<const char *> (words + 1))[: <size_t> words[0]]

    cdef int move(self, uint32_t trace, uint32_t target, int64_t moment) except -1 nogil:
        with gil:
            self.states.move(trace, target)
        return 0

    cdef bint is_same(self, uint32_t trace, int64_t moment, uint64_t place) except -1 nogil:
        with gil:
            return self.is_at(self.states.saved(trace), place)

    cdef bint is_at(self, bytes state, uint64_t place) except -1:
        """Whether a state is one that was saved."""
        cdef const uint64_t *words = self.arena.at(place)
        return place != 0 and words[0] == <uint64_t> len(state) and memcmp(
            words + 1, <const char *> state, <size_t> words[0]
        ) == 0

    cdef size_t bytes_held(self):
        return 0


cdef inline size_t words_of_bytes(size_t size) noexcept nogil:
    """How many words a state of so many bytes has, with one for their number."""
    return 1 + (size + sizeof(uint64_t) - 1) // sizeof(uint64_t)
