"""The parts of expressions that a name begins: calls, windows, offsets and instances; constants."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import (
    Constant,
    Expression,
    LookedUp,
    Offset,
    Over,
    Window,
)
from mtlmon.policy.predicates.hints import (
    FORMULA_IN_EXPRESSION,
    MACHINE_HINT,
    NO_FUNCTION,
    OFFSET_HINTS,
    call_hint,
    count_message,
    function_hint,
    where_operand_is_missing,
    window_hint,
    without_window,
)
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.policy.predicates.keywords import CLAUSES
from mtlmon.policy.predicates.lexer import (
    COLUMN,
    DEFAULT,
    DURATION,
    FIELD,
    TEXT,
    Token,
    is_operator_of_formulas,
    is_temporal_word,
)
from mtlmon.policy.predicates.own_aggregates import registered
from mtlmon.policy.predicates.own_functions import registered_function
from mtlmon.policy.predicates.own_machines import OwnMachine, registered_machine
from mtlmon.policy.predicates.precedence import PrecedenceParser
from mtlmon.policy.predicates.printer import column_text
from mtlmon.syntax.bounds import read_bound, read_interval
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import Span
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.lexer import INVALID, NUMBER, skip_blanks
from mtlmon.syntax.operators import SMALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.operators import Operator
    from mtlmon.policy.predicates.own_aggregates import OwnAggregate
    from mtlmon.policy.predicates.own_functions import OwnFunction
    from mtlmon.syntax.durations import Duration

CONSTANTS = {"true": True, "false": False, "null": None}
"""The value of each word that is a constant."""

NUMBERS = {NUMBER, DURATION}
"""The kinds of tokens that are numbers."""

# Words that go on with an expression behind a column.
_GO_ON = frozenset({"then", "else", "over"})
# An interval, or a bound, up to the bracket or comma that ends it, with comments.
_INTERVAL = re.compile(r"\[(?:/\*(?s:.)*?\*/|#[^\n]*|[^])])*[])]?")
_BOUND = re.compile(r"(?:/\*(?s:.)*?\*/|#[^\n]*|[^,)])*")
# The class of a machine, also of one that a function defines.
_CLASS = re.compile(r"\w[\w.]*:\w[\w.<>]*")


class CallParser(PrecedenceParser):
    """Reads constants, and what is called or in brackets.

    Args:
        text: as for `PrecedenceParser`, like `source`, `start`, `end` and `in_formula`.
        unit: the unit of the time-stamps, as for `mtlmon.parse`.
        constants: the values of names where only constants can be.
    """

    __slots__ = ("constants", "unit")

    def __init__(
        self,
        text: str,
        source: str,
        start: int,
        end: int | None,
        unit: str | None,
        constants: Mapping[str, Constant],
        *,
        in_formula: bool,
    ) -> None:
        super().__init__(text, source, start, end, in_formula=in_formula)
        self.unit = unit
        self.constants = constants

    def read_constant(self, what: str) -> Constant:
        """Read a constant; `what` names what is expected in its place."""
        token = self.token
        is_negative = token.kind == "-" and self.ahead(1).kind in NUMBERS
        if is_negative:
            self.index += 1
            token = self.token
        self.index += 1
        if token.kind == TEXT:
            assert isinstance(token.value, str)
            return token.value
        if token.kind in CONSTANTS:
            return CONSTANTS[token.kind]
        if token.kind == COLUMN and token.value in self.constants:
            return self.constants[str(token.value)]
        if token.kind == DURATION:
            length = self.length_of_time(token)
            return -length if is_negative else length
        if token.kind != NUMBER:
            self.index -= 1
            raise self.expected(what, where_operand_is_missing(self.ahead(-1), token))
        assert isinstance(token.value, int | Decimal)
        if isinstance(token.value, Decimal):
            # unary minus would round
            return token.value.copy_negate() if is_negative and token.value else token.value
        if token.value > LARGEST and not is_negative:
            hint = f"write {token.value}.0 for a number with a fraction, which may be larger"
            raise self.error(f"integers are at most {LARGEST}", token, hint)
        return -token.value if is_negative else token.value

    def length_of_time(self, token: Token) -> int:
        """The number of units that a length of time like 10m stands for."""
        found = read_bound(Cursor(self.text, self.source, token.start, token.end), self.unit)
        # if the unit is not known yet, the file is read again when it is
        return found if isinstance(found, int) else 0

    def cursor_at(self, match: re.Match[str]) -> Cursor:
        """The tokens of an interval or a bound."""
        place = match.span()
        return Cursor(self.text, self.source, *place, constants=self.constants)

    def read_default(self) -> Constant:
        """Read `or: CONSTANT`."""
        self.index += 1
        return self.read_constant("a constant after or:")

    def open_call(self, token: Token) -> None:
        """Begin a call of a function, or of an aggregate over instances."""
        name = str(token.value)
        if name == ops.MACHINE.word:
            self.open_machine(token)
            return
        function = ops.FUNCTIONS.get(name)
        if function is None and name in ops.OVER_WORDS:
            function = ops.AGGREGATES[name]
        if function is None and registered_function(name) is not None:
            function = ops.OWN_FUNCTION
        if function is None:
            function = ops.OF_INSTANCES_ONLY.get(name)
        if function is None:
            raise self.error(f"{NO_FUNCTION} {name}", token, function_hint(name))
        self.open(token, function)
        self.index += 2
        if self.token.kind == ")":
            self.require_over(function, token)
            if function in ops.WINDOWS:
                raise self.error(f"{name} has no window", token, without_window(name))
            if function is ops.OWN_FUNCTION:
                self.require_arguments(token, 0)
            raise self.error(count_message(function, 0), self.token, call_hint(function))

    def require_arguments(self, token: Token, count: int) -> OwnFunction:
        """Check how many arguments a function of a program has, and return it."""
        own = registered_function(str(token.value))
        assert own is not None
        if count != len(own.arguments):
            wanted = f"{len(own.arguments)} argument{'' if len(own.arguments) == 1 else 's'}"
            types = ", ".join(one.words for one in own.arguments)
            raise self.error(
                f"{own.name} takes {wanted}, not {count}", self.token, f"it takes {types}"
            )
        return own

    def open_machine(self, token: Token) -> None:
        """Begin a call of a machine, and read the name of its class."""
        self.index += 2
        named = self.token
        if named.kind != TEXT or not _CLASS.fullmatch(str(named.value)):
            raise self.expected("the class of the machine", MACHINE_HINT)
        self.index += 1
        if self.token.kind != ",":
            raise self.expected("',' and what the rows have", MACHINE_HINT)
        self.index += 1
        self.open(Token(token.kind, token.start, named.end, named.value), ops.MACHINE)

    def close_machine(self, arguments: tuple[Expression, ...]) -> None:
        """Close a call of a machine."""
        name = str(self.waiting[-1].token.value)
        columns = tuple(one.name if one.operator in ops.COLUMNS else str(one) for one in arguments)
        machine = OwnMachine(name, columns, made_by=registered_machine(name))
        self.close_call(arguments, ops.MACHINE, Window(Interval.FULL, machine=machine))

    def is_window(self, token: Token) -> bool:
        """Whether a name before a bracket is that of an aggregate, and not of a stream."""
        word = token.value
        if self.text[token.start] == "`":
            return False
        if word not in ops.AGGREGATES:
            return registered(str(word)) is not None
        if word in ops.RESERVED:
            return True
        match = _INTERVAL.match(self.text, self.ahead(1).start, self.end)
        return match is None or self.text.startswith(
            "(", skip_blanks(self.text, match.end(), self.end)
        )

    def open_time(self, token: Token) -> bool:
        """Read `age()`, `silence()`, `start()` or `end()`; return whether that comes next."""
        word = str(token.value)
        operator = ops.LIFE_TIMES.get(word) or ops.RECORD_TIMES.get(word)
        behind = self.ahead(2)
        if operator is None or behind.kind != ")":
            return False
        self.index += 3
        self.push(Expression(operator, (), None, Span(token.start, behind.end)))
        return True

    def open_window(self, token: Token) -> bool:
        """Begin a call of an aggregate; return whether it is complete, as `count[0,5]()` is."""
        word = str(token.value)
        aggregate = ops.AGGREGATES.get(word, ops.WINDOW_OWN)
        bracket = self.ahead(1)
        match = _INTERVAL.match(self.text, bracket.start, self.end)
        assert match is not None
        cursor = self.cursor_at(match)
        interval = read_interval(cursor, self.unit)
        self.index += 1
        self.read_tokens_from(cursor.ahead(-1).end)
        if self.token.kind != "(":
            hint = f"as in {word}{interval}(column)"
            raise self.expected("'(' after the window", hint)
        self.open(token, aggregate, interval)
        self.index += 1
        if self.token.kind != ")":
            return False
        if aggregate is not ops.WINDOW_COUNT:
            hint = f"only count has none: count{interval}() is the number of rows"
            raise self.error(f"{word} takes an argument", self.token, hint)
        self.close_call((), ops.COUNT_ROWS, Window(interval))
        return True

    def begins_exists(self, token: Token) -> bool:
        """Whether `exists` begins the question whether a record is valid; else it is a column."""
        behind = self.ahead(1)
        if token.value != "exists" or self.text[token.start] == "`" or behind.kind != COLUMN:
            return False
        is_word = self.text[behind.start] != "`" and self.ahead(2).kind != "["
        return not (is_word and (behind.value in CLAUSES or self.word(behind) in _GO_ON)) and not (
            is_word and self.in_formula and is_operator_of_formulas(str(behind.value))
        )

    def open_exists(self, token: Token) -> bool:
        """Read `exists NAME` and a bracket; return whether it is complete."""
        name = self.ahead(1)
        opening = Token(COLUMN, token.start, name.end, name.value)
        self.index += 2
        if self.token.kind == "[":
            self.open(opening, ops.EXISTS)
            self.index += 1
            if self.token.kind != "]":
                return False
            self.close_instance(self.token)
            return True
        value = LookedUp(str(name.value), None, ())
        self.push(Expression(ops.EXISTS, (), value, Span(token.start, name.end)))
        return True

    def open_instance(self, token: Token) -> bool:
        """Read a name and a bracket; return whether it is complete, as `total[].n` is."""
        name = str(token.value)
        if self.text[token.start] != "`" and (is_temporal_word(name) or name in SMALL_WORDS):
            raise self.error(f"{name} is an operator of formulas", token, FORMULA_IN_EXPRESSION)
        self.open(token, ops.INSTANCE)
        self.index += 2
        if self.token.kind != "]":
            return False
        if self.ahead(1).kind != FIELD:
            hint = "name the instance, as in views[7]"
            raise self.error("the brackets are empty", self.token, hint)
        self.close_instance(self.token)
        return True

    def read_comma(self, token: Token) -> bool:
        """Read a comma in a call; return whether an operand follows."""
        self.apply_all()
        call = self.waiting[-1] if self.waiting else None
        if call is None or call.opened is None or call.opened is ops.IF:
            if call is not None and call.opened is ops.IF:
                raise self.operator_missing()
            hint = "write a list of values after in, as in lane in (1, 2)"
            raise self.error("',' is outside a list or a function", token, hint)
        function = call.opened
        if function in {ops.MACHINE, ops.OWN_FUNCTION} or call.over is not None:
            self.index += 1
            return True
        self.require_over(function, call.token)
        if function in ops.WINDOWS:
            if call.interval is None:
                name = function.word
                raise self.error(f"{name} has no window", call.token, without_window(name))
            self.read_parameters(function, call.interval)
            return False
        count = len(self.operands) - call.depth
        if function is ops.COALESCE and count == function.arity:
            arguments = self.arguments()
            assert arguments[0].span is not None
            span = Span(arguments[0].span.start, self.ahead(-1).end)
            self.drop(call.depth)
            self.push(Expression(function, arguments, None, span))
        elif 0 <= function.arity <= count:
            message = count_message(function, function.arity + 1)
            raise self.error(message, token, call_hint(function))
        self.index += 1
        return True

    def read_parameters(self, aggregate: Operator, interval: Interval) -> None:
        """Read what follows the argument of an aggregate, and close it."""
        parameters: list[Constant] = []
        default: Constant = None
        while self.token.kind == ",":
            self.index += 1
            if self.token.kind == DEFAULT:
                default = self.read_default()
                break
            if aggregate is ops.WINDOW_INTEGRAL and not parameters and self.is_linear():
                parameters.append(ops.LINEAR)
                self.index += 1
                continue
            if len(parameters) >= aggregate.constants:
                count = aggregate.constants + 1
                takes = "one argument" if count == 1 else f"{count} arguments"
                hint = f"{window_hint(aggregate)}; a value for an empty window follows or:"
                raise self.error(f"{aggregate.word} takes {takes}", self.token, hint)
            parameters.append(self.read_parameter(aggregate))
        if self.token.kind != ")":
            raise self.expected("')' at the end of the window", window_hint(aggregate))
        self.require_parameters(aggregate, len(parameters))
        own = _own(aggregate, self.waiting[-1].token)
        window = Window(interval, tuple(parameters), default, own)
        self.close_call(self.arguments(), aggregate, window)

    def is_linear(self) -> bool:
        """Whether the present token is `linear`."""
        return self.token.kind == COLUMN and self.token.value == ops.LINEAR

    def read_parameter(self, aggregate: Operator) -> Constant:
        """Read the constant of a quantile."""
        token = self.token
        return self.share_of(aggregate, self.read_constant("a constant"), token)

    def share_of(self, aggregate: Operator, value: Constant, token: Token) -> Constant:
        """Require that a constant is the share of a quantile, and return it."""
        if isinstance(value, int | Decimal) and not isinstance(value, bool) and 0 <= value <= 1:
            return value
        raise self.error("a quantile is a number from 0 to 1", token, window_hint(aggregate))

    def require_parameters(self, aggregate: Operator, count: int) -> None:
        if count < aggregate.constants:
            message = f"{aggregate.word} takes {aggregate.constants + 1} arguments, not {count + 1}"
            raise self.error(message, self.token, window_hint(aggregate))

    def close(self, token: Token) -> None:
        """Close what the parenthesis at the present token closes."""
        self.apply_all()
        if not self.waiting:
            raise self.error("this parenthesis closes nothing", token)
        opening = self.waiting[-1]
        function = opening.opened
        if function in {ops.IF, ops.INSTANCE, ops.EXISTS}:
            raise self.operator_missing()
        if function is None:
            self.waiting.pop()
            self.open_count -= 1
            self.index += 1
            self.starts[-1], self.bare[-1] = opening.token.start, ops.OPERAND
            return
        arguments = self.arguments()
        if opening.over is not None:
            self.close_over(function, opening.over)
            return
        self.require_over(function, opening.token)
        if function is ops.MACHINE:
            self.close_machine(arguments)
            return
        if function is ops.OWN_FUNCTION:
            called = self.require_arguments(opening.token, len(arguments))
            self.close_call(arguments, function, called)
            return
        if function in ops.WINDOWS:
            if opening.interval is None:
                name = function.word
                raise self.error(f"{name} has no window", opening.token, without_window(name))
            self.require_parameters(function, 0)
            own = _own(function, opening.token)
            self.close_call(arguments, function, Window(opening.interval, own=own))
            return
        if len(arguments) != function.arity:
            message = count_message(function, len(arguments))
            raise self.error(message, token, call_hint(function))
        self.close_call(arguments, function, None)

    def close_instance(self, token: Token) -> None:
        self.apply_all()
        opened = self.waiting[-1].opened if self.waiting else None
        if opened not in {ops.INSTANCE, ops.EXISTS}:
            raise self.operator_missing()
        name = str(self.waiting[-1].token.value)
        field = self.ahead(1)
        if field.kind == INVALID and self.text.startswith(".", field.start):
            raise self.error("", field)
        if opened is ops.INSTANCE and field.kind != FIELD:
            self.close_call(self.arguments(), ops.INSTANCE, name)
            return
        names, values = self.keys(name)
        if opened is ops.EXISTS:
            self.close_call(values, ops.EXISTS, LookedUp(name, None, names))
            if self.token.kind == FIELD:
                hint = f"write {column_text(name)}[...].{column_text(str(self.token.value))}"
                raise self.error("exists takes a record, not a column", self.token, hint)
            return
        # the name of the column is read with the bracket
        self.index += 1
        self.close_call(values, ops.LOOK_UP, LookedUp(name, str(field.value), names))

    def names_before_signs(self, depth: int) -> list[bool]:
        """Find out which of the last operands are written as `NAME = VALUE`."""
        return [
            one.operator is ops.EQUAL
            and binding == ops.COMPARISON
            and one.operands[0].operator is ops.COLUMN
            for one, binding in zip(self.operands[depth:], self.bare[depth:], strict=True)
        ]

    def keys(self, relation: str) -> tuple[tuple[str, ...] | None, tuple[Expression, ...]]:
        """Return the columns before the signs in a bracket, if they are named, and the values."""
        arguments = self.arguments()
        is_named = self.names_before_signs(self.waiting[-1].depth)
        if not any(is_named):
            return (None if arguments else ()), arguments
        for one, has_name in zip(arguments, is_named, strict=True):
            if not has_name:
                assert one.span is not None
                place = Token(COLUMN, one.span.start, one.span.end)
                hint = f"as in {column_text(relation)}[road = way, lane = track]"
                raise self.error("name the column of this value, too", place, hint)
        names = tuple(one.operands[0].name for one in arguments)
        for name in names:
            if names.count(name) > 1:
                raise self.error(f"{column_text(name)} has two values", self.waiting[-1].token)
        return names, tuple(one.operands[1] for one in arguments)

    def require_over(self, function: Operator, token: Token) -> None:
        """Refuse an aggregate over instances that does not say of which stream."""
        if function in ops.OF_INSTANCES_ONLY.values():
            share = ", 0.9" if function.constants else ""
            hint = f"as in {function.word}(x over x{share})"
            raise self.error(f"{function.word} is over instances of a stream", token, hint)

    def read_over(self, aggregate: str) -> bool:
        """Read the name of a stream, and what follows; return whether an operand does."""
        token = self.token
        if token.kind != COLUMN:
            hint = f"as in {aggregate}(views > 10 over views)"
            raise self.expected("the name of a stream after over", hint)
        self.index += 1
        operator = ops.OVER_AGGREGATES[aggregate]
        parameters: list[Constant] = []
        if operator.constants and self.token.kind == ",":
            self.index += 1
            parameters.append(self.read_parameter(operator))
        elif self.word(self.token) == "by":
            self.index += 1
            self.waiting[-1].over = str(token.value)
            return True
        if self.token.kind != ")":
            raise self.expected("')' or by after the name of the stream")
        self.require_share(operator, len(parameters))
        value = Over(aggregate, str(token.value), tuple(parameters))
        self.close_call(self.arguments(), ops.OVER, value)
        return False

    def require_share(self, aggregate: Operator, count: int) -> None:
        if count < aggregate.constants:
            hint = f"as in {aggregate.word}(views over views, 0.99)"
            raise self.error(f"{aggregate.word} takes a number from 0 to 1", self.token, hint)

    def close_over(self, aggregate: Operator, stream: str) -> None:
        """Close an aggregate over a group of instances."""
        argument, *values = self.arguments()
        parameters: list[Constant] = []
        if aggregate.constants:
            share = values[-1]
            is_last = len(values) > 1 and share.operator is ops.CONSTANT
            self.require_share(aggregate, int(is_last))
            assert share.span is not None
            place = Token(NUMBER, share.span.start, share.span.end)
            parameters.append(self.share_of(aggregate, share.constant, place))
            del values[-1]
        by: list[str] = []
        depth = self.waiting[-1].depth + 1
        has_name = self.names_before_signs(depth)
        for number, value in enumerate(values):
            named = value.operands[0] if has_name[number] else value
            assert named.span is not None
            place = Token(COLUMN, named.span.start, named.span.end)
            hint = "as in sum(x over x by job), or by job = EXPRESSION"
            if named.operator is not ops.COLUMN:
                raise self.error("by takes names of values behind per", place, hint)
            if named.name in by:
                raise self.error(f"{column_text(named.name)} is behind by twice", place, hint)
            by.append(named.name)
            if has_name[number]:
                values[number] = value.operands[1]
        over = Over(aggregate.word, stream, tuple(parameters), tuple(by))
        self.close_call((argument, *values), ops.OVER, over)

    def read_offset(self, token: Token) -> None:
        """Read `.last(2, or: 0)` and the like behind an operand."""
        operator = ops.OFFSETS[str(token.value)]
        if self.bare[-1] != ops.OPERAND:
            hint = f"write (...).{operator.word}(...)"
            raise self.error(f".{operator.word} needs parentheses before it", token, hint)
        self.index += 2
        is_later = operator is ops.AT and self.token.kind == "+"
        distance = self.read_distance(operator)
        default: Constant = None
        if self.token.kind == ",":
            self.index += 1
            if self.token.kind != DEFAULT:
                raise self.expected("or:", f"as in .{operator.word}({distance}, or: 0)")
        if self.token.kind == DEFAULT:
            default = self.read_default()
        if self.token.kind != ")":
            raise self.expected(f"')' at the end of .{operator.word}", OFFSET_HINTS[operator])
        self.index += 1
        operand, start = self.operands.pop(), self.starts.pop()
        self.bare.pop()
        span = Span(start, self.ahead(-1).end)
        self.push(Expression(operator, (operand,), Offset(distance, default, is_later), span))

    def read_distance(self, operator: Operator) -> int | Duration:
        """Read how far an offset looks, and move to the token behind it."""
        token = self.token
        if operator is ops.AT:
            if token.kind not in {"-", "+"}:
                raise self.expected("a sign and a length of time", OFFSET_HINTS[operator])
            match = _BOUND.match(self.text, token.end, self.end)
            assert match is not None
            cursor = self.cursor_at(match)
            distance = read_bound(cursor, self.unit)
            self.index += 1
            self.read_tokens_from(cursor.ahead(-1).end)
            return distance
        if token.kind in {DEFAULT, ")"}:
            return 0 if operator is ops.HOLD else 1
        if token.kind != NUMBER or not isinstance(token.value, int):
            raise self.expected("a whole number", OFFSET_HINTS[operator])
        if not 1 <= token.value <= LARGEST:
            hint = f"{operator.word}(1) is the nearest other value"
            if operator is ops.HOLD:
                hint = "hold() is the newest value, and hold(1) the one before it"
            message = f"the number after .{operator.word} is from 1 to {LARGEST}"
            raise self.error(message, token, hint)
        self.index += 1
        return token.value


def _own(function: Operator, token: Token) -> OwnAggregate | None:
    """The aggregate that a call is of, if a program defines it."""
    return registered(str(token.value)) if function is ops.WINDOW_OWN else None
