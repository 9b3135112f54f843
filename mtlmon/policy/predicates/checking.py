"""Checks the types of an expression, with or without the columns of a table.

Without a table, columns are of an unknown kind, which fits everywhere. Errors that do not depend on
columns, as in `"a" + 1`, are found before the table is known.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.environment import NOTHING, Environment
from mtlmon.policy.predicates.expression import column_of_schema
from mtlmon.policy.predicates.hints import comparison_hint, some
from mtlmon.policy.predicates.integers import calculate
from mtlmon.policy.predicates.integers import fits as fits_64_bits
from mtlmon.policy.predicates.kinds import Kind, fits, kind_of
from mtlmon.policy.predicates.looking_up import ONLY, no_column
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.requirements import Requirements
from mtlmon.support.guesses import with_advice
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.durations import DurationInterval
from mtlmon.syntax.report import visible
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.syntax.interval import Interval

_REMEMBERING = frozenset({ops.OVER, ops.INSTANCE, *ops.WINDOWS, *ops.OFFSETS.values()})
_ELEMENTS = {
    "boolean": "true and false",
    "integer": "integers",
    "float": "numbers",
    "text": "texts",
}
_BY_NAME = {kind.name: kind for kind in (kinds.BOOLEAN, kinds.INTEGER, kinds.FLOAT, kinds.TEXT)}


class Checked:
    """The result of checking an expression.

    Attributes:
        kinds: the kind of every node by its `id`, valid as long as the expression exists.
        errors: the errors, in the order of their places.
    """

    __slots__ = ("errors", "kinds")

    def __init__(self, kinds_of_nodes: dict[int, Kind], errors: list[FormulaError]) -> None:
        self.kinds = kinds_of_nodes
        self.errors = errors


def check(
    predicate: Predicate,
    schema: pa.Schema | None = None,
    environment: Environment = NOTHING,
    *,
    wanted: Kind | None = kinds.BOOLEAN,
    is_of_one_row: bool = True,
    hint: str | None = None,
) -> Checked:
    """Check the types of an expression.

    Args:
        predicate: the expression to check, and its text.
        schema: the columns of the table, or None if they are not known yet.
        environment: what the expression stands among.
        wanted: the kind that the whole expression must have, or None for any.
        is_of_one_row: whether the expression must not use values of other rows.
        hint: what to do where the whole expression is no condition, although it must be one; by
            default, to compare it.
    """
    checker = _Checker(predicate, schema, environment, is_of_one_row)
    for node in postorder(predicate.expression):
        checker.kinds[id(node)] = checker.kind(node)
    if not checker.errors:
        checker.require_result(wanted, hint)
    checker.errors.sort(key=lambda error: (error.line, error.column))
    return Checked(checker.kinds, checker.errors)


class _Checker(Requirements):
    __slots__ = ("integers", "is_of_one_row")

    def __init__(
        self,
        predicate: Predicate,
        schema: pa.Schema | None,
        environment: Environment,
        is_of_one_row: bool,
    ) -> None:
        super().__init__(predicate, schema, environment)
        self.is_of_one_row = is_of_one_row
        # The values of integer subexpressions that do not depend on columns, by `id`.
        self.integers: dict[int, int] = {}

    def require_result(self, wanted: Kind | None, hint: str | None) -> None:
        root = self.predicate.expression
        kind = self.kinds[id(root)]
        if wanted is None and kind.name == "other":
            self.unusable(root)
        if wanted is None or fits(kind, wanted):
            return
        if self.schema is None and {kind.name, wanted.name} <= kinds.NUMBERS:
            # arithmetic on columns of an unknown kind may be on integers
            return
        if wanted == kinds.BOOLEAN:
            hint = hint or comparison_hint(kind)
            self.report(root, f"the predicate is {kind.words}, not true or false", hint)
        else:
            message = f"this is {kind.words}, not {wanted.words}"
            declares_type = self.predicate.role != "relation"
            self.report(root, message, "declare another type" if declares_type else None)

    def kind(self, node: Expression) -> Kind:
        operator = node.operator
        if operator in ops.COLUMNS:
            return self.column(node)
        if operator is ops.CONSTANT:
            value = node.constant
            if isinstance(value, int) and not isinstance(value, bool):
                self.integers[id(node)] = value
            return _constant_kind(value)
        if operator in ops.OF_FORMULAS:
            return self.of_formula(node)
        if operator in ops.NAMES:
            return self.named(node)
        if operator in _REMEMBERING:
            return self.remembering(node)
        if operator in ops.LOOK_UPS:
            return self.look_up(node)
        if operator in ops.CALLS:
            return self.call(node)
        if operator in ops.TIMES:
            return kinds.INTEGER
        if operator in ops.CONVERTING:
            return self.conversion(node)
        if operator is ops.OWN_FUNCTION:
            own = node.own_function
            for operand, wanted in zip(node.operands, own.arguments, strict=True):
                if wanted == kinds.FLOAT:
                    self.require_number(operand, f"{own.name} takes")
                else:
                    self.require(operand, wanted, f"{own.name} takes")
            return own.kind
        if operator in ops.ARITHMETIC:
            return self.arithmetic(node)
        if operator is ops.IF:
            self.require(node.operands[0], kinds.BOOLEAN, "'if' takes")
            return self.joined("'if' chooses between", *node.operands[1:])
        if operator in {ops.AND, ops.OR, ops.NOT}:
            for operand in node.operands:
                self.require(operand, kinds.BOOLEAN, f"'{operator.word}' takes")
        elif operator in {ops.IN, ops.NOT_IN}:
            self.membership(node)
        elif operator in {ops.IN_COLUMN, ops.NOT_IN_COLUMN}:
            self.elements(node)
        elif operator.arity == 2:
            self.comparison(node)
        return kinds.BOOLEAN

    def named(self, node: Expression) -> Kind:
        if node.operator is ops.STREAM:
            return self.environment.streams.get(node.name, kinds.UNKNOWN)
        if node.operator in {ops.PARAMETER, ops.VARIABLE}:
            return self.environment.parameters.get(node.name, kinds.UNKNOWN)
        return kinds.BOOLEAN

    def machine(self, node: Expression) -> Kind:
        """Check a call of a machine, whose class may declare what it takes."""
        for operand in node.operands:
            if self.kinds[id(operand)].name == "other":
                return self.unusable(operand)
        for operand, declared in zip(node.operands, node.machine.types, strict=False):
            wanted, given = kinds.DECLARED[declared], self.kinds[id(operand)].name
            is_number = wanted == kinds.FLOAT and given in kinds.NUMBERS
            if given not in {wanted.name, *kinds.OPEN} and not is_number:
                name = node.machine.name.partition(":")[2]
                message = f"{self.described(operand)}, but machine {name} takes {wanted.words}"
                return self.report(operand, message)
        return node.machine.kind

    def of_formula(self, node: Expression) -> Kind:
        """Check the term of an aggregate over a formula."""
        word = node.aggregate.word
        return kinds.INTEGER if word == "COUNT" else self.aggregate(word.lower(), node.operands[0])

    def remembering(self, node: Expression) -> Kind:
        """Check what has a value of other rows or of other streams."""
        operator = node.operator
        if self.is_of_one_row:
            hint = "declare it as a stream of a policy file: stream NAME = ..."
            return self.report(node, f"{self.written(node)} depends on other rows", hint)
        if operator is ops.INSTANCE:
            return self.instance(node)
        if operator is ops.COUNT_ROWS:
            return kinds.INTEGER
        if operator is ops.MACHINE:
            return self.machine(node)
        operand = node.operands[0]
        if operator in ops.OFFSETS.values():
            if self.kinds[id(operand)].name == "other":
                return self.unusable(operand)
            return self.with_default(node, self.kinds[id(operand)], node.offset.default)
        if operator is ops.OVER:
            for value in node.operands[1:]:
                if self.kinds[id(value)].name == "other":
                    return self.unusable(value)
            return self.aggregate(node.over.aggregate, operand)
        own = node.window.own
        if operator is ops.WINDOW_RATE and not _has_length(node.window.interval):
            hint = "write rate[0,5m](x), or increase[0,*](x) for all of the log"
            return self.report(node, "a rate is for a window with a length", hint)
        if own is None:
            kind = self.aggregate(operator.word, operand)
        else:
            is_usable = self.kinds[id(operand)].name != "other"
            kind = own.kind if is_usable else self.unusable(operand)
        return self.with_default(node, kind, node.window.default)

    def aggregate(self, word: str, operand: Expression) -> Kind:
        """Check the argument of an aggregate, and return the kind of its values."""
        kind = self.kinds[id(operand)]
        if word in {"count", "any", "all"}:
            self.require(operand, kinds.BOOLEAN, f"{word} takes")
            return kinds.INTEGER if word == "count" else kinds.BOOLEAN
        if kind.name == "other":
            return self.unusable(operand)
        if word in {"distinct", "changes"}:
            return kinds.INTEGER
        if word in {"first", "last"}:
            return kind
        if word in {"min", "max"}:
            return kind if self.require_order(operand, word) else kinds.UNKNOWN
        if not self.require_number(operand, f"{word} takes"):
            return kinds.UNKNOWN
        if word in {"resets", "rank"}:
            return kinds.INTEGER
        if word in {"sum", "increase"} and kind.name in {"integer", *kinds.OPEN}:
            return kind._replace(unit=0)
        return kinds.FLOAT

    def instance(self, node: Expression) -> Kind:
        wanted = self.environment.keys.get(node.name)
        if wanted is not None and len(wanted) != len(node.operands):
            values = "one value" if len(wanted) == 1 else f"{len(wanted)} values"
            message = f"an instance of {column_text(node.name)} has {values} after per"
            hint = f"not {len(node.operands)}"
            return self.report(node, message, hint)
        for operand, kind in zip(node.operands, wanted or (), strict=wanted is not None):
            found = self.kinds[id(operand)]
            if found.name == "other":
                self.unusable(operand)
            elif kinds.joined(found, kind) is None:
                message = f"the instances of {column_text(node.name)} are for {kind.words}"
                self.report(operand, f"{message}, not {self.described(operand)}")
        return self.environment.streams.get(node.name, kinds.UNKNOWN)

    def look_up(self, node: Expression) -> Kind:
        """Check the keys of a look-up, and return the kind of its column."""
        name, column, _, keys = node.looked_up
        unknown = kinds.BOOLEAN if column is None else kinds.UNKNOWN
        for operand in node.operands:
            if self.kinds[id(operand)].name == "other":
                return self.unusable(operand)
        relation = self.environment.relations.get(name)
        if relation is None:
            if self.schema is not None and not self.environment.is_open:
                return self.report(node, f"relation {column_text(name)} is not known here", ONLY)
            return unknown
        assert keys is not None
        for one in keys if column is None else (*keys, column):
            if one not in relation.kinds:
                known = relation.kinds

                def refuse(node: Expression, message: str, hint: str) -> FormulaError:
                    self.report(node, message, hint)
                    return self.errors[-1]

                no_column(node, one, known, refuse)
                return unknown
        for operand, key in zip(node.operands, keys, strict=True):
            found, wanted = self.kinds[id(operand)], relation.kinds[key]
            # a text equals a number that is written like it
            has_texts = operand.operator is not ops.CONSTANT and kinds.equal_as_texts(found, wanted)
            if kinds.joined(found, wanted) is None and not has_texts:
                message = f"column {column_text(key)} of {column_text(name)} is {wanted.words}"
                self.report(operand, f"{message}, not {self.described(operand)}")
        return unknown if column is None else relation.kinds[column]

    def with_default(self, node: Expression, kind: Kind, default: Constant) -> Kind:
        """Check the constant after `or:`, and return the kind of the value."""
        found = _constant_kind(default)
        if found.name in kinds.OPEN:
            return kind
        if kind.name in kinds.OPEN:
            return found
        self.kinds[id(node)] = kind
        if kind.name == "time" and found.name == "text":
            self.instant(node, node, default, "'or:' completes")
        elif not fits(found, kind):
            shown = self.constant_described(default)
            message = f"the value after or: is {shown}, but {self.written(node)} is {kind.words}"
            self.report(node, message, "both must have the same type")
        return kind

    def joined(self, what: str, *operands: Expression) -> Kind:
        """The kind of what has the value of one operand or another."""
        one, other = (self.kinds[id(operand)] for operand in operands)
        if "other" in {one.name, other.name}:
            return self.unusable(operands[one.name != "other"])
        kind = kinds.joined(one, other)
        if kind is None:
            described = " and ".join(map(self.described, operands))
            return self.report(operands[0], f"{what} {described}", "both must have the same type")
        return kind

    def column(self, node: Expression) -> Kind:
        name = node.name
        environment = self.environment
        if not environment.has_columns and not self.is_given(name):
            if name == environment.time:
                return self.in_time_column(kinds.INTEGER)
            hint = f"it has atoms, and the time of each row, {environment.time}"
            return self.report(node, f"there is no column {column_text(name)} in a text log", hint)
        if self.schema is None:
            return kinds.UNKNOWN
        read = column_of_schema(self.schema, name)
        count = len(self.schema.get_all_field_indices(read))
        if count == 1:
            kind = kind_of(self.schema.field(read).type)
            return self.in_time_column(kind) if name == environment.time else kind
        if count:
            return self.report(node, f"{count} columns are called {column_text(name)}")
        names = [one for one in self.schema.names if "\0" not in one]
        hint = f"the columns are {some(map(column_text, names))}"
        hint = with_advice(name, names, hint, written=column_text)
        return self.report(node, f"there is no column {column_text(name)}", hint)

    def is_given(self, name: str) -> bool:
        """Whether a value that takes the place of another expression is called like this."""
        return self.schema is not None and self.schema.get_field_index(name) >= 0

    def in_time_column(self, kind: Kind) -> Kind:
        """The kind of the time column: whole numbers count units since 1970."""
        unit = self.environment.time_unit or self.environment.unit
        return kind._replace(unit=UNITS[unit]) if kind.name == "integer" and unit else kind

    def call(self, node: Expression) -> Kind:
        function, argument = node.operator, node.operands[0]
        wanted, result = function.signature[0], function.signature[-1]
        if wanted == "any":
            return self.choice(node)
        for constant in node.operands[1:] if wanted != "number" else ():
            if not (constant.operator is ops.CONSTANT and isinstance(constant.value, str)):
                message = f"the second argument of {function.name} is not a text in double quotes"
                hint = f'as in {function.name}(column, "text")'
                return self.report(constant, message, hint)
        if function is ops.MATCHES:
            self.pattern(node.operands[1])
        if wanted == "number":
            kind = self.kinds[id(argument)]
            takes = f"{function.name} takes"
            if not all([self.require_number(one, takes) for one in node.operands]):
                return kinds.UNKNOWN
            if kind.name == "unknown" and result != "float":
                return self.some_number
            if kind.name not in {"integer", "null"} or result == "float":
                return kinds.FLOAT
            self.calculate(node)
            return kinds.INTEGER
        if wanted == "time":
            self.require_time(argument, function.name)
        else:
            self.require(argument, kinds.TEXT, f"{function.name} takes")
        return {"boolean": kinds.BOOLEAN, "integer": kinds.INTEGER, "text": kinds.TEXT}[result]

    def conversion(self, node: Expression) -> Kind:
        """Check a conversion, whose signature has the kinds of all arguments."""
        *wanted, result = node.operator.signature
        for operand, name in zip(node.operands, wanted, strict=True):
            self.require(operand, _BY_NAME[name], f"{node.operator.word} takes")
        return _BY_NAME[result]

    def choice(self, node: Expression) -> Kind:
        """Check `min`, `max` or `coalesce` of two values."""
        word = node.operator.word
        if node.operator is not ops.COALESCE:
            for operand in node.operands:
                if not self.require_order(operand, word):
                    return kinds.UNKNOWN
        return self.joined(f"{word} chooses between", *node.operands)

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
        if operator is ops.SUBTRACT and all(
            self.kinds[id(operand)].name == "time" for operand in node.operands
        ):
            return self.difference(node)
        all_numbers = True
        for operand in node.operands:
            all_numbers &= self.require_number(operand, f"'{operator.word}' takes")
        if not all_numbers:
            return kinds.UNKNOWN
        found = [self.kinds[id(operand)] for operand in node.operands]
        names = {kind.name for kind in found}
        if operator is ops.DIVIDE or names & {"float", "decimal"}:
            return kinds.FLOAT
        if "unknown" in names and (self.schema is None or "integer" not in names):
            return self.some_number
        self.calculate(node)
        return kinds.INTEGER

    @property
    def some_number(self) -> Kind:
        """The kind of arithmetic on an unknown kind.

        With the columns, what is unknown is a stream whose kind is being inferred.
        """
        return kinds.FLOAT if self.schema is None else kinds.UNKNOWN

    def difference(self, node: Expression) -> Kind:
        """Check the difference of two times."""
        left, right = node.operands
        if not self.comparable(left, right, "'-' takes"):
            return kinds.UNKNOWN
        if self.environment.unit is None:
            hint = "declare the unit in which they are counted, as in: unit s"
            return self.report(node, "the difference of two times has no unit", hint)
        return kinds.INTEGER

    def calculate(self, node: Expression) -> None:
        """Compute the value of an integer subexpression, if it does not depend on columns."""
        values = [self.integers.get(id(operand)) for operand in node.operands]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return
        result = calculate(node.operator, *known)
        if not fits_64_bits(result):
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
        if self.is_quoted_name(left) and self.is_quoted_name(right):
            hint = f"a column has no quotes: {column_text(str(left.value))}"
            self.report(left, f"'{node.operator.word}' compares two texts in quotes", hint)
            return
        are_equal = node.operator not in ops.ORDERINGS
        what = f"'{node.operator.word}' compares"
        if not self.comparable(left, right, what, are_equal=are_equal):
            return
        is_ordered = node.operator in ops.ORDERINGS
        for one, other in ((left, right), (right, left)):
            if other.operator is ops.CONSTANT and not self.possible(
                one, other, other.value, is_ordered=is_ordered
            ):
                return
        if is_ordered:
            for operand in node.operands:
                if operand.operator is ops.WEEKDAY:
                    hint = 'name the days, as in weekday(ts) in ("sat", "sun")'
                    self.report(operand, "days of the week have no order", hint)
                    return
                if not self.require_order(operand, f"'{node.operator.word}'"):
                    return

    def elements(self, node: Expression) -> None:
        """Check a value that is looked for in a column of lists."""
        value, column = node.operands
        found, lists = self.kinds[id(value)], self.kinds[id(column)]
        if column.operator is not ops.COLUMN:
            hint = 'name a column of lists, as in "admin" in tags, or values in parentheses'
            self.report(column, f"{self.written(column)} is no column", hint)
        elif value.operator is ops.CONSTANT and value.value is None:
            self.report(value, "nothing equals null", "join by or with 'is null'")
        elif found.name == "other":
            self.unusable(value)
        elif lists.name not in kinds.OPEN and not lists.element:
            message = f"'in' takes a list, but {self.described(column)}"
            self.report(column, message, "write values in parentheses, as in lane in (1, 2)")
        elif lists.element and not {found.name, lists.element} & kinds.OPEN:
            numbers = {"integer", "float"}
            if found.name != lists.element and not {found.name, lists.element} <= numbers:
                words = _ELEMENTS[lists.element]
                message = f"column {column_text(column.name)} has lists of {words}"
                self.report(value, f"{message}, but {self.described(value)}")

    def membership(self, node: Expression) -> None:
        (operand,) = node.operands
        kind = self.kinds[id(operand)]
        if kind.name == "other":
            self.unusable(operand)
            return
        wanted = kind
        for value in node.members:
            if not self.possible(operand, operand, value):
                return
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


def _has_length(interval: Interval) -> bool:
    """Whether an interval has an upper bound above the lower one."""
    if isinstance(interval, DurationInterval):
        # its bounds are no numbers yet
        lower, upper = interval.written
        return upper is not None and upper != lower
    return interval.upper is not None and interval.upper > interval.lower


def _constant_kind(value: Constant) -> Kind:
    if value is None:
        return kinds.NULL
    if isinstance(value, bool):
        return kinds.BOOLEAN
    if isinstance(value, int):
        return kinds.INTEGER
    return kinds.FLOAT if isinstance(value, Decimal) else kinds.TEXT
