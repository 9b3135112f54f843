"""Streams with `per` against the reference, over batches, traces, keys and snapshots."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import check as check_log
from mtlmon import streams as streams_module
from mtlmon.errors import PolicyError, SnapshotError
from mtlmon.policy import parse_policies
from tests.doors import Expression, Points, StreamProgram, streams_of, when_in_units
from tests.doors import predicates_operators as ops
from tests.doors import streams_instances as instances_module
from tests.doors import streams_program as program_module
from tests.reference import streams as reference
from tests.streams.programs import Row, Tick, evaluated
from tests.streams.test_program import compare
from tests.streams.test_ticks import expected, require_same

SCHEMA = pa.schema(
    [
        *(("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_()), ("s", pa.string())),
        *(("k", pa.int64()), ("m", pa.int64()), ("t", pa.string()), ("g", pa.float64())),
    ]
)
CELLS: dict[str, list[Any]] = {
    "i": [0, 1, 2, 3, -1, 5],
    "f": [0.0, -0.0, 0.1, 0.2, 1.5, -2.5, 1e16, float("inf"), float("nan")],
    "b": [True, False],
    "s": ["", "a", "b"],
    "k": [0, 1, 2],
    "m": [0, 1, 2],
    "t": ["", "a", "é"],
    "g": [0.0, -0.0, 1.0, 2.0, 1.5, float("nan")],
}


class File:
    """The streams of a policy file, all of whose values are wanted."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.file = parse_policies(text, needs_policy=False)
        self.streams = {
            name: stream._replace(period=self.period(name))
            for name, stream in streams_of(self.file).items()
        }
        self.wanted = {
            name: self.file.predicate(Expression(ops.STREAM, (), name), name, "stream")
            for name in self.streams
        }

    def __repr__(self) -> str:
        return self.text

    def period(self, name: str) -> int:
        clock = self.file.streams[name].clock
        if clock is None or clock.period is None:
            return 0
        found = when_in_units(clock.period, None)
        assert isinstance(found, int)
        return found

    def program(
        self, schema: pa.Schema = SCHEMA, *, only_due: bool = False, can_leave_out: bool = False
    ) -> StreamProgram:
        return StreamProgram(
            self.wanted,
            self.streams,
            schema,
            periods=self.periods,
            only_due=only_due,
            can_leave_out=can_leave_out,
        )

    @property
    def periods(self) -> dict[str, int]:
        """The periods of what is wanted at ticks; values of instances are where these begin."""
        streams = self.texts
        found = {
            name: reference.clock_of(one, streams) if one.per else one.period
            for name, one in streams.items()
        }
        return {name: period for name, period in found.items() if period}

    @property
    def texts(self) -> dict[str, reference.StreamText]:
        """The streams for the reference."""

        def expression(found: Any) -> Any:
            return None if found is None else found.expression

        return {
            name: reference.StreamText(
                stream.value.expression,
                expression(stream.on),
                stream.period,
                stream.per,
                stream.start,
                stream.end,
            )
            for name, stream in self.streams.items()
        }

    def reference(self) -> reference.Program:
        wanted = {name: one.expression for name, one in self.wanted.items()}
        return reference.Program(wanted, self.texts, self.periods)


def rows(size: int = 25) -> st.SearchStrategy[list[Row]]:
    cells = st.fixed_dictionaries(
        {name: st.sampled_from([None, *values, *values]) for name, values in CELLS.items()}
    )
    steps = st.tuples(st.sampled_from([0, 0, 1, 1, 2, 6]), st.integers(0, 1), cells)

    def summed(found: list[tuple[int, int, dict[str, Any]]]) -> list[Row]:
        time, result = 0, []
        for step, trace, row in found:
            time += step
            result.append((time, trace, row))
        return result

    return st.lists(steps, max_size=size).map(summed)


# The clauses of lifetimes, with the parameters that they have.
PER = ["per k as p", "per k", "per t as p", "per g as p", "per k as p, t as q", "per k % 2 as p"]
WINDOWS = [
    *(
        "count[0,3]()",
        "count[0,7](row.b)",
        "sum[0,4](i)",
        "avg[0,9](f)",
        "max[0,*)(i)",
        "min[1,5](f)",
    ),
    *("i.last()", "i.last(2, or: 7)", "f.at(-2)", "i.hold(or: 1)", "i.hold(1)", "distinct[0,6](s)"),
    *("integral[0,8](i)", "median[0,9](i)", "first[0,*)(i)", "sum[0,*)(f)", "u.last(or: 0)"),
    *("increase[0,8](i)", "changes[0,5](s)", "resets[0,*)(f)"),
    *("u + count[0,2]()", "coalesce(i, 3)", "sum[0,5](u)"),
]
TIMES = ["age() >= 4", "age() > 0", "silence() > 3", "5 <= silence()"]
TIMES += ["age() > 7 or silence() >= 2"]
FOLDS = ["sum(x over x)", "max(x over x)", "min(x over x)", "count(x > 1 over x)"]
FOLDS += ["any(x > 2 over x)", "all(x < 3 over x)", "count(true over x)", "sum(y over x)"]
FOLDS += ["avg(x over x)", "var(y over x)", "stddev(x over x)", "median(x over x)"]
FOLDS += ["quantile(y over x, 0.9)", "quantile(x * 2 over x, 0)"]
FOLDS += ["count(x is null over x)", "any(x < y over x)", "sum(coalesce(x, 1) over x)"]


