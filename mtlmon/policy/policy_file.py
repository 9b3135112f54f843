"""The content of a policy file, as its reader leaves it."""

from __future__ import annotations

from mtlmon.syntax.bounds import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.policy.declarations import Declaration
    from mtlmon.policy.definitions import Assumption, Policy, Relation, Stream
    from mtlmon.policy.needs import Needs
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.policy.validity.declared import DeclaredRelation
    from mtlmon.syntax.formula import Formula

DEFAULT_TIME = "ts"
"""The column of times where nothing says another; the time of a text log."""


class PolicyFile:
    """The content of a policy file.

    Attributes:
        unit: the unit of the time-stamps, or None if it is not declared.
        time: the column of times, or None if the file does not say.
        event: the column of names of events, or None.
        pattern: the regular expression of the log's lines; several are on lines of their own; or
            None.
        time_zone: the time zone of texts without an offset in the column of times, as
            `Europe/Berlin` or `Europe/Berlin first`, or None.
        zone: the time zone of hours and days, or None.
        key: the columns whose values divide the log into traces; None if the file does not say.
        column_types: the types that are declared for columns, by the name of the column.
        row_types: the types as which relations over validity intervals read columns of the log, by
            the name of the column, as in `TypedColumn`; other columns are read as they are.
        table_types: likewise for columns of tables, by the path of the table.
        assumptions: what the file assumes of the log.
        constants: the constants by name.
        lets: the named subformulas by name; those in them that have no parameters are replaced by
            their definitions.
        parameters: the parameters of those lets that have some, by name.
        relations: the atoms with arguments by name. Those that the file does not declare are among
            them, and are rows of the log.
        atoms: the predicates by the name of the atom that they define. Conditions inside formulas
            are among them, and their names are how they are written.
        streams: the streams by name.
        intervals: the relations over validity intervals by name.
        owners: for relations of a file that joins several, the file of each, and its name there.
        policies: the policies in the order of the file. Those that use the same named subformula
            share it as one object.
        shown: expressions whose values are shown with violations, by a name that nothing else has.
        text: the text that spans refer to.
        source: the name of the text in errors.
        declarations: the parts of the text; none if it is not a policy file, or joins several.
        parts: the files that it joins; () for a file by itself.
    """

    __slots__ = (
        "_environment",
        "_names_of_shown",
        "assumptions",
        "atoms",
        "column_types",
        "constants",
        "declarations",
        "event",
        "intervals",
        "key",
        "lets",
        "owners",
        "parameters",
        "parts",
        "pattern",
        "policies",
        "relations",
        "row_types",
        "shown",
        "source",
        "streams",
        "table_types",
        "text",
        "time",
        "time_zone",
        "unit",
        "zone",
    )

    def __init__(self, text: str, source: str, unit: str | None) -> None:
        self.text = text
        self.source = source
        self.unit = unit
        self.time: str | None = None
        self.event: str | None = None
        self.pattern: str | None = None
        self.time_zone: str | None = None
        self.zone: str | None = None
        self.key: tuple[str, ...] | None = None
        self.column_types: dict[str, str] = {}
        self.row_types: dict[str, str] = {}
        self.table_types: dict[str, dict[str, str]] = {}
        self.assumptions: tuple[Assumption, ...] = ()
        self.constants: dict[str, Constant] = {}
        self.lets: dict[str, Formula] = {}
        self.parameters: dict[str, tuple[str, ...]] = {}
        self.relations: dict[str, Relation] = {}
        self.atoms: dict[str, Predicate] = {}
        self.streams: dict[str, Stream] = {}
        self.intervals: dict[str, DeclaredRelation] = {}
        self.owners: dict[str, tuple[PolicyFile, str]] = {}
        self.shown: dict[str, Expression] = {}
        # PERF: a look at all of `shown` for each took 0.7 s for 1,000 policies with messages
        self._names_of_shown: dict[Expression, str] = {}
        self.policies: tuple[Policy, ...] = ()
        self.declarations: Sequence[Declaration] = ()
        self.parts: tuple[PolicyFile, ...] = ()
        self._environment: Environment | None = None

    @property
    def named_formulas(self) -> dict[Formula, str]:
        """The names of lets without parameters, by what they stand for; not those of atoms."""
        named = reversed(self.lets.items())
        return {
            formula: name
            for name, formula in named
            if formula.operands and name not in self.parameters
        }

    @property
    def files(self) -> tuple[PolicyFile, ...]:
        """The files that it joins, or the file itself."""
        return self.parts or (self,)

    @property
    def has_one_key(self) -> bool:
        """Whether the files that it joins have the same key, or none."""
        return len({one.key or () for one in self.files}) == 1

    @property
    def atoms_needed(self) -> tuple[str, ...]:
        """The atoms that occur in policies and their clocks, in order of first occurrence."""
        found: dict[str, None] = {}
        for policy in self.policies:
            for name in policy.formula.atoms:
                found[name] = None
            if policy.clock is not None and policy.clock.atom is not None:
                found[policy.clock.atom] = None
        return tuple(found)

    @property
    def log_atoms(self) -> tuple[str, ...]:
        """The atoms that the log must provide, for policies and for the conditions in them."""
        return self._needs.log_atoms

    @property
    def conditions(self) -> tuple[str, ...]:
        """The atoms that are conditions inside formulas, under the names that these have."""
        return tuple(name for name, predicate in self.atoms.items() if predicate.name is None)

    @property
    def predicates(self) -> dict[str, Predicate]:
        """The predicates that define atoms in `atoms_needed`, by the name of the atom."""
        needed = self.atoms_needed if self.atoms else ()
        return {name: self.atoms[name] for name in needed if name in self.atoms}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `predicates` read, in order of first occurrence."""
        return self._needs.columns

    @property
    def environment(self) -> Environment:
        """The context of the file's expressions, before the table is known."""
        from mtlmon.policy.predicates.environment import UTC, Environment

        if self._environment is None:
            unit = None if self.unit == LATER else self.unit
            self._environment = Environment(
                time=self.time or DEFAULT_TIME, unit=unit, zone=self.zone or UTC
            )
        return self._environment

    @environment.setter
    def environment(self, environment: Environment) -> None:
        self._environment = environment

    def without_keys_of_files(self) -> PolicyFile:
        """Return the file for a run whose own key replaces those of the files that it joins.

        Keys that policies name themselves stay. A file by itself is returned as it is.
        """
        if not self.parts:
            return self
        from copy import copy

        found = copy(self)
        written = [policy for part in self.parts for policy in part.policies]
        found.policies = tuple(map(copy, self.policies))
        for policy, before in zip(found.policies, written, strict=True):
            if not policy.key_variables:
                policy.key = before.key
        return found

    def owner_of(self, relation: str) -> tuple[PolicyFile, str]:
        """Return the file that declares a relation over validity intervals, and its name there."""
        return self.owners.get(relation) or (self, relation)

    def show(self, expression: Expression) -> str:
        """Add an expression to `shown`, unless it is there already, and return its name."""
        name = self._names_of_shown.setdefault(expression, f"\0shown {len(self.shown)}")
        self.shown.setdefault(name, expression)
        return name

    def replace_shown(self, replaced: Callable[[Expression], Expression]) -> None:
        """Replace each expression in `shown`; the names stay."""
        self._names_of_shown.clear()
        for name, expression in self.shown.items():
            self.shown[name] = replaced(expression)
            self._names_of_shown.setdefault(self.shown[name], name)

    def predicate(self, expression: Expression, name: str | None, role: str = "atom") -> Predicate:
        """Return an expression of the file with its text.

        Args:
            expression: the expression.
            name: the name of what it defines, for errors; None for a condition in a formula.
            role: what it defines: "atom" or "stream".
        """
        from mtlmon.policy.predicates.predicate import Predicate

        return Predicate(expression, self.text, self.source, name, role)

    @property
    def _needs(self) -> Needs:
        from mtlmon.policy.needs import needs_of

        return needs_of(self, self.atoms_needed)
