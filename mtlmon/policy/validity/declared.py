"""What `relation NAME = ...` declares: a source of records, and steps that change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.printer import column_text, constant_text, to_text
from mtlmon.policy.predicates.resolving import Shape
from mtlmon.syntax.durations import period_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.own_aggregates import OwnAggregate
    from mtlmon.syntax.durations import Duration

__all__ = [
    "AGGREGATES",
    "COMBINATIONS",
    "Aggregate",
    "At",
    "Coalesce",
    "Combine",
    "DeclaredRelation",
    "Distinct",
    "Every",
    "Group",
    "Named",
    "Rows",
    "Select",
    "Shift",
    "Source",
    "Split",
    "Step",
    "TableOf",
    "ValidFor",
    "ValidLast",
    "ValidTo",
    "ValidUntil",
    "ValidUntilNext",
    "Where",
    "reads_rows",
    "shape_of",
    "shift_text",
]

AGGREGATES = (*(one for one in ops.AGGREGATES if ops.AGGREGATES[one] not in ops.OF_STEPS),)
"""The aggregates of groups: those of windows that only look at values, and not at times."""

COMBINATIONS = (*("join", "semijoin", "union", "unionmax", "minus", "minus all", "intersect"),)
"""The steps that take another relation."""


class Rows(NamedTuple):
    """The rows of the log, each valid at its time-stamp alone."""

    def text(self, _unit: str | None) -> str:
        return "rows"


class TableOf(NamedTuple):
    """The rows of a table beside the log.

    Attributes:
        path: the table, or the name by which it is given beside the log.
        start: the column of times at which records begin to be valid; None for the time of rows.
        end: the column of times at which they cease to be, which is null if they never do; None for
            rows that are valid at their time alone.
        key: the columns whose values tell the records apart that are valid at one time; () if
            nothing is said about that.
        place: the position of the path in the text.
        is_named: whether it is given beside the log.
    """

    path: str
    start: str | None
    end: str | None
    key: tuple[str, ...]
    place: int
    is_named: bool = False

    @property
    def shown(self) -> str:
        """The table as commands have it: its path, or its name before the sign."""
        return f"{self.path}=" if self.is_named else self.path

    def text(self, _unit: str | None) -> str:
        table = column_text(self.path) if self.is_named else constant_text(self.path)
        if self.end is None:
            time = "" if self.start is None else f" time {column_text(self.start)}"
            return f"rows of {table}{time}"
        assert self.start is not None
        columns = f"[{column_text(self.start)}, {column_text(self.end)})"
        key = f" key {_columns(self.key)}" if self.key else ""
        return f"table {table} valid {columns}{key}"


class Named(NamedTuple):
    """The records of another relation.

    Attributes:
        name: its name.
        place: the position of the name in the text.
        change: "inserts" or "deletes", if these are meant: those that begin, or have ended.
    """

    name: str
    place: int
    change: str = ""

    def text(self, _unit: str | None) -> str:
        return f"{self.change} of {column_text(self.name)}".removeprefix(" of ")


class ValidFor(NamedTuple):
    """`valid 15m`: records are valid for so long from their start; None is `valid for ever`."""

    length: int | Duration | None
    place: int

    def text(self, unit: str | None) -> str:
        return f"valid {'for ever' if self.length is None else period_text(self.length, unit)}"


class ValidTo(NamedTuple):
    """`valid [ts, expires)`: records are valid from their time to one that they have themselves.

    Attributes:
        start: the column of times.
        end: the column of ends.
        place: the position of the step in the text.
    """

    start: str
    end: Expression
    place: int

    def text(self, unit: str | None) -> str:
        return f"valid [{column_text(self.start)}, {to_text(self.end, unit)})"


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


class ValidLast(NamedTuple):
    """`valid last 100 rows per id`: until so many later records have begun."""

    rows: int
    per: tuple[str, ...]
    place: int

    def text(self, _unit: str | None) -> str:
        return f"valid last {self.rows} rows{_per(self.per)}"


class Every(NamedTuple):
    """`every 5m`: what is valid at a multiple of a length, up to the next one."""

    length: int | Duration
    place: int

    def text(self, unit: str | None) -> str:
        return f"every {period_text(self.length, unit)}"


class Shift(NamedTuple):
    """`shift 5m`, `shift start -5m`, `shift end 5m`: records begin or end later, or earlier.

    Attributes:
        word: "start" or "end" if only these are shifted; otherwise "".
        length: how much.
        is_negative: whether it is earlier.
        place: the position of the step in the text.
    """

    word: str
    length: int | Duration
    is_negative: bool
    place: int

    def text(self, unit: str | None) -> str:
        words = ["shift", *([self.word] if self.word else [])]
        return f"{' '.join(words)} {'-' * self.is_negative}{period_text(self.length, unit)}"


class At(NamedTuple):
    """`at "2024-05-31"`: the records that are valid at a time.

    Attributes:
        time: a text, or a number in the unit of the time-stamps.
        place: the position of the time in the text.
    """

    time: Constant
    place: int

    def text(self, _unit: str | None) -> str:
        return f"at {constant_text(self.time)}"


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
        word: one of `AGGREGATES`, or the name of `own`.
        argument: what it is of; None for the number of records.
        name: the column that gets it.
        place: the position of the word in the text.
        share: of a quantile.
        own: the aggregate, if a program defines it.
    """

    word: str
    argument: Expression | None
    name: str
    place: int
    share: Constant = None
    own: OwnAggregate | None = None

    def text(self, unit: str | None) -> str:
        argument = "" if self.argument is None else to_text(self.argument, unit)
        share = "" if self.share is None else f", {constant_text(self.share)}"
        return f"{self.word}({argument}{share})"


