# cython: language_level=3
"""What verdicts were before a batch, so that only what the whole batch has changed is told."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mtlmon.engine.native cimport VERDICT_EQUIVALENT, reserve


cdef int set_verdict(
    Journal *journal, uint32_t trace, uint64_t time_stamp, Point *point,
    const VerdictRecord *verdict
) except -1 nogil:
    """Give a time-point another verdict, or none if that is NULL; note the one before."""
    cdef uint8_t kind = STILL_OPEN if verdict == NULL else verdict.kind
    cdef uint64_t reference_time_stamp = 0
    cdef uint64_t reference_offset = 0
    if kind == VERDICT_EQUIVALENT:
        reference_time_stamp = verdict.reference_time_stamp
        reference_offset = verdict.reference_offset
    if (
        point.kind == kind and point.reference_time_stamp == reference_time_stamp
        and point.reference_offset == reference_offset
    ):
        return 0
    note_former(journal, trace, time_stamp, point)
    point.kind = kind
    point.reference_time_stamp = reference_time_stamp
    point.reference_offset = reference_offset
    return 0


cdef int withdraw(
    Journal *journal, uint32_t trace, uint64_t time_stamp, Point *point, uint8_t flag
) except -1 nogil:
    """Note that a row is no time-point any more, as the flag says; it has no verdict then."""
    note_former(journal, trace, time_stamp, point)
    point.flags |= flag
    point.kind = STILL_OPEN
    point.reference_time_stamp = 0
    point.reference_offset = 0
    return 0


cdef int bring_back(
    Journal *journal, uint32_t trace, uint64_t time_stamp, Point *point
) except -1 nogil:
    """Note that a row that was hidden is a time-point again, which has no verdict yet."""
    note_former(journal, trace, time_stamp, point)
    point.flags &= ~IS_HIDDEN
    return 0


cdef int note_former(
    Journal *journal, uint32_t trace, uint64_t time_stamp, Point *point
) except -1 nogil:
    """Note the verdict of a time-point before the batch, unless that is done."""
    cdef Former *former
    if is_noted(journal, trace, time_stamp, point):
        return 0
    reserve(
        <void **> &journal.entries, &journal.capacity, <size_t> journal.count + 1,
        sizeof(Former)
    )
    former = &journal.entries[journal.count]
    former.trace = trace
    former.point = point
    former.moves = journal.moves
    former.time_stamp = time_stamp
    former.offset = point.offset
    former.kind = point.kind
    former.reference_time_stamp = point.reference_time_stamp
    former.reference_offset = point.reference_offset
    journal.count += 1
    point.mark = journal.count
    return 0


cdef bint is_noted(
    const Journal *journal, uint32_t trace, uint64_t time_stamp, const Point *point
) noexcept nogil:
    """Whether this batch has noted the former verdict of a time-point.

    Marks of former batches are not wiped out; an entry that they lead to is about another
    time-point.
    """
    cdef const Former *former
    if point.mark == 0 or point.mark > journal.count:
        return False
    former = &journal.entries[point.mark - 1]
    return (
        former.time_stamp == time_stamp and former.offset == point.offset
        and former.trace == trace
    )


cdef size_t count_changes(
    Journal *journal, Trace *traces, ChangeRecord *records, uint32_t shown, int64_t *counts
) noexcept nogil:
    """Write a record for each time-point whose verdict has changed, and return their number.

    There must be room for as many records as the journal has entries. All changes count as told.

    PERF: most time-points still are where they were when their former verdicts were noted. A search
    for each took a tenth of the time of events in order. First verdicts that nobody wants are most
    of all changes, and have no records: these took a tenth of the time of two formulas.

    shown: the kinds of first verdicts to write, as bits.
    counts: how many time-points there are of each kind, which follows all changes.
    """
    cdef size_t count = 0
    cdef uint32_t k
    cdef const Former *former
    cdef ChangeRecord *record
    cdef Point *point
    cdef uint8_t operation
    for k in range(journal.count):
        former = &journal.entries[k]
        point = former.point
        if traces[former.trace].moved_at > former.moves:
            point = find_point(&traces[former.trace], former.time_stamp, former.offset)
        if point == NULL:
            continue
        if point.flags & IS_PASSED:
            # nothing is withdrawn of a time-point that has had no verdict, and nothing twice
            if point.is_emitted != EMITTED:
                continue
            operation = WITHDRAWN
        elif (
            # else it is a time-point again, which is told even if it is open
            point.is_emitted != TOLD_GONE and point.kind == former.kind
            and point.reference_time_stamp == former.reference_time_stamp
            and point.reference_offset == former.reference_offset
        ):
            continue
        elif point.kind == STILL_OPEN:
            operation = DELETED
        elif point.is_emitted:
            operation = UPDATED
        else:
            operation = INSERTED
        point.is_emitted = TOLD_GONE if operation == WITHDRAWN else EMITTED
        counts[point.kind] += 1
        counts[former.kind] -= 1
        if operation == INSERTED and not shown >> point.kind & 1:
            continue
        record = &records[count]
        memset(record, 0, sizeof(ChangeRecord))
        record.time_stamp = former.time_stamp
        record.offset = former.offset
        record.trace = former.trace
        record.kind = point.kind
        record.former = former.kind
        record.reference_time_stamp = point.reference_time_stamp
        record.reference_offset = point.reference_offset
        record.operation = operation
        count += 1
    journal.count = 0
    return count
