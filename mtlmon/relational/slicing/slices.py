"""Plans how policies are sliced: which slices get a row, and which one owns a valuation.

A slice is a monitor of all policies of a file that gets some of the rows. Whether a valuation of a
policy's variables violates it depends on the rows that match one of its atoms under that valuation.
So a slice that gets at least these is right about the valuations that it *owns*, each of which
belongs to one slice; what it says about others is left out. This is the joint data slicer of
J. Schneider et al., "Scalable Online First-Order Monitoring", with their hypercube strategy:

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

from mtlmon.errors import LimitError
from mtlmon.policy.first_order.terms import terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.relational.atoms import is_built_in
from mtlmon.relational.binding import BindingAnalysis, Unbound
from mtlmon.relational.closed import looks_ahead_without_bound
from mtlmon.relational.preparation import (
    opened_policy,
    prepared_policies,
    readable,
    value_of_constant,
)
from mtlmon.relational.programs import is_mixed, kinds_of_variables
from mtlmon.relational.slicing.marks import asks_for_marks, compares_numbers
from mtlmon.relational.slicing.shares import Load, best_shares
from mtlmon.relational.slicing.statistics import Statistics
from mtlmon.support.generators import run
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.cells import Value
    from mtlmon.relational.preparation import Prepared

__all__ = [
    "MOST_SLICES",
    "AtomMatch",
    "Grid",
    "PolicySlices",
    "SlicedVariable",
    "Slicing",
    "plan_slices",
    "require_slices",
]

MOST_SLICES = 1024
MOST_VARIABLES = 6
"""How many variables of a policy can be sliced: each doubles the number of grids."""
_SHOWN = 60


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
    """

    slices: int
    policies: tuple[PolicySlices, ...]
    prepared: tuple[Prepared, ...]
    statistics: Statistics
    seed: int

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
        for policy, prepared in zip(self.policies, self.prepared, strict=True):
            if holding:
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


def require_slices(count: int) -> None:
    """Raise LimitError if there cannot be so many slices."""
    if not 1 <= count <= MOST_SLICES:
        raise LimitError(f"the number of slices is from 1 to {MOST_SLICES}, not {count}")


def plan_slices(
    file: PolicyFile,
    analysis: Analysis,
    count: int,
    *,
    statistics: Statistics | None = None,
    seed: int = 0,
    exposed: Sequence[Sequence[str]] | None = None,
) -> Slicing:
    """Plan how the first-order policies of a file are sliced.

    Args:
        file: the policy file.
        analysis: what `analyse` found, without errors.
        count: the number of slices.
        statistics: what is known of the log.
        seed: other seeds make other hash functions, of the same text.
        exposed: those of another plan, to which what slices remember can be moved then; by
            default, the variables of EXISTS that are split.

    Raises:
        LimitError: there are more than `MOST_SLICES` slices, or a formula nests too deeply.
    """
    require_slices(count)
    prepared = prepared_policies(file, analysis)
    kinds = kinds_of_variables(
        [one.formula for one in prepared], analysis.relations, file.environment
    )
    for one in prepared:
        kinds |= dict(
            zip(one.names, (one.analysis.kinds[n] for n in one.analysis.reported), strict=True)
        )
    statistics = statistics or Statistics()
    slicer = _Slicer(file, analysis, kinds, count, statistics, seed)
    found = [
        slicer.policy(number, one, None if exposed is None else exposed[number])
        for number, one in enumerate(prepared)
    ]
    policies, formulas = zip(*found, strict=True) if found else ((), ())
    return Slicing(count, policies, formulas, statistics, seed)


