"""Plans slices: which variables of a policy are split, by how much, and what then goes where."""

from __future__ import annotations

from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING

from mtlmon.errors import LimitError
from mtlmon.policy.definitions import Policy
from mtlmon.policy.first_order.terms import predicate, terms_of
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.expression import Expression
from mtlmon.relational.atoms import made_atoms
from mtlmon.relational.binding import BindingAnalysis
from mtlmon.relational.closed import looks_ahead_without_bound
from mtlmon.relational.preparation import (
    Prepared,
    left_sides,
    opened_policy,
    prepared_lets,
    prepared_policies,
    readable,
    value_of_constant,
)
from mtlmon.relational.programs import is_mixed, kinds_of_variables
from mtlmon.relational.slicing.marks import (
    asks_for_marks,
    compares_numbers,
    lets_with_rows,
)
from mtlmon.relational.slicing.shares import Load, best_shares
from mtlmon.relational.slicing.statistics import Statistics
from mtlmon.syntax import operators as ops
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.report import shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.cells import Value
    from mtlmon.relational.preparation import LeftSide, PreparedLet

from mtlmon.relational.slicing.slices import (
    MOST_SLICES,
    MOST_VARIABLES,
    AtomMatch,
    Grid,
    PolicySlices,
    SlicedVariable,
    Slicing,
)

__all__ = ["plan_slices", "require_slices"]

