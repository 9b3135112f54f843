# cython: language_level=3
"""Blocks of time-points: the time-stamp of each, and the rows of its atoms.

Sources fill blocks and the engine reads them. A value is a cell of 64 bits: an integer, a float as
its bits, a Boolean as 0 or 1, a text as its number in a `KeyTable` of one column, an instant as
nanoseconds since 1970. No cell is null or NaN, and -0.0 is written as 0.0.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport SIZE_MAX
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mtlmon.arrays.native cimport Memory


cdef int make_room(void **block, size_t *room, size_t needed, size_t item_size) except -1 nogil:
    """Make room for `needed` items, at least doubling what there is.

    The block is never NULL afterwards, also if none are needed: memset and its like must not be
    given NULL.
    """
    cdef size_t wanted
    cdef void *grown
    if needed <= room[0] and room[0]:
        return 0
    wanted = max(needed, min(2 * room[0], SIZE_MAX // 2), <size_t> 8)
    if wanted > SIZE_MAX // 2 // item_size:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    grown = realloc(block[0], wanted * item_size)
    if grown == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    block[0] = grown
    room[0] = wanted
    return 0


@final
cdef class PointBlock:
    """Time-points that wait to be read.

    widths: a contiguous array of uint32 with the number of arguments of each atom.
    """

    def __cinit__(self, widths):
        cdef Memory memory = Memory(widths, sizeof(uint32_t), 0)
        if memory.buffer.shape[0] > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
            raise ValueError("widths have gaps between them")
        self.kept_widths = memory
        self.widths = <const uint32_t *> memory.buffer.buf
        self.atom_count = <uint32_t> memory.buffer.shape[0]

    def __dealloc__(self):
        free(self.points)
        free(self.rows)
        free(self.values)

    def __len__(self):
        """The number of time-points that have not been read."""
        return self.point_count - self.next

    cdef void clear(self) noexcept nogil:
        self.point_count = self.row_count = self.value_count = self.next = 0

    cdef int begin(self, int64_t time_stamp) except -1 nogil:
        """Begin a time-point, to which the rows that follow belong."""
        make_room(
            <void **> &self.points, &self.point_room, self.point_count + 1, sizeof(Point)
        )
        self.points[self.point_count].time_stamp = time_stamp
        self.points[self.point_count].number = 0
        self.points[self.point_count].row_end = self.row_count
        self.point_count += 1
        return 0

    cdef int64_t *row(self, uint32_t atom) except NULL nogil:
        """Add a row of an atom to the time-point begun last; returns where its values belong."""
        cdef uint32_t width = self.widths[atom]
        cdef int64_t *place
        make_room(<void **> &self.rows, &self.row_room, self.row_count + 1, sizeof(PointRow))
        # one more, so that the address is valid without arguments too
        make_room(
            <void **> &self.values, &self.value_room, self.value_count + width + 1,
            sizeof(int64_t)
        )
        self.rows[self.row_count].atom = atom
        self.rows[self.row_count].start = self.value_count
        place = self.values + self.value_count
        self.row_count += 1
        self.value_count += width
        self.points[self.point_count - 1].row_end = self.row_count
        return place

    cdef void drop_point(self) noexcept nogil:
        """Take the time-point back that was begun last, with its rows."""
        cdef size_t end = self.row_count
        self.point_count -= 1
        self.row_count = self.points[self.point_count - 1].row_end if self.point_count else 0
        if self.row_count < end:
            self.value_count = self.rows[self.row_count].start

    def add(self, int64_t time_stamp, rows):
        """Add a time-point.

        rows: pairs of the number of an atom and its cells.
        """
        cdef int64_t *place
        cdef size_t k
        checked = []
        for atom, cells in rows:
            if not 0 <= atom < self.atom_count or len(cells) != self.widths[atom]:
                raise ValueError(f"no row of atom {atom} has {len(cells)} values")
            # all cells are converted before anything is added
            checked.append((atom, [<int64_t> cell for cell in cells]))
        self.begin(time_stamp)
        for atom, cells in checked:
            place = self.row(atom)
            for k in range(len(cells)):
                place[k] = cells[k]

    def mark(self, uint32_t atom, bytes marks not None):
        """Add a row of an atom without arguments to some of the time-points.

        atom: the number of the atom.
        marks: a byte for each of the first time-points that have not been read; those get the row
            whose byte is not 0.
        """
        cdef size_t count = <size_t> len(marks)
        cdef const char *is_marked = PyBytes_AS_STRING(marks)
        cdef size_t k, row, place, begin
        cdef size_t added = 0
        if atom >= self.atom_count or self.widths[atom] != 0:
            raise ValueError(f"atom {atom} has arguments, or there is none")
        if count > self.point_count - self.next:
            raise ValueError("more marks than time-points")
        for k in range(count):
            added += is_marked[k] != 0
        if added == 0:
            return
        make_room(<void **> &self.rows, &self.row_room, self.row_count + added, sizeof(PointRow))
        # so that the address of no values is valid
        make_room(<void **> &self.values, &self.value_room, self.value_count + 1, sizeof(int64_t))
        row = self.row_count
        place = self.row_count + added
        self.row_count = place
        k = self.point_count
        while place > row:
            k -= 1
            begin = self.points[k - 1].row_end if k > 0 else 0
            self.points[k].row_end = place
            if k >= self.next and k - self.next < count and is_marked[k - self.next] != 0:
                place -= 1
                self.rows[place].atom = atom
                self.rows[place].start = self.value_count
            while row > begin:
                row -= 1
                place -= 1
                self.rows[place] = self.rows[row]

    def unmark(self, uint32_t atom, bytes marks not None):
        """Remove the rows of an atom from some of the time-points.

        atom: the number of the atom, which may have arguments.
        marks: a byte for each of the time-points that have not been read; those whose byte is 0
            lose the rows.
        """
        cdef const char *is_marked = PyBytes_AS_STRING(marks)
        cdef size_t k, row, end
        cdef size_t kept = self.points[self.next - 1].row_end if self.next else 0
        if atom >= self.atom_count:
            raise ValueError(f"there is no atom {atom}")
        if <size_t> len(marks) != self.point_count - self.next:
            raise ValueError("expected a mark for each time-point")
        row = kept
        for k in range(self.next, self.point_count):
            end = self.points[k].row_end
            while row < end:
                if self.rows[row].atom != atom or is_marked[k - self.next] != 0:
                    self.rows[kept] = self.rows[row]
                    kept += 1
                row += 1
            self.points[k].row_end = kept
        self.row_count = kept

    def keep(self, size_t count):
        """Forget the time-points behind the first ones that have not been read."""
        if count >= self.point_count - self.next:
            return
        self.point_count = self.next + count
        self.row_count = self.points[self.point_count - 1].row_end if self.point_count else 0

    def drop(self, size_t count):
        """Forget the first time-points that have not been read, or all if there are not as many."""
        self.next += min(count, self.point_count - self.next)
        if self.next == self.point_count:
            self.clear()

    def time_stamps(self):
        """Return the time-stamps of the time-points that have not been read, 64 bits each."""
        cdef size_t k
        cdef size_t count = self.point_count - self.next
        cdef bytes found = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
        cdef char *place = PyBytes_AS_STRING(found)
        for k in range(count):
            memcpy(
                place + k * sizeof(int64_t), &self.points[self.next + k].time_stamp,
                sizeof(int64_t)
            )
        return found

    def sample(self, size_t most):
        """Return some of the rows, evenly spread: for each its atom's number and its cells."""
        cdef size_t row, i
        cdef size_t step = max(<size_t> 1, self.row_count // max(<size_t> 1, most))
        found = []
        for row in range(0, self.row_count, step):
            if <size_t> len(found) >= most:
                break
            cells = [
                self.values[self.rows[row].start + i]
                for i in range(self.widths[self.rows[row].atom])
            ]
            found.append((self.rows[row].atom, tuple(cells)))
        return found

    def take(self):
        """Return the time-points that have not been read as pairs of a time-stamp and rows, and
        forget them. A row is the number of an atom and its cells."""
        cdef size_t k, i
        cdef size_t row = 0 if self.next == 0 else self.points[self.next - 1].row_end
        found = []
        for k in range(self.next, self.point_count):
            rows = []
            while row < self.points[k].row_end:
                cells = [
                    self.values[self.rows[row].start + i]
                    for i in range(self.widths[self.rows[row].atom])
                ]
                rows.append((self.rows[row].atom, tuple(cells)))
                row += 1
            found.append((self.points[k].time_stamp, rows))
        self.clear()
        return found
