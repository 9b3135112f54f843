# cython: language_level=3
"""One event as Python gives it: a time-stamp, and the atoms that hold."""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport UINT64_MAX
from libc.string cimport memset

from operator import index

from mtlmon.errors import EventError, EventTypeError, TimeStampError

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object integer, int *overflow) except? -1


cdef uint64_t read_time(object value, str what) except? 0:
    """An integer of any type, but no float, from 0 to 2^63-1."""
    cdef int overflow = 0
    cdef long long time
    if not isinstance(value, int):
        try:
            value = index(value)
        except TypeError:
            raise EventTypeError(
                f"a {what} is an integer, not {type(value).__name__}"
            ) from None
    time = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or time < 0:
        raise TimeStampError(f"{what} {value} is not between 0 and 2^63-1")
    return <uint64_t> time


cdef int read_letter(object atoms, dict atom_numbers, uint64_t *letter, size_t words) except -1:
    """The letter of the atoms that hold: names, of which unknown ones are ignored, or an integer.

    PERF: Cython iterates over the usual collections without an iterator of Python, which takes
    30 ns less.
    """
    memset(letter, 0, words * sizeof(uint64_t))
    if type(atoms) is int:
        return read_bits(atoms, atom_numbers, letter, words)
    if type(atoms) is set:
        for name in <set> atoms:
            add_atom(name, atom_numbers, letter)
    elif type(atoms) is tuple:
        for name in <tuple> atoms:
            add_atom(name, atom_numbers, letter)
    elif type(atoms) is list:
        for name in <list> atoms:
            add_atom(name, atom_numbers, letter)
    elif type(atoms) is frozenset:
        for name in <frozenset> atoms:
            add_atom(name, atom_numbers, letter)
    elif isinstance(atoms, (str, bytes)):
        raise EventTypeError(f"atoms are a collection of names, not the one string {atoms!r}")
    elif hasattr(type(atoms), "__iter__"):
        for name in atoms:
            add_atom(name, atom_numbers, letter)
    else:
        try:
            bits = index(atoms)
        except TypeError:
            raise EventTypeError(
                "atoms are a collection of names or an integer of bits, not "
                f"{type(atoms).__name__}"
            ) from None
        read_bits(bits, atom_numbers, letter, words)
    return 0


cdef inline int add_atom(object name, dict atom_numbers, uint64_t *letter) except -1:
    cdef PyObject *found = PyDict_GetItemWithError(atom_numbers, name)
    cdef size_t number
    if found != NULL:
        number = <object> found
        letter[number >> 6] |= <uint64_t> 1 << (number & 63)
    return 0


cdef int read_bits(object bits, dict atom_numbers, uint64_t *letter, size_t words) except -1:
    """Bit i of the integer is that of atom i; those beyond the last atom are ignored."""
    cdef int overflow = 0
    cdef long long low_bits = PyLong_AsLongLongAndOverflow(bits, &overflow)
    cdef size_t count = <size_t> len(atom_numbers)
    cdef size_t word
    if overflow == 0 and low_bits >= 0:
        letter[0] = <uint64_t> low_bits
    elif bits < 0:
        raise EventError(f"the bits of an event are no negative integer, as {bits} is")
    else:
        for word in range(words):
            letter[word] = (bits >> (64 * word)) & UINT64_MAX
    # A program without atoms has a word for them all the same.
    if count == 0 or count & 63:
        letter[words - 1] &= (<uint64_t> 1 << (count & 63)) - 1
    return 0
