# cython: language_level=3
"""Cells of text in columns of Arrow, read where they lie.

The layouts are those of the Arrow columnar format, "Variable-size Binary Layout" and
"Variable-size List Layout". Files may say anything, so offsets are checked before they are used.
"""

from cython cimport final
from libc.stdint cimport SIZE_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from mtlmon._arrays cimport Memory

# The buffers of an empty array may be missing.
cdef const uint8_t *NOTHING = <const uint8_t *> b"\0\0\0\0\0\0\0\0"


@final
cdef class Offsets:
    """Where each of `count` texts or lists begins in what they are parts of.

    buffer: of integers of 32 bits, or 64 if is_large; None if there are no texts.
    first: the place of the first one among them.
    limit: how much there is.
    """

    def __cinit__(self, buffer, size_t first, size_t count, size_t limit, bint is_large):
        cdef size_t size = sizeof(int64_t) if is_large else sizeof(int32_t)
        cdef Memory memory
        self.count = count
        self.is_large = is_large
        self.memory = []
        if count == 0:
            self.place = <const char *> NOTHING
            return
        if count > SIZE_MAX // 16 or first > SIZE_MAX // 16:
            raise ValueError("too many cells")
        memory = contiguous(buffer, (first + count + 1) * size)
        self.memory.append(memory)
        self.place = <const char *> memory.buffer.buf + first * size
        if not are_increasing(self, limit):
            raise ValueError("the offsets of an Arrow array are damaged")

    cdef int64_t last(self) noexcept nogil:
        return offset_at(self, self.count)


cdef bint are_increasing(Offsets offsets, size_t limit) noexcept nogil:
    cdef size_t k
    cdef bint decreases = offset_at(offsets, 0) < 0
    if offsets.is_large:
        for k in range(offsets.count):
            decreases |= offset_at(offsets, k + 1) < offset_at(offsets, k)
    else:
        # PERF: of one size, so that compilers use vector instructions
        for k in range(offsets.count):
            decreases |= small_offset(offsets.place, k + 1) < small_offset(offsets.place, k)
    return not decreases and <uint64_t> offsets.last() <= limit


cdef inline int32_t small_offset(const char *place, size_t k) noexcept nogil:
    cdef int32_t offset
    memcpy(&offset, place + k * sizeof(int32_t), sizeof(int32_t))
    return offset


@final
cdef class TextCells:
    """The cells of a column of texts.

    count: how many there are.
    first: the place of the first one in the buffers of the array.
    validity, offsets, text: these buffers, or None.
    is_large: offsets have 64 bits.

    Raises ValueError: they do not belong together.
    """

    def __cinit__(self, size_t count, size_t first, validity, offsets, text, bint is_large):
        cdef Memory memory
        cdef size_t size = 0
        self.count = count
        self.first = first
        self.memory = []
        self.text = NOTHING
        if text is not None:
            memory = contiguous(text, 0)
            self.memory.append(memory)
            size = <size_t> memory.buffer.shape[0]
            self.text = <const uint8_t *> memory.buffer.buf
        self.offsets = Offsets(offsets, first, count, size, is_large)
        if validity is not None:
            memory = contiguous(validity, (first + count + 7) // 8)
            self.memory.append(memory)
            self.validity = <const uint8_t *> memory.buffer.buf


cdef Memory contiguous(object buffer, size_t size):
    """The bytes of a buffer, of which there are at least so many."""
    cdef Memory memory
    if buffer is None:
        raise ValueError("an Arrow array without one of its buffers")
    memory = Memory(buffer, 1, size)
    if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != 1:
        raise ValueError("not a contiguous buffer")
    return memory