class _Slicer:
    def __init__(
        self,
        file: PolicyFile,
        analysis: Analysis,
        kinds: dict[str, Kind],
        count: int,
        statistics: Statistics,
        seed: int,
    ) -> None:
        self.relations = analysis.relations
        self.kinds = kinds
        self.environment = file.environment
        self.count = count
        self.statistics = statistics
        self.key = f"{seed}\0{file.text}".encode()
        self.built_in = {name for name in ("point", "time") if is_built_in(file, name)}

    def policy(
        self, number: int, prepared: Prepared, given: Sequence[str] | None
    ) -> tuple[PolicySlices, Prepared]:
        """Plan the slices of a policy, with given exposed variables or any."""
        marks = asks_for_marks(prepared.formula, self.built_in, self.is_alone)
        compares = compares_numbers(prepared.formula, self.built_in)
        opened = prepared.formula
        hidden: tuple[str, ...] = ()
        if prepared.names or not looks_ahead_without_bound(opened):
            opened, hidden = opened_policy(prepared, self.kinds, self.environment)
        atoms = [one for one in postorder(opened) if self.is_of_log(one)]
        available = hidden if given is None else tuple(given)
        names = self.candidates(opened, (*prepared.names, *available), atoms)
        shares = self.shares(names, atoms)
        # what has the share 1 everywhere is not split
        split = [
            place for place, _ in enumerate(names) if any(one[place] > 1 for one in shares.values())
        ]
        names = [names[place] for place in split]
        exposed = tuple(name for name in hidden if name in (names if given is None else available))
        if exposed:
            prepared = prepared._replace(
                formula=_without(opened, [name for name in hidden if name not in exposed], opened),
                exposed=exposed,
            )
        columns = (*prepared.names, *exposed)
        variables = tuple(
            SlicedVariable(
                self.shown(name, prepared),
                self.kinds[name],
                columns.index(name),
                self.heavy(name, atoms),
            )
            for name in names
        )
        found = self.grids(variables, shares, split)
        policy = prepared.analysis.policy
        return (
            PolicySlices(
                policy.name,
                policy.is_find,
                prepared.analysis.reported,
                tuple(self.shown(name, prepared) for name in exposed),
                variables,
                *found,
                0 if names else number % self.count,
                self.matches(atoms, names),
                tuple(shorten(visible(readable(one)), _SHOWN) for one in marks),
                compares,
                None if names else self.remark(prepared, atoms),
            ),
            prepared,
        )

    # Variables

    def is_alone(self, formula: Formula) -> bool:
        """Whether a formula binds its free variables."""
        mixed = {
            id(node)
            for node in postorder(formula)
            if node.operator is ops.COMPARISON and is_mixed(node, self.kinds, self.environment)
        }
        binding = BindingAnalysis({}, mixed)
        found = run(binding.evaluated(formula, frozenset()))
        return not isinstance(found, Unbound) and binding.free(formula) <= found

    def is_of_log(self, node: Formula) -> bool:
        """Whether a formula is an atom whose rows the log has."""
        if node.operator is ops.PREDICATE:
            return node.name not in self.built_in
        return node.operator is ops.ATOM

    def candidates(
        self, formula: Formula, names: Sequence[str], atoms: Sequence[Formula]
    ) -> list[str]:
        """The variables that can be split, in their order, those of the most rows if many."""
        rows = dict.fromkeys(names, 0.0)
        seen = set()
        for atom in atoms:
            for name in {one.name for one in terms_of(atom) if one.operator is terms.VARIABLE}:
                if name in rows:
                    rows[name] += self.statistics.rate(atom.name or "")
                    seen.add(name)
        for node in postorder(formula):
            # the result of an aggregate has few values
            if node.operator is ops.COMPARISON and node.operands:
                (term,) = terms_of(node)
                if term.operator is terms.EQUAL:
                    seen -= {one.name for one in term.operands if one.operator is terms.VARIABLE}
        best = sorted((name for name in names if name in seen), key=lambda one: -rows[one])
        kept = set(best[:MOST_VARIABLES])
        return [name for name in names if name in kept]

    def heavy(self, name: str, atoms: Sequence[Formula]) -> frozenset[Value]:
        """The frequent values of a variable."""
        found: frozenset[Value] = frozenset()
        for atom in atoms:
            for place, argument in enumerate(terms_of(atom)):
                if argument.operator is terms.VARIABLE and argument.name == name:
                    found |= self.statistics.heavy.get((atom.name or "", place), frozenset())
        return found

    # Grids

    def shares(
        self, names: Sequence[str], atoms: Sequence[Formula]
    ) -> dict[frozenset[int], tuple[int, ...]]:
        """The best shares for each set of variables that can have frequent values."""
        loads = [
            Load(
                self.statistics.rate(atom.name or ""),
                frozenset(
                    names.index(one.name)
                    for one in terms_of(atom)
                    if one.operator is terms.VARIABLE and one.name in names
                ),
            )
            for atom in atoms
        ]
        skewed = [number for number, name in enumerate(names) if self.heavy(name, atoms)]
        found = {}
        for bits in range(1 << len(skewed)):
            fixed = frozenset(one for place, one in enumerate(skewed) if bits >> place & 1)
            found[fixed] = best_shares(loads, len(names), self.count, fixed)
        return found

    def grids(
        self,
        variables: Sequence[SlicedVariable],
        shares: dict[frozenset[int], tuple[int, ...]],
        split: Sequence[int],
    ) -> tuple[tuple[Grid, ...], tuple[int, ...]]:
        """The grids, and which one each set of variables with frequent values has."""
        grids: dict[tuple[int, ...], int] = {}
        grid_of = []
        for bits in range(1 << len(variables)):
            fixed = frozenset(
                split[one]
                for one, variable in enumerate(variables)
                if bits >> one & 1 and variable.heavy
            )
            vector = tuple(shares[fixed][place] for place in split)
            # equal grids have the same hash functions, so that fewer rows go to several slices
            grid_of.append(grids.setdefault(vector, len(grids)))
        return (
            tuple(
                Grid(
                    vector,
                    tuple(prod(vector[:place]) for place in range(len(vector))),
                    tuple(self.seed(vector, place) for place in range(len(vector))),
                )
                for vector in grids
            ),
            tuple(grid_of),
        )

    def seed(self, shares: tuple[int, ...], place: int) -> int:
        """The seed of a hash function. It depends on the text of the policies.

        Policies that are split alike have the same functions, so that fewer rows are copied.
        """
        if shares[place] == 1:
            return 0
        real = [share for share in shares if share > 1]
        ordinal = sum(share > 1 for share in shares[:place])
        digest = blake2b(self.key, digest_size=8)
        digest.update(f"\0{real} {ordinal}".encode())
        return int.from_bytes(digest.digest(), "little", signed=True)

    # Atoms

    def matches(self, atoms: Sequence[Formula], names: Sequence[str]) -> tuple[AtomMatch, ...]:
        """The different occurrences of atoms."""
        found: dict[AtomMatch, None] = {}
        for atom in atoms:
            places: dict[str, int] = {}
            constants: list[tuple[int, Value]] = []
            equal: list[tuple[int, int]] = []
            known = self.relations.get(atom.name or "", ()) if terms_of(atom) else ()
            for place, (argument, kind) in enumerate(zip(terms_of(atom), known, strict=True)):
                if argument.operator is terms.CONSTANT:
                    constants.append((place, value_of_constant(argument.value, kind)))
                elif argument.operator is terms.VARIABLE:
                    if argument.name in places:
                        equal.append((places[argument.name], place))
                    places.setdefault(argument.name, place)
            arguments = tuple(places.get(name) for name in names)
            found[AtomMatch(atom.name or "", arguments, tuple(constants), tuple(equal))] = None
        return tuple(found)

    # Words

    def shown(self, name: str, prepared: Prepared) -> str:
        """The name of a variable as it is written."""
        if name in prepared.names:
            return prepared.analysis.reported[prepared.names.index(name)]
        return name.partition(" ")[0]

    def remark(self, prepared: Prepared, atoms: Sequence[Formula]) -> str | None:
        """Why a policy runs in one slice."""
        if self.count == 1:
            return None
        if not prepared.names:
            return "it has no variables to split rows by"
        if not any(
            one.operator is terms.VARIABLE and one.name in prepared.names
            for atom in atoms
            for one in terms_of(atom)
        ):
            return "no atom has one of its variables"
        return "most of its rows would go to all slices"


def _without(formula: Formula, names: Sequence[str], origin: Formula) -> Formula:
    """EXISTS of some variables around a formula."""
    if not names:
        return formula
    return Formula(ops.EXISTS, (formula,), None, None, origin.span, tuple(names))
