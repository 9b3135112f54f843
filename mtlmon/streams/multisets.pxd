# cython: language_level=3
"""Declarations for sorted multisets of floats, and their quantiles."""


cdef struct CodeBlock:
    int64_t *codes
    uint32_t count, room


cdef struct Sorted:
    # The codes of a trace in order, in blocks of limited size, none of them empty.
    CodeBlock *blocks
    uint32_t block_count, block_room
    int64_t count
    int64_t undefined           # the number of NaN, which are not in the blocks


# Defined in multisets.pxi.
cdef void free_sorted(Sorted *sorted) noexcept nogil
cdef int insert_code(Sorted *sorted, int64_t code) except -1 nogil
cdef int remove_code(Sorted *sorted, int64_t code) except -1 nogil
cdef double quantile_of(const Sorted *sorted, double share) noexcept nogil
cdef double deviation_quantile(const Sorted *sorted, double share) noexcept nogil
