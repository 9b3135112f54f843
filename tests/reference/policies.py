"""What the policies of a file say of a log, put together from the references alone.

The values of conditions are those of `streams` (or `later_values`, where rows wait), the records of
relations those of `relations`, and the truth of formulas that of `evaluator`, with variables that
of `first_order`. Nothing that checks a log takes part; only the text of the file is read by the
package.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from mtlmon.policy import PolicyFile
from tests.doors import (
    NOTHING,
    ROWS,
    Changes,
    Expression,
    Plans,
    Waiting,
    free_variables,
    quantified,
    streams_of,
)
from tests.doors import predicates_operators as ops
from tests.doors import syntax_operators as formulas
from tests.reference import first_order, relations
from tests.reference.evaluator import Truth, evaluate
from tests.reference.lasting import demanded, lasting, lasting_rows
from tests.reference.later_values import LaterProgram
from tests.reference.streams import Period, Program, StreamText
from tests.traces import EndTime, Event, Prefix, TimePoint

Row = Mapping[str, Any]
"""A row of a table; the column of times is called "ts"."""

Name = tuple[int, tuple[Any, ...], TimePoint]
"""The number of a policy, the values of its key, and a time-point."""


class Log(NamedTuple):
    """A log, in the order of time.

    Attributes:
        rows: the rows.
        end: what is known of the time after them.
        records: what tables have, by their paths: the columns, and each record with its start, its
            end, and its cells.
        schemas: the columns of relations of rows, and of these tables, for the reader of plans.
        is_part: whether rows follow. Until then, time passes for a trace by its own time-points
            alone.
    """

    rows: Sequence[Row]
    end: EndTime = None
    records: Mapping[str, relations.Relation] = {}
    schemas: Mapping[str, Any] = {}
    is_part: bool = False

    @property
    def last(self) -> int:
        """The last time-stamp."""
        return int(self.rows[-1]["ts"])

    @property
    def is_ended(self) -> bool:
        """Whether something is known of the time after the last row."""
        return isinstance(self.end, str) or (self.end is not None and self.end >= self.last)

    @property
    def clock(self) -> int:
        """No event has a time below this one any more."""
        if not self.is_ended:
            return self.last
        return (self.end if isinstance(self.end, int) else self.last) + 1


def records_of(
    text: str, start: str, end: str, *, integers: Sequence[str] = ()
) -> tuple[relations.Relation, pa.Schema]:
    """The records of a table in CSV, and its other columns, which are texts or some integers.

    Args:
        text: the table.
        start: the column of the starts of records.
        end: the column of their ends.
        integers: the columns of integers.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
    names = [name for name in rows[0] if name not in (start, end)]
    kinds: dict[str, tuple[Any, Any]] = dict.fromkeys(names, (str, pa.string()))
    kinds |= dict.fromkeys(integers, (int, pa.int64()))
    found = [
        (
            int(row[start]),
            float(row[end] or "inf"),
            tuple(kinds[name][0](row[name]) for name in names),
        )
        for row in rows
    ]
    return relations.relation(names, found), pa.schema({name: kinds[name][1] for name in names})


class _Point(NamedTuple):
    """A time-point: its trace, its name, and the values of what is wanted there."""

    trace: int
    name: TimePoint
    values: Mapping[str, Any]


class Said(NamedTuple):
    """What policies say of a log.

    Attributes:
        values: the value of each time-point; None if it is not decided.
        waiting: rows that wait for later values, and are no time-points yet.
    """

    values: dict[Name, Truth]
    waiting: list[Name]


def said_of(file: PolicyFile, log: Log, numbers: Sequence[int] | None = None) -> Said:
    """What all policies of a file say of a log, or those with some numbers."""
    found: dict[Name, Truth] = {}
    waiting: list[Name] = []
    bags = _bags(file, log)
    for number in range(len(file.policies)) if numbers is None else numbers:
        policy = file.policies[number]
        key = file.key or () if policy.key is None else policy.key
        keys = list(dict.fromkeys(tuple(row[name] for name in key) for row in log.rows))
        traces = [keys.index(tuple(row[name] for name in key)) for row in log.rows]
        points, open_rows = _time_points(file, number, log, traces, bags, key, keys)
        for trace, own in enumerate(keys):
            mine = [point for point in points if point.trace == trace]
            events = tuple(
                Event(
                    point.name[0],
                    frozenset(name for name, value in point.values.items() if value is True),
                )
                for point in mine
            )
            clock = log.clock
            if log.is_part or open_rows.get(trace):
                # time-points do not see what waits, nor that its time passes
                clock = events[-1].time_stamp if events else 0
            if open_rows.get(trace):
                waiting += [(number, own, name) for name in open_rows[trace]]
            prefix = Prefix(events, clock, closed=log.end == "inf")
            times = [event.time_stamp for event in events]
            said = evaluate(demanded(file, policy), prefix)
            values = lasting(said, times, policy.lasting)
            for point, value in zip(mine, values, strict=True):
                found[number, own, point.name] = value
    return Said(found, waiting)


