# cython: language_level=3
"""What a batch has changed, so that it can be undone."""


cdef struct Change:
    # A cell of a state before it was changed, or what was added to it.
    size_t place
    int64_t cell
    int64_t note


cdef struct Journal:
    # The changes of a batch, for `undo`.
    Change *changes
    size_t count, room


cdef int reserve_changes(Journal *journal, size_t more) except -1 nogil:
    """Make room for more changes."""
    cdef size_t needed = journal.count + more
    if needed > journal.room:
        needed = max(needed, 2 * journal.room)
        resized(<void **> &journal.changes, needed, sizeof(Change))
        journal.room = needed
    return 0


cdef inline void note_change(
    Journal *journal, size_t place, int64_t cell, int64_t note
) noexcept nogil:
    """Note a change; there is room for it."""
    cdef Change *change = &journal.changes[journal.count]
    change.place = place
    change.cell = cell
    change.note = note
    journal.count += 1
