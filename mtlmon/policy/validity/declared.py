"""What `relation NAME = ...` declares: a source of records, and steps that change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mtlmon.policy.predicates.printer import column_text, constant_text, to_text
from mtlmon.syntax.durations import period_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.syntax.durations import Duration

__all__ = [
    "AGGREGATES",
    "COMBINATIONS",
    "Aggregate",
    "Coalesce",
    "Combine",
    "DeclaredRelation",
    "Distinct",
    "Group",
    "Named",
    "Rows",
    "Select",
    "Source",
    "Split",
    "Step",
    "TableOf",
    "ValidFor",
    "ValidUntil",
    "ValidUntilNext",
    "Where",
]

AGGREGATES = ("count", "sum", "avg", "min", "max")
"""The aggregates of groups."""

COMBINATIONS = (*("join", "semijoin", "union", "unionmax", "minus", "minus all", "intersect"),)
"""The steps that take another relation."""


class Rows(NamedTuple):
    """The rows of the log, each valid at its time-stamp alone."""

    def text(self, _unit: str | None) -> str:
        return "rows"


class TableOf(NamedTuple):
    """The rows of a table, which has the intervals in two columns.

    Attributes:
        path: the table.
        start: the column of times at which records begin to be valid.
        end: the column of times at which they cease to be; null if they never do.
        key: the columns whose values tell the records apart that are valid at one time; () if
            nothing is said about that.
        place: the position of the path in the text.
    """

    path: str
    start: str
    end: str
    key: tuple[str, ...]
    place: int

    def text(self, _unit: str | None) -> str:
        columns = f"[{column_text(self.start)}, {column_text(self.end)})"
        key = f" key {_columns(self.key)}" if self.key else ""
        return f"table {constant_text(self.path)} valid {columns}{key}"


class Named(NamedTuple):
    """The records of another relation."""

    name: str
    place: int

    def text(self, _unit: str | None) -> str:
        return column_text(self.name)


class ValidFor(NamedTuple):
    """`valid 15m`: records are valid for so long from their start."""

    length: int | Duration
    place: int

    def text(self, unit: str | None) -> str:
        return f"valid {period_text(self.length, unit)}"


class ValidUntilNext(NamedTuple):
    """`valid until next 1h`: until the next multiple of a length of time, as in fixed windows."""

    length: int | Duration
    place: int

    def text(self, unit: str | None) -> str:
        return f"valid until next {period_text(self.length, unit)}"


class ValidUntil(NamedTuple):
    """`valid until kind = "stop" per id`: until a later record for which a condition is true."""

    condition: Expression
    per: tuple[str, ...]
    place: int

    def text(self, unit: str | None) -> str:
        return f"valid until {to_text(self.condition, unit)}{_per(self.per)}"


class Where(NamedTuple):
    """`where x > 5`: the records for which a condition is true."""

    condition: Expression
    place: int

    def text(self, unit: str | None) -> str:
        return f"where {to_text(self.condition, unit)}"


class Select(NamedTuple):
    """`select a + b as c, d as d`: records with the values of expressions."""

    columns: tuple[tuple[str, Expression], ...]
    place: int

    def text(self, unit: str | None) -> str:
        return f"select {_selected((to_text(one, unit), name) for name, one in self.columns)}"


class Aggregate(NamedTuple):
    """An aggregate of a group.

    Attributes:
        word: one of `AGGREGATES`.
        argument: what it is of; None for the number of records.
        name: the column that gets it.
        place: the position of the word in the text.
    """

    word: str
    argument: Expression | None
    name: str
    place: int


class Group(NamedTuple):
    """`group station select avg(speed) as v`: a record for each group, with aggregates."""

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    place: int

    def text(self, unit: str | None) -> str:
        selected = _selected(
            (f"{one.word}({'' if one.argument is None else to_text(one.argument, unit)})", one.name)
            for one in self.aggregates
        )
        return f"group {_columns(self.keys)}{' ' if self.keys else ''}select {selected}"


class Combine(NamedTuple):
    """A step that takes another relation.

    Attributes:
        word: one of `COMBINATIONS`.
        relation: the name of the other relation.
        condition: what pairs of records must satisfy, for joins; otherwise None.
        place: the position of the other relation in the text.
    """

    word: str
    relation: str
    condition: Expression | None
    place: int

    def text(self, unit: str | None) -> str:
        on = "" if self.condition is None else f" on {to_text(self.condition, unit)}"
        return f"{self.word} {column_text(self.relation)}{on}"


class Distinct(NamedTuple):
    """`distinct`: at each time, every record once."""

    place: int

    def text(self, _unit: str | None) -> str:
        return "distinct"


class Coalesce(NamedTuple):
    """`coalesce max 1h`: equal records whose intervals meet become one, no longer than so long."""

    most: int | Duration | None
    place: int

    def text(self, unit: str | None) -> str:
        return "coalesce" if self.most is None else f"coalesce max {period_text(self.most, unit)}"


class Split(NamedTuple):
    """`split 1m`: records are cut after every so much time from their start."""

    length: int | Duration
    place: int

    def text(self, unit: str | None) -> str:
        return f"split {period_text(self.length, unit)}"


Source: TypeAlias = Rows | TableOf | Named
Step: TypeAlias = (
    ValidFor
    | ValidUntilNext
    | ValidUntil
    | Where
    | Select
    | Group
    | Combine
    | Distinct
    | Coalesce
    | Split
)


class DeclaredRelation(NamedTuple):
    """A relation of a policy file.

    Attributes:
        name: its name.
        source: where its records come from.
        steps: what changes them, in order.
        place: the position of its name in the text.
    """

    name: str
    source: Source
    steps: tuple[Step, ...]
    place: int

    @property
    def others(self) -> list[tuple[str, int]]:
        """The relations that it is made of, with their places in the text."""
        found = [(self.source.name, self.source.place)] if isinstance(self.source, Named) else []
        found += [(one.relation, one.place) for one in self.steps if isinstance(one, Combine)]
        return found

    def text(self, unit: str | None) -> str:
        """Write what it is, as behind the sign of its declaration."""
        return " ".join(one.text(unit) for one in (self.source, *self.steps))


def _columns(names: Iterable[str]) -> str:
    return ", ".join(map(column_text, names))


def _per(names: tuple[str, ...]) -> str:
    return f" per {_columns(names)}" if names else ""


def _selected(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{written} as {column_text(name)}" for written, name in columns)
