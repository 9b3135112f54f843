"""Hypothesis strategies: policy files of relations, with what they mean and how Python builds them.

The plans are made here by hand, step by step, so that those of texts are compared with others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from mtlmon.relations import Aggregate, Relation
from tests.doors import ComputedColumn, Expression, predicates_operators
from tests.doors import relations_algebra as a
from tests.doors import validity_building as building
from tests.relations.programs import predicate, records

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.policy import Predicate

    Draw = Callable[[st.SearchStrategy[Any]], Any]
    Row = tuple[Any, ...]

ROWS = "rows"
START, END = "\0start()", "\0end()"
TABLE = "limits.parquet"
TYPES = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_()}
LOG = {"ts": "int", "k": "int", "v": "int", "x": "float", "t": "text", "p": "bool"}
# the columns of the table besides "begins"; one of the first two is the end of records
LIMITS = {"ends": "int", "later": "int", "k": "int", "most": "int", "t": "text"}
ENDS = ("ends", "later")
_NAMES = ("k", "v", "x", "t", "p", "m", "n")
_MOST_COLUMNS = 12

_CELLS = {
    "int": st.sampled_from([0, 1, 1, 2, None]),
    "float": st.sampled_from([0.0, -0.0, 0.5, -1.25, None, float("nan"), float("inf")]),
    "text": st.sampled_from(["a", "b", "", None]),
    "bool": st.booleans(),
}
_CONDITIONS = {
    "int": ("{} > 0", "{} = 1", "{} is null", "{} + 1 < 3", "{} in (0, 2)"),
    "float": ("{} < 0.75", "{} >= 0.0", "{} is not null", "{} * 2.0 = 1.0"),
    "text": ('{} = "a"', '{} != "b"', "{} is null"),
    "bool": ("{}", "not {}"),
}


class Column(NamedTuple):
    """A column of a relation."""

    name: str
    type: str


@dataclass(frozen=True)
class Declared:
    """A relation as a file declares it, what it means, and the same built in Python."""

    name: str
    text: str
    node: a.Node
    columns: tuple[Column, ...]
    built: Relation

    @property
    def line(self) -> str:
        """Its declaration."""
        return f"relation {self.name} = {self.text}"

    def of_types(self) -> tuple[str, ...]:
        """The types of its columns."""
        return tuple(column.type for column in self.columns)


def rows_of_log() -> st.SearchStrategy[list[Row]]:
    """Rows in order of time, with the columns of `LOG`."""
    cells = (_CELLS[kind] for name, kind in LOG.items() if name != "ts")
    rows = st.lists(st.tuples(st.integers(0, 10), *cells), max_size=7)
    return rows.map(lambda found: sorted(found, key=lambda row: row[0]))


def records_of_limits() -> st.SearchStrategy[list[Row]]:
    """Records: the start, and the columns of `LIMITS`."""
    cells = (_CELLS[kind] for name, kind in LIMITS.items() if name not in ENDS)
    lengths = st.sampled_from([1, 2, 5, 9, None])
    record = st.tuples(st.integers(0, 8), lengths, lengths, *cells)
    return st.lists(record, max_size=5).map(
        lambda found: [
            (start, *(None if one is None else start + one for one in some), *row)
            for start, *some, row in ((one[0], one[1], one[2], one[3:]) for one in found)
        ]
    )


def source_name(end: str, known: list[Declared]) -> str:
    """What plans call the table: a file may read it with other ends first."""
    for one in known:
        if one.text.startswith("table"):
            is_first = f"[begins, {end})" in one.text
            return TABLE if is_first else f"{TABLE} [begins, {end})"
    return TABLE


@st.composite
def files(draw: Draw) -> list[Declared]:
    """Declarations of a few relations, of which later ones may mention earlier ones."""
    known: list[Declared] = []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        one = _source(draw, name, known)
        for _ in range(draw(st.integers(0, 3))):
            one = draw(st.sampled_from(_STEPS))(draw, one, known)
        known.append(one)
    return known


def _source(draw: Draw, name: str, known: list[Declared]) -> Declared:
    kind = draw(st.sampled_from([ROWS, ROWS, "table", *(["name"] if known else [])]))
    if kind == "table":
        end = draw(st.sampled_from(ENDS))
        columns = tuple(Column(*one) for one in LIMITS.items() if one[0] != end)
        key = draw(st.sampled_from(["", "", " key k", " key k, t"]))
        keys = key.removeprefix(" key ").split(", ") if key else ()
        return Declared(
            name,
            f'table "{TABLE}" valid [begins, {end}){key}',
            a.Source(source_name(end, known)),
            columns,
            building.table(TABLE, "begins", end, keys),
        )
    if kind == "name":
        of = draw(st.sampled_from(known))
        named = of.built.named(of.name)
        if (change := draw(st.sampled_from(["", "", "inserts", "deletes"]))) == "":
            built = Relation(of.name, (*of.built._others, named))
            return Declared(name, of.name, of.node, of.columns, built)
        node = a.Inserts(of.node) if change == "inserts" else a.Deletes(of.node)
        built = named.inserts() if change == "inserts" else named.deletes()
        return Declared(name, f"{change} of {of.name}", node, of.columns, built)
    columns = tuple(Column(*one) for one in LOG.items())
    return Declared(name, ROWS, a.Source(ROWS), columns, building.rows())


def _with(
    of: Declared,
    step: str,
    node: a.Node,
    built: Relation,
    columns: tuple[Column, ...] | None = None,
) -> Declared:
    return Declared(of.name, f"{of.text} {step}", node, columns or of.columns, built)


def condition(draw: Draw, columns: tuple[Column, ...]) -> str:
    """A condition on some columns."""
    found = ""
    for _ in range(draw(st.integers(1, 2))):
        column = draw(st.sampled_from(columns))
        one = draw(st.sampled_from(_CONDITIONS[column.type])).format(column.name)
        found = f"{found} {draw(st.sampled_from(['and', 'or']))} {one}" if found else one
    return found


def _where(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    text = condition(draw, of.columns)
    return _with(of, f"where {text}", a.Where(of.node, predicate(text)), of.built.where(text))


def _valid(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    length = draw(st.integers(1, 6))
    if draw(st.booleans()):
        node: a.Node = a.ValidFor(of.node, length)
        return _with(of, f"valid {length}", node, of.built.valid(length))
    if draw(st.booleans()):
        node = a.ValidUntilNext(of.node, length)
        return _with(of, f"valid until next {length}", node, of.built.valid(until_next=length))
    if draw(st.booleans()):
        of_times = [column.name for column in of.columns if column.type == "int"]
        if not of_times or draw(st.booleans()):
            step = "valid for ever"
            return _with(of, step, a.ValidFor(of.node, None), of.built.valid(for_ever=True))
        end = draw(st.sampled_from(of_times))
        step = f"valid [ts, {end})"
        return _with(
            of, step, a.ValidTo(of.node, predicate(end)), of.built.valid(interval=("ts", end))
        )
    text = condition(draw, of.columns)
    per = draw(st.lists(st.sampled_from(of.columns), max_size=2, unique=True))
    names = tuple(column.name for column in per)
    step = f"valid until {text}{' per ' if names else ''}{', '.join(names)}"
    node = a.ValidUntil(of.node, predicate(text), names)
    return _with(of, step, node, of.built.valid(until=text, per=names))


def _last(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    count = draw(st.integers(1, 3))
    per = draw(st.lists(st.sampled_from(of.columns), max_size=2, unique=True))
    names = tuple(column.name for column in per)
    step = f"valid last {count} rows{' per ' if names else ''}{', '.join(names)}"
    node = a.ValidLast(of.node, count, names)
    return _with(of, step, node, of.built.valid(last=count, per=names))


def _moved(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    """What has other starts or ends, or is looked at in between."""
    length = draw(st.integers(1, 5))
    word = draw(st.sampled_from(["every", "at", "shift", "shift start", "shift end"]))
    if word == "at":
        return _with(of, f"at {length}", a.At(of.node, length), of.built.at(length))
    if word == "every":
        node: a.Node = a.Every(records(of.node), length)
        return _with(of, f"every {length}", node, of.built.every(length))
    length *= draw(st.sampled_from([1, 1, -1]))
    which = word.removeprefix("shift").strip()
    by = (0 if which == "end" else length, 0 if which == "start" else length)
    built = of.built.shift(**{which or "length": length})
    return _with(of, f"{word} {length}", a.Shift(records(of.node), *by), built)


def _latest(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    on = draw(st.lists(st.sampled_from(of.columns), max_size=2, unique=True))
    names = tuple(column.name for column in on)
    node = a.DistinctOn(a.Timed(records(of.node), START), names, START)
    return _with(of, f"distinct on {', '.join(names) or 'none'}", node, of.built.distinct(on=names))


def of_times(text: str) -> Predicate:
    """An expression in which the times of records are columns."""

    def changed(node: Expression) -> Expression:
        if node.operator.word in {"start", "end"}:
            name = START if node.operator.word == "start" else END
            return Expression(predicates_operators.COLUMN, (), ComputedColumn(name, node))
        return Expression(node.operator, tuple(map(changed, node.operands)), node.value)

    found = predicate(text)
    return found.with_expression(changed(found.expression))


def _timed(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    """Starts and ends of records in conditions and columns."""
    if draw(st.booleans()):
        text, start, end = draw(
            st.sampled_from(
                [
                    ("end() - start() > 3", START, END),
                    ("start() < 5", START, None),
                    ("end() is null", None, END),
                ]
            )
        )
        timed = a.Where(a.Timed(records(of.node), start, end), of_times(text))
        kept = tuple((one.name, predicate(one.name)) for one in of.columns)
        return _with(of, f"where {text}", a.Select(timed, kept), of.built.where(text))
    column = draw(st.sampled_from(of.columns))
    values = ((column.name, predicate(column.name)), ("s", of_times("start() + 1")))
    if column.name == "s":
        return of
    node = a.Select(a.Timed(records(of.node), START), values)
    built = of.built.select(column.name, s="start() + 1")
    step = f"select {column.name} as {column.name}, start() + 1 as s"
    return _with(of, step, node, built, (column, Column("s", "int")))


def _select(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    columns, values = [], []
    for name in names:
        column = draw(st.sampled_from(of.columns))
        choices = [(column.name, column.type), (condition(draw, of.columns), "bool"), ("1", "int")]
        if column.type == "int":
            choices += [(f"{column.name} + 1", "int"), (f"{column.name} * 0.5", "float")]
        text, kind = draw(st.sampled_from(choices))
        columns.append(Column(name, kind))
        values.append((name, text))
    step = "select " + ", ".join(f"{text} as {name}" for name, text in values)
    node = a.Select(of.node, tuple((name, predicate(text)) for name, text in values))
    return _with(of, step, node, of.built.select(**dict(values)), tuple(columns))


def _group(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    keys = draw(st.lists(st.sampled_from(of.columns), max_size=2, unique=True))
    columns, aggregates, texts, built = list(keys), [], [], {}
    of_records = of.node
    for name in ("s", "w")[: draw(st.integers(0 if keys else 1, 2))]:
        column = draw(st.sampled_from(of.columns))
        choices = [("count", "", "int"), ("count", condition(draw, of.columns), "int")]
        choices += [(word, column.name, column.type) for word in ("first", "last")]
        choices += [("distinct", column.name, "int")]
        choices += [(word, condition(draw, of.columns), "bool") for word in ("any", "all")]
        if column.type != "bool":
            choices += [(word, column.name, column.type) for word in ("min", "max")]
        if column.type in {"int", "float"}:
            choices += [("sum", column.name, column.type)]
            words = ("avg", "var", "stddev", "median", "quantile", "mad")
            choices += [(word, column.name, "float") for word in words]
        word, text, kind = draw(st.sampled_from(choices))
        columns.append(Column(name, kind))
        share = 0.25 if word == "quantile" else None
        order = START if word in {"first", "last"} else ""
        if order:
            of_records = a.Timed(records(of.node), START)
        argument = predicate(text) if text else None
        aggregates.append(a.Aggregation(name, word, argument, share, None, order))
        built[name] = Aggregate(word, text or None, share)
        texts.append(f"{built[name]} as {name}")
    names = tuple(column.name for column in keys)
    if len({column.name for column in columns}) < len(columns):
        return of
    parts = ["group", ", ".join(names), f"select {', '.join(texts)}" if texts else ""]
    step = " ".join(part for part in parts if part)
    node: a.Node = a.Group(of_records, names, tuple(aggregates))
    return _with(of, step, node, of.built.group(*names, **built), tuple(columns))


def _computed(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    """Expressions of aggregates."""
    numbers = [one for one in of.columns if one.type in {"int", "float"}]
    key = draw(st.sampled_from(of.columns))
    if not numbers or key.name == "r":
        return of
    name = draw(st.sampled_from(numbers)).name
    asked = (("max", name), ("min", name), ("count", None))
    aggregates = tuple(
        a.Aggregation(f"{word}({text or ''})", word, None if text is None else predicate(text))
        for word, text in asked
    )
    value = f"(max({name}) - min({name})) * 0.5 + count()"
    own = f"(`max({name})` - `min({name})`) * 0.5 + `count()`"
    group = a.Group(of.node, (key.name,), aggregates)
    node = a.Select(group, ((key.name, predicate(key.name)), ("r", predicate(own))))
    step = f"group {key.name} select {value} as r"
    built = of.built.group(key.name, r=value)
    return _with(of, step, node, built, (key, Column("r", "float")))


def _joined(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    """A join or semijoin."""
    others = [one for one in known if len(one.columns) + len(of.columns) <= _MOST_COLUMNS]
    if not others:
        return of
    other = draw(st.sampled_from(others))
    taken = [column.name for column in of.columns]
    own = [column.name for column in other.columns]
    renamed: list[Column] = []
    for column in other.columns:
        name = column.name
        while (
            name in taken
            or name in (one.name for one in renamed)
            or (name != column.name and name in own)
        ):
            name = f"{other.name}_{name}"
        renamed.append(Column(name, column.type))
    both = (*of.columns, *renamed)
    text = condition(draw, both)
    pairs = [
        (left, right) for left in of.columns for right in renamed if left.type == right.type != ""
    ]
    if pairs and draw(st.booleans()):
        left, right = draw(st.sampled_from(pairs))
        sign = draw(st.sampled_from(["=", "=", "=", "!="]))
        text = f"{left.name} {sign} {right.name} and ({text})"
    names = tuple(column.name for column in renamed)
    if draw(st.booleans()):
        node: a.Node = a.Join(of.node, other.node, predicate(text), names)
        built = of.built.join(other.built.named(other.name), text)
        return _with(of, f"join {other.name} on {text}", node, built, both)
    node = a.Semijoin(of.node, other.node, predicate(text), names)
    built = of.built.semijoin(other.built.named(other.name), text)
    return _with(of, f"semijoin {other.name} on {text}", node, built)


_BAGS: dict[str, tuple[Callable[[a.Node, a.Node], a.Node], Callable[..., Relation]]] = {
    "union": (a.Union, Relation.union),
    "unionmax": (a.UnionMax, Relation.union_max),
    "minus": (a.Minus, Relation.minus),
    "minus all": (a.MinusAll, lambda one, other: one.minus(other, all=True)),
    "intersect": (a.Intersect, Relation.intersect),
}


def _combined(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    others = [one for one in known if one.of_types() == of.of_types()]
    if not others:
        return of
    other = draw(st.sampled_from(others))
    word = draw(st.sampled_from(list(_BAGS)))
    kind, build = _BAGS[word]
    built = build(of.built, other.built.named(other.name))
    return _with(of, f"{word} {other.name}", kind(of.node, other.node), built)


def _cut(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    """What is cut must have an end."""
    length = draw(st.integers(1, 4))
    first, valid = f"valid {2 * length}", a.ValidFor(of.node, 2 * length)
    built = of.built.valid(2 * length)
    if draw(st.booleans()):
        return _with(of, f"{first} split {length}", a.Split(valid, length), built.split(length))
    node = a.Coalesce(valid, length)
    return _with(of, f"{first} coalesce max {length}", node, built.coalesce(length))


def _alone(draw: Draw, of: Declared, known: list[Declared]) -> Declared:
    if draw(st.booleans()):
        return _with(of, "distinct", a.Distinct(of.node), of.built.distinct())
    return _with(of, "coalesce", a.Coalesce(of.node), of.built.coalesce())


_STEPS = (
    *(_where, _valid, _valid, _select, _group, _group, _joined, _joined, _combined, _cut, _alone),
    *(_last, _moved, _latest, _timed, _computed),
)
