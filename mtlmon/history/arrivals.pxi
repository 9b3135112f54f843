# cython: language_level=3
"""Events in the order in which they came, and how to sort them."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy, memset

from mtlmon.engine.native cimport reserve


cdef int make_arrival_room(Arrivals *arrivals, size_t more, size_t words) except -1 nogil:
    """Make room for more events."""
    cdef size_t needed = <size_t> arrivals.count + more
    reserve(<void **> &arrivals.time_stamps, &arrivals.time_room, needed, sizeof(uint64_t))
    reserve(<void **> &arrivals.traces, &arrivals.trace_room, needed, sizeof(uint32_t))
    reserve(<void **> &arrivals.flags, &arrivals.flag_room, needed, sizeof(uint8_t))
    reserve(<void **> &arrivals.handles, &arrivals.handle_room, needed, sizeof(uint32_t))
    reserve(<void **> &arrivals.numbers, &arrivals.number_room, needed, sizeof(uint64_t))
    reserve(<void **> &arrivals.letters, &arrivals.letter_room, needed, words * sizeof(uint64_t))
    return 0


cdef void free_arrivals(Arrivals *arrivals) noexcept nogil:
    free(arrivals.time_stamps)
    free(arrivals.letters)
    free(arrivals.traces)
    free(arrivals.flags)
    free(arrivals.handles)
    free(arrivals.numbers)


cdef void move_arrival(
    Arrivals *arrivals, uint32_t source, uint32_t target, size_t words
) noexcept nogil:
    """Copy an event to an earlier place."""
    if source == target:
        return
    arrivals.time_stamps[target] = arrivals.time_stamps[source]
    arrivals.traces[target] = arrivals.traces[source]
    arrivals.flags[target] = arrivals.flags[source]
    arrivals.handles[target] = arrivals.handles[source]
    arrivals.numbers[target] = arrivals.numbers[source]
    memcpy(
        arrivals.letters + target * words, arrivals.letters + source * words,
        words * sizeof(uint64_t)
    )


cdef int compare_places(const void *left, const void *right) noexcept nogil:
    cdef const Place *a = <const Place *> left
    cdef const Place *b = <const Place *> right
    if a.trace != b.trace:
        return -1 if a.trace < b.trace else 1
    if a.time_stamp != b.time_stamp:
        return -1 if a.time_stamp < b.time_stamp else 1
    # no two are equal, so the order of arrival decides
    return -1 if a.number < b.number else 1


cdef void sort_places(Place *places, Place *scratch, size_t count) noexcept nogil:
    """Sort by trace, time-stamp and arrival; the places are those of arrivals, in order.

    PERF: traces are sorted by their digits, and the events of a trace mostly are in order. `qsort`
    of all took a twentieth of the time of batches of a thousand events of a thousand traces.

    scratch: as much room as `places` has.
    """
    cdef Place *source = places
    cdef Place *target = scratch
    cdef size_t starts[DIGITS]
    cdef uint32_t most = 0
    cdef uint32_t shift = 0
    cdef size_t k, first, before
    cdef size_t digit
    cdef bint is_sorted = True
    for k in range(count):
        most = max(most, places[k].trace)
        if k and is_sorted:
            is_sorted = compare_places(&places[k - 1], &places[k]) < 0
    if is_sorted:
        return
    while shift < 32 and most >> shift:
        memset(starts, 0, sizeof(starts))
        for k in range(count):
            starts[source[k].trace >> shift & (DIGITS - 1)] += 1
        before = 0
        for digit in range(DIGITS):
            first = starts[digit]
            starts[digit] = before
            before += first
        for k in range(count):
            digit = source[k].trace >> shift & (DIGITS - 1)
            target[starts[digit]] = source[k]
            starts[digit] += 1
        source, target = target, source
        shift += DIGIT_BITS
    if source != places:
        memcpy(places, source, count * sizeof(Place))
    first = 0
    for k in range(1, count + 1):
        if k < count and places[k].trace == places[first].trace:
            continue
        for before in range(first + 1, k):
            if places[before].time_stamp < places[before - 1].time_stamp:
                qsort(places + first, k - first, sizeof(Place), compare_places)
                break
        first = k


cdef int compare_names(const void *left, const void *right) noexcept nogil:
    cdef const Name *a = <const Name *> left
    cdef const Name *b = <const Name *> right
    if a.trace != b.trace:
        return -1 if a.trace < b.trace else 1
    if a.time_stamp != b.time_stamp:
        return -1 if a.time_stamp < b.time_stamp else 1
    return -1 if a.offset < b.offset else 1


cdef void sort_names(Name *names, size_t count) noexcept nogil:
    """Sort by trace, time-stamp and offset."""
    if count > 1:
        qsort(names, count, sizeof(Name), compare_names)
