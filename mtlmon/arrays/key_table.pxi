# cython: language_level=3
"""Number the keys of rows, in the order in which they first occur.

The table uses open addressing; the texts are in an arena. A key takes about 24 bytes and its text.
The upper half of a hash is kept in the slot, and says where the slot is, in the order of these
halves: so a table that grows moves its slots without reading texts, and writes them in order.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport (
    SIZE_MAX,
    UINT32_MAX,
    UINT64_MAX,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

import os

from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes, damaged

from mtlmon.errors import LimitError

cdef extern from *:
    """
    /* Pointers that another thread may replace by others to the same content, and more. */
    #define mtlmon_publish(pointer, value) __atomic_store_n(pointer, value, __ATOMIC_RELEASE)
    #define mtlmon_published(pointer) __atomic_load_n(pointer, __ATOMIC_ACQUIRE)
    """
    void publish "mtlmon_publish"(void **pointer, void *value) noexcept nogil
    uint8_t *published_texts "mtlmon_published"(uint8_t **pointer) noexcept nogil
    uint64_t *published_ends "mtlmon_published"(uint64_t **pointer) noexcept nogil

cdef enum:
    # how many rows ahead slots are prefetched from memory
    AHEAD = 32
    SMALLEST_SIZE = 64

# Not a number: the table is full before it has this many keys.
cdef uint32_t NONE = UINT32_MAX


@cython.final
cdef class KeyTable:
    """Numbers the keys, each of which has a text in each of `columns` columns.

    seed: of the hash function, 24 bytes; chosen at random if not given, so that nobody can choose
        keys that collide.
    """

    def __cinit__(self, size_t columns, bytes seed=None):
        cdef size_t k
        if columns == 0:
            raise ValueError("a key has at least one column")
        if seed is None:
            seed = os.urandom(sizeof(self.seed))
        if len(seed) != sizeof(self.seed):
            raise ValueError(f"a seed of {len(seed)} bytes instead of {sizeof(self.seed)}")
        memcpy(self.seed, <const uint8_t *> seed, sizeof(self.seed))
        for k in range(3):
            # even factors would lose bits
            self.seed[k] |= 1
        self.columns = columns
        self.resize(SMALLEST_SIZE, NULL)
        # so that even empty texts have a valid address
        self.text_room = grow(<void **> &self.texts, 0, SMALLEST_SIZE, 1)

    def __dealloc__(self):
        free(self.slots)
        free(self.texts)
        free(self.ends)
        free(self.joined)
        self.free_former()
        free(self.former)

    def __len__(self):
        return self.count

    @property
    def memory(self):
        """The bytes of memory that are used for keys."""
        return (
            (self.slot_mask + 1) * sizeof(Slot) + self.count * sizeof(uint64_t) + self.text_size()
        )

    @property
    def held_bytes(self):
        """The bytes of memory that are held for keys, including room that is not used yet."""
        return (
            (self.slot_mask + 1) * sizeof(Slot) + self.end_room * sizeof(uint64_t)
            + self.text_room + self.joined_room + self.former_bytes
        )

    def read_beside(self, bint is_read_beside):
        """Say whether one thread may number rows while others read the keys of earlier rows.

        Until this is called again, memory that others may read is not given back. They must not
        read, and nobody may number rows, during the call. Neither must they during `keep`,
        `snapshot` and `restore`.
        """
        self.is_read_beside = is_read_beside
        self.free_former()

    def key(self, size_t number):
        """The texts of the key with this number, as a tuple with one text for each column."""
        cdef list texts = []
        cdef Text text
        cdef size_t k
        if number >= self.count:
            raise IndexError(f"no key has the number {number}")
        for k in range(self.columns):
            text = self.column_text(number, k)
            texts.append(text.place[:text.length].decode("utf-8", "replace"))
        return tuple(texts)

    def column(self, numbers, size_t column):
        """The texts of the keys with these numbers, in one column.

        numbers: a contiguous array of type uint32.

        Returns:
            Bytes of int64 offsets, one more than there are numbers, and the texts one after the
            other: what a column of large strings of Arrow consists of.
        """
        cdef Memory memory = Memory(numbers, sizeof(uint32_t), 0)
        cdef size_t count = <size_t> memory.buffer.shape[0]
        cdef const uint32_t *wanted = <const uint32_t *> memory.buffer.buf
        cdef int64_t *offsets
        cdef uint8_t *target
        cdef uint64_t total = 0
        cdef size_t k
        cdef Text text
        if count > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
            raise ValueError("numbers have gaps between them")
        if column >= self.columns:
            raise IndexError(f"keys have {self.columns} columns")
        for k in range(count):
            if wanted[k] >= self.count:
                raise IndexError(f"no key has the number {wanted[k]}")
            total += self.column_text(wanted[k], column).length
        starts = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int64_t))
        joined = PyBytes_FromStringAndSize(NULL, total)
        offsets = <int64_t *> PyBytes_AS_STRING(starts)
        target = <uint8_t *> PyBytes_AS_STRING(joined)
        offsets[0] = 0
        for k in range(count):
            text = self.column_text(wanted[k], column)
            memcpy(target + offsets[k], text.place, text.length)
            offsets[k + 1] = offsets[k] + <int64_t> text.length
        return starts, joined

    def keep(self, new_numbers):
        """Give keys new numbers, in the same order, and forget others.

        new_numbers: bytes of uint32 items, indexed by the current number; 2^32-1 for keys to
        forget.
        """
        cdef Memory memory = Memory(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef uint64_t start = 0
        cdef uint64_t size = 0
        cdef uint64_t length
        cdef size_t kept = 0
        cdef size_t k
        cdef size_t slots = SMALLEST_SIZE
        cdef void *smaller
        if <size_t> memory.buffer.shape[0] < self.count * sizeof(uint32_t):
            raise ValueError("expected a number for each key")
        for k in range(self.count):
            length = self.ends[k] - start
            if numbers[k] != NONE:
                if numbers[k] != kept:
                    raise ValueError("new numbers are not in the order of the present ones")
                memmove(self.texts + size, self.texts + start, length)
                size += length
            start = self.ends[k]
            if numbers[k] != NONE:
                self.ends[kept] = size
                kept += 1
        self.count = kept
        smaller = realloc(self.texts, max(size, <uint64_t> SMALLEST_SIZE))
        if smaller != NULL:
            self.texts = <uint8_t *> smaller
            self.text_room = max(size, <uint64_t> SMALLEST_SIZE)
        while 4 * (kept + 1) > 3 * (slots - 1):
            slots *= 2
        self.resize(slots, numbers)

    def snapshot(self):
        """The texts of all keys, in the order of their numbers, as bytes for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        cdef size_t number, column
        cdef Text text
        writer.put(self.columns)
        writer.put(self.count)
        for number in range(self.count):
            for column in range(self.columns):
                text = self.column_text(number, column)
                writer.put_bytes(text.place[:text.length])
        return writer.taken()

    def restore(self, snapshot):
        """Number the keys of a snapshot of another table; this one must be empty.

        Raises:
            SnapshotError: the bytes are not the snapshot of a table with as many columns. The table
                must not be used after that.
        """
        cdef NumberReader reader = NumberReader()
        cdef size_t number, column
        cdef uint64_t prefix
        cdef Text text
        reader.open(as_bytes(snapshot), 0)
        if self.count or reader.get(UINT64_MAX) != self.columns:
            raise damaged()
        for number in range(<size_t> reader.get_count(<uint32_t> min(self.columns, UINT32_MAX))):
            joined = bytearray()
            for column in range(self.columns):
                part = reader.get_bytes()
                if column + 1 < self.columns:
                    prefix = <uint64_t> len(part)
                    joined += (<const char *> &prefix)[:sizeof(prefix)]
                joined += part
            content = bytes(joined)
            text.place = <const uint8_t *> PyBytes_AS_STRING(content)
            text.length = <size_t> len(content)
            if self.number_of(text, self.hash_of(text)) != number:
                raise damaged()
        reader.end()

    def number_rows(self, list cells not None, numbers):
        """Write the number of each row's key.

        cells: for each column, its TextCells, without null.
        numbers: contiguous array of as many integers of type uint32 as there are rows.

        Raises:
            LimitError: there are more than 2^32 - 1 keys.
        """
        cdef TextCells column
        cdef Memory memory
        self.check_cells(cells)
        column = cells[0]
        memory = writable_numbers(numbers, column.count)
        if self.columns == 1:
            with nogil:
                self.number_texts(column, <uint32_t *> memory.buffer.buf)
        else:
            self.number_joined(cells, <uint32_t *> memory.buffer.buf)

    def number_text(self, bytes text not None):
        """Return the number of a key of one column, as `number_rows` gives it.

        PERF: this takes .1 us, and `number_rows` with its columns 4 us for a single row.
        """
        cdef Text key
        if self.columns != 1:
            raise ValueError("a key of several columns")
        key.place = <const uint8_t *> PyBytes_AS_STRING(text)
        key.length = <size_t> len(text)
        return self.number_of(key, self.hash_of(key))

    def find_rows(self, list cells not None, numbers):
        """Write the number of each row's key as `number_rows` does, but 2^32-1 for unknown keys."""
        cdef TextCells column
        cdef Memory memory
        cdef Text text
        cdef size_t row
        self.check_cells(cells)
        column = cells[0]
        memory = writable_numbers(numbers, column.count)
        if self.columns == 1:
            with nogil:
                self.find_texts(column, <uint32_t *> memory.buffer.buf)
            return
        for row in range(column.count):
            text = self.joined_text(cells, row)
            (<uint32_t *> memory.buffer.buf)[row] = self.slot_of(text, self.hash_of(text)).number

    cdef int check_cells(self, list cells) except -1:
        """Check that there are the columns of keys, without null."""
        cdef TextCells column
        cdef size_t k
        if len(cells) != <Py_ssize_t> self.columns:
            raise ValueError(f"{len(cells)} columns instead of {self.columns}")
        for column in cells:
            if column.count != (<TextCells> cells[0]).count:
                raise ValueError("columns of different lengths")
            for k in range(column.count if column.validity != NULL else 0):
                if is_cell_null(column, k):
                    raise ValueError("a key is null")
        return 0

    def number_dictionary(self, TextCells dictionary not None, indices, size_t count, numbers):
        """Write the number of each row's key, given as an index into a dictionary.

        indices: a contiguous array of `count` integers of type int32, none of them null.
        """
        cdef Memory places = Memory(indices, sizeof(int32_t), count)
        cdef Memory memory = writable_numbers(numbers, count)
        cdef uint32_t *number_of
        if places.buffer.shape[0] > 1 and places.buffer.strides[0] != sizeof(int32_t):
            raise ValueError("indices have gaps between them")
        if self.columns != 1:
            raise ValueError("a dictionary is of one column")
        number_of = <uint32_t *> malloc(max(<size_t> 1, dictionary.count) * sizeof(uint32_t))
        if number_of == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            with nogil:
                self.number_entries(
                    dictionary, number_of, <const uint8_t *> places.buffer.buf, count,
                    <uint32_t *> memory.buffer.buf
                )
        finally:
            free(number_of)

    cdef int number_texts(self, TextCells cells, uint32_t *numbers) except -1 nogil:
        cdef uint64_t hashes[AHEAD]
        cdef Text texts[AHEAD]
        cdef size_t done = 0
        cdef size_t k, count
        while done < cells.count:
            count = min(<size_t> AHEAD, cells.count - done)
            for k in range(count):
                texts[k].place = cell_text(cells, done + k, &texts[k].length)
                hashes[k] = self.hash_of(texts[k])
                prefetch(&self.slots[self.home_of(upper_half(hashes[k]))])
            for k in range(count):
                numbers[done + k] = self.number_of(texts[k], hashes[k])
            done += count
        return 0

    # PERF: with one function for the inner loop that is also in `number_texts`, 2 M texts take 25.9
    # instead of 24.9 ms here, and as long there
    cdef void find_texts(self, TextCells cells, uint32_t *numbers) noexcept nogil:
        cdef uint64_t hashes[AHEAD]
        cdef Text texts[AHEAD]
        cdef size_t done = 0
        cdef size_t k, count
        while done < cells.count:
            count = min(<size_t> AHEAD, cells.count - done)
            for k in range(count):
                texts[k].place = cell_text(cells, done + k, &texts[k].length)
                hashes[k] = self.hash_of(texts[k])
                prefetch(&self.slots[self.home_of(upper_half(hashes[k]))])
            for k in range(count):
                numbers[done + k] = self.slot_of(texts[k], hashes[k]).number
            done += count

    cdef int number_joined(self, list cells, uint32_t *numbers) except -1:
        cdef size_t row
        cdef Text text
        for row in range((<TextCells> cells[0]).count):
            text = self.joined_text(cells, row)
            numbers[row] = self.number_of(text, self.hash_of(text))
        return 0

    cdef Text joined_text(self, list cells, size_t row) except *:
        """The text of a key: with several columns, all its texts with their lengths."""
        cdef TextCells column
        cdef size_t length
        cdef size_t size = 0
        cdef uint64_t prefix
        cdef size_t k
        cdef Text text
        for k in range(self.columns):
            column = <TextCells> cells[k]
            text.place = cell_text(column, row, &length)
            self.reserve_joined(size + sizeof(prefix) + length)
            if k + 1 < self.columns:
                prefix = length
                memcpy(self.joined + size, &prefix, sizeof(prefix))
                size += sizeof(prefix)
            memcpy(self.joined + size, text.place, length)
            size += length
        text.place = self.joined
        text.length = size
        return text

    cdef int number_entries(
        self, TextCells dictionary, uint32_t *number_of, const uint8_t *indices, size_t count,
        uint32_t *numbers
    ) except -1 nogil:
        cdef size_t k
        cdef int32_t index
        cdef Text text
        for k in range(dictionary.count):
            number_of[k] = NONE
        for k in range(count):
            memcpy(&index, indices + k * sizeof(index), sizeof(index))
            if index < 0 or <size_t> index >= dictionary.count or is_cell_null(dictionary, index):
                with gil:
                    raise ValueError("a key is null or not in its dictionary")
            if number_of[index] == NONE:
                text.place = cell_text(dictionary, index, &text.length)
                number_of[index] = self.number_of(text, self.hash_of(text))
            numbers[k] = number_of[index]
        return 0

    cdef uint32_t number_of(self, Text text, uint64_t hash) except? 4294967295 nogil:
        """The number of a key, which is new if the key has none; NONE after an error."""
        cdef Slot *slot = self.slot_of(text, hash)
        if slot.number != NONE:
            return slot.number
        if 4 * (self.count + 1) > 3 * self.slot_mask:
            self.resize(2 * (self.slot_mask + 1), NULL)
            slot = self.free_slot(upper_half(hash))
        self.append(text)
        slot.number = <uint32_t> (self.count - 1)
        slot.tag = upper_half(hash)
        return slot.number

    cdef Slot *slot_of(self, Text text, uint64_t hash) noexcept nogil:
        """The slot of a key; a free one if the key has no number."""
        cdef uint32_t tag = upper_half(hash)
        cdef size_t position = self.home_of(tag)
        cdef Slot *slot = self.slots + position
        cdef Text known
        while slot.number != NONE:
            if slot.tag == tag:
                known = self.text_of(slot.number)
                if known.length == text.length and memcmp(
                    known.place, text.place, text.length
                ) == 0:
                    break
            position = (position + 1) & self.slot_mask
            slot = self.slots + position
        return slot

    cdef int append(self, Text text) except -1 nogil:
        """Store the text of a new key."""
        cdef size_t size = self.text_size()
        if self.count >= <size_t> NONE - 1:
            with gil:
                raise LimitError("more than 2^32 - 2 different keys")
        self.make_room(<void **> &self.texts, &self.text_room, size, size + text.length, 1)
        self.make_room(
            <void **> &self.ends, &self.end_room, self.count, self.count + 1, sizeof(uint64_t)
        )
        memcpy(self.texts + size, text.place, text.length)
        self.ends[self.count] = size + text.length
        self.count += 1
        return 0

    cdef int make_room(
        self, void **block, size_t *room, size_t used, size_t needed, size_t item_size
    ) except -1 nogil:
        """Make room for items behind those that are used, which others may be reading."""
        cdef void *larger = NULL
        cdef size_t larger_room
        if not self.is_read_beside or needed <= room[0]:
            room[0] = grow(block, room[0], needed, item_size)
            return 0
        self.former_room = grow(
            <void **> &self.former, self.former_room, self.former_count + 1, sizeof(void *)
        )
        larger_room = grow(&larger, 0, max(needed, room[0] + room[0] // 2), item_size)
        if used:
            memcpy(larger, block[0], used * item_size)
        self.former[self.former_count] = block[0]
        self.former_count += 1
        self.former_bytes += room[0] * item_size
        room[0] = larger_room
        publish(block, larger)
        return 0

    cdef void free_former(self) noexcept nogil:
        cdef size_t k
        for k in range(self.former_count):
            free(self.former[k])
        self.former_count = self.former_bytes = 0

    cdef int reserve_joined(self, size_t size) except -1:
        self.joined_room = grow(<void **> &self.joined, self.joined_room, size, 1)
        return 0

    cdef int resize(self, size_t size, const uint32_t *numbers) except -1 nogil:
        """Move all keys to slots in a table of another size, a power of 2.

        numbers: the new numbers of the keys, and NONE for those that get no slot; NULL if they keep
            theirs.

        PERF: hashing the texts again took 17% of a run that numbers 2 M different texts, 6 times
        as long as this.
        """
        cdef Slot *slots = <Slot *> malloc(size * sizeof(Slot))
        cdef Slot *former = self.slots
        cdef size_t former_size = 0 if former == NULL else self.slot_mask + 1
        cdef uint32_t number
        cdef size_t k
        cdef Slot *slot
        if slots == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        memset(slots, 0xFF, size * sizeof(Slot))
        self.slots = slots
        self.slot_mask = size - 1
        self.home_shift = 64
        while size > 1:
            size //= 2
            self.home_shift -= 1
        for k in range(former_size):
            number = former[k].number
            if number != NONE and numbers != NULL:
                number = numbers[number]
            if number != NONE:
                slot = self.free_slot(former[k].tag)
                slot.number = number
                slot.tag = former[k].tag
        free(former)
        return 0

    cdef inline size_t home_of(self, uint32_t tag) noexcept nogil:
        """The first of the slots where a key may be."""
        return <size_t> (<uint64_t> tag << 32 >> self.home_shift)

    cdef Slot *free_slot(self, uint32_t tag) noexcept nogil:
        cdef size_t position = self.home_of(tag)
        while self.slots[position].number != NONE:
            position = (position + 1) & self.slot_mask
        return self.slots + position

    cdef size_t text_size(self) noexcept nogil:
        return <size_t> self.ends[self.count - 1] if self.count else 0

    cdef Text text_of(self, size_t number) noexcept nogil:
        cdef Text text
        cdef const uint64_t *ends = published_ends(&self.ends)
        cdef size_t start = <size_t> ends[number - 1] if number else 0
        text.place = published_texts(&self.texts) + start
        text.length = <size_t> ends[number] - start
        return text

    cdef Text column_text(self, size_t number, size_t column) noexcept nogil:
        """The text of a key in one column."""
        cdef Text text = self.text_of(number)
        cdef const uint8_t *end = text.place + text.length
        cdef uint64_t length = text.length
        cdef size_t k
        for k in range(column + 1):
            text.length = <size_t> (end - text.place)
            if k + 1 < self.columns:
                memcpy(&length, text.place, sizeof(length))
                text.place += sizeof(length)
                text.length = <size_t> length
            if k < column:
                text.place += text.length
        return text

    cdef uint64_t hash_of(self, Text text) noexcept nogil:
        cdef uint64_t hash = self.seed[0] ^ text.length
        cdef uint64_t word
        while text.length >= sizeof(word):
            memcpy(&word, text.place, sizeof(word))
            hash = fold(hash ^ word, self.seed[1])
            text.place += sizeof(word)
            text.length -= sizeof(word)
        word = 0
        memcpy(&word, text.place, text.length)
        return fold(fold(hash ^ word, self.seed[1]) ^ self.seed[0], self.seed[2])


cdef inline uint32_t upper_half(uint64_t hash) noexcept nogil:
    return <uint32_t> (hash >> 32)


cdef Memory writable_numbers(object array, size_t count):
    cdef Memory memory = Memory(array, sizeof(uint32_t), count, True)
    if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
        raise ValueError("numbers have gaps between them")
    return memory


cdef size_t grow(void **block, size_t room, size_t needed, size_t item_size) except? 0 nogil:
    """Make room for at least `needed` items; return the number of items there is room for."""
    cdef void *grown
    cdef size_t wanted
    if needed <= room:
        return room
    wanted = max(max(needed, <size_t> SMALLEST_SIZE), room + room // 2)
    if wanted > SIZE_MAX // 2 // item_size:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    grown = realloc(block[0], wanted * item_size)
    if grown == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    block[0] = grown
    return wanted
