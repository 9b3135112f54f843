# cython: language_level=3
"""Whether a signal is about to end the process; long operations check this.

The state is global, as signal handlers are.
"""

cdef volatile int signal_number = 0


cdef bint is_signalled() noexcept nogil:
    """Whether the process is about to end."""
    return signal_number != 0


cdef void note_signal(int number) noexcept nogil:
    """Record which signal ends the process, 0 for none. Safe in a signal handler."""
    global signal_number
    signal_number = number
