"""Finds the types of variables and of the arguments of atoms, over some formulas of a file.

A variable that is an argument of an atom has the type of that argument. Where no declaration,
column or constant says it, comparisons do; what is left is text, as in a log every value is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import PolicyError
from mtlmon.policy.first_order.terms import (
    aggregates_of,
    free_variables,
    quantified,
    terms_of,
    variables_of,
)
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.expression import FLOATS, ORDERED_FLOATS, TypedColumn
from mtlmon.policy.predicates.kinds import Kind
from mtlmon.support.disjoint_sets import DisjointSets
from mtlmon.syntax import operators as ops
from mtlmon.syntax.joined_text import line_text
from mtlmon.syntax.printer import written_name
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.errors import FormulaError
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.definitions import Relation
    from mtlmon.policy.predicates.environment import Relation as LookedUp
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.syntax.formula import Formula

_Slot = int
_Scope = dict[str, _Slot]


class Types(DisjointSets):
    """The types of some formulas of a file.

    Attributes:
        relations: the kinds of the arguments of each atom by name.
        lets: those of the parameters of each let.
        errors: the clashes, in no particular order.
        mixed: the equalities of an integer and a float, which bind nothing.
    """

    def __init__(self, file: PolicyFile) -> None:
        super().__init__()
        self.file = file
        self.errors: list[FormulaError] = []
        self.mixed: list[Formula] = []
        self.relations: dict[str, tuple[Kind, ...]] = {}
        self.lets: dict[str, tuple[Kind, ...]] = {}
        # For each class of slots, its kind and the place that says so.
        self._kinds: dict[_Slot, tuple[Kind, int]] = {}
        # The classes whose kinds are those of columns, and not declared or asked for.
        self._of_columns: set[_Slot] = set()
        # The classes with numbers of text, of which integers are such that floats tell them apart.
        self._open: set[_Slot] = set()
        self._arguments: dict[str, list[_Slot]] = {}
        self._free: dict[int, _Scope] = {}
        # Predicates and comparisons with what the variables in them are.
        self._leaves: list[tuple[Formula, _Scope]] = []
        self._kept: list[Formula] = []

    def variables(self, formula: Formula) -> dict[str, Kind]:
        """The kinds of the free variables of a formula, and of those of its leading FORALLs."""
        return {name: self._kind(slot) for name, slot in self._free[id(formula)].items()}

    def _kind(self, slot: _Slot) -> Kind:
        found = self._kinds.get(self.root(slot))
        return kinds.TEXT if found is None else found[0]

    def set(
        self, slot: _Slot, kind: Kind, place: int, what: str, *, is_of_column: bool = False
    ) -> None:
        """Say what kind a slot has; report a clash with what is known."""
        root = self.root(slot)
        known = self._kinds.get(root)
        if known is None or known[0].name == "unknown":
            self._kinds[root] = (kind, place)
            if is_of_column:
                self._of_columns.add(root)
        elif kind.name not in {known[0].name, "unknown"}:
            self._clash(what, kind, place, *known)

    def join(self, one: _Slot, other: _Slot, place: int, what: str) -> None:
        """Say that two slots have one type."""
        left, right = self.root(one), self.root(other)
        if left == right:
            return
        known, other_known = self._kinds.get(left), self._kinds.get(right)
        names = {one[0].name for one in (known, other_known) if one} - {"unknown"}
        are_columns = {left, right} <= self._of_columns
        if known and other_known and len(names) == 2:
            if not (are_columns and _have_texts(known[0], other_known[0])):
                self._clash(what, other_known[0], place, *known)
                return
            if names == {"integer", "float"} and {left, right} & self._open:
                known = (kinds.FLOAT, known[1])
            else:
                # 7, 7.0 and "7" are equal: their values are compared by their canonical texts
                known = (kinds.TEXT, known[1])
            other_known = known
        self.unite(left, right)
        if right in self._open:
            self._open.add(left)
        best = known if known and known[0].name != "unknown" else other_known or known
        if best is not None:
            self._kinds[left] = best
        if not are_columns and (known is None or other_known is None):
            are_columns = bool({left, right} & self._of_columns)
        (self._of_columns.add if are_columns else self._of_columns.discard)(left)

    def _clash(self, what: str, kind: Kind, place: int, known: Kind, known_place: int) -> None:
        where = line_text(self.file.text, known_place)
        message = f"{what} is {kind.words} here, but {known.words} in {where}"
        hint = "a variable has one type; declare the arguments of atoms, as in atom p(x: int)"
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


class _Said(NamedTuple):
    """What declarations and columns say of the arguments of an atom.

    Attributes:
        declared: for each argument, the kind that is declared, or None.
        of_columns: for each argument, the kind that its columns say, or None.
        is_open: for each argument, whether its values are numbers of text.
        errors: what is wrong.
    """

    declared: list[Kind | None]
    of_columns: list[Kind | None]
    is_open: list[bool]
    errors: list[FormulaError]


class Facts:
    """What is the same for all formulas of a file, each thing found once.

    Args:
        file: the policy file.
        schema: the columns of the table, or None if they are not known yet.
        checked: the names of the atoms whose columns are among them.
        looked_up: the relations in which atoms look values up; None if they are not known.
    """

    def __init__(
        self,
        file: PolicyFile,
        schema: pa.Schema | None,
        checked: Container[str],
        looked_up: Mapping[str, LookedUp] | None,
    ) -> None:
        self.file = file
        self._schema = schema
        self._checked = checked
        self._environment = file.environment._replace(
            relations=looked_up or {}, is_open=looked_up is None
        )
        self._said: dict[str, _Said] = {}
        self._leaves: dict[object, tuple[Formula, list[FormulaError], bool]] = {}

    def said_of(self, relation: Relation) -> _Said:
        """Return what declarations and columns say of an atom."""
        if relation.name not in self._said:
            schema = self._schema if relation.name in self._checked else None
            self._said[relation.name] = self._find(relation, schema)
        return self._said[relation.name]

    def _find(self, relation: Relation, schema: pa.Schema | None) -> _Said:
        said = _Said([], [], [], [])
        name = written_name(relation.name)
        for argument in relation.arguments:
            declared = None if argument.kind is None else kinds.DECLARED[argument.kind]
            said.declared.append(declared)
            found: Kind | None = None
            is_open = False
            if argument.expression is not None and not argument.is_key:
                predicate = self.file.predicate(argument.expression, name)
                checked = check(predicate, schema, self._environment, wanted=None)
                said.errors.extend(checked.errors)
                found = checked.kinds[id(argument.expression)]
                if declared is None and _may_have_fractions(argument.expression, found, schema):
                    # later rows can have fractions, whatever the first ones have
                    found, is_open = kinds.FLOAT, True
                if found.name == "null":
                    # a column without any value says nothing: the first rows of a pipe may have
                    # none
                    found = None
                elif found.name == "decimal" and declared is None:
                    # its values are compared by their canonical texts
                    found = kinds.TEXT
            said.of_columns.append(None if found is None else found._replace(unit=0))
            said.is_open.append(is_open)
        if relation.condition is not None:
            predicate = self.file.predicate(relation.condition, name)
            said.errors.extend(check(predicate, schema, self._environment).errors)
        return said

    def check_leaf(self, node: Formula, found: dict[str, Kind]) -> tuple[list[FormulaError], bool]:
        """Check the terms of a predicate or comparison.

        Args:
            node: the predicate or comparison.
            found: the kinds of its variables.

        Returns:
            What is wrong, and whether it is an equality of an integer and a float.
        """
        key = (id(node), *found.items())
        if key not in self._leaves:
            self._leaves[key] = (node, *self._check_leaf(node, found))
        return self._leaves[key][1:]

    def _check_leaf(self, node: Formula, found: dict[str, Kind]) -> tuple[list[FormulaError], bool]:
        errors: list[FormulaError] = []
        is_mixed = False
        environment = self.file.environment._replace(parameters=found)
        for term in terms_of(node):
            if term.operator is terms.WILDCARD:
                continue
            wanted = kinds.BOOLEAN if node.operator is ops.COMPARISON else None
            checked = check(self.file.predicate(term, None), None, environment, wanted=wanted)
            errors += checked.errors
            is_mixed |= term.operator is terms.EQUAL and _is_mixed(term, checked.kinds)
        return errors, is_mixed


class _Finder(Types):
    def __init__(self, facts: Facts) -> None:
        super().__init__(facts.file)
        self._facts = facts

    def declare(self, relation: Relation) -> None:
        """Take in the types of an atom's arguments that declarations and columns say."""
        said = self._facts.said_of(relation)
        self.errors += said.errors
        slots = self._arguments[relation.name] = [self.add_set() for _ in relation.arguments]
        for place, (slot, argument) in enumerate(zip(slots, relation.arguments, strict=True)):
            what = f"{written_name(relation.name)}: {argument.name}"
            declared, of_column = said.declared[place], said.of_columns[place]
            if declared is not None:
                self.set(slot, declared, argument.place, what)
            if said.is_open[place]:
                self._open.add(self.root(slot))
            if of_column is not None:
                is_of_column = declared is None
                self.set(slot, of_column, argument.place, what, is_of_column=is_of_column)

    def take(self, formula: Formula, parameters: Mapping[str, _Slot]) -> None:
        """Take in a formula: which variables are arguments of which atoms."""
        self._kept.append(formula)
        free = free_variables(formula)
        outer = {name: self.add_set() for name in free[id(formula)] if name not in parameters}
        outer |= parameters
        self._free[id(formula)] = outer
        stack = [(formula, outer)]
        is_leading = True
        while stack:
            node, scope = stack.pop()
            names = quantified(node)
            is_leading = is_leading and node.operator is ops.FORALL
            inner = scope
            if names:
                inner = scope | {name: self.add_set() for name in names}
                if is_leading:
                    outer |= inner
            if not terms_of(node):
                stack += ((operand, inner) for operand in reversed(node.operands))
                continue
            here = dict(scope)
            for aggregate in aggregates_of(node):
                operand = node.operands[aggregate.aggregate.formula]
                groups = aggregate.aggregate.by or ()
                own = {name: self.add_set() for name in free[id(operand)] if name not in groups}
                own |= {name: scope[name] for name in groups}
                here |= {
                    name: own[name] for one in aggregate.operands for name in variables_of(one)
                }
                stack.append((operand, own))
            self._leaf(node, here)

    def _leaf(self, node: Formula, here: _Scope) -> None:
        self._leaves.append((node, here))
        if node.operator is not ops.PREDICATE or node.name not in self._arguments:
            return
        for slot, argument in zip(self._arguments[node.name], terms_of(node), strict=True):
            place = 0 if argument.span is None else argument.span.start
            if argument.operator is terms.VARIABLE:
                self.join(slot, here[argument.name], place, f"the variable {argument.name}")
            elif argument.operator is terms.CONSTANT:
                found = constant_kind(argument.value)
                known = self._kinds.get(self.root(slot))
                is_float = known is not None and known[0].name == "float"
                if not (is_float and found == kinds.INTEGER):
                    self.set(slot, found, place, f"the argument {argument}")

    def compare(self) -> None:
        """Let comparisons say the types of variables for which nothing else does."""
        for _ in range(len(self._leaves) + 1):
            if not any([self._compared(node, scope) for node, scope in self._leaves]):
                break

    def _compared(self, node: Formula, scope: _Scope) -> bool:
        has_changed = False
        done: dict[int, Kind | None] = {}
        for part in postorder(*terms_of(node)):
            for operand, wanted in zip(part.operands, self._wanted(part, done), strict=True):
                if wanted is None or operand.operator is not terms.VARIABLE:
                    continue
                root = self.root(scope[operand.name])
                if root not in self._kinds:
                    place = 0 if operand.span is None else operand.span.start
                    self._kinds[root] = (wanted, place)
                    has_changed = True
            done[id(part)] = self._known(part, scope, done)
        return has_changed

    def _wanted(self, part: Expression, done: Mapping[int, Kind | None]) -> Sequence[Kind | None]:
        """The kind that each operand of a term must have, as far as it is known."""
        if part.operator is terms.OWN_FUNCTION:
            return part.own_function.arguments
        if part.operator in terms.CONVERSIONS.values():
            return [_RESULTS[name] for name in part.operator.signature[:-1]]
        return [self._wanted_by_all(part, done)] * len(part.operands)

    def _wanted_by_all(self, part: Expression, done: Mapping[int, Kind | None]) -> Kind | None:
        """The kind that all operands of a term must have."""
        operator = part.operator
        known = [found for one in part.operands if (found := done[id(one)])]
        if operator in {terms.IN, terms.NOT_IN}:
            return constant_kind(part.members[0])
        if operator in terms.COMPARISONS.values():
            return known[0] if known else None
        is_of_numbers = operator is terms.AGGREGATE_FORMULA and part.aggregate.word in _OF_NUMBERS
        if is_of_numbers or operator in terms.ARITHMETIC:
            return known[0] if known else kinds.INTEGER
        if operator in terms.FUNCTIONS.values():
            return _TAKEN.get(operator.signature[0])
        return None

    def _known(
        self, term: Expression, scope: _Scope, done: Mapping[int, Kind | None]
    ) -> Kind | None:
        """The kind of a term as far as it is known; `done` has the kinds of its operands."""
        operator = term.operator
        known = [found for one in term.operands if (found := done[id(one)])]
        if operator is terms.CONSTANT:
            return constant_kind(term.value)
        if operator is terms.VARIABLE:
            kind, _ = self._kinds.get(self.root(scope[term.name]), (kinds.UNKNOWN, 0))
            return None if kind.name == "unknown" else kind
        if operator in terms.OF_FORMULAS:
            word = term.aggregate.word
            if word == "COUNT":
                return kinds.INTEGER
            return kinds.FLOAT if word in {"AVG", "MEDIAN"} else known[0] if known else None
        if operator is terms.OWN_FUNCTION:
            return term.own_function.kind
        if operator in {*terms.FUNCTIONS.values(), *terms.CONVERSIONS.values()}:
            return _RESULTS.get(operator.signature[-1])
        if operator is terms.DIVIDE:
            return kinds.FLOAT
        if operator in terms.ARITHMETIC:
            return kinds.FLOAT if kinds.FLOAT in known else known[0] if known else None
        return None

    def check_leaves(self) -> None:
        """Check the terms with the kinds of their variables."""
        for node, scope in self._leaves:
            found = {name: self._kind(slot) for name, slot in scope.items()}
            errors, is_mixed = self._facts.check_leaf(node, found)
            self.errors += errors
            if is_mixed:
                self.mixed.append(node)
            if node.operator is ops.COMPARISON:
                self.errors += self._unordered(node, scope)

    def _unordered(self, node: Formula, scope: _Scope) -> Iterator[FormulaError]:
        """Refuse `<` between variables whose type nothing says."""
        (term,) = terms_of(node)
        names = [one.name for one in term.operands if one.operator is terms.VARIABLE]
        if term.operator not in terms.ORDERINGS or len(names) < 2:
            return
        if any(self.root(scope[name]) not in self._kinds for name in names):
            start = 0 if node.span is None else node.span.start
            yield formula_error(
                self.file.text,
                start,
                f"nothing says of which type {names[0]} and {names[1]} are",
                source=self.file.source,
                hint="declare the arguments of their atoms, as in atom p(x: int)",
                kind=PolicyError,
            )

    def finish(self) -> None:
        for name, slots in self._arguments.items():
            found = self.relations if name in self.file.relations else self.lets
            found[name] = tuple(self._kind(slot) for slot in slots)


