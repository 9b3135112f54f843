"""Compiles predicates to operations on whole columns.

All predicates of a file become one list of instructions, with one for each distinct subexpression.
So a subexpression that several predicates share is computed only once for each batch.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError, RowError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.checking import check
from mtlmon.policy.predicates.expression import number
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.integers import LARGEST, SMALLEST
from mtlmon.syntax.report import shorten

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise MtlmonError(
        "predicates over the columns of a table need pyarrow: pip install 'mtlmon[tables]'"
    ) from error

from mtlmon.policy.predicates import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mtlmon.policy.predicates.expression import Constant, Expression
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
    ops.REMAINDER: numbers.integer_remainder,
}
_FLOATS: dict[Operator, Callable[..., Values]] = {
    ops.ADD: pc.add,
    ops.SUBTRACT: pc.subtract,
    ops.MULTIPLY: pc.multiply,
    ops.NEGATE: pc.negate,
    ops.ABS: pc.abs,
    ops.DIVIDE: numbers.divide,
    ops.REMAINDER: numbers.float_remainder,
}


class CompiledPredicates:
    """Predicates compiled for tables of one schema.

    Args:
        predicates: the predicates by the name of the atom that each defines.
        schema: the schema of all batches; columns that no predicate names may differ.

    Attributes:
        names: the atoms, in the order of `predicates`.
        columns: the names of the columns that are read.

    Raises:
        PolicyError: a column does not exist, or its type does not fit.
    """

    def __init__(self, predicates: Mapping[str, Predicate], schema: pa.Schema) -> None:
        self.names = tuple(predicates)
        self._program = _Program(predicates, schema)
        self.columns = tuple(self._program.types)

    def __call__(self, batch: pa.RecordBatch) -> dict[str, pa.BooleanArray]:
        """Compute where the predicates are true.

        Returns:
            For each atom an array as long as the batch, without nulls.

        Raises:
            RowError: integers overflow.
            ValueError: a column is missing, or has another type than in the schema.
        """
        return self._program.run(batch)


def compile_predicates(
    predicates: Mapping[str, Predicate], schema: pa.Schema
) -> CompiledPredicates:
    """Compile the predicates of a file for tables of one schema.

    Args:
        predicates: the predicates by the name of the atom that each defines.
        schema: the schema of all batches; columns that no predicate names may differ.

    Raises:
        PolicyError: a column does not exist, or its type does not fit.
    """
    return CompiledPredicates(predicates, schema)


def compile_predicate(
    predicate: Predicate, schema: pa.Schema
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Compile one predicate to a function from a batch to where the predicate is true.

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
    def __init__(self, predicates: Mapping[str, Predicate], schema: pa.Schema) -> None:
        self.kinds: dict[int, Kind] = {}
        for predicate in predicates.values():
            checked = check(predicate, schema)
            if checked.errors:
                raise checked.errors[0]
            self.kinds.update(checked.kinds)
        roots = [predicate.expression for predicate in predicates.values()]
        nodes, self.number_of = number(*roots)
        self.types = {
            str(node.value): schema.field(str(node.value)).type
            for node in nodes
            if node.operator is ops.COLUMN
        }
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

    def run(self, batch: pa.RecordBatch) -> dict[str, pa.BooleanArray]:
        for name, data_type in self.types.items():
            self.require_type(batch, name, data_type)
        values: list[Values | None] = []
        for instruction in self.instructions:
            if instruction.node.operator is ops.COLUMN:
                arguments: tuple[Values, ...] = (batch.column(str(instruction.node.value)),)
            else:
                arguments = tuple(values[argument] for argument in instruction.arguments)
            try:
                values.append(instruction.function(*arguments))
            except pa.ArrowInvalid:
                raise_overflow(instruction, arguments, batch.num_rows)
                raise
            for argument in instruction.last_used:
                values[argument] = None
        return {
            name: _where_true(values[result], batch.num_rows)
            for name, result in self.results.items()
        }

    def require_type(self, batch: pa.RecordBatch, name: str, data_type: pa.DataType) -> None:
        index = batch.schema.get_field_index(name)
        if index < 0:
            raise ValueError(f"the batch has no column {name!r}, or several")
        if batch.schema.field(index).type != data_type:
            raise ValueError(
                f"column {name!r} is of type {batch.schema.field(index).type}, "
                f"but predicates were compiled for {data_type}"
            )

    def kind(self, node: Expression) -> Kind:
        return self.kinds[id(node)]

    def instruction(self, node: Expression) -> _Instruction:
        """The instruction for a node; the kinds of its operands are known."""
        operator = node.operator
        arguments = tuple(self.number_of[id(operand)] for operand in node.operands)
        if operator is ops.COLUMN:
            function: Callable[..., Values] = partial(_column, kind=self.kind(node))
        elif operator is ops.CONSTANT:
            function = partial(_identity, _constant(node.value))
        elif operator not in {ops.IS_NULL, ops.IS_NOT_NULL} and self.is_always_null(node):
            function = partial(_identity, pa.scalar(None, _ARROW[self.kind(node).name]))
            arguments = ()
        elif operator in _LOGIC:
            function = _LOGIC[operator]
        elif operator in _PATTERNS:
            function = partial(_PATTERNS[operator], pattern=node.operands[1].value)
            arguments = arguments[:1]
        elif operator is ops.LENGTH:
            function = _length
        elif operator in {ops.IN, ops.NOT_IN}:
            function = self.membership(node)
        elif operator.binding == ops.COMPARISON:
            function, arguments = self.comparison(node, arguments)
        else:
            function = self.arithmetic(node)
        return _Instruction(function, arguments, node)

    def is_always_null(self, node: Expression) -> bool:
        """Whether the operator is strict and has an operand of the kind null."""
        if node.operator in {ops.AND, ops.OR}:
            return False
        return any(self.kind(operand).name == "null" for operand in node.operands)

    def arithmetic(self, node: Expression) -> Callable[..., Values]:
        operand_kinds = [self.kind(operand) for operand in node.operands]
        are_integers = all(kind.name == "integer" for kind in operand_kinds)
        if are_integers and node.operator is not ops.DIVIDE:
            return _INTEGERS[node.operator]
        return partial(_on_floats, _FLOATS[node.operator])

    def comparison(
        self, node: Expression, arguments: tuple[int, ...]
    ) -> tuple[Callable[..., Values], tuple[int, ...]]:
        """The function that compares the operands, and their numbers, perhaps swapped."""
        operator = node.operator
        left, right = node.operands
        if _rank(left, self.kind(left)) > _rank(right, self.kind(right)):
            left, right, operator = right, left, ops.MIRRORED[operator]
            arguments = arguments[::-1]
        one, other = self.kind(left), self.kind(right)
        constant = right.value if right.operator is ops.CONSTANT else None
        names = one.name, other.name
        if one.name == "time":
            if isinstance(constant, str):
                instant = _instant(constant, one)
                return partial(_with_constant, operator, instant, 0), arguments[:1]
            return _times(operator, one, other), arguments
        if names in {("integer", "float"), ("decimal", "float"), ("decimal", "integer")} and (
            isinstance(constant, int | Decimal)
        ):
            found = partial(_with_constant, operator, Fraction(constant), one.scale)
            return found, arguments[:1]
        if names == ("float", "integer") and isinstance(constant, int):
            return partial(_floats_with_integer, operator, constant), arguments[:1]
        if names == ("integer", "float"):
            return partial(numbers.compare_integers_with_floats, operator), arguments
        if "decimal" in names and "float" not in names:
            return partial(numbers.compare_decimals, operator), arguments
        if "decimal" in names:
            return partial(_on_floats, numbers.COMPARE[operator]), arguments
        return numbers.COMPARE[operator], arguments

    def membership(self, node: Expression) -> Callable[..., Values]:
        kind = self.kind(node.operands[0])
        assert isinstance(node.value, tuple)
        members = _members(node.value, kind)
        return partial(_is_member, members=members, is_negated=node.operator is ops.NOT_IN)


_ARROW = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
}


def raise_overflow(instruction: _Instruction, arguments: tuple[Values, ...], length: int) -> None:
    """Raise a RowError for the rows on which an instruction overflows, if there are any."""
    node = instruction.node
    atom = instruction.atom or None
    if node.operator is ops.COLUMN:
        (column,) = arguments
        if pa.types.is_uint64(column.type):
            large = pc.greater(column, pa.scalar(LARGEST, pa.uint64())).to_pylist()
            rows = tuple(row for row, is_large in enumerate(large) if is_large)
            reason = f"{column[rows[0]].as_py()} in column {node} is above {LARGEST}"
            raise RowError(reason, rows=rows, atom=atom) from None
    elif node.operator in _INTEGERS:
        found, values = numbers.overflowing(node.operator, arguments, length)
        if found:
            shown = ", ".join(map(str, values))
            reason = f"{shorten(str(node), _SHOWN_WIDTH)} overflows 64 bits with {shown}"
            raise RowError(reason, rows=tuple(found), atom=atom) from None


def _identity(value: Values) -> Values:
    return value


def _column(values: pa.Array, kind: Kind) -> Values:
    """Cast a column to the type in which values of its kind are computed."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kind.name == "integer":
        return values if values.type == pa.int64() else pc.cast(values, pa.int64())
    if kind.name == "float":
        return values if values.type == pa.float64() else pc.cast(values, pa.float64())
    if kind.name == "time":
        if pa.types.is_date32(values.type):
            values = values.view(pa.int32())
        return pc.cast(values, pa.int64())
    if kind.name == "text":
        # both sides of a comparison must have the same type
        return values if values.type == pa.string() else pc.cast(values, pa.large_string())
    if kind.name == "null":
        return pa.scalar(None, pa.bool_())
    return values


