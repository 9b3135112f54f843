# cython: language_level=3
"""Verdicts as Python objects."""

from cython cimport final, freelist


@final
@freelist(256)
cdef class Verdict:
    """The verdict of one time-point: true, false, or equivalent to an earlier undecided one.

    Attributes:
        time_stamp: the time-stamp of the time-point, in the stream's unit.
        offset: its number among the time-points with this time-stamp, from 0.
        kind: "true", "false" or "equivalent".
        value: True, False, or None for an equivalence.
        ref: the (time_stamp, offset) of the time-point it is equivalent to, or None.

    `str(verdict)` is the line that the command writes.
    """

    def __init__(self):
        raise TypeError("verdicts are made by monitors")

    @property
    def time_stamp(self):
        return self.record.time_stamp

    @property
    def offset(self):
        return self.record.offset

    @property
    def kind(self):
        if self.record.kind == VERDICT_EQUIVALENT:
            return "equivalent"
        return "true" if self.record.kind == VERDICT_TRUE else "false"

    @property
    def value(self):
        if self.record.kind == VERDICT_EQUIVALENT:
            return None
        return self.record.kind == VERDICT_TRUE

    @property
    def ref(self):
        if self.record.kind != VERDICT_EQUIVALENT:
            return None
        return (self.record.reference_time_stamp, self.record.reference_offset)

    def __str__(self):
        if self.record.kind != VERDICT_EQUIVALENT:
            return f"{self.record.time_stamp}:{self.record.offset} {self.kind}"
        return (
            f"{self.record.time_stamp}:{self.record.offset} = "
            f"{self.record.reference_time_stamp}:{self.record.reference_offset}"
        )

    def __repr__(self):
        return f"<Verdict {self}>"

    def __eq__(self, other):
        if not isinstance(other, Verdict):
            return NotImplemented
        return self._key() == (<Verdict> other)._key()

    def __hash__(self):
        return hash(self._key())

    def __reduce__(self):
        return _verdict, (
            self.record.time_stamp,
            self.record.offset,
            self.record.kind,
            self.record.reference_time_stamp,
            self.record.reference_offset,
        )

    def _key(self):
        return (self.record.time_stamp, self.record.offset, self.kind, self.ref)


def _verdict(time_stamp, offset, kind, reference_time_stamp, reference_offset):
    """Rebuild a verdict from a pickle."""
    cdef VerdictRecord record
    record.time_stamp = time_stamp
    record.offset = offset
    record.kind = kind
    record.reference_time_stamp = reference_time_stamp
    record.reference_offset = reference_offset
    return new_verdict(&record)


cdef Verdict new_verdict(const VerdictRecord *record):
    cdef Verdict verdict = Verdict.__new__(Verdict)
    verdict.record = record[0]
    return verdict
