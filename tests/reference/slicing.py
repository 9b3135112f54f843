"""Which slices get a row, and which one owns a valuation, written for obviousness."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from mtlmon.relational.slicing import AtomMatch, PolicySlices, SlicedVariable
from tests.doors import Value

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxhash64(data: bytes, seed: int) -> int:
    """The hash function XXH64 of Yann Collet, as a signed number."""

    def rotated(word: int, bits: int) -> int:
        word &= _MASK
        return (word << bits | word >> (64 - bits)) & _MASK

    def mixed(accumulator: int, word: int) -> int:
        return rotated(accumulator + word * _P2, 31) * _P1 & _MASK

    seed &= _MASK
    size, place = len(data), 0
    if size >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while place + 32 <= size:
            words = struct.unpack_from("<4Q", data, place)
            lanes = [mixed(lane, word) for lane, word in zip(lanes, words, strict=True)]
            place += 32
        found = sum(map(rotated, lanes, (1, 7, 12, 18))) & _MASK
        for lane in lanes:
            found = ((found ^ mixed(0, lane)) * _P1 + _P4) & _MASK
    else:
        found = (seed + _P5) & _MASK
    found = (found + size) & _MASK
    while place + 8 <= size:
        (word,) = struct.unpack_from("<Q", data, place)
        found = (rotated(found ^ mixed(0, word), 27) * _P1 + _P4) & _MASK
        place += 8
    if place + 4 <= size:
        (word,) = struct.unpack_from("<I", data, place)
        found = (rotated(found ^ word * _P1, 23) * _P2 + _P3) & _MASK
        place += 4
    for byte in data[place:]:
        found = rotated(found ^ byte * _P5, 11) * _P1 & _MASK
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    found ^= found >> 32
    return found - 2**64 if found >= 2**63 else found


def hashed(value: Value, seed: int) -> int:
    """What `xxhash64(seed, value)` is in Spark: its own seed is 42, and the arguments chain."""
    chained = xxhash64(struct.pack("<q", seed), 42)
    if isinstance(value, str):
        return xxhash64(value.encode(), chained)
    if isinstance(value, float):
        return xxhash64(struct.pack("<d", value or 0.0), chained)
    return xxhash64(struct.pack("<q", value), chained)


def is_heavy(value: Value, variable: SlicedVariable) -> bool:
    return value in variable.heavy


def owner(policy: PolicySlices, row: Sequence[Value]) -> int:
    """The slice that owns a row of a slice: reported and exposed variables."""
    values = [row[one.place] for one in policy.variables]
    bits = sum(
        is_heavy(value, variable) << number
        for number, (value, variable) in enumerate(zip(values, policy.variables, strict=True))
    )
    grid = policy.grids[policy.grid_of[bits]]
    return policy.home + sum(
        hashed(value, seed) % share * stride
        for value, seed, share, stride in zip(
            values, grid.seeds, grid.shares, grid.strides, strict=True
        )
    )


def slices_of(policy: PolicySlices, atom: str, row: Sequence[Value]) -> set[int]:
    """The slices of all valuations under which an atom of the formula is the row."""
    found: set[int] = set()
    for match in policy.atoms:
        if match.atom == atom and _matches(match, row):
            found |= set(_slices_of_match(policy, match, row))
    return found


def _matches(match: AtomMatch, row: Sequence[Value]) -> bool:
    return all(row[place] == value for place, value in match.constants) and all(
        row[one] == other for one, other in ((a, row[b]) for a, b in match.equal)
    )


def _slices_of_match(policy: PolicySlices, match: AtomMatch, row: Sequence[Value]) -> Iterator[int]:
    for heavy in product([False, True], repeat=len(policy.variables)):
        possible = True
        for argument, is_frequent, variable in zip(
            match.arguments, heavy, policy.variables, strict=True
        ):
            if argument is not None:
                possible &= is_heavy(row[argument], variable) == is_frequent
            elif is_frequent:
                possible &= bool(variable.heavy)
        if not possible:
            continue
        bits = sum(one << number for number, one in enumerate(heavy))
        grid = policy.grids[policy.grid_of[bits]]
        parts = [
            range(share) if argument is None else [hashed(row[argument], seed) % share]
            for argument, share, seed in zip(match.arguments, grid.shares, grid.seeds, strict=True)
        ]
        for cell in product(*parts):
            yield policy.home + sum(
                part * stride for part, stride in zip(cell, grid.strides, strict=True)
            )


def rows_of_slices(
    policies: Sequence[PolicySlices],
    slices: int,
    database: Mapping[str, Sequence[Sequence[Value]]],
) -> list[dict[str, list[Sequence[Value]]]]:
    """What each slice gets of a database."""
    found: list[dict[str, list[Sequence[Value]]]] = [{} for _ in range(slices)]
    for atom, rows in database.items():
        for row in rows:
            for one in set().union(*(slices_of(policy, atom, row) for policy in policies)):
                found[one].setdefault(atom, []).append(row)
    return found
