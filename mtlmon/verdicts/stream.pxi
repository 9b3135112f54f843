# cython: language_level=3
"""The verdicts of a stream of events."""

from cython cimport final

from mtlmon.engine.native cimport Guard, Session

from mtlmon.errors import EventError, EventTypeError, TimeStampError


@final
cdef class VerdictStream:
    """An iterator over the verdicts of a stream of events, as early as they are known.

    Calling a monitor creates one. Functions that work on whole events, such as `resolve`, take the
    events' verdicts from it.

    Attributes:
        monitor: the monitor.
    """

    def __cinit__(self, Session monitor not None, events, end_time=None):
        self.guard = Guard("stream of verdicts")
        self.monitor = monitor
        self.events = iter(events)
        self.end_time = end_time
        self.verdicts = []

    def __iter__(self):
        return self

    def __next__(self):
        self.guard.enter()
        try:
            while self.place == len(self.verdicts):
                self.verdicts = self._next_event()
                self.place = 0
                if self.verdicts is None:
                    self.verdicts = []
                    raise StopIteration
            self.place += 1
            return self.verdicts[self.place - 1]
        finally:
            self.guard.leave()

    cdef list next_event(self):
        """The remaining verdicts of the last event, or those of the next; None at the end."""
        self.guard.enter()
        try:
            return self._next_event()
        finally:
            self.guard.leave()

    cdef list _next_event(self):
        cdef list verdicts = self.verdicts[self.place:]
        self.verdicts = []
        self.place = 0
        if verdicts:
            return verdicts
        for event in self.events:
            self.event_count += 1
            return step_of_stream(self.monitor, event, self.event_count - 1)
        if self.is_over or self.end_time is None:
            return None
        self.is_over = True
        return self.monitor.finish(self.end_time)


cpdef list step_of_stream(Session monitor, event, size_t index):
    """Call `Monitor.step` with an event, which is a pair; errors carry its number `index`."""
    try:
        time_stamp, atoms = event
    except (TypeError, ValueError):
        raise EventTypeError(
            f"an event is a pair of a time-stamp and atoms, not {event!r}", index=index
        ) from None
    try:
        return monitor.step(time_stamp, atoms)
    except (EventError, EventTypeError, TimeStampError) as error:
        error.index = index
        raise
