# cython: language_level=3
"""One event as Python gives it: a time-stamp, and the atoms that hold."""

from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Occurred
from cpython.object cimport PyObject
from libc.stdint cimport UINT64_MAX
from libc.string cimport memset

from operator import index

from mtlmon.errors import EventError, EventTypeError, TimeStampError

cdef extern from "Python.h":
    # Not the declaration that raises: an error here gets a message about atoms.
    PyObject *PyDict_GetItemWithError(object dictionary, object key)
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


cdef int read_letter(
    object atoms, dict atom_numbers, bint is_strict, uint64_t *letter, size_t words
) except -1:
    """The letter of the atoms that hold: names, or an integer whose bit i is that of atom i.

    is_strict: unknown names and bits are an error; else they are ignored.

    PERF: Cython iterates over the usual collections without an iterator of Python, which takes
    30 ns less.
    """
    if type(atoms) is int:
        return read_bits(atoms, atom_numbers, is_strict, letter, words)
    memset(letter, 0, words * sizeof(uint64_t))
    if type(atoms) is set:
        for name in <set> atoms:
            add_atom(name, atom_numbers, is_strict, letter)
    elif type(atoms) is tuple:
        for name in <tuple> atoms:
            add_atom(name, atom_numbers, is_strict, letter)
    elif type(atoms) is list:
        for name in <list> atoms:
            add_atom(name, atom_numbers, is_strict, letter)
    elif type(atoms) is frozenset:
        for name in <frozenset> atoms:
            add_atom(name, atom_numbers, is_strict, letter)
    elif isinstance(atoms, (str, bytes)):
        raise EventTypeError(f"atoms are a collection of names, not the one string {atoms!r}")
    elif hasattr(type(atoms), "__iter__"):
        for name in atoms:
            add_atom(name, atom_numbers, is_strict, letter)
    else:
        try:
            bits = index(atoms)
        except TypeError:
            raise EventTypeError(
                "atoms are a collection of names or an integer of bits, not "
                f"{type(atoms).__name__}"
            ) from None
        read_bits(bits, atom_numbers, is_strict, letter, words)
    return 0


cdef inline int add_atom(
    object name, dict atom_numbers, bint is_strict, uint64_t *letter
) except -1:
    cdef PyObject *found = PyDict_GetItemWithError(atom_numbers, name)
    cdef size_t number
    if found != NULL:
        number = <object> found
        letter[number >> 6] |= <uint64_t> 1 << (number & 63)
    elif is_strict or PyErr_Occurred() != NULL:
        refuse_name(name, atom_numbers)
    return 0


cdef int refuse_name(object name, dict atom_numbers) except -1:
    """Say what is wrong with a name that was not found."""
    if PyErr_Occurred() != NULL:
        if not PyErr_ExceptionMatches(TypeError):
            # Whatever a hash function of the caller's raised, or an interrupt in it.
            return -1
        PyErr_Clear()
        raise EventTypeError(f"the name of an atom is a string, not {type(name).__name__}")
    # Few need it, and it would make the start of the command slower.
    from mtlmon.event_columns import listed

    raise EventError(
        f"the formula knows no atom {name!r}, only {listed(list(atom_numbers))}; "
        "unknown='ignore' passes over others"
    )


cdef int read_bits(
    object bits, dict atom_numbers, bint is_strict, uint64_t *letter, size_t words
) except -1:
    cdef int overflow = 0
    cdef long long low_bits = PyLong_AsLongLongAndOverflow(bits, &overflow)
    cdef size_t count = <size_t> len(atom_numbers)
    cdef size_t word
    if overflow == 0 and low_bits >= 0:
        letter[0] = <uint64_t> low_bits
        for word in range(1, words):
            letter[word] = 0
    elif bits < 0:
        raise EventError(f"the bits of an event are no negative integer, as {bits} is")
    else:
        for word in range(words):
            letter[word] = (bits >> (64 * word)) & UINT64_MAX
    if is_strict and bits >> count:
        raise EventError(
            f"{bits} has bits beyond the {count} atoms; unknown='ignore' passes over them"
        )
    # A program without atoms has a word for them all the same.
    if count == 0 or count & 63:
        letter[words - 1] &= (<uint64_t> 1 << (count & 63)) - 1
    return 0
