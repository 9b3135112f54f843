# cython: language_level=3
"""Splits blocks of time-points: which rows each slice gets is found first, then they are copied.

# PERF: processor time of a row on a shared Xeon, for 2 variables of which an atom has both or one:
# 20 ns with one copy, 44 ns with 1.5 copies of 4 slices, 60-100 ns with 2.5 copies of 16 slices.
# The last is half due to time-points without rows: each costs 2-3 ns a slice.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef extern from *:
    int lowest_bit "__builtin_ctzll"(uint64_t word) noexcept nogil


@final
cdef class Splitter:
    """Copies the rows of time-points to the slices that get them.

    router: says which these are.
    """

    def __cinit__(self, Router router not None):
        self.router = router
        self.rows = <RowNumbers *> calloc(router.slices, sizeof(RowNumbers))
        if self.rows == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        cdef size_t k
        if self.rows != NULL:
            for k in range(self.router.slices):
                free(self.rows[k].of)
            free(self.rows)

    @property
    def row_counts(self):
        """How many rows each slice got of the block that was split last."""
        return [self.rows[k].count for k in range(self.router.slices)]

    def split(self, PointBlock points not None, list blocks not None):
        """Move the time-points of a block, none of which has been read, to the blocks of slices.

        Each slice gets all time-points, with the rows that may concern it.
        """
        cdef PointBlock block
        cdef size_t k
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
        with nogil:
            self.find_rows(points)
        for k in range(self.router.slices):
            block = blocks[k]
            with nogil:
                copy_points(points, block, &self.rows[k])
        points.clear()

    cdef int find_rows(self, PointBlock points) except -1 nogil:
        cdef uint64_t targets[TARGET_WORDS]
        cdef size_t words = (self.router.slices + 63) // 64
        cdef size_t row, word
        cdef uint64_t left
        cdef RowNumbers *slice
        if points.row_count > UINT32_MAX:
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


cdef int copy_points(PointBlock points, PointBlock block, const RowNumbers *rows) except -1 nogil:
    """Copy time-points with some of their rows, which are in order."""
    cdef size_t point, row
    cdef size_t next = 0
    cdef const PointRow *source
    for point in range(points.point_count):
        block.begin(points.points[point].time_stamp)
        while next < rows.count and rows.of[next] < points.points[point].row_end:
            source = &points.rows[rows.of[next]]
            copy_cells(
                block.row(source.atom), points.values + source.start, points.widths[source.atom]
            )
            next += 1
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