def _bags(file: PolicyFile, log: Log) -> dict[str, relations.Relation]:
    """The relations of the file, over all rows."""
    if not file.intervals:
        return {}
    names = list(log.rows[0])
    rows = [(row["ts"], row["ts"] + 1, tuple(row.values())) for row in log.rows]
    tables = {ROWS: relations.relation(names, rows), **log.records}
    plans = Plans(file, log.schemas, NOTHING)
    return {name: relations.evaluate(plans.of(name), tables) for name in file.intervals}


def _time_points(
    file: PolicyFile,
    number: int,
    log: Log,
    traces: Sequence[int],
    bags: Mapping[str, relations.Relation],
    key: Sequence[str],
    keys: Sequence[tuple[Any, ...]],
) -> tuple[list[_Point], dict[int, list[TimePoint]]]:
    """The time-points of a policy, and by trace the rows that still wait."""
    policy = file.policies[number]
    clock = policy.clock
    names = dict.fromkeys(demanded(file, policy).atoms)
    if clock is not None and clock.atom is not None:
        names[clock.atom] = None
    texts = _Texts(file)
    wanted = {name: texts.atom(name) for name in names}
    streams = texts.streams()
    row_names = list(_row_names(log.rows, traces))
    if clock is not None and isinstance(clock.period, Waiting):
        return _of_waiting_rows(wanted, streams, log, traces, row_names)
    period: Period = 0
    changes = {}
    if clock is not None and clock.period is not None:
        assert isinstance(clock.period, int | Changes)
        period = clock.period
        if isinstance(period, Changes):
            bag = bags[period.relation]
            changes[period.relation] = {
                (time, trace)
                for trace, values in enumerate(keys)
                for time in relations.change_times(bag, key, values)
            }
    program = Program(
        wanted, streams, dict.fromkeys(wanted, period), "ts", changes=changes, relations=bags
    )
    points = []
    for row, trace, name in zip(log.rows, traces, row_names, strict=True):
        values = program.row(row["ts"], trace, dict(row))
        assert values is not None, "an integer overflows"
        if not period and (clock is None or values[str(clock.atom)] is True):
            points.append(_Point(trace, name, values))
    program.tick(log.clock)
    if period:
        points = [
            _Point(trace, (time, 0), values)
            for time, trace, _, values in program.ticks
            if _is_of(period, time, trace, changes)
        ]
    return points, {}


def _is_of(period: Period, time: int, trace: int, changes: Mapping[str, Any]) -> bool:
    if isinstance(period, Changes):
        return (time, trace) in changes[period.relation]
    return time % period == 0


def _row_names(rows: Sequence[Row], traces: Sequence[int]) -> Iterator[TimePoint]:
    """The names of rows: times, and how many rows of the trace with this time come before."""
    seen: Counter[tuple[int, int]] = Counter()
    for row, trace in zip(rows, traces, strict=True):
        yield row["ts"], seen[trace, row["ts"]]
        seen[trace, row["ts"]] += 1


def _of_waiting_rows(
    wanted: dict[str, Expression],
    streams: dict[str, StreamText],
    log: Log,
    traces: Sequence[int],
    names: Sequence[TimePoint],
) -> tuple[list[_Point], dict[int, list[TimePoint]]]:
    program = LaterProgram(wanted, streams)
    for row, trace in zip(log.rows, traces, strict=True):
        assert program.row(row["ts"], trace, dict(row)), "an integer overflows"
    # only where no row follows do those go that wait for one
    removed = program.removed(is_end=log.end == "inf")
    # rows of a trace go in order
    points = []
    waiting = {}
    for trace in set(traces):
        own = [name for name, other in zip(names, traces, strict=True) if other == trace]
        mine = [one for one in removed if one.trace == trace]
        points += [_Point(trace, name, one.values) for name, one in zip(own, mine, strict=False)]
        waiting[trace] = own[len(mine) :]
    return points, waiting


