"""Reads policy files: settings of the log, constants, atoms, streams, named formulas, policies."""

from __future__ import annotations

import re
from functools import cached_property

from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy.clauses import (
    ClauseReader,
    PolicyClauses,
    read_assumption,
    read_stream,
)
from mtlmon.policy.declarations import (
    ASSUME,
    ATOM,
    CONST,
    FIND,
    FORMULA,
    KEY,
    LET,
    LINES,
    POLICY,
    STREAM,
    TEXTS,
    TRIGGER,
    UNIT,
    ZONE,
    Declaration,
    read_declarations,
)
from mtlmon.policy.definitions import Assumption, Clock, Policy, Stream
from mtlmon.syntax.bounds import LATER, UNIT_WORDS, UNITS, require_unit
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Formula, atom
from mtlmon.syntax.lexer import ATOM as ATOM_TOKEN
from mtlmon.syntax.parser import parse_at
from mtlmon.syntax.report import formula_error, offset_of
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from mtlmon.policy.definitions import Relation
    from mtlmon.policy.first_order.declarations import FirstOrderDeclarations
    from mtlmon.policy.messages import Message
    from mtlmon.policy.needs import Needs
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.policy.predicates.resolving import Scope
    from mtlmon.syntax.formula import Span

_SOURCE = "<policies>"
DEFAULT_TIME = "ts"
"""The column of times where nothing says another; the time of a text log."""
# The declarations whose names share one space.
_NAMED = frozenset({CONST, ATOM, STREAM, LET})
# Those that are checked on a log.
_CHECKED = frozenset({POLICY, FIND, FORMULA, TRIGGER})
# What may be meant as `ONCE (1 < x)`.
_INTERVAL_BEFORE = re.compile(r"\(\s*[0-9]+\s*\Z")
_MEANT_UNITS = {
    **dict.fromkeys(("nanosecond", "nanoseconds", "nsec"), "ns"),
    **dict.fromkeys(("microsecond", "microseconds", "usec", "µs", "μs"), "us"),
    **dict.fromkeys(("millisecond", "milliseconds", "msec"), "ms"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "m"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}


class PolicyFile:
    """The content of a policy file.

    Attributes:
        unit: the unit of the time-stamps, or None if it is not declared.
        time: the column of times, or None if the file does not say.
        event: the column of names of events, or None.
        pattern: the regular expression of the log's lines, or None.
        zone: the time zone of hours and days, or None.
        key: the columns whose values divide the log into traces; None if the file does not say.
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
        policies: the policies in the order of the file. Those that use the same named subformula
            share it as one object.
        shown: expressions whose values are shown with violations, by a name that nothing else has.
        text: the text that spans refer to.
        source: the name of the text in errors.
    """

    __slots__ = (
        "_environment",
        "assumptions",
        "atoms",
        "constants",
        "event",
        "key",
        "lets",
        "parameters",
        "pattern",
        "policies",
        "relations",
        "shown",
        "source",
        "streams",
        "text",
        "time",
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
        self.zone: str | None = None
        self.key: tuple[str, ...] | None = None
        self.assumptions: tuple[Assumption, ...] = ()
        self.constants: dict[str, Constant] = {}
        self.lets: dict[str, Formula] = {}
        self.parameters: dict[str, tuple[str, ...]] = {}
        self.relations: dict[str, Relation] = {}
        self.atoms: dict[str, Predicate] = {}
        self.streams: dict[str, Stream] = {}
        self.shown: dict[str, Expression] = {}
        self.policies: tuple[Policy, ...] = ()
        self._environment: Environment | None = None

    @property
    def atoms_needed(self) -> tuple[str, ...]:
        """The atoms that occur in policies and their clocks, in order of first occurrence."""
        found: dict[str, None] = {}
        for policy in self.policies:
            found |= dict.fromkeys(policy.formula.atoms)
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
        return {name: self.atoms[name] for name in self.atoms_needed if name in self.atoms}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `predicates` read, in order of first occurrence."""
        return self._needs.columns

    @property
    def environment(self) -> Environment:
        """What the expressions of the file stand among, before the table is known."""
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

    def show(self, expression: Expression) -> str:
        """Return the name of an expression in `shown`, where it is added if it is not there."""
        for name, known in self.shown.items():
            if known == expression:
                return name
        name = f"\0shown {len(self.shown)}"
        self.shown[name] = expression
        return name

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


def parse_policies(
    text: str,
    path: str | None = None,
    *,
    unit: str | None = None,
    constants: Mapping[str, str] | None = None,
    needs_policy: bool = True,
) -> PolicyFile:
    """Parse a policy file.

    Args:
        text: the content of the file.
        path: the name of the file in errors.
        unit: the unit of the time-stamps, as for `mtlmon.parse`; it is an error if the file
            declares another.
        constants: other values for constants of the file, as texts: `{"limit": "30"}`.
        needs_policy: whether a file without a policy is an error; it may have streams only.

    Raises:
        FormulaError: a formula is invalid; line and column refer to the file.
        PolicyError: a declaration or a predicate is invalid.
        UnitError: the unit that is passed is unknown.

    >>> file = parse_policies('''
    ... unit ms
    ... atom fast = speed > 120 and lane in (1, 2)
    ... let warned = ONCE[0,5s] warning
    ... policy limit: fast IMPLIES warned
    ... ''')
    >>> file.unit, file.columns, file.atoms_needed
    ('ms', ('speed', 'lane'), ('fast', 'warning'))
    >>> [(policy.name, str(policy.formula)) for policy in file.policies]
    [('limit', 'fast IMPLIES ONCE[0,5000] warning')]
    """
    file, errors = check_policies(
        text, path, unit=unit, constants=constants, needs_policy=needs_policy
    )
    if errors:
        raise errors[0]
    return file


def check_policies(
    text: str,
    path: str | None = None,
    *,
    unit: str | None = None,
    constants: Mapping[str, str] | None = None,
    needs_policy: bool = True,
) -> tuple[PolicyFile, tuple[FormulaError, ...]]:
    """Parse a policy file and collect all errors.

    Takes the same arguments as `parse_policies`.

    Returns:
        The valid parts of the file, and the errors in the order of their places.

    Raises:
        UnitError: the unit that is passed is unknown.
    """
    if unit is not None and unit != LATER:
        require_unit(unit)
    reader = _Reader(text, path or _SOURCE, unit, constants or {}, needs_policy)
    reader.read()
    reader.errors.sort(key=lambda error: (error.line, error.column))
    return reader.file, tuple(reader.errors)


def declares(text: str) -> bool:
    """Whether the text has declarations; otherwise it is a single formula."""
    declarations, _errors = read_declarations(text, _SOURCE)
    return [declaration.kind for declaration in declarations] != [FORMULA]


class _Reader:
    def __init__(
        self,
        text: str,
        source: str,
        unit: str | None,
        constants: Mapping[str, str],
        needs_policy: bool,
    ) -> None:
        self.text = text
        self.needs_policy = needs_policy
        self.source = source
        # The texts of constants that override those of the file.
        self.constants = constants
        self.declarations, self.errors = read_declarations(text, source)
        self.file = PolicyFile(text, source, self.read_unit(unit))
        self.policies: dict[str | None, Policy] = {}
        # The first declaration of each name, also if it is invalid.
        self.named: dict[str, Declaration] = {}
        # The formulas of lets as written, and the lets that each uses.
        self.written: dict[str, Formula] = {}
        self.seen_lines: dict[str, Declaration] = {}

    def read(self) -> None:
        if [declaration.kind for declaration in self.declarations] == [FORMULA]:
            self.read_formula_alone()
            return
        for declaration in self.declarations:
            if declaration.kind in _NAMED:
                self.attempt(self.register, declaration)
        steps = (
            (LINES - {UNIT}, self.read_line),
            ({CONST}, self.read_constant),
            ({STREAM}, self.read_stream),
        )
        for kinds, read in steps:
            self.read_all(kinds, read)
        if self.file.streams:
            self.find_kinds()
        self.read_all({ATOM}, self.read_atom)
        self.read_all({LET}, self.read_let)
        self.require_constants()
        self.order_lets()
        # `split` appends one if a formula without a name follows the last declaration.
        for declaration in self.declarations:
            if declaration.kind in _CHECKED:
                self.attempt(self.read_policy, declaration)
        self.file.policies = tuple(self.policies.values())
        if self.file.streams:
            from mtlmon.policy.templates import template_errors

            self.errors += template_errors(self.file)
        if not self.errors and "next" in self.text:
            self.wait_for_later_values()
        if not self.errors and any(one.clock is not None for one in self.clocked()):
            from mtlmon.policy.clock_errors import clock_errors

            self.errors += clock_errors(self.file)
        kinds_found = {declaration.kind for declaration in self.declarations}
        is_missing = self.needs_policy and not kinds_found & _CHECKED
        if not self.errors and is_missing:
            hint = "write policy NAME: FORMULA"
            self.errors.append(self.error(len(self.text), "there is no policy", hint))

    def wait_for_later_values(self) -> None:
        """Give policies that look at later values the rows that wait for these."""
        from mtlmon.policy.needs import needs_of
        from mtlmon.policy.predicates.time_points import Waiting

        places = {one.name: one.place for one in self.declarations if one.kind in _CHECKED}
        for policy in self.file.policies:
            clock = policy.clock
            atoms = [*policy.formula.atoms, *([clock.atom] if clock and clock.atom else [])]
            shown = () if policy.message is None else policy.message[1]
            later = needs_of(self.file, atoms, shown).later_values
            if not later:
                continue
            message = None
            if clock is not None:
                message = f"policy {policy.name} is on {clock}, but {later[0]} looks at later rows"
                hint = f"leave out 'on {clock}'"
            elif policy.formula.is_first_order:
                message = f"a policy with variables cannot look at later rows, as {later[0]} does"
                hint = "write NEXT in the formula"
            if message is not None:
                self.errors.append(self.error(places.get(policy.name or "", 0), message, hint))
                continue
            policy.clock = Clock(period=Waiting(later))

    def clocked(self) -> Iterator[Policy | Stream]:
        """Yield what can have time-points other than rows."""
        yield from self.file.policies
        yield from self.file.streams.values()

    def read_all(self, kinds: Collection[str], read: Callable[[Declaration], None]) -> None:
        """Read the declarations of some kinds, in order."""
        for declaration in self.declarations:
            if declaration.kind in kinds:
                self.attempt(read, declaration)

    def attempt(self, read: Callable[[Declaration], None], declaration: Declaration) -> None:
        try:
            read(declaration)
        except FormulaError as error:
            self.errors.append(error)

    def read_formula_alone(self) -> None:
        """Parse a file without declarations, with the same errors as a single formula."""
        self.attempt(self.read_policy, self.declarations[0])
        self.require_constants()
        self.file.policies = tuple(self.policies.values())

    def read_unit(self, unit: str | None) -> str | None:
        """The unit that was passed, or the one of the file, corrected if it is misspelt."""
        found: Declaration | None = None
        for declaration in self.declarations:
            if declaration.kind != UNIT:
                continue
            place = declaration.place
            name = UNIT_WORDS.get(declaration.name, declaration.name)
            if name not in UNITS:
                hint = f"the units are {', '.join(UNITS)}"
                if meant := _MEANT_UNITS.get(name.lower()):
                    hint = f"write unit {meant}; {hint}"
                self.errors.append(self.error(place, f"'{name}' is not a unit of time", hint))
            elif found is not None:
                line = self.line_of(found)
                hint = "a file has one unit"
                message = f"the unit is declared in line {line} already"
                self.errors.append(self.error(place, message, hint))
            elif unit not in (None, LATER, name):
                message = f"the file declares the unit {name}, but {unit} was asked for"
                self.errors.append(self.error(place, message, "leave one of them out"))
            found = found or declaration
        if unit not in (None, LATER) or found is None:
            return unit
        name = UNIT_WORDS.get(found.name, found.name)
        return name if name in UNITS else _MEANT_UNITS.get(name.lower(), LATER)

    def read_line(self, declaration: Declaration) -> None:
        """Read a declaration that is one line, such as `key ip`."""
        kind = declaration.kind
        if kind != ASSUME:
            before = self.seen_lines.setdefault(kind, declaration)
            if before is not declaration:
                message = f"{kind} is declared in line {self.line_of(before)} already"
                raise self.error(declaration.place, message, f"a file has one {kind}")
        end = declaration.place + len(declaration.name)
        clauses = self.clauses(declaration.place, end)
        if kind == KEY:
            self.file.key = clauses.columns()
        elif kind in TEXTS:
            value = clauses.text()
            if value is None:
                hint = f'write {kind} "{declaration.name}"'
                raise clauses.expected("a text in double quotes", hint)
            if kind == ZONE:
                self.require_zone(value, declaration)
            setattr(self.file, kind, value)
        else:
            self.file.assumptions += (read_assumption(clauses),)
        clauses.require_end("the end of the line")

    def clauses(self, start: int, end: int) -> ClauseReader:
        """Return a reader of the clauses in a part of the file."""
        file = self.file
        return ClauseReader(self.text, self.source, start, end, file.unit, file.constants)

    def require_zone(self, name: str, declaration: Declaration) -> None:
        """Check that a time zone exists."""
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(name)
        except (OSError, ValueError, KeyError):
            hint = 'zones are called as in the IANA database: "Europe/Berlin", "UTC"'
            message = f'there is no time zone "{name}"'
            raise self.error(declaration.place, message, hint) from None

    def read_constant(self, declaration: Declaration) -> None:
        from mtlmon.policy.predicates import operators as ops

        expression = self.expression(declaration)
        if expression.operator is not ops.CONSTANT:
            hint = "a constant is a number, a text in double quotes, true, false or null"
            raise self.error(self.first_place(declaration), "this is not a constant", hint)
        self.file.constants[declaration.name] = expression.constant
        if (written := self.constants.get(declaration.name)) is not None:
            self.file.constants[declaration.name] = overriding(declaration.name, written)

    def require_constants(self) -> None:
        """Check that the file declares every constant that is to be overridden."""
        from mtlmon.support.guesses import nearest

        for name in self.constants:
            if name not in self.file.constants:
                guess = nearest(name, self.file.constants)
                hint = f"did you mean {guess}?" if guess else f"declare it: const {name} = ..."
                message = f"there is no constant {name} to set"
                self.errors.append(self.error(0, message, hint))

    def read_stream(self, declaration: Declaration) -> None:
        clauses = self.clauses(declaration.start, declaration.end)
        kind = None
        if (header := declaration.header)[0] != header[1]:
            from mtlmon.policy.predicates.kinds import DECLARED

            types = self.clauses(*header)
            kind = types.name("a type")
            if kind not in DECLARED:
                hint = f"the types are {', '.join(DECLARED)}"
                place = self.text.index(kind, header[0])
                raise self.error(place, f"there is no type {kind}", hint)
            types.require_end("'='")
        self.file.streams[declaration.name] = read_stream(
            clauses, declaration.name, kind, declaration.place, self
        )

    def read_atom(self, declaration: Declaration) -> None:
        if declaration.arguments is not None:
            self.file.relations[declaration.name] = self.first_order.read_relation(declaration)
            return
        expression = self.resolved(self.expression(declaration), is_atom=True)
        self.define(declaration.name, expression, declaration.name)

    def resolved(
        self,
        expression: Expression,
        *,
        is_atom: bool = False,
        is_condition: bool = False,
        parameters: Sequence[str] = (),
    ) -> Expression:
        """Find out what the names in an expression stand for.

        Args:
            expression: an expression of the file, as parsed.
            is_atom: whether it is the body of an atom, where names are columns.
            is_condition: whether a condition is expected of the whole expression.
            parameters: the parameters of the stream that it belongs to.
        """
        from mtlmon.policy.predicates.resolving import resolve

        scope = self.scope._replace(parameters=parameters, is_atom_body=is_atom)
        return resolve(expression, scope, self.text, self.source, is_condition=is_condition)

    @cached_property
    def scope(self) -> Scope:
        """What names in expressions can stand for; constants have been read."""
        from mtlmon.policy.predicates.resolving import Scope

        future = self.future_lets()
        return Scope(
            self.names_of(STREAM),
            self.names_of(ATOM),
            [name for name in self.names_of(LET) if name not in future],
            future,
            self.file.constants,
        )

    def future_lets(self) -> list[str]:
        """Find the lets that look into the future, also by way of others."""
        from mtlmon.policy.conditions import Conditions

        conditions = Conditions(self.source, LATER, self.names_of(STREAM), self.file.constants, str)
        uses: dict[str, set[str]] = {}
        found: list[str] = []
        for name in self.names_of(LET):
            declaration = self.named[name]
            place = self.text, self.source, declaration.start, declaration.end
            tokens = Cursor(*place, conditions).tokens
            if any(token.operator and token.operator.is_future for token in tokens):
                found.append(name)
            for token in tokens:
                if token.kind == ATOM_TOKEN and token.value != name:
                    uses.setdefault(token.value, set()).add(name)
        # `found` grows while it is walked.
        for name in found:
            found += sorted(uses.get(name, set()).difference(found))
        return found

    def names_of(self, kind: str) -> list[str]:
        """The names that the file declares with a keyword."""
        return [name for name, one in self.named.items() if one.kind == kind]

    def find_kinds(self) -> None:
        """Find the types of the values of streams, and check their expressions."""
        from mtlmon.policy.types import with_streams

        self.file.environment, errors = with_streams(self.file, self.file.environment)
        self.errors += errors

    def expression(self, declaration: Declaration) -> Expression:
        # imported here, as only files with expressions need it
        from mtlmon.policy.predicates.parser import parse_expression

        start, unit, constants = declaration.start, self.file.unit, self.file.constants
        try:
            return parse_expression(self.text, self.source, start, declaration.end, unit, constants)
        except FormulaError as error:
            if not self.split(declaration, error):
                raise self.explained(error, declaration) from None
            return parse_expression(self.text, self.source, start, declaration.end, unit, constants)

    def define(self, name: str, expression: Expression, shown: str | None) -> None:
        """Define an atom by a predicate, and report where its types do not fit."""
        from mtlmon.policy.predicates.checking import check

        predicate = self.file.predicate(expression, shown)
        checked = check(predicate, None, self.file.environment, is_of_one_row=False)
        self.errors += checked.errors
        self.file.atoms[name] = predicate

    def add_condition(self, expression: Expression) -> str:
        """Define the atom that a condition inside a formula is; return its name."""
        name = str(expression)
        if name not in self.file.atoms:
            self.define(name, self.resolved(expression), None)
        return name

    def atom_of(self, condition: Expression) -> str:
        """Return the name of the atom that a condition, whose names are resolved, is."""
        from mtlmon.policy.predicates import operators as ops

        if condition.operator is ops.ATOM:
            return condition.name
        name = str(condition)
        if name not in self.file.atoms:
            self.define(name, condition, None)
        return name

    def read_let(self, declaration: Declaration) -> None:
        if self.named[declaration.name] is declaration:
            self.written[declaration.name] = self.formula(declaration)
            if declaration.arguments is not None:
                self.first_order.read_parameters(declaration)

    def order_lets(self) -> None:
        """Replace lets in lets by their definitions, the ones that use no others first."""
        done: dict[str, Formula] = {}
        for first in self.written:
            path = [first]
            while path:
                name = path[-1]
                uses = [use for use in self.written[name].atoms if use in self.written]
                missing = next((use for use in uses if use not in done), None)
                if missing is None or name in done:
                    if name not in done:
                        done[name] = self.file.lets[name] = self.with_lets(self.written[name])
                    path.pop()
                elif missing in path:
                    self.errors.append(self.cycle(path[path.index(missing) :]))
                    done |= {one: self.written[one] for one in path}
                else:
                    path.append(missing)
        self.file.lets = {name: done[name] for name in self.written}

    def cycle(self, path: list[str]) -> FormulaError:
        """The error that lets are declared by each other."""
        place = _place_of(path[0], self.written[path[-1]])
        if len(path) == 1:
            hint = "a let can use atoms and other lets"
            return self.error(place, f"{path[0]} is declared by itself", hint)
        via = ", ".join(path[1:])
        message = f"{path[0]} is declared by itself, by way of {via}"
        return self.error(place, message, "break the circle at one of them")

    def read_policy(self, declaration: Declaration) -> None:
        name = None if declaration.kind == FORMULA else declaration.name
        if name is None and any(other.kind in _CHECKED - {FORMULA} for other in self.declarations):
            start = self.first_place(declaration)
            hint = "write policy NAME: before it"
            raise self.error(start, "a formula without a name next to policies with names", hint)
        if name in self.policies:
            if name is None:
                message, hint = "a second formula", "give each policy a name: policy NAME: ..."
                raise self.error(self.first_place(declaration), message, hint)
            message = f"there is a policy {name} already"
            raise self.error(declaration.place, message, "give it another name")
        clauses = PolicyClauses()
        if declaration.header[0] != declaration.header[1]:
            reader = self.clauses(*declaration.header)
            if declaration.kind == FIND:
                clauses.text = reader.text() or ""
                reader.require_end("':' (before it can be a text)")
            else:
                clauses.read(reader, self, is_trigger=declaration.kind == TRIGGER)
            if clauses.clock is not None and clauses.clock.condition is not None:
                clauses.clock.atom = self.atom_of(clauses.clock.condition)
        message_text = None
        if declaration.kind == TRIGGER:
            written, message_text = self.read_trigger(declaration)
        else:
            written = self.formula(declaration)
            if clauses.key is not None or clauses.clock is not None:
                self.require_ordinary(written, declaration, "on" if clauses.key is None else "per")
        self.policies[name] = Policy(
            name,
            self.with_lets(written),
            written,
            clauses.key,
            text=clauses.text,
            clock=clauses.clock,
            tolerance=clauses.tolerance,
            severity=clauses.severity,
            message=message_text,
            is_find=declaration.kind == FIND,
        )

    def require_ordinary(self, formula: Formula, declaration: Declaration, clause: str) -> None:
        """Refuse a key or clock of a first-order policy, which is over the whole log."""
        if formula.is_first_order:
            message = f"policy {declaration.name} has variables, so it is over the whole log"
            hint = f"leave out '{clause}'"
            if clause == "per":
                hint += ", and make the key an argument of the atoms"
            raise self.error(declaration.header[0], message, hint)

    def read_trigger(
        self, declaration: Declaration
    ) -> tuple[Formula, tuple[Message, tuple[str, ...]] | None]:
        """Read the condition of a trigger, and its message."""
        clauses = self.clauses(declaration.start, declaration.end)
        condition = clauses.expression()
        message = None
        if clauses.take("message"):
            start = clauses.position
            if clauses.text() is None:
                raise clauses.expected("a text in double quotes", 'as in message "{ip} failed"')
            end = self.text.rindex('"', start, clauses.position) + 1
            message = self.read_message(start, end)
        clauses.require_end("an operator, message or the end")
        return ~atom(self.add_condition(condition)), message

    def read_message(self, start: int, end: int) -> tuple[Message, tuple[str, ...]]:
        """Read the message of a trigger, which is a text in double quotes."""
        from mtlmon.policy.messages import read_message

        file = self.file
        message = read_message(self.text, self.source, start, end, file.unit, file.constants)
        names = tuple(file.show(self.resolved(one)) for one in message.expressions)
        return message, names

    def with_lets(self, formula: Formula) -> Formula:
        """The formula with lets replaced by their definitions, each of which is shared."""
        lets = self.file.lets
        if not lets:
            return formula
        from mtlmon.syntax.rewrite import substitute

        return substitute(formula, {name: lets[name] for name in formula.atoms if name in lets})

    def formula(self, declaration: Declaration) -> Formula:
        try:
            return self.formula_of(declaration)
        except FormulaError as error:
            if not self.split(declaration, error):
                raise self.explained(error, declaration) from None
            return self.formula_of(declaration)

    def formula_of(self, declaration: Declaration) -> Formula:
        """Parse a formula, which can have conditions inside.

        Few formulas have some, and few policy files have streams, whose names stand for conditions,
        so the formula is parsed without conditions first.
        """
        place = self.text, self.source, declaration.start, declaration.end
        plain: FormulaError | None = None
        if not self.names_of(STREAM) and not self.relations:
            try:
                return parse_at(Cursor(*place), self.file.unit)
            except FormulaError as error:
                plain = error
        if self.is_first_order(declaration):
            return self.first_order.read_formula(declaration)
        from mtlmon.policy.conditions import Conditions

        streams = self.names_of(STREAM)
        conditions = Conditions(
            self.source, self.file.unit, streams, self.file.constants, self.add_condition
        )
        try:
            formula = parse_at(Cursor(*place, conditions), self.file.unit)
        except FormulaError as error:
            if _INTERVAL_BEFORE.search(self.text, 0, self.offset_of(error)):
                hint = "a parenthesis and a digit behind an operator open an interval: write x > 1"
                raise self.error(self.offset_of(error), error.message, hint) from None
            if plain is not None and not conditions.is_used:
                raise plain from None
            raise
        self.define_streams(formula)
        if self.relations:
            self.first_order.check(formula)
        return formula

    def define_streams(self, formula: Formula) -> None:
        """Define the atoms that are the values of streams."""
        streams = self.names_of(STREAM)
        for node in postorder(formula):
            name = node.name
            if name is not None and name in streams and name not in self.file.atoms:
                self.define(name, stream_value(name, node.span), None)

    def is_first_order(self, declaration: Declaration) -> bool:
        """Whether names in the terms of a declaration's formula are variables."""
        if declaration.arguments is not None:
            return True
        from mtlmon.policy.first_order.recognition import is_first_order

        return is_first_order(self.text, declaration.start, declaration.end, self.relations)

    @cached_property
    def relations(self) -> dict[str, Declaration]:
        """The declarations of atoms and lets with arguments by name."""
        return {name: one for name, one in self.named.items() if one.arguments is not None}

    @cached_property
    def first_order(self) -> FirstOrderDeclarations:
        """Reads what only first-order policies have."""
        from mtlmon.policy.first_order.declarations import FirstOrderDeclarations

        return FirstOrderDeclarations(self)

    def split(self, declaration: Declaration, error: FormulaError) -> bool:
        """Split off the file's only formula, if it follows the last declaration on a new line.

        Returns:
            Whether the declaration was split. If so, it now ends where the formula begins, and the
            formula is a declaration of its own.
        """
        if (
            declaration is not self.declarations[-1]
            or declaration.kind not in {LET, ATOM, CONST}
            or any(other.kind in _CHECKED for other in self.declarations)
            or not self.begins_another(error, declaration)
        ):
            return False
        offset = self.offset_of(error)
        formula = Declaration(FORMULA, "", offset, offset)
        formula.end = declaration.end
        declaration.end = offset
        self.declarations.append(formula)
        return True

    def register(self, declaration: Declaration) -> None:
        name = declaration.name
        if name in self.named:
            line = self.line_of(self.named[name])
            message = f"{name} is declared in line {line} already"
            raise self.error(declaration.place, message, "give one of them another name")
        self.named[name] = declaration

    def explained(self, error: FormulaError, declaration: Declaration) -> FormulaError:
        """The error, with a better hint if another formula seems to begin there."""
        if declaration.kind == FORMULA or not self.begins_another(error, declaration):
            return error
        offset = self.offset_of(error)
        hint = (
            f"the declaration of {declaration.name} continues up to the next one; "
            "begin a policy with policy NAME:"
        )
        return formula_error(
            self.text, offset, error.message, source=self.source, hint=hint, kind=type(error)
        )

    def begins_another(self, error: FormulaError, declaration: Declaration) -> bool:
        """Whether the error is that something new begins on a line."""
        line = self.text.split("\n")[error.line - 1]
        return (
            not line[: error.column - 1].strip()
            and error.line > self.line_of(declaration)
            and error.message.startswith("expected an operator or the end")
        )

    def offset_of(self, error: FormulaError) -> int:
        return offset_of(self.text, error)

    def line_of(self, declaration: Declaration) -> int:
        return self.text.count("\n", 0, declaration.place) + 1

    def first_place(self, declaration: Declaration) -> int:
        """The position of the first token of a declaration's formula."""
        return Cursor(self.text, self.source, declaration.start, declaration.end).token.start

    def error(self, offset: int, message: str, hint: str) -> FormulaError:
        return formula_error(
            self.text, offset, message, source=self.source, hint=hint, kind=PolicyError
        )


def stream_value(name: str, span: Span | None = None) -> Expression:
    """Return the expression that is a stream's value, and where it is read."""
    from mtlmon.policy.predicates import operators as ops
    from mtlmon.policy.predicates.expression import Expression

    return Expression(ops.STREAM, (), name, span)


def overriding(name: str, written: str) -> Constant:
    """Read the value of a constant that does not come from the file."""
    from mtlmon.policy.predicates import operators as ops
    from mtlmon.policy.predicates.parser import parse_expression

    source = f"<{name}={written}>"
    expression = parse_expression(written, source)
    if expression.operator is not ops.CONSTANT:
        hint = "a constant is a number, a text in double quotes, true, false or null"
        message = "this is not a constant"
        raise formula_error(written, 0, message, source=source, hint=hint, kind=PolicyError)
    return expression.constant


def _place_of(name: str, formula: Formula) -> int:
    """The position where an atom occurs first."""
    spans = [node.span for node in postorder(formula) if node.name == name]
    return min(span.start for span in spans if span is not None)