# Of an instance among others.
RANKS = ["rank(x over x)", "rank(y over x)", "rank(-x over x)", "rank(coalesce(y, 1) over x)"]

# For what is behind `per`: groups of instances of x, named at rows.
GROUPS = {
    "per k as p": ["p = k", "p = m", "k", "p = k % 2"],
    "per k": ["k", "k = m"],
    "per t as p": ["p = t", "p = s", "t"],
    "per g as p": ["p = g", "p = m", "g"],
    "per k as p, t as q": ["p = k", "q = t", "q = s, p = k", "t", "k = m", "t, k"],
    "per k % 2 as p": ["p = k % 2", "p = m"],
}


def grouped(fold: str, groups: str) -> str:
    """An aggregate over x, by some values."""
    return fold.replace(" over x", f" over x by {groups}")


def known_groups(per: str) -> list[str]:
    """Groups that can be named where no rows are."""
    name = "k" if per == "per k" else "p"
    if ", " in per:
        return [f"{name} = 1", 'q = "a"', f'q = "a", {name} = 1', f"{name} = m.hold()"]
    if per == "per t as p":
        return ['p = "a"', "p = s.hold()"]
    return [f"{name} = 1", f"{name} = m.hold()"]


@st.composite
def files(draw: st.DrawFn, has_ticks: bool = False) -> File:
    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    per = one(PER)
    key = per.removeprefix("per ").split(" as ")[0]
    other = {"t": "s", "g": "m"}.get(key, "m")
    equal = f"{other} = p"
    if ", " in per:
        equal += " and s = q"
    looked = f"x[{other}]" if ", " not in per else "x[m, s]"
    ends = (
        ["row.b"]
        if per == "per k"
        else ["row.b", equal, f"row.b and {equal}", f"{equal} and f < 1.0"]
    )
    own = f"{key} = p and " + ("t = q and " if ", " in per else "")
    on = one(["", "", f" on {own}row.b"]) if per != "per k" else ""
    ends = [*ends, *(f"{one(ends)} or {time}" for time in TIMES), *TIMES]
    if not on:
        ends += ["x > 2", f"x > 1 or {one(ends)}", "y > 3 or x is null", "x > 2 and u < 2 or y = 1"]
    end = "" if draw(st.booleans()) else " until " + one(ends)
    start = one(["", "", " from row.b", " from u > 1"])
    # who reads a stream that ends its instances has the same ones
    rest = f"{start}{end}" if {"x", "y"} & set(end.split()) else end
    recursion = one(["x.last(or: 0) + i", "sum[1,9](x, or: 1) % 7 + 1", "x.last(or: 0) + u"])
    lines = [
        "stream u = count[0,5](row.b)",
        f"stream x = {one([*WINDOWS, recursion, recursion])} {per}{on}{start}{end}",
        f"stream y = {one([*WINDOWS, 'x.last(or: 2)', 'sum[0,6](x)', 'x'])} {per}{start}{end}",
    ]
    own_group = "k" if per == "per k" else one(["p", "p", *GROUPS[per]])
    if draw(st.booleans()):
        last = ["x", "sum[0,4](y)", looked, "count(x > 0 over x) + x.last()"]
        last += [grouped(one([*FOLDS, *RANKS]), own_group)]
        lines.append(f"stream z = {one(last)} {per}{rest}")
    if draw(st.booleans()):
        lines.append(f"stream d = {grouped(one(FOLDS), own_group)} {per.split(',')[0]}")
    folds = [*FOLDS, *RANKS]
    folds += [grouped(fold, one(GROUPS[per])) for fold in folds]
    lines.append(f"stream w = {one(folds)}")
    lines.append(f"stream v = {one([looked, f'{looked}.last(or: 0)', f'sum[0,5]({looked})'])}")
    if draw(st.booleans()):
        # values of instances tell other instances apart
        invoking = one([looked, f"{looked}.last()", "w", f"coalesce({looked}, 1) + u"])
        lines.append(f"stream q = {one(WINDOWS)} per {invoking} as o{one(['', ' until q > 2'])}")
        lines.append(f"stream o = {one(['count(q > 0 over q)', 'sum(q over q)'])}")
    if "p" in per.split() and draw(st.booleans()):
        lines.append(f"stream a = p {per}{rest}")
    if has_ticks:
        known = {"t": 'x["a"]', "g": "x[1]"}.get(key, "x[1]" if ", " not in per else 'x[1, "a"]')
        lines.append(
            f"stream c = {one([*FOLDS, known, 'w.hold()', 'count(x > 0 over x) + 1'])} every 2"
        )
        of_group = grouped(one(FOLDS), one(known_groups(per)))
        lines.append(f"stream e = {one(['c.last()', 'sum(x over x)', known, of_group])} every 6")
    return File("\n".join(lines))