def _have_texts(one: Kind, other: Kind) -> bool:
    """Whether values of two kinds are equal where their canonical texts are."""
    return kinds.equal_as_texts(one, other) or {one.name, other.name} <= kinds.NUMBERS


def _may_have_fractions(expression: Expression, found: Kind, schema: pa.Schema | None) -> bool:
    """Whether values are of cells of text that are read as numbers, with a point or without.

    So are cells of which only the order is used, if the first rows have none.
    """
    if schema is None or found.name not in {"integer", "float", "null"}:
        return False
    return any(
        isinstance(one.name, TypedColumn)
        and one.name.type in {FLOATS, ORDERED_FLOATS}
        and one.name.read_as in schema.names
        for one in postorder(expression)
        if one.operator in terms.COLUMNS
    )


def _is_mixed(equality: Expression, found: Mapping[int, Kind]) -> bool:
    """Whether an integer equals a float; a constant is what it is compared with."""
    if any(one.operator is terms.CONSTANT for one in equality.operands):
        return False
    return {found[id(one)].name for one in equality.operands} == {"integer", "float"}


_OF_NUMBERS = frozenset({"SUM", "AVG", "MEDIAN"})
_RESULTS = {"text": kinds.TEXT, "integer": kinds.INTEGER, "float": kinds.FLOAT}
_TAKEN = {"text": kinds.TEXT, "number": kinds.INTEGER, "time": kinds.TIME}


def constant_kind(value: object) -> Kind:
    """The kind of a constant."""
    if isinstance(value, bool):
        return kinds.BOOLEAN
    if isinstance(value, int):
        return kinds.INTEGER
    return kinds.TEXT if isinstance(value, str) else kinds.FLOAT


def find_types(facts: Facts, names: Iterable[str], formulas: Sequence[Formula]) -> Types:
    """Find the types of formulas.

    Args:
        facts: what is the same for all formulas of the file.
        names: the atoms and lets with arguments that they use, also by way of lets.
        formulas: the formulas.
    """
    file = facts.file
    finder = _Finder(facts)
    used = list(names)
    for name in used:
        if name in file.relations:
            finder.declare(file.relations[name])
    lets = {
        name: {parameter: finder.add_set() for parameter in file.parameters[name]}
        for name in used
        if name in file.parameters
    }
    # a let may use itself, and lets that come later
    finder._arguments |= {name: list(slots.values()) for name, slots in lets.items()}
    for name, slots in lets.items():
        finder.take(file.lets[name], slots)
    for formula in formulas:
        finder.take(formula, {})
    finder.compare()
    finder.check_leaves()
    finder.finish()
    return finder


__all__ = ["Facts", "Types", "constant_kind", "find_types"]
