"""Gives policies that read the columns of an atom differently an atom each.

`atom pay(id) = ...` has numbers in a policy with `id > 5`, and texts in one that only compares ids.
The rows are the same, but their values are not. The first way in which policies read an atom keeps
its name, and others get names that `written_name` writes alike. So do lets with parameters.
"""

from __future__ import annotations

from mtlmon.policy.definitions import Relation
from mtlmon.policy.renaming import Renamer
from mtlmon.syntax.printer import name_of_reading
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.policy.definitions import Argument, Policy
    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.syntax.formula import Formula


def names_in(file: PolicyFile, formula: Formula) -> list[str]:
    """Return the atoms and lets with arguments that a formula uses, also by way of lets.

    A let comes after all that it uses.
    """
    found: dict[str, None] = {}
    stack: list[tuple[str, bool]] = [(name, False) for name in _own_names(file, formula)]
    while stack:
        name, is_done = stack.pop()
        if is_done or name not in file.parameters:
            found.setdefault(name)
        elif name not in found:
            stack.append((name, True))
            stack += ((one, False) for one in _own_names(file, file.lets[name]))
    return list(found)


def _own_names(file: PolicyFile, formula: Formula) -> list[str]:
    names = dict.fromkeys(node.name for node in postorder(formula) if node.name is not None)
    return [name for name in names if name in file.relations or name in file.parameters]


def set_arguments(
    file: PolicyFile,
    readings: Sequence[tuple[Policy | None, Mapping[str, tuple[Argument, ...]]]],
) -> None:
    """Set the arguments of the atoms of a file, and let policies use the atoms that they read.

    Args:
        file: the policy file.
        readings: policies with the arguments of their atoms, whose expressions say as what they
            read columns; None for atoms that no policy uses.
    """
    known: dict[str, list[object]] = {}
    # policies that read the same differently share what they share in the file
    renamers: dict[tuple[tuple[str, str], ...], Renamer] = {}
    lets: dict[tuple[object, ...], str] = {}
    for policy, read in readings:
        names: dict[str, str] = {}
        for name, arguments in read.items():
            ways = known.setdefault(name, [])
            way = tuple(one.expression for one in arguments)
            if way not in ways:
                ways.append(way)
                own = name_of_reading(name, len(ways) - 1)
                before = file.relations[name]
                file.relations[own] = Relation(
                    own,
                    arguments,
                    before.condition,
                    before.place,
                    is_declared=before.is_declared,
                )
            if place := ways.index(way):
                names[name] = name_of_reading(name, place)
        if policy is None or not names:
            continue
        for name in names_in(file, policy.formula):
            if name in file.parameters:
                _read_let(file, name, names, lets)
        renamer = renamers.setdefault(tuple(names.items()), Renamer(0, names, None))
        policy.formula = renamer.formula(policy.formula)


def _read_let(
    file: PolicyFile, name: str, names: dict[str, str], lets: dict[tuple[object, ...], str]
) -> None:
    """Give a let a name of its own, if what it uses has one.

    Args:
        file: the policy file, which gets the let.
        name: the let.
        names: the other names of atoms and lets, which it is added to.
        lets: the names of lets, by what these use.
    """
    formula = file.lets[name]
    used = {one: names[one] for one in _own_names(file, formula) if one in names}
    if not used:
        return
    key = (name, *used.items())
    if key not in lets:
        number = 1 + sum(one[0] == name for one in lets)
        lets[key] = name_of_reading(name, number)
        file.lets[lets[key]] = Renamer(0, used, None).formula(formula)
        file.parameters[lets[key]] = file.parameters[name]
    names[name] = lets[key]
