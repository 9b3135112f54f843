"""Expressions of SQL for slices: which slices get a row of an atom, and which one owns a valuation.

They are made of the plan of slices, and computed by Spark itself.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from mtlmon.spark.common.atom_rows import ATOM, END, MARK, packed_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from mtlmon.relational.slicing import AtomMatch, PolicySlices, Slicing
    from mtlmon.spark.common.atom_rows import AtomColumns

__all__ = ["owner", "slices_of_rows", "values_columns"]

POLICY = "number"
"""The column with the number of the policy of a valuation."""


def slices_of_rows(slicing: Slicing, columns: AtomColumns, visited: int = 0) -> Column:
    """Return the slices that get a row of an atom, as an array; marks go to all slices.

    Args:
        slicing: the plan of slices.
        columns: the columns of rows of atoms.
        visited: how many slices get marks of the end, if that is more.
    """
    from pyspark.sql import functions as F

    everywhere = F.sequence(F.lit(0), F.lit(slicing.slices - 1))
    atom = F.col(ATOM)
    found = F.when(atom == MARK, everywhere).when(
        atom == END, F.sequence(F.lit(0), F.lit(max(visited, slicing.slices) - 1))
    )
    for number, name in enumerate(columns.names):
        arguments = [F.col(one) for one in columns.columns_of(number)]
        parts = [
            part
            for policy in slicing.policies
            for match in policy.atoms
            if match.atom == name
            for part in _parts_of_match(policy, match, arguments)
        ]
        if parts:
            every = parts[0] if len(parts) == 1 else F.flatten(F.array(*parts))
            found = found.when(atom == number, F.array_distinct(every))
    return found


def _parts_of_match(
    policy: PolicySlices, match: AtomMatch, arguments: Sequence[Column]
) -> list[Column]:
    """The slices that a policy needs a row in if it matches an atom, as arrays to join."""
    from pyspark.sql import functions as F

    own = [one for one, argument in enumerate(match.arguments) if argument is not None]

    def value(variable: int) -> Column:
        place = match.arguments[variable]
        assert place is not None
        return arguments[place]

    conditions = [
        arguments[place] == F.lit(_literal(constant)) for place, constant in match.constants
    ]
    conditions += [arguments[one] == arguments[other] for one, other in match.equal]
    skewed = [one for one in own if policy.variables[one].heavy]
    found = []
    for bits in range(1 << len(skewed)):
        heavy = sum(1 << one for place, one in enumerate(skewed) if bits >> place & 1)
        tests = [*conditions, *_heavy_tests(policy, skewed, heavy, value)]
        slices: list[Column] = []
        for grid in policy.grid_numbers(match, heavy):
            base = _place(policy, grid, own, value)
            slices += [base + F.lit(part) for part in policy.all_parts(match, grid)]
        array = F.array(*slices).cast("array<int>")
        if tests:
            array = F.when(_all(tests), array).otherwise(F.array().cast("array<int>"))
        found.append(array)
    return found


def owner(slicing: Slicing, kinds: Sequence[Sequence[str]]) -> Column:
    """Return the slice that owns a valuation.

    Args:
        slicing: the plan of slices.
        kinds: for each policy the kinds of the reported and exposed variables.
    """
    from pyspark.sql import functions as F

    found: Column | None = None
    for number, (policy, own) in enumerate(zip(slicing.policies, kinds, strict=True)):
        columns = [F.col(name) for name in packed_names(own)]
        slice_of = _owner_in(policy, columns)
        test = F.col(POLICY) == number
        found = F.when(test, slice_of) if found is None else found.when(test, slice_of)
    assert found is not None
    return found


def _owner_in(policy: PolicySlices, columns: Sequence[Column]) -> Column:
    from pyspark.sql import functions as F

    def value(variable: int) -> Column:
        return columns[policy.variables[variable].place]

    every = range(len(policy.variables))
    skewed = [one for one in every if policy.variables[one].heavy]
    found: Column | None = None
    for bits in range(1 << len(skewed)):
        heavy = sum(1 << one for place, one in enumerate(skewed) if bits >> place & 1)
        grid = policy.grid_of[heavy]
        slice_of = _place(policy, grid, every, value) + F.lit(policy.home)
        tests = _heavy_tests(policy, skewed, heavy, value)
        if not tests:
            return slice_of
        test = _all(tests)
        found = F.when(test, slice_of) if found is None else found.when(test, slice_of)
    assert found is not None
    return found


def values_columns(kinds: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the columns that hold the values of each policy's variables."""
    return [packed_names(own) for own in kinds]


def _place(
    policy: PolicySlices, grid: int, variables: Sequence[int], value: Callable[[int], Column]
) -> Column:
    """The sum of part * stride over some variables."""
    from pyspark.sql import functions as F

    shares, strides, seeds = policy.grids[grid]
    total = F.lit(0)
    for one in variables:
        if shares[one] > 1:
            hashed = F.xxhash64(F.lit(seeds[one]).cast("bigint"), value(one))
            part = F.pmod(hashed, F.lit(shares[one]).cast("bigint")).cast("int")
            total = total + part * F.lit(strides[one])
    return total


def _heavy_tests(
    policy: PolicySlices, skewed: Sequence[int], heavy: int, value: Callable[[int], Column]
) -> list[Column]:
    """Whether just some of the variables have frequent values."""
    tests = []
    for one in skewed:
        # sorted, so that plans do not depend on the order in sets
        values = sorted(map(_literal, policy.variables[one].heavy), key=str)
        test = value(one).isin(*values)
        tests.append(test if heavy >> one & 1 else ~test)
    return tests


def _literal(value: object) -> object:
    """A value as rows of atoms have it."""
    return int(value) if isinstance(value, bool) else value


def _all(tests: Sequence[Column]) -> Column:
    return reduce(lambda one, other: one & other, tests)