# Where a stream of instances has values: at rows of others, too.
CALLS = {
    "per k as p": ["k = p or m = p", "m = p", "row.b", "k = p or row.b", "m = p and i > 0"],
    "per k": ["row.b", "i > 0 and u > 0"],
    "per t as p": ["t = p or s = p", "s = p or row.b and t = p", 'p = "a"', "u > 1"],
    "per g as p": ["g = p or m = p", "f = p", "p > 0.5", "m = p and row.b or f < 1.0"],
    "per k as p, t as q": ["(k = p or m = p) and t = q", "m = p and s = q", "k = p", "row.b"],
    "per k % 2 as p": ["p = k % 2 or p = m", "i > p", "m = p"],
}


@st.composite
def calling_files(draw: st.DrawFn, has_ticks: bool = False) -> File:
    """Streams whose instances have values at rows of others."""

    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    per = one(list(CALLS))
    on = f" on {one(CALLS[per])}"
    key = per.removeprefix("per ").split(" as ")[0]
    other = {"t": "s", "g": "m"}.get(key, "m")
    looked = f"x[{other}]" if ", " not in per else "x[m, s]"
    equal = f"{other} = p" + (" and s = q" if ", " in per else "")
    ends = ["row.b", *TIMES]
    ends += [] if per == "per k" else [equal, f"{equal} or age() > 5"]
    end = "" if draw(st.booleans()) else f" until {one(ends)}"
    start = one(["", "", " from row.b", " from u > 1"])
    rest = f"{start}{end}"
    values = ["x.last(or: 0) + i", "x.last(or: 0) + 1", "sum[1,9](x, or: 1) % 7 + 1"]
    values += [*WINDOWS, "i", "1"]
    if per != "per k":
        values += ["p" if key != "t" else "i", "coalesce(i, 0) + count[0,3]()"]
    others = ["x.last(or: 2)", "x.hold()", "sum[0,6](x)", "x", "coalesce(x, 0) + 1", "max[1,7](x)"]
    # what windows have is not read at calls
    folds = [fold for fold in FOLDS if "y" not in fold]
    lines = [
        "stream u = count[0,5](row.b)",
        f"stream x = {one(values)} {per}{on}{rest}",
        f"stream y = {one([*WINDOWS, *others])} {per}{one(['', on])}{rest}",
        f"stream r = {one(['i', 'x.hold()', 'r.last(or: 0) + 1'])} {per}{rest}",
    ]
    own_group = "k" if per == "per k" else one(["p", "p", *GROUPS[per]])
    last = ["x", "y", "sum[0,4](y)", looked, "count(x > 0 over x)", "r", "x.hold() + r.hold()"]
    last += [grouped(one([*folds, "rank(x over x)"]), own_group), *folds]
    lines.append(f"stream z = {one(last)} {per}{one(['', on, f' on {one(CALLS[per])}'])}{rest}")
    folds += [grouped(fold, one(GROUPS[per])) for fold in [*folds, "rank(x over x)"]]
    folds += ["rank(x over x)", "any(x < r over x)", "sum(r - x over r)"]
    if lines[-1].startswith(("stream z = x per", "stream z = r per", "stream z = x.hold()")):
        # other values may be read as of now, or be no numbers
        folds.append("sum(x + z over x)")
    lines.append(f"stream w = {one(folds)}")
    lines.append(f"stream v = {one([looked, f'{looked}.last(or: 0)', f'sum[0,5]({looked})'])}")
    if has_ticks:
        known = {"t": 'x["a"]', "g": "x[1]"}.get(key, "x[1]" if ", " not in per else 'x[1, "a"]')
        at_ticks = ["x.hold()", "sum[0,5](x)", "x.last(2)"]
        lines.append(f"stream a = {one(at_ticks)} {per} every 2{rest}")
        reading = [*FOLDS[:5], known, "w.hold()", "count(a > 0 over a)", "sum(a over a)"]
        lines.append(f"stream c = {one(reading)} every 2")
        of_group = grouped(one(FOLDS[:5]), one(known_groups(per)))
        lines.append(f"stream e = {one(['c.last()', 'sum(x over x)', known, of_group])} every 6")
    return File("\n".join(lines))


