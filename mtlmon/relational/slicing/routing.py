"""Makes what the native splitter and joiner read of a plan of slices: numbers and cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.relational.atoms import cell_word
from mtlmon.relational.cells import to_cell
from mtlmon.relational.slicing.slices import AtomMatch

if TYPE_CHECKING:
    from mtlmon.arrays.native import KeyTable
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.slicing.slices import Grid, PolicySlices, Slicing

__all__ = ["MatchRoutes", "PolicyRoutes", "Routing", "routing_of", "routing_of_rows"]


class PolicyRoutes(NamedTuple):
    """A policy.

    Attributes:
        variables: for each sliced variable its column, whether it is a text, and the cells of its
            frequent values.
        grids: the grids.
        grid_of: the grid for each set of variables with frequent values.
        home: what is added to the number of a slice.
        reported: the number of reported variables.
        rank: the place of its answers among those that are found at the same time.
    """

    variables: tuple[tuple[int, bool, tuple[int, ...]], ...]
    grids: tuple[Grid, ...]
    grid_of: tuple[int, ...]
    home: int
    reported: int
    rank: int


class MatchRoutes(NamedTuple):
    """An occurrence of an atom.

    Attributes:
        policy: the number of the policy.
        width: the number of the atom's arguments.
        arguments: for each sliced variable, which argument has its value, or None.
        constants: the arguments that are constants, and their cells.
        equal: pairs of arguments that must be equal.
        routes: for each set of variables with frequent values, grids with what is added to the
            slice of a row.
    """

    policy: int
    width: int
    arguments: tuple[int | None, ...]
    constants: tuple[tuple[int, int], ...]
    equal: tuple[tuple[int, int], ...]
    routes: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]


class Routing(NamedTuple):
    """All policies.

    Attributes:
        slices: the number of slices.
        policies: in the order of their numbers.
        atoms: the occurrences of each atom, in the order of the atoms' numbers; or, of what an
            engine remembers, those of each kind of rows.
    """

    slices: int
    policies: tuple[PolicyRoutes, ...]
    atoms: tuple[tuple[MatchRoutes, ...], ...]


def routing_of(slicing: Slicing, made: Plan) -> Routing:
    """Return what the native splitter reads.

    Texts among frequent values and constants get numbers, so this comes before engines are made.

    Args:
        slicing: the plan of slices.
        made: the plan of a slice.
    """
    # the engine answers closed policies behind all others
    closed = {one.policy for one in made.closed}
    count = len(slicing.policies)
    policies = tuple(
        _policy(one, made.texts, number + count * (number in closed))
        for number, one in enumerate(slicing.policies)
    )
    atoms: list[tuple[MatchRoutes, ...]] = []
    for atom in made.named_atoms:
        found: dict[object, MatchRoutes] = {}
        for number, policy in enumerate(slicing.policies):
            for match in policy.atoms:
                if match.atom == atom.name:
                    routes = _match(number, policy, match, made, len(atoms))
                    # policies that are split alike need not be asked twice
                    found.setdefault(_alike(routes, policies[number]), routes)
        atoms.append(tuple(found.values()))
    return Routing(slicing.slices, policies, tuple(atoms))


def routing_of_rows(slicing: Slicing, routing: Routing, made: Plan) -> Routing:
    """Return which slices are right about the rows that engines remember, for each kind of rows.

    These are the states of the plan, then what each query makes, then what waits for the late
    block of each. A row is right in a slice that owns a valuation with its values: this slice
    gets all rows that matter for it.

    Args:
        slicing: the plan of slices.
        routing: what `routing_of` returned for it.
        made: the plan of a slice.
    """
    assert made.uses is not None
    kinds: list[tuple[MatchRoutes, ...]] = []
    for uses in (*made.uses.states, *made.uses.queries, *made.uses.waiting):
        found: dict[object, MatchRoutes] = {}
        for number, columns in uses:
            policy = slicing.policies[number]
            arguments = tuple(
                columns.index(one.place) if one.place in columns else None
                for one in policy.variables
            )
            match = AtomMatch("", arguments, (), ())
            routes = MatchRoutes(number, len(columns), arguments, (), (), _routes(policy, match))
            found.setdefault(_alike(routes, routing.policies[number]), routes)
        kinds.append(tuple(found.values()))
    return Routing(slicing.slices, routing.policies, tuple(kinds))


def _policy(policy: PolicySlices, texts: KeyTable, rank: int) -> PolicyRoutes:
    variables = []
    for one in policy.variables:
        cells = (to_cell(value, one.kind, texts) for value in one.heavy)
        heavy = tuple(sorted(cell for cell in cells if cell is not None))
        variables.append((one.place, cell_word(one.kind) == "text", heavy))
    return PolicyRoutes(
        tuple(variables), policy.grids, policy.grid_of, policy.home, len(policy.reported), rank
    )


def _match(
    number: int, policy: PolicySlices, match: AtomMatch, made: Plan, atom: int
) -> MatchRoutes:
    kinds = made.named_atoms[atom].kinds
    constants = []
    for place, value in match.constants:
        cell = to_cell(value, kinds[place], made.texts)
        assert cell is not None
        constants.append((place, cell))
    routes = _routes(policy, match)
    return MatchRoutes(number, len(kinds), match.arguments, tuple(constants), match.equal, routes)


def _routes(
    policy: PolicySlices, match: AtomMatch
) -> tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]:
    return tuple(
        tuple(
            (grid, tuple(policy.all_parts(match, grid)))
            for grid in policy.grid_numbers(match, heavy)
        )
        for heavy in range(len(policy.grid_of))
    )


def _alike(routes: MatchRoutes, policy: PolicyRoutes) -> object:
    """What is equal if two occurrences send each row to the same slices."""
    used = [place for place, argument in enumerate(routes.arguments) if argument is not None]
    by_set = []
    for bits, some in enumerate(routes.routes):
        if any(bits >> place & 1 for place in range(len(routes.arguments)) if place not in used):
            continue
        by_set.append(
            tuple(
                (
                    tuple(
                        (grid.shares[place], grid.strides[place], grid.seeds[place])
                        for place in used
                    ),
                    parts,
                )
                for number, parts in some
                for grid in [policy.grids[number]]
            )
        )
    arguments = tuple((routes.arguments[place], policy.variables[place][1:]) for place in used)
    return arguments, routes.constants, routes.equal, tuple(by_set)