_SHOWN = 60


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
    counts_triggered: bool = False,
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
        counts_triggered: whether to count how many valuations match the left sides of implications,
            as far as these can be evaluated by themselves.

    Raises:
        LimitError: there are more than `MOST_SLICES` slices, or a formula nests too deeply.
    """
    require_slices(count)
    prepared = prepared_policies(analysis)
    lefts = left_sides(analysis) if counts_triggered else []
    lets = prepared_lets(analysis)
    kinds = kinds_of_variables(
        [
            *(one.formula for one in prepared),
            *(one.formula for one in lefts),
            *(one.formula for one in lets.values()),
        ],
        analysis.predicates,
        file.environment,
    )
    for one in prepared:
        kinds |= dict(
            zip(one.names, (one.analysis.kinds[n] for n in one.analysis.reported), strict=True)
        )
    for let in lets.values():
        kinds |= zip(let.names, let.kinds, strict=True)
    statistics = statistics or Statistics()
    slicer = _Slicer(file, analysis, kinds, count, statistics, seed, lets)
    found = [
        slicer.policy(number, one, None if exposed is None else exposed[number])
        for number, one in enumerate(prepared)
    ]
    counted = tuple(left for left in lefts if slicer.is_countable(left))
    for number, left in enumerate(counted, len(prepared)):
        found.append(slicer.policy(number, slicer.as_find(left), ()))
    policies, formulas = zip(*found, strict=True) if found else ((), ())
    return Slicing(count, policies, formulas, statistics, seed, counted)


class _Slicer:
    def __init__(
        self,
        file: PolicyFile,
        analysis: Analysis,
        kinds: dict[str, Kind],
        count: int,
        statistics: Statistics,
        seed: int,
        lets: Mapping[str, PreparedLet],
    ) -> None:
        self.analysis = analysis
        self.relations = analysis.relations
        self.kinds = kinds
        self.environment = file.environment
        self.count = count
        self.statistics = statistics
        self.key = f"{seed}\0{file.text}".encode()
        self.lets = lets
        formulas = {name: let.formula for name, let in lets.items()}
        built_in = made_atoms(file)
        # what may have rows at a time-point without rows
        self.made = built_in | lets_with_rows(formulas, built_in)
        self.built_in = built_in

    def is_countable(self, left: LeftSide) -> bool:
        """Whether the valuations of a left side can be found by itself."""
        return not looks_ahead_without_bound(left.formula) and self.is_alone(left.formula)

    def as_find(self, left: LeftSide) -> Prepared:
        """A `find` of the valuations of a left side."""
        analysis = self.analysis.policies[left.policy]
        own = analysis.policy
        found = analysis._replace(
            policy=Policy(own.name, left.formula, left.formula, is_find=True),
            reported=left.names,
            kinds={name: self.kinds[name] for name in left.names},
        )
        return Prepared(found, left.formula, left.names)

    def policy(
        self, number: int, prepared: Prepared, given: Sequence[str] | None
    ) -> tuple[PolicySlices, Prepared]:
        """Plan the slices of a policy, with given exposed variables or any."""
        used = self.used_lets(prepared.formula)
        marks = asks_for_marks(prepared.formula, self.made, self.is_alone, used)
        compares = any(compares_numbers(one, self.made) for one in (prepared.formula, *used))
        opened = prepared.formula
        hidden: tuple[str, ...] = ()
        if prepared.names or not looks_ahead_without_bound(opened):
            opened, hidden = opened_policy(prepared, self.kinds, self.environment)
        atoms = self.atoms_of(opened, (*prepared.names, *hidden))
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
        return BindingAnalysis({}, mixed).is_alone(formula)

    def atoms_of(self, formula: Formula, names: Sequence[str]) -> list[Formula]:
        """The atoms of a formula whose rows the log has.

        A let that uses itself stands for the atoms of its formula, as often as it is used there,
        which goes on until there is nothing new.

        Args:
            formula: the formula.
            names: the variables that matter.
        """
        found: list[Formula] = []
        of_lets: list[Formula] = []
        seen: set[tuple[str, tuple[str, ...]]] = set()
        waiting: list[tuple[Formula, dict[str, Expression]]] = [(formula, {})]
        while waiting:
            whole, values = waiting.pop()
            for node in postorder(whole):
                name = node.name or ""
                if node.operator not in (ops.ATOM, ops.PREDICATE) or name in self.built_in:
                    continue
                arguments = [
                    values.get(one.name, one) if one.operator is terms.VARIABLE else one
                    for one in terms_of(node)
                ]
                if name not in self.lets:
                    own = predicate(name, *arguments) if arguments else node
                    (found if whole is formula else of_lets).append(own)
                    continue
                let = self.lets[name]
                given = {
                    parameter: one
                    for parameter, one in zip(let.names, arguments, strict=True)
                    if one.operator is terms.VARIABLE and one.name in names
                }
                key = (name, tuple(str(given.get(parameter)) for parameter in let.names))
                if key not in seen:
                    seen.add(key)
                    waiting.append((let.formula, given))
        wide: list[Formula] = []
        for one in of_lets:
            # a row that another occurrence wants everywhere need not be wanted somewhere
            if not any(_covers(two, one, names) for two in wide):
                wide = [two for two in wide if not _covers(one, two, names)]
                wide.append(one)
        return [*found, *wide]

    def used_lets(self, formula: Formula) -> list[Formula]:
        """The formulas of the lets that use themselves and that a formula uses."""
        found: dict[str, Formula] = {}
        waiting = [formula]
        while waiting:
            for node in postorder(waiting.pop()):
                name = node.name or ""
                if name in self.lets and name not in found:
                    found[name] = self.lets[name].formula
                    waiting.append(found[name])
        return list(found.values())

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


def _covers(one: Formula, other: Formula, names: Sequence[str]) -> bool:
    """Whether all rows that match an occurrence of an atom match another one, `one`, as well.

    Then `one` sends them wherever the other does.
    """
    if one.name != other.name:
        return False
    wanted: list[Expression | None] = []
    for term in terms_of(one):
        is_any = term.operator is not terms.CONSTANT and str(term.value) not in names
        wanted.append(None if is_any else term)
    variables = [str(term.value) for term in terms_of(one) if term.operator is terms.VARIABLE]
    return len(set(variables)) == len(variables) and all(
        term is None or term == two for term, two in zip(wanted, terms_of(other), strict=True)
    )


def _without(formula: Formula, names: Sequence[str], origin: Formula) -> Formula:
    """EXISTS of some variables around a formula."""
    if not names:
        return formula
    return Formula(ops.EXISTS, (formula,), None, None, origin.span, tuple(names))