class _Texts:
    """The expressions of a file, with its atoms in them as what they stand for."""

    def __init__(self, file: PolicyFile) -> None:
        self.file = file

    def atom(self, name: str) -> Expression:
        """The condition of an atom; one of the log is a column."""
        if name in self.file.atoms:
            return self.replaced(self.file.atoms[name].expression)
        return Expression(ops.COLUMN, (), name)

    def replaced(self, node: Expression) -> Expression:
        if node.operator is ops.ATOM:
            return self.atom(str(node.value))
        assert node.operator is not ops.LET
        operands = tuple(self.replaced(operand) for operand in node.operands)
        return Expression(node.operator, operands, node.value)

    def optional(self, node: Expression | None) -> Expression | None:
        return None if node is None else self.replaced(node)

    def streams(self) -> dict[str, StreamText]:
        return {
            name: StreamText(
                self.replaced(stream.value.expression),
                None if stream.on is None else self.replaced(stream.on.expression),
                stream.period,
                tuple((self.replaced(one), called) for one, called in stream.per),
                self.optional(stream.start),
                self.optional(stream.end),
            )
            for name, stream in streams_of(self.file).items()
        }


def lines_of(
    file: PolicyFile, values: Mapping[Name, Truth], columns: Sequence[str] | None = None
) -> list[str]:
    """The decided values as lines of the command that follow no equivalences, sorted."""
    known = {name: value for name, value in values.items() if value is not None}
    return sorted(
        f"{shown(file, name, columns)} {str(value).lower()}" for name, value in known.items()
    )


def shown(file: PolicyFile, name: Name, columns: Sequence[str] | None = None) -> str:
    """A policy, its key and a time-point, as in lines of the command."""
    number, own, (time, offset) = name
    keys = [file.key or () if one.key is None else one.key for one in file.policies]
    if columns is None:
        columns = list(dict.fromkeys(column for key in keys for column in key))
    cells = dict(zip(keys[number], own, strict=True))
    fields = [str(cells.get(column, "")).replace("\t", "\\t") for column in columns]
    return "\t".join([str(file.policies[number].name), *fields, f"{time}:{offset}"])


class First(NamedTuple):
    """The earliest violation.

    Attributes:
        violations: the time-points that may be told as such: the first of each key with the
            earliest time, of the first policy that is violated then.
        is_open: whether a time-point, or a row that waits, may still be an earlier one.
    """

    violations: list[Name]
    is_open: bool


def first_of(said: Said) -> First:
    """The earliest violation of a log, by time and policy, for policies that have keys.

    The rows of one time have no common order, so an undecided one may be the earliest.
    """
    false = sorted(
        (n[2][0], n[0], n[1], n[2]) for n, value in said.values.items() if value is False
    )
    if not false:
        return First([], False)
    time, number, *_ = false[0]
    found: dict[tuple[Any, ...], Name] = {}
    for *place, key, point in false:
        if place == [time, number]:
            found.setdefault(key, (number, key, point))
    unknown = [*said.waiting, *(name for name, value in said.values.items() if value is None)]
    return First(list(found.values()), any(name[2][0] <= time for name in unknown))


def counts_of(values: Mapping[Name, Truth], number: int) -> Counter[Truth]:
    """How many time-points of a policy have each value."""
    return Counter(value for name, value in values.items() if name[0] == number)


def answers_of(
    file: PolicyFile, number: int, log: first_order.Log, types: Mapping[str, type]
) -> list[list[str] | None]:
    """What a policy with variables says of each time-point, as sorted lines without its name.

    Where nothing is found, a policy says `true`, and a `find` nothing; None is said of a time-point
    that is not decided for all values.

    Args:
        file: the policies.
        number: the number of the policy.
        log: the rows of predicates at each time-point, in the order of time.
        types: the types of the values of variables.
    """
    policy = file.policies[number]
    formula = whole = demanded(file, policy)
    names: list[str] = []
    if not policy.is_find:
        while formula.operator is formulas.FORALL:
            names += quantified(formula)
            formula = formula.operands[0]
    names = list(dict.fromkeys([*names, *free_variables(formula)[id(formula)]]))
    judge = first_order.answers if policy.is_find else first_order.violations
    found: list[list[str] | None] = []
    every = judge(whole, log, names, types=types)
    for said in lasting_rows(every, [stamp for stamp, _ in log.points], policy.lasting):
        word = "match" if policy.is_find else "false"
        lines = []
        for row in said.satisfying:
            # whole floats are written without a point
            values = ", ".join(
                f"{name}={str(value).removesuffix('.0') if isinstance(value, float) else value}"
                for name, value in zip(names, row, strict=True)
            )
            lines.append(f"{word} ({values})" if names else word)
        if not lines and not policy.is_find:
            lines.append("true")
        found.append(None if said.undecided else sorted(lines))
    return found
