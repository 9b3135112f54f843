# cython: language_level=3
"""The reader of logs of relations: blocks of bytes in, time-points with rows out.

Each line is a time-point, `@TS publish(alice, f1) approve(bob, f1);`. Lines, time-stamps and their
errors are those of other text logs: a `Scanner` reads them.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT64_MAX, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memset

from cpython.bytes cimport PyBytes_FromStringAndSize

from mtlmon.arrays.native cimport Block, KeyTable
from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes, reserve
from mtlmon.relational.native cimport PointBlock
from mtlmon.text.native cimport (
    BLANK,
    LONGEST_DIGITS,
    NO_ERROR,
    NO_TIME_STAMP,
    SCAN_EMPTY,
    SCAN_ERROR,
    SCAN_FULL,
    STRAY_BYTE,
    AtomTable,
    LastTimeStamp,
    ScanStatus,
    Scanner,
    read_alike,
    remember_time_stamp,
    skip_byte_order_mark,
)

from mtlmon.errors import LogError, SnapshotError

# PERF: a block of 1024 time-points with their rows stays in the cache until it is monitored.
DEFAULT_POINTS = 1 << 10


@final
cdef class RowScanner:
    """Reads a log of relations, block by block.

    relations: pairs of a name and the names of the kinds of its arguments, in the order of the
        atoms of `points`. A name may be there again with other kinds. Rows of other names are
        passed over.
    points: gets the time-points.
    texts: numbers the texts.
    path: the log's name in error messages.
    skip_errors: pass over lines that cannot be read and count them in `lines.skipped_count`.
    marks: names of atoms without arguments, which time-points have letters of; None for no letters.
    """

    def __cinit__(
        self, relations, PointBlock points not None, KeyTable texts not None, *,
        str path="<log>", bint skip_errors=False, marks=None
    ):
        cdef size_t k
        self.marks = None if marks is None else AtomTable(marks)
        self.lines = Scanner((), path=path, skip_errors=skip_errors)
        self.lines.is_of_rows = True
        self.table = RelationTable(relations)
        self.points = points
        self.texts = texts
        self.reader = RowReader(self.table, points, texts, self.lines.items, self.marks)
        self.status = SCAN_EMPTY
        if self.table.count != points.atom_count:
            raise ValueError("expected a relation for each atom of the time-points")
        for k in range(self.table.count):
            if self.table.entries[k].width != points.widths[k]:
                raise ValueError(f"relation {k} has another number of arguments")

    def __dealloc__(self):
        free(self.letters)
        free(self.line_numbers)

    def number_lines(self):
        """From now on, tell the lines of time-points."""
        self.numbers_lines = True

    @property
    def last_lines(self):
        """After `number_lines`: bytes of the lines of the time-points that `read` has added last.

        They are numbers of 64 bits, from 1.
        """
        if self.line_count == 0:
            return b""
        return PyBytes_FromStringAndSize(
            <const char *> self.line_numbers, self.line_count * sizeof(uint64_t)
        )

    def load(self, block):
        """Load a block of bytes for `read`; the block must not change until it has been read."""
        self.block = Block(block)
        self.lines.load(self.block.data, self.block.size)
        self.loaded += self.block.size
        self.status = SCAN_FULL

    def load_end(self):
        """End the log: `read` then reads a last line that has no line feed."""
        self.block = None
        self.lines.load_end()
        self.has_end = True
        self.status = SCAN_FULL

    def unload(self):
        """Release the block; nothing more can be read."""
        self.status = SCAN_EMPTY
        self.block = None

    def read(self, size_t most=DEFAULT_POINTS):
        """Add the next time-points of the block, up to `most`; return whether there may be more.

        Time-points that have been read are dropped first, if no others are left.

        Raises:
            LogError: the next line cannot be read. It is raised once no time-points are left that
                come before the line.
            LimitError: there are too many different texts.
        """
        if self.points.next == self.points.point_count:
            self.points.clear()
        self.line_count = 0
        if self.status == SCAN_FULL:
            with nogil:
                self.status = <ScanStatus> self.scan(most)
            if self.status == SCAN_ERROR:
                self.note_failure()
        if self.status == SCAN_ERROR and self.points.next == self.points.point_count:
            raise self.lines.failure
        return self.status != SCAN_EMPTY

    @property
    def position(self):
        """How many bytes of the log have been read, up to the end of a line."""
        return self.loaded - self.lines.unread()

    @property
    def is_settled(self):
        """Whether there can be a snapshot: no time-points or error wait, and it is not the end."""
        return (
            self.points.next == self.points.point_count
            and self.status != SCAN_ERROR
            and not self.has_end
        )

    def snapshot(self):
        """Return what is known after the first `position` bytes of the log, for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        cdef size_t k
        if not self.is_settled:
            raise ValueError("time-points wait to be read")
        writer.put(self.loaded - self.lines.unread())
        writer.put(self.point_count)
        writer.put(self.lines.line_count)
        writer.put(self.lines.skipped_count)
        writer.put(self.lines.in_long_line)
        writer.put(self.lines.last.value + 1 if self.lines.last.is_known else 0)
        for k in range(self.table.count):
            writer.put(self.table.entries[k].is_seen)
        return writer.taken()

    def restore(self, snapshot):
        """Continue from a snapshot; the next block to load is the log from `position` on.

        Raises:
            SnapshotError: the bytes are not the snapshot of a scanner of as many relations.
        """
        cdef NumberReader reader = NumberReader()
        cdef size_t k
        cdef uint64_t after
        if self.loaded or self.has_end:
            raise ValueError("a scanner is restored before anything is loaded")
        reader.open(as_bytes(snapshot), 0)
        self.loaded = reader.get(INT64_MAX)
        self.point_count = reader.get(INT64_MAX)
        self.lines.line_count = reader.get(UINT64_MAX)
        self.lines.skipped_count = reader.get(UINT64_MAX)
        self.lines.in_long_line = <bint> reader.get(1)
        if (self.lines.skipped_count or self.lines.in_long_line) and not self.lines.skip_errors:
            raise SnapshotError("lines that cannot be read were skipped before the snapshot")
        after = reader.get(<uint64_t> INT64_MAX + 1)
        if after > 0:
            # without digits, so that the next time-stamp is not compared with it
            remember_time_stamp(&self.lines.last, after - 1, 0)
        for k in range(self.table.count):
            self.table.entries[k].is_seen = <bint> reader.get(1)
        reader.end()

    cdef int scan(self, size_t most) except -1 nogil:
        """Add up to `most` time-points; return a ScanStatus."""
        cdef const uint8_t *place = self.lines.cursor
        cdef const uint8_t *line
        cdef size_t n = 0
        if self.marks is not None:
            reserve(
                <void **> &self.letters, &self.letter_room, most * self.marks.letter_words,
                sizeof(uint64_t)
            )
        if self.numbers_lines:
            reserve(<void **> &self.line_numbers, &self.line_room, most, sizeof(uint64_t))
        if self.lines.error != NO_ERROR:
            return SCAN_ERROR
        while n < most:
            if place == self.lines.stop:
                self.lines.cursor = self.lines.stop = NULL
                if not self.lines.next_lines():
                    return SCAN_EMPTY if self.lines.error == NO_ERROR else SCAN_ERROR
                place = self.lines.cursor
            line = place
            if place[0] != c'@':
                if self.lines.line_count == 0:
                    line = place = skip_byte_order_mark(place)
                place = self.lines.skip_to_stamp(place)
            self.lines.line_count += 1
            if place[0] == c'\n':
                place += 1
                continue
            if self.marks is not None:
                self.reader.letter = self.letters + n * self.marks.letter_words
                memset(self.reader.letter, 0, self.marks.letter_words * sizeof(uint64_t))
            place = self.scan_point(place)
            if place != NULL:
                if self.numbers_lines:
                    self.line_numbers[n] = self.lines.line_count
                    self.line_count = n + 1
                self.point_count += 1
                n += 1
                continue
            if not self.lines.skip_errors:
                self.lines.error_line = line
                return SCAN_ERROR
            self.lines.error = NO_ERROR
            self.reader.fault = NO_FAULT
            self.lines.skipped_count += 1
            place = <const uint8_t *> memchr(line, c'\n', <size_t> (self.lines.stop - line)) + 1
        self.lines.cursor = place
        return SCAN_FULL

    cdef const uint8_t *scan_point(self, const uint8_t *place) except? NULL nogil:
        """Read a line from its '@' on; return the start of the next line, or NULL on an error."""
        cdef LastTimeStamp present
        cdef const uint8_t *digits = place + 1
        cdef const uint8_t *tail
        cdef uint64_t time_stamp
        # PERF: most time-stamps have as many digits as the one before them
        if (
            self.lines.last.digit_count != 0
            and self.lines.stop - place > LONGEST_DIGITS + 1
            and place[0] == c'@'
        ):
            present = self.lines.last
            if read_alike(&present, digits):
                tail = digits + present.digit_count
                if self.lines.items.classes[tail[0]] == BLANK:
                    self.points.begin(<int64_t> present.value)
                    place = self.reader.read_rows(tail)
                    if place == NULL:
                        self.points.drop_point()
                        return NULL
                    self.lines.last = present
                    return place
        if place[0] != c'@':
            return self.lines.fail(NO_TIME_STAMP, place)
        tail = self.lines.scan_time_stamp(digits, &time_stamp)
        if tail == NULL:
            return NULL
        self.points.begin(<int64_t> time_stamp)
        place = self.reader.read_rows(tail)
        if place == NULL:
            self.points.drop_point()
            return NULL
        remember_time_stamp(&self.lines.last, time_stamp, <size_t> (tail - digits))
        return place

    cdef int note_failure(self) except -1:
        """Store an error that describes the bad line, before the block is released."""
        cdef Scanner lines = self.lines
        cdef RowReader reader = self.reader
        if lines.error != NO_ERROR or reader.fault == NO_FAULT or lines.failure is not None:
            return lines.note_failure()
        lines.error_place = reader.fault_place
        if reader.fault == IN_QUOTES:
            lines.error = reader.items.error
            return lines.note_failure()
        # nothing is read after this
        lines.error = STRAY_BYTE
        line = PyBytes_FromStringAndSize(
            <const char *> lines.error_line,
            <const uint8_t *> memchr(
                lines.error_line, c'\n', <size_t> (lines.stop - lines.error_line)
            ) - lines.error_line
        )
        name = kinds = None
        if reader.fault in (BAD_VALUE, BAD_TEXT, WRONG_COUNT):
            name, kinds = self.table.relations[reader.fault_relation.number]
        from mtlmon.relational.input.row_errors import describe_row
        message, column = describe_row(
            _FAULTS[<int> reader.fault],
            line,
            <size_t> (lines.error_place - lines.error_line),
            name,
            kinds,
            reader.fault_argument,
            reader.fault_count,
        )
        lines.failure = LogError(
            message, path=lines.path, line=lines.line_in_log(), column=column
        )
        return 0


_FAULTS = {
    <int> NOT_A_NAME: "name",
    <int> NO_VALUE: "missing",
    <int> NO_COMMA: "comma",
    <int> ROW_NOT_CLOSED: "open",
    <int> BAD_VALUE: "value",
    <int> BAD_TEXT: "text",
    <int> WRONG_COUNT: "count",
    <int> BEHIND_END: "end",
}
