"""Reads policy files: constants, atoms, streams and formulas; the rest is read by its helpers."""

from __future__ import annotations

from functools import cached_property

from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy.clauses import ClauseReader, read_stream
from mtlmon.policy.declarations import (
    ATOM,
    CHECKED,
    CONST,
    FORMULA,
    LET,
    LINES,
    RELATION,
    STREAM,
    UNIT,
    Declaration,
    read_declarations,
)
from mtlmon.policy.declared_text import DeclaredText
from mtlmon.policy.lets import Lets
from mtlmon.policy.policies import PolicyReader
from mtlmon.policy.policy_file import PolicyFile
from mtlmon.policy.settings import SettingsReader, read_unit
from mtlmon.support.late_pattern import late_pattern
from mtlmon.syntax.bounds import LATER, require_unit
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.parser import parse_at
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from mtlmon.policy.conditions import Conditions
    from mtlmon.policy.definitions import Policy, Stream
    from mtlmon.policy.first_order.declarations import FirstOrderDeclarations
    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.resolving import Scope
    from mtlmon.syntax.formula import Formula, Span
    from mtlmon.syntax.interval import Interval

_SOURCE = "<policies>"
# The declarations whose names share one space.
_NAMED = frozenset({CONST, ATOM, STREAM, RELATION, LET})
# A sign outside quotes that formulas without conditions do not have, with no comment before it.
_COMPARED = late_pattern(r'(?s)(?:[^-=<>"`#/]++|<?[-=]>|"(?:[^"\\]|\\.)*")*+[-=<>]')
# Where it is not found, no value is one of a later row.
_LATER = late_pattern(r"next|\bat\b")
# What may be meant as `ONCE (1 < x)`.
_INTERVAL_BEFORE = late_pattern(r"\(\s*[0-9]+\s*\Z")


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
    reader = FileReader(text, path or _SOURCE, unit, constants or {}, needs_policy)
    reader.read()
    reader.errors.sort(key=lambda error: (error.line, error.column))
    return reader.file, tuple(reader.errors)


def add_parentheses(
    text: str,
    path: str | None = None,
    *,
    unit: str | None = None,
    constants: Mapping[str, str] | None = None,
) -> str:
    """Write the reading that version 0.2 gave to a policy file, with parentheses.

    Takes the same arguments as `parse_policies`.

    Returns:
        The text, in which operands of temporal operators have the parentheses that they need.

    Raises:
        FormulaError: the file has another error.

    >>> add_parentheses("policy p: ONCE a AND b  # so far")
    'policy p: ONCE (a AND b)  # so far'
    """
    missing: set[Span] = set()
    reader = FileReader(text, path or _SOURCE, unit, constants or {}, False, missing)
    reader.read()
    if reader.errors:
        raise min(reader.errors, key=lambda error: (error.line, error.column))
    marks = [(span.start, "(") for span in missing] + [(span.end, ")") for span in missing]
    for place, mark in sorted(marks, reverse=True):
        text = text[:place] + mark + text[place:]
    return text


def declares(text: str) -> bool:
    """Whether the text has declarations; otherwise it is a single formula."""
    declarations, _errors = read_declarations(text, _SOURCE)
    return [declaration.kind for declaration in declarations] != [FORMULA]


