# cython: language_level=3
"""Read text cells in Arrow columns, without copying.

The layouts are those of the Arrow columnar format, "Variable-size Binary Layout" and "Variable-size
List Layout". Files can contain anything, so offsets are checked before they are used.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport SIZE_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


cdef enum:
    VIEW_BYTES = 16
    # the largest size of a text that is stored in the view itself
    INLINE_BYTES = 12

# The limit for all texts of a column. Views can share their data, so a small file can ask for more
# memory than any machine has.
cdef uint64_t MOST_TEXT = <uint64_t> 1 << 32

# The buffers of an empty array may be missing.
cdef const uint8_t *NOTHING = <const uint8_t *> b"\0\0\0\0\0\0\0\0"


@final
cdef class Offsets:
    """The boundaries of `count` texts or lists in the data that contains them.

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
        # PERF: offsets of one size, so that compilers use vector instructions
        for k in range(offsets.count):
            decreases |= small_offset(offsets.place, k + 1) < small_offset(offsets.place, k)
    return not decreases and <uint64_t> offsets.last() <= limit


cdef inline int32_t small_offset(const char *place, size_t k) noexcept nogil:
    cdef int32_t offset
    memcpy(&offset, place + k * sizeof(int32_t), sizeof(int32_t))
    return offset


@final
cdef class TextCells:
    """The cells of a text column.

    count: how many there are.
    first: the place of the first one in the buffers of the array.
    validity, offsets, text: these buffers, or None.
    is_large: offsets have 64 bits.

    Raises ValueError: the buffers do not fit together.
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


cdef struct Piece:
    # one of the buffers that views refer to
    const uint8_t *text
    size_t size


def texts_of_views(size_t count, size_t first, validity, views, list pieces):
    """Concatenate the texts of a column of views.

    count, first, validity: as `TextCells` takes them; a null is an empty text here.
    views: 16 bytes each, as in the "Variable-size Binary View Layout".
    pieces: the buffers that longer texts are in, or None.

    Views of nulls can contain anything, even if a library has validated the column, so they are not
    read.

    Returns:
        Bytes of int64 offsets, one more than there are views, and the texts.

    Raises ValueError: a view reaches beyond its buffer.
    """
    cdef Memory memory
    cdef Piece *places = NULL
    cdef const uint8_t *view = NOTHING
    cdef const uint8_t *valid = NULL
    cdef const uint8_t *text
    cdef int64_t *offsets
    cdef uint8_t *target
    cdef uint64_t total = 0
    cdef size_t k, length
    cdef size_t piece_count = <size_t> len(pieces)
    cdef bint is_damaged = False
    cdef bint is_too_much = False
    cdef list memories = []
    if count > SIZE_MAX // 32 or first > SIZE_MAX // 32:
        raise ValueError("too many cells")
    if count:
        memory = contiguous(views, (first + count) * VIEW_BYTES)
        memories.append(memory)
        view = <const uint8_t *> memory.buffer.buf + first * VIEW_BYTES
    if validity is not None:
        memory = contiguous(validity, (first + count + 7) // 8)
        memories.append(memory)
        valid = <const uint8_t *> memory.buffer.buf
    places = <Piece *> malloc((piece_count + 1) * sizeof(Piece))
    if places == NULL:
        raise MemoryError
    try:
        for k in range(piece_count):
            places[k].text = NOTHING
            places[k].size = 0
            if pieces[k] is not None:
                memory = contiguous(pieces[k], 0)
                memories.append(memory)
                places[k].text = <const uint8_t *> memory.buffer.buf
                places[k].size = <size_t> memory.buffer.shape[0]
        starts = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> ((count + 1) * sizeof(int64_t)))
        offsets = <int64_t *> PyBytes_AS_STRING(starts)
        with nogil:
            offsets[0] = 0
            for k in range(count):
                if is_set(valid, first + k):
                    if view_text(view + k * VIEW_BYTES, places, piece_count, &length) == NULL:
                        is_damaged = True
                        break
                    # below 2^31 each time, so it cannot overflow
                    total += length
                    if total > MOST_TEXT:
                        is_too_much = True
                        break
                offsets[k + 1] = <int64_t> total
        if is_damaged:
            raise ValueError("the views of an Arrow array are damaged")
        if is_too_much:
            raise ValueError("views of more than 4 GiB of text in one batch")
        joined = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> total)
        target = <uint8_t *> PyBytes_AS_STRING(joined)
        with nogil:
            for k in range(count):
                if is_set(valid, first + k):
                    text = view_text(view + k * VIEW_BYTES, places, piece_count, &length)
                    memcpy(target + offsets[k], text, length)
        return starts, joined
    finally:
        free(places)


cdef inline bint is_set(const uint8_t *bits, size_t k) noexcept nogil:
    return bits == NULL or bits[k >> 3] >> (k & 7) & 1


cdef inline const uint8_t *view_text(
    const uint8_t *view, const Piece *pieces, size_t piece_count, size_t *length
) noexcept nogil:
    """The text of a view, or NULL if it is not within its buffer."""
    cdef int32_t size, piece, start
    memcpy(&size, view, sizeof(size))
    length[0] = <size_t> size
    if size < 0:
        return NULL
    if size <= INLINE_BYTES:
        return view + 4
    memcpy(&piece, view + 8, sizeof(piece))
    memcpy(&start, view + 12, sizeof(start))
    if piece < 0 or <size_t> piece >= piece_count or start < 0:
        return NULL
    if <size_t> start + length[0] > pieces[piece].size:
        return NULL
    return pieces[piece].text + start


cdef Memory contiguous(object buffer, size_t size):
    """The bytes of a buffer, which must have at least this size."""
    cdef Memory memory
    if buffer is None:
        raise ValueError("an Arrow array without one of its buffers")
    memory = Memory(buffer, 1, size)
    if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != 1:
        raise ValueError("not a contiguous buffer")
    return memory
