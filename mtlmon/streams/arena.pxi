# cython: language_level=3
"""States of traces, as words in one block of memory: no object for each state.

They are written so that equal states have equal words.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset


cdef enum:
    # the least block has so many words, its first one for what it is
    LEAST_BLOCK = 4
    BLOCK_CLASSES = 64
    # a state has fewer words, and a program fewer kernels
    MOST_STATE_WORDS = 0x7FFFFFFF
    MOST_KERNELS = 0xFFFF


cdef enum:
    NO_MARK = -1


cdef struct Marks:
    # Before which rows to save the states of their traces, so that a call has any number of chunks.
    const int64_t *moments      # for each row, as of when; NO_MARK for none; NULL if none is at all
    uint64_t *places            # get those of the states, `width` for each row with a mark
    size_t width


cdef struct RowColumns:
    # Rows for `Kernel.step`, in the order of time in each trace.
    size_t count
    const uint32_t *numbers
    const int64_t *time_stamps
    const int64_t *values       # cells; NULL if the kernel takes none
    const uint8_t *mask         # 0 where the value is null; NULL if none is
    int64_t *results
    uint8_t *validity
    Marks marks


cdef inline uint64_t block_head(size_t size, int kind, size_t kernel) noexcept nogil:
    """The first word of a block in use: how many words its state has, its class, its kernel."""
    return <uint64_t> 1 << 63 | <uint64_t> kernel << 40 | <uint64_t> kind << 32 | <uint64_t> size


@final
cdef class Arena:
    """States, each a number of words at a place; place 0 is that of the state of a new trace.

    A place stays valid until it is freed, but what `at` returns only until `take` is called.
    """

    cdef uint64_t *words
    cdef size_t room, end
    cdef uint64_t spare[BLOCK_CLASSES]  # places of free blocks, by their classes
    cdef readonly size_t state_count

    def __cinit__(self):
        memset(self.spare, 0, sizeof(self.spare))
        self.end = 1

    def __dealloc__(self):
        free(self.words)

    cdef inline int class_of(self, size_t size) noexcept nogil:
        """The class of the least blocks for a state: 4, 6, 8, 12, 16, ... words."""
        cdef int kind = 0
        while self.block_of(kind) < size + 1:
            kind += 1
        return kind

    cdef inline size_t block_of(self, int kind) noexcept nogil:
        return <size_t> (LEAST_BLOCK if kind & 1 == 0 else 6) << (kind >> 1)

    cdef uint64_t take(self, size_t size, size_t kernel) except? 0 nogil:
        """Make room for a state of a kernel."""
        cdef int kind
        cdef size_t block, room
        cdef uint64_t place
        if size > MOST_STATE_WORDS:
            with gil:
                raise LimitError("the state of a stream has more than 2^31 - 1 words")
        kind = self.class_of(size)
        block = self.block_of(kind)
        place = self.spare[kind]
        if place:
            self.spare[kind] = self.words[place + 1]
        else:
            if self.end + block > self.room:
                room = max(self.end + block, self.room + self.room // 2)
                resized(<void **> &self.words, room, sizeof(uint64_t))
                self.room = room
            place = self.end
            self.end += block
        self.words[place] = block_head(size, kind, kernel)
        self.state_count += 1
        return place

    cdef inline uint64_t *at(self, uint64_t place) noexcept nogil:
        return self.words + place + 1

    cdef inline size_t size_at(self, uint64_t place) noexcept nogil:
        return <size_t> (self.words[place] & MOST_STATE_WORDS) if place else 0

    cdef inline void free(self, uint64_t place) noexcept nogil:
        cdef int kind
        if place == 0:
            return
        kind = <int> (self.words[place] >> 32 & 0xFF)
        self.words[place] = <uint64_t> kind << 32
        self.words[place + 1] = self.spare[kind]
        self.spare[kind] = place
        self.state_count -= 1

    cdef int visit_texts(self, Kernel kernel, const TextMarks *marks) except -1:
        """Visit the texts in all states of a kernel."""
        cdef uint64_t place = 1
        cdef uint64_t head
        while place < self.end:
            head = self.words[place]
            if head >> 63 and (head >> 40 & MOST_KERNELS) == kernel.number:
                kernel.visit_texts_of_state(self.words + place + 1, self.size_at(place), marks)
            place += self.block_of(<int> (head >> 32 & 0xFF))
        return 0

    @property
    def held_bytes(self):
        """The number of bytes that all states take."""
        return self.room * sizeof(uint64_t)
