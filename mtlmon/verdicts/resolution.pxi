# cython: language_level=3
"""Resolve verdict objects and arrays of verdicts."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mtlmon.engine.native cimport (
    Guard,
    HELD_EQUIVALENTS,
    HELD_IN_ORDER,
    HeldBytes,
    MemoryLimit,
    Session,
    VERDICT_EQUIVALENT,
    VERDICT_FALSE,
    Verdict,
    VerdictRecord,
    new_verdict,
)

from mtlmon.errors import CopyError, MemoryLimitError, MtlmonError

cdef uint64_t LARGEST_TIME_STAMP = <uint64_t> 0x7FFFFFFFFFFFFFFF
# a value that no iterator returns
cdef object END = object()


@final
cdef class Resolution:
    """Resolves equivalences to Boolean verdicts while the verdicts of a stream come in.

    Args:
        in_order: whether to return verdicts in the order of time-points. They then wait until
            nothing before them is undecided, as `monitor` or `reach` tells; without both, until
            `finish`.
        reach: no verdict of the formula waits longer than this for its events, in time units.
        monitor: the monitor that produces the verdicts. Every call takes all verdicts that the
            monitor has produced since the last call.
        max_memory: how much memory the open time-points and the waiting verdicts may take: a number
            of bytes, or a text such as "500M"; None means no limit. Above the limit, calls raise
            `MemoryLimitError`, with what they would have returned in its attribute `verdicts`.

    Attributes:
        open_count: the number of time-points whose equivalence has no value yet. Memory grows with
            the open time-points, where consecutive ones count as one, and with the verdicts that
            wait for their turn.

    >>> from mtlmon import Monitor, Resolution
    >>> monitor, resolution = Monitor("EVENTUALLY[0,5] p"), Resolution()
    >>> resolution.push(monitor.step(0) + monitor.step(0))
    []
    >>> resolution.open_count
    1
    >>> [str(verdict) for verdict in resolution.push(monitor.step(3, {"p"}))]
    ['0:0 true', '0:1 true', '3:0 true']
    """

    def __cinit__(
        self, *, bint in_order=False, reach=None, Session monitor=None, max_memory=None
    ):
        if reach is not None and not 0 <= reach:
            raise MtlmonError(f"a reach is at least 0, not {reach}")
        self.guard = Guard("resolution")
        self.resolver = Resolver()
        self.resolver.is_flat = True
        # a reach beyond all time-stamps holds everything to the end, as no reach does
        self.sequencer = Sequencer(None if reach is None or reach > LARGEST_TIME_STAMP else reach)
        self.in_order = in_order
        self.monitor = monitor
        if max_memory is not None:
            from mtlmon.engine.memory_limit import memory_size

            self.memory = MemoryLimit(memory_size(max_memory))

    def __dealloc__(self):
        free(self.taken.items)

    @property
    def open_count(self):
        with self.guard:
            return self.resolver.open_count

    def push(self, verdicts):
        """Take verdicts and return the verdicts of the time-points that are now known.

        Args:
            verdicts: the verdicts of one or several events, as `step`, `advance` and `finish`
                return them.

        Returns:
            Boolean verdicts, in the order of time-points.

        Raises:
            MtlmonError: an equivalence refers to a time-point that is not earlier, or a verdict
                comes after later ones that the reach has already released.
        """
        cdef list taken = list(verdicts)
        with self.guard:
            self.take(taken)
            resolved = self.fetch_all()
            self.check_memory(resolved)
            return resolved

    def push_array(self, verdicts):
        """Do the same as `push`, with arrays as input and output.

        Args:
            verdicts: a one-dimensional structured array with the fields of
                `mtlmon.verdicts.arrays.verdict_type()`.

        Returns:
            An array of that type, in the order in which the values became known.

        Raises:
            MtlmonError: as for `push`; or a field is missing or does not hold integers, a kind is
                not valid, or a time-stamp is out of range. The message names the index. In these
                cases nothing was taken.
        """
        from mtlmon.verdicts.arrays import as_records

        records = as_records(verdicts)
        with self.guard:
            return self._push_records(records)

    cdef object _push_records(self, records):
        from mtlmon.verdicts.arrays import verdict_type

        cdef Py_buffer source
        cdef Py_buffer target
        cdef Records resolved
        cdef ResolveStatus status
        resolved.items = NULL
        resolved.count = resolved.room = 0
        PyObject_GetBuffer(records, &source, PyBUF_SIMPLE)
        try:
            check(<const VerdictRecord *> source.buf, source.len // sizeof(VerdictRecord))
            with nogil:
                status = self.resolve_all(
                    <const VerdictRecord *> source.buf,
                    <size_t> source.len // sizeof(VerdictRecord),
                    &resolved,
                )
            raise_error_of(status)
            import numpy

            result = numpy.empty(resolved.count, verdict_type())
            PyObject_GetBuffer(result, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
            if resolved.count > 0:
                memcpy(target.buf, resolved.items, resolved.count * sizeof(VerdictRecord))
            PyBuffer_Release(&target)
            self.check_memory(result)
            return result
        finally:
            PyBuffer_Release(&source)
            free(resolved.items)

    def finish(self):
        """Return the verdicts that waited for their turn, as nothing more will come."""
        with self.guard:
            self.end()
            return self.fetch_all()

    @property
    def held_bytes(self):
        """The bytes of memory that the open time-points and the waiting verdicts take."""
        with self.guard:
            return self.resolver.held_bytes() + self.sequencer.held_bytes()

    def __reduce__(self):
        raise CopyError("a Resolution cannot be copied or pickled: push the verdicts into another")

    cdef int check_memory(self, object verdicts) except -1:
        """Raise MemoryLimitError, with these verdicts, if too much memory is held."""
        if self.memory is None:
            return 0
        try:
            self.memory.hold_to(self)
        except MemoryLimitError as error:
            error.verdicts = verdicts
            raise
        return 0

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        held.of[HELD_EQUIVALENTS] += self.resolver.held_bytes()
        held.of[HELD_IN_ORDER] += self.sequencer.held_bytes()

    cdef int take(self, list verdicts) except -1:
        """Resolve the time-points that these verdicts settle; `fetch` returns them."""
        cdef size_t count = <size_t> len(verdicts)
        cdef size_t k
        cdef Verdict verdict
        if not reserve(&self.taken, count):
            raise MemoryError
        for k in range(count):
            verdict = <Verdict?> verdicts[k]
            if not is_earlier_reference(&verdict.record):
                raise not_earlier(verdict)
            self.taken.items[k] = verdict.record
        raise_error_of(self.resolve(self.taken.items, count))
        self.look_at_monitor()
        return 0

    cdef int take_one(self, const VerdictRecord *record) except -1:
        if not is_earlier_reference(record):
            raise not_earlier(new_verdict(record))
        raise_error_of(self.resolve(record, 1))
        return 0

    cdef void look_at_monitor(self) noexcept nogil:
        """Tell the sequencer what is pending, once all other verdicts have come.

        While another call uses the monitor, that is not known: verdicts wait for the next look.
        """
        cdef uint64_t time_stamp, offset
        cdef bint is_pending
        if self.monitor is None or not self.monitor.look(&is_pending, &time_stamp, &offset):
            return
        if is_pending:
            self.sequencer.set_bound(time_stamp, offset)
        else:
            self.sequencer.release_all()

    cdef ResolveStatus resolve(self, const VerdictRecord *records, size_t count) noexcept nogil:
        """Pass verdicts to the resolver, and the verdicts they settle to the sequencer."""
        cdef size_t k
        if not self.resolver.push(records, count):
            return OUT_OF_MEMORY
        if not self.in_order:
            return RESOLVE_OK
        for k in range(self.resolver.outcome_count):
            if self.sequencer.is_late(
                0, self.resolver.outcomes[k].time_stamp, self.resolver.outcomes[k].offset
            ):
                return REACH_TOO_SMALL
            if not self.sequencer.add(0, self.resolver.outcomes + k):
                return OUT_OF_MEMORY
        if not self.sequencer.reserve_stream(0):
            return OUT_OF_MEMORY
        for k in range(count):
            self.sequencer.note(0, records[k].time_stamp)
        return RESOLVE_OK

    cdef void end(self):
        self.sequencer.release_all()

    cdef bint fetch(self, VerdictRecord *record) noexcept nogil:
        """Return the next verdict; False if there is none."""
        if self.in_order:
            return self.sequencer.next(0, record, 1) > 0
        return self.resolver.next(record, 1) > 0

    cdef list fetch_all(self):
        cdef VerdictRecord record
        cdef list verdicts = []
        while self.fetch(&record):
            verdicts.append(new_verdict(&record))
        return verdicts

    cdef ResolveStatus resolve_all(
        self, const VerdictRecord *records, size_t count, Records *resolved
    ) noexcept nogil:
        """Resolve verdicts one by one into an array."""
        cdef ResolveStatus status
        cdef size_t k
        for k in range(count):
            status = self.resolve(records + k, 1)
            if status == RESOLVE_OK and not self.in_order:
                status = self.fetch_into(resolved)
            if status != RESOLVE_OK:
                return status
        self.look_at_monitor()
        return self.fetch_into(resolved)

    cdef ResolveStatus fetch_into(self, Records *resolved) noexcept nogil:
        """Append all verdicts that can be released to an array."""
        while True:
            if resolved.count == resolved.room and not reserve(resolved, resolved.count + 1):
                return OUT_OF_MEMORY
            if not self.fetch(resolved.items + resolved.count):
                return RESOLVE_OK
            resolved.count += 1


@final
cdef class ResolvedVerdicts:
    """An iterator over the Boolean verdicts that resolve a stream of verdicts.

    Attributes:
        open_count: the number of time-points whose equivalence has no value yet; after the end,
            those that got none.
    """

    def __cinit__(
        self, verdicts, *, bint in_order=False, reach=None, bint only_false=False,
        max_memory=None
    ):
        cdef Session monitor = None
        if isinstance(verdicts, VerdictStream):
            self.stream = verdicts
            monitor = self.stream.monitor
        self.guard = Guard("iterator of verdicts")
        self.verdicts = iter(verdicts)
        self.resolution = Resolution(
            in_order=in_order, reach=reach, monitor=monitor, max_memory=max_memory
        )
        self.only_false = only_false

    @property
    def open_count(self):
        with self.guard:
            return self.resolution.resolver.open_count

    def __iter__(self):
        return self

    def __next__(self):
        cdef VerdictRecord record
        self.guard.enter()
        try:
            while True:
                while self.resolution.fetch(&record):
                    if not self.only_false or record.kind == VERDICT_FALSE:
                        return new_verdict(&record)
                if self.is_over:
                    raise StopIteration
                self.advance()
        finally:
            self.guard.leave()

    cdef int advance(self) except -1:
        """Resolve the next event's verdicts, or the next verdict if events are not known."""
        cdef Verdict verdict
        cdef list verdicts
        # All resolved verdicts have been returned.
        self.resolution.check_memory(())
        if self.stream is not None:
            verdicts = self.stream.next_event()
            if verdicts is not None:
                self.resolution.take(verdicts)
                return 0
        else:
            item = next(self.verdicts, END)
            if item is not END:
                verdict = <Verdict?> item
                self.resolution.take_one(&verdict.record)
                return 0
        self.is_over = True
        self.resolution.end()
        return 0


