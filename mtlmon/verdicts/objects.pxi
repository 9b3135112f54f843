# cython: language_level=3
"""Convert verdict records to objects."""

from libc.string cimport memcpy

from mtlmon.arrays.native cimport Memory
from mtlmon.engine.native cimport VerdictRecord, new_verdict


def verdicts_of(records):
    """The list of `Verdict`s for a one-dimensional array of verdict records."""
    cdef Memory memory = Memory(records, sizeof(VerdictRecord), 0)
    cdef VerdictRecord record
    cdef Py_ssize_t k
    cdef list verdicts = []
    for k in range(memory.buffer.shape[0]):
        memcpy(
            &record, <const char *> memory.buffer.buf + k * memory.buffer.strides[0],
            sizeof(VerdictRecord)
        )
        verdicts.append(new_verdict(&record))
    return verdicts
