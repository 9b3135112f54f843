# cython: language_level=3
"""Read an event from Python objects: a time-stamp, and the atoms that hold.

Only this module interprets a collection of atoms: the names in it hold, or, in a mapping, the value
of each name says whether it holds.
"""

from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Occurred
from cpython.object cimport PyObject
from libc.stdint cimport UINT64_MAX
from libc.string cimport memset

import sys
# PERF: what `collections.abc` and `operator` have is always loaded, and they themselves are not.
from _collections_abc import Mapping
from _operator import index

from mtlmon.errors import EventError, EventTypeError, TimeStampError

cdef extern from "Python.h":
    # Not the declaration that raises: here, an error gets a message about atoms.
    PyObject *PyDict_GetItemWithError(object dictionary, object key)
    long long PyLong_AsLongLongAndOverflow(object integer, int *overflow) except? -1


cdef uint64_t read_time(object value, str what) except? 0:
    """Read an integer of any type, but not a float, from 0 to 2^63-1."""
    cdef int overflow = 0
    cdef long long time
    if not isinstance(value, int):
        try:
            value = index(value)
        except TypeError:
            raise EventTypeError(f"{what}s are integers, not {type(value).__name__}") from None
    time = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or time < 0:
        raise TimeStampError(f"{what} {value} is not between 0 and 2^63-1")
    return <uint64_t> time


cdef int read_letter(
    object atoms, dict atom_numbers, bint is_strict, uint64_t *letter, size_t words
) except -1:
    """Read the letter of the atoms that hold.

    atoms: the names of those that hold, a mapping of names to whether they hold, or an integer
        whose bit i is that of atom i.
    is_strict: whether unknown names and bits are an error; otherwise they are ignored.

    PERF: Cython iterates over the usual collections without a Python iterator, which saves 30 ns.
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
    elif type(atoms) is dict:
        for name, value in (<dict> atoms).items():
            add_value(name, value, atom_numbers, is_strict, letter)
    elif isinstance(atoms, (str, bytes)):
        refuse_string(atoms)
    elif isinstance(atoms, Mapping):
        for name, value in atoms.items():
            add_value(name, value, atom_numbers, is_strict, letter)
    elif hasattr(type(atoms), "__iter__"):
        for name in atoms:
            add_atom(name, atom_numbers, is_strict, letter)
    else:
        try:
            bits = index(atoms)
        except TypeError:
            raise EventTypeError(
                "atoms are a collection of names, a mapping of names to True or False, or an "
                f"integer of bits, not {type(atoms).__name__}"
            ) from None
        read_bits(bits, atom_numbers, is_strict, letter, words)
    return 0


def read_atoms(atoms):
    """The names of the atoms that hold, given as a collection of names or a mapping.

    Raises EventTypeError if it is neither, or if a name is not a string or a value not a Boolean.
    """
    if isinstance(atoms, (str, bytes)):
        refuse_string(atoms)
    if isinstance(atoms, Mapping):
        names = frozenset([name for name, value in atoms.items() if holds(name, value)])
        # Also check the atoms that do not hold.
        require_names(atoms)
        return names
    if not hasattr(type(atoms), "__iter__"):
        raise EventTypeError(
            "atoms are a collection of names or a mapping of names to True or False, not "
            f"{type(atoms).__name__}"
        )
    if type(atoms) is not frozenset:
        atoms = list(atoms)
    require_names(atoms)
    return frozenset(atoms)


cdef int require_names(object names) except -1:
    for name in names:
        if not isinstance(name, str):
            refuse_type_of_name(name)
    return 0


cdef int holds(object name, object value) except -1:
    """Whether an atom holds, given its value in a mapping."""
    if value is True:
        return 1
    if value is False:
        return 0
    # Do not import numpy for this: a numpy Boolean can only occur if numpy is already imported.
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.bool_):
        return 1 if value else 0
    raise EventTypeError(
        f"the atom {name!r} has the value {value!r}: in a mapping, each atom is True or False"
    )


cdef inline int add_value(
    object name, object value, dict atom_numbers, bint is_strict, uint64_t *letter
) except -1:
    """Add an atom if it holds; the name is checked in any case."""
    cdef size_t number
    cdef int is_true = holds(name, value)
    if find_atom(name, atom_numbers, is_strict, &number) and is_true:
        letter[number >> 6] |= <uint64_t> 1 << (number & 63)
    return 0


cdef inline int add_atom(
    object name, dict atom_numbers, bint is_strict, uint64_t *letter
) except -1:
    cdef size_t number
    if find_atom(name, atom_numbers, is_strict, &number):
        letter[number >> 6] |= <uint64_t> 1 << (number & 63)
    return 0


cdef inline int find_atom(
    object name, dict atom_numbers, bint is_strict, size_t *number
) except -1:
    """Find the number of an atom; return whether the formula has it."""
    cdef PyObject *found = PyDict_GetItemWithError(atom_numbers, name)
    if found != NULL:
        number[0] = <object> found
        return 1
    # A name that is not a string is a mistake, whatever the formula names.
    if is_strict or type(name) is not str:
        refuse_name(name, atom_numbers, is_strict)
    return 0


cdef int refuse_string(object atoms) except -1:
    raise EventTypeError(
        f"atoms are a collection of names, not the one string {atoms!r}: pass {{{atoms!r}}}"
    )


cdef int refuse_type_of_name(object name) except -1:
    raise EventTypeError(f"the name of an atom is a string, not {type(name).__name__}")


cdef int refuse_name(object name, dict atom_numbers, bint is_strict) except -1:
    """Raise an error for a name that was not found, if it is a mistake."""
    if PyErr_Occurred() != NULL:
        if not PyErr_ExceptionMatches(TypeError):
            # An error from the caller's hash function, or an interrupt in it.
            return -1
        PyErr_Clear()
    if not isinstance(name, str):
        refuse_type_of_name(name)
    if not is_strict:
        return 0
    # Imported here, as it is rarely needed and would slow down the start of the command.
    from mtlmon.support.atom_names import refuse_unknown

    refuse_unknown([name], atom_numbers, "them")


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
        raise EventError(f"an integer of bits cannot be negative, as {bits} is")
    else:
        for word in range(words):
            letter[word] = (bits >> (64 * word)) & UINT64_MAX
    if is_strict and bits >> count:
        raise EventError(
            f"{bits} has bits beyond the {count} atoms; unknown='ignore' passes over them"
        )
    # A program without atoms still has a word for them.
    if count == 0 or count & 63:
        letter[words - 1] &= (<uint64_t> 1 << (count & 63)) - 1
    return 0