CUTS = st.lists(st.integers(0, 25), max_size=3)


ALL_FILES = st.one_of(files(has_ticks=True), calling_files(has_ticks=True))


@given(ALL_FILES, rows(), CUTS, st.integers(0, 3))
def test_ticks_see_the_instances_of_the_last_row(
    file: File, log: list[Row], cuts: list[int], saved: int
) -> None:
    until = log[-1][0] + 7 if log else 7
    found: list[dict[str, Any] | None] = []
    ticks: list[Tick] = []
    program = file.program()
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved + 1:
            # texts and instances have other numbers from then on
            program.snapshot()
        if batch == saved:
            snapshot = program.snapshot()
            program = file.program()
            program.restore(snapshot)
        found += evaluated(
            program,
            log[start:end],
            SCHEMA,
            periods=file.periods,
            ticks=ticks,
            first=sum(one is not None for one in found),
            until=until if batch == len(edges) - 2 else None,
        )
    wanted = expected(file, log, until)
    for row in [*filter(None, found), *filter(None, wanted[0])]:
        for name, value in row.items():
            row[name] = float(value) if type(value) is int else value
    require_same(([*found], as_floats(ticks)), ([*wanted[0]], as_floats(wanted[1])), file)


def as_floats(ticks: list[Tick]) -> list[Tick]:
    """Ticks with floats, as defaults of floats may be written as integers."""
    return [(*tick[:4], float(tick[4])) if type(tick[4]) is int else tick for tick in ticks]


@given(st.one_of(files(), calling_files()), rows(), CUTS, st.integers(0, 3))
def test_templates_are_those_of_the_reference(
    file: File, log: list[Row], cuts: list[int], saved: int
) -> None:
    program = file.program()
    found: list[dict[str, Any] | None] = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved + 1:
            # texts and instances have other numbers from then on
            program.snapshot()
        if batch == saved:
            snapshot = program.snapshot()
            program = file.program()
            program.restore(snapshot)
            assert program.snapshot() == snapshot
        found += evaluated(program, log[start:end], SCHEMA)
    reference_program = file.reference()
    wanted = [reference_program.row(*row) for row in log]
    for row, one in zip(found, wanted, strict=True):
        for name, value in (row or {}).items():
            if isinstance(value, float) and one is not None and type(one[name]) is int:
                # a default that is written as an integer
                one[name] = float(one[name])
    compare(found, wanted, file)


def columns(text: str, cells: dict[str, list[Any]], times: list[int] | None = None) -> Any:
    """The values of the streams of a file on rows of one trace."""
    count = len(next(iter(cells.values())))
    batch = pa.RecordBatch.from_pydict(
        {name: cells.get(name, [None] * count) for name in SCHEMA.names}, SCHEMA
    )
    time_stamps = np.array(range(count) if times is None else times, np.int64)
    found = File(text).program().evaluate(batch, time_stamps)
    return {name: values.to_pylist() for name, values in found.items()}


def test_an_instance_counts_its_own_rows() -> None:
    text = "stream n = count[0,10]() per k\nstream hot = any(n > 1 over n)"
    found = columns(text, {"k": [1, 2, 1, None, 2, 1]}, [0, 1, 2, 3, 11, 20])
    assert found["n"] == [1, 1, 2, None, 2, 1]
    # at 20, both windows have one row: time has taken the others out of them
    assert found["hot"] == [False, False, True, True, True, False]


def test_an_instance_that_ended_begins_again_with_an_empty_past() -> None:
    text = """
    stream views = views.last(or: 0) + 1 per k as id until m = id
    stream living = count(true over views)
    stream most = max(views over views)
    stream of_one = views[1]
    """
    found = columns(text, {"k": [1, 1, 2, 2, 1, 2], "m": [None, None, 1, 2, None, None]})
    # the row that ends an instance still has its value
    assert found["views"] == [1, 2, 1, 2, 1, 1]
    assert found["living"] == [1, 1, 2, 1, 1, 2]
    assert found["most"] == [1, 2, 2, 2, 1, 1]
    assert found["of_one"] == [1, 2, 2, None, 1, 1]


def test_groups_keep_their_values_when_instances_get_new_numbers() -> None:
    """Rationale: the first instance of the first group ends, and the group then begins behind
    another one; a snapshot gives the instances new numbers."""
    program = File(
        "stream n = n.last(or: 0) + i per k as p, m as q until k = p and m = q and i = 7\n"
        "stream w = sum(n over n by p = k)"
    ).program()
    cells = dict.fromkeys(SCHEMA.names)
    pairs = [(1, 1, 7), (2, 1, 10), (1, 2, 100), (2, 2, 1), (1, 1, 5), (3, 1, 2), (1, 2, 1)]
    log: list[Row] = [
        (place, 0, {**cells, "k": k, "m": m, "i": i}) for place, (k, m, i) in enumerate(pairs)
    ]
    found: list[Any] = []
    for row in log:
        found += evaluated(program, [row], SCHEMA)
        program.snapshot()
    assert [row["w"] for row in found] == [7, 10, 100, 11, 105, 2, 106]


