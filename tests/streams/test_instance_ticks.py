"""Streams with `per` and `every` against the reference, and in named cases."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import MtlmonError
from tests.doors import checking_idle_keys as idle_keys
from tests.doors import streams_atoms as atoms
from tests.streams.programs import Row, Tick, all_ticks_computed, evaluated
from tests.streams.test_due_ticks import filled
from tests.streams.test_templates import (
    CUTS,
    FOLDS,
    GROUPS,
    RANKS,
    SCHEMA,
    TIMES,
    File,
    as_floats,
    grouped,
    known_groups,
    rows,
)
from tests.streams.test_ticks import expected, require_same

PER = ["per k as p", "per k", "per t as p", "per g as p", "per k as p, t as q", "per k % 2 as p"]
WINDOWS = ["count[0,3]()", "count[0,7](row.b)", "sum[0,4](i)", "avg[0,9](f)", "max[0,*)(i)"]
WINDOWS += ["min[1,5](f)", "i.last()", "i.last(2, or: 7)", "f.at(-2)", "i.hold(or: 1)", "i.hold(1)"]
WINDOWS += ["distinct[0,6](s)", "integral[0,8](i)", "median[0,9](i)", "sum[0,*)(f)"]
WINDOWS += ["increase[0,8](i)", "changes[1,6](s)", "rate[0,9](f)"]
WINDOWS += ["u.last(or: 0)", "sum[0,5](u)", "count[0,9](s = t) + 1", "sum[2,6](i + u)"]
OWN_CLOCKS = ["2 from its beginning", "3 from its beginning"]


@st.composite
def files(draw: st.DrawFn) -> File:
    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    per = one(PER)
    key = per.removeprefix("per ").split(" as ")[0]
    other = {"t": "s", "g": "m"}.get(key, "m")
    has_two = ", " in per
    equal = f"{other} = p" + (" and s = q" if has_two else "")
    ends = ["row.b"] if per == "per k" else ["row.b", equal, f"row.b and {equal}"]
    ends = [*ends, *(f"{one(ends)} or {time}" for time in TIMES), *TIMES]
    ends += ["x > 2", f"x >= 1 or {one(ends)}", "y > 3 or x is null", "x > 2 or 2 * y - x = 1"]
    end = "" if draw(st.booleans()) else " until " + one(ends)
    start = one(["", "", " from row.b", " from u > 1"])
    every = f"every {one(['1', '2', '2', '5', *OWN_CLOCKS])}"
    recursion = ["x.last(or: 0) + 1", "sum[1,9](x, or: 1) % 7 + 1", "x.last(or: 0) + i.hold(or: 1)"]
    of_known = 'x["a"]' if key == "t" else "x[1]"
    if has_two:
        of_known = 'x[1, "a"]'
    looked = f"x[{other}, s]" if has_two else f"x[{other}]"
    looked_held = f"x[{other}.hold(), s.hold()]" if has_two else f"x[{other}.hold()]"
    others = ["x", "x.last(or: 2)", "sum[0,6](x)", "x.hold()", "x.hold(1)", "x.at(-3, or: 1)"]
    lines = [
        "stream u = count[0,5](row.b)",
        f"stream x = {one([*WINDOWS, *WINDOWS, *recursion])} {per} {every}{start}{end}",
        f"stream y = {one([*WINDOWS, *others])} {per} {every}{start}{end}",
    ]
    if draw(st.booleans()):
        value = one(["x.hold()", "x.at(-3)", "x.last()", "sum[0,9](x)", "max[1,9](x) + i"])
        lines.append(f"stream r = {value} {per}{start}{end}")
    own_name = "k" if per == "per k" else "p"
    if draw(st.booleans()):
        # instances that read others at their ticks, and perhaps have fewer values behind per
        own_per, own_end = per, f"{start}{end}"
        own_group = one([own_name, *known_groups(per)])
        of_own = f"x[{own_name}, q]" if has_two else f"x[{own_name}]"
        if has_two and draw(st.booleans()):
            own_per, own_end, of_own = "per k as p", "", 'x[p, "a"]'
        other_period = f"every {one(['1', '2', '5'])}"
        reading = [*(grouped(fold, own_group) for fold in FOLDS), of_own, of_known, looked_held]
        reading += [f"{of_own}.last(or: 1)", "sum(x over x) + sum[0,4](i)"]
        if own_per == per:
            reading += [*RANKS, *(grouped(rank, own_group) for rank in RANKS)]
        lines.append(f"stream h = {one(['count[0,6](row.b)', 'sum[0,9](u)', 'i.hold()'])} every 1")
        reading += ["h", "sum(x over x) - h"]
        # streams of rows, read as of the tick or as of their last row
        counted = one(["count[0,3]()", "sum[1,4](i)", "min[2,6](f)", "i.last()", "f * 2.0"])
        lines.append(f"stream nn = {counted} {per}{start}{end}")
        of_rows = [f"sum(nn over nn by {own_group})", f"count(nn > 1 over nn by {own_group})"]
        of_rows += [of_own.replace("x[", "nn["), "max(nn over nn)"]
        if own_per == per:
            of_rows.append(f"rank(nn over nn by {own_group})")
        reading += [*of_rows, *of_rows]
        value = one(reading)
        lines.append(f"stream z = {value} {own_per} {other_period}{own_end}")
        fold = "count(z over z)" if value.startswith(("any", "all")) else "count(z is null over z)"
        lines.append(f"stream d = {fold} {other_period}")
    if draw(st.booleans()):
        # read as of now
        window = one(["count[0,4]()", "sum[2,9](i)", "count[0,3](row.b) + count[0,9]()"])
        lines.append(f"stream n = {window} {per}{start}{end}")
        lines.append(f"stream o = {one(['sum(n over n)', 'count(true over n)', looked])}")
        lines.append(f"stream j = {one(['max(n over n)', 'count(n > 1 over n)'])} every 2")
    folds = [*FOLDS, *RANKS]
    folds += [grouped(fold, one(GROUPS[per])) for fold in folds]
    lines.append(f"stream w = {one(folds)}")
    lines.append(f"stream v = {one([looked, of_known, f'sum[0,5]({looked})'])}")
    # of two zeros, any is the value after per
    if per in {"per k as p", "per t as p"} and draw(st.booleans()):
        lines.append(f"stream a = p {per} {every}{start}{end}")
    period = draw(st.sampled_from([2, 3, 10]))
    lines.append(f"stream c = {one([*FOLDS, of_known, looked_held])} every {period}")
    lines.append(f"stream e = {one(['c.last()', 'w.hold()', 'sum(x over x)'])} every {period}")
    return File("\n".join(lines))


def in_batches(
    file: File,
    log: list[Row],
    cuts: list[int],
    saved: int,
    until: int,
    *,
    only_due: bool,
    can_leave_out: bool = False,
) -> tuple[list[dict[str, Any] | None], list[Tick]]:
    """What a program computes, batch after batch, and saved and restored before one of them."""
    found: list[dict[str, Any] | None] = []
    ticks: list[Tick] = []
    program = file.program(only_due=only_due, can_leave_out=can_leave_out)
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved + 1:
            # texts and instances have other numbers from then on
            program.snapshot()
        if batch == saved:
            snapshot = program.snapshot()
            program = file.program(only_due=only_due, can_leave_out=can_leave_out)
            program.restore(snapshot)
            assert program.snapshot() == snapshot
        found += evaluated(
            program,
            log[start:end],
            SCHEMA,
            periods=file.periods,
            ticks=ticks,
            first=sum(one is not None for one in found),
            until=until if batch == len(edges) - 2 else None,
        )
    for row in filter(None, found):
        for name, value in row.items():
            row[name] = float(value) if type(value) is int else value
    return found, as_floats(ticks)


def wanted_of(
    file: File, log: list[Row], until: int
) -> tuple[list[dict[str, Any] | None], list[Tick]]:
    """What the reference computes; defaults of floats may be written as integers."""
    wanted = expected(file, log, until)
    for row in filter(None, wanted[0]):
        for name, value in row.items():
            row[name] = float(value) if type(value) is int else value
    return wanted[0], as_floats(wanted[1])


@given(files(), rows(), CUTS, st.integers(0, 3))
def test_instances_at_ticks_are_those_of_the_reference(
    file: File, log: list[Row], cuts: list[int], saved: int
) -> None:
    until = log[-1][0] + 12 if log else 7
    found = in_batches(file, log, cuts, saved, until, only_due=False)
    require_same(found, wanted_of(file, log, until), file)


@given(files(), rows(), CUTS, st.integers(0, 3), st.booleans())
def test_values_of_instances_stay_between_due_ticks(
    file: File, log: list[Row], cuts: list[int], saved: int, can_leave_out: bool
) -> None:
    until = log[-1][0] + 12 if log else 7
    wanted = wanted_of(file, log, until)
    found, due = in_batches(
        file, log, cuts, saved, until, only_due=True, can_leave_out=can_leave_out
    )
    require_same((found, filled(due, wanted[1])), wanted, file)


BUCKETS: dict[str, list[Any]] = {
    "i": [0, 1, 2, 3, 3, 7],
    "k": [0, 1],
    "m": [0, 1, 5, -2],
    "t": ["0.5", "1", "1.0", "+Inf", "Inf", "+Inf", "x", ""],
    "g": [0.0, -0.0, -1.5, 0.5, 2.0, float("inf"), float("inf"), float("nan")],
    "b": [False, False, False, True],
}


@st.composite
def histograms(draw: st.DrawFn) -> tuple[File, list[Row]]:
    """Streams of buckets and quantiles of them, and rows."""

    def one(choices: list[str]) -> str:
        return draw(st.sampled_from(choices))

    clock = one(["", " every 2", " every 5"])
    counted = ["sum[0,*)(i)", "increase[0,9](i)", "sum[0,6](i) * 0.1", "count[0,3]()"]
    end = one(["", " until row.b", " until silence() > 3"])
    own_end = end if draw(st.booleans()) else ""
    share = one(["0", "0.5", "0.9", "1"])
    group = one(["", " by p = k", " by p = 1"]) if draw(st.booleans()) else ""
    bound = one(["t", "g", "m", "g"])
    lines = [
        f"stream x = {one(counted)} per k as p, {bound} as le{clock}{end}",
        f"stream y = histogram_quantile(x over x{group}, {share})",
        f"stream z = histogram_quantile(x over x by p, {share}) per k as p{clock}{own_end}",
        f"stream w = histogram_quantile(x over x{one(['', ' by p = 1'])}, {share}) every 3",
    ]
    cells = st.fixed_dictionaries(
        {
            name: st.sampled_from([None, *BUCKETS[name] * 2]) if name in BUCKETS else st.none()
            for name in SCHEMA.names
        }
    )
    log: list[Row] = []
    for step, row in draw(st.lists(st.tuples(st.sampled_from([0, 1, 2]), cells), max_size=30)):
        log.append(((log[-1][0] if log else 0) + step, 0, row))
    return File("\n".join(lines)), log


@given(histograms(), CUTS, st.integers(0, 3))
def test_histograms_are_those_of_the_reference(
    drawn: tuple[File, list[Row]], cuts: list[int], saved: int
) -> None:
    file, log = drawn
    until = log[-1][0] + 6 if log else 7
    found = in_batches(file, log, cuts, saved, until, only_due=False)
    require_same(found, wanted_of(file, log, until), file)


def test_instances_read_streams_of_their_trace_at_the_same_tick() -> None:
    """Rationale: traces have ticks before others have any, and those between are passed over."""
    lines = ["stream t = count[0,9]() every 1", "stream x = t + count[0,9]() per k every 2"]
    file = File("\n".join([*lines, "stream c = sum(x over x) every 2"]))
    cells = dict.fromkeys(SCHEMA.names)
    points = [(1, 0, 0), (1, 1, 5), (3, 1, 6), (5, 0, 1)]
    log: list[Row] = [(time, trace, {**cells, "k": k}) for time, trace, k in points]
    for only_due in (False, True):
        _, ticks = in_batches(file, log, [2], 1, 7, only_due=only_due)
        found = [(time, trace, value) for time, trace, _, name, value in ticks if name == "c"]
        assert found == [(2, 0, 2), (2, 1, 2), (4, 0, 2), (4, 1, 6), (6, 0, 6), (6, 1, 6)]


def test_instances_that_read_others_have_all_ticks() -> None:
    """Rationale: the row enters the window at 6, and so others have another value at 10."""
    lines = ["stream x = changes[1,6](i) per k every 1"]
    lines += ["stream y = count(x is null over x by k) per k every 5"]
    lines += ["stream z = coalesce(x[k], 9) per k every 5", "stream c = sum(y over y) every 5"]
    file = File("\n".join([*lines, "stream e = sum(z over z) every 5"]))
    log: list[Row] = [(5, 0, {**dict.fromkeys(SCHEMA.names), "k": 0, "i": 3})]
    _, ticks = in_batches(file, log, [], 9, 17, only_due=True)
    assert [(time, name, value) for time, _, _, name, value in ticks] == [
        *((5, "c", 1.0), (10, "c", 0.0), (15, "c", 0.0)),
        *((5, "e", 9.0), (10, "e", 0.0), (15, "e", 0.0)),
    ]


@pytest.mark.parametrize("window", [*WINDOWS, "median[0,*)(i)", "integral[0,*)(i)"])
def test_instances_do_not_take_over_what_others_had(window: str) -> None:
    """Rationale: an instance ends, the others get new numbers, and the last has had no tick yet."""
    text = f"stream u = count[0,5](row.b)\nstream x = {window} per k as p every 2 until row.m = p"
    file = File(f"{text}\nstream c = sum(x over x) every 2\nstream w = x[1]")
    values: list[tuple[int, dict[str, Any]]] = [(4, {"k": 0, "i": 5})]
    values += [(5, {"k": 1, "i": 1, "f": 2.0, "b": True, "s": "a", "t": "a"})]
    values += [(6, {"m": 0}), (9, {"k": 2})]
    log: list[Row] = [(time, 0, dict.fromkeys(SCHEMA.names) | row) for time, row in values]
    found = in_batches(file, log, [], 1, 21, only_due=False)
    require_same(found, wanted_of(file, log, 21), file)


ROWS = pa.table(
    {
        "ts": [1, 2, 3, 14, 15, 27, 41, 55, 56, 61],
        "product": ["p", "p", "q", "q", None, "q", "p", "p", "p", "q"],
        "sold_out": [None, None, None, None, "p", None, None, None, None, None],
    }
)
VIEWS = "stream n = count[0,10]() per product as id every 10 until sold_out = id\n"


def verdicts(text: str, **options: Any) -> list[tuple[str, int, bool, str | None]]:
    table = mtlmon.check(VIEWS + text, ROWS, **options).to_arrow().to_pylist()
    return [
        (row["policy"], row["time"], row["verdict"], row.get("message"))
        for row in table
        if not row["verdict"]
    ]


def test_policies_read_the_values_at_ticks() -> None:
    text = """
    trigger hot on every 10: any(n > 1 over n) message "{max(n over n)}"
    policy rows: n["p"] is null or n["p"] < 2
    policy few on every 20: max(n over n) > 0
    """
    found = [
        ("hot", 10, False, "2"),
        ("rows", 14, False, None),
        ("rows", 15, False, None),
        ("few", 40, False, None),
        ("hot", 60, False, "2"),
        ("rows", 61, False, None),
    ]
    assert verdicts(text) == found
    with all_ticks_computed():
        assert verdicts(text) == found


def test_an_instance_that_ended_begins_without_values() -> None:
    text = """
    stream seen = seen.last(or: 0) + 1 per product as id every 10 until sold_out = id
    stream own = seen.hold() per product as id until sold_out = id
    policy never: false
    policy living on every 10: count(true over seen) = 2
    policy ticks: product = "q" or own[product] is null or own[product] < 2
    """
    found = [(name, time) for name, time, *_ in verdicts(text) if name != "never"]
    assert found == [("living", 20), ("living", 30), ("living", 40)]


def test_due_ticks_of_instances_are_few() -> None:
    file = File("stream x = count[0,20]() per k every 10\nstream w = max(x over x)")
    program = file.program(only_due=True)
    counts = []
    log: list[Row] = [
        (time, 0, {**dict.fromkeys(SCHEMA.names), "k": key})
        for time, key in [(1, 1), (2, 2), (100_000, 1), (200_000, 2)]
    ]
    for row in log:
        evaluated(program, [row], SCHEMA)
        counts.append(program.points.batch(program.instance_ticks[0].frame).count)
    # each row makes two ticks due: when it enters the window, and when it leaves it
    assert counts == [0, 0, 4, 2]


def test_ticks_are_counted_from_the_first_row_of_an_instance() -> None:
    text = """
    stream n = count[0,10]() per k every 10 from its beginning until silence() >= 25
    stream own = n.last(or: -1) per k every 10 from its beginning until silence() >= 25
    stream held = n.hold() per k until silence() >= 25
    stream both = sum(n over n) every 5
    """
    file = File(text)
    times = [(3, 1), (8, 2), (13, 1), (13, 1), (14, 2), (23, 1), (50, 1), (61, 2)]
    log: list[Row] = [(time, 0, {**dict.fromkeys(SCHEMA.names), "k": key}) for time, key in times]
    found = in_batches(file, log, [2, 3], 1, 62, only_due=False)
    require_same(found, wanted_of(file, log, 62), file)
    # 1 has ticks at 13, 23, 33, 43 and, since it began again at 50, at 60; 2 at 18 and 28
    of_rows = [row["n"] for row in found[0] if row is not None]
    assert of_rows == [None, None, None, None, None, 3, None, None]
    assert [row["held"] for row in found[0] if row is not None] == of_rows
    both = {time: value for time, _, _, name, value in found[1] if name == "both"}
    assert both[10] is None
    assert (both[15], both[20], both[25], both[30]) == (3, 5, 5, 3)
    # silence ends 2 at 39, and 1 at 48
    assert (both[35], both[40], both[45], both[50], both[55], both[60]) == (1, 1, 0, None, None, 1)


def test_values_at_ticks_end_instances_behind_them() -> None:
    text = """
    stream n = count[0,9]() per k as id every 10 until n = 0 or m = id
    stream own = n.last(or: -1) per k as id every 10 until n = 0 or m = id
    stream begun = first[0,*)(i) per k as id until n = 0 or m = id
    stream living = count(true over n) every 5
    stream value = n[1]
    """
    file = File(text)
    times = [(3, 1, 5), (4, 2, 6), (12, 1, 7), (21, 2, 8), (30, 1, 9), (31, 2, 4), (33, 1, 3)]
    log: list[Row] = [
        (time, 0, {**dict.fromkeys(SCHEMA.names), "k": key, "i": value})
        for time, key, value in times
    ]
    found = in_batches(file, log, [2, 3], 1, 62, only_due=False)
    require_same(found, wanted_of(file, log, 62), file)
    assert in_batches(file, log, [2, 3], 1, 62, only_due=True) == found
    # the row at 30 keeps 1 alive at the tick of the same time, while 2 ended at 20
    of_rows = [row for row in found[0] if row is not None]
    assert [row["begun"] for row in of_rows] == [5, 6, 5, 8, 5, 8, 5]
    assert [row["n"] for row in of_rows] == [None, None, 1, None, 1, 1, 1]
    living = {time: value for time, _, _, name, value in found[1] if name == "living"}
    assert [living[time] for time in range(5, 61, 5)] == [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0]


@pytest.mark.parametrize("clock", ["every 10", "every 10 from its beginning"])
def test_integers_overflow_in_what_ends_instances_at_ticks(clock: str) -> None:
    for end in ("n > 5", "n + 9223372036854775000 > 5"):
        text = f"""
        stream n = sum[0,9](i) per k {clock} until {end}
        stream seen = n.last(or: 0) per k {clock} until {end}
        stream sums = sum(n over n) every 5
        """
        file = File(text)
        cells = [(0, 0, 1, 3), (0, 1, 1, 2**62), (1, 0, 2, 2**62), (1, 1, 1, 2**62)]
        cells += [(2, 0, 2, 2**62), (13, 0, 2, 4), (14, 1, 1, 5), (36, 0, 1, 1)]
        log: list[Row] = [
            (time, trace, {**dict.fromkeys(SCHEMA.names), "k": key, "i": value})
            for time, trace, key, value in cells
        ]
        found = in_batches(file, log, [4], 1, 52, only_due=False)
        require_same(found, wanted_of(file, log, 52), file)


def test_a_clock_that_begins_with_what_spawns_it() -> None:
    """Rationale: `delay` and `delay_advanced` of RTLola's interpreter, in half seconds."""
    values = [1, 1, 2, 2, 2, 1, 1, 1, 1, 2, 1, 2, 2]
    rows = pa.table({"ts": range(13), "a": values})
    text = """
    stream b = a.hold(or: 0) = 2 per 1 every 2 from its beginning from a = 1 until b is not null
    trigger fired on every 2: b[1]
    """
    found = mtlmon.check(text, rows, end_time="last").to_arrow().to_pylist()
    assert [row["time"] for row in found if not row["verdict"]] == [2]


