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

from cython cimport final, no_gc_clear
from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef extern from *:
    int lowest_bit "__builtin_ctzll"(uint64_t word) noexcept nogil


# The collector of garbage would let go of `router`, which knows how many slices there are.
@no_gc_clear
@final
cdef class Splitter:
    """Copies time-points to the slices that need them, each with the rows that may concern it.

    router: says which these are.
    timeline: hears of all time-points.
    whole: for each slice whether it gets all time-points, also those without rows for it.
    """

    def __cinit__(self, Router router not None, Timeline timeline not None, whole):
        self.router = router
        self.timeline = timeline
        self.rows = <RowNumbers *> calloc(router.slices, sizeof(RowNumbers))
        self.is_whole = <uint8_t *> calloc(router.slices, 1)
        if self.rows == NULL or self.is_whole == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.set_whole(whole)

    def __dealloc__(self):
        cdef size_t k
        if self.rows != NULL:
            for k in range(self.router.slices):
                free(self.rows[k].of)
            free(self.rows)
        free(self.is_whole)
        free(self.point_of)
        free(self.time_stamps)

    def set_whole(self, whole):
        """Say for each slice whether it gets all time-points."""
        cdef size_t k
        if <size_t> len(whole) != self.router.slices:
            raise ValueError("expected a flag for each slice")
        for k in range(self.router.slices):
            self.is_whole[k] = bool(whole[k])

    @property
    def row_counts(self):
        """How many rows each slice got of the block that was split last."""
        return [self.rows[k].count for k in range(self.router.slices)]

    def split(self, PointBlock points not None, list blocks not None):
        """Move the time-points of a block, none of which has been read, to the blocks of slices.

        The timeline does not change before `tell`, so that slices may still work on the time-points
        before these.
        """
        cdef PointBlock block
        cdef size_t k
        cdef uint64_t number = self.timeline.point_count
        if <size_t> len(blocks) != self.router.slices:
            raise ValueError("expected a block for each slice")
        if points.atom_count != self.router.atom_count:
            raise ValueError("time-points of other atoms")
        for block in blocks:
            if block.atom_count != points.atom_count or block.point_count != block.next:
                raise ValueError("a block is not empty, or has other atoms")
            block.clear()
        if points.next:
            raise ValueError("time-points have been read")
        if self.time_count:
            raise ValueError("the timeline has not been told of time-points")
        with nogil:
            self.find_rows(points)
            self.note_times(points)
        for k in range(self.router.slices):
            block = blocks[k]
            with nogil:
                self.copy_points(points, block, k, number)
        points.clear()

    def tell(self):
        """Tell the timeline of the time-points that were split last; no slice may be at work."""
        cdef size_t k
        cdef size_t count = self.time_count
        self.time_count = 0
        with nogil:
            self.timeline.begin()
            for k in range(count):
                self.timeline.add(self.time_stamps[k])

    cdef int find_rows(self, PointBlock points) except -1 nogil:
        cdef uint64_t targets[TARGET_WORDS]
        cdef size_t words = (self.router.slices + 63) // 64
        cdef size_t row, word
        cdef uint64_t left
        cdef RowNumbers *slice
        if points.row_count > UINT32_MAX or points.point_count > UINT32_MAX:
            with gil:
                raise MemoryError("mtlmon: too many rows at once")
        for row in range(self.router.slices):
            self.rows[row].count = 0
        memset(targets, 0, words * sizeof(uint64_t))
        for row in range(points.row_count):
            self.router.route(
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

    cdef int note_times(self, PointBlock points) except -1 nogil:
        """Note the time-stamps of a block, and which time-point each of its rows belongs to."""
        cdef size_t point
        cdef size_t row = 0
        make_room(
            <void **> &self.time_stamps, &self.time_room, points.point_count, sizeof(int64_t)
        )
        make_room(
            <void **> &self.point_of, &self.point_room, points.row_count, sizeof(uint32_t)
        )
        for point in range(points.point_count):
            self.time_stamps[point] = points.points[point].time_stamp
            while row < points.points[point].row_end:
                self.point_of[row] = <uint32_t> point
                row += 1
        self.time_count = points.point_count
        return 0

    cdef int copy_points(
        self, PointBlock points, PointBlock block, size_t slice, uint64_t number
    ) except -1 nogil:
        """Copy the time-points that a slice gets, with its rows, which are in order.

        number: that of the first time-point.
        """
        cdef size_t point
        cdef size_t next = 0
        cdef const RowNumbers *rows = &self.rows[slice]
        cdef const PointRow *source
        if not self.is_whole[slice]:
            return self.copy_some(points, block, rows, number)
        for point in range(points.point_count):
            block.begin(points.points[point].time_stamp)
            block.points[block.point_count - 1].number = number + point
            while next < rows.count and rows.of[next] < points.points[point].row_end:
                source = &points.rows[rows.of[next]]
                copy_cells(
                    block.row(source.atom), points.values + source.start,
                    points.widths[source.atom]
                )
                next += 1
        return 0

    cdef int copy_some(
        self, PointBlock points, PointBlock block, const RowNumbers *rows, uint64_t number
    ) except -1 nogil:
        """Copy the time-points that have rows for a slice."""
        cdef size_t k
        cdef size_t point = 0
        cdef const PointRow *source
        for k in range(rows.count):
            if k == 0 or self.point_of[rows.of[k]] != point:
                point = self.point_of[rows.of[k]]
                block.begin(points.points[point].time_stamp)
                block.points[block.point_count - 1].number = number + point
            source = &points.rows[rows.of[k]]
            copy_cells(
                block.row(source.atom), points.values + source.start, points.widths[source.atom]
            )
        return 0


def exchange(PointBlock one not None, PointBlock other not None):
    """Exchange the time-points of two blocks of the same atoms."""
    if one.atom_count != other.atom_count:
        raise ValueError("blocks of different atoms")
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
