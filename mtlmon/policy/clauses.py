"""Reads the clauses of declarations: keys, clocks and the like, between expressions."""

from __future__ import annotations

from mtlmon.errors import PolicyError
from mtlmon.policy.definitions import Assumption, Clock, Stream
from mtlmon.policy.predicates.keywords import CLAUSES
from mtlmon.support.late_pattern import late_pattern
from mtlmon.syntax.bounds import LATER, UNIT_WORDS, UNITS, read_bound
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.lexer import skip_blanks
from mtlmon.syntax.report import formula_error, shorten, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from fractions import Fraction
    from typing import Protocol

    from mtlmon.errors import FormulaError
    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.parser import Aggregates

    class Scope(Protocol):
        """Finds out what the names in expressions stand for."""

        def resolved(
            self,
            expression: Expression,
            *,
            is_condition: bool = False,
            is_end: bool = False,
            parameters: Sequence[str] = (),
        ) -> Expression:
            """Return the expression with its names resolved."""

        def require_relation(self, name: str, place: int) -> None:
            """Check that there is a relation, which is named at some place."""

    from mtlmon.syntax.durations import Duration

NONE = "none"
"""Stands for no key, as in `key none`."""

_WORD = late_pattern(r"[^\W\d]\w*")
_QUOTED = late_pattern(r"""(?P<quote>["'])(?P<name>[^"'`\\\n]+)(?P=quote)""")
_COLUMN = late_pattern(r"[^\W\d]\w*|(?:`[^`\n]*`)+")
_NUMBER = late_pattern(r"[0-9]+(?:\.[0-9]+)?")
# Words of clauses that can follow are no units.
_DURATION = late_pattern(
    r"[0-9]+(?:\.[0-9]+)?(?:\s*(?!(?:on|for|from|until|at|severity|message|valid|where|select|group|join|semijoin|union"
    r"|unionmax|minus|intersect|distinct|coalesce|split|every|shift)\b)[^\W\d]+)?"
)
_FREQUENCY = late_pattern(r"([0-9]+(?:\.[0-9]+)?)\s*Hz\b")
_TEXT = late_pattern(r'"(?:[^"\\\n]|\\.)*"')
_FOUND = late_pattern(r"[\w.]+|\S")
# How a clock is written, by its first word.
_CLOCKS = {
    "every": "on every 10s",
    "changes": "on changes of RELATION",
    "rows": "on rows where CONDITION",
}
_FOUND_WIDTH = 40


