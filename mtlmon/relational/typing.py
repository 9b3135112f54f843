"""Finds the types in each policy by itself, so that no policy changes those of another.

An equality of a number and a text makes both texts in its policy. In another, `x > 5` has the same
number. The rows are the same, but their cells are not, so such policies get an atom each, as those
do that read columns differently; the first types keep the name of the atom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.first_order.readings import OwnNames, names_in
from mtlmon.relational.binding import Definition
from mtlmon.relational.recursion import recursive_lets
from mtlmon.relational.types import Facts, find_types
from mtlmon.syntax.printer import name_of_rows, name_of_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.errors import FormulaError
    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.renaming import Renamer
    from mtlmon.relational.types import Types
    from mtlmon.syntax.formula import Formula

__all__ = ["TypedFile", "TypedPolicy", "find_typed"]


class TypedPolicy(NamedTuple):
    """A policy with its types.

    Attributes:
        policy: the policy.
        formula: its formula, with the names of the atoms and lets that have its types.
        variables: the kinds of its free variables, and of those of its leading FORALLs.
        mixed: the equalities of an integer and a float in it and in its lets, by their `id`.
    """

    policy: Policy
    formula: Formula
    variables: dict[str, Kind]
    mixed: frozenset[int]


class TypedFile(NamedTuple):
    """Policies with their types.

    Attributes:
        policies: the policies.
        relations: the kinds of the arguments of each atom by name.
        lets: the lets with parameters by name.
        errors: the clashes, in no particular order. What several policies use has them for each.
        recursive: the kinds of the parameters of each let that uses itself, and is used.
    """

    policies: list[TypedPolicy]
    relations: dict[str, tuple[Kind, ...]]
    lets: dict[str, Definition]
    errors: list[FormulaError]
    recursive: dict[str, tuple[Kind, ...]]


def find_typed(facts: Facts, policies: Sequence[Policy]) -> TypedFile:
    """Find the types in first-order policies of a file, and in what no policy uses.

    Args:
        facts: what is the same for all policies.
        policies: the policies.
    """
    file = facts.file
    own = OwnNames(file, name_of_types)
    lets = {name: Definition(names, file.lets[name]) for name, names in file.parameters.items()}
    found = TypedFile([], {}, lets, [], {})
    recursive = recursive_lets({name: let.formula for name, let in lets.items()})
    for names, formulas, users in _groups(file, policies):
        types = find_types(facts, names, formulas)
        found.errors.extend(types.errors)
        if not users:
            for name, kinds in types.relations.items():
                found.relations.setdefault(name, kinds)
            continue
        others: dict[str, str] = {}
        for name, kinds in types.relations.items():
            other = own.of_atom(name, kinds)
            found.relations[other] = kinds
            if other != name:
                others[name] = other
        # the rows of such a let have cells, like those of an atom
        ways = {name: kinds for name, kinds in types.lets.items() if name in recursive}
        for policy in users:
            found.policies.append(_typed(policy, types, own, others, ways))
            renamer = own.renamer(policy.formula, others, ways)
            for name, kinds in ways.items():
                found.recursive[name if renamer is None else renamer.name(name)] = kinds
    lets |= {
        name: Definition(file.parameters[own.written[name]], formula)
        for name, formula in own.lets.items()
    }
    places = {name: place for place, name in enumerate(file.relations)}
    in_order = sorted(found.relations.items(), key=lambda one: places[name_of_rows(one[0])])
    return found._replace(relations=dict(in_order))


def _groups(
    file: PolicyFile, policies: Sequence[Policy]
) -> Iterator[tuple[Sequence[str], list[Formula], Sequence[Policy]]]:
    """Yield policies whose types are found together, with the names and formulas that they use."""
    seen: set[str] = set()
    for policy in policies:
        names = names_in(file, policy.formula)
        seen.update(names)
        yield names, [policy.formula], [policy]
    for name in [*file.parameters, *file.relations]:
        if name not in seen:
            inner = names_in(file, file.lets[name]) if name in file.parameters else []
            seen.update(inner)
            yield [*inner, name], [], []


def _typed(
    policy: Policy,
    types: Types,
    own: OwnNames,
    others: dict[str, str],
    ways: Mapping[str, tuple[Kind, ...]],
) -> TypedPolicy:
    """Give a policy its atoms and lets."""
    renamer = own.renamer(policy.formula, others, ways)
    formula = policy.formula if renamer is None else renamer.formula(policy.formula)
    renamers: list[Renamer] = [] if renamer is None else own.all_renamers(renamer)
    mixed = {id(node) for node in types.mixed}
    mixed |= {id(one.formula(node)) for one in renamers for node in types.mixed}
    return TypedPolicy(policy, formula, types.variables(policy.formula), frozenset(mixed))
