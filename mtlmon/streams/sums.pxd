# cython: language_level=3
"""Declarations for exact sums, averages, variances and standard deviations."""


cdef enum:
    # What `get` returns: no result, a result, or one that does not fit.
    NOTHING
    FOUND
    OVERFLOWS


cdef enum SumKind:
    SUM
    AVERAGE
    VARIANCE
    DEVIATION


# Defined in sums.pxi.
cdef SumKind sum_kind(str kind) except <SumKind> -1
cdef int result_of_sums(
    SumKind kind, bint is_float, int64_t count, const Specials *specials, const Numbers *sums,
    const Numbers *squares, uint32_t trace, int64_t *value
) noexcept nogil