class ClauseReader:
    """A position in a part of a policy file, and the pieces of clauses that can follow it.

    Args:
        text: the text of the file.
        source: the name of the text in errors.
        start: where the part begins.
        end: where it ends.
        unit: the unit of the time-stamps, as for `parse`.
        constants: the values of constants by name.
    """

    __slots__ = ("_constants", "_end", "_position", "_source", "_text", "_unit")

    def __init__(
        self,
        text: str,
        source: str,
        start: int,
        end: int,
        unit: str | None,
        constants: Mapping[str, Constant],
    ) -> None:
        self._text = text
        self._constants = constants
        self._source = source
        self._end = end
        self._unit = unit
        self._position = skip_blanks(text, start, end)

    @property
    def position(self) -> int:
        """Where the next token begins."""
        return self._position

    @property
    def word(self) -> str:
        """The next word; empty if something else comes next."""
        found = _WORD.match(self._text, self._position, self._end)
        return "" if found is None else found.group()

    def take(self, word: str) -> bool:
        """Skip the word if it comes next; return whether it did."""
        if self.word != word:
            return False
        self._go(self._position + len(word))
        return True

    def take_words(self, *words: str) -> bool:
        """Skip words if all of them come next; return whether they did."""
        start = self._position
        if all(self.take(word) for word in words):
            return True
        self._position = start
        return False

    def take_sign(self, sign: str) -> bool:
        """Skip the sign if it comes next; return whether it did."""
        if not self._text.startswith(sign, self._position) or self._position >= self._end:
            return False
        self._go(self._position + len(sign))
        return True

    def text(self) -> str | None:
        """Read a text in double quotes, if one comes next.

        Raises:
            PolicyError: the text is not valid.
        """
        found = _TEXT.match(self._text, self._position, self._end)
        if found is None:
            if self._text.startswith('"', self._position) and self._position < self._end:
                raise self.error("this double quote is not closed on its line")
            return None
        from mtlmon.policy.predicates.parser import parse_expression

        value = parse_expression(self._text, self._source, found.start(), found.end()).value
        assert isinstance(value, str)
        self._go(found.end())
        return value

    def name(self, what: str) -> str:
        """Read a word.

        Raises:
            PolicyError: something else comes next.
        """
        word = self.word
        if not word:
            raise self.expected(what)
        self._go(self._position + len(word))
        return word

    def columns(self) -> tuple[str, ...]:
        """Read the names of key columns, separated by commas, or `none` for no columns.

        Raises:
            PolicyError: something else comes next, or a column is named twice.
        """
        names: list[str] = []
        while True:
            start = self._position
            name = self.column("the name of a column")
            if name in names:
                self._position = start
                raise self.error(f"the column {name} is named twice", "name each column once")
            names.append(name)
            if not self.take_sign(","):
                is_none = names == [NONE] and self._text[start] != "`"
                return () if is_none else tuple(names)

    def column(self, what: str) -> str:
        """Read a name, which can be in backquotes.

        Raises:
            PolicyError: something else comes next.
        """
        found = _COLUMN.match(self._text, self._position, self._end)
        if found is None:
            quoted = _QUOTED.match(self._text, self._position, self._end)
            example = "user id" if quoted is None else quoted["name"]
            hint = f"the name of a column is written as a word, or in backquotes: `{example}`"
            raise self.expected(what, hint)
        written = found.group()
        self._go(found.end())
        return written[1:-1].replace("``", "`") if written[0] == "`" else written

    def duration(
        self, example: str = "as in every 10s", *, can_be_zero: bool = False
    ) -> int | Duration:
        """Read a length of time.

        Args:
            example: the hint where something else comes next.
            can_be_zero: whether it may be 0; periods of ticks are at least 1.

        Raises:
            FormulaError: something else comes next, or its unit is not valid.
        """
        found = _DURATION.match(self._text, self._position, self._end)
        if found is None:
            found = _WORD.match(self._text, self._position, self._end)
            if found is None or found.group() not in self._constants:
                raise self.expected("a length of time", example)
        cursor = Cursor(self._text, self._source, *found.span(), constants=self._constants)
        length = read_bound(cursor, self._unit)
        if length == 0 and self._unit == LATER and not found.group().isdigit():
            # a constant has no value yet; the text is read again when the unit is known
            length = 1
        is_zero = (length if isinstance(length, int) else length.nanoseconds) == 0
        if is_zero and not can_be_zero:
            raise self.error("this length of time is 0", "ticks need a length of time above 0")
        self._go(found.end())
        return length

    def period(self) -> int | Duration:
        """Read the length of time between two ticks, which can be a frequency.

        Raises:
            FormulaError: something else comes next, or the length is not a whole number of units.
        """
        found = _FREQUENCY.match(self._text, self._position, self._end)
        if found is None:
            return self.duration()
        from fractions import Fraction

        frequency = Fraction(found[1])
        if not frequency:
            raise self.error("this frequency is 0", "ticks need a frequency above 0")
        if self._unit is None:
            hint = "declare it: unit ms"
            raise self.error(f"{found.group()} needs the unit of the time-stamps", hint)
        unit = self._unit if self._unit in UNITS else "ns"
        units, rest = divmod(UNITS["s"] / frequency, UNITS[unit])
        if rest:
            message = f"the period of {found.group()} is not a whole number of units, {unit}"
            raise self.error(message, "ticks are at the multiples of their period")
        self._go(found.end())
        if self._unit != LATER:
            return units
        from mtlmon.syntax.durations import Duration

        return Duration.of_nanoseconds(units)

    def number(self, what: str) -> Fraction:
        """Read a number that is not negative.

        Raises:
            PolicyError: something else comes next.
        """
        found = _NUMBER.match(self._text, self._position, self._end)
        if found is None:
            raise self.expected(what)
        from fractions import Fraction

        self._go(found.end())
        return Fraction(found.group())

    @property
    def is_at_end(self) -> bool:
        """Whether nothing follows."""
        return self._position >= self._end

    def expression(
        self, clauses: Collection[str] = CLAUSES, aggregates: Aggregates | None = None
    ) -> Expression:
        """Read an expression up to the next clause.

        Args:
            clauses: the words that clauses begin with.
            aggregates: reads aggregates of groups, where these can be.

        Raises:
            FormulaError: something else comes next.
        """
        from mtlmon.policy.predicates.parser import parse_prefix

        expression, behind = parse_prefix(
            self._text,
            self._source,
            self._position,
            self._end,
            self._unit,
            self._constants,
            aggregates,
            clauses,
        )
        self._go(behind)
        return expression

    def arguments(self) -> list[tuple[int, int]]:
        """Find what stands between commas up to the parenthesis that closes what is open.

        Returns:
            The start and end of each argument; none if the parenthesis comes next.

        Raises:
            FormulaError: the parenthesis is never closed.
        """
        from mtlmon.policy.predicates.lexer import scan

        depth = 1
        starts, ends = [self._position], list[int]()
        for token in scan(self._text, self._position, self._end):
            depth += (token.kind in {"(", "["}) - (token.kind in {")", "]"})
            if depth == 0:
                ends.append(token.start)
                is_empty = len(ends) == 1 and starts[0] == token.start
                self._go(token.end)
                return [] if is_empty else list(zip(starts, ends, strict=True))
            if depth == 1 and token.kind == ",":
                ends.append(token.start)
                starts.append(skip_blanks(self._text, token.end, self._end))
        self._go(self._end)
        raise self.expected("')'")

    def expression_at(self, start: int, end: int) -> Expression:
        """Read the expression that is a part of the text.

        Raises:
            FormulaError: it is none.
        """
        from mtlmon.policy.predicates.parser import parse_expression

        return parse_expression(self._text, self._source, start, end, self._unit, self._constants)

    def require_end(self, what: str) -> None:
        """Check that nothing follows.

        Raises:
            PolicyError: something does.
        """
        if self._position < self._end:
            raise self.expected(what)

    def expected(self, what: str, hint: str | None = None) -> FormulaError:
        """Make the error that something else was expected here."""
        found = _FOUND.match(self._text, self._position, self._end)
        shown = "the end"
        if found is not None:
            shown = f"'{shorten(visible(found.group()), _FOUND_WIDTH)}'"
        return self.error(f"expected {what}, found {shown}", hint)

    def error(self, message: str, hint: str | None = None) -> FormulaError:
        """Make an error at this position."""
        return formula_error(
            self._text, self._position, message, source=self._source, hint=hint, kind=PolicyError
        )

    def _go(self, position: int) -> None:
        self._position = skip_blanks(self._text, position, self._end)


