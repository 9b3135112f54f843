"""Reads policy files: a unit, named subformulas, atoms defined by predicates, named policies."""

from __future__ import annotations

from mtlmon.errors import FormulaError, PolicyError
from mtlmon.policy.declarations import (
    ATOM,
    FORMULA,
    LET,
    POLICY,
    UNIT,
    Declaration,
    read_declarations,
)
from mtlmon.syntax.bounds import LATER, UNITS, require_unit
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.parser import parse, parse_at
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.predicates.predicate import Predicate

_SOURCE = "<policies>"
_MEANT_UNITS = {
    **dict.fromkeys(("nanosecond", "nanoseconds", "nsec"), "ns"),
    **dict.fromkeys(("microsecond", "microseconds", "usec", "µs", "μs"), "us"),
    **dict.fromkeys(("millisecond", "milliseconds", "msec"), "ms"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "m"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}


class Policy:
    """A policy of a file.

    Attributes:
        name: the name of the policy, or None for a formula without a name.
        formula: the formula, with named subformulas replaced by their definitions.
        written: the formula as written in the file, where named subformulas are atoms.
    """

    __slots__ = ("formula", "name", "written")

    def __init__(self, name: str | None, formula: Formula, written: Formula) -> None:
        self.name = name
        self.formula = formula
        self.written = written

    def __repr__(self) -> str:
        return f"<Policy {self.name or 'without a name'}>"


class PolicyFile:
    """The content of a policy file.

    Attributes:
        unit: the unit of the time-stamps, or None if it is not declared.
        lets: the named subformulas by name; earlier ones are replaced by their definitions.
        atoms: the predicates by the name of the atom that they define.
        policies: the policies in the order of the file. Those that use the same named subformula
            share it as one object.
        text: the text that spans refer to.
        source: the name of the text in errors.
    """

    __slots__ = ("atoms", "lets", "policies", "source", "text", "unit")

    def __init__(self, text: str, source: str, unit: str | None) -> None:
        self.text = text
        self.source = source
        self.unit = unit
        self.lets: dict[str, Formula] = {}
        self.atoms: dict[str, Predicate] = {}
        self.policies: tuple[Policy, ...] = ()

    @property
    def atoms_needed(self) -> tuple[str, ...]:
        """The atoms that occur in policies, in order of first occurrence."""
        return tuple(
            dict.fromkeys(name for policy in self.policies for name in policy.formula.atoms)
        )

    @property
    def log_atoms(self) -> tuple[str, ...]:
        """The atoms in `atoms_needed` that no predicate defines: the log must provide them."""
        return tuple(name for name in self.atoms_needed if name not in self.atoms)

    @property
    def predicates(self) -> dict[str, Predicate]:
        """The predicates that define atoms in `atoms_needed`, by the name of the atom."""
        return {name: self.atoms[name] for name in self.atoms_needed if name in self.atoms}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `predicates` read, in order of first occurrence."""
        return tuple(
            dict.fromkeys(
                column for predicate in self.predicates.values() for column in predicate.columns
            )
        )


def parse_policies(text: str, path: str | None = None, *, unit: str | None = None) -> PolicyFile:
    """Parse a policy file.

    Args:
        text: the content of the file.
        path: the name of the file in errors.
        unit: the unit of the time-stamps, as for `mtlmon.parse`; it is an error if the file
            declares another.

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
    file, errors = check_policies(text, path, unit=unit)
    if errors:
        raise errors[0]
    return file


def check_policies(
    text: str, path: str | None = None, *, unit: str | None = None
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
    reader = _Reader(text, path or _SOURCE, unit)
    reader.read()
    reader.errors.sort(key=lambda error: (error.line, error.column))
    return reader.file, tuple(reader.errors)


def declares(text: str) -> bool:
    """Whether the text has declarations; otherwise it is a single formula."""
    declarations, _errors = read_declarations(text, _SOURCE)
    return [declaration.kind for declaration in declarations] != [FORMULA]


class _Reader:
    def __init__(self, text: str, source: str, unit: str | None) -> None:
        self.text = text
        self.source = source
        self.declarations, self.errors = read_declarations(text, source)
        self.file = PolicyFile(text, source, self.read_unit(unit))
        self.policies: dict[str | None, Policy] = {}
        # The first declaration of each name so far, also if it is invalid.
        self.named: dict[str, Declaration] = {}
        self.lets = {
            declaration.name for declaration in self.declarations if declaration.kind == LET
        }
        # The name of the let that is being parsed.
        self.present: str | None = None

    def read(self) -> None:
        if [declaration.kind for declaration in self.declarations] == [FORMULA]:
            self.read_formula_alone()
            return
        # `split` appends one if a formula without a name follows the last declaration.
        for declaration in self.declarations:
            try:
                self.read_declaration(declaration)
            except FormulaError as error:
                self.errors.append(error)
        self.file.policies = tuple(self.policies.values())
        kinds = [declaration.kind for declaration in self.declarations]
        if not self.errors and POLICY not in kinds and FORMULA not in kinds:
            hint = "write policy NAME: FORMULA"
            self.errors.append(self.error(len(self.text), "there is no policy", hint))

    def read_declaration(self, declaration: Declaration) -> None:
        self.present = declaration.name if declaration.kind == LET else None
        if declaration.kind == LET:
            self.read_let(declaration)
        elif declaration.kind == ATOM:
            self.read_atom(declaration)
        elif declaration.kind in {POLICY, FORMULA}:
            self.read_policy(declaration)

    def read_formula_alone(self) -> None:
        """Parse a file without declarations, with the same errors as a single formula."""
        try:
            formula = parse(self.text, unit=self.file.unit, source=self.source)
        except FormulaError as error:
            self.errors.append(error)
            return
        self.file.policies = (Policy(None, formula, formula),)

    def read_unit(self, unit: str | None) -> str | None:
        """The unit that was passed, or the one of the file, corrected if it is misspelt."""
        found: Declaration | None = None
        for declaration in self.declarations:
            if declaration.kind != UNIT:
                continue
            name, place = declaration.name, declaration.place
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
        return found.name if found.name in UNITS else _MEANT_UNITS.get(found.name.lower(), LATER)

    def read_let(self, declaration: Declaration) -> None:
        self.register(declaration)
        formula = self.formula(declaration)
        self.file.lets[declaration.name] = self.with_lets(formula)

    def read_atom(self, declaration: Declaration) -> None:
        # imported here, as only files with such atoms need predicates
        from mtlmon.policy.predicates.checking import check
        from mtlmon.policy.predicates.parser import parse_expression
        from mtlmon.policy.predicates.predicate import Predicate

        self.register(declaration)
        start, end = declaration.start, declaration.end
        try:
            expression = parse_expression(self.text, self.source, start, end)
        except FormulaError as error:
            if not self.split(declaration, error):
                raise self.explained(error, declaration) from None
            expression = parse_expression(self.text, self.source, start, declaration.end)
        predicate = Predicate(expression, self.text, self.source, declaration.name)
        self.errors += check(predicate).errors
        self.file.atoms[declaration.name] = predicate

    def read_policy(self, declaration: Declaration) -> None:
        name = declaration.name if declaration.kind == POLICY else None
        if name is None and any(other.kind == POLICY for other in self.declarations):
            start = self.first_place(declaration)
            hint = "write policy NAME: before it"
            raise self.error(start, "a formula without a name next to policies with names", hint)
        if name in self.policies:
            if name is None:
                message, hint = "a second formula", "give each policy a name: policy NAME: ..."
                raise self.error(self.first_place(declaration), message, hint)
            message = f"there is a policy {name} already"
            raise self.error(declaration.place, message, "give it another name")
        written = self.formula(declaration)
        self.policies[name] = Policy(name, self.with_lets(written), written)

    def with_lets(self, formula: Formula) -> Formula:
        """The formula with lets replaced by their definitions, each of which is shared."""
        lets = self.file.lets
        if not lets:
            return formula
        from mtlmon.syntax.rewrite import substitute

        return substitute(formula, {name: lets[name] for name in formula.atoms if name in lets})

    def formula(self, declaration: Declaration) -> Formula:
        try:
            formula = self.formula_of(declaration)
        except FormulaError as error:
            if not self.split(declaration, error):
                raise self.explained(error, declaration) from None
            formula = self.formula_of(declaration)
        self.require_known(formula)
        return formula

    def formula_of(self, declaration: Declaration) -> Formula:
        cursor = Cursor(self.text, self.source, declaration.start, declaration.end)
        return parse_at(cursor, self.file.unit)

    def split(self, declaration: Declaration, error: FormulaError) -> bool:
        """Split off the file's only formula, if it follows the last declaration on a new line.

        Returns:
            Whether the declaration was split. If so, it now ends where the formula begins, and the
            formula is a declaration of its own.
        """
        if (
            declaration is not self.declarations[-1]
            or declaration.kind not in {LET, ATOM}
            or any(other.kind in {POLICY, FORMULA} for other in self.declarations)
            or not self.begins_another(error, declaration)
        ):
            return False
        offset = self.offset_of(error)
        formula = Declaration(FORMULA, "", offset, offset)
        formula.end = declaration.end
        declaration.end = offset
        self.declarations.append(formula)
        return True

    def require_known(self, formula: Formula) -> None:
        """Refuse lets that are not declared before; otherwise they would be atoms of the log."""
        for name in formula.atoms:
            if name not in self.lets:
                continue
            if name == self.present:
                hint = "a let can use atoms, and lets that are declared before it"
                message = f"{name} is declared by itself"
                raise self.error(_place_of(name, formula), message, hint)
            if name not in self.named:
                message = f"{name} is declared further below"
                raise self.error(_place_of(name, formula), message, f"move let {name} up")

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
        lines = self.text.split("\n")[: error.line - 1]
        return sum(len(line) + 1 for line in lines) + error.column - 1

    def line_of(self, declaration: Declaration) -> int:
        return self.text.count("\n", 0, declaration.place) + 1

    def first_place(self, declaration: Declaration) -> int:
        """The position of the first token of a declaration's formula."""
        return Cursor(self.text, self.source, declaration.start, declaration.end).token.start

    def error(self, offset: int, message: str, hint: str) -> FormulaError:
        return formula_error(
            self.text, offset, message, source=self.source, hint=hint, kind=PolicyError
        )


def _place_of(name: str, formula: Formula) -> int:
    """The position where an atom occurs first."""
    spans = [node.span for node in postorder(formula) if node.name == name]
    return min(span.start for span in spans if span is not None)
