# cython: language_level=3
"""Time-points that are kept, to be given to an engine once more: chosen from blocks, and as bytes.

They stand between others where events come late, and then an engine takes them in again.
"""

from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT32_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mtlmon.arrays.native cimport Memory
from mtlmon.engine.native cimport NumberReader, NumberWriter, as_bytes, damaged


def choose_points(
    PointBlock target not None, PointBlock source not None, places, bint by_stamp=False
):
    """Add some time-points of a block to another one, where they have not been read.

    target: the block that gets them, which is another one.
    source: the block that has them, with the same atoms.
    places: a contiguous array of uint32: which of its time-points, in order.
    by_stamp: whether the rows of a time-stamp become one time-point.
    """
    cdef Memory memory = Memory(places, sizeof(uint32_t), 0)
    cdef const uint32_t *chosen = <const uint32_t *> memory.buffer.buf
    cdef size_t count = <size_t> memory.buffer.shape[0]
    cdef size_t k
    if count > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
        raise ValueError("an array has gaps between its items")
    if target is source or target.atom_count != source.atom_count:
        raise ValueError("expected another block with the same atoms")
    for k in range(target.atom_count):
        if target.widths[k] != source.widths[k]:
            raise ValueError(f"atom {k} has another number of arguments")
    for k in range(count):
        if chosen[k] >= source.point_count - source.next:
            raise ValueError("there is no such time-point")
    with nogil:
        for k in range(count):
            add_point_of(target, source, source.next + chosen[k], by_stamp)


def join_points(
    PointBlock target not None, PointBlock source not None, PointBlock more not None, places
):
    """Add the time-points of a block to another one, with rows of time-points of a third one.

    target: the block that gets them.
    source: the block that has the time-points.
    more: the block that has more rows of some of them.
    places: a contiguous array of uint32: for each time-point of the source, the one of `more` whose
        rows it gets, or the number of these if it gets none.
    """
    cdef Memory memory = Memory(places, sizeof(uint32_t), source.point_count - source.next)
    cdef const uint32_t *chosen = <const uint32_t *> memory.buffer.buf
    cdef size_t k, place, other
    if target is source or target is more or not (
        target.atom_count == source.atom_count == more.atom_count
    ):
        raise ValueError("expected other blocks with the same atoms")
    for k in range(target.atom_count):
        if not target.widths[k] == source.widths[k] == more.widths[k]:
            raise ValueError(f"atom {k} has another number of arguments")
    for k in range(source.point_count - source.next):
        place = source.next + k
        other = more.next + chosen[k]
        add_point_of(target, source, place, False)
        if other < more.point_count:
            if more.points[other].time_stamp != source.points[place].time_stamp:
                raise ValueError("a time-point of another time")
            add_point_of(target, more, other, True)


cdef int add_point_of(
    PointBlock target, PointBlock source, size_t place, bint by_stamp
) except -1 nogil:
    """Add the time-point at a place of another block."""
    cdef const Point *point = &source.points[place]
    cdef size_t row = source.points[place - 1].row_end if place else 0
    cdef uint32_t atom
    cdef int64_t *values
    if not by_stamp or target.point_count == target.next or (
        target.points[target.point_count - 1].time_stamp != point.time_stamp
    ):
        target.begin(point.time_stamp)
    while row < point.row_end:
        atom = source.rows[row].atom
        values = target.row(atom)
        memcpy(
            values, source.values + source.rows[row].start,
            source.widths[atom] * sizeof(int64_t)
        )
        row += 1
    return 0


def points_as_bytes(PointBlock block not None):
    """Return the time-points that have not been read as bytes, for `points_of_bytes`."""
    cdef NumberWriter writer = NumberWriter()
    cdef size_t k, row
    writer.put(block.point_count - block.next)
    row = block.points[block.next - 1].row_end if block.next else 0
    for k in range(block.next, block.point_count):
        writer.put(<uint64_t> block.points[k].time_stamp)
        writer.put(block.points[k].row_end - row)
        while row < block.points[k].row_end:
            writer.put(block.rows[row].atom)
            put_cells(
                writer, block.values + block.rows[row].start,
                block.widths[block.rows[row].atom]
            )
            row += 1
    return writer.taken()


def points_of_bytes(PointBlock block not None, data):
    """Add the time-points that `points_as_bytes` has written.

    Raises:
        SnapshotError: the bytes are no such time-points.
    """
    cdef NumberReader reader = NumberReader()
    cdef uint32_t atom
    cdef size_t k
    cdef int64_t *values
    reader.open(as_bytes(data), 0)
    for _ in range(<size_t> reader.get_count(2)):
        block.begin(<int64_t> reader.get(INT64_MAX))
        for _ in range(<size_t> reader.get_count(1)):
            atom = <uint32_t> reader.get(UINT32_MAX)
            if atom >= block.atom_count:
                raise damaged()
            values = block.row(atom)
            for k in range(block.widths[atom]):
                # the cells are those of a row, whatever fails
                values[k] = 0
            for k in range(block.widths[atom]):
                values[k] = get_cell(reader)
    reader.end()


cdef void visit_points(
    PointBlock block, const Numbers *atom_texts, const TextUse *use
) noexcept nogil:
    """Visit the cells of time-points that are texts; those of each atom are given."""
    cdef size_t k, row = 0
    cdef const PointRow *one
    if block.next < block.point_count and block.next:
        row = block.points[block.next - 1].row_end
    while row < block.row_count:
        one = &block.rows[row]
        for k in range(atom_texts[one.atom].count):
            visit_cell(block.values + one.start + atom_texts[one.atom].of[k], use)
        row += 1