class FileReader(DeclaredText):
    """Reads a policy file, declaration by declaration.

    Args:
        text: the content of the file.
        source: the name of the text in errors.
        unit: the unit of the time-stamps that was asked for, or None.
        constants: the texts of constants that override those of the file.
        needs_policy: whether a file without a policy is an error.
        missing_parentheses: as for `parse_at`.

    Attributes:
        file: what has been read.
        named: the first declaration of each name, also if it is invalid.
        written: the formulas of lets as written.
        intervals: the intervals in formulas by how they are written.
    """

    def __init__(
        self,
        text: str,
        source: str,
        unit: str | None,
        constants: Mapping[str, str],
        needs_policy: bool,
        missing_parentheses: set[Span] | None = None,
    ) -> None:
        super().__init__(text, source)
        self.missing_parentheses = missing_parentheses
        self.needs_policy = needs_policy
        self.constants = constants
        self.file = PolicyFile(text, source, read_unit(self, unit))
        # also the one that `split` appends
        self.file.declarations = self.declarations
        self.named: dict[str, Declaration] = {}
        self.written: dict[str, Formula] = {}
        self.intervals: dict[str, Interval] = {}
        self.settings = SettingsReader(self)
        self.lets = Lets(self)
        self.policies = PolicyReader(self)

    def read(self) -> None:
        if [declaration.kind for declaration in self.declarations] == [FORMULA]:
            self.read_formula_alone()
            return
        for declaration in self.declarations:
            if declaration.kind in _NAMED:
                self.attempt(self.register, declaration)
        steps = (
            (LINES - {UNIT}, self.settings.read),
            ({CONST}, self.read_constant),
            ({RELATION}, self.read_interval_relation),
        )
        for kinds, read in steps:
            self.read_all(kinds, read)
        if self.names_of(RELATION):
            from mtlmon.policy.validity.reading import require_relations

            require_relations(self, self.file.intervals)
            # the columns of relations are known now
            self.__dict__.pop("scope", None)
        self.read_all({STREAM}, self.read_stream)
        if self.file.streams:
            self.find_kinds()
        self.read_all({ATOM}, self.read_atom)
        self.read_all({LET}, self.read_let)
        self.require_constants()
        self.lets.order()
        # `split` appends one if a formula without a name follows the last declaration.
        for declaration in self.declarations:
            if declaration.kind in CHECKED:
                self.attempt(self.policies.read, declaration)
        self.file.policies = tuple(self.policies.policies.values())
        if self.file.streams:
            from mtlmon.policy.templates import template_errors

            self.errors += template_errors(self.file)
        if not self.errors and _LATER.search(self.text):
            self.policies.wait_for_later_values()
        if not self.errors and any(one.clock is not None for one in self.clocked()):
            from mtlmon.policy.clock_errors import clock_errors

            self.errors += clock_errors(self.file)
        self.set_column_types()
        kinds_found = {declaration.kind for declaration in self.declarations}
        is_missing = self.needs_policy and not kinds_found & CHECKED
        if not self.errors and is_missing:
            hint = "write policy NAME: FORMULA"
            self.errors.append(self.error(len(self.text), "there is no policy", hint))

    def clocked(self) -> Iterator[Policy | Stream]:
        """Yield what can have time-points other than rows."""
        yield from self.file.policies
        yield from self.file.streams.values()

    def read_all(self, kinds: Collection[str], read: Callable[[Declaration], None]) -> None:
        """Read the declarations of some kinds, in order."""
        for declaration in self.declarations:
            if declaration.kind in kinds:
                self.attempt(read, declaration)

    def read_formula_alone(self) -> None:
        """Parse a file without declarations, with the same errors as a single formula."""
        self.attempt(self.policies.read, self.declarations[0])
        self.require_constants()
        self.file.policies = tuple(self.policies.policies.values())
        self.set_column_types()

    def set_column_types(self) -> None:
        """Find out as values of which type expressions read columns, if there are any."""
        file = self.file
        has_columns = file.atoms or file.streams or file.relations or file.shown or file.intervals
        if has_columns and not self.errors:
            from mtlmon.policy.column_types import set_column_types

            set_column_types(file)

    def clauses(self, start: int, end: int) -> ClauseReader:
        """Return a reader of the clauses in a part of the file."""
        file = self.file
        return ClauseReader(self.text, self.source, start, end, file.unit, file.constants)

    def read_constant(self, declaration: Declaration) -> None:
        from mtlmon.policy.predicates import operators as ops

        expression = self.expression(declaration)
        if expression.operator is not ops.CONSTANT:
            hint = "a constant is a number, a text in double quotes, true, false or null"
            raise self.error(self.first_place(declaration), "this is not a constant", hint)
        self.file.constants[declaration.name] = expression.constant
        if (written := self.constants.get(declaration.name)) is not None:
            self.file.constants[declaration.name] = overriding(
                declaration.name, written, self.file.unit
            )

    def require_constants(self) -> None:
        """Check that the file declares every constant that is to be overridden."""
        from mtlmon.support.guesses import advice

        for name in self.constants:
            if name not in self.file.constants:
                guess = advice(name, self.file.constants)
                hint = guess or f"declare it: const {name} = ..."
                message = f"there is no constant {name} to set"
                self.errors.append(self.error(0, message, hint))

    def read_stream(self, declaration: Declaration) -> None:
        from mtlmon.policy.predicates.operators import AGGREGATES, RESERVED

        if declaration.name in AGGREGATES and declaration.name in RESERVED:
            message = f"{declaration.name} is an aggregate: {declaration.name}[0,5](...)"
            raise self.error(declaration.place, message, "give the stream another name")
        clauses = self.clauses(declaration.start, declaration.end)
        kind = None
        if (header := declaration.header)[0] != header[1]:
            from mtlmon.policy.predicates.kinds import DECLARED
            from mtlmon.support.other_words import type_hint

            types = self.clauses(*header)
            kind = types.name("a type")
            if kind not in DECLARED:
                hint = type_hint(kind, DECLARED)
                place = self.text.index(kind, header[0])
                raise self.error(place, f"there is no type {kind}", hint)
            types.require_end("'='")
        self.file.streams[declaration.name] = read_stream(
            clauses, declaration.name, kind, declaration.place, self
        )

    def read_interval_relation(self, declaration: Declaration) -> None:
        from mtlmon.policy.validity.reading import RelationReader

        self.file.intervals[declaration.name] = RelationReader(self, declaration).read()

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
        is_end: bool = False,
        is_record: bool = False,
        parameters: Sequence[str] = (),
    ) -> Expression:
        """Find out what the names in an expression stand for.

        Args:
            expression: an expression of the file, as parsed.
            is_atom: whether it is the body of an atom, where names are columns.
            is_condition: whether a condition is expected of the whole expression.
            is_end: whether it says when instances end.
            is_record: whether it is about the records of a relation.
            parameters: the parameters of the stream that it belongs to.
        """
        from mtlmon.policy.predicates.resolving import resolve

        scope = self.scope._replace(
            parameters=parameters, is_atom_body=is_atom, is_end=is_end, is_record=is_record
        )
        return resolve(expression, scope, self.text, self.source, is_condition=is_condition)

    def require_relation(self, name: str, place: int) -> None:
        """Check that the file declares a relation, which is named at some place.

        Raises:
            PolicyError: it does not.
        """
        if name not in self.scope.relations:
            from mtlmon.policy.predicates.looking_up import no_relation

            if name in self.scope.streams:
                message = f"{name} is a stream, and only relations change"
                hint = "write on every 10s, or relation NAME = ..., and read the stream by .hold()"
                raise self.error(place, message, hint)
            raise self.error(place, *no_relation(name, self.scope))

    @cached_property
    def scope(self) -> Scope:
        """What names in expressions can stand for; constants have been read."""
        from mtlmon.policy.predicates.resolving import Scope, Shape

        future = self.lets.future()
        relations = {name: Shape() for name in self.names_of(RELATION)}
        if self.file.intervals:
            from mtlmon.policy.validity.declared import shape_of

            relations = {name: shape_of(self.file.intervals, name) for name in relations}
        return Scope(
            self.streams,
            self.names_of(ATOM),
            [name for name in self.names_of(LET) if name not in future],
            future,
            self.file.constants,
            relations,
        )

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

    def formula(self, declaration: Declaration) -> Formula:
        try:
            return self.formula_of(declaration)
        except FormulaError as error:
            if not self.split(declaration, error):
                raise self.explained(error, declaration) from None
            return self.formula_of(declaration)

    def formula_of(self, declaration: Declaration) -> Formula:
        """Parse a formula, which can have conditions inside.

        A text without comparisons may have none, and few policy files have streams, whose names
        stand for conditions, so it is parsed without conditions first.
        """
        start, end = declaration.start, declaration.end
        # PERF: making the error of a comparison, with its hint, took 0.1 s for 1,000 policies, and
        # that of arguments as much; after a formula with arguments, others have them, too
        relations = self.relations or self.file.relations
        if not (self.streams or relations or _COMPARED.match(self.text, start, end)):
            try:
                return self.parsed(start, end)
            except FormulaError:
                # without conditions, its tokens and its error are the same below
                pass
        if self.is_first_order(declaration):
            return self.first_order.read_formula(declaration)
        try:
            formula = self.parsed(start, end, self.conditions)
        except FormulaError as error:
            if _INTERVAL_BEFORE.search(self.text, 0, self.offset_of(error)):
                hint = "a parenthesis and a digit behind an operator open an interval: write x > 1"
                raise self.error(self.offset_of(error), error.message, hint) from None
            raise
        self.define_streams(formula)
        if self.relations:
            self.first_order.check(formula)
        return formula

    def parsed(self, start: int, end: int, conditions: Conditions | None = None) -> Formula:
        """Parse a part of the text as a formula."""
        constants = self.file.constants
        cursor = Cursor(self.text, self.source, start, end, conditions, constants=constants)
        return parse_at(cursor, self.file.unit, self.missing_parentheses, self.intervals)

    @cached_property
    def streams(self) -> list[str]:
        """The names of the streams that the file declares."""
        return self.names_of(STREAM)

    @cached_property
    def conditions(self) -> Conditions:
        """Reads the conditions inside formulas; constants and streams have been read."""
        from mtlmon.policy.conditions import Conditions

        place = self.source, self.file.unit
        return Conditions(*place, self.streams, self.file.constants, self.add_condition)

    def define_streams(self, formula: Formula) -> None:
        """Define the atoms that are the values of streams."""
        for node in postorder(formula):
            name = node.name
            if name is not None and name in self.streams and name not in self.file.atoms:
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

    def register(self, declaration: Declaration) -> None:
        name = declaration.name
        if name in self.named:
            line = self.line_of(self.named[name])
            message = f"{name} is declared in line {line} already"
            raise self.error(declaration.place, message, "give one of them another name")
        self.named[name] = declaration


def stream_value(name: str, span: Span | None = None) -> Expression:
    """Return the expression that is a stream's value, and where it is read."""
    from mtlmon.policy.predicates import operators as ops
    from mtlmon.policy.predicates.expression import Expression

    return Expression(ops.STREAM, (), name, span)


def overriding(name: str, written: str, unit: str | None) -> Constant:
    """Read the value of a constant that does not come from the file."""
    from mtlmon.policy.predicates import operators as ops
    from mtlmon.policy.predicates.parser import parse_expression

    source = f"<{name}={written}>"
    expression = parse_expression(written, source, unit=unit)
    if expression.operator is not ops.CONSTANT:
        hint = "a constant is a number, a text in double quotes, true, false or null"
        message = "this is not a constant"
        raise formula_error(written, 0, message, source=source, hint=hint, kind=PolicyError)
    return expression.constant
