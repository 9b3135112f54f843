"""The meaning of relations: bags at every instant, straight from the definitions.

Operators that only know snapshots are applied at each instant, and their records are put together
instant by instant. The others look at one record, or at a pair of them, at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import inf, isnan
from typing import Any

from tests.doors import relations_algebra as a
from tests.policy.evaluator import evaluate as value_of
from tests.reference.aggregates import fold

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """A record that is valid in [start, end); `end` is `inf` for no end."""

    start: int
    end: float
    row: Row


@dataclass(frozen=True)
class Relation:
    names: tuple[str, ...]
    records: tuple[Record, ...]

    def snapshot(self, time: int) -> Counter[Row]:
        """The bag of the records that are valid at a time."""
        return Counter(one.row for one in self.records if one.start <= time < one.end)


def change_times(of: Relation, keys: Sequence[str] = (), values: Row = ()) -> list[int]:
    """The times at which the bag of the records with some values is not as just before."""
    places = [of.names.index(name) for name in keys]
    kept = [one for one in of.records if tuple(one.row[place] for place in places) == values]
    part = Relation(of.names, tuple(kept))
    return [time for time in instants(part) if part.snapshot(time) != part.snapshot(time - 1)]


def relation(names: Sequence[str], records: Sequence[tuple[int, float, Row]]) -> Relation:
    found = (Record(start, end, tuple(map(plain, row))) for start, end, row in records)
    return Relation(tuple(names), tuple(one for one in found if one.start < one.end))


NAN = float("nan")


def plain(value: Any) -> Any:
    """One zero and one NaN, the same object, so that it is equal to itself within tuples."""
    if isinstance(value, float):
        return NAN if isnan(value) else value + 0.0
    return value


def instants(*relations: Relation) -> range:
    """All instants at which something is valid, and one more, which stands for all later ones."""
    times = [
        int(time)
        for one in relations
        for record in one.records
        for time in (record.start, record.end)
        if time != inf
    ]
    return range(min(times), max(times) + 2) if times else range(0)


def from_snapshots(names: Sequence[str], bags: Sequence[tuple[int, Counter[Row]]]) -> Relation:
    """The records of bags at consecutive instants; the last one is that of all later instants.

    Of equal records, the one that starts first ends first.
    """
    records: list[Record] = []
    for row in dict.fromkeys(row for _, bag in bags for row in bag):
        begun: list[int] = []
        for time, bag in bags:
            while len(begun) > bag[row]:
                records.append(Record(begun.pop(0), time, row))
            while len(begun) < bag[row]:
                begun.append(time)
        records += [Record(start, inf, row) for start in begun]
    return Relation(tuple(names), tuple(records))


def each_instant(
    names: Sequence[str],
    operator: Callable[..., Counter[Row]],
    *of: Relation,
) -> Relation:
    """Apply an operator on bags to every snapshot."""
    bags = [(time, operator(*(one.snapshot(time) for one in of))) for time in instants(*of)]
    return from_snapshots(names, bags)


def evaluate(node: a.Node, tables: Mapping[str, Relation], begun: float = inf) -> Relation:
    """The records of a relation; `begun` is as for `split`."""
    if isinstance(node, a.Source):
        return tables[node.name]
    of = [evaluate(operand, tables, begun) for operand in a.operands(node)]
    return apply(node, of, begun)


def apply(node: a.Node, of: Sequence[Relation], begun: float) -> Relation:
    names, records = of[0].names, of[0].records
    if isinstance(node, a.Where):
        kept = tuple(one for one in records if value(node.condition, names, one.row) is True)
        return Relation(names, kept)
    if isinstance(node, a.Select):
        rows = (
            Record(one.start, one.end, tuple(value(v, names, one.row) for _, v in node.values))
            for one in records
        )
        return Relation(tuple(name for name, _ in node.values), tuple(rows))
    if isinstance(node, a.ValidFor):
        return ending(of[0], lambda one: inf if node.length is None else one.start + node.length)
    if isinstance(node, a.ValidTo):
        ended = ending(of[0], lambda one: own_end(node, names, one))
        return Relation(names, tuple(one for one in ended.records if one.start < one.end))
    if isinstance(node, a.ValidUntilNext):
        return ending(
            of[0],
            lambda one: next(
                time
                for time in range(one.start + 1, one.start + node.length + 1)
                if time % node.length == 0
            ),
        )
    if isinstance(node, a.ValidUntil):
        return ending(of[0], lambda one: closing(node, of[0], one))
    if isinstance(node, a.ValidLast):
        return ending(of[0], lambda one: displaced(node, of[0], one))
    if isinstance(node, a.Every):
        return moved(of[0], lambda time: multiple(time, node.length))
    if isinstance(node, a.Shift):
        return shifted(of[0], node.start, node.end)
    if isinstance(node, a.Timed):
        return timed(node, of[0])
    if isinstance(node, a.Split):
        return split(of[0], node.length, begun)
    if isinstance(node, a.Union):
        return united(*of)
    if isinstance(node, a.Join):
        return joined(node, *of)
    if isinstance(node, a.Semijoin):
        return semijoined(node, *of)
    return of_snapshots(node, of, begun)


def own_end(node: a.ValidTo, names: Sequence[str], record: Record) -> float:
    """The end that a record has in a column."""
    found = value(node.end, names, record.row)
    return inf if found is None else found


def of_snapshots(node: a.Node, of: Sequence[Relation], begun: float) -> Relation:
    names = of[0].names
    if isinstance(node, a.Distinct):
        return each_instant(names, lambda bag: Counter(set(bag)), *of)
    if isinstance(node, a.DistinctOn):
        return each_instant(
            tuple(name for name in names if name != node.order),
            lambda bag: latest(node, names, bag),
            *of,
        )
    if isinstance(node, a.At):
        return from_snapshots(
            names, [(node.time, of[0].snapshot(node.time)), (node.time + 1, Counter())]
        )
    if isinstance(node, a.Inserts | a.Deletes):
        later = [(time, of[0].snapshot(time), of[0].snapshot(time - 1)) for time in instants(*of)]
        is_insert = isinstance(node, a.Inserts)
        bags = [(time, now - old if is_insert else old - now) for time, now, old in later]
        return from_snapshots(names, bags)
    if isinstance(node, a.Coalesce):
        found = each_instant(names, lambda bag: bag, *of)
        return found if node.longest is None else split(found, node.longest, begun)
    if isinstance(node, a.Minus):
        return each_instant(names, lambda left, right: left - right, *of)
    if isinstance(node, a.MinusAll):
        return each_instant(
            names,
            lambda left, right: Counter(
                {row: count for row, count in left.items() if row not in right}
            ),
            *of,
        )
    if isinstance(node, a.Intersect):
        return each_instant(names, lambda left, right: left & right, *of)
    if isinstance(node, a.UnionMax):
        return each_instant(names, lambda left, right: left | right, *of)
    assert isinstance(node, a.Group)
    results = (*node.keys, *(one.name for one in node.values))
    return each_instant(results, lambda bag: grouped(node, names, bag), *of)


def grouped(node: a.Group, names: Sequence[str], bag: Counter[Row]) -> Counter[Row]:
    groups: dict[Row, list[Row]] = {}
    for row in bag.elements():
        key = tuple(row[names.index(name)] for name in node.keys)
        groups.setdefault(key, []).append(row)
    return Counter(
        (*key, *(aggregated(one, names, rows) for one in node.values))
        for key, rows in groups.items()
    )


def aggregated(one: a.Aggregation, names: Sequence[str], rows: list[Row]) -> Any:
    if one.argument is None:
        return len(rows)
    found = [(row, value(one.argument, names, row)) for row in rows]
    known = [(row, cell) for row, cell in found if cell is not None]
    if one.order:
        place = names.index(one.order)
        known.sort(key=lambda pair: (pair[0][place], order((pair[1],))))
    values = [cell for _, cell in known]
    if one.own is None:
        return plain(fold(one.word, values, 0.5 if one.share is None else one.share))
    values = [cell for cell in values if not (isinstance(cell, float) and isnan(cell))]
    states = [one.own.lift(cell) for cell in values]
    return plain(one.own.lower(reduce(one.own.combine, states))) if states else None


def latest(node: a.DistinctOn, names: Sequence[str], bag: Counter[Row]) -> Counter[Row]:
    """For each key, the record with the last start; of several, the last in their order."""
    place = names.index(node.order)
    kept: dict[Row, tuple[int, Row]] = {}
    for row in bag:
        key = tuple(row[names.index(name)] for name in node.keys)
        one = row[place], row[:place] + row[place + 1 :]
        known = kept.get(key)
        if known is None or (one[0], order(one[1])) > (known[0], order(known[1])):
            kept[key] = one
    return Counter(row for _, row in kept.values())


def ending(one: Relation, end: Callable[[Record], float]) -> Relation:
    return Relation(
        one.names,
        tuple(Record(record.start, end(record), record.row) for record in one.records),
    )


def closing(node: a.ValidUntil, of: Relation, one: Record) -> float:
    key = [one.row[of.names.index(name)] for name in node.per]
    return min(
        (
            other.start
            for other in of.records
            if other.start > one.start
            and [other.row[of.names.index(name)] for name in node.per] == key
            and value(node.condition, of.names, other.row) is True
        ),
        default=inf,
    )


def displaced(node: a.ValidLast, of: Relation, one: Record) -> float:
    """The start of the later record with the number `node.count`."""
    key = [one.row[of.names.index(name)] for name in node.per]
    later = sorted(
        other.start
        for other in of.records
        if other.start > one.start and [other.row[of.names.index(name)] for name in node.per] == key
    )
    return later[node.count - 1] if len(later) >= node.count else inf


def multiple(time: float, length: int) -> float:
    """The first multiple of a length that is not before a time."""
    if time == inf:
        return time
    return next(t for t in range(int(time), int(time) + length) if t % length == 0)


def moved(of: Relation, move: Callable[[float], float]) -> Relation:
    records = (Record(int(move(one.start)), move(one.end), one.row) for one in of.records)
    return Relation(of.names, tuple(one for one in records if one.start < one.end))


def shifted(of: Relation, start: int, end: int) -> Relation:
    records = (Record(one.start + start, one.end + end, one.row) for one in of.records)
    return Relation(of.names, tuple(one for one in records if one.start < one.end))


def timed(node: a.Timed, of: Relation) -> Relation:
    """Records with columns for their start and end."""
    names = tuple(name for name in (node.start, node.end) if name is not None)
    records = []
    for one in of.records:
        times = (one.start, None if one.end == inf else int(one.end))
        wanted = [t for t, name in zip(times, (node.start, node.end), strict=True) if name]
        records.append(Record(one.start, one.end, (*one.row, *wanted)))
    return Relation((*of.names, *names), tuple(records))


def split(of: Relation, length: int, begun: float) -> Relation:
    """Of a record without end, those pieces that begin by some time."""
    return Relation(
        of.names,
        tuple(
            Record(start, min(start + length, one.end), one.row)
            for one in of.records
            for start in range(one.start, int(begun + 1 if one.end == inf else one.end), length)
        ),
    )


def united(left: Relation, right: Relation) -> Relation:
    return Relation(left.names, left.records + right.records)


def pairs(
    node: a.Join | a.Semijoin, left: Relation, right: Relation
) -> list[tuple[Record, Record, int, float]]:
    """The records that meet the condition while both are valid."""
    names = (*left.names, *node.names)
    return [
        (one, other, max(one.start, other.start), min(one.end, other.end))
        for one, other in product(left.records, right.records)
        if max(one.start, other.start) < min(one.end, other.end)
        and value(node.on, names, one.row + other.row) is True
    ]


def joined(node: a.Join, left: Relation, right: Relation) -> Relation:
    records = (
        Record(start, end, one.row + other.row)
        for one, other, start, end in pairs(node, left, right)
    )
    return Relation((*left.names, *node.names), tuple(records))


def semijoined(node: a.Semijoin, left: Relation, right: Relation) -> Relation:
    """For each left record by itself, the instants at which it has a partner."""
    records: list[Record] = []
    for one in left.records:
        alone = Relation(left.names, (one,))
        partners = pairs(node, alone, right)
        times = Relation((), tuple(Record(start, end, ()) for _, _, start, end in partners))
        found = each_instant((), lambda bag: Counter(set(bag)), times)
        records += [Record(piece.start, piece.end, one.row) for piece in found.records]
    return Relation(left.names, tuple(records))


def value(predicate: Any, names: Sequence[str], row: Row) -> Any:
    return plain(value_of(predicate.expression, dict(zip(names, row, strict=True))))


def answer(
    node: a.Node, tables: Mapping[str, Relation], begun: float = inf
) -> list[tuple[int, int | None, Any]]:
    """What the evaluation of a relation gives: coalesced, unless the last step cuts, in order.

    Records without end are cut up to `begun`, or later as far as pieces are shifted to earlier
    times.
    """
    found = evaluate(node, tables, begun + earlier(node))
    if not (isinstance(node, a.Split) or (isinstance(node, a.Coalesce) and node.longest)):
        found = each_instant(found.names, lambda bag: bag, found)
    records = sorted(found.records, key=lambda one: (one.start, one.end, order(one.row)))
    return [(one.start, None if one.end == inf else int(one.end), one.row) for one in records]


def earlier(node: a.Node) -> int:
    """By how much all that shifts starts to earlier times shifts them."""
    own = -min(0, node.start) if isinstance(node, a.Shift) else 0
    return own + sum(map(earlier, dict.fromkeys(a.operands(node))))


def up_to(
    records: Sequence[tuple[int, int | None, Any]], time: float
) -> list[tuple[int, int | None, Any]]:
    """Records as far as they are valid up to and including a time."""
    if time == inf:
        return list(records)
    last = int(time) + 1
    found = [
        (start, last if end is None else min(end, last), row)
        for start, end, row in records
        if start <= time
    ]
    return sorted(found, key=lambda one: (one[0], one[1], order(one[2])))


def order(row: Row) -> Row:
    """Nulls come last, and NaN before them."""
    return tuple(
        (2, 0) if cell is None else (1, 0) if isinstance(cell, float) and isnan(cell) else (0, cell)
        for cell in row
    )
