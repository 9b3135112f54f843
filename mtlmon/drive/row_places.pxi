# cython: language_level=3
"""Find the row of a log that a verdict is about.

A verdict names its time-point by policy, stream, time-stamp and offset. The rows of time-points
without a verdict are kept in a hash table, and removed with the verdict: an equivalence is a
verdict, too. So the monitors have to give all verdicts, one for each time-point, and those that are
not wanted are left out here. The table grows with the undecided time-points, as the engine does in
`naive` mode, and with those whose equivalence is not resolved yet.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT32_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from mtlmon.arrays.native cimport Memory
from mtlmon.engine.native cimport VerdictRecord
from mtlmon.text.native cimport VerdictFilter

cdef enum:
    LEAST_SLOTS = 1 << 10

cdef uint32_t NO_FILE = UINT32_MAX


@final
cdef class RowPlaces:
    """The rows of time-points that have no verdict yet, by policy and stream."""

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return <Py_ssize_t> self.count

    @property
    def held_bytes(self):
        """The bytes that the table takes."""
        return self.room * sizeof(RowPlace)

    def add(
        self, uint32_t policy, size_t count, numbers, time_stamps, offsets, files, rows
    ):
        """Remember the rows of time-points, which must be new.

        Args:
            policy: the number of the policy whose time-points they are.
            count: the number of time-points.
            numbers: the numbers of their streams, a contiguous array of uint32.
            time_stamps: their time-stamps, a contiguous array of int64, none of them negative.
            offsets: their offsets within their time-stamps, a contiguous array of uint32.
            files: the numbers of the files, a contiguous array of uint32 below 2^32 - 1.
            rows: the numbers of the rows in these, a contiguous array of int64.
        """
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), count)
        cdef Memory time_memory = contiguous(time_stamps, sizeof(int64_t), count)
        cdef Memory offset_memory = contiguous(offsets, sizeof(uint32_t), count)
        cdef Memory file_memory = contiguous(files, sizeof(uint32_t), count)
        cdef Memory row_memory = contiguous(rows, sizeof(int64_t), count)
        cdef const uint32_t *stream_of = <const uint32_t *> number_memory.buffer.buf
        cdef const int64_t *time_of = <const int64_t *> time_memory.buffer.buf
        cdef const uint32_t *offset_of = <const uint32_t *> offset_memory.buffer.buf
        cdef const uint32_t *file_of = <const uint32_t *> file_memory.buffer.buf
        cdef const int64_t *row_of = <const int64_t *> row_memory.buffer.buf
        cdef RowPlace place
        cdef size_t k
        place.policy = policy
        place.unused = 0
        with nogil:
            for k in range(count):
                place.stream = stream_of[k]
                place.time_stamp = <uint64_t> time_of[k]
                place.offset = offset_of[k]
                place.file = file_of[k]
                place.row = row_of[k]
                self.put(&place)

    def take(
        self, VerdictRows rows not None, str verdicts not None="all", bint keeps=False
    ):
        """Find the rows of verdicts, and forget them; then keep only some of the verdicts.

        Args:
            rows: verdicts, of which those that do not pass the filter are removed.
            verdicts: the filter: "all", "boolean", "false" or "none".
            keeps: whether the rows are not forgotten, as other verdicts can be about them.

        Returns:
            Bytes of the numbers of the files, of type uint32, and of the rows in these, of type
            int64, for the verdicts that are left. The file is 2^32 - 1, and the row -1, where a
            time-point comes from no row.
        """
        cdef VerdictFilter filter = _FILTERS[verdicts]
        cdef object files = PyBytes_FromStringAndSize(NULL, rows.count * sizeof(uint32_t))
        cdef object numbers = PyBytes_FromStringAndSize(NULL, rows.count * sizeof(int64_t))
        cdef uint32_t *file_of = <uint32_t *> PyBytes_AS_STRING(files)
        cdef int64_t *row_of = <int64_t *> PyBytes_AS_STRING(numbers)
        cdef VerdictRecord record
        cdef uint32_t k
        cdef uint32_t kept = 0
        cdef size_t slot
        with nogil:
            for k in range(rows.count):
                record = rows.records[k]
                slot = self.slot_of(
                    rows.policies[k], rows.streams[k], record.time_stamp, record.offset
                )
                if passes(filter, record.kind):
                    file_of[kept] = NO_FILE if slot == SIZE_MAX else self.slots[slot].file
                    row_of[kept] = -1 if slot == SIZE_MAX else self.slots[slot].row
                    rows.records[kept] = record
                    rows.streams[kept] = rows.streams[k]
                    rows.policies[kept] = rows.policies[k]
                    kept += 1
                if slot != SIZE_MAX and not keeps:
                    self.remove(slot)
            rows.count = kept
            if self.room > LEAST_SLOTS and self.count < self.room // 16:
                self.resize(self.room // 4)
        return files[:kept * sizeof(uint32_t)], numbers[:kept * sizeof(int64_t)]

    def find(self, uint32_t policy, uint32_t stream, uint64_t time_stamp, uint64_t offset):
        """Return the numbers of the file and the row of a time-point; None if it has no row."""
        cdef size_t slot = self.slot_of(policy, stream, time_stamp, offset)
        if slot == SIZE_MAX:
            return None
        return self.slots[slot].file, self.slots[slot].row

    def keep(self, list policies not None, bytes numbers not None):
        """Give the streams of some policies new numbers, as `KeyTable.keep` does.

        Args:
            policies: for each policy, whether its streams get new numbers.
            numbers: bytes of uint32: for each stream its new number, or 2^32 - 1 if it is
                forgotten, with its time-points.
        """
        cdef const uint32_t *number_of = <const uint32_t *> <const char *> numbers
        cdef size_t known = <size_t> len(numbers) // sizeof(uint32_t)
        cdef RowPlaces others = RowPlaces()
        cdef RowPlace place
        cdef size_t slot
        for slot in range(self.room):
            place = self.slots[slot]
            if place.file == NO_FILE:
                continue
            if policies[place.policy]:
                if place.stream >= known:
                    raise ValueError("a stream that has no new number")
                place.stream = number_of[place.stream]
                if place.stream == NO_NUMBER:
                    continue
            others.put(&place)
        self.slots, others.slots = others.slots, self.slots
        self.room, others.room = others.room, self.room
        self.count = others.count

    def forget_below(self, uint32_t policy, bounds):
        """Forget the rows of the time-points of a policy that are below a time.

        Args:
            policy: the number of the policy.
            bounds: the time for each stream, a contiguous array of int64; nothing is forgotten of
                streams beyond its end. The only one holds for all streams.
        """
        cdef size_t known = <size_t> len(bounds)
        cdef Memory memory = contiguous(bounds, sizeof(int64_t), known)
        cdef const int64_t *bound_of = <const int64_t *> memory.buffer.buf
        cdef RowPlaces others = RowPlaces()
        cdef RowPlace place
        cdef size_t slot, stream
        with nogil:
            for slot in range(self.room):
                place = self.slots[slot]
                if place.file == NO_FILE:
                    continue
                stream = 0 if known == 1 else place.stream
                if place.policy == policy and stream < known and (
                    <int64_t> place.time_stamp < bound_of[stream]
                ):
                    continue
                others.put(&place)
        self.slots, others.slots = others.slots, self.slots
        self.room, others.room = others.room, self.room
        self.count = others.count

    def snapshot(self):
        """Return all rows as bytes for `restore`."""
        cdef object text = PyBytes_FromStringAndSize(NULL, self.count * sizeof(RowPlace))
        cdef char *place = PyBytes_AS_STRING(text)
        cdef size_t slot
        for slot in range(self.room):
            if self.slots[slot].file != NO_FILE:
                memcpy(place, &self.slots[slot], sizeof(RowPlace))
                place += sizeof(RowPlace)
        return text

    def restore(self, bytes snapshot not None, uint32_t policies, uint32_t files):
        """Add the rows of a snapshot.

        Args:
            snapshot: the bytes.
            policies: how many policies there are.
            files: how many files there are.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        cdef size_t size = <size_t> len(snapshot)
        cdef const char *text = snapshot
        cdef RowPlace place
        cdef size_t k
        if size % sizeof(RowPlace):
            raise ValueError("not a snapshot of rows")
        for k in range(size // sizeof(RowPlace)):
            memcpy(&place, text + k * sizeof(RowPlace), sizeof(RowPlace))
            if place.policy >= policies or place.file >= files:
                raise ValueError("not a snapshot of rows")
            place.unused = 0
            self.put(&place)

    cdef int resize(self, size_t room) except -1 nogil:
        """Move all rows to so many slots: a power of two, more than there are rows."""
        cdef RowPlace *before = self.slots
        cdef size_t room_before = self.room
        cdef size_t k
        cdef RowPlace *slots = NULL
        if room <= SIZE_MAX // sizeof(RowPlace):
            slots = <RowPlace *> malloc(room * sizeof(RowPlace))
        if slots == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        for k in range(room):
            slots[k].file = NO_FILE
        self.slots = slots
        self.room = room
        self.count = 0
        for k in range(room_before):
            if before[k].file != NO_FILE:
                self.put(&before[k])
        free(before)
        return 0

    cdef int put(self, const RowPlace *place) except -1 nogil:
        """Add a row; no other one is of the same time-point."""
        cdef size_t slot
        if self.count >= self.room // 2:
            self.resize(max(<size_t> LEAST_SLOTS, 2 * self.room))
        slot = hash_of(place.policy, place.stream, place.time_stamp, place.offset)
        slot &= self.room - 1
        while self.slots[slot].file != NO_FILE:
            slot = (slot + 1) & (self.room - 1)
        self.slots[slot] = place[0]
        self.count += 1
        return 0

    cdef size_t slot_of(
        self, uint32_t policy, uint32_t stream, uint64_t time_stamp, uint64_t offset
    ) noexcept nogil:
        """The slot of a time-point; SIZE_MAX if it has no row."""
        cdef const RowPlace *place
        cdef size_t slot
        if not self.room:
            return SIZE_MAX
        slot = hash_of(policy, stream, time_stamp, offset) & (self.room - 1)
        while self.slots[slot].file != NO_FILE:
            place = &self.slots[slot]
            if (
                place.time_stamp == time_stamp and place.offset == offset
                and place.stream == stream and place.policy == policy
            ):
                return slot
            slot = (slot + 1) & (self.room - 1)
        return SIZE_MAX

    cdef void remove(self, size_t slot) noexcept nogil:
        """Empty a slot, and move those behind it that would no longer be found."""
        cdef size_t mask = self.room - 1
        cdef size_t following = slot
        cdef size_t wanted
        cdef const RowPlace *place
        while True:
            following = (following + 1) & mask
            place = &self.slots[following]
            if place.file == NO_FILE:
                break
            wanted = hash_of(place.policy, place.stream, place.time_stamp, place.offset) & mask
            # It may move unless it is where it belongs, or closer to that than the empty slot.
            if ((following - wanted) & mask) >= ((following - slot) & mask):
                self.slots[slot] = place[0]
                slot = following
        self.slots[slot].file = NO_FILE
        self.count -= 1


cdef inline size_t hash_of(
    uint32_t policy, uint32_t stream, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    """A hash of a time-point: multiplications modulo 2^64, and shifts."""
    cdef uint64_t value = <uint64_t> policy << 32 | stream
    value = (value ^ (value >> 29)) * <uint64_t> 0x9E3779B97F4A7C15
    value = (value ^ (value >> 32) ^ time_stamp) * <uint64_t> 0xD6E8FEB86659FD93
    value = (value ^ (value >> 32) ^ offset) * <uint64_t> 0xD6E8FEB86659FD93
    return <size_t> (value ^ (value >> 32))


cdef Memory contiguous(object array, Py_ssize_t item_size, size_t count):
    """The memory of an array of items without gaps between them."""
    cdef Memory memory = Memory(array, item_size, count)
    if count > 1 and memory.buffer.strides[0] != item_size:
        raise ValueError("an array with gaps between its items")
    return memory
