"""Programs over streams from text, and random ones with rows for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from hypothesis import reject
from hypothesis import strategies as st
from pytest import MonkeyPatch

from mtlmon.errors import RowError
from mtlmon.policy import Predicate
from mtlmon.tables import TableEvents
from tests.doors import (
    Changes,
    Expression,
    Stream,
    StreamProgram,
    TickError,
    TraceChanges,
    Waiting,
    When,
    parse_expression,
    postorder,
)
from tests.doors import predicates_operators as ops
from tests.reference import streams as reference
from tests.reference.later_values import LaterProgram

SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_()), ("s", pa.string())])

INTEGERS = [0, 1, -1, 2, 3, 7, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.1, 0.2, 0.3, 1.5, -2.5, 1e16, -1e16, float("inf"), float("nan")]
CELLS: dict[str, list[Any]] = {
    "i": [0, 1, 2, 3, -1, 5, *INTEGERS],
    "f": FLOATS,
    "b": [True, False],
    "s": ["", "a", "b", "é"],
}


@contextmanager
def all_ticks_computed() -> Iterator[None]:
    """Let tables compute every tick of every key."""

    def do_nothing(events: TableEvents, is_wanted: bool = True) -> None:
        pass

    with MonkeyPatch.context() as patch:
        patch.setattr(TableEvents, "only_due_ticks", do_nothing)
        yield


def predicate(text: str, streams: frozenset[str] = frozenset()) -> Predicate:
    """An expression in which these names are streams."""
    root = parse_expression(text)
    built: dict[int, Expression] = {}
    for node in postorder(root):
        operands = tuple(built[id(operand)] for operand in node.operands)
        is_stream = node.operator is ops.COLUMN and node.value in streams
        operator = ops.STREAM if is_stream else node.operator
        built[id(node)] = Expression(operator, operands, node.value, node.span)
    return Predicate(built[id(root)], text, "<test>")


StreamText = str | tuple[str] | tuple[str, str | None] | tuple[str, str | None, int]


class Texts:
    """The texts of a program: its streams, and what is wanted.

    A stream is its text, perhaps with `on` or None, and a period. What is wanted is a text, perhaps
    with a period, or the changes of a relation. For each relation, `changes` has the times at which
    it changes, with the numbers of traces.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamText],
        wanted: Sequence[str | tuple[str, int | Changes]],
        changes: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    ) -> None:
        self.changes = changes or {}
        parts = {name: (one,) if isinstance(one, str) else one for name, one in streams.items()}
        names = frozenset(parts)
        self.streams = {
            name: Stream(
                predicate(one[0], names),
                None if len(one) < 2 or one[1] is None else predicate(one[1], names),
                None,
                one[2] if len(one) == 3 else 0,
            )
            for name, one in parts.items()
        }
        pairs = [(one, 0) if isinstance(one, str) else one for one in wanted]
        self.periods = {f"{text} every {period}": period for text, period in pairs if period}
        self.wanted = {
            f"{text} every {period}" if period else text: predicate(text, names)
            for text, period in pairs
        }
        self.shown = f"{parts} {wanted} {self.changes}"

    def __repr__(self) -> str:
        return self.shown

    def program(
        self, schema: pa.Schema = SCHEMA, *, only_due: bool = False, can_leave_out: bool = False
    ) -> StreamProgram:
        return StreamProgram(
            self.wanted,
            self.streams,
            schema,
            periods=self.periods,
            changes=lambda one: TraceChanges(FakeChanges(self.changes[one.relation]), as_numbers),
            only_due=only_due,
            can_leave_out=can_leave_out,
        )

    def reference(self) -> reference.Program:
        return reference.Program(
            {name: one.expression for name, one in self.wanted.items()},
            {
                name: reference.StreamText(
                    stream.value.expression,
                    None if stream.on is None else stream.on.expression,
                    stream.period,
                )
                for name, stream in self.streams.items()
            },
            self.periods,
            changes=self.changes,
        )


class FakeChanges:
    """Changes of a relation, for the numbers of traces as keys."""

    def __init__(self, changes: Sequence[tuple[int, int]]) -> None:
        self.changes = sorted(changes)

    def between(self, start: int, limit: int) -> tuple[np.ndarray[Any, Any], tuple[pa.Array, ...]]:
        found = [one for one in self.changes if start <= one[0] < limit]
        times = np.array([time for time, _ in found], np.int64)
        return times, (pa.array([number for _, number in found], pa.uint32()),)


