# cython: language_level=3
"""Declarations for the order of lines by time."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef struct LineRun:
    uint64_t time_stamp
    # the number in the log of the first of these lines
    uint64_t line
    # where their text is, and how long it is
    size_t place, size
    uint64_t count


cdef struct LineNumbers:
    # from this line that was released on, lines have consecutive numbers in the log
    uint64_t released
    uint64_t line


cdef class LineOrder:
    # how many lines were refused, without those that belong to the line before them, and the number
    # in the log of the first one
    cdef readonly uint64_t refused_count, refused_line
    cdef uint64_t wait
    # time has passed up to here without lines
    cdef uint64_t passed
    # the largest time-stamp so far
    cdef uint64_t latest
    # the numbers of the lines that are refused only because time has passed
    cdef list refused_by_time
    # while lines are read again: those to refuse, the next one last; the line behind which time has
    # passed, and how far
    cdef list again
    cdef bint is_again
    cdef uint64_t again_line, again_time, next_again
    cdef bint has_ended, has_begun
    cdef uint64_t line_count
    # whether lines that do not begin with '@' go on with the time-point before them, whose
    # time-stamp this is, and whether that was refused
    cdef bint joins_lines
    cdef uint64_t before
    cdef bint has_refused_before
    # the last time-stamp that did not come after a larger one
    cdef LastTimeStamp last
    cdef uint8_t classes[256]

    # the text of lines that wait, among that of others; from `rest` on, it is an unfinished line,
    # which has no line feed before `searched`
    cdef uint8_t *text
    cdef size_t used, room, rest, searched
    cdef size_t live
    # lines that came in order, from `first` to `behind`, and a heap of the others
    cdef LineRun *queue
    cdef size_t first, behind, queue_room
    cdef LineRun *heap
    cdef size_t heap_count, heap_room
    # what is left of the run that is being released
    cdef LineRun present

    cdef uint64_t released_count
    cdef LineNumbers *numbers
    cdef size_t numbers_count, numbers_room

    cdef uint8_t *refused
    cdef size_t refused_size, refused_room

    cdef int add(self, const uint8_t *data, size_t size) except -1 nogil
    cdef int make_room(self, size_t size) except -1 nogil
    cdef size_t lowest_place(self) noexcept nogil
    cdef void slide_text(self, size_t unused) noexcept nogil
    cdef int move_text(self, size_t room) except -1 nogil
    cdef int read_lines(self) except -1 nogil
    cdef int read_line(self, size_t place, size_t size) except -1 nogil
    cdef int end_again(self) except -1 nogil
    cdef bint is_refused(self, uint64_t time_stamp) except -1 nogil
    cdef int take_line(
        self, uint64_t time_stamp, bint is_refused, size_t place, size_t size
    ) except -1 nogil
    cdef bint find_time(self, const uint8_t *place, uint64_t *time_stamp) noexcept nogil
    cdef int keep(self, uint64_t time_stamp, size_t place, size_t size) except -1 nogil
    cdef int add_refused(self, size_t place, size_t size) except -1 nogil
    cdef uint64_t frontier(self) noexcept nogil
    cdef LineRun *next_run(self) noexcept nogil
    cdef int release_run(self) except -1 nogil
    cdef int note_number(self, uint64_t line) except -1 nogil
    cdef uint64_t number_of(self, uint64_t released) noexcept nogil
