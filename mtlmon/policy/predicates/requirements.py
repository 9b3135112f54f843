"""What the operands of an expression must be: checks of kinds, and the messages where they fail."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import ComputedColumn, column_of_schema
from mtlmon.policy.predicates.hints import comparison_hint
from mtlmon.policy.predicates.instants import FORMS, read_instant
from mtlmon.policy.predicates.kinds import Kind
from mtlmon.policy.predicates.printer import column_text, constant_text
from mtlmon.syntax.report import formula_error, shorten, visible

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.predicate import Predicate

_SHOWN_WIDTH = 40
# a text that may be meant as the name of a column
_NAME = re.compile(r"[^\W\d][\w .:/-]*")
_EXAMPLE_TIME = '"2024-05-01T12:30:00'


class Requirements:
    """Checks what operands must be, and collects the errors of an expression.

    Args:
        predicate: the expression, and its text.
        schema: the columns of the table, or None if they are not known yet.
        environment: what the expression stands among.

    Attributes:
        kinds: the kind of each node so far by its `id`.
        errors: the errors so far.
    """

    __slots__ = ("environment", "errors", "kinds", "predicate", "schema")

    def __init__(
        self, predicate: Predicate, schema: pa.Schema | None, environment: Environment
    ) -> None:
        self.predicate = predicate
        self.schema = schema
        self.environment = environment
        self.kinds: dict[int, Kind] = {}
        self.errors: list[FormulaError] = []

    def comparable(
        self, left: Expression, right: Expression, what: str, *, are_equal: bool = False
    ) -> bool:
        """Check that two values can be compared, or whether they are equal."""
        one, other = self.kinds[id(left)], self.kinds[id(right)]
        if "other" in {one.name, other.name}:
            self.unusable(left if one.name == "other" else right)
            return False
        if {one.name, other.name} & kinds.OPEN:
            return True
        is_constant = ops.CONSTANT in {left.operator, right.operator}
        if are_equal and not is_constant and kinds.equal_as_texts(one, other):
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
        hint = _comparison_hint(one, other, right)
        quoted = next(filter(self.is_quoted_name, (left, right)), None)
        if quoted is not None:
            hint += (
                f"; if {self.written(quoted)} is a column, write {column_text(str(quoted.value))}"
            )
        self.report(left, message, hint)
        return False

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

    def possible(
        self, operand: Expression, place: Expression, value: object, *, is_ordered: bool = False
    ) -> bool:
        """Refuse a text that a part of a time, such as the day of the week, is never written as."""
        form = FORMS.get(operand.operator)
        if form is None or not isinstance(value, str):
            return True
        is_whole = is_ordered or len(value) == form.length
        if is_whole and re.fullmatch(form.pattern, value):
            return True
        shown = shorten(constant_text(value), _SHOWN_WIDTH)
        self.report(place, f"{operand.operator.name} is never {shown}", form.hint)
        return False

    def require(self, operand: Expression, wanted: Kind, what: str) -> bool:
        """Check that a value has a kind."""
        kind = self.kinds[id(operand)]
        if kind.name == wanted.name or kind.name in kinds.OPEN:
            return True
        if kind.name == "other":
            self.unusable(operand)
            return False
        hint = None
        if wanted == kinds.BOOLEAN:
            hint = comparison_hint(kind)
        self.report(operand, f"{what} {wanted.words}, not {self.described(operand)}", hint)
        return False

    def require_number(self, operand: Expression, what: str) -> bool:
        """Check that a value is a number."""
        kind = self.kinds[id(operand)]
        if kind.name in kinds.NUMBERS or kind.name in kinds.OPEN:
            return True
        if kind.name == "other":
            self.unusable(operand)
            return False
        hint = None
        if kind.name == "text" and operand.operator in ops.COLUMNS:
            hint = "read the column as numbers"
        self.report(operand, f"{what} numbers, not {self.described(operand)}", hint)
        return False

    def require_order(self, operand: Expression, what: str) -> bool:
        """Check that a value is of a kind that has an order."""
        if self.kinds[id(operand)].name != "boolean":
            return True
        hint = "true and false have no order: compare them with = or !="
        self.report(operand, f"{what} is not for {self.described(operand)}", hint)
        return False

    def require_time(self, operand: Expression, function: str) -> None:
        """Check that a value is a time."""
        kind, time = self.kinds[id(operand)], self.environment.time
        if kind.name in {"time", *kinds.OPEN} or (kind.name == "integer" and kind.unit):
            return
        if kind.name == "other":
            self.unusable(operand)
            return
        hint = "a time is a column of dates or timestamps"
        if kind.name == "integer" and operand.operator is ops.COLUMN and operand.name == time:
            hint = "declare the unit of the time-stamps, as in: unit s"
        elif kind.name == "integer" and time is not None:
            hint += f", or whole numbers of the time column, {column_text(time)}"
        self.report(operand, f"{function} takes a time, not {self.described(operand)}", hint)

    def unusable(self, node: Expression) -> Kind:
        """Report a value that only `is null` can test."""
        hint = "a predicate can only test whether it is null"
        return self.report(node, f"{self.described(node)} cannot be used", hint)

    def described(self, node: Expression) -> str:
        """Describe a node and its type for messages."""
        kind = self.kinds[id(node)]
        if node.operator in ops.COLUMNS and not isinstance(node.value, ComputedColumn):
            column = f"column {shorten(column_text(node.name), _SHOWN_WIDTH)}"
            read = node.name if self.schema is None else column_of_schema(self.schema, node.name)
            if self.schema is None or self.schema.get_field_index(read) < 0:
                return column
            return f"{column} of type {self.schema.field(read).type}"
        if node.operator is ops.CONSTANT:
            return self.constant_described(node.constant)
        return f"{self.written(node)} ({kind.words})"

    def is_quoted_name(self, node: Expression) -> bool:
        """Whether a node is a text in quotes that a column may be called."""
        if node.operator is not ops.CONSTANT or not isinstance(node.value, str):
            return False
        assert node.span is not None
        # declared constants have no quotes
        is_quoted = self.predicate.text.startswith('"', node.span.start)
        return is_quoted and _NAME.fullmatch(node.value) is not None

    def written(self, node: Expression) -> str:
        """A node as it is written, for messages."""
        assert node.span is not None
        text = self.predicate.text[node.span.start : node.span.end]
        return shorten(visible(" ".join(text.split())), _SHOWN_WIDTH)

    def constant_described(self, value: Constant) -> str:
        """Describe a constant for messages."""
        if value is None or isinstance(value, bool):
            return constant_text(value)
        shown = shorten(constant_text(value), _SHOWN_WIDTH)
        return f"the {'text' if isinstance(value, str) else 'number'} {shown}"

    def report(self, node: Expression, message: str, hint: str | None = None) -> Kind:
        """Record an error, and return the kind of an expression with an error."""
        assert node.span is not None
        predicate = self.predicate
        name = predicate.name
        label = "" if name is None else f"{predicate.role} {visible(name)}: "
        error = formula_error(
            predicate.text,
            node.span.start,
            f"{label}{message}",
            source=predicate.source,
            hint=hint,
            kind=PolicyError,
        )
        self.errors.append(error)
        return kinds.UNKNOWN


def _comparison_hint(one: Kind, other: Kind, right: Expression) -> str:
    if one.name == "text" and right.operator is ops.CONSTANT and other.name in kinds.NUMBERS:
        written = f'"{constant_text(right.constant)}"'
        return f"compare a text with a text: {written}; or read the column as numbers"
    if other.name == "text" and right.operator is ops.CONSTANT and one.name in kinds.NUMBERS:
        return "compare a number with a number, without quotes"
    if "boolean" in {one.name, other.name}:
        return "compare true and false only with true, false and other predicates"
    return "only values of the same kind can be compared"