class PolicyClauses:
    """The clauses between the name of a policy and its colon.

    Attributes:
        text: what the policy means, in words; empty if there is none.
        key: the key columns, or None.
        clock: the time-points, or None for all rows.
        lasting: how long the formula must have failed before that is a violation, or None.
        tolerance: the share of time-points at which it may be violated, or None.
        most: the number of time-points at which it may be violated, or None.
        severity: a word, or None.
    """

    __slots__ = ("clock", "key", "lasting", "most", "severity", "text", "tolerance")

    def __init__(self) -> None:
        self.text = ""
        self.key: tuple[str, ...] | None = None
        self.clock: Clock | None = None
        self.lasting: int | Duration | None = None
        self.tolerance: Fraction | None = None
        self.most: int | None = None
        self.severity: str | None = None

    def read(self, clauses: ClauseReader, scope: Scope, *, is_trigger: bool) -> None:
        """Read the clauses; those of triggers are the key, the clock, and `for`.

        Raises:
            FormulaError: a clause is not valid, or in the wrong place.
        """
        if not is_trigger:
            self.text = clauses.text() or ""
        if clauses.take("per"):
            self.key = clauses.columns()
        if clauses.take("on"):
            self.clock = read_clock(clauses, scope)
        if clauses.take("for"):
            self.lasting = clauses.duration("as in for 5m", can_be_zero=True)
        if not is_trigger:
            if clauses.take("at"):
                self.read_tolerance(clauses)
            if clauses.take("severity"):
                self.severity = clauses.name("a word such as high")
        order = "per, on, for" if is_trigger else "a text, per, on, for, at most, severity"
        what = f"':' (before it can be, in this order: {order})"
        if clauses.word in {"every", "changes", "rows"} and self.clock is None:
            raise clauses.expected(what, f"write on before it, as in {_CLOCKS[clauses.word]}")
        clauses.require_end(what)

    def read_tolerance(self, clauses: ClauseReader) -> None:
        """Read `most NUMBER [%]`, which follows the word `at`."""
        if not clauses.take("most"):
            raise clauses.expected("most", "as in at most 1%")
        number = clauses.number("a number")
        if clauses.take_sign("%"):
            if number > 100:
                raise clauses.error("a share is at most 100%")
            self.tolerance = number / 100
        elif number.denominator == 1:
            self.most = int(number)
        else:
            raise clauses.expected("'%'", "as in at most 1%; a number of violations is whole")


def read_clock(clauses: ClauseReader, scope: Scope) -> Clock | None:
    """Read a clock: `rows`, `rows where EXPR`, `every DURATION` or `changes of RELATION`.

    Returns:
        The clock; None for all rows.

    Raises:
        FormulaError: something else comes next, or there is no such relation.
    """
    if clauses.take("every"):
        return Clock(period=clauses.period())
    if clauses.take("changes"):
        from mtlmon.policy.predicates.time_points import Changes

        if not clauses.take("of"):
            raise clauses.expected("of", "as in on changes of sessions")
        place = clauses.position
        relation = clauses.column("the name of a relation")
        scope.require_relation(relation, place)
        return Clock(period=Changes(relation, place))
    if not clauses.take("rows"):
        what = "as in on rows where x > 5, on every 10s, or on changes of sessions"
        raise clauses.expected("rows, every or changes of", what)
    if not clauses.take("where"):
        return None
    return Clock(condition=scope.resolved(clauses.expression(), is_condition=True))


