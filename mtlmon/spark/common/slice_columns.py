"""Expressions of SQL for slices: which slices get a row of an atom, and which one owns a valuation.

They are made of the plan of slices, and computed by Spark itself. They are written as texts, which
Spark reads at once: of many policies, they have more parts than Python can tell Java one by one.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from mtlmon.spark.common.atom_rows import ATOM, END, MARK, packed_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from mtlmon.relational.slicing import AtomMatch, PolicySlices, Slicing
    from mtlmon.spark.common.atom_rows import AtomColumns

__all__ = ["case_of", "literal", "owner", "slices_of_rows"]

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

    found = {
        MARK: f"sequence(0, {slicing.slices - 1})",
        END: f"sequence(0, {max(visited, slicing.slices) - 1})",
    }
    for number, name in enumerate(columns.names):
        arguments = columns.columns_of(number)
        # policies with the same shares ask for the same
        parts = dict.fromkeys(
            part
            for policy in slicing.policies
            for match in policy.atoms
            if match.atom == name
            for part in _parts_of_match(policy, match, arguments)
        )
        if parts:
            found[number] = f"array_distinct(flatten(array({', '.join(parts)})))"
    return F.expr(case_of(ATOM, found))


def case_of(column: str, values: dict[int, str]) -> str:
    """Return the expression of the value for a number in a column; it is null for others."""
    cases = (f"WHEN {number} THEN {value}" for number, value in values.items())
    return f"CASE {column} {' '.join(cases)} END"


def _parts_of_match(policy: PolicySlices, match: AtomMatch, arguments: Sequence[str]) -> list[str]:
    """The slices that a policy needs a row in if it matches an atom, as arrays to join."""
    own = [one for one, argument in enumerate(match.arguments) if argument is not None]

    def value(variable: int) -> str:
        place = match.arguments[variable]
        assert place is not None
        return arguments[place]

    conditions = [f"{arguments[place]} = {literal(one)}" for place, one in match.constants]
    conditions += [f"{arguments[one]} = {arguments[other]}" for one, other in match.equal]
    skewed = [one for one in own if policy.variables[one].heavy]
    found = []
    for heavy, tests in _heavy_sets(policy, skewed, value):
        slices: list[str] = []
        for grid in policy.grid_numbers(match, heavy):
            base = _place(policy, grid, own, value)
            slices += [f"{base} + {part}" for part in policy.all_parts(match, grid)]
        array = f"array({', '.join(slices)})"
        if conditions or tests:
            test = " AND ".join([*conditions, *tests])
            array = f"CASE WHEN {test} THEN {array} ELSE CAST(array() AS ARRAY<INT>) END"
        found.append(array)
    return found


def owner(slicing: Slicing, kinds: Sequence[Sequence[str]]) -> Column:
    """Return the slice that owns a valuation.

    Args:
        slicing: the plan of slices.
        kinds: for each policy the kinds of the reported and exposed variables.
    """
    from pyspark.sql import functions as F

    found = {
        number: _owner_in(policy, packed_names(own))
        for number, (policy, own) in enumerate(zip(slicing.policies, kinds, strict=True))
    }
    return F.expr(case_of(POLICY, found))


def _owner_in(policy: PolicySlices, columns: Sequence[str]) -> str:
    def value(variable: int) -> str:
        return columns[policy.variables[variable].place]

    every = range(len(policy.variables))
    skewed = [one for one in every if policy.variables[one].heavy]
    cases = []
    for heavy, tests in _heavy_sets(policy, skewed, value):
        slice_of = f"{_place(policy, policy.grid_of[heavy], every, value)} + {policy.home}"
        if not tests:
            return slice_of
        cases.append(f"WHEN {' AND '.join(tests)} THEN {slice_of}")
    return f"CASE {' '.join(cases)} END"


def _place(
    policy: PolicySlices, grid: int, variables: Sequence[int], value: Callable[[int], str]
) -> str:
    """The sum of part * stride over some variables."""
    shares, strides, seeds = policy.grids[grid]
    total = ["0"]
    for one in variables:
        if shares[one] > 1:
            hashed = f"xxhash64({literal(seeds[one])}, {value(one)})"
            part = f"CAST(pmod({hashed}, {literal(shares[one])}) AS INT)"
            total.append(f"{part} * {strides[one]}")
    return " + ".join(total)


def _heavy_sets(
    policy: PolicySlices, skewed: Sequence[int], value: Callable[[int], str]
) -> list[tuple[int, list[str]]]:
    """All sets of variables with frequent values, and whether it is just these that have them."""
    found = []
    for chosen in product([False, True], repeat=len(skewed)):
        tests = []
        for one, is_heavy in zip(skewed, chosen, strict=True):
            # sorted, so that plans do not depend on the order in sets
            values = ", ".join(sorted(map(literal, policy.variables[one].heavy)))
            tests.append(f"{value(one)} {'' if is_heavy else 'NOT '}IN ({values})")
        heavy = sum(1 << one for one, is_heavy in zip(skewed, chosen, strict=True) if is_heavy)
        found.append((heavy, tests))
    return found


def literal(value: object) -> str:
    """Return a value as rows of atoms have it, as an expression; texts with any characters."""
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    assert isinstance(value, int)
    return f"CAST('{int(value)}' AS BIGINT)"
