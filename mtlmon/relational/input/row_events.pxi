# cython: language_level=3
"""Reads a log of relations as events for policies without variables, too."""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes
from mtlmon.relational.native cimport PointBlock

cdef enum:
    MOST_EVENTS = 1 << 13


@final
cdef class RowEvents:
    """Reads events as `TextEvents` does; their rows are in the time-points of a scanner.

    rows: reads the log, with `atoms` as its marks; without marks, events have no letters. Its
        time-points must have been read before each call of `read`.
    drops_points: nobody else reads the time-points.
    most_events: how many events are read at once.
    """

    def __cinit__(self, RowScanner rows not None, *, bint drops_points=False):
        self.rows = rows
        self.drops_points = drops_points
        self.most_events = MOST_EVENTS
        self.atoms = () if rows.marks is None else rows.marks.atoms
        self.words = 0 if rows.marks is None else rows.marks.letter_words
        self.seen = <uint64_t *> calloc(self.words + 1, sizeof(uint64_t))
        if self.seen == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.seen)

    @property
    def scanner(self):
        """What knows what was read: this object."""
        return self

    @property
    def last_time_stamp(self):
        """The time-stamp of the last line read, or None before the first line."""
        return self.rows.lines.last_time_stamp

    @property
    def skipped_count(self):
        """The number of lines that cannot be read."""
        return self.rows.lines.skipped_count

    @property
    def absent(self):
        """The atoms that have not occurred so far."""
        cdef size_t k
        absent = [
            name
            for k, name in enumerate(self.atoms)
            if not self.seen[k // 64] >> (k % 64) & 1
        ]
        absent += [name for name in self.rows.table.absent if not name.startswith("\n")]
        return tuple(dict.fromkeys(absent))

    @property
    def held_bytes(self):
        """The bytes of memory that reading takes, not including the block."""
        return self.rows.lines.held_bytes() + self.rows.letter_room * sizeof(uint64_t)

    def pass_time(self, uint64_t time_stamp):
        """Declare that no later line is below a time."""
        self.rows.lines.pass_time(time_stamp)

    def number_lines(self):
        """From now on, tell the lines of events."""
        self.rows.number_lines()

    @property
    def lines(self):
        """After `number_lines`: bytes of the lines of the events that `read` has returned last."""
        return self.rows.last_lines

    def load(self, block):
        """Load a block of bytes for `read`; the block must not change until it has been read."""
        self.rows.load(block)

    def load_end(self):
        """End the log: `read` then returns a last line that has no line feed."""
        self.rows.load_end()

    def read(self):
        """Return the next events of the block, as `TextEvents.read` does.

        Raises:
            LogError: the next line cannot be read.
        """
        cdef PointBlock points = self.rows.points
        cdef size_t words = self.words
        cdef size_t count = 0
        cdef size_t k, word
        cdef int64_t *times
        cdef bint has_more = True
        while has_more and count == 0:
            has_more = self.rows.read(self.most_events)
            count = points.point_count - points.next
        time_stamps = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
        times = <int64_t *> PyBytes_AS_STRING(time_stamps)
        with nogil:
            for k in range(count):
                times[k] = points.points[points.next + k].time_stamp
                for word in range(words):
                    self.seen[word] |= self.rows.letters[k * words + word]
        letters = PyBytes_FromStringAndSize(
            <const char *> self.rows.letters, count * words * sizeof(uint64_t)
        )
        if self.drops_points:
            points.next = points.point_count
        return time_stamps, letters

    def snapshot(self):
        """Return what is known of the log up to the scanner's position, for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        cdef size_t word
        writer.put_bytes(self.rows.snapshot())
        for word in range(self.words):
            writer.put(self.seen[word])
        return writer.taken()

    def restore(self, snapshot):
        """Continue from a snapshot; the next block to load is the log from that position on.

        Raises:
            SnapshotError: the bytes are not the snapshot of such a reader.
        """
        cdef NumberReader reader = NumberReader()
        cdef size_t word
        reader.open(as_bytes(snapshot), 0)
        self.rows.restore(reader.get_bytes())
        for word in range(self.words):
            self.seen[word] = reader.get(UINT64_MAX)
        reader.end()
