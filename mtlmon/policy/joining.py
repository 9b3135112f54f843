"""Joins policy files that have been read into one, which a run takes like any other.

Each file keeps its scope: a name that is declared in one file, and declared or used in another,
gets the name of its file before it, and no other name does. What the log provides has one name for
all: columns, atoms of the log, and atoms with arguments whose rows are in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.definitions import Argument, Assumption, Clock, Policy, Relation, Stream
from mtlmon.policy.policy_file import PolicyFile
from mtlmon.policy.predicates.environment import UTC
from mtlmon.policy.renaming import Renamer, used_names
from mtlmon.syntax.joined_text import JoinedText, line_text
from mtlmon.syntax.printer import written_name
from mtlmon.syntax.report import formula_error

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.expression import Expression


def joined(
    files: Sequence[PolicyFile], prefixes: Sequence[str], unit: str | None
) -> tuple[PolicyFile, list[FormulaError]]:
    """Join files that have no errors, and whose settings agree.

    Args:
        files: at least one file.
        prefixes: for each file what comes before names that clash, without the colon.
        unit: the unit of the time-stamps, as for `parse_policies`.

    Returns:
        The joined file, and the errors that are in no file by itself.
    """
    joiner = _Joiner(files, prefixes, unit)
    return joiner.joined(), joiner.errors


class _Joiner:
    """Joins files; the arguments are those of `joined`."""

    def __init__(
        self, files: Sequence[PolicyFile], prefixes: Sequence[str], unit: str | None
    ) -> None:
        self.files = files
        self.prefixes = prefixes
        self.errors: list[FormulaError] = []
        text = JoinedText((file.text, file.source) for file in files)
        self.file = PolicyFile(text, ", ".join(file.source for file in files), unit)
        self.file.parts = tuple(files)
        for name in ("time", "time_zone", "event", "pattern", "zone"):
            values = [getattr(file, name) for file in files]
            setattr(self.file, name, next((one for one in values if one is not None), None))
        zone = self.file.zone or UTC
        used = [used_names(file) for file in files]
        self.taken = set[str]().union(*used)
        self.renamers = []
        for number, (file, start) in enumerate(zip(files, text.starts, strict=True)):
            others = set[str]().union(*used[:number], *used[number + 1 :])
            names = {
                name: self.prefixed(number, name)
                for name in _declared(file)
                if written_name(name) in others
            }
            own_zone = file.zone or UTC
            self.renamers.append(Renamer(start, names, None if own_zone == zone else own_zone))
        self.conditions: dict[str, Expression] = {}

    def prefixed(self, number: int, name: str) -> str:
        """Put the name of a file before a name, until nothing else has it."""
        return _free(f"{self.prefixes[number]}:{name}", self.prefixes[number], self.taken)

    def joined(self) -> PolicyFile:
        for number, file in enumerate(self.files):
            self.name_conditions(number, file)
        keys = {file.key or () for file in self.files}
        has_one_key = len(keys) == 1
        if has_one_key:
            self.file.key = self.files[0].key
        for number, file in enumerate(self.files):
            self.add_constants(number, file)
            self.add_declarations(file, self.renamers[number])
            self.add_relations(file, self.renamers[number])
            self.add_assumptions(file, has_one_key=has_one_key)
        names = self.policy_names()
        policies: list[Policy] = []
        for number, file in enumerate(self.files):
            default = None if has_one_key else file.key or ()
            for policy in file.policies:
                name = names[len(policies)]
                policies.append(self.policy(policy, name, default, file, self.renamers[number]))
        self.file.policies = tuple(policies)
        if self.file.streams:
            from mtlmon.policy.types import with_streams

            self.file.environment, errors = with_streams(self.file, self.file.environment)
            self.errors += errors
        self.join_column_types()
        self.wait()
        return self.file

    def join_column_types(self) -> None:
        """Join the types of columns; a key has one for all files that have it."""
        of_keys: dict[str, tuple[str | None, PolicyFile]] = {}
        for file in self.files:
            keys = [*(file.key or ()), *(one for each in file.policies for one in each.key or ())]
            for name in keys:
                found = file.column_types.get(name)
                known, other = of_keys.setdefault(name, (found, file))
                if known != found:
                    what = found or "without a type"
                    message = (
                        f"the key {name} is {what} in {file.source}, but not in {other.source}"
                    )
                    self.report(0, message, f"declare it in both: column {name}: TYPE")
            for name, data_type in file.column_types.items():
                self.file.column_types.setdefault(name, data_type)

    def name_conditions(self, number: int, file: PolicyFile) -> None:
        """Name the conditions in formulas, which are called as they are written.

        Equal conditions of several files are one atom.
        """
        renamer = self.renamers[number]
        names = dict(renamer.names)
        for name in file.conditions:
            if name in file.streams:
                continue
            before = file.atoms[name].expression
            expression = renamer.expression(before)
            new = name if expression == before else str(expression)
            while new in self.taken or self.conditions.get(new, expression) != expression:
                new = f"{self.prefixes[number]}:{new}"
            self.conditions[new] = expression
            names[name] = new
        self.renamers[number] = Renamer(renamer.offset, names, renamer.zone)

    def add_constants(self, number: int, file: PolicyFile) -> None:
        for name, value in file.constants.items():
            is_shared = any(name in one.constants for one in self.files if one is not file)
            shown = f"{self.prefixes[number]}:{name}" if is_shared else name
            self.file.constants[shown] = value

    def add_declarations(self, file: PolicyFile, renamer: Renamer) -> None:
        for name, predicate in file.atoms.items():
            shown = None if predicate.name is None else renamer.name(name)
            expression = renamer.expression(predicate.expression)
            self.file.atoms[renamer.name(name)] = self.file.predicate(
                expression, shown, predicate.role
            )
        for name, formula in file.lets.items():
            self.file.lets[renamer.name(name)] = renamer.formula(formula)
        for name, parameters in file.parameters.items():
            self.file.parameters[renamer.name(name)] = parameters
        for name in file.intervals:
            self.file.owners[renamer.name(name)] = (file, name)
        for name, stream in file.streams.items():
            self.file.streams[renamer.name(name)] = Stream(
                renamer.name(name),
                renamer.expression(stream.expression),
                stream.kind,
                tuple((renamer.expression(key), parameter) for key, parameter in stream.per),
                renamer.clock(stream.clock),
                renamer.optional(stream.start),
                renamer.optional(stream.end),
                renamer.place(stream.place),
            )

    def add_relations(self, file: PolicyFile, renamer: Renamer) -> None:
        for relation in file.relations.values():
            moved = Relation(
                renamer.name(relation.name),
                tuple(
                    Argument(
                        one.name,
                        renamer.optional(one.expression),
                        one.kind,
                        renamer.place(one.place),
                    )
                    for one in relation.arguments
                ),
                renamer.optional(relation.condition),
                renamer.place(relation.place),
                is_declared=relation.is_declared,
            )
            known = self.file.relations.get(moved.name)
            self.file.relations[moved.name] = moved if known is None else self.merged(known, moved)

    def merged(self, known: Relation, other: Relation) -> Relation:
        """Merge what two files know of an atom with arguments whose rows are in the log."""
        where = line_text(self.file.text, known.place)
        count, expected = len(other.arguments), len(known.arguments)
        hint = "the log has one atom of that name, so the files must agree"
        if count != expected:
            has = "one argument" if count == 1 else f"{count} arguments"
            message = f"{known.name} has {has} here, but {expected} in {where}"
            self.report(other.place, message, hint)
            return known
        arguments = []
        for one, another in zip(known.arguments, other.arguments, strict=True):
            if one.kind is not None and another.kind not in (None, one.kind):
                message = f"{known.name}: {another.name} is {another.kind} here, but {one.kind}"
                where = line_text(self.file.text, one.place)
                self.report(another.place, f"{message} in {where}", hint)
            named = another if other.is_declared and not known.is_declared else one
            kind = one.kind or another.kind
            arguments.append(Argument(named.name, None, kind, named.place))
        is_declared = known.is_declared or other.is_declared
        place = known.place if known.is_declared else other.place
        return Relation(known.name, tuple(arguments), None, place, is_declared=is_declared)

    def add_assumptions(self, file: PolicyFile, *, has_one_key: bool) -> None:
        """Add what a file assumes; of keys, it assumes it of those that its policies have."""
        default = file.key or ()
        keys = frozenset(default if policy.key is None else policy.key for policy in file.policies)
        self.file.assumptions += tuple(
            Assumption(one.subject, one.limit, one.unit, None if has_one_key else keys, file.source)
            for one in file.assumptions
        )

    def policy_names(self) -> list[str]:
        """Return the names of all policies; the ones that clash have that of their file before."""
        numbers = [number for number, file in enumerate(self.files) for _ in file.policies]
        written = [policy.name for file in self.files for policy in file.policies]
        plain = [
            self.prefixes[number] if name is None else name
            for number, name in zip(numbers, written, strict=True)
        ]
        taken = set(plain)
        return [
            _free(f"{self.prefixes[number]}:{name}", self.prefixes[number], taken)
            if plain.count(name) > 1
            else name
            for number, name in zip(numbers, plain, strict=True)
        ]

    def policy(
        self,
        policy: Policy,
        name: str,
        default: tuple[str, ...] | None,
        file: PolicyFile,
        renamer: Renamer,
    ) -> Policy:
        """Return a policy of a file for the joined one; `default` is the key if it has none."""
        formula = renamer.formula(policy.formula)
        message = None
        if policy.message is not None:
            own = policy.message
            shown = [self.file.show(renamer.expression(file.shown[one])) for one in own.needed]
            names, violations = tuple(shown[: len(own.names)]), shown[len(own.names) :]
            message = own._replace(names=names, violations=violations[0] if violations else None)
        return Policy(
            name,
            formula,
            renamer.formula(policy.written),
            default if policy.key is None else policy.key,
            text=policy.text,
            clock=renamer.clock(policy.clock),
            lasting=policy.lasting,
            tolerance=policy.tolerance,
            most=policy.most,
            severity=policy.severity,
            message=message,
            is_find=policy.is_find,
            is_trigger=policy.is_trigger,
        )

    def wait(self) -> None:
        """Name the later values that policies wait for as the joined file does."""
        waiting = [one for one in self.file.policies if one.clock is not None and one.clock.waits]
        if not waiting:
            return
        from mtlmon.policy.needs import later_values_of
        from mtlmon.policy.predicates.time_points import Waiting

        for policy in waiting:
            policy.clock = Clock(period=Waiting(later_values_of(self.file, policy)))

    def report(self, place: int, message: str, hint: str) -> None:
        self.errors.append(
            formula_error(
                self.file.text,
                place,
                message,
                source=self.file.source,
                hint=hint,
                kind=PolicyError,
            )
        )


def _declared(file: PolicyFile) -> list[str]:
    """The names that a file gives a meaning; those of the log are not among them."""
    relations = [name for name, one in file.relations.items() if one.condition is not None]
    atoms = [name for name, one in file.atoms.items() if one.name is not None]
    return [*atoms, *file.streams, *file.lets, *relations, *file.intervals]


def _free(name: str, prefix: str, taken: Container[str]) -> str:
    while name in taken:
        name = f"{prefix}:{name}"
    return name
