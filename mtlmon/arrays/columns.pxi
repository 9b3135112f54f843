# cython: language_level=3
"""Read events from columns of arrays.

`mtlmon.drive.feeding` interprets arrays. Here, they are columns in plain memory, which are read
without copying, a block of events at a time.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython cimport final, no_gc
from libc.stdint cimport SIZE_MAX, UINT64_MAX
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from mtlmon.engine.native cimport lowest_bit, reserve

from mtlmon.errors import TimeStampError


cdef extern from *:
    """
    /* PERF: the compiler's own needs a call, as not all processors of this architecture count bits.
    Most words are 0 here. */
    static inline size_t mtlmon_bit_count(uint64_t word) {
        if (!word) return 0;
        word -= word >> 1 & 0x5555555555555555u;
        word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
        return ((word + (word >> 4) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u) >> 56;
    }
    """
    size_t bit_count "mtlmon_bit_count"(uint64_t word) noexcept nogil


# As for Block: the garbage collector must not clear the array before its buffer is released.
@no_gc
@final
cdef class Memory:
    """The one-dimensional buffer of an array, held for as long as this object exists."""

    def __cinit__(self, array, Py_ssize_t item_size, size_t count, bint is_writable=False):
        cdef int flags = PyBUF_STRIDES | PyBUF_FORMAT
        if is_writable:
            flags |= PyBUF_WRITABLE
        PyObject_GetBuffer(array, &self.buffer, flags)
        self.is_held = True
        if self.buffer.ndim != 1 or self.buffer.itemsize != item_size:
            raise ValueError(f"not a one-dimensional array of items of {item_size} bytes")
        if <size_t> self.buffer.shape[0] < count:
            raise ValueError(f"an array of {self.buffer.shape[0]} items instead of {count}")

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)


@final
cdef class EventColumns:
    """Events in columns: their time-stamps, and the atoms that have a column.

    time_stamps: a buffer of at least `count` items of type int64.

    Arrays must not change while they are fed. If they do, the verdicts belong to arbitrary events,
    but decreasing time-stamps are detected.
    """

    def __cinit__(self, time_stamps, size_t count):
        cdef Memory memory = Memory(time_stamps, sizeof(int64_t), count)
        self.count = count
        self.memory = [memory]
        self.time_stamps = <const char *> memory.buffer.buf
        self.time_stride = memory.buffer.strides[0]

    def __dealloc__(self):
        free(self.columns)

    def add_bytes(self, uint32_t atom, array):
        """The atom holds at event k if byte k is not 0."""
        self._add(BYTES, atom, array, 1, self.count)

    def add_bitmap(self, uint32_t atom, bitmap, size_t first):
        """The atom holds at event k if bit first + k of the bytes is set, in Arrow's bit order."""
        cdef Column *column = self._add(BITMAP, atom, bitmap, 1, (first + self.count + 7) // 8)
        if column.stride != 1:
            self.column_count -= 1
            raise ValueError("not a contiguous bitmap")
        column.first = first

    def add_bit_of_masks(self, uint32_t atom, masks, size_t bit):
        """The atom holds at event k if this bit, below 64, of the 64-bit integer k is set."""
        if bit >= 64:
            raise ValueError(f"no bit {bit} among 64")
        self._add(MASKS, atom, masks, sizeof(uint64_t), self.count).first = bit

    def add_letters(self, uint32_t atom_count, masks, uint32_t word=0):
        """Bit i of the 64-bit integer k says whether atom 64 * word + i holds at event k.

        atom_count: the number of atoms in all words.
        """
        cdef uint32_t first = 64 * word
        if word and first >= atom_count:
            raise ValueError(f"no word {word} in letters of {atom_count} atoms")
        self._add(LETTERS, first, masks, sizeof(uint64_t), self.count).known = (
            UINT64_MAX if atom_count - first >= 64 else (<uint64_t> 1 << (atom_count - first)) - 1
        )

    cdef Column *_add(
        self, ColumnKind kind, uint32_t atom, object array, Py_ssize_t item_size, size_t count
    ) except NULL:
        cdef Memory memory = Memory(array, item_size, count)
        cdef Column *column
        self.memory.append(memory)
        reserve(
            <void **> &self.columns, &self.column_capacity, <size_t> self.column_count + 1,
            sizeof(Column)
        )
        column = &self.columns[self.column_count]
        memset(column, 0, sizeof(Column))
        column.kind = kind
        column.atom = atom
        column.data = <const char *> memory.buffer.buf
        column.stride = memory.buffer.strides[0]
        self.column_count += 1
        return column

    cdef int check_time_stamps(
        self, uint64_t clock, size_t first_index, size_t first, size_t last
    ) except -1:
        """Refuse events first, ..., last - 1 if one is negative, below the clock or decreasing.

        first_index: the number of event 0 in errors.
        """
        cdef size_t k
        cdef int64_t time_stamp
        with nogil:
            k = first + first_decrease(
                self.time_stamps + <Py_ssize_t> first * self.time_stride, self.time_stride,
                last - first, <int64_t> clock
            )
        if k == last:
            return 0
        time_stamp = read_integer(self.time_stamps, self.time_stride, k)
        place = f"time-stamp {time_stamp} at index {first_index + k}"
        if time_stamp < 0:
            message = f"{place} is not between 0 and 2^63-1"
        else:
            if k > first:
                clock = <uint64_t> read_integer(self.time_stamps, self.time_stride, k - 1)
            message = f"{place} is below {clock}: time-stamps must not decrease"
        raise TimeStampError(message, index=first_index + k)

    cdef size_t first_negative(self, size_t first, size_t last) noexcept nogil:
        """The first of the events first, ..., last - 1 with a negative time-stamp, or `last`."""
        cdef size_t k
        for k in range(first, last):
            if read_integer(self.time_stamps, self.time_stride, k) < 0:
                return k
        return last

    cdef uint64_t last_time_stamp(self, uint64_t clock) noexcept:
        """The time-stamp of the last event, or `clock` if there is none."""
        if self.count == 0:
            return clock
        return <uint64_t> read_integer(self.time_stamps, self.time_stride, self.count - 1)

    cdef uint64_t time_stamp_of(self, size_t index) noexcept nogil:
        """The time-stamp of an event, which is known not to be negative."""
        return <uint64_t> read_integer(self.time_stamps, self.time_stride, index)

    cdef size_t first_from(self, uint64_t time_stamp, size_t first, size_t last) noexcept nogil:
        """The first of the events first, ..., last - 1 that is not below a time, or `last`."""
        cdef size_t middle
        cdef size_t step = 1
        # it is mostly near
        while first < last and step < last - first:
            middle = first + step
            if self.time_stamp_of(middle - 1) >= time_stamp:
                last = middle
                break
            first = middle
            step *= 2
        while first < last:
            middle = (first + last) // 2
            if self.time_stamp_of(middle) < time_stamp:
                first = middle + 1
            else:
                last = middle
        return first

    cdef void mark_held(
        self, size_t first, size_t last, uint64_t *marked, uint64_t atoms=UINT64_MAX
    ) noexcept nogil:
        """Set the bits of the events first, ..., last - 1 at which an atom holds, clear others.

        All columns must be bitmaps.

        marked: has a bit for each of these events, in words of which all bits are set or cleared.
        atoms: the bits of those that count; all from the 64th on do.
        """
        cdef const Column *column
        cdef size_t k
        memset(marked, 0, (last - first + 63) // 64 * sizeof(uint64_t))
        for k in range(self.column_count):
            column = &self.columns[k]
            if column.atom >= 64 or atoms >> column.atom & 1:
                add_bits(
                    <const uint8_t *> column.data, column.first + first, column.first + last,
                    marked
                )

    cdef size_t most_held(self, size_t first, size_t last) noexcept nogil:
        """An upper bound of how many of these events have an atom.

        It is the number of all events unless all columns are bitmaps.
        """
        cdef const Column *column
        cdef size_t held = 0
        cdef size_t k
        for k in range(self.column_count):
            column = &self.columns[k]
            if column.kind != BITMAP:
                return last - first
            held += count_set(
                <const uint8_t *> column.data, column.first + first, column.first + last
            )
        return min(held, last - first)

    cdef bint count_atoms(self, size_t first, size_t last, size_t *counts) noexcept nogil:
        """Add at how many of these events each atom holds; False if not all are bitmaps.

        counts: has a number for each atom.
        """
        cdef const Column *column
        cdef size_t k
        for k in range(self.column_count):
            column = &self.columns[k]
            if column.kind != BITMAP:
                return False
            counts[column.atom] += count_set(
                <const uint8_t *> column.data, column.first + first, column.first + last
            )
        return True

    cdef uint64_t letter_of(self, size_t index) noexcept nogil:
        """The letter of an event, if it has one word; all columns must be bitmaps.

        PERF: `read` takes ten times as long for one event.
        """
        cdef const Column *column
        cdef uint64_t letter = 0
        cdef size_t k, bit
        for k in range(self.column_count):
            column = &self.columns[k]
            bit = column.first + index
            letter |= <uint64_t> (column.data[bit >> 3] >> (bit & 7) & 1) << column.atom
        return letter

    cdef void read(
        self, size_t first, size_t count, uint64_t *time_stamps, uint64_t *letters, size_t words
    ) noexcept nogil:
        """Copy events first, ..., first + count - 1; each letter has the given number of words."""
        cdef const char *start = self.time_stamps + <Py_ssize_t> first * self.time_stride
        cdef size_t k
        if self.time_stride == sizeof(int64_t):
            memcpy(time_stamps, start, count * sizeof(int64_t))
        else:
            for k in range(count):
                time_stamps[k] = <uint64_t> read_integer(start, self.time_stride, k)
        memset(letters, 0, count * words * sizeof(uint64_t))
        for k in range(self.column_count):
            read_column(
                &self.columns[k], first, count, letters + (self.columns[k].atom >> 6), words
            )


cdef inline int64_t read_integer(const char *start, Py_ssize_t stride, size_t k) noexcept nogil:
    # Integers of Arrow and numpy can be at any address.
    cdef int64_t value
    memcpy(&value, start + <Py_ssize_t> k * stride, sizeof(int64_t))
    return value


cdef size_t first_decrease(
    const char *start, Py_ssize_t stride, size_t count, int64_t last
) noexcept nogil:
    """The index of the first integer below the one before it, or below `last`; or `count`.

    PERF: processes blocks without branches, so that compilers use vector instructions.
    """
    cdef size_t k = 0
    cdef size_t j, end
    cdef bint decreases
    while k < count:
        end = min(count, k + BLOCK_EVENTS)
        decreases = read_integer(start, stride, k) < last
        if stride == sizeof(int64_t):
            for j in range(k + 1, end):
                decreases |= read_integer(start, sizeof(int64_t), j) < read_integer(
                    start, sizeof(int64_t), j - 1
                )
        else:
            for j in range(k + 1, end):
                decreases |= read_integer(start, stride, j) < read_integer(start, stride, j - 1)
        if decreases:
            while read_integer(start, stride, k) >= last:
                last = read_integer(start, stride, k)
                k += 1
            return k
        last = read_integer(start, stride, end - 1)
        k = end
    return count


def letters_as_bitmaps(letters, size_t count, size_t words, atoms=None):
    """Return a list with a bitmap for each atom, of the events at which it holds.

    Policies with few atoms each find their events faster in bitmaps than in letters.

    Args:
        letters: an array of uint64 without gaps, with so many words for each event.
        count: the number of events.
        words: the words of a letter.
        atoms: the number of atoms, which are the first bits of letters; None for all bits.
    """
    cdef Memory memory = Memory(letters, sizeof(uint64_t), count * words)
    cdef const uint64_t *word = <const uint64_t *> memory.buffer.buf
    cdef size_t size = (count + 63) // 64 * sizeof(uint64_t)
    cdef size_t atom_count = 64 * words if atoms is None else atoms
    cdef bytes bitmaps
    cdef uint8_t *bitmap
    cdef uint64_t bits
    cdef size_t k, i, atom
    if count and words and memory.buffer.strides[0] != sizeof(uint64_t):
        raise ValueError("letters have gaps between them")
    if atom_count > 64 * words or (atom_count and size > SIZE_MAX // 2 // atom_count):
        raise ValueError(f"no bitmaps of {atom_count} atoms")
    bitmaps = bytes(size * atom_count)
    bitmap = <uint8_t *> <char *> bitmaps
    with nogil:
        for k in range(count):
            for i in range(words):
                bits = word[k * words + i]
                while bits:
                    atom = 64 * i + <size_t> lowest_bit(bits)
                    if atom < atom_count:
                        bitmap[atom * size + (k >> 3)] |= <uint8_t> 1 << (k & 7)
                    bits &= bits - 1
    view = memoryview(bitmaps)
    return [view[size * atom:size * (atom + 1)] for atom in range(atom_count)]


cdef inline uint64_t bits_from(const uint8_t *bitmap, size_t first, size_t end) noexcept nogil:
    """The next 64 bits from a place on, those below `end`, which is behind it."""
    cdef const uint8_t *place = bitmap + (first >> 3)
    cdef size_t shift = first & 7
    cdef size_t count = min(end - first, <size_t> 64)
    cdef size_t size = (count + shift + 7) >> 3
    cdef uint64_t word = 0
    memcpy(&word, place, min(size, <size_t> 8))
    word >>= shift
    if size == 9:
        word |= <uint64_t> place[8] << (64 - shift)
    if count < 64:
        word &= (<uint64_t> 1 << count) - 1
    return word


cdef void add_bits(
    const uint8_t *bitmap, size_t first, size_t end, uint64_t *words
) noexcept nogil:
    """Set in words the bits that are set, from number `first` on and below `end`."""
    cdef size_t count = (end - first) // 64
    cdef size_t k
    cdef uint64_t word
    if first & 7:
        for k in range(count):
            words[k] |= bits_from(bitmap, first + 64 * k, end)
    else:
        for k in range(count):
            memcpy(&word, bitmap + (first >> 3) + 8 * k, sizeof(uint64_t))
            words[k] |= word
    if first + 64 * count < end:
        words[count] |= bits_from(bitmap, first + 64 * count, end)


cdef size_t count_set(const uint8_t *bitmap, size_t first, size_t end) noexcept nogil:
    """How many bits are set, from number `first` on and below `end`."""
    cdef uint64_t word
    cdef size_t count = 0
    while first < end and first & 7:
        count += bitmap[first >> 3] >> (first & 7) & 1
        first += 1
    while first + 64 <= end:
        memcpy(&word, bitmap + (first >> 3), sizeof(uint64_t))
        count += bit_count(word)
        first += 64
    while first < end:
        count += bitmap[first >> 3] >> (first & 7) & 1
        first += 1
    return count


cdef void read_column(
    const Column *column, size_t first, size_t count, uint64_t *letters, size_t words
) noexcept nogil:
    """Add a column's atom to letters; the pointer is at the atom's word in the first letter."""
    cdef const char *start = column.data + <Py_ssize_t> first * column.stride
    cdef uint32_t bit = column.atom & 63
    cdef size_t k
    if column.kind == BYTES:
        if column.stride == 1 and words == 1:
            for k in range(count):
                letters[k] |= <uint64_t> (start[k] != 0) << bit
        else:
            for k in range(count):
                letters[k * words] |= (
                    <uint64_t> (start[<Py_ssize_t> k * column.stride] != 0) << bit
                )
    elif column.kind == BITMAP:
        read_bitmap(<const uint8_t *> column.data, column.first + first, count, bit, letters, words)
    elif column.kind == MASKS:
        for k in range(count):
            letters[k * words] |= (
                <uint64_t> read_integer(start, column.stride, k) >> column.first & 1
            ) << bit
    else:
        for k in range(count):
            letters[k * words] |= (
                <uint64_t> read_integer(start, column.stride, k) & column.known
            )


cdef void read_bitmap(
    const uint8_t *bitmap, size_t position, size_t count, uint32_t bit, uint64_t *letters,
    size_t words
) noexcept nogil:
    cdef size_t k = 0
    cdef uint64_t byte
    cdef uint32_t i
    while k < count and position & 7:
        letters[k * words] |= <uint64_t> (bitmap[position >> 3] >> (position & 7) & 1) << bit
        position += 1
        k += 1
    while k + 8 <= count:
        byte = bitmap[position >> 3]
        for i in range(8):
            letters[(k + i) * words] |= (byte >> i & 1) << bit
        position += 8
        k += 8
    while k < count:
        letters[k * words] |= <uint64_t> (bitmap[position >> 3] >> (position & 7) & 1) << bit
        position += 1
        k += 1