def test_the_time_itself_does_not_end_instances_at_ticks() -> None:
    text = "stream x = ts - 1 per k every 2 until x = 5\npolicy p: x[1] > 0"
    with pytest.raises(MtlmonError, match="ts has no value at the ticks that end an instance"):
        mtlmon.check(text, pa.table({"ts": [1, 2], "k": [1, 1]})).to_arrow()


def test_no_keys_are_forgotten_where_instances_have_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rationale: batches are cut where there are ticks, when keys behind the cut have numbers."""
    monkeypatch.setattr(idle_keys, "_IDLE_KEYS", 8)
    monkeypatch.setattr(atoms, "MOST_TICKS", 16)
    count = 200
    rows = pa.table({"ts": range(count), "k": [place // 2 for place in range(count)]})
    text = """
    key k
    stream n = count[0,4]() per k every 2 from its beginning until n = 0
    policy p: coalesce(n[k], 0) < 2
    """
    found = mtlmon.check(text, rows).to_arrow().to_pylist()
    assert [row["time"] for row in found] == [*range(count)]
    assert all(row["verdict"] for row in found)


def test_many_ticks_from_beginnings_are_computed_piece_by_piece() -> None:
    """Rationale: a file whose only ticks are those of instances, and a long silence."""
    rows = pa.table({"ts": [0, 3, 500_000, 500_001], "k": [1, 2, 1, 2]})
    text = """
    stream n = n.last(or: 0) + 1 per k every 1 from its beginning
    policy few: coalesce(n[1], 0) < 500000 and coalesce(n[2], 0) < 499997
    """
    found = mtlmon.check(text, rows).to_arrow().to_pylist()
    assert [row["verdict"] for row in found] == [True, True, True, False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("stream w = max(x over x) every 20", None),
        ("stream w = max(x over x) every 10", None),
        (
            "stream w = max(x over x) every 15",
            "instances with ticks every 10 are read at other ticks",
        ),
        ("stream w = x.hold() per k", None),
        ("stream w = sum[0,9](x) per k", "sum[0,9](x) looks at ticks of an instance"),
        ("stream w = x.last() per k every 10", "x.last() looks at earlier ticks of an instance"),
        ("stream w = x.hold(1) per k every 10", "x.hold(1) looks at earlier ticks of an instance"),
        (
            "stream w = integral[0,9](i) per k every 10",
            "integral[0,9](i) changes in an instance without rows",
        ),
    ],
)
def test_instances_have_reasons_for_computing_every_tick(text: str, reason: str | None) -> None:
    program = File(f"stream x = count[0,20]() per k every 10\n{text}").program(only_due=True)
    ticks = [one for one in program.instance_ticks if one.due is None]
    assert {one.reason for one in program.obstacles} <= {reason}
    if "over" in text:
        assert (program.due_ticks is None) == (reason is not None)
    else:
        assert bool(ticks) == (reason is not None)


def test_due_ticks_from_beginnings_are_few() -> None:
    file = File(
        "stream x = count[0,20]() per k every 10 from its beginning\nstream w = max(x over x)"
    )
    program, every = file.program(only_due=True), file.program()
    counts = []
    log: list[Row] = [
        (time, 0, {**dict.fromkeys(SCHEMA.names), "k": key})
        for time, key in [(1, 1), (2, 2), (100_000, 1), (200_000, 2)]
    ]
    for row in log:
        assert evaluated(program, [row], SCHEMA) == evaluated(every, [row], SCHEMA)
        counts.append(program.points.batch(program.instance_ticks[0].frame).count)
    # the first one, the one when the row leaves the window, and those of the row at 100,000
    assert counts == [0, 0, 4, 2]


def test_a_tick_of_a_trace_is_left_out_with_those_of_its_instances() -> None:
    file = File(
        "stream x = sum[0,5](i) per k every 2\nstream w = count(true over x)\n"
        "stream y = max(x over x) every 2"
    )
    log: list[Row] = [
        (time, trace, {**dict.fromkeys(SCHEMA.names), "k": key, "i": value})
        for time, trace, key, value in [
            *((0, 0, 1, 2**62), (1, 0, 1, 2**62), (1, 0, 2, 5), (1, 1, 1, 3), (3, 0, 2, 1)),
            (9, 0, 2, 1),
        ]
    ]
    found = in_batches(file, log, [3], 1, 11, only_due=False)
    wanted = wanted_of(file, log, 11)
    require_same(found, wanted, file)
    times = {(time, trace) for time, trace, *_ in wanted[1]}
    assert (2, 1) in times
    assert (2, 0) not in times


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stream x = i per k every 2", "x is every 2, but i is of rows"),
        ("stream x = u per k every 2", "x is every 2, but u is of rows"),
        ("stream x = t per k every 3", "x is every 3, but t is every 2"),
        ("stream x = sum[0,9](t) per k every 2", "looks at rows or ticks of the instance only"),
        (
            "stream x = 1 per k every 2\nstream y = sum[0,9](x) per k every 4",
            "looks at rows or ticks of the instance only",
        ),
        (
            "stream x = 1 per k every 2\nstream y = x per k every 4",
            "x has no value at the ticks of an instance",
        ),
        (
            "stream x = 1 per k every 2 until row.b\nstream y = sum[0,9](x) per k every 2",
            "looks at rows or ticks of the instance only",
        ),
        ("stream x = 1 per k every 2\nstream y = x per k", "y is evaluated at rows, but x is ev"),
        ("stream x = 1 per k every 2\nstream y = x", "has a value for each of its instances"),
        ("stream x = x[k] + 1 per k every 2", "stream x needs its own value at the same tick"),
        (
            "stream x = sum(x over x).last(or: 0) + 1 per k every 2",
            "cannot depend on other instances of itself",
        ),
        (
            "stream x = sum(y over y by k = x.last()) per k every 2\nstream y = 1 per k every 2",
            "cannot choose a group of instances by its own values",
        ),
        ("stream x = 1 per k every 2\nstream y = sum(x over x by m) every 2", "have no m"),
        ("stream x = 1 per k every 2\nstream y = sum(x over x by k) every 2", "k is of rows"),
        (
            "stream x = 1 per k every 2\nstream y = rank(x over x) every 2",
            "a rank is of an instance",
        ),
        ("stream x = 1 per k\nstream y = rank(x over x) per m every 2", "a rank is of an instance"),
        ("stream y = rank(i)", "rank is over instances of a stream"),
        ("stream y = histogram_quantile(i, 0.9)", "histogram_quantile is over instances"),
        ("stream x = 1 per k\nstream y = histogram_quantile(x over x)", "takes a number from 0"),
        ("stream x = 1 per k\nstream y = histogram_quantile(x over x, 0.9)", "the upper bounds of"),
        ("stream x = x + 1 per k every 2", "stream x needs its own value at the same tick"),
        ("stream x = 1 per k on k = 1 every 2", "rows or on ticks, not on both"),
        ("stream x = 1 per k every 2 until x = 1 and b", "x is every 2, but b is of rows"),
        (
            "stream x = y[1] per k every 2 until x > 3\nstream y = 1 per m every 2",
            "reads other instances, which cannot end an instance at its ticks",
        ),
        (
            "stream x = t per k every 2 until x > 3",
            "has no value at the ticks that end an instance",
        ),
        ("stream x = 1 per k every 2 until x.last() = 1", "at the row or tick that ends it"),
        (
            "stream x = 1 per k every 2 until x = 1 or y = 1\n"
            "stream y = 1 per k every 4 until x = 1 or y = 1",
            "until reads ticks of several periods, those of [xy] among them",
        ),
        (
            "stream x = sum[0,5](y) per k every 2 until x = 1\nstream y = i per k until x = 1",
            "until needs y, which is not of the same ticks",
        ),
        ("stream x = 1 per k until y = 1\nstream y = 1 per k every 2", "not of the same ticks"),
        ("stream x = 1 every 2 from its beginning", "its beginning is that of an instance"),
        (
            "stream y = count[0,3]() per k\nstream x = y[k] per k every 2 from its beginning",
            "windows of y are not read at ticks that an instance counts for itself",
        ),
        (
            "stream y = count[0,3]() per k\n"
            "stream x = sum(y over y) per k every 2 from its beginning",
            "windows of y are not read at ticks that an instance counts for itself",
        ),
        (
            "stream x = i per k every 2 from its beginning",
            "x is every 2 from its beginning, but i is of rows",
        ),
        (
            "stream x = t per k every 2 from its beginning",
            "x is every 2 from its beginning, but t is every 2",
        ),
        (
            "stream x = 1 per k every 2\nstream y = x per k every 2 from its beginning",
            "y is every 2 from its beginning, but x is every 2",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        File(f"stream u = i + 1\nstream t = 1 every 2\n{text}").program()