def _constant(value: Constant | tuple[Constant, ...]) -> Values:
    if isinstance(value, Decimal):
        return pa.scalar(float(value), pa.float64())
    if value is None:
        return pa.scalar(None, pa.bool_())
    return pa.scalar(value)


def _rank(node: Expression, kind: Kind) -> int:
    """The order of operands in a comparison: columns before constants, times before texts."""
    if kind.name == "time":
        return 0
    if node.operator is ops.CONSTANT:
        return 4 if kind.name == "integer" else 5
    return {"decimal": 1, "integer": 2}.get(kind.name, 3)


def _on_floats(function: Callable[..., Values], *arguments: Values) -> Values:
    return function(
        *(
            argument if argument.type == pa.float64() else numbers.to_floats(argument)
            for argument in arguments
        )
    )


def _with_constant(operator: Operator, constant: Fraction, scale: int, values: Values) -> Values:
    return numbers.compare_with_constant(operator, values, constant, scale)


def _floats_with_integer(operator: Operator, constant: int, values: Values) -> Values:
    return numbers.compare_floats_with_integer(operator, values, constant)


def _times(operator: Operator, one: Kind, other: Kind) -> Callable[..., Values]:
    if one.unit == other.unit:
        return numbers.COMPARE[operator]
    if one.unit > other.unit:
        return lambda left, right: numbers.compare_units(
            operator, left, right, one.unit // other.unit
        )
    mirrored = ops.MIRRORED[operator]
    return lambda left, right: numbers.compare_units(mirrored, right, left, other.unit // one.unit)


def _instant(text: str, kind: Kind) -> Fraction:
    """Convert a time to the unit of a column."""
    read = read_instant(text)
    assert read is not None
    return read[0] / kind.unit


def _length(values: Values) -> Values:
    return pc.cast(pc.utf8_length(values), pa.int64())


def _is_member(values: Values, members: pa.Array, is_negated: bool) -> Values:
    found = numbers.is_member(values, members)
    return pc.invert(found) if is_negated else found


def _members(values: tuple[Constant, ...], kind: Kind) -> pa.Array:
    """The values of a list that values of this kind can be equal to."""
    if kind.name == "time":
        instants = [_instant(str(value), kind) for value in values]
        return pa.array([int(found) for found in instants if _is_int64(found)], pa.int64())
    if kind.name == "integer":
        fractions = [Fraction(value) for value in values if isinstance(value, int | Decimal)]
        return pa.array([int(found) for found in fractions if _is_int64(found)], pa.int64())
    if kind.name == "decimal":
        data_type = pa.decimal128(kind.precision, kind.scale)
        decimals = [Decimal(value) for value in values if isinstance(value, int | Decimal)]
        return pa.array([value for value in decimals if _is_decimal(value, kind)], data_type)
    if kind.name == "float":
        floats = [
            float(value)
            for value in values
            if isinstance(value, int | Decimal) and _is_float(value)
        ]
        # only here does Arrow distinguish 0.0 from -0.0
        floats += [-0.0] if 0.0 in floats else []
        return pa.array(floats, pa.float64())
    return pa.array(values)


def _is_int64(value: Fraction) -> bool:
    return value.denominator == 1 and SMALLEST <= value <= LARGEST


def _is_float(value: int | Decimal) -> bool:
    """Whether a float can be equal to the value; a number with a point means the nearest float."""
    return isinstance(value, Decimal) or float(value) == value


def _is_decimal(value: Decimal, kind: Kind) -> bool:
    shifted = Fraction(value) * Fraction(10) ** kind.scale
    return shifted.denominator == 1 and abs(shifted) < 10**kind.precision


def _where_true(values: Values | None, length: int) -> pa.BooleanArray:
    if isinstance(values, pa.Scalar):
        return pa.repeat(pa.scalar(bool(values.as_py())), length)
    return pc.fill_null(values, False)