def test_until_without_a_parameter_ends_all_instances_of_the_trace() -> None:
    text = "stream n = count[0,9]() per k until row.b\nstream living = count(true over n)"
    found = columns(text, {"k": [1, 2, 3, 1], "b": [None, False, True, False]})
    assert found == {"n": [1, 1, 1, 1], "living": [1, 2, 3, 1]}


def test_instances_end_by_their_own_values() -> None:
    text = """
    stream n = n.last(or: 0) + 1 per k as id until n >= 3 or m = id
    stream full = count[0,99]() > 1 and total > 5 per k as id until full
    stream total = sum[0,*)(i) per k as id until full
    stream living = count(true over n)
    stream of_one = n[1]
    """
    cells: dict[str, list[Any]] = {
        "i": [1, 1, 6, 4, 2, 1, 3],
        "k": [1, 1, 2, 1, 1, 2, 1],
        "m": [None, None, None, None, None, 1, 2],
    }
    found = columns(text, cells)
    # the third row of 1 ends it, and so does the row of 2 that names it
    assert found["n"] == [1, 2, 1, 3, 1, 2, 1]
    assert found["of_one"] == [1, 2, 2, 3, 1, 1, 1]
    assert found["living"] == [1, 1, 2, 2, 2, 2, 2]
    assert found["total"] == [1, 2, 6, 6, 2, 7, 5]
    assert found["full"] == [False, False, False, True, False, True, False]


def test_instances_end_by_time() -> None:
    text = """
    stream old = count[0,99]() per k until age() >= 5
    stream silent = count[0,99]() per k until silence() > 3
    stream both = both.last(or: 0) + 1 per k until age() >= 5 or silence() > 3
    stream one = old[1]
    stream quiet = silent[1]
    """
    found = columns(text, {"k": [1, 1, 1, 2, 1, 1, 2]}, times=[0, 2, 4, 5, 8, 12, 12])
    assert found["old"] == [1, 2, 3, 1, 1, 2, 1]
    assert found["silent"] == [1, 2, 3, 1, 1, 1, 1]
    assert found["both"] == [1, 2, 3, 1, 1, 1, 1]
    assert found["one"] == [1, 2, 3, None, 1, 2, 2]
    assert found["quiet"] == [1, 2, 3, 3, 1, 1, 1]


@pytest.mark.parametrize("word", ["age", "silence"])
def test_time_ends_instances_at_the_largest_time(word: str) -> None:
    last = 2**63 - 1
    text = f"""
    stream x = x.last(or: 0) + 1 per k until {word}() >= 5
    stream y = y.last(or: 0) + 1 per k until {word}() >= {last}
    stream z = z.last(or: 0) + 1 per k until {word}() > {last}
    """
    for first, x, y in ((0, 1, 1), (5, 1, 2), (last - 1, 2, 2), (last, 2, 2)):
        found = columns(text, {"k": [1, 1, None]}, times=[first, last, last])
        assert found["x"] == [1, x, None]
        assert found["y"] == [1, y, None]
        assert found["z"] == [1, 2, None]


def test_instances_begin_where_from_holds() -> None:
    text = "stream n = count[0,9]() per k from row.b"
    found = columns(text, {"k": [1, 2, 1, 1, 2], "b": [False, True, True, False, False]})
    assert found["n"] == [None, 1, 1, 2, 2]


def test_the_held_value_of_an_instance_outlives_rows_without_one() -> None:
    text = "stream x = i per k as p on k = p and i > 1\nstream s = sum(x over x)\nstream o = x[m]"
    cells = {"k": [1, 2, 1, 2], "i": [5, 7, 0, 2], "m": [2, 1, 1, 1]}
    found = columns(text, cells)
    assert found == {"x": [5, 7, None, 2], "s": [5, 12, 12, 7], "o": [None, 5, 5, 5]}


def test_two_zeros_are_one_instance_and_nan_is_none() -> None:
    text = "stream n = count[0,9]() per g\nstream living = count(true over n)"
    found = columns(text, {"g": [0.0, -0.0, float("nan"), float("nan")]})
    assert found == {"n": [1, 2, None, None], "living": [1, 1, 1, 1]}