class Group(NamedTuple):
    """`group station select avg(speed) as v`: a record for each group, with aggregates.

    Attributes:
        keys: the columns of the result whose values tell groups apart.
        aggregates: its other columns; () if there are none.
        place: the position of the step in the text.
        computed: by the names of keys, those that are values of expressions: `hour(ts) as hour`.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    place: int
    computed: tuple[tuple[str, Expression], ...] = ()

    def text(self, unit: str | None) -> str:
        values = dict(self.computed)
        keys = ", ".join(
            f"{to_text(values[name], unit)} as {column_text(name)}"
            if name in values
            else column_text(name)
            for name in self.keys
        )
        selected = _selected((one.text(unit), one.name) for one in self.aggregates)
        return " ".join(["group", *([keys] if keys else []), *_select(selected)])


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
    """`distinct`: at each time, every record once; `distinct on id`: the latest one for each id.

    Attributes:
        place: the position of the step in the text.
        on: the columns behind `on`; None without it.
    """

    place: int
    on: tuple[str, ...] | None = None

    def text(self, _unit: str | None) -> str:
        return "distinct" if self.on is None else f"distinct on {_columns(self.on) or 'none'}"


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
    | ValidTo
    | ValidUntilNext
    | ValidUntil
    | ValidLast
    | Every
    | Shift
    | At
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


def shape_of(relations: Mapping[str, DeclaredRelation], name: str) -> Shape:
    """Return what a file says of the columns of a relation, and of its key.

    The key is that of the table, or the columns of the last `group`, as far as `select` keeps them;
    what is united with other relations, or joined, has the key of the relation that comes first.

    Args:
        relations: the relations of the file by name; those that are not valid may be missing.
        name: the name of the relation.
    """
    found = Shape()
    # from the relation to what it is made of
    path: list[DeclaredRelation] = []
    while name in relations and relations[name] not in path:
        path.append(relations[name])
        source = path[-1].source
        if not isinstance(source, Named):
            found = Shape(None, (source.key or None) if isinstance(source, TableOf) else None)
            break
        name = source.name
    for relation in reversed(path):
        for step in relation.steps:
            found = _after(step, found)
    return found


def reads_rows(relations: Mapping[str, DeclaredRelation], name: str) -> bool:
    """Whether a relation is made of rows of the log, itself or by way of others."""
    return any(isinstance(one.source, Rows) for one in parts_of(relations, name))


def parts_of(relations: Mapping[str, DeclaredRelation], name: str) -> Iterator[DeclaredRelation]:
    """Yield a relation and all others that it is made of, each once."""
    seen: set[str] = set()
    stack = [name]
    while stack:
        one = stack.pop()
        if one in seen or one not in relations:
            continue
        seen.add(one)
        yield relations[one]
        stack += [other for other, _ in relations[one].others]


def _after(step: Step, before: Shape) -> Shape:
    """What is known of the columns behind a step."""
    if isinstance(step, Group):
        return Shape((*step.keys, *(one.name for one in step.aggregates)), step.keys)
    if isinstance(step, Select):
        names = tuple(name for name, _ in step.columns)
        renamed = {
            one.name: name for name, one in reversed(step.columns) if one.operator is ops.COLUMN
        }
        keys = before.keys
        if keys is not None:
            is_kept = all(key in renamed for key in keys)
            keys = tuple(renamed[key] for key in keys) if is_kept else None
        return Shape(names, keys)
    if isinstance(step, Combine) and step.word == "join":
        return Shape(None, before.keys)
    if isinstance(step, Distinct) and step.on is not None:
        return Shape(before.columns, step.on)
    return before


def shift_text(start: int, end: int, unit: str | None) -> str:
    """Write the step that shifts starts and ends by some numbers of units."""
    word = "" if start == end else "start" if start else "end"
    length = start or end
    return Shift(word, abs(length), length < 0, 0).text(unit)


def _columns(names: Iterable[str]) -> str:
    return ", ".join(map(column_text, names))


def _select(values: str) -> list[str]:
    return ["select", values] if values else []


def _per(names: tuple[str, ...]) -> str:
    return f" per {_columns(names)}" if names else ""


def _selected(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{written} as {column_text(name)}" for written, name in columns)
