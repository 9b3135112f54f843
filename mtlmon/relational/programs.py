"""Compiles terms to the code of machines, and finds the kinds of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.first_order.terms import quantified, terms_of, variables_of
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as terms
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.machine_code import WANTED, MachineCode
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.relational import native
from mtlmon.relational.cells import from_cell, number_text, to_cell
from mtlmon.relational.outside import MOMENT
from mtlmon.relational.plan import ProgramPlan
from mtlmon.relational.types import constant_kind
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.syntax.formula import Formula

_NO_KINDS: Mapping[str, Kind] = {}


def kinds_of(
    expression: Expression, variables: Mapping[str, Kind], environment: Environment
) -> Mapping[int, Kind]:
    """The kinds of the nodes of a term, by `id`."""
    known = environment._replace(parameters=variables)
    return check(Predicate(expression, "", ""), None, known, wanted=None).kinds


def kinds_of_arguments(name: str, relations: Mapping[str, tuple[Kind, ...]]) -> tuple[Kind, ...]:
    """The kinds of the arguments of an atom; () for one without."""
    return (kinds.INTEGER,) if name == MOMENT else relations.get(name, ())


def kinds_of_variables(
    formulas: list[Formula], relations: Mapping[str, tuple[Kind, ...]], environment: Environment
) -> dict[str, Kind]:
    """Find the kinds of all variables of formulas whose bound variables are named apart."""
    found: dict[str, Kind] = {}
    names: dict[str, None] = {}
    equalities: list[Formula] = []
    for node in postorder(*formulas):
        names |= dict.fromkeys(quantified(node))
        for term in terms_of(node):
            names |= dict.fromkeys(
                one.name for one in postorder(term) if one.operator is terms.VARIABLE
            )
        if node.operator is ops.PREDICATE:
            found_kinds = kinds_of_arguments(node.name or "", relations)
            for term, kind in zip(terms_of(node), found_kinds, strict=True):
                if term.operator is terms.VARIABLE and kind.name != "unknown":
                    found.setdefault(term.name, kind)
        elif node.operator is ops.COMPARISON:
            equalities.append(node)
    for _ in range(len(names) + 1):
        before = len(found)
        for node in equalities:
            _let_say(node, found, environment)
        if len(found) == before:
            break
    return {name: found.get(name, kinds.TEXT) for name in names}


def _let_say(node: Formula, found: dict[str, Kind], environment: Environment) -> None:
    """Let a comparison say what kinds its variables have."""
    (term,) = terms_of(node)
    if term.operator in {terms.IN, terms.NOT_IN}:
        (operand,) = term.operands
        if operand.operator is terms.VARIABLE and operand.name not in found:
            found[operand.name] = constant_kind(term.members[0])
        return
    if term.operator not in set(terms.COMPARISONS.values()):
        return
    for one, other in (term.operands, term.operands[::-1]):
        if one.operator is not terms.VARIABLE or one.name in found:
            continue
        if all(name in found for name in _all_variables(other, node)):
            kind = kinds_of(other, found, environment)[id(other)]
            if kind.name not in {"unknown", "null"}:
                found[one.name] = kind


def _all_variables(term: Expression, node: Formula) -> list[str]:
    """The variables of a term, with those in the values of aggregates."""
    return [one.name for one in postorder(term) if one.operator is terms.VARIABLE]


def _words(nodes: Sequence[Expression]) -> list[str]:
    """Expressions as the policy has them: variables that were named apart, by their own names."""
    own: dict[int, Expression] = {}
    for node in postorder(*nodes):
        value = node.name.partition(" ")[0] if node.operator is terms.VARIABLE else node.value
        operands = tuple(own[id(one)] for one in node.operands)
        own[id(node)] = Expression(node.operator, operands, value, node.span)
    return [str(own[id(node)]) for node in nodes]


class _RowProgram(MachineCode):
    """The code of a term whose variables are columns of a row."""

    def __init__(
        self,
        texts: KeyTable,
        columns: Mapping[str, int],
        found: Mapping[int, Kind],
    ) -> None:
        super().__init__(native.OPERATIONS, "rows")
        self._texts = texts
        self._columns = columns
        self._kinds = dict(found)

    def program(self, expression: Expression, wanted: Kind | None) -> ProgramPlan:
        """Compile an expression to a value of a kind.

        Raises:
            NotPossible: it has a function that machines lack.
        """
        result = self._expression(expression)
        if wanted is not None:
            result = self._as(result, self._kinds[id(expression)], wanted)
        return ProgramPlan(
            self._code, self._register_count, self._constants, result, _words(self._nodes)
        )

    def _name(self, node: Expression) -> int:
        return self._new("load", node, self._columns[node.name])

    def _text_cell(self, text: str) -> int:
        return number_text(self._texts, text)

    def _node(self, node: Expression) -> int:
        register = super()._node(node)
        is_number = self._kinds[id(node)].name == "float" and node.operator not in terms.NAMES
        if is_number and node.operator is not terms.CONSTANT:
            # what is not a number is no value
            register = self._new("nan_to_null", node, register)
        return register

    def _comparison(self, node: Expression, registers: list[int], found: list[Kind]) -> int:
        if found[0].name == "text" and node.operator in terms.ORDERINGS:
            left, right = registers
            return self._new("compare_texts", node, left, right, WANTED[node.operator])
        return super()._comparison(node, registers, found)


def program_of(
    expression: Expression,
    columns: Mapping[str, int],
    variables: Mapping[str, Kind],
    environment: Environment,
    texts: KeyTable,
    wanted: Kind | None = None,
) -> ProgramPlan:
    """Compile a term.

    Args:
        expression: the term, without aggregates.
        columns: the column of each variable.
        variables: the kind of each variable.
        environment: what the file says about times.
        texts: the numbers of texts.
        wanted: the kind of the value; by default, that of the term.

    Raises:
        NotPossible: it has a function that machines lack.
    """
    found = kinds_of(expression, variables, environment)
    return _RowProgram(texts, columns, found).program(expression, wanted)


def function_of(
    expression: Expression,
    variables: Mapping[str, Kind],
    environment: Environment,
    wanted: Kind | None = None,
) -> tuple[tuple[str, ...], Callable[[list[list[int]], int, KeyTable], list[int | None]]]:
    """Compile a term to operations on columns, which have all functions.

    Returns:
        The variables whose columns are taken, in order, and the function.

    Raises:
        MtlmonError: pyarrow is not installed.
    """
    from mtlmon.support.extras import load_extra

    pa = load_extra("pyarrow", "tables")

    from mtlmon.policy.predicates.columns import column_type
    from mtlmon.policy.predicates.compiling import CompiledExpressions

    names = variables_of(expression)
    columns = _column_names(names)
    used = {columns[name]: variables[name] for name in names}
    schema = pa.schema([(name, column_type(kind)) for name, kind in used.items()])
    predicate = Predicate(_over_columns(expression, columns), "", "")
    compiled = CompiledExpressions({"value": predicate}, schema, environment)
    kind = compiled.kinds["value"] if wanted is None else wanted

    def compute(columns: list[list[int]], count: int, texts: KeyTable) -> list[int | None]:
        arrays = {
            name: pa.array([from_cell(cell, one, texts) for cell in column], column_type(one))
            for (name, one), column in zip(used.items(), columns, strict=True)
        }
        values = compiled.compute(arrays, count)["value"].to_pylist()
        return [to_cell(value, kind, texts) for value in values]

    return names, compute


def _column_names(names: Sequence[str]) -> dict[str, str]:
    """Names of columns for variables: as the policy has them, if these are different."""
    written = {name: name.partition(" ")[0] for name in names}
    return written if len(set(written.values())) == len(names) else {name: name for name in names}


def _over_columns(expression: Expression, columns: Mapping[str, str]) -> Expression:
    """The term with columns for its variables."""
    if expression.operator is terms.VARIABLE:
        return Expression(terms.COLUMN, (), columns[expression.name], expression.span)
    operands = tuple(_over_columns(one, columns) for one in expression.operands)
    return Expression(expression.operator, operands, expression.value, expression.span)


def is_mixed(node: Formula, variables: Mapping[str, Kind], environment: Environment) -> bool:
    """Whether a comparison is the equality of an integer and a float, which binds nothing."""
    (term,) = terms_of(node)
    if term.operator is not terms.EQUAL:
        return False
    if any(one.operator is terms.CONSTANT for one in term.operands):
        return False
    found = kinds_of(term, variables, environment)
    return {found[id(one)].name for one in term.operands} == {"integer", "float"}
