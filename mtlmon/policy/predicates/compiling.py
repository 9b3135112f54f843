"""Compiles expressions to operations on whole columns.

All expressions become one list of instructions, with one for each distinct subexpression. So a
subexpression that several of them share is computed only once for each batch. What looks at other
rows is not compiled here: its values are columns of their own.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from mtlmon.errors import MtlmonError, RowError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.conversions import FUNCTIONS as CONVERSIONS
from mtlmon.policy.predicates.environment import (
    NOTHING,
    NOTHING_VALID,
    SEVERAL_VALID,
    TIME_STAMPS,
    Environment,
)
from mtlmon.policy.predicates.expression import column_in, column_of_schema, number
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.report import shorten

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise MtlmonError(
        "predicates over the columns of a table need pyarrow: pip install 'mtlmon[tables]'"
    ) from error

from mtlmon.policy.predicates import numbers
from mtlmon.policy.predicates.clocks import difference, is_zone, read_clock, scale
from mtlmon.policy.predicates.columns import (
    as_column,
    as_scalar,
    as_values,
    column_of,
    computed_type,
    where_true,
)
from mtlmon.policy.predicates.comparisons import (
    compare_as_texts,
    compare_times,
    floats_with_integer,
    instant_in,
    is_element,
    is_member,
    members_of,
    rank,
    with_constant,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.numbers import Values
    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.policy.predicates.predicate import Predicate

_SHOWN_WIDTH = 60

# The functions of operators whose operands are Booleans, texts, integers and floats.
_LOGIC: dict[Operator, Callable[..., Values]] = {
    ops.AND: pc.and_kleene,
    ops.OR: pc.or_kleene,
    ops.NOT: pc.invert,
    ops.IS_NULL: pc.is_null,
    ops.IS_NOT_NULL: pc.is_valid,
    ops.LOWER: pc.utf8_lower,
    ops.UPPER: pc.utf8_upper,
}
_PATTERNS: dict[Operator, Callable[..., Values]] = {
    ops.STARTSWITH: pc.starts_with,
    ops.ENDSWITH: pc.ends_with,
    ops.CONTAINS: pc.match_substring,
    ops.MATCHES: pc.match_substring_regex,
}
_INTEGERS: dict[Operator, Callable[..., Values]] = {
    ops.ADD: pc.add_checked,
    ops.SUBTRACT: pc.subtract_checked,
    ops.MULTIPLY: pc.multiply_checked,
    ops.NEGATE: pc.negate_checked,
    ops.ABS: pc.abs_checked,
    ops.FLOOR: lambda value: value,
    ops.ROUND: lambda value: value,
    ops.REMAINDER: numbers.integer_remainder,
}
_FLOATS: dict[Operator, Callable[..., Values]] = {
    ops.ADD: pc.add,
    ops.SUBTRACT: pc.subtract,
    ops.MULTIPLY: pc.multiply,
    ops.NEGATE: pc.negate,
    ops.ABS: pc.abs,
    ops.FLOOR: pc.floor,
    ops.ROUND: partial(pc.round, round_mode="half_to_even"),
    ops.SQRT: pc.sqrt,
    ops.SIN: pc.sin,
    ops.COS: pc.cos,
    ops.TAN: pc.tan,
    ops.ATAN2: pc.atan2,
    ops.EXP: pc.exp,
    ops.LOG: pc.ln,
    ops.POW: pc.power,
    ops.DIVIDE: numbers.divide,
    ops.REMAINDER: numbers.float_remainder,
}


class CompiledExpressions:
    """Expressions compiled for columns of certain types.

    What has values of other rows or of streams is not in them; a column takes its place.

    Args:
        expressions: the expressions by name, of any kind.
        schema: the types of the columns; those that no expression names may differ.
        environment: the time column, the unit and the zone.

    Attributes:
        types: the types of the columns that are read, by name.
        kinds: the kind of each expression.

    Raises:
        PolicyError: a column does not exist, or its type does not fit.
    """

    def __init__(
        self,
        expressions: Mapping[str, Predicate],
        schema: pa.Schema,
        environment: Environment = NOTHING,
    ) -> None:
        self._program = _Program(expressions, schema, environment)
        self.types = self._program.types
        self.kinds = {
            name: self._program.kind(predicate.expression)
            for name, predicate in expressions.items()
        }

    def compute(self, columns: Mapping[str, pa.Array], length: int) -> dict[str, pa.Array]:
        """Compute all expressions.

        Args:
            columns: the columns by name, of the types in the schema.
            length: the number of rows.

        Returns:
            For each expression an array of the type `column_type` of its kind.

        Raises:
            RowError: integers overflow, or a time is not in the years 1 to 9999.
        """
        results = self._program.run(columns, length)
        return {name: as_column(results[name], kind, length) for name, kind in self.kinds.items()}


class CompiledPredicates:
    """Predicates compiled for tables of one schema.

    Args:
        predicates: the predicates by the name of the atom that each defines.
        schema: the schema of all batches; columns that no predicate names may differ.
        environment: the time column, the unit and the zone, for functions of time.

    Attributes:
        names: the atoms, in the order of `predicates`.
        columns: the names of the columns that are read.

    Raises:
        PolicyError: a column does not exist, or its type does not fit.
    """

    def __init__(
        self,
        predicates: Mapping[str, Predicate],
        schema: pa.Schema,
        environment: Environment = NOTHING,
    ) -> None:
        self.names = tuple(predicates)
        self._program = _Program(predicates, schema, environment, wanted=kinds.BOOLEAN)
        self.columns = tuple(self._program.types)

    def __call__(self, batch: pa.RecordBatch) -> dict[str, pa.BooleanArray]:
        """Compute where the predicates are true.

        Returns:
            For each atom an array as long as the batch, without nulls.

        Raises:
            RowError: integers overflow, or a time is not in the years 1 to 9999.
            ValueError: a column is missing, or has another type than in the schema.
        """
        columns = {
            name: column_of(batch, name, data_type)
            for name, data_type in self._program.types.items()
        }
        results = self._program.run(columns, batch.num_rows)
        return {name: where_true(found, batch.num_rows) for name, found in results.items()}


def compile_predicates(
    predicates: Mapping[str, Predicate],
    schema: pa.Schema,
    environment: Environment = NOTHING,
) -> CompiledPredicates:
    """Compile the predicates of a file for tables of one schema.

    Args:
        predicates: the predicates by the name of the atom that each defines.
        schema: the schema of all batches; columns that no predicate names may differ.
        environment: the time column, the unit and the zone, for functions of time.

    Raises:
        PolicyError: a column does not exist, or its type does not fit.
    """
    return CompiledPredicates(predicates, schema, environment)


def compile_predicate(
    predicate: Predicate, schema: pa.Schema
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Compile one predicate to a function that says in which rows of a batch it is true.

    Args:
        predicate: the predicate.
        schema: the schema of all batches; columns that the predicate does not name may differ.

    Raises:
        PolicyError: a column does not exist, or its type does not fit.

    >>> from mtlmon.policy import parse_predicate
    >>> batch = pa.RecordBatch.from_pydict({"speed": [90, 130, None]})
    >>> is_fast = compile_predicate(parse_predicate("speed > 120"), batch.schema)
    >>> is_fast(batch).to_pylist()
    [False, True, False]
    """
    name = predicate.name or ""
    compiled = CompiledPredicates({name: predicate}, schema)
    return lambda batch: compiled(batch)[name]