def as_numbers(keys: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
    numbers: np.ndarray[Any, Any] = keys[0].to_numpy()
    return numbers


Row = tuple[int, int, dict[str, Any]]
"""Time-stamp, trace, and the cells."""

Tick = tuple[int, int, int, str, Any]
"""Time, trace, the number of rows before it, the name of an expression and its value."""


class Referable(Protocol):
    """What has a program of the reference."""

    def reference(self) -> reference.Program:
        """Return a new one."""


def expected(texts: Referable, rows: list[Row]) -> list[dict[str, Any] | None]:
    """What the reference computes on each row; None where an integer overflows."""
    program = texts.reference()
    return [program.row(*row) for row in rows]


def evaluated(
    program: StreamProgram,
    rows: list[Row],
    schema: pa.Schema = SCHEMA,
    *,
    periods: Mapping[str, When] | None = None,
    ticks: list[Tick] | None = None,
    first: int = 0,
    until: int | None = None,
) -> list[dict[str, Any] | None]:
    """What a program computes on each row of a batch; None for rows that it refuses.

    Args:
        program: the program.
        rows: the rows.
        schema: their schema.
        periods: the periods of what is wanted at ticks; the values are added to `ticks`.
        ticks: for each tick its time and trace, the number of rows before it, the name of what is
            wanted, and the value.
        first: the number of rows before these.
        until: find all ticks below this time.
    """
    periods = periods or {}
    kept = list(range(len(rows)))
    while True:
        batch = pa.RecordBatch.from_pylist([rows[place][2] for place in kept], schema)
        time_stamps = np.array([rows[place][0] for place in kept], np.int64)
        numbers = np.array([rows[place][1] for place in kept], np.uint32)
        try:
            found = program.evaluate(batch, time_stamps, numbers, until)
        except RowError as error:
            refused = {kept[row] for row in error.rows}
            assert refused
            kept = [place for place in kept if place not in refused]
            continue
        except TickError as error:
            if program.due_ticks or any(one.due for one in program.instance_ticks):
                if not program.can_leave_out:
                    reject()
                program.compute_all_ticks()
            program.leave_out(error)
            continue
        program.forget_left_out()
        result: list[dict[str, Any] | None] = [None] * len(rows)
        columns = {name: values.to_pylist() for name, values in found.items()}
        for name, values in found.items():
            values.validate(full=True)
            assert values.type == program.types[name]
            assert ticks is not None or len(values) == len(kept)
        if ticks is not None:
            for name, period in periods.items():
                own = program.ticks_of(period)
                values = columns.pop(name)
                assert len(own) == len(values)
                of_ticks = zip(*(array.tolist() for array in own[:3]), values, strict=True)
                ticks += [
                    (time, number, place + first, name, value)
                    for time, number, place, value in of_ticks
                ]
        for index, place in enumerate(kept):
            result[place] = {name: values[index] for name, values in columns.items()}
        return result


def rows(size: int = 30) -> st.SearchStrategy[list[Row]]:
    cells = st.fixed_dictionaries(
        {name: st.sampled_from([None, *values]) for name, values in CELLS.items()}
    )
    steps = st.tuples(st.sampled_from([0, 0, 1, 1, 2, 6]), st.integers(0, 2), cells)

    def summed(found: list[tuple[int, int, dict[str, Any]]]) -> list[Row]:
        time, result = 0, []
        for step, trace, row in found:
            time += step
            result.append((time, trace, row))
        return result

    return st.lists(steps, max_size=size).map(summed)


_INTERVALS = ["[0,0]", "[0,3]", "[0,7]", "[1,4]", "[2,2]", "[0,*)", "[3,*)", "[0,5)"]
_WITH_LENGTHS = {"[0,3]", "[0,7]", "[1,4]", "[0,5)"}


class Writer:
    """Writes random expressions, as text.

    Attributes:
        streams: the kinds of the streams that expressions may read.
        past: the kinds of those that they may read at earlier time-points only.
        periods: the periods of streams that have values at ticks.
        period: where the expression that is being written is evaluated; 0 for rows.
        booleans: the Boolean columns.
    """

    def __init__(
        self, draw: st.DrawFn, streams: dict[str, str], periods: dict[str, int] | None = None
    ) -> None:
        self.draw = draw
        self.streams = streams
        self.past: dict[str, str] = {}
        self.is_in_past = False
        self.periods = {} if periods is None else periods
        self.period = 0
        self.booleans = ["b", "b"]

    def can_read(self, name: str) -> bool:
        """Whether a stream exists at the present time-points."""
        period = self.periods.get(name, 0)
        if period == 0 or self.period == 0:
            return period == self.period
        return self.period % period == 0

    def one(self, choices: list[str]) -> str:
        return self.draw(st.sampled_from(choices))

    def expression(self, kind: str, depth: int) -> str:
        names = [name for name, found in self.streams.items() if found == kind]
        if self.is_in_past:
            names += 2 * [name for name, found in self.past.items() if found == kind]
        constants = {
            "integer": ["1", "2", "-3"],
            "float": ["0.5", "2.0"],
            "boolean": ["true"],
            "text": ['"a"'],
        }[kind]
        cells = {
            "integer": ["i", "i"],
            "float": ["f", "f"],
            "boolean": [*self.booleans, "i > 0", "f < 1.0", 's = "a"'],
            "text": ["s", "s"],
        }[kind]
        leaves = constants + 2 * [name for name in names if self.can_read(name)]
        if self.period == 0:
            leaves += cells
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            return self.one(leaves)
        return self.draw(st.sampled_from([self.operation, self.window, self.offset]))(
            kind, depth - 1
        )

    def operation(self, kind: str, depth: int) -> str:
        left = self.expression(kind, depth)
        if kind == "text":
            # the machine of recursive streams has no functions of texts
            return left if self.past else f"lower({left})"
        if kind == "boolean":
            form = self.one(
                ["not ({})", "({}) and ({})", "({}) or ({})", "({}) is null", "{} < {}"]
            )
            if form == "{} < {}":
                inner = self.one(["integer", "float"])
                one, other = self.expression(inner, depth), self.expression(inner, depth)
                return f"(({one}) < ({other}))"
            return "(" + form.format(left, self.expression(kind, depth)) + ")"
        form = self.one(["", "", "if ({2}) then ({0}) else ({1})", "coalesce({0}, {1})"])
        form = form or self.one(["", "", "min({0}, {1})", "max({0}, {1})"])
        if kind == "float":
            functions = ["sin({0})", "exp({0})", "log({0})", "pow({0}, {1})", "atan2({0}, {1})"]
            form = form or self.one(["", "", *functions])
        if form:
            right = self.expression(kind, depth)
            return f"({form.format(left, right, self.expression('boolean', depth))})"
        operators = ["+", "-", "*"] + (["/", "%"] if kind == "float" else ["%"])
        return f"(({left}) {self.one(operators)} ({self.expression(kind, depth)}))"

    def window(self, kind: str, depth: int) -> str:
        interval = self.one(_INTERVALS)
        words = {
            "integer": [
                "count",
                "rows",
                "sum",
                "first",
                "last",
                "min",
                "max",
                "distinct",
                *("increase", "changes", "resets"),
            ],
            "float": [
                *("sum", "avg", "avg", "first", "last", "min", "max"),
                *("var", "stddev", "median", "mad", "quantile", "integral", "increase", "rate"),
            ],
            "boolean": ["any", "all", "first", "last"],
            "text": ["first", "last", "min", "max"],
        }[kind]
        word = self.one(words)
        if word == "rows":
            return f"count{interval}()"
        inner = "boolean" if word in {"count", "any", "all"} else kind
        means = {"avg", "var", "stddev", "median", "mad", "quantile"}
        if word in {*means, "integral", "rate", "resets"}:
            inner = self.one(["integer", "float"])
        if word in {"distinct", "changes"}:
            inner = self.one(["integer", "float", "boolean", "text"])
        argument = self.argument(inner, depth, interval in {"[1,4]", "[2,2]", "[3,*)"})
        if word == "rate" and interval not in _WITH_LENGTHS:
            word = "avg"
        share = ", 0.9" if word == "quantile" else ""
        if word == "integral":
            share = self.one(["", ", linear"])
        return f"{word}{interval}({argument}{share}{self.default(kind)})"

    def default(self, kind: str) -> str:
        constant = {"integer": "-5", "float": "0.25", "boolean": "true", "text": '"z"'}[kind]
        return self.one(["", "", f", or: {constant}"])

    def offset(self, kind: str, depth: int) -> str:
        default = self.default(kind)
        word = self.one(["last", "last", "at", "hold"])
        distance = self.one(["0", "1", "3"] if word == "at" else ["1", "2", "3"])
        argument = self.argument(kind, depth, word == "last" or (word == "at" and distance != "0"))
        if word == "last":
            return f"({argument}).last({distance}{default})"
        if word == "at":
            return f"({argument}).at(-{distance}{default})"
        before = self.one(["", "1", "2"])
        return f"({argument}).hold({(before + default).removeprefix(', ')})"

    def argument(self, kind: str, depth: int, is_past: bool) -> str:
        """What an aggregate or offset is of, that perhaps only looks at earlier rows."""
        before = self.is_in_past, self.period
        self.is_in_past = self.is_in_past or is_past
        if self.periods:
            self.period = self.draw(st.sampled_from([0, self.period, *self.periods.values()]))
        found = self.expression(kind, depth)
        self.is_in_past, self.period = before
        return found


@st.composite
def programs(draw: st.DrawFn, depth: int = 3) -> Texts:
    kinds = ["integer", "float", "boolean", "text"]
    streams: dict[str, str | tuple[str, str | None]] = {}
    known: dict[str, str] = {}
    writer = Writer(draw, known)
    for number in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(kinds))
        text = writer.expression(kind, depth)
        on = writer.expression("boolean", 1) if draw(st.booleans()) else None
        streams[f"x{number}"] = text, on
        known[f"x{number}"] = kind
    wanted = [writer.expression(draw(st.sampled_from(kinds)), depth) for _ in range(2)]
    return Texts(streams, wanted)


