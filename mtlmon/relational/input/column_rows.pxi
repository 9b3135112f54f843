# cython: language_level=3
"""Makes time-points of the rows of a table, whose cells come as arrays."""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from mtlmon.arrays.native cimport Memory
from mtlmon.relational.native cimport PointBlock


@final
cdef class ColumnRows:
    """Fills time-points from arrays.

    points: gets the time-points.
    by_stamp: whether all rows of one time-stamp are one time-point, instead of each row.

    Attributes:
        point_count: the number of time-points that were made.
    """

    def __cinit__(self, PointBlock points not None, *, bint by_stamp=False):
        self.points = points
        self.by_stamp = by_stamp
        self.atoms = <RowColumns *> calloc(points.atom_count + 1, sizeof(RowColumns))
        if self.atoms == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.atoms)

    def load(self, time_stamps, atoms):
        """Load rows for `read`, after all of those before have been read.

        time_stamps: a contiguous array of int64, one for each row of the table, in order. All rows
            of a time-stamp are loaded together if they are one time-point.
        atoms: for each atom a pair of contiguous arrays: the indices of its rows in the table
            (uint32, ascending), and their cells (int64, one after the other).
        """
        cdef Memory memory = Memory(time_stamps, sizeof(int64_t), 0)
        cdef Memory places, cells
        cdef uint32_t atom
        cdef size_t k
        if self.next_row < self.row_count:
            raise ValueError("rows are left: read them first")
        if len(atoms) != self.points.atom_count:
            raise ValueError("expected arrays for each atom")
        kept = [memory]
        self.row_count = self.next_row = 0
        require_no_gaps(memory, sizeof(int64_t))
        for atom in range(self.points.atom_count):
            places = Memory(atoms[atom][0], sizeof(uint32_t), 0)
            cells = Memory(atoms[atom][1], sizeof(int64_t), 0)
            require_no_gaps(places, sizeof(uint32_t))
            require_no_gaps(cells, sizeof(int64_t))
            if cells.buffer.shape[0] != places.buffer.shape[0] * self.points.widths[atom]:
                raise ValueError(f"expected {self.points.widths[atom]} cells for each row")
            self.atoms[atom].places = <const uint32_t *> places.buffer.buf
            self.atoms[atom].cells = <const int64_t *> cells.buffer.buf
            self.atoms[atom].count = <size_t> places.buffer.shape[0]
            self.atoms[atom].next = 0
            for k in range(self.atoms[atom].count):
                if self.atoms[atom].places[k] >= <size_t> memory.buffer.shape[0] or (
                    k > 0 and self.atoms[atom].places[k] <= self.atoms[atom].places[k - 1]
                ):
                    raise ValueError("indices of rows are not in order")
            kept += [places, cells]
        self.kept = kept
        self.time_stamps = <const int64_t *> memory.buffer.buf
        self.row_count = <size_t> memory.buffer.shape[0]

    def read(self, size_t most=DEFAULT_POINTS):
        """Add the next time-points, up to `most`; return whether there are more.

        Time-points that have been read are dropped first, if no others are left.
        """
        if self.points.next == self.points.point_count:
            self.points.clear()
        with nogil:
            self.fill(most)
        return self.next_row < self.row_count

    cdef int fill(self, size_t most) except -1 nogil:
        cdef size_t n = 0
        cdef int64_t time_stamp
        while n < most and self.next_row < self.row_count:
            time_stamp = self.time_stamps[self.next_row]
            self.points.begin(time_stamp)
            self.add_rows(self.next_row)
            self.next_row += 1
            while self.by_stamp and self.next_row < self.row_count and (
                self.time_stamps[self.next_row] == time_stamp
            ):
                self.add_rows(self.next_row)
                self.next_row += 1
            self.point_count += 1
            n += 1
        return 0

    cdef int add_rows(self, size_t row) except -1 nogil:
        """Add the rows that atoms have at a row of the table."""
        cdef uint32_t atom
        cdef size_t width
        cdef int64_t *place
        cdef RowColumns *columns
        for atom in range(self.points.atom_count):
            columns = &self.atoms[atom]
            if columns.next < columns.count and columns.places[columns.next] == row:
                width = self.points.widths[atom]
                place = self.points.row(atom)
                memcpy(place, columns.cells + columns.next * width, width * sizeof(int64_t))
                columns.next += 1
        return 0


cdef int require_no_gaps(Memory memory, Py_ssize_t item_size) except -1:
    if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != item_size:
        raise ValueError("an array has gaps between its items")
    return 0