def read_stream(
    clauses: ClauseReader, name: str, kind: str | None, place: int, scope: Scope
) -> Stream:
    """Read the expression and the clauses of a stream.

    Args:
        clauses: the part behind the sign `=`.
        name: the name of the stream.
        kind: its declared type, or None.
        place: the position of its name in the text.
        scope: finds out what names stand for.

    Raises:
        FormulaError: the expression or a clause is not valid.
    """
    # imported here, as only files with streams need it
    from mtlmon.policy.predicates import operators as ops

    written = clauses.expression()
    per: list[tuple[Expression, str | None]] = []
    if clauses.take("per"):
        while not per or clauses.take_sign(","):
            value = scope.resolved(clauses.expression())
            parameter = None
            if clauses.take("as"):
                parameter = clauses.name("a name")
                if any(parameter == other for _, other in per):
                    hint = "give each value a name of its own"
                    raise clauses.error(f"two values after per are called {parameter}", hint)
            per.append((value, parameter))
    parameters = [parameter for _, parameter in per if parameter is not None]
    clock = None
    if clauses.take("on"):
        where = scope.resolved(clauses.expression(), is_condition=True, parameters=parameters)
        clock = Clock(condition=where)
    if clauses.take("every"):
        if clock is not None:
            raise clauses.error("a stream has values on rows or on ticks, not on both")
        length = clauses.period()
        clock = Clock(period=length)
        if clauses.take_words("from", "its", "beginning"):
            from mtlmon.policy.predicates.time_points import FromBeginning

            if not per:
                hint = "instances are made by per, as in per viewed as id"
                raise clauses.error("its beginning is that of an instance", hint)
            clock = Clock(period=FromBeginning(length))
    ends: dict[str, Expression | None] = {"from": None, "until": None}
    for word in ends:
        if clauses.take(word):
            if not per:
                hint = "instances are made by per, as in per viewed as id"
                raise clauses.error(f"{word} is for streams with instances", hint)
            ends[word] = scope.resolved(
                clauses.expression(),
                is_condition=True,
                is_end=word == "until",
                parameters=parameters,
            )
    order = "per, on, every, from, until"
    clauses.require_end(f"an operator or the end (clauses come in this order: {order})")
    if clock is not None and clock.period is not None:
        # where there are no rows, a column behind per has the value that it has in the instance
        for number, (key, parameter) in enumerate(per):
            if parameter is None and key.operator is ops.COLUMN and key.name not in parameters:
                per[number] = key, key.name
                parameters.append(key.name)
    value = scope.resolved(written, parameters=parameters)
    if value.operator is ops.MACHINE and kind is not None:
        if kind == "time":
            hint = "declare an int, float, bool or text"
            raise clauses.error("a machine gives no times", hint)
        from mtlmon.policy.predicates.kinds import DECLARED
        from mtlmon.policy.predicates.own_machines import giving

        value = giving(value, DECLARED[kind])
    return Stream(name, value, kind, tuple(per), clock, ends["from"], ends["until"], place)


def read_assumption(clauses: ClauseReader) -> Assumption:
    """Read what follows `assume`: `rate [per key] <= N / UNIT`, `keys <= N` or `instances <= N`.

    Raises:
        PolicyError: something else comes next.
    """
    subject = clauses.name("rate, keys or instances")
    is_count = subject != "rate"
    if subject == "rate" and clauses.take("per"):
        if not clauses.take("key"):
            raise clauses.expected("key", "as in assume rate per key <= 10 / s")
        subject = "rate per key"
    if not clauses.take_sign("<="):
        what = f"{subject} <= 1000" if is_count else f"{subject} <= 10/s"
        raise clauses.expected("'<='", f"as in assume {what}")
    limit = clauses.number("a whole number")
    if limit.denominator != 1:
        raise clauses.error("the limit is not a whole number")
    unit = None
    if not is_count:
        if not clauses.take_sign("/"):
            raise clauses.expected("'/' and a unit of time", "as in assume rate <= 10 / s")
        unit = clauses.name("a unit of time")
        unit = UNIT_WORDS.get(unit, unit)
        if unit not in UNITS:
            raise clauses.error(
                f"'{unit}' is not a unit of time", f"the units are {', '.join(UNITS)}"
            )
    return Assumption(subject, int(limit), unit)