@final
cdef class VerdictCounter:
    """Counts the verdicts of a stream, resolved.

    Attributes:
        true_count: true time-points, including equivalents.
        false_count: false time-points, including equivalents.
        open_count: time-points whose equivalence has no value yet.
        reference_count: time-points that the open ones refer to.
        equivalent_count: verdicts that were equivalences.
        first_violation: the verdict of the earliest false time-point so far, or None.
    """

    cdef Resolver resolver
    cdef readonly uint64_t equivalent_count
    cdef readonly Verdict first_violation

    def __cinit__(self):
        self.resolver = Resolver()
        self.resolver.is_flat = True

    @property
    def true_count(self):
        return self.resolver.true_count

    @property
    def false_count(self):
        return self.resolver.false_count

    @property
    def open_count(self):
        return self.resolver.open_count

    @property
    def reference_count(self):
        return self.resolver.chain_count

    def update(self, verdicts):
        """Count the verdicts of an iterable."""
        for verdict in verdicts:
            self.add(verdict)

    cpdef add(self, item):
        """Count one verdict."""
        cdef Verdict verdict = <Verdict?> item
        if not is_earlier_reference(&verdict.record):
            raise not_earlier(verdict)
        if not self.resolver.push(&verdict.record, 1):
            raise MemoryError
        if verdict.record.kind == VERDICT_EQUIVALENT:
            self.equivalent_count += 1
        # the earliest member of an equivalence class has a Boolean verdict
        elif verdict.record.kind == VERDICT_FALSE and (
            self.first_violation is None
            or comes_before(&verdict.record, &self.first_violation.record)
        ):
            self.first_violation = verdict