@st.composite
def recursive_programs(draw: st.DrawFn) -> Texts:
    """Streams that read their own and each other's earlier values."""
    kinds = draw(st.lists(st.sampled_from(["integer", "float", "boolean", "text"]), min_size=1))
    names = {f"x{number}": kind for number, kind in enumerate(kinds[:3])}
    streams: dict[str, str | tuple[str, str | None]] = {}
    known: dict[str, str] = {}
    writer = Writer(draw, known)
    writer.past = names
    for name, kind in names.items():
        step = {
            "integer": "({0}.last(or: 1)) + ({1})",
            "float": "({0}.last(or: 0.5)) * 0.5 + ({1})",
            "boolean": "({0}.last(or: true)) or ({1})",
            "text": "({1})",
        }[kind]
        text = step.format(name, writer.expression(kind, 2))
        streams[name] = text, writer.expression("boolean", 1) if draw(st.booleans()) else None
        known[name] = kind
    return Texts(streams, [*names])


PERIODS = [2, 4, 6]


@st.composite
def ticking_programs(draw: st.DrawFn, depth: int = 3) -> Texts:
    """Streams at rows and at ticks, and expressions that are wanted at some of them."""
    kinds = ["integer", "float", "boolean", "text"]
    streams: dict[str, StreamText] = {}
    known: dict[str, str] = {}
    periods: dict[str, int] = {}
    writer = Writer(draw, known, periods)
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        period = draw(st.sampled_from([0, *PERIODS, *PERIODS]))
        writer.period = period
        text = writer.expression(kind, depth)
        on = writer.expression("boolean", 1) if draw(st.integers(0, 3)) == 0 else None
        name = f"x{number}"
        streams[name] = text, on, period
        known[name], periods[name] = kind, period
    wanted = []
    for _ in range(3):
        writer.period = draw(st.sampled_from([0, *PERIODS, *periods.values()]))
        wanted.append((writer.expression(draw(st.sampled_from(kinds)), depth), writer.period))
    return Texts(streams, wanted)


