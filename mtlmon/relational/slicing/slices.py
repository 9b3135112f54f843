"""Plans how policies are sliced: which slices get a row, and which one owns a valuation.

A slice is a monitor of all policies of a file that gets some of the rows. Whether a valuation of a
policy's variables violates it depends on the rows that match one of its atoms under that valuation.
So a slice that gets at least these is right about the valuations that it *owns*, each of which
belongs to one slice; what it says about others is left out. As it may be wrong about others,
policies of one slice can share states. This is the joint data slicer of J. Schneider, D. Basin, F.
Brix, S. Krstić, D. Traytel, "Scalable Online First-Order Monitoring" (2021), with their hypercube
strategy:

The values of each variable are split by a hash function into as many parts as its *share* says, and
a slice is a combination of parts, a cell of a *grid*. Frequent ("heavy") values of a variable would
make one part too large; so each set of variables has a grid of its own, for the valuations in which
just these have frequent values, and in which they have the share 1.

Everything here is plain data, of which the native splitter is made as well as expressions of SQL:

    number of the grid = `grid_of[bits]`, with bit i for a frequent value of `variables[i]`
    part = pmod(xxhash64(seed, value), share), with both as Spark computes them
    slice = `home` + the sum of part * stride, over all variables

An atom that lacks a variable goes to all of its parts, in the grids for frequent values as well as
in those for others. A value is hashed as a bigint (integers, times in nanoseconds since 1970, and
Booleans as 0 and 1), a double or a string.
"""

from __future__ import annotations

from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.relational.closed import looks_ahead_without_bound
from mtlmon.relational.slicing.statistics import Statistics

if TYPE_CHECKING:
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.cells import Value
    from mtlmon.relational.preparation import LeftSide, Prepared

__all__ = [
    "MOST_SLICES",
    "AtomMatch",
    "Grid",
    "PolicySlices",
    "SlicedVariable",
    "Slicing",
]

MOST_SLICES = 1024
MOST_VARIABLES = 6
"""How many variables of a policy can be sliced: each doubles the number of grids."""


class SlicedVariable(NamedTuple):
    """A variable whose values are split.

    Attributes:
        name: its name in the policy.
        kind: the kind of its values.
        place: its column in the rows of a slice: reported variables come first, then exposed ones.
        heavy: its frequent values.
    """

    name: str
    kind: Kind
    place: int
    heavy: frozenset[Value]


class Grid(NamedTuple):
    """How the values of the variables are split, if a certain set of them has frequent values.

    Attributes:
        shares: the number of parts for each variable.
        strides: by how much the slices of neighbouring parts of a variable differ.
        seeds: of the hash function of each variable, from -2**63 to 2**63 - 1.
    """

    shares: tuple[int, ...]
    strides: tuple[int, ...]
    seeds: tuple[int, ...]


class AtomMatch(NamedTuple):
    """An occurrence of an atom in a formula. A row that matches one goes to its slices.

    Attributes:
        atom: the name of the atom.
        arguments: for each sliced variable, which argument has its value, or None.
        constants: the arguments that are constants, and their values.
        equal: pairs of arguments that must be equal.
    """

    atom: str
    arguments: tuple[int | None, ...]
    constants: tuple[tuple[int, Value], ...]
    equal: tuple[tuple[int, int], ...]


