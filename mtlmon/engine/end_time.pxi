# cython: language_level=3
"""Read end times, which say what is known about the time after a stream's last event."""

from mtlmon.errors import MtlmonError


cdef EndTime read_end_time(object value) except *:
    """Read an end time as callers pass it: None, a time-stamp, "last" or "inf".

    Raises:
        MtlmonError: the value is none of these.
        TimeStampError: the time-stamp is negative or above 2^63-1.
    """
    cdef EndTime end
    end.kind = END_UNKNOWN
    end.time_stamp = 0
    if isinstance(value, str):
        if value not in ("last", "inf"):
            raise MtlmonError(f"end_time is a time-stamp, 'last', 'inf' or None, not {value!r}")
        end.kind = END_INFINITE if value == "inf" else END_LAST
    elif value is not None:
        end.time_stamp = read_time(value, "end time")
        end.kind = END_AT
    return end


def clock_at_end(last, end_time):
    """The time-stamp that no event can be below once a stream has ended; None if none can follow.

    Args:
        last: the time-stamp of the last event.
        end_time: what is known about the time after it, as for `Monitor.finish`.
    """
    cdef EndTime end = read_end_time(end_time)
    return None if end.kind == END_INFINITE else clock_after(&end, last)


def is_end_of_time(clock):
    """Whether no event can follow a log whose later events are not below `clock`, as `clock_at_end`
    gives it: there are none above the largest time-stamp, either.
    """
    return clock is None or clock > INT64_MAX