class _Instruction:
    """One operation on the results of earlier instructions.

    Attributes:
        function: the function to call.
        arguments: the numbers of the instructions whose results are its arguments.
        node: the expression that it computes.
        atom: the first atom that needs it, for errors.
        last_used: the numbers of the instructions whose results are not needed after it.
    """

    __slots__ = ("arguments", "atom", "function", "last_used", "node")

    def __init__(
        self, function: Callable[..., Values], arguments: tuple[int, ...], node: Expression
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.node = node
        self.atom: str | None = None
        self.last_used: list[int] = []


class _Program:
    def __init__(
        self,
        predicates: Mapping[str, Predicate],
        schema: pa.Schema,
        environment: Environment,
        *,
        wanted: Kind | None = None,
    ) -> None:
        self.environment = environment
        self.kinds: dict[int, Kind] = {}
        for predicate in predicates.values():
            checked = check(predicate, schema, environment, wanted=wanted)
            if checked.errors:
                raise checked.errors[0]
            self.kinds.update(checked.kinds)
        roots = [predicate.expression for predicate in predicates.values()]
        nodes, self.number_of = number(*roots)
        self.types = {
            (name := column_of_schema(schema, node.name)): schema.field(name).type
            for node in nodes
            if node.operator in ops.COLUMNS
        }
        if any(node.operator in ops.LOOK_UPS for node in nodes):
            self.types[TIME_STAMPS] = pa.int64()
        self.instructions = [self.instruction(node) for node in nodes]
        self.results = {
            name: self.number_of[id(predicate.expression)] for name, predicate in predicates.items()
        }
        self.name_atoms(predicates)
        self.plan_release()

    def name_atoms(self, predicates: Mapping[str, Predicate]) -> None:
        """Set the first atom that needs each instruction."""
        for predicate in predicates.values():
            stack = [self.number_of[id(predicate.expression)]]
            while stack:
                instruction = self.instructions[stack.pop()]
                if instruction.atom is None:
                    instruction.atom = predicate.name or ""
                    operands = instruction.node.operands
                    stack.extend(self.number_of[id(operand)] for operand in operands)

    def plan_release(self) -> None:
        """Find where each value is used last, so that it can be freed there."""
        kept = set(self.results.values())
        seen: set[int] = set()
        for instruction in reversed(self.instructions):
            for argument in instruction.arguments:
                if argument not in seen and argument not in kept:
                    seen.add(argument)
                    instruction.last_used.append(argument)

    def run(self, columns: Mapping[str, pa.Array], length: int) -> dict[str, Values]:
        values: list[Values | None] = []
        for instruction in self.instructions:
            if instruction.node.operator in ops.COLUMNS:
                arguments: tuple[Values, ...] = (
                    columns[column_in(self.types, instruction.node.name)],
                )
            else:
                arguments = tuple(values[argument] for argument in instruction.arguments)
                if instruction.node.operator in ops.LOOK_UPS:
                    arguments = (columns[TIME_STAMPS], *arguments)
            try:
                values.append(instruction.function(*arguments))
            except pa.ArrowInvalid as error:
                raise_row_error(instruction, arguments, length)
                if instruction.node.operator is ops.OWN_FUNCTION:
                    name = instruction.node.own_function.name
                    message = f"{name} fails, and not when it is called again: {error}"
                    raise MtlmonError(message) from None
                raise
            for argument in instruction.last_used:
                values[argument] = None
        return {name: values[result] for name, result in self.results.items()}

    def kind(self, node: Expression) -> Kind:
        return self.kinds[id(node)]

    def instruction(self, node: Expression) -> _Instruction:
        """The instruction for a node; the kinds of its operands are known."""
        operator = node.operator
        arguments = tuple(self.number_of[id(operand)] for operand in node.operands)
        if operator in ops.COLUMNS:
            function: Callable[..., Values] = partial(as_values, kind=self.kind(node))
        elif operator is ops.CONSTANT:
            function = partial(_identity, as_scalar(node.constant))
        elif operator in _CHOICES:
            function = self.choice(node)
        elif operator in ops.LOOK_UPS:
            function = self.look_up(node)
        elif operator not in {ops.IS_NULL, ops.IS_NOT_NULL} and self.is_always_null(node):
            function = partial(_identity, pa.scalar(None, computed_type(self.kind(node))))
            arguments = ()
        elif operator in ops.TIME_FUNCTIONS:
            kind = self.kind(node.operands[0])
            zone = self.environment.zone if node.value is None else str(node.value)
            if not is_zone(zone):
                hint = "zones have names such as Europe/Berlin"
                raise MtlmonError(f"there is no time zone {zone!r}: {hint}")
            function = partial(read_clock, operator, kind=kind, zone=zone)
        elif operator in _LOGIC:
            function = _LOGIC[operator]
        elif operator in _PATTERNS:
            function = partial(_PATTERNS[operator], pattern=node.operands[1].value)
            arguments = arguments[:1]
        elif operator is ops.LENGTH:
            function = _length
        elif operator in CONVERSIONS:
            function = partial(_converted, CONVERSIONS[operator], computed_type(self.kind(node)))
        elif operator is ops.OWN_FUNCTION:
            function = self.own_function(node)
        elif operator in {ops.IN, ops.NOT_IN}:
            function = self.membership(node)
        elif operator in {ops.IN_COLUMN, ops.NOT_IN_COLUMN}:
            function = self.elements(node)
        elif operator.binding == ops.COMPARISON:
            function, arguments = self.comparison(node, arguments)
        elif operator in _FLOATS:
            function = self.arithmetic(node)
        else:
            raise ValueError(f"{node} is not computed here: a column must take its place")
        return _Instruction(function, arguments, node)

    def own_function(self, node: Expression) -> Callable[..., Values]:
        """The function of columns that calls one of a program for each row."""
        own = node.own_function
        conversions = [
            _conversion(self.kind(operand), kind)
            for operand, kind in zip(node.operands, own.arguments, strict=True)
        ]
        call = partial(_converted, own, computed_type(own.kind))
        return partial(_choose, call, conversions)

    def look_up(self, node: Expression) -> Callable[..., Values]:
        """The function of time-stamps and keys that looks a value up in a relation."""
        name, column, _, keys = node.looked_up
        relation = self.environment.relations[name]
        assert keys is not None
        kinds_of_keys = [self.kind(operand) for operand in node.operands]
        return partial(_look_up, relation, keys, column, kinds_of_keys)

    def is_always_null(self, node: Expression) -> bool:
        """Whether the operator is strict and has an operand of the kind null."""
        if node.operator in {ops.AND, ops.OR}:
            return False
        return any(self.kind(operand).name == "null" for operand in node.operands)

    def arithmetic(self, node: Expression) -> Callable[..., Values]:
        operand_kinds = [self.kind(operand) for operand in node.operands]
        if operand_kinds[0].name == "time":
            units = operand_kinds[0].unit, operand_kinds[1].unit
            assert self.environment.unit is not None
            return partial(difference, units=units, wanted=UNITS[self.environment.unit])
        are_integers = all(kind.name == "integer" for kind in operand_kinds)
        if are_integers and node.operator in _INTEGERS:
            return _INTEGERS[node.operator]
        return partial(_on_floats, _FLOATS[node.operator])

    def choice(self, node: Expression) -> Callable[..., Values]:
        """The function of an operator whose value is that of one of its operands."""
        kind = self.kind(node)
        operands = node.operands[1:] if node.operator is ops.IF else node.operands
        conversions = [_conversion(self.kind(operand), kind) for operand in operands]
        return partial(_choose, _CHOICES[node.operator], conversions)

    def comparison(
        self, node: Expression, arguments: tuple[int, ...]
    ) -> tuple[Callable[..., Values], tuple[int, ...]]:
        """The function that compares the operands, and their numbers, perhaps swapped."""
        operator = node.operator
        left, right = node.operands
        if rank(left, self.kind(left)) > rank(right, self.kind(right)):
            left, right, operator = right, left, ops.MIRRORED[operator]
            arguments = arguments[::-1]
        one, other = self.kind(left), self.kind(right)
        constant = right.value if right.operator is ops.CONSTANT else None
        names = one.name, other.name
        if constant is None and kinds.equal_as_texts(one, other):
            return partial(compare_as_texts, operator, (one, other)), arguments
        if one.name == "time":
            if isinstance(constant, str):
                instant = instant_in(constant, one)
                return partial(with_constant, operator, instant, 0), arguments[:1]
            return compare_times(operator, one, other), arguments
        if names in {("integer", "float"), ("decimal", "float"), ("decimal", "integer")} and (
            isinstance(constant, int | Decimal)
        ):
            from fractions import Fraction

            found = partial(with_constant, operator, Fraction(constant), one.scale)
            return found, arguments[:1]
        if names == ("float", "integer") and isinstance(constant, int):
            return partial(floats_with_integer, operator, constant), arguments[:1]
        if names == ("integer", "float"):
            return partial(numbers.compare_integers_with_floats, operator), arguments
        if "decimal" in names and "float" not in names:
            return partial(numbers.compare_decimals, operator), arguments
        if "decimal" in names:
            return partial(_on_floats, numbers.COMPARE[operator]), arguments
        return numbers.COMPARE[operator], arguments

    def elements(self, node: Expression) -> Callable[..., Values]:
        """The function of values and lists that tells which values are in their lists."""
        found, lists = (self.kind(operand) for operand in node.operands)
        is_negated = node.operator is ops.NOT_IN_COLUMN
        return partial(is_element, kind=found, element=lists.element, is_negated=is_negated)

    def membership(self, node: Expression) -> Callable[..., Values]:
        kind = self.kind(node.operands[0])
        members = members_of(node.members, kind)
        return partial(is_member, members=members, is_negated=node.operator is ops.NOT_IN)


def _look_up(
    relation: Relation,
    keys: Sequence[str],
    column: str | None,
    kinds_of_keys: Sequence[Kind],
    time_stamps: pa.Array,
    *values: Values,
) -> Values:
    """Look values up in a relation at time-stamps.

    Raises:
        pa.ArrowInvalid: several records are valid, and the value of a column is wanted.
    """
    times = time_stamps.to_numpy()
    columns = [
        as_column(one, kind, len(times)) for one, kind in zip(values, kinds_of_keys, strict=True)
    ]
    records = relation.find(keys, times, columns)
    if column is None:
        return pa.array(records != NOTHING_VALID)
    if records.min(initial=0) == SEVERAL_VALID:
        raise pa.ArrowInvalid("several records are valid")
    return as_values(relation.column(column, records), relation.kinds[column])


def raise_row_error(instruction: _Instruction, arguments: tuple[Values, ...], length: int) -> None:
    """Raise a RowError for the rows on which an instruction fails, if there are any."""
    node = instruction.node
    rows = _failing_rows(instruction.function, arguments, length)
    if not rows:
        return
    values = [
        argument[rows[0]].as_py() if isinstance(argument, pa.Array) else argument.as_py()
        for argument in arguments
    ]
    shown = ", ".join(map(str, values))
    reason = f"{shorten(str(node), _SHOWN_WIDTH)} overflows 64 bits with {shown}"
    if node.operator in ops.COLUMNS:
        reason = f"{shown} in column {node} is above {LARGEST}"
    elif node.operator is ops.OWN_FUNCTION:
        try:
            own = node.own_function
            own(
                *(
                    float(one) if kind.name == "float" else one
                    for one, kind in zip(values, own.arguments, strict=True)
                )
            )
        except ArithmeticError as error:
            reason = f"{shorten(str(node), _SHOWN_WIDTH)} with {shown}: {error}"
    elif node.operator in CONVERSIONS:
        reason = f"{shorten(str(node), _SHOWN_WIDTH)} cannot be computed with {shown}"
    elif node.operator in ops.LOOK_UPS:
        reason = _several_valid(node, values)
    elif node.operator in ops.TIME_FUNCTIONS:
        reason = f"{shorten(str(node), _SHOWN_WIDTH)} is of a time outside the years 1 to 9999"
    raise RowError(reason, rows=rows, atom=instruction.atom or None) from None


def _several_valid(node: Expression, values: Sequence[object]) -> str:
    """Say that several records are valid at a time, the first value, for keys, the others."""
    relation, _, _, keys = node.looked_up
    found = ", ".join(f"{key} {value}" for key, value in zip(keys or (), values[1:], strict=True))
    whose = f" with {found}" if found else ""
    return (
        f"{shorten(str(node), _SHOWN_WIDTH)} is not one value: several records of "
        f"{relation}{whose} are valid at {values[0]}"
    )


def _failing_rows(
    function: Callable[..., Values], arguments: tuple[Values, ...], length: int
) -> tuple[int, ...]:
    """The rows on which an operation on rows fails, in order."""
    rows: list[int] = []
    stack = [(0, length)]
    while stack:
        start, count = stack.pop()
        parts = [
            argument.slice(start, count) if isinstance(argument, pa.Array) else argument
            for argument in arguments
        ]
        try:
            function(*parts)
        except pa.ArrowInvalid:
            if count > 1:
                half = count // 2
                stack += [(start + half, count - half), (start, half)]
            elif count:
                rows.append(start)
    return tuple(rows)


def _if(condition: Values, then: Values, otherwise: Values) -> Values:
    return pc.if_else(pc.coalesce(condition, pa.scalar(False)), then, otherwise)


_CHOICES: dict[Operator, Callable[..., Values]] = {
    ops.IF: _if,
    ops.COALESCE: pc.coalesce,
    ops.LEAST: numbers.least,
    ops.GREATEST: numbers.greatest,
}


def _choose(
    function: Callable[..., Values],
    conversions: list[Callable[[Values], Values]],
    *arguments: Values,
) -> Values:
    """Convert the last arguments to one type, and apply a function to all of them."""
    rest = len(arguments) - len(conversions)
    chosen = [convert(value) for convert, value in zip(conversions, arguments[rest:], strict=True)]
    if any(value.type == pa.large_string() for value in chosen):
        chosen = [pc.cast(value, pa.large_string()) for value in chosen]
    return function(*arguments[:rest], *chosen)


def _conversion(kind: Kind, wanted: Kind) -> Callable[[Values], Values]:
    """The function that converts computed values of a kind to another that they fit."""
    if kind.name == "null":
        return partial(_identity_of, pa.scalar(None, computed_type(wanted)))
    if wanted.name == "float" and kind.name != "float":
        return numbers.to_floats
    if wanted.name == "time":
        return partial(scale, factor=kind.unit // wanted.unit)
    return _identity


def _identity(value: Values) -> Values:
    return value


def _identity_of(value: Values, _values: Values) -> Values:
    return value


def _on_floats(function: Callable[..., Values], *arguments: Values) -> Values:
    return function(
        *(
            argument if argument.type == pa.float64() else numbers.to_floats(argument)
            for argument in arguments
        )
    )


def _length(values: Values) -> Values:
    return pc.cast(pc.utf8_length(values), pa.int64())


def _converted(function: Callable[..., Any], data_type: pa.DataType, *arguments: Values) -> Values:
    """Apply a function of Python, row by row; without arrays, the result is a scalar."""
    arrays = [argument for argument in arguments if isinstance(argument, pa.Array)]
    columns = [
        argument.to_pylist() if isinstance(argument, pa.Array) else repeat(argument.as_py())
        for argument in arguments
    ]
    rows = zip(*columns, strict=False) if arrays else [[one.as_py() for one in arguments]]
    try:
        values = [None if None in row else function(*row) for row in rows]
        return pa.array(values, data_type) if arrays else pa.scalar(values[0], data_type)
    except ArithmeticError as error:
        raise pa.ArrowInvalid(str(error)) from None