@st.composite
def recursive_ticking_programs(draw: st.DrawFn) -> Texts:
    """Streams at ticks that read their own earlier values."""
    kinds = draw(st.lists(st.sampled_from(["integer", "float", "boolean"]), min_size=1))
    period = draw(st.sampled_from(PERIODS))
    own_period = st.sampled_from([period, period, 0, *PERIODS])
    names = {f"x{number}": kind for number, kind in enumerate(kinds[:2])}
    known: dict[str, str] = {}
    periods = {
        "y": draw(st.sampled_from([0, period])),
        **{name: draw(own_period) for name in names},
    }
    writer = Writer(draw, known, periods)
    writer.period = periods["y"]
    streams: dict[str, StreamText] = {"y": (writer.expression("integer", 1), None, periods["y"])}
    known["y"] = "integer"
    writer.past = names
    for name, kind in names.items():
        writer.period = periods[name]
        step = {
            "integer": "({0}.last(or: 1)) + ({1})",
            "float": "({0}.last(or: 0.5)) * 0.5 + ({1})",
            "boolean": "({0}.last(or: true)) or ({1})",
        }[kind]
        text = step.format(name, writer.expression(kind, 2))
        streams[name] = text, None, periods[name]
        known[name] = kind
    wanted = [(name, periods[name]) for name in names]
    return Texts(streams, [*wanted, f"{next(iter(names))}.hold()"])


