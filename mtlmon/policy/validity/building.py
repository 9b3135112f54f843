"""Builds relations in Python, step by step, as policy files write them.

>>> from mtlmon.policy.values import column
>>> recent = rows().valid("15m").group("station", v=avg("speed"))
>>> print(recent.where(column("v") < 15).select("station"))
rows valid 15m group station select avg(speed) as v where v < 15 select station as station
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtlmon.errors import MtlmonError
from mtlmon.policy import parse_policies
from mtlmon.policy.predicates.printer import column_text, constant_text
from mtlmon.policy.values import Value
from mtlmon.syntax import operators as formula_ops
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.build import apply
from mtlmon.syntax.conditions import written_with_conditions
from mtlmon.syntax.formula import TRUE, Formula

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import TypeAlias

    from mtlmon.policy import PolicyFile

    Columns: TypeAlias = str | Sequence[str]
    Condition: TypeAlias = Formula | Value | str
    Length: TypeAlias = int | str | timedelta

__all__ = [
    "Aggregate",
    "Relation",
    "all_",
    "any_",
    "avg",
    "count",
    "distinct",
    "first",
    "last",
    "mad",
    "max_",
    "median",
    "min_",
    "own",
    "quantile",
    "rows",
    "stddev",
    "sum_",
    "table",
    "var",
]


class Relation:
    """Records that are valid for some time, as `relation` declares them in policy files.

    Begin with `rows` or `table`; each method returns a relation with one more step. Relations are
    immutable, and equal if they are written alike. Expressions are texts as in policy files, or
    values and comparisons of `mtlmon.policy.values`; lengths of time are integers in the unit of
    the time-stamps, texts such as "15m", or of type `timedelta`.

    Args:
        text: the relation, as after `=` in its declaration.
        others: the relations with names that the text mentions.
        name: its own name, by which others can mention it.

    Raises:
        FormulaError: the text is not valid.
        MtlmonError: two of the relations have the same name.
    """

    __slots__ = ("_name", "_others", "_text")

    def __init__(self, text: str, others: Sequence[Relation] = (), name: str | None = None) -> None:
        self._name = name
        self._others = _distinct(others)
        self._text = text
        self._text = self.file(LATER).intervals[self.shown_name].text(None)

    @property
    def name(self) -> str | None:
        """The name that it has been given."""
        return self._name

    @property
    def shown_name(self) -> str:
        """The name in `declarations`: its own, or `result`."""
        name = self._name or "result"
        while self._name is None and any(one.name == name for one in self._others):
            name += "_"
        return name

    @property
    def declarations(self) -> str:
        """The lines of a policy file that declare it and the relations that it mentions."""
        declared = [(one.shown_name, one._text) for one in self._others]
        declared.append((self.shown_name, self._text))
        return "".join(f"relation {column_text(name)} = {text}\n" for name, text in declared)

    def file(self, unit: str | None = None) -> PolicyFile:
        """Return a policy file with its declarations.

        Args:
            unit: the unit of time-stamps, which lengths such as "15m" need.

        Raises:
            FormulaError: the declarations are not valid.
        """
        return parse_policies(self.declarations, "<relation>", unit=unit, needs_policy=False)

    def named(self, name: str) -> Relation:
        """Give it a name, by which `join` and others mention it."""
        return Relation(self._text, self._others, name)

    def valid(
        self,
        length: Length | None = None,
        *,
        until: Condition | None = None,
        per: Columns = (),
        until_next: Length | None = None,
        last: int | None = None,
        interval: tuple[str, str] | None = None,
        for_ever: bool = False,
    ) -> Relation:
        """Let records be valid for some time from their start.

        Args:
            length: how long: `valid 15m`.
            until: up to a later record for which a condition is true, or a column with the time of
                the end: `valid until CONDITION`, `valid until COLUMN`.
            per: columns in which that record, or those of `last`, have the same values.
            last: until so many later records have begun: `valid last 100 rows`.
            until_next: up to the next multiple of a length: `valid until next 1h`.
            interval: the columns with the time of the row and the end: `valid [ts, expires)`.
            for_ever: whether they have no end: `valid for ever`.

        Raises:
            MtlmonError: not exactly one of the six is given, or `per` without `until` or `last`.
        """
        given = sum(one is not None for one in (length, until, until_next, last, interval))
        if given + for_ever != 1:
            raise MtlmonError(
                "valid takes either a length, or until=, until_next=, last=, interval= or "
                "for_ever=True"
            )
        if per and until is None and last is None:
            raise MtlmonError("per= says which records end those of until= or last=: give one")
        if last is not None:
            by = _columns(per)
            return self._with(f"valid last {last} rows{' per ' if by else ''}{by}")
        if until is not None:
            by = _columns(per)
            return self._with(f"valid until {_text(until)}{' per ' if by else ''}{by}")
        if until_next is not None:
            return self._with(f"valid until next {_length(until_next)}")
        if interval is not None:
            start, end = map(column_text, interval)
            return self._with(f"valid [{start}, {end})")
        if for_ever:
            return self._with("valid for ever")
        assert length is not None
        return self._with(f"valid {_length(length)}")

    def where(self, condition: Condition) -> Relation:
        """Keep the records for which a condition is true."""
        return self._with(f"where {_text(condition)}")

    def select(self, *names: str, **values: Condition) -> Relation:
        """Return records with other columns.

        Args:
            names: columns to keep.
            values: expressions by the name of their column.
        """
        columns = [f"{column_text(name)} as {column_text(name)}" for name in names]
        columns += [f"{_text(value)} as {column_text(name)}" for name, value in values.items()]
        return self._with(f"select {', '.join(columns)}")

    def group(self, *keys: str, **aggregates: Aggregate | str) -> Relation:
        """Return a record for each group of records with equal values in some columns.

        Args:
            keys: the columns; without any, all records are one group.
            aggregates: what `avg`, `median` and the like of this module return, or texts as in
                policy files, as "max(speed) - min(speed)", by the name of their column.
        """
        selected = ", ".join(f"{one} as {column_text(name)}" for name, one in aggregates.items())
        words = ["group", _columns(keys), f"select {selected}" if selected or not keys else ""]
        return self._with(" ".join(word for word in words if word))

    def join(self, other: Relation, on: Condition) -> Relation:
        """Return pairs of records that are valid at the same time and meet a condition.

        A column of the other relation whose name is taken has the name of that relation before it,
        as in `limits_road`.
        """
        return self._combined("join", other, on)

    def semijoin(self, other: Relation, on: Condition) -> Relation:
        """Return the records while one of the other relation meets a condition with them."""
        return self._combined("semijoin", other, on)

    def union(self, other: Relation) -> Relation:
        """Return the records of both; columns are matched by their order."""
        return self._combined("union", other)

    def union_max(self, other: Relation) -> Relation:
        """Return each record as often as in the relation where it is more often: `unionmax`."""
        return self._combined("unionmax", other)

    def minus(self, other: Relation, *, all: bool = False) -> Relation:
        """Take away as many equal records as the other relation has.

        Args:
            other: the other relation.
            all: whether to take away all that occur there: `minus all`.
        """
        return self._combined("minus all" if all else "minus", other)

    def intersect(self, other: Relation) -> Relation:
        """Return each record as often as in the relation where it is less often."""
        return self._combined("intersect", other)

    def inserts(self) -> Relation:
        """Return what begins at each time: `inserts of NAME`; the relation needs a name."""
        return self._changes("inserts")

    def deletes(self) -> Relation:
        """Return what has ended at each time: `deletes of NAME`; the relation needs a name."""
        return self._changes("deletes")

    def _changes(self, word: str) -> Relation:
        if self.name is None:
            raise MtlmonError(f'{word} of a relation mention it: name it with .named("...")')
        return Relation(f"{word} of {column_text(self.name)}", (*self._others, self))

    def distinct(self, on: Columns | None = None) -> Relation:
        """Return each record once.

        Args:
            on: columns; of the records with equal values there, return the one that begins last.
        """
        if on is None:
            return self._with("distinct")
        return self._with(f"distinct on {_columns(on) or 'none'}")

    def every(self, length: Length) -> Relation:
        """Return what is valid at the multiples of a length, up to the next one."""
        return self._with(f"every {_length(length)}")

    def shift(
        self,
        length: Length | None = None,
        *,
        start: Length | None = None,
        end: Length | None = None,
    ) -> Relation:
        """Let records begin and end later, or earlier if that is negative.

        Args:
            length: how much later they begin and end.
            start: how much later they begin.
            end: how much later they end.

        Raises:
            MtlmonError: not exactly one of the three is given.
        """
        given = [("", length), ("start ", start), ("end ", end)]
        found = [f"{word}{_signed(by)}" for word, by in given if by is not None]
        if len(found) != 1:
            raise MtlmonError("shift takes either a length, or start=, or end=")
        return self._with(f"shift {found[0]}")

    def at(self, time: int | str) -> Relation:
        """Return the records that are valid at a time.

        Args:
            time: a text, as "2024-05-31T12:30:00Z", or a number in the unit of the time-stamps.
        """
        return self._with(f"at {constant_text(time)}")

    def coalesce(self, longest: Length | None = None) -> Relation:
        """Return as few records as possible, none of them longer than `longest`."""
        return self._with("coalesce" if longest is None else f"coalesce max {_length(longest)}")

    def split(self, length: Length) -> Relation:
        """Cut records into pieces of the given length, counted from their start."""
        return self._with(f"split {_length(length)}")

    def _with(self, step: str, *others: Relation) -> Relation:
        return Relation(f"{self._text} {step}", (*self._others, *others))

    def _combined(self, word: str, other: Relation, on: Condition | None = None) -> Relation:
        if other.name is None:
            raise MtlmonError(f'{word} mentions the other relation: name it with .named("...")')
        condition = "" if on is None else f" on {_text(on)}"
        step = f"{word} {column_text(other.name)}{condition}"
        return self._with(step, *other._others, other)

    def _parts(self) -> tuple[object, ...]:
        return self._text, self._others, self._name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relation) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<relation {self.shown_name} = {self._text}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Relation, self._parts()


class Aggregate:
    """An aggregate over the records of a group, for `Relation.group`."""

    __slots__ = ("_text",)

    def __init__(self, word: str, of: Condition | None = None, share: float | None = None) -> None:
        parameter = "" if share is None else f", {share}"
        self._text = f"{word}({'' if of is None else _text(of)}{parameter})"

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<aggregate {self._text}>"


def rows(of: str | None = None, *, time: str | None = None, is_named: bool = False) -> Relation:
    """Return the rows of the log, or of another table, each valid at its time-stamp alone.

    Args:
        of: the other table, in the working directory if the path is relative.
        time: its column of times; by default, it is found as that of the log.
        is_named: whether `of` is not a path, but a name by which `query` is given the table.
    """
    if of is None:
        return Relation("rows")
    behind = "" if time is None else f" time {column_text(time)}"
    return Relation(f"rows of {_table(of, is_named)}{behind}")


def table(
    path: str, start: str, end: str, key: Columns = (), *, is_named: bool = False
) -> Relation:
    """Return the records of a table.

    Args:
        path: the table, in the working directory if the path is relative.
        start: the column of times from which records are valid.
        end: the column of times from which they are not valid any more; null for no end.
        key: columns whose values tell records apart that are valid at one time.
        is_named: whether `path` is a name by which `query` is given the table.
    """
    columns = f"[{column_text(start)}, {column_text(end)})"
    by = _columns(key)
    shown = _table(path, is_named)
    return Relation(f"table {shown} valid {columns}{' key ' if by else ''}{by}")


def _table(path: str, is_named: bool) -> str:
    return column_text(path) if is_named else constant_text(path)


def count(condition: Condition | None = None) -> Aggregate:
    """Count the records, or those for which a condition is true."""
    return Aggregate("count", condition)


def sum_(of: Condition) -> Aggregate:
    """Add the values of a column or an expression."""
    return Aggregate("sum", of)


def avg(of: Condition) -> Aggregate:
    """Return the mean of the values of a column or an expression."""
    return Aggregate("avg", of)


def min_(of: Condition) -> Aggregate:
    """Return the least value of a column or an expression."""
    return Aggregate("min", of)


def max_(of: Condition) -> Aggregate:
    """Return the greatest value of a column or an expression."""
    return Aggregate("max", of)


def first(of: Condition) -> Aggregate:
    """Return the value of the record that began first."""
    return Aggregate("first", of)


def last(of: Condition) -> Aggregate:
    """Return the value of the record that began last."""
    return Aggregate("last", of)


def any_(condition: Condition) -> Aggregate:
    """Return whether a condition is true for any record."""
    return Aggregate("any", condition)


def all_(condition: Condition) -> Aggregate:
    """Return whether a condition is true for all records for which it is not null."""
    return Aggregate("all", condition)


def distinct(of: Condition) -> Aggregate:
    """Count the different values of a column or an expression."""
    return Aggregate("distinct", of)


def var(of: Condition) -> Aggregate:
    """Return the variance of a sample; null below two values."""
    return Aggregate("var", of)


def stddev(of: Condition) -> Aggregate:
    """Return the standard deviation of a sample; null below two values."""
    return Aggregate("stddev", of)


def median(of: Condition) -> Aggregate:
    """Return the median of the values of a column or an expression."""
    return Aggregate("median", of)


def quantile(of: Condition, share: float) -> Aggregate:
    """Return a quantile, interpolated linearly between the two nearest values.

    Args:
        of: a column or an expression.
        share: a number from 0 to 1.
    """
    return Aggregate("quantile", of, share)


def mad(of: Condition) -> Aggregate:
    """Return the median of the absolute deviations from the median."""
    return Aggregate("mad", of)


def own(name: str, of: Condition) -> Aggregate:
    """Return an aggregate that `mtlmon.streams.register_aggregate` has defined."""
    return Aggregate(name, of)


def _distinct(relations: Sequence[Relation]) -> tuple[Relation, ...]:
    found: dict[str | None, Relation] = {}
    for one in relations:
        if found.setdefault(one.name, one) != one:
            raise MtlmonError(f"two relations are called {one.name}: give one another name")
    return tuple(found.values())


def _columns(names: Columns) -> str:
    return ", ".join(map(column_text, [names] if isinstance(names, str) else names))


def _text(expression: Condition) -> str:
    if isinstance(expression, Formula):
        return written_with_conditions(expression) or str(expression)
    return str(expression)


def _signed(length: Length) -> str:
    """A length of time that may be negative."""
    if isinstance(length, str):
        text = length.strip()
        return f"-{_length(text[1:].strip())}" if text.startswith("-") else _length(text)
    is_negative = length < 0 if isinstance(length, int) else length.total_seconds() < 0
    return f"-{_length(-length)}" if is_negative else _length(length)


def _length(length: Length) -> str:
    interval = apply(formula_ops.ONCE, (TRUE,), length, length).interval
    return str(interval)[1:].partition(",")[0]