class PolicySlices(NamedTuple):
    """How a policy is sliced.

    Attributes:
        name: the name of the policy, or None.
        is_find: whether it is a `find`.
        reported: the variables that it reports.
        exposed: those of its EXISTS that are sliced as well. They belong to the rows of a slice,
            and are dropped when the owner of a row is known; equal rows are merged after that.
        variables: the variables that are sliced; none if the policy runs in one slice.
        grids: the different grids.
        grid_of: the number of the grid for each set of variables with frequent values.
        home: what is added to the number of a slice: for a policy in one slice, its number.
        atoms: the occurrences of atoms in its formula.
        marks: the parts of the formula, as text, because of which each slice gets all time-points;
            if there are none, those without rows for a slice can be left out.
        compares_numbers: whether it matters where time-points have been left out, so that they
            need their numbers.
        remark: why the policy runs in one slice, or None.
    """

    name: str | None
    is_find: bool
    reported: tuple[str, ...]
    exposed: tuple[str, ...]
    variables: tuple[SlicedVariable, ...]
    grids: tuple[Grid, ...]
    grid_of: tuple[int, ...]
    home: int
    atoms: tuple[AtomMatch, ...]
    marks: tuple[str, ...]
    compares_numbers: bool
    remark: str | None

    def grid_numbers(self, atom: AtomMatch, heavy: int = 0) -> list[int]:
        """The grids in which a row of an atom has slices.

        Args:
            atom: an occurrence of the atom.
            heavy: a bit for each variable of the atom of which the row has a frequent value.
        """
        found: dict[int, None] = {}
        for bits, number in enumerate(self.grid_of):
            if all(
                bits >> one & 1 == heavy >> one & 1
                if argument is not None
                else not bits >> one & 1 or variable.heavy
                for one, (argument, variable) in enumerate(
                    zip(atom.arguments, self.variables, strict=True)
                )
            ):
                found[number] = None
        return list(found)

    def all_parts(self, atom: AtomMatch, grid: int) -> list[int]:
        """What is added to the slice of a row, to get all of its slices in a grid.

        Args:
            atom: the occurrence of the atom.
            grid: the number of the grid.
        """
        found = [self.home]
        shares, strides, _ = self.grids[grid]
        for argument, share, stride in zip(atom.arguments, shares, strides, strict=True):
            if argument is None:
                found = [one + part * stride for one in found for part in range(share)]
        return sorted(found)


class Slicing(NamedTuple):
    """How the first-order policies of a file are sliced.

    Attributes:
        slices: how many there are.
        policies: in the order of the file.
        prepared: their formulas, with the exposed variables, for the plan of a slice.
        statistics: what was known of the log.
        seed: tells hash functions of the same text apart.
        lefts: the left sides that are counted. Each is sliced as a `find` of its valuations; these
            stand behind the policies of the file.
    """

    slices: int
    policies: tuple[PolicySlices, ...]
    prepared: tuple[Prepared, ...]
    statistics: Statistics
    seed: int
    lefts: tuple[LeftSide, ...] = ()

    @property
    def policy_count(self) -> int:
        """How many of the policies are those of the file."""
        return len(self.policies) - len(self.lefts)

    @property
    def exposed(self) -> tuple[tuple[str, ...], ...]:
        """The exposed variables of each policy, as its formula names them."""
        return tuple(one.exposed for one in self.prepared)

    def digest(self) -> bytes:
        """A digest that tells plans with other slices apart."""
        found = blake2b(f"{self.slices}".encode(), digest_size=16)
        for policy in self.policies:
            heavy = [sorted(map(repr, one.heavy)) for one in policy.variables]
            places = [one.place for one in policy.variables]
            found.update(repr((heavy, places, policy.grids, policy.grid_of, policy.home)).encode())
        return found.digest()

    def whole(self, *, holding: bool = False) -> list[bool]:
        """Return for each slice whether it gets all time-points, also those without rows for it.

        Args:
            holding: whether time-points without violations are answered. The home of each policy
                does that.
        """
        found = [False] * self.slices
        for number, (policy, prepared) in enumerate(zip(self.policies, self.prepared, strict=True)):
            if holding and number < self.policy_count:
                found[policy.home] = True
            # an ordinary monitor takes in all time-points
            if policy.marks or (not prepared.names and looks_ahead_without_bound(prepared.formula)):
                for grid in policy.grids:
                    for part in range(prod(grid.shares)):
                        found[policy.home + part] = True
        return found

    @property
    def needs_marks(self) -> bool:
        """Whether all slices get all time-points."""
        return any(one.marks for one in self.policies)

    @property
    def needs_numbers(self) -> bool:
        """Whether time-points need their numbers where some are left out."""
        return any(one.compares_numbers for one in self.policies)

    @property
    def is_of_stamps(self) -> bool:
        """Whether each time-stamp can count as a time-point whose number it is.

        Slices that know nothing of each other number time-points alike then. Otherwise all of them
        have to get all time-points.
        """
        return not (self.needs_marks or self.needs_numbers or any(self.whole()))