def test_integers_and_floats_name_the_same_instances() -> None:
    text = "stream n = count[0,9]() per k as p until g = p\nstream f = x[k]\nstream x = 1 per g"
    cells: dict[str, list[Any]] = {"k": [1, 2, 1, 1], "g": [2.0, 1.5, 1.0, 1.5]}
    assert columns(text, cells) == {"n": [1, 1, 2, 1], "f": [None, 1, 1, 1], "x": [1, 1, 1, 1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stream x = i per k\nstream y = x + 1", "x has a value for each of its instances"),
        ("stream x = i per k\nstream y = x per m", "x has a value for each of its instances"),
        ("stream x = i\nstream y = x[1]", "stream x has no instances"),
        ("stream x = i\nstream y = any(x > 1 over x)", "stream x has no instances"),
        ("stream x = i per k, m\nstream y = x[1]", "an instance of x has 2 values after per"),
        (
            "stream x = i per k\nstream y = x[s]",
            "the value after per is an integer, but this is a text",
        ),
        (
            "stream x = i per k as p until s = p",
            "the value after per is an integer, but this is a text",
        ),
        ("stream x = i per k as p until p > 3", "until does not say which p it means"),
        ("stream x = i per k as p, m as q until m = p", "until names p, but not q"),
        ("stream x = i per k as p until x.last() > 3", "at the row or tick that ends it"),
        (
            "stream x = i per k until x > y[m]\nstream y = i per k until x > y[m]",
            "stream y needs its own value at the same row",
        ),
        (
            "stream x = count[0,5]() per k until x > x[m]",
            "cannot depend on other instances of itself|needs its own value at the same row",
        ),
        (
            "stream x = count[0,5]() per k until x > max(x over x)",
            "cannot depend on other instances of itself|needs its own value at the same row",
        ),
        ("stream x = i per k as p from x > 3", "stream x needs its own values"),
        ("stream y = i per k\nstream x = i per k until y > 3", "until needs y, which is not of"),
        ("stream x = i per k every 2 until x > 3", "stream x is every 2, but i is of rows"),
        ("stream x = x[m] per k", "needs its own value at the same row"),
        ("stream x = x[m].last() per k", "cannot depend on other instances of itself"),
        ("stream x = max(x over x).last() per k", "needs its own value at the same row|cannot dep"),
        (
            "stream x = i per k\nstream y = any(x > i over x)",
            "values of instances and constants only",
        ),
        ("stream x = i per k as p from count[0,5](m = p) > 1", "cannot use p in a window"),
        (
            "stream x = i per k as p on m = p until x > 3",
            "until reads x, which has values at rows of other instances",
        ),
        (
            "stream x = i per k as p on m = p\nstream y = sum[0,5](x * 2) per k",
            "looks at x, which has values at rows of other instances",
        ),
        (
            "stream x = i per k as p on m = p until row.b\nstream y = x.last() per k",
            "the instances of x begin or end at other rows",
        ),
        (
            "stream x = i per k as p on m = p until row.b\nstream y = x per k as p on m = p",
            "the instances of x begin or end at other rows",
        ),
        (
            "stream x = i per k as p on m = p\nstream n = count[0,5]() per k\n"
            "stream y = any(x > n over x)",
            "values of instances and constants only",
        ),
        (
            "stream x = i per k as p on s = p",
            "the value after per is an integer, but this is a text",
        ),
        (
            "stream x = y.last(or: 0) + 1 per k as p on m = p\nstream y = x.last(or: 0) per k",
            "read each other, but not per instance",
        ),
        (
            "stream u = 1 every 5\nstream x = u.last() per k",
            "looks at rows or ticks of the instance only",
        ),
        ("stream x = i per k until age() < 3", "age.. is compared with a length of time alone"),
        ("stream x = i per k until age() > 3 and row.b", "is compared with a length of time alone"),
        ("stream x = i per k until silence() >= 0", "silence.. is never below 0"),
        ("stream x = i + age() per k", "age.. is for until"),
        ("stream x = i per k as p, m as p", "two values after per are called p"),
        ("stream x = i > 1 per k\npolicy q: once x", "2:16: stream x has a value for each"),
        ("stream x = 7\npolicy q: once x", "2:16: the predicate is an integer, not true or false"),
        ("stream x = s per k\nstream y = sum(x over x)", "sum takes numbers, not x"),
        (
            "stream x = y.last(or: 0) + 1 per k\nstream y = x.last(or: 0) per k until row.b",
            "read each other, but not per instance",
        ),
    ],
)
def test_what_is_not_possible_is_an_error(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        File(text).program()


@pytest.mark.parametrize(
    ("clauses", "names_own"),
    [
        ("per k as p on k = p", True),
        ("per k as p on row.b and p = k", True),
        ("per k as p on (k = p or row.b) and (row.b or k = p) and m = p", False),
        ("per k as p on k = p and i > 1 or k = p and f > 1", True),
        ("per k as p on m = p and k = p", True),
        ("per k as p on k = p or m = p", False),
        ("per k as p on row.b", False),
        ("per 1 on row.b", True),
        ("per k as p, t as q on k = p and t = q", True),
        ("per k as p, t as q on k = p", False),
        ("per k as p on not k = p", False),
    ],
)
def test_conditions_that_say_whose_row_it_is(clauses: str, names_own: bool) -> None:
    """A row calls no others if the condition says so, for mtlmon and for the reference."""
    per = clauses.partition(" on ")[0]
    file = File(f"stream x = count[0,5]() {clauses}\nstream y = sum[0,5](x) {per}")
    calls = [one for one in file.program()._families if one.calls]
    assert (not calls) is names_own
    node = Expression(ops.STREAM, (), "x")
    assert reference.is_called(node, file.reference().streams) is not names_own


def test_rows_that_call_all_instances_are_computed_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rationale: 2,000 rows would have 2 million time-points, all in one batch."""
    count = 2000
    log = pa.table(
        {
            "ts": list(range(count)),
            "k": [place % 1000 for place in range(count)],
            "i": [place % 7 for place in range(count)],
            "is_all": [place % 5 < 3 for place in range(count)],
        }
    )
    text = """
    stream n = n.last(or: 0) + i per k as p on is_all
    stream few = few.last(or: 0) + 1 per k as p on is_all and i = 6 and k % 9 = 0
    stream whole = sum(n over n)
    policy p: whole < 0
    """
    streams = streams_module.compile(text, log.schema)
    pieces = [streams.evaluate(log.slice(first, 300)) for first in range(0, count, 300)]
    found = pa.Table.from_batches(pieces)
    held: dict[int, int] = {}
    wanted = []
    for row in log.to_pylist():
        held.setdefault(row["k"], 0)
        if row["is_all"]:
            held = {key: value + row["i"] for key, value in held.items()}
        wanted.append(sum(held.values()))
    assert [value or 0 for value in found["whole"].to_pylist()] == wanted
    sizes: list[int] = []
    add_calls = Points.add_calls

    def counted(self: Points, frame: int, places: Any, own: Any) -> None:
        sizes.append(len(places))
        add_calls(self, frame, places, own)

    monkeypatch.setattr(Points, "add_calls", counted)
    text = text.replace("whole < 0", "whole % 2 = 0")
    verdicts = [answer.verdict for answer in check_log(text, log)]
    assert verdicts == [value % 2 == 0 for value in wanted]
    assert 1000 < max(sizes) < 40_000


def log_of(seed: int, size: int, keys: int) -> list[Row]:
    """Rows on which keys come and go."""
    random = np.random.default_rng(seed)
    found: list[Row] = []
    for place in range(size):
        near = place // 20
        cells: dict[str, Any] = dict.fromkeys(SCHEMA.names)
        cells["k"] = int(random.integers(near, near + keys))
        cells["m"] = int(random.integers(near - keys, near + keys))
        cells["t"] = f"t{cells['k']}"
        cells["s"] = f"t{cells['m']}"
        cells["i"] = int(random.integers(5))
        cells["f"] = float(random.choice([0.1, 1e16, -1e16, 0.5]))
        found.append((place // 3, int(random.integers(3)), cells))
    return found


COMING_AND_GOING = """
stream x = count[0,9]() per t as p until s = p
stream y = y.last(or: 0) + i per t as p until s = p
stream d = distinct[0,30](s) per t as p until s = p
stream z = f per k as p until m = p
stream q = q.last(or: 0) + 1 per k until silence() > 4 or age() >= 9
stream r = max(q over q)
stream w = sum(y over y)
stream v = sum(z over z)
stream a = max(x over x)
stream e = min(z over z)
stream o = y[s]
"""


def test_instances_that_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(3, 900, 5)
    file = File(COMING_AND_GOING)
    wanted = evaluated(file.program(), log, SCHEMA)
    reference_program = file.reference()
    compare(wanted[:120], [reference_program.row(*row) for row in log[:120]], file)
    monkeypatch.setattr(instances_module, "MOST_ENDED", 4)
    monkeypatch.setattr(program_module, "_MANY_TEXTS", 10)
    forgetting = file.program()
    found = []
    most = 0
    for start in range(0, len(log), 30):
        found += evaluated(forgetting, log[start : start + 30], SCHEMA)
        forgetting.commit()
        most = max(most, *(one.table.count - one.table.living for one in forgetting._families))
    compare(found, wanted, file)
    # what ended since the instances were looked through, without half of those that live
    assert most < 200
    assert len(forgetting._texts) < 200


def test_evaluate_can_be_undone() -> None:
    log = log_of(4, 300, 4)
    program = File(COMING_AND_GOING).program()
    wanted = evaluated(File(COMING_AND_GOING).program(), log, SCHEMA)
    found = []
    for start in range(0, len(log), 30):
        batch = log[start : start + 30]
        evaluated(program, batch[:17], SCHEMA)
        program.undo()
        evaluated(program, batch, SCHEMA)
        program.undo()
        found += evaluated(program, batch, SCHEMA)
    compare(found, wanted, "undone")


def test_traces_are_forgotten_with_their_instances() -> None:
    program = File(
        "stream n = count[0,9]() per k as p until m = p\nstream c = max(n over n)"
    ).program()

    def row(time: int, trace: int, k: int | None, m: int | None = None) -> Row:
        return time, trace, {**dict.fromkeys(SCHEMA.names), "k": k, "m": m}

    evaluated(program, [row(0, 0, 1), row(0, 1, 1), row(1, 2, 7), row(2, 1, 1)], SCHEMA)
    assert program.settled(3).tolist() == [False, False, False]
    evaluated(program, [row(2, 0, None, 1)], SCHEMA)
    assert program.settled(3).tolist() == [True, False, False]
    program.keep(np.array([2**32 - 1, 0, 1], np.uint32).tobytes())
    found = evaluated(program, [row(3, 0, 1), row(3, 1, 7), row(3, 2, 1)], SCHEMA)
    assert found == [{"n": 3, "c": 3}, {"n": 2, "c": 2}, {"n": 1, "c": 1}]


def test_a_sum_over_instances_can_overflow() -> None:
    file = File("stream x = i per k\nstream s = sum(x over x)")
    program = file.program()
    log: list[Row] = [
        (time, 0, {**dict.fromkeys(SCHEMA.names), "k": key, "i": value})
        for time, (key, value) in enumerate([(1, 2**62), (2, 2**62), (1, 0), (2, 2**62)])
    ]
    reference_program = file.reference()
    compare(evaluated(program, log, SCHEMA), [reference_program.row(*row) for row in log], file)


def test_integers_overflow_in_what_ends_instances() -> None:
    text = """
    stream x = x.last(or: 0) + i per k until x > 3
    stream w = sum(x over x)
    stream n = count[0,99]() per k until x > 3
    """
    cells = [(1, 1), (1, 2**63 - 1), (2, 5), (1, 2), (1, 2), (2, 2**63 - 1), (2, 1), (2, 2)]
    log: list[Row] = [
        (time, 0, dict.fromkeys(SCHEMA.names) | {"k": k, "i": i})
        for time, (k, i) in enumerate(cells)
    ]
    file = File(text)
    found = evaluated(file.program(), log, SCHEMA)
    judge = file.reference()
    assert [place for place, row in enumerate(found) if row is None] == [1]
    compare(found, [judge.row(*row) for row in log], file)


def test_a_row_that_overflows_later_is_not_held_against_another() -> None:
    """The sum of the second row only overflows with the first, which is left out."""
    file = File("stream x = sum[0,9](i)\nstream y = x + k")
    log: list[Row] = [
        (time, 0, {**dict.fromkeys(SCHEMA.names), "k": key, "i": value})
        for time, (key, value) in enumerate([(2**63 - 1, 2**62), (0, 2**62), (0, 1)])
    ]
    reference_program = file.reference()
    compare(
        evaluated(file.program(), log, SCHEMA), [reference_program.row(*row) for row in log], file
    )


def test_damaged_snapshots_are_refused() -> None:
    file = File(COMING_AND_GOING)
    program = file.program()
    evaluated(program, log_of(5, 100, 4), SCHEMA)
    snapshot = program.snapshot()
    with pytest.raises(SnapshotError, match="damaged"):
        file.program().restore(snapshot[:-1])
    with pytest.raises(SnapshotError, match="other streams"):
        File("stream n = count[0,9]() per t").program().restore(snapshot)


def test_many_instances_are_saved_and_restored() -> None:
    file = File(COMING_AND_GOING)
    log = log_of(6, 1500, 150)
    wanted = evaluated(file.program(), log, SCHEMA)
    program = file.program()
    found = evaluated(program, log[:900], SCHEMA)
    assert program.living_instances > 300
    snapshot = program.snapshot()
    restored = file.program()
    restored.restore(snapshot)
    assert restored.snapshot() == snapshot
    assert restored.living_instances == program.living_instances
    found += evaluated(restored, log[900:], SCHEMA)
    compare(found, wanted, file)


def test_sums_over_instances_are_exact_at_all_sizes() -> None:
    text = "stream x = f per k\nstream s = sum(x over x)"
    random = np.random.default_rng(4)
    values = [*(10.0 ** random.integers(-320, 300, 400)).tolist(), 5e-324, 1.5e308, -1.5e308]
    keys = [int(key) for key in random.integers(0, 40, len(values))]
    held: dict[int, float] = {}
    wanted = []
    for key, value in zip(keys, values, strict=True):
        held[key] = value
        wanted.append(math.fsum(held.values()))
    assert columns(text, {"f": values, "k": keys})["s"] == wanted