LATER = Waiting(("later values",))


class LaterTexts(Texts):
    """The texts of a program whose wanted expressions look at later values."""

    def __init__(
        self, streams: Mapping[str, str | tuple[str, str | None]], wanted: Sequence[str]
    ) -> None:
        super().__init__(streams, wanted)
        self.texts = streams
        self.waiting = dict.fromkeys(self.wanted, LATER)

    def program(
        self, schema: pa.Schema = SCHEMA, *, only_due: bool = False, can_leave_out: bool = False
    ) -> StreamProgram:
        return StreamProgram(
            self.wanted,
            self.streams,
            schema,
            periods=self.waiting,
            only_due=only_due,
            can_leave_out=can_leave_out,
        )

    def later(self) -> LaterProgram:
        wanted = {name: one.expression for name, one in self.wanted.items()}
        return LaterProgram(wanted, self.reference().streams)


@st.composite
def later_programs(
    draw: st.DrawFn,
    depth: int = 2,
    *,
    kinds: Sequence[str] = ("integer", "float", "boolean", "text"),
    count: int | None = None,
    booleans: list[str] | None = None,
) -> LaterTexts:
    """Streams and wanted expressions of later values, of some kinds."""
    streams: dict[str, str | tuple[str, str | None]] = {}
    known: dict[str, str] = {}
    later: dict[str, str] = {}
    writer = Writer(draw, known)
    writer.booleans = writer.booleans if booleans is None else booleans

    def next_of(kind: str) -> str:
        distance = writer.one(["next(1", "next(1", "next(2", "next(3", "at(+0", "at(+2", "at(+7"])
        return f"({writer.expression(kind, depth)}).{distance}{writer.default(kind)})"

    def of_later(kind: str, left: int) -> str:
        names = [name for name, found in later.items() if found == kind]
        if left == 0 or draw(st.integers(0, 2)) == 0:
            return writer.one([next_of(kind), *names])
        plain = writer.expression(kind, depth) if draw(st.booleans()) else of_later(kind, left - 1)
        one = of_later(kind, left - 1)
        if kind == "text":
            return f"lower({one})"
        if kind == "boolean":
            form = writer.one(["not ({0})", "({0}) and ({1})", "({1}) or ({0})", "({0}) is null"])
            return f"({form.format(one, plain)})"
        form = writer.one(["({0}) + ({1})", "({1}) - ({0})", "({0}) * ({1})", "min({0}, {1})"])
        return f"({form.format(one, plain)})"

    for number in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(kinds))
        is_later = draw(st.booleans())
        text = of_later(kind, 1) if is_later else writer.expression(kind, depth)
        on = None
        if draw(st.booleans()):
            on = of_later("boolean", 0) if is_later else writer.expression("boolean", 1)
        streams[f"x{number}"] = text, on
        (later if is_later else known)[f"x{number}"] = kind
    count = draw(st.integers(1, 2)) if count is None else count
    wanted = [of_later(draw(st.sampled_from(kinds)), 2) for _ in range(count)]
    return LaterTexts(streams, wanted)
