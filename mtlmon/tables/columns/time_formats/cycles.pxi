# cython: language_level=3
"""Find the years and days of times that are written without them, by the order of rows.

A step back by more than half of a cycle, a year or a day, is a step to the next one. Once there, a
step on by nearly a whole cycle is a row of the cycle before that comes late. All other steps are
within a cycle.
"""

from libc.stdint cimport int64_t, uint64_t


cdef enum:
    HALF_A_YEAR = 183 * DAY
    # a step on by more than a cycle without this part is one back
    LATE_PART = 24


cdef struct Cycles:
    # the last row: its seconds, and which cycle it is of, or its year
    bint has_before
    int64_t before
    int64_t number
    # how many times a row was of the next cycle
    uint64_t steps


cdef ParseStatus in_cycle(
    Cycles *cycles, TimeFormat format, const Parts *parts, Instant *instant
) noexcept nogil:
    """Return the instant of a row that is written without its year or its day."""
    cdef ParseStatus status
    cdef int64_t cycle = format.cycle
    cdef int64_t seconds
    cdef bint has_years = cycle == 0 and format.first_year != 0
    if has_years:
        return in_year(cycles, format, parts, instant)
    status = assemble(parts, ASSUMED_YEAR if cycle == 0 else 1970, instant)
    if status != PARSED:
        return status
    if cycle == 0:
        cycle = ASSUMED_YEAR_DAYS * DAY
    seconds = seconds_of(instant) + cycles.number * cycle
    seconds = seconds + cycle * step_of(
        cycles, seconds, cycle, HALF_A_YEAR if format.cycle == 0 else cycle // 2
    )
    note_row(cycles, seconds)
    set_seconds(instant, seconds)
    return PARSED


cdef ParseStatus in_year(
    Cycles *cycles, TimeFormat format, const Parts *parts, Instant *instant
) noexcept nogil:
    """Do this for a log whose first year is known, so that years have their own days."""
    cdef ParseStatus status
    cdef int64_t year = format.first_year + cycles.number
    cdef int64_t seconds, step
    status = assemble(parts, year, instant)
    if status == LEAP_DAY:
        # it may be one of the next year
        seconds = DAY * days_before(year, 3, 1)
    elif status != PARSED:
        return status
    else:
        seconds = seconds_of(instant)
    step = step_of(cycles, seconds, ASSUMED_YEAR_DAYS * DAY, HALF_A_YEAR)
    if step:
        status = assemble(parts, year + step, instant)
    if status != PARSED:
        cycles.number -= step
        cycles.steps -= step > 0
        return status
    note_row(cycles, seconds_of(instant))
    return PARSED


cdef int64_t step_of(
    Cycles *cycles, int64_t seconds, int64_t cycle, int64_t half
) noexcept nogil:
    """Return how many cycles later a row is than in that of the row before: -1, 0 or 1."""
    if not cycles.has_before:
        return 0
    if cycles.before - seconds > half:
        cycles.number += 1
        cycles.steps += 1
        return 1
    if cycles.number > 0 and seconds - cycles.before > cycle - cycle // LATE_PART:
        cycles.number -= 1
        return -1
    return 0


cdef void note_row(Cycles *cycles, int64_t seconds) noexcept nogil:
    cycles.has_before = True
    cycles.before = seconds


cdef int64_t seconds_of(const Instant *instant) noexcept nogil:
    return -<int64_t> instant.whole if instant.is_negative else <int64_t> instant.whole


cdef void set_seconds(Instant *instant, int64_t seconds) noexcept nogil:
    instant.is_negative = seconds < 0
    instant.whole = <uint64_t> -seconds if seconds < 0 else <uint64_t> seconds
