# cython: language_level=3
"""The steps of plans, which make rows of rows. These are methods of the engine.

Rows with equal cells do not occur twice, before a step and behind it.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stddef cimport size_t
from mtlmon.policy.predicates.operations cimport IS_EQUAL, IS_GREATER, IS_LESS

from math import fsum as _fsum, isfinite as _isfinite
from fractions import Fraction as _Fraction
from statistics import median as _median

cdef enum:
    # from how many pairs of rows on, those of a time-point are found by hashing
    HASHED_PAIRS = 64


cdef inline bint matches_fixed(const Step *step, const int64_t *row) noexcept nogil:
    """Whether a row of a source has the constants and the equal columns that a step asks for."""
    cdef size_t k
    for k in range(step.fixed.count):
        if row[step.fixed.of[k]] != step.constants[k]:
            return False
    for k in range(0, step.equal.count, 2):
        if row[step.equal.of[k]] != row[step.equal.of[k + 1]]:
            return False
    return True


cdef inline bint matches_keys(
    const Step *step, const int64_t *row, const int64_t *other
) noexcept nogil:
    cdef size_t k
    for k in range(step.keys.count):
        if row[step.keys.of[k]] != other[step.matched.of[k]]:
            return False
    return True


cdef inline int put_joined(
    Rows *target, const int64_t *row, size_t width, const int64_t *other, const Numbers *takes
) except -1 nogil:
    """Add a row with some columns of another behind it."""
    cdef int64_t *place = new_row(target)
    cdef size_t k
    copy_cells(place, row, width)
    for k in range(takes.count):
        place[width + k] = other[takes.of[k]]
    return 0


cdef inline uint32_t comparison_of(int order) noexcept nogil:
    return IS_LESS if order < 0 else IS_GREATER if order > 0 else IS_EQUAL


cdef double folded(AggregateKind kind, list bag) except? -1:
    """A sum, mean or median of numbers. Sums and means of floats do not depend on their order."""
    cdef bint is_finite = all(map(_isfinite, bag))
    if kind == MEDIAN_OF:
        return float(_median(map(_Fraction, bag)) if is_finite else _median(bag))
    if kind == SUM_OF:
        return _total(bag)
    if bag and isinstance(bag[0], int):
        return sum(bag) / len(bag)
    return _total(bag) / len(bag)


cdef double _total(list bag) except? -1:
    """The exact sum, rounded; with infinities what IEEE says."""
    try:
        return _fsum(bag)
    except ValueError:
        return float("nan")
    except OverflowError:
        return float("inf") if sum(map(_Fraction, bag)) > 0 else float("-inf")
