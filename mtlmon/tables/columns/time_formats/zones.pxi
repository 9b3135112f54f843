# cython: language_level=3
"""Find the instants of local times, by the offsets of a time zone.

Where clocks are put back, an hour occurs twice. By order, a time of it is of the first hour, unless
the row before it is later than that, by more than rows may come late.
"""

from libc.stdint cimport int64_t, uint64_t


cdef enum:
    MOST_OFFSETS = 32


cdef enum RepeatedHour:
    BY_ORDER
    FIRST
    SECOND
    NEITHER


cdef struct ZoneOffsets:
    # the local times for which these are all offsets
    int64_t first, last
    # the instant from which each offset holds, in order of time; the first one holds before, too
    size_t count
    int64_t starts[MOST_OFFSETS]
    int64_t offsets[MOST_OFFSETS]


cdef struct Zone:
    RepeatedHour repeated
    # how many seconds rows may come late
    int64_t disorder
    ZoneOffsets offsets
    # the place among the offsets of the last time
    size_t place
    # the last row's instant
    bint has_before
    int64_t before
    # how many rows were in an hour that occurs twice, and how many of them in its second one
    uint64_t doubtful, seconds


cdef ParseStatus from_zone(Zone *zone, Instant *instant) noexcept nogil:
    """Make an instant of a local time that the offsets reach to."""
    cdef ZoneOffsets *offsets = &zone.offsets
    cdef int64_t local = seconds_of(instant)
    cdef int64_t seconds, earlier
    cdef size_t place = zone.place
    # the last offset that may hold
    if place >= offsets.count:
        place = 0
    while place and offsets.starts[place] + offsets.offsets[place] > local:
        place -= 1
    while place + 1 < offsets.count and (
        offsets.starts[place + 1] + offsets.offsets[place + 1] <= local
    ):
        place += 1
    zone.place = place
    seconds = local - offsets.offsets[place]
    if place + 1 < offsets.count and seconds >= offsets.starts[place + 1]:
        return SKIPPED
    if place:
        earlier = local - offsets.offsets[place - 1]
        if earlier < offsets.starts[place]:
            zone.doubtful += 1
            if zone.repeated == NEITHER:
                return REPEATED
            if is_second(zone, earlier, seconds):
                zone.seconds += 1
            else:
                seconds = earlier
    set_seconds(instant, seconds)
    instant.is_local = False
    return PARSED


cdef bint is_second(const Zone *zone, int64_t first, int64_t second) noexcept nogil:
    """Whether a time that occurs twice is the second one."""
    if zone.repeated == BY_ORDER:
        return zone.has_before and zone.before - first > min(zone.disorder, (second - first) // 2)
    return zone.repeated == SECOND
