"""At which time-points an expression has values: rows, ticks of a period, changes of a relation.

What an expression reads outside of aggregates and offsets is read at its own time-point. A column
and an atom of the log exist at rows; a stream `every 10s` exists at the multiples of 10 s, and can
be read at those of 20 s. An aggregate or offset has a value at any time-point, but its argument has
values at rows or at ticks: at those where it reads something, and at rows if it reads nothing. At
the changes of a relation, nothing exists but the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.printer import column_text
from mtlmon.syntax.durations import Duration, DurationInterval, period_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mtlmon.policy.predicates.expression import Expression


class Waiting(NamedTuple):
    """Rows that wait until later values of their traces are known.

    Attributes:
        values: these values, as text, in order.
    """

    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"rows that wait for {', '.join(self.values)}"


class Changes:
    """The times at which a relation changes, as the time-points of a policy.

    They are ticks, which come behind all rows of their time; but their times are not multiples of
    anything.

    Args:
        relation: the name of the relation, which the file declares.
        place: the position of the name in the text.

    Attributes:
        relation: as given.
        place: as given; it does not tell clocks apart.
    """

    __slots__ = ("place", "relation")

    def __init__(self, relation: str, place: int = 0) -> None:
        self.relation = relation
        self.place = place

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Changes):
            return NotImplemented
        return self.relation == other.relation

    def __hash__(self) -> int:
        return hash(self.relation)

    def __str__(self) -> str:
        return f"changes of {column_text(self.relation)}"

    def __repr__(self) -> str:
        return f"<{self}>"


class FromBeginning:
    """The ticks of an instance that are counted from its beginning.

    Args:
        length: the length of time between two of them, and from the beginning to the first one.

    Attributes:
        length: as given.
    """

    __slots__ = ("length",)

    def __init__(self, length: int | Duration) -> None:
        self.length = length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FromBeginning):
            return NotImplemented
        return self.length == other.length

    def __hash__(self) -> int:
        return hash((FromBeginning, self.length))

    def in_words(self, unit: str | None) -> str:
        """Say what they are; with the unit of time-stamps, the length has a unit."""
        return f"every {period_text(self.length, unit)} from its beginning"

    def __repr__(self) -> str:
        return f"<{self.in_words(None)}>"


Period: TypeAlias = "int | Duration | Changes | FromBeginning"
"""The period of ticks, or `ROWS`; it is a `Duration` where the unit is not known yet."""

ROWS = 0
"""All rows."""

CHANGES = 1 << 63
"""Numbers from here on stand for the changes of relations; lengths of time are below."""

BEGINNINGS = 1 << 64
"""Numbers from here on stand for ticks that are counted from the beginning of each instance: they
are this and the length of time."""

When: TypeAlias = "int | Waiting | Changes"
"""Where a value is wanted: `ROWS`, a period of ticks, rows that wait, or changes."""

MEMORY = ops.WINDOWS | frozenset(ops.OFFSETS.values())
"""The operators whose value at a time-point depends on other time-points."""


def is_later(node: Expression) -> bool:
    """Whether a node is a value of a later row, which rows wait for."""
    return node.operator is ops.NEXT or (node.operator is ops.AT and node.offset.is_later)


class Read(NamedTuple):
    """What an expression reads at its own time-point.

    Attributes:
        node: the part of the expression that does so.
        period: where it has values.
    """

    node: Expression
    period: Period


class Conflict(NamedTuple):
    """That an expression reads what does not exist at its time-points.

    Attributes:
        read: what does not exist there.
        period: the time-points of the expression; None if `other` is why they do not fit.
        other: what the expression reads at other time-points, or None.
    """

    read: Read
    period: Period | None
    other: Read | None = None


class TimePoints:
    """Finds the time-points of expressions.

    Args:
        streams: where each stream has values, by name: `ROWS` or the period of its ticks.
        definition: returns the expression of an atom or let; None for an atom of the log.
        time: the name of the time column, which has a value at every time-point.
    """

    def __init__(
        self,
        streams: Mapping[str, Period],
        definition: Callable[[str], Expression | None],
        time: str | None,
    ) -> None:
        self._streams = streams
        self._definition = definition
        self._time = time
        self._known: dict[str, list[Period]] = {}

    def reads(self, expression: Expression) -> list[Read]:
        """Find what an expression reads at its own time-point."""
        found: list[Read] = []
        stack = [expression]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen or node.operator in MEMORY:
                continue
            seen.add(id(node))
            if node.operator is ops.OVER:
                stack += reversed(node.operands[1:])
                continue
            if node.operator is ops.STREAM:
                found.append(Read(node, self._streams.get(node.name, ROWS)))
            elif node.operator is ops.ATOM or node.operator is ops.LET:
                found += [Read(node, period) for period in self._periods_of(node)]
            elif node.operator is ops.COLUMN and node.name != self._time:
                found.append(Read(node, ROWS))
            stack += reversed(node.operands)
        return found

    def argument_period(self, node: Expression) -> tuple[Period, Conflict | None]:
        """Find where the argument of an aggregate or offset has values.

        Returns:
            The time-points, and a conflict if the argument mixes some that do not meet.
        """
        return self.common_period(node.operands)

    def common_period(self, expressions: Iterable[Expression]) -> tuple[Period, Conflict | None]:
        """Find where some expressions all have values; see `argument_period`."""
        reads = [read for one in expressions for read in self.reads(one)]
        if not reads:
            return ROWS, None
        coarsest = reads[0]
        for read in reads[1:]:
            if exists_at(coarsest.period, read.period):
                coarsest = read
        for read in reads:
            if not exists_at(read.period, coarsest.period):
                return coarsest.period, Conflict(read, None, coarsest)
        return coarsest.period, None

    def conflict(self, expression: Expression, period: Period) -> Conflict | None:
        """Find what an expression, also inside of its aggregates, reads where it does not exist.

        Args:
            expression: the expression.
            period: where it is evaluated.
        """
        for read in self.reads(expression):
            if not exists_at(read.period, period):
                return Conflict(read, period)
        stack = [expression]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.operator in MEMORY:
                found = self.argument_period(node)[1]
                if found is not None:
                    return found
            stack += reversed(node.operands)
        return None

    def _periods_of(self, node: Expression) -> list[Period]:
        """Where an atom or let reads something."""
        name = node.name
        if name not in self._known:
            self._known[name] = [ROWS]
            definition = self._definition(name)
            if definition is not None and not (
                node.operator is ops.LET and _has_memory(definition)
            ):
                reads = self.reads(definition)
                self._known[name] = list(dict.fromkeys(read.period for read in reads))
        return self._known[name]


def _has_memory(expression: Expression) -> bool:
    """Whether a let has operators of the past, which go from row to row."""
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.operator in MEMORY:
            return True
        stack += node.operands
    return False


def exists_at(period: Period, others: Period) -> bool:
    """Whether something has values at all time-points of another kind."""
    kinds = {type(period), type(others)}
    if ROWS in (period, others) or not kinds.isdisjoint((Changes, FromBeginning)):
        return period == others
    if isinstance(period, Duration) and isinstance(others, Duration):
        return others.nanoseconds % period.nanoseconds == 0
    if isinstance(period, int) and isinstance(others, int):
        return period == others if max(period, others) >= CHANGES else others % period == 0
    # one of them is in the unit of the time-stamps, which is not known yet
    return True


def period_in_units(period: int | Duration | FromBeginning, unit: str | None) -> int:
    """Return a period as a number of units of the time-stamps; see `BEGINNINGS` for its ticks.

    Raises:
        FormulaError: the unit is not known, or the period is not a whole number of units.
    """
    if isinstance(period, FromBeginning):
        return BEGINNINGS + period_in_units(period.length, unit)
    if not isinstance(period, Duration):
        return period
    interval = DurationInterval(period, period)
    return interval.lower if unit is None else interval.in_unit(unit, "every").lower


def when_in_units(period: Period | Waiting, unit: str | None) -> When:
    """Return the time-points of a policy, with a period as a number of units.

    Raises:
        FormulaError: as for `period_in_units`.
    """
    return period if isinstance(period, Waiting | Changes) else period_in_units(period, unit)


def words_of(period: Period, unit: str | None) -> str:
    """Say in words where something has values."""
    if isinstance(period, Changes):
        return f"on {period}"
    if isinstance(period, int) and period >= BEGINNINGS:
        period = FromBeginning(period - BEGINNINGS)
    if isinstance(period, FromBeginning):
        return period.in_words(unit)
    return "of rows" if period == ROWS else f"every {period_text(period, unit)}"


def explained(conflict: Conflict, what: str, unit: str | None) -> tuple[str, str]:
    """Return the message and the hint of a conflict.

    Args:
        conflict: the conflict.
        what: what the expression belongs to, as in "stream x".
        unit: the unit of time-stamps, or None if it is not known.
    """
    read, period, other = conflict
    shown = str(read.node)
    if other is not None:
        message = (
            f"an argument mixes time-points: {shown} is {words_of(read.period, unit)}, "
            f"{other.node} is {words_of(other.period, unit)}"
        )
        return message, f"write {shown}.hold() or {other.node}.hold()"
    assert period is not None
    where = "is evaluated at rows" if period == ROWS else f"is {words_of(period, unit)}"
    message = f"{what} {where}, but {shown} is {words_of(read.period, unit)}"
    if read.period == ROWS and read.node.operator in {ops.ATOM, ops.LET}:
        return message, f"aggregate {shown}, as in any[0,1m]({shown}), or use {shown}.hold()"
    return message, f"aggregate {shown}, or use {shown}.hold()"