def first_violation(verdicts, reach=None):
    """The earliest false time-point's verdict, or None; stops once nothing before it is open.

    This needs no resolving: the earliest member of an equivalence class has a Boolean verdict.
    """
    cdef VerdictStream stream = verdicts if isinstance(verdicts, VerdictStream) else None
    cdef Verdict found = None
    cdef Verdict verdict
    cdef list event
    if stream is None:
        for item in verdicts:
            verdict = <Verdict?> item
            if verdict.record.kind == VERDICT_FALSE and (
                found is None or comes_before(&verdict.record, &found.record)
            ):
                found = verdict
            if (
                found is not None
                and reach is not None
                and verdict.record.time_stamp - reach > found.record.time_stamp
            ):
                break
        return found
    while (event := stream.next_event()) is not None:
        for verdict in event:
            if verdict.record.kind == VERDICT_FALSE and (
                found is None or comes_before(&verdict.record, &found.record)
            ):
                found = verdict
        if found is not None and not has_pending_before(stream.monitor, &found.record):
            break
    return found


cdef bint has_pending_before(Session monitor, const VerdictRecord *record):
    cdef VerdictRecord pending
    cdef bint is_pending
    if not monitor.look(&is_pending, &pending.time_stamp, &pending.offset):
        return True
    return is_pending and comes_before(&pending, record)


