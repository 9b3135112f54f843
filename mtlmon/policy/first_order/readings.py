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
    from collections.abc import Callable, Mapping, Sequence

    from mtlmon.policy.definitions import Argument, Policy
    from mtlmon.policy.policy_file import PolicyFile
    from mtlmon.syntax.formula import Formula


def names_in(file: PolicyFile, formula: Formula) -> list[str]:
    """Return the atoms and lets with arguments that a formula uses, also by way of lets.

    A let comes after all that it uses, but for lets that use it.
    """
    found: dict[str, None] = {}
    opened: set[str] = set()
    stack: list[tuple[str, bool]] = [(name, False) for name in _own_names(file, formula)]
    while stack:
        name, is_done = stack.pop()
        if is_done or name not in file.parameters:
            found.setdefault(name)
        elif name not in opened:
            opened.add(name)
            stack.append((name, True))
            stack += ((one, False) for one in _own_names(file, file.lets[name]))
    return list(found)


def _own_names(file: PolicyFile, formula: Formula) -> list[str]:
    names = dict.fromkeys(node.name for node in postorder(formula) if node.name is not None)
    return [name for name in names if name in file.relations or name in file.parameters]


class OwnNames:
    """Names of atoms and lets of their own for policies to which these are not what others have.

    Args:
        file: the policy file, which stays as it is.
        name_of: the name of an atom or let by its name in the file and a number, as
            `name_of_reading`.

    Attributes:
        lets: the lets that have got a name of their own, by this name; each stands in the file
            under the name of `written`.
        written: the names of these lets in the file.
    """

    def __init__(self, file: PolicyFile, name_of: Callable[[str, int], str]) -> None:
        self.lets: dict[str, Formula] = {}
        self.written: dict[str, str] = {}
        self._file = file
        self._name_of = name_of
        self._ways: dict[str, list[object]] = {}
        # the kinds of the parameters of recursive lets that keep their names
        self._kept: dict[str, object] = {}
        self._lets: dict[tuple[object, ...], str] = {}
        self._of_lets: dict[str, Renamer] = {}
        # policies that have the same names share what they share in the file
        self._renamers: dict[tuple[tuple[str, str], ...], Renamer] = {}

    def of_atom(self, name: str, way: object) -> str:
        """Return the name of an atom for the policies to which it is this.

        Args:
            name: its name in the file.
            way: what tells it from what it is to others. The first one keeps the name.
        """
        ways = self._ways.setdefault(name, [])
        if way not in ways:
            ways.append(way)
        return self._name_of(name, ways.index(way))

    def renamer(
        self,
        formula: Formula,
        names: Mapping[str, str],
        ways: Mapping[str, object] | None = None,
    ) -> Renamer | None:
        """Return what gives a policy its names of atoms, and of the lets that use these.

        Args:
            formula: the formula of the policy.
            names: the atoms that have a name of their own for it.
            ways: what tells lets that use themselves from what they are to other policies.

        Returns:
            None if it has no other names than the file.
        """
        if not names and not ways:
            return None
        own = dict(names)
        new: list[str] = []
        for name in names_in(self._file, formula):
            if name in self._file.parameters and self._name_let(name, names, ways or {}, own):
                new.append(name)
        if not own:
            return None
        for name in new:
            # all names are known now: a let may use itself
            self._read_let(name, own)
        return self._renamers.setdefault(tuple(own.items()), Renamer(0, own, None))

    def all_renamers(self, renamer: Renamer) -> list[Renamer]:
        """Return what `renamer` has returned, with what made the lets that the policy uses."""
        of_lets = (self._of_lets[name] for name in renamer.names.values() if name in self._of_lets)
        return [renamer, *of_lets]

    def _name_let(
        self, name: str, atoms: Mapping[str, str], ways: Mapping[str, object], names: dict[str, str]
    ) -> bool:
        """Give a let a name of its own, if what it uses has one, and add it to the names.

        Returns:
            Whether the name is new.
        """
        inner = names_in(self._file, self._file.lets[name])
        used = tuple((one, atoms[one]) for one in inner if one in atoms)
        way = tuple((one, ways[one]) for one in dict.fromkeys([name, *inner]) if one in ways)
        if not used and self._kept.setdefault(name, way) == way:
            return False
        key = (name, way, *used)
        is_new = key not in self._lets
        if is_new:
            number = 1 + sum(one[0] == name for one in self._lets)
            self._lets[key] = self._name_of(name, number)
        names[name] = self._lets[key]
        return is_new

    def _read_let(self, name: str, names: Mapping[str, str]) -> None:
        """Make the formula of a let that has got a name of its own."""
        formula = self._file.lets[name]
        used = {one: names[one] for one in _own_names(self._file, formula) if one in names}
        own = names[name]
        self._of_lets[own] = Renamer(0, used, None)
        self.lets[own] = self._of_lets[own].formula(formula)
        self.written[own] = name


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
    own = OwnNames(file, name_of_reading)
    found: dict[str, Relation] = {}
    for policy, read in readings:
        names: dict[str, str] = {}
        for name, arguments in read.items():
            way = tuple(one.expression for one in arguments)
            other = own.of_atom(name, way)
            before = file.relations[name]
            found.setdefault(
                other,
                Relation(
                    other,
                    arguments,
                    before.condition,
                    before.place,
                    is_declared=before.is_declared,
                ),
            )
            if other != name:
                names[name] = other
        if policy is not None and (renamer := own.renamer(policy.formula, names)) is not None:
            policy.formula = renamer.formula(policy.formula)
    file.relations.update(found)
    file.lets.update(own.lets)
    file.parameters.update({one: file.parameters[name] for one, name in own.written.items()})
