# cython: language_level=3
"""One call at a time uses an object: others are refused, whatever thread they come from.

Loops in native code release the GIL, and arguments, keys and callbacks are code of users. So a call
can come while another one has not returned: from another thread, from the code that it runs itself,
from a signal handler, or from the garbage collector.

A call of a monitor enters it by an atomic change of its `condition`, and leaves it at the end.
Batches are checked as a whole before the first event changes anything. An error after that can only
be one of memory, limits or an interrupt; it breaks the monitor and carries the verdicts so far.
Other public objects with a state in native code have a `Guard`, which does the same without the
other conditions.
"""

from cython cimport final

from mtlmon.errors import InUseError


@final
cdef class Guard:
    """Refuses calls of an object while another one is active.

    Args:
        what: what the object is, for the message, as "history".

    It is a context manager: `with guard:`, or `enter` and `leave` in native code. Calls under it
    must not call guarded methods of the same object.
    """

    def __cinit__(self, str what not None):
        self.what = what

    cdef int enter(self) except -1 nogil:
        """Begin a call: all other calls are refused until `leave`."""
        if not compare_and_set(&self.is_used, False, True):
            with gil:
                raise InUseError(self.what)
        return 0

    cdef void leave(self) noexcept nogil:
        self.is_used = False

    def __enter__(self):
        self.enter()

    def __exit__(self, kind, value, traceback):
        self.leave()


@final
cdef class GuardedIterator:
    """Iterates over the items of a generator, which refuses calls by errors of its own.

    Args:
        items: the generator.
        what: what it is, for the message.
    """

    def __cinit__(self, items, str what not None):
        self.items = items
        self.guard = Guard(what)

    def __iter__(self):
        return self

    def __next__(self):
        self.guard.enter()
        try:
            return next(self.items)
        finally:
            self.guard.leave()

    def close(self):
        """End the generator."""
        self.guard.enter()
        try:
            self.items.close()
        finally:
            self.guard.leave()