cdef inline bint comes_before(const VerdictRecord *one, const VerdictRecord *other) noexcept nogil:
    if one.time_stamp != other.time_stamp:
        return one.time_stamp < other.time_stamp
    return one.offset < other.offset


cdef inline bint is_earlier_reference(const VerdictRecord *record) noexcept nogil:
    """Whether an equivalence refers to an earlier time-point; True for other verdicts."""
    if record.kind != VERDICT_EQUIVALENT:
        return True
    if record.reference_time_stamp != record.time_stamp:
        return record.reference_time_stamp < record.time_stamp
    return record.reference_offset < record.offset


cdef object not_earlier(Verdict verdict):
    return MtlmonError(f"{verdict}: a time-point is equivalent to an earlier one")


cdef int check(const VerdictRecord *records, size_t count) except -1:
    """Refuse an array that has a record which is not a verdict."""
    cdef size_t k
    for k in range(count):
        if records[k].kind > VERDICT_EQUIVALENT:
            raise MtlmonError(
                f"verdict {k} of the array: {records[k].kind} is not a kind of verdict"
            )
        if records[k].time_stamp > LARGEST_TIME_STAMP:
            raise MtlmonError(f"verdict {k} of the array: its time-stamp is not from 0 to 2^63-1")
        if not is_earlier_reference(records + k):
            raise MtlmonError(
                f"verdict {k} of the array: a time-point is equivalent to an earlier one"
            )
    return 0


cdef int raise_error_of(ResolveStatus status) except -1:
    if status == OUT_OF_MEMORY:
        raise MemoryError
    if status == REACH_TOO_SMALL:
        raise MtlmonError(
            "later time-points were given out before: the reach is too small, or verdicts of the "
            "monitor were left out"
        )
    return 0


cdef bint reserve(Records *records, size_t count) noexcept nogil:
    """Make room for so many records, at least doubling the room; False if there is no memory."""
    cdef size_t wanted = max(count, 2 * records.room)
    cdef void *larger
    if count <= records.room:
        return True
    if wanted > SIZE_MAX // sizeof(VerdictRecord) // 2:
        return False
    larger = realloc(records.items, wanted * sizeof(VerdictRecord))
    if larger == NULL:
        return False
    records.items = <VerdictRecord *> larger
    records.room = wanted
    return True
