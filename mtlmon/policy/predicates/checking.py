"""Checks the types of a predicate, with or without the columns of a table.

Without a table, columns are of an unknown kind, which fits everywhere. Errors that do not depend on
columns, as in `"a" + 1`, are found before the table is known.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.hints import some
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.integers import calculate, fits
from mtlmon.policy.predicates.kinds import Kind, kind_of
from mtlmon.policy.predicates.printer import column_text, constant_text
from mtlmon.support.guesses import nearest
from mtlmon.syntax.report import formula_error, shorten, visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.predicate import Predicate

_SHOWN_WIDTH = 40
_EXAMPLE_TIME = '"2024-05-01T12:30:00'


class Checked:
    """The result of checking a predicate.

    Attributes:
        kinds: the kind of every node by its `id`, valid as long as the predicate exists.
        errors: the errors, in the order of their places.
    """

    __slots__ = ("errors", "kinds")

    def __init__(self, kinds_of_nodes: dict[int, Kind], errors: list[FormulaError]) -> None:
        self.kinds = kinds_of_nodes
        self.errors = errors


def check(predicate: Predicate, schema: pa.Schema | None = None) -> Checked:
    """Check the types of a predicate.

    Args:
        predicate: the predicate to check.
        schema: the columns of the table, or None if they are not known yet.
    """
    checker = _Checker(predicate, schema)
    for node in postorder(predicate.expression):
        checker.kinds[id(node)] = checker.kind(node)
    root = predicate.expression
    if not checker.errors and checker.kinds[id(root)].name not in {"boolean", *kinds.OPEN}:
        what = checker.kinds[id(root)].words
        hint = "compare it with something, as in speed > 120"
        checker.report(root, f"the predicate is {what}, not true or false", hint)
    checker.errors.sort(key=lambda error: (error.line, error.column))
    return Checked(checker.kinds, checker.errors)


class _Checker:
    __slots__ = ("errors", "integers", "kinds", "predicate", "schema")

    def __init__(self, predicate: Predicate, schema: pa.Schema | None) -> None:
        self.predicate = predicate
        self.schema = schema
        self.kinds: dict[int, Kind] = {}
        self.errors: list[FormulaError] = []
        # The values of integer subexpressions that do not depend on columns, by `id`.
        self.integers: dict[int, int] = {}

    def kind(self, node: Expression) -> Kind:
        operator = node.operator
        if operator is ops.COLUMN:
            return self.column(node)
        if operator is ops.CONSTANT:
            assert not isinstance(node.value, tuple)
            if isinstance(node.value, int) and not isinstance(node.value, bool):
                self.integers[id(node)] = node.value
            return _constant_kind(node.value)
        if operator.name in ops.FUNCTIONS:
            return self.call(node)
        if operator in ops.ARITHMETIC:
            return self.arithmetic(node)
        if operator in {ops.AND, ops.OR, ops.NOT}:
            for operand in node.operands:
                self.require(operand, kinds.BOOLEAN, f"'{operator.word}' takes")
        elif operator in {ops.IN, ops.NOT_IN}:
            self.membership(node)
        elif operator.arity == 2:
            self.comparison(node)
        return kinds.BOOLEAN

    def column(self, node: Expression) -> Kind:
        assert isinstance(node.value, str)
        if self.schema is None:
            return kinds.UNKNOWN
        count = len(self.schema.get_all_field_indices(node.value))
        if count == 1:
            return kind_of(self.schema.field(node.value).type)
        if count:
            return self.report(node, f"{count} columns are called {column_text(node.value)}")
        guess = nearest(node.value, self.schema.names)
        hint = f"the columns are {some(map(column_text, self.schema.names))}"
        if guess is not None:
            hint = f"did you mean {column_text(guess)}? {hint}"
        return self.report(node, f"there is no column {column_text(node.value)}", hint)

    def call(self, node: Expression) -> Kind:
        function, argument = node.operator, node.operands[0]
        wanted, result = function.signature
        for constant in node.operands[1:]:
            if not (constant.operator is ops.CONSTANT and isinstance(constant.value, str)):
                message = f"the second argument of {function.name} is not a text in double quotes"
                hint = f'as in {function.name}(column, "text")'
                return self.report(constant, message, hint)
        if function is ops.MATCHES:
            self.pattern(node.operands[1])
        if wanted == "number":
            kind = self.kinds[id(argument)]
            if not self.require_number(argument, f"{function.name} takes"):
                return kinds.UNKNOWN
            if kind.name not in {"integer", "null"}:
                return kinds.FLOAT
            self.calculate(node)
            return kinds.INTEGER
        self.require(argument, kinds.TEXT, f"{function.name} takes")
        return {"boolean": kinds.BOOLEAN, "integer": kinds.INTEGER, "text": kinds.TEXT}[result]

    def pattern(self, node: Expression) -> None:
        """Check a regular expression; without a schema, pyarrow may not be installed."""
        if self.schema is None:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            pc.match_substring_regex(pa.array([""]), pattern=node.value)
        except pa.ArrowInvalid as error:
            reason = str(error).partition(": ")[2] or str(error)
            message = f"the pattern is not a regular expression: {visible(reason)}"
            self.report(node, message, "use the syntax of RE2; a backslash is written \\\\")

    def arithmetic(self, node: Expression) -> Kind:
        operator = node.operator
        all_numbers = True
        for operand in node.operands:
            all_numbers &= self.require_number(operand, f"'{operator.word}' takes")
        if not all_numbers:
            return kinds.UNKNOWN
        found = [self.kinds[id(operand)] for operand in node.operands]
        names = {kind.name for kind in found}
        if operator is ops.DIVIDE or names & {"float", "decimal", "unknown"}:
            return kinds.FLOAT
        self.calculate(node)
        return kinds.INTEGER

    def calculate(self, node: Expression) -> None:
        """Compute the value of an integer subexpression, if it does not depend on columns."""
        values = [self.integers.get(id(operand)) for operand in node.operands]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return
        result = calculate(node.operator, *known)
        if not fits(result):
            hint = "write a number with a point, as in 2.0, for arithmetic that rounds"
            self.report(node, f"{self.written(node)} overflows 64 bits", hint)
        elif result is not None:
            self.integers[id(node)] = result

    def comparison(self, node: Expression) -> None:
        left, right = node.operands
        for operand in node.operands:
            if operand.operator is ops.CONSTANT and operand.value is None:
                hint = "write is null or is not null"
                self.report(operand, f"'{node.operator.word}' with null is never true", hint)
                return
        if not self.comparable(left, right, f"'{node.operator.word}' compares"):
            return
        if node.operator in ops.ORDERINGS:
            for operand in node.operands:
                if self.kinds[id(operand)].name == "boolean":
                    hint = "true and false have no order: compare them with = or !="
                    message = f"'{node.operator.word}' is not for {self.described(operand)}"
                    self.report(operand, message, hint)
                    return

    def comparable(self, left: Expression, right: Expression, what: str) -> bool:
        one, other = self.kinds[id(left)], self.kinds[id(right)]
        if "other" in {one.name, other.name}:
            self.unusable(left if one.name == "other" else right)
            return False
        if {one.name, other.name} & kinds.OPEN:
            return True
        if {one.name, other.name} == {"time", "text"}:
            time, text = (left, right) if one.name == "time" else (right, left)
            return self.instant(time, text, text.value, what)
        if one.name == other.name == "time" and one.is_aware != other.is_aware:
            message = f"{what} {self.described(left)} with {self.described(right)}"
            self.report(left, message, "either both need a time zone, or neither")
            return False
        if one.name == other.name or {one.name, other.name} <= kinds.NUMBERS:
            return True
        message = f"{what} {self.described(left)} with {self.described(right)}"
        self.report(left, message, _comparison_hint(one, other, right))
        return False

    def membership(self, node: Expression) -> None:
        (operand,) = node.operands
        assert isinstance(node.value, tuple)
        kind = self.kinds[id(operand)]
        if kind.name == "other":
            self.unusable(operand)
            return
        wanted = kind
        for value in node.value:
            found = _constant_kind(value)
            if wanted.name in kinds.OPEN:
                wanted = found
            elif wanted.name == "time" and found.name == "text":
                if not self.instant(operand, operand, value, f"'{node.operator.word}' compares"):
                    return
            elif not (wanted.name == found.name or {wanted.name, found.name} <= kinds.NUMBERS):
                message = (
                    f"'{node.operator.word}' compares {self.described(operand)} "
                    f"with {self.constant_described(value)}"
                )
                if kind.name in kinds.OPEN:
                    message = f"the list mixes {wanted.words} and {found.words}"
                self.report(operand, message, "values in a list must have the type of the column")
                return

    def instant(self, time: Expression, place: Expression, value: object, what: str) -> bool:
        """Check a constant text that is compared with a time."""
        kind = self.kinds[id(time)]
        zone = "+00:00" if kind.is_aware else ""
        hint = f'a time is written {_EXAMPLE_TIME}{zone}"'
        if place is not time and place.operator is not ops.CONSTANT:
            message = f"{what} {self.described(time)} with {self.described(place)}"
            self.report(place, message, f"{hint}, as a constant")
            return False
        assert isinstance(value, str)
        read = read_instant(value)
        shown = shorten(constant_text(value), _SHOWN_WIDTH)
        if read is None:
            message = f"{what} {self.described(time)} with {shown}, which is not a time"
            self.report(place, message, hint)
            return False
        if read[1] != kind.is_aware:
            has = "has no" if kind.is_aware else "has an"
            lacks = "a time zone" if kind.is_aware else "no time zone"
            message = f"{self.described(time)} has {lacks}, but {shown} {has} offset from UTC"
            self.report(place, message, hint)
            return False
        return True

    def require(self, operand: Expression, wanted: Kind, what: str) -> bool:
        kind = self.kinds[id(operand)]
        if kind.name == wanted.name or kind.name in kinds.OPEN:
            return True
        if kind.name == "other":
            self.unusable(operand)
            return False
        hint = None
        if wanted is kinds.BOOLEAN:
            hint = "compare it with something, as in speed > 120"
        self.report(operand, f"{what} {wanted.words}, not {self.described(operand)}", hint)
        return False

    def require_number(self, operand: Expression, what: str) -> bool:
        kind = self.kinds[id(operand)]
        if kind.name in kinds.NUMBERS or kind.name in kinds.OPEN:
            return True
        if kind.name == "other":
            self.unusable(operand)
            return False
        hint = None
        if kind.name == "text" and operand.operator is ops.COLUMN:
            hint = "read the column as numbers"
        self.report(operand, f"{what} numbers, not {self.described(operand)}", hint)
        return False

    def unusable(self, node: Expression) -> None:
        hint = "a predicate can only test whether it is null"
        self.report(node, f"{self.described(node)} cannot be used", hint)

    def described(self, node: Expression) -> str:
        """Describe a node and its type for messages."""
        kind = self.kinds[id(node)]
        if node.operator is ops.COLUMN:
            assert isinstance(node.value, str)
            column = f"column {shorten(column_text(node.value), _SHOWN_WIDTH)}"
            if self.schema is None:
                return column
            return f"{column} of type {self.schema.field(node.value).type}"
        if node.operator is ops.CONSTANT:
            assert not isinstance(node.value, tuple)
            return self.constant_described(node.value)
        return f"{self.written(node)} ({kind.words})"

    def written(self, node: Expression) -> str:
        assert node.span is not None
        text = self.predicate.text[node.span.start : node.span.end]
        return shorten(visible(" ".join(text.split())), _SHOWN_WIDTH)

    def constant_described(self, value: Constant) -> str:
        if value is None or isinstance(value, bool):
            return constant_text(value)
        shown = shorten(constant_text(value), _SHOWN_WIDTH)
        return f"the {'text' if isinstance(value, str) else 'number'} {shown}"

    def report(self, node: Expression, message: str, hint: str | None = None) -> Kind:
        """Record an error, and return the kind of an expression with an error."""
        assert node.span is not None
        name = self.predicate.name
        atom = "" if name is None else f"atom {visible(name)}: "
        predicate = self.predicate
        error = formula_error(
            predicate.text,
            node.span.start,
            f"{atom}{message}",
            source=predicate.source,
            hint=hint,
            kind=PolicyError,
        )
        self.errors.append(error)
        return kinds.UNKNOWN


def _constant_kind(value: Constant) -> Kind:
    if value is None:
        return kinds.NULL
    if isinstance(value, bool):
        return kinds.BOOLEAN
    if isinstance(value, int):
        return kinds.INTEGER
    return kinds.FLOAT if isinstance(value, Decimal) else kinds.TEXT


def _comparison_hint(one: Kind, other: Kind, right: Expression) -> str | None:
    if one.name == "text" and right.operator is ops.CONSTANT and other.name in kinds.NUMBERS:
        assert not isinstance(right.value, tuple)
        written = f'"{constant_text(right.value)}"'
        return f"compare a text with a text: {written}; or read the column as numbers"
    if other.name == "text" and right.operator is ops.CONSTANT and one.name in kinds.NUMBERS:
        return "compare a number with a number, without quotes"
    if "boolean" in {one.name, other.name}:
        return "compare true and false only with true, false and other predicates"
    return "only values of the same kind can be compared"
