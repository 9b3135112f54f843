# cython: language_level=3
"""Splits blocks of time-points: which rows each slice gets is found first, then they are copied.

# PERF: processor time of a row on a shared Xeon, for 2 variables of which an atom has both or one:
# 20 ns with one copy, 45 ns with 1.5 copies of 4 slices, 60 ns with 2.5 copies of 16 slices; a
# time-point costs 35 ns more, most of it in the timeline. When all slices got all time-points,
# 16 slices cost 1780 ns an event in sum (star; linear 2230, triangle 1830) with an event at each
# time-point, against 266 (879, 413) now, and splitting 156 to 190 ns against 79 to 126; with ten
# events at each, 292 (828, 409) against 232 (783, 360). What is left is the copies of rows: linear
# has 2.5 of each, and 16 slices in turn find their rows in no cache.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef extern from *:
    int lowest_bit "__builtin_ctzll"(uint64_t word) noexcept nogil


@final
cdef class Splitter:
    """Finds out which slices need which time-points, and which rows may concern them.

    router: says which these are.
    timeline: hears of all time-points.
    whole: for each slice whether it gets all time-points, also those without rows for it.
    """

    def __cinit__(self, Router router not None, Timeline timeline not None, whole):
        self.router = router
        self.timeline = timeline
        self.uncommitted = []
        self.is_whole = <uint8_t *> calloc(router.slices, 1)
        if self.is_whole == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.set_whole(whole)

    def __dealloc__(self):
        free(self.is_whole)

    def set_whole(self, whole):
        """Say for each slice whether it gets all time-points."""
        cdef size_t k
        if <size_t> len(whole) != self.router.slices:
            raise ValueError("expected a flag for each slice")
        for k in range(self.router.slices):
            self.is_whole[k] = bool(whole[k])

    def split(self, PointBlock points not None, SplitBlock target not None):
        """Move the time-points of a block, none of which has been read, to a block that is split.

        The timeline does not change before `commit`, so that slices may still work on the
        time-points before these. Several blocks may be split until then.
        """
        if target.splitter is not self:
            raise ValueError("a block of another splitter")
        if points.next:
            raise ValueError("time-points have been read")
        if target in self.uncommitted:
            raise ValueError("the timeline has not been told of the time-points of a block")
        if points.atom_count != self.router.atom_count:
            raise ValueError("time-points of other atoms")
        with nogil:
            target.find_rows(self.router, points)
        target.points.clear()
        exchange(points, target.points)
        self.uncommitted.append(target)

    def commit(self, SplitBlock block not None):
        """Tell the timeline of the time-points of the next block, so that slices can copy them.

        No slice may be at work.
        """
        cdef size_t k
        cdef PointBlock points = block.points
        if not self.uncommitted or block is not self.uncommitted[0]:
            raise ValueError("the time-points of another block come next")
        self.uncommitted.pop(0)
        block.number = self.timeline.point_count
        with nogil:
            self.timeline.begin()
            for k in range(points.point_count):
                self.timeline.add(points.points[k].time_stamp)


@final
cdef class SplitBlock:
    """Time-points, and which of their rows each slice gets.

    splitter: fills it.
    widths: the number of cells of each atom.
    """

    def __cinit__(self, Splitter splitter not None, widths):
        self.splitter = splitter
        self.points = PointBlock(widths)
        if self.points.atom_count != splitter.router.atom_count:
            raise ValueError("time-points of other atoms")
        self.slices = splitter.router.slices
        self.rows = <RowNumbers *> calloc(self.slices, sizeof(RowNumbers))
        if self.rows == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        cdef size_t k
        if self.rows != NULL:
            for k in range(self.slices):
                free(self.rows[k].of)
            free(self.rows)
        free(self.point_of)

    @property
    def row_counts(self):
        """How many rows each slice gets."""
        return [self.rows[k].count for k in range(self.slices)]

    def copy_to(self, PointBlock block not None, size_t slice):
        """Copy what a slice gets to a block whose time-points have all been read.

        Several threads may do so at once, for different slices.
        """
        if slice >= self.slices:
            raise ValueError("no such slice")
        if block.atom_count != self.points.atom_count or block.point_count != block.next:
            raise ValueError("a block is not empty, or has other atoms")
        block.clear()
        with nogil:
            if self.splitter.is_whole[slice]:
                self.copy_all(block, &self.rows[slice])
            else:
                self.copy_some(block, &self.rows[slice])

    cdef int find_rows(self, Router router, PointBlock points) except -1 nogil:
        """Find out which rows each slice gets, and which time-point each row belongs to."""
        cdef uint64_t targets[TARGET_WORDS]
        cdef size_t words = (self.slices + 63) // 64
        cdef size_t row, word
        cdef size_t point = 0
        cdef uint64_t left
        cdef RowNumbers *slice
        if points.row_count > UINT32_MAX or points.point_count > UINT32_MAX:
            with gil:
                raise MemoryError("mtlmon: too many rows at once")
        for row in range(self.slices):
            self.rows[row].count = 0
        make_room(
            <void **> &self.point_of, &self.point_room, points.row_count, sizeof(uint32_t)
        )
        memset(targets, 0, words * sizeof(uint64_t))
        for row in range(points.row_count):
            while points.points[point].row_end <= row:
                point += 1
            self.point_of[row] = <uint32_t> point
            router.route(
                points.rows[row].atom, points.values + points.rows[row].start, targets
            )
            for word in range(words):
                left = targets[word]
                targets[word] = 0
                while left:
                    slice = &self.rows[64 * word + <size_t> lowest_bit(left)]
                    left &= left - 1
                    if slice.count == slice.room:
                        make_room(
                            <void **> &slice.of, &slice.room, slice.count + 1, sizeof(uint32_t)
                        )
                    slice.of[slice.count] = <uint32_t> row
                    slice.count += 1
        return 0

    cdef int copy_all(self, PointBlock block, const RowNumbers *rows) except -1 nogil:
        """Copy all time-points, with the rows that a slice gets, which are in order."""
        cdef size_t point
        cdef size_t next = 0
        for point in range(self.points.point_count):
            self.begin_point(block, point)
            while next < rows.count and rows.of[next] < self.points.points[point].row_end:
                self.copy_row(block, rows.of[next])
                next += 1
        return 0

    cdef int copy_some(self, PointBlock block, const RowNumbers *rows) except -1 nogil:
        """Copy the time-points that have rows for a slice."""
        cdef size_t k
        cdef size_t point = 0
        for k in range(rows.count):
            if k == 0 or self.point_of[rows.of[k]] != point:
                point = self.point_of[rows.of[k]]
                self.begin_point(block, point)
            self.copy_row(block, rows.of[k])
        return 0

    cdef inline int begin_point(self, PointBlock block, size_t point) except -1 nogil:
        block.begin(self.points.points[point].time_stamp)
        block.points[block.point_count - 1].number = self.number + point
        return 0

    cdef inline int copy_row(self, PointBlock block, uint32_t row) except -1 nogil:
        cdef const PointRow *source = &self.points.rows[row]
        copy_cells(
            block.row(source.atom), self.points.values + source.start,
            self.points.widths[source.atom]
        )
        return 0


cdef void exchange(PointBlock one, PointBlock other) noexcept:
    """Exchange the time-points of two blocks of the same atoms."""
    one.points, other.points = other.points, one.points
    one.rows, other.rows = other.rows, one.rows
    one.values, other.values = other.values, one.values
    one.point_count, other.point_count = other.point_count, one.point_count
    one.row_count, other.row_count = other.row_count, one.row_count
    one.value_count, other.value_count = other.value_count, one.value_count
    one.next, other.next = other.next, one.next
    one.point_room, other.point_room = other.point_room, one.point_room
    one.row_room, other.row_room = other.row_room, one.row_room
    one.value_room, other.value_room = other.value_room, one.value_room
