"""Programs over streams against the reference, over batches, traces and snapshots."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import PolicyError, RowError, SnapshotError
from tests.doors import streams_program as program_module
from tests.streams.programs import (
    SCHEMA,
    Row,
    Texts,
    evaluated,
    expected,
    programs,
    recursive_programs,
    rows,
)
from tests.streams.test_kernels import same


def compare(
    found: list[dict[str, Any] | None], wanted: list[dict[str, Any] | None], what: object
) -> None:
    assert len(found) == len(wanted)
    for row, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert (one is None) == (other is None), (row, one, other, what)
        if one is not None and other is not None:
            for name, value in one.items():
                assert same(value, other[name]), (row, name, value, other[name], what)


@given(programs(), rows(), st.lists(st.integers(0, 30), max_size=3), st.integers(0, 3))
def test_programs_are_those_of_the_reference(
    texts: Texts, log: list[Row], cuts: list[int], saved: int
) -> None:
    program = texts.program()
    found: list[dict[str, Any] | None] = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved:
            snapshot = program.snapshot()
            program = texts.program()
            program.restore(snapshot)
            assert program.snapshot() == snapshot
            used = texts.program()
            evaluated(used, log[-9:])
            used.restore(snapshot)
            program = used if len(log) % 2 else program
        found += evaluated(program, log[start:end])
    compare(found, expected(texts, log), texts)


@given(recursive_programs(), rows(), st.integers(0, 30))
def test_recursive_programs_are_those_of_the_reference(
    texts: Texts, log: list[Row], cut: int
) -> None:
    program = texts.program()
    found = evaluated(program, log[:cut])
    snapshot = program.snapshot()
    program = texts.program()
    program.restore(snapshot)
    compare(found + evaluated(program, log[cut:]), expected(texts, log), texts)


def run(texts: Texts, cells: dict[str, list[Any]], times: list[int] | None = None) -> list[Any]:
    """The values of the first wanted expression on rows of one trace."""
    count = len(next(iter(cells.values())))
    batch = pa.RecordBatch.from_pydict(
        {name: cells.get(name, [None] * count) for name in SCHEMA.names}, SCHEMA
    )
    time_stamps = np.array(range(count) if times is None else times, np.int64)
    found = texts.program().evaluate(batch, time_stamps)
    return list(found[next(iter(texts.wanted))].to_pylist())


def test_a_count_is_of_the_rows_within_the_window() -> None:
    texts = Texts({"fails": "count[0,2](b)"}, ["fails >= 2"])
    assert run(texts, {"b": [True, None, True, True, False]}) == [False, False, True, True, True]


def test_rows_of_one_time_stamp_see_those_before_them_and_themselves() -> None:
    texts = Texts({}, ["count[0,0]()"])
    assert run(texts, {"b": [True] * 4}, [5, 5, 5, 6]) == [1, 2, 3, 1]


def test_a_stream_has_values_where_on_holds() -> None:
    texts = Texts({"x": ("i * 10", "b")}, ["x.last(or: -1)"])
    assert run(texts, {"i": [1, 2, 3, 4], "b": [True, False, True, None]}) == [-1, 10, 10, 30]


def test_held_values_count_on_the_clock_of_their_stream() -> None:
    """Where b has no value, the one before its newest value is two values ago.

    This is how RTLola counts in `b[-1, 0]`: the newest value of b is `b[0, 0]`.
    """
    cells: dict[str, list[Any]] = {"i": [1, 4, None, 8, 9], "f": [1.0, None, 9.0, None, None]}
    texts = Texts({"difference": "abs(i.hold(or: 0) - f.hold(1, or: 0.0))"}, ["difference"])
    assert run(texts, cells) == [1.0, 4.0, 3.0, 7.0, 8.0]
    texts = Texts({"difference": "abs(i.hold(or: 0) - f.last(or: 0.0))"}, ["difference"])
    assert run(texts, cells) == [1.0, 3.0, 3.0, 1.0, 0.0]


def test_held_values_of_a_stream_with_a_condition_are_those_where_it_holds() -> None:
    texts = Texts({"x": ("i * 10", "b")}, ["x.hold(1, or: -1)", "x.hold(2)"])
    cells: dict[str, list[Any]] = {"i": [1, 2, 3, 4], "b": [True, False, True, True]}
    assert run(texts, cells) == [-1, -1, 10, 30]


def test_held_values_have_a_largest_distance() -> None:
    with pytest.raises(PolicyError, match=r"hold\(1000000\) looks back further than 999999 values"):
        Texts({}, ["i.hold(1000000) > 1"]).program()


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ({"x": "x.hold(1, or: 0) + i"}, "stream x needs its own value at the same row"),
        ({"x": "x + 1"}, "stream x needs its own value at the same row"),
        ({"x": "sum[0,5](x)"}, "stream x needs its own value at the same row"),
        ({"x": "y + 1", "y": "x * 2"}, "streams x, y need each other at the same row"),
        ({"x": "x.hold() + 1"}, "stream x needs its own value at the same row"),
        ({"x": "i.next()"}, "looks at later rows"),
        ({"x": "no + 1"}, "there is no column no"),
    ],
)
def test_what_cannot_be_computed_is_an_error(streams: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Texts(streams, ["x > 1"]).program()


def test_a_stream_that_needs_itself_gets_advice() -> None:
    with pytest.raises(PolicyError, match=r"write x\.last\(or: 0\)"):
        Texts({"x": "x + i"}, ["x > 1"]).program()


def test_rows_that_overflow_are_named_and_leave_no_trace() -> None:
    texts = Texts({}, ["sum[0,10](i)", "i * 2"])
    program = texts.program()
    batch = pa.RecordBatch.from_pydict(
        {"i": [2**62 - 1, 2**62, 2**62, 5], "f": [0.0] * 4, "b": [True] * 4, "s": [""] * 4}, SCHEMA
    )
    time_stamps = np.arange(4)
    before = program.snapshot()
    with pytest.raises(RowError, match=r"i \* 2 overflows 64 bits") as refused:
        program.evaluate(batch, time_stamps)
    assert refused.value.rows == (1, 2)
    assert program.snapshot() == before


def test_only_the_first_of_the_rows_that_a_sum_refuses_is_named() -> None:
    texts = Texts({}, ["sum[0,10](i)"])
    cells = {"i": [2**62, 2**62, 2**62, -5]}
    log: list[Row] = [
        (time, 0, {"i": value, "f": None, "b": None, "s": None})
        for time, value in enumerate(cells["i"])
    ]
    program = texts.program()
    batch = pa.RecordBatch.from_pylist([row[2] for row in log], SCHEMA)
    with pytest.raises(RowError) as refused:
        program.evaluate(batch, np.arange(4))
    assert refused.value.rows == (1,)
    assert evaluated(program, log) == [
        {"sum[0,10](i)": 2**62},
        None,
        None,
        {"sum[0,10](i)": 2**62 - 5},
    ]


def test_evaluate_can_be_undone() -> None:
    program = Texts({}, ["sum[0,10](i)"]).program()
    log: list[Row] = [(0, 0, {"i": 3, "f": None, "b": None, "s": None})]
    assert evaluated(program, log) == [{"sum[0,10](i)": 3}]
    assert evaluated(program, log) == [{"sum[0,10](i)": 6}]
    program.undo()
    assert evaluated(program, log) == [{"sum[0,10](i)": 6}]


@pytest.mark.parametrize(
    "text",
    [
        "count[1,3](x < 2) + i",
        "if any[1,4](x > 2) then i else x.last(or: 1) + 1",
        "if all[1,4](x < 3, or: false) then i else 2",
        "count[2,*)(x = 3) + distinct[1,9](x, or: 2)",
        "if (x.last(or: 0) in (1, 2.0, 2.5)) = (x.last(2) < 1.5) then i else -x.last(or: 5)",
        "sum[1,4](if x < 0.5 then 1 else i) % 3",
    ],
)
def test_aggregates_of_own_values_are_those_of_the_reference(text: str) -> None:
    texts = Texts({"x": text}, ["x"])
    random = np.random.default_rng(7)
    log: list[Row] = [
        (time // 2, time % 2, {"i": int(random.integers(4)), "f": None, "b": None, "s": None})
        for time in range(80)
    ]
    compare(evaluated(texts.program(), log), expected(texts, log), texts)


def test_an_empty_batch_has_no_results() -> None:
    texts = Texts({"x": "x.last(or: 0) + i"}, ["x", "first[0,5](s)", "count[0,1]()"])
    program = texts.program()
    assert evaluated(program, []) == []
    found = program.evaluate(pa.RecordBatch.from_pylist([], SCHEMA), np.empty(0, np.int64))
    assert [len(values) for values in found.values()] == [0, 0, 0]


def test_a_snapshot_of_other_streams_is_refused() -> None:
    snapshot = Texts({}, ["sum[0,10](i)", "count[0,1]()"]).program().snapshot()
    with pytest.raises(SnapshotError, match="other streams"):
        Texts({}, ["sum[0,10](i)"]).program().restore(snapshot)
    with pytest.raises(SnapshotError, match="not a snapshot"):
        Texts({}, ["sum[0,10](i)"]).program().restore(b"x")
    with pytest.raises(SnapshotError, match="damaged"):
        Texts({}, ["sum[0,10](i)"]).program().restore(snapshot[:-1])


def test_settled_traces_are_forgotten() -> None:
    program = Texts({}, ["sum[0,10](i)"]).program()

    def row(time: int, trace: int) -> Row:
        return time, trace, {"i": 1, "f": None, "b": None, "s": None}

    evaluated(program, [row(0, 0), row(8, 1), row(11, 2)])
    assert program.settled(3).tolist() == [True, False, False]
    program.keep(np.array([2**32 - 1, 0, 1], np.uint32).tobytes())
    assert evaluated(program, [row(12, 0), row(12, 1), row(12, 2)]) == [
        {"sum[0,10](i)": 2},
        {"sum[0,10](i)": 2},
        {"sum[0,10](i)": 1},
    ]


def test_texts_that_no_state_has_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program with few texts at a time has the results of one that keeps all."""
    random = np.random.default_rng(5)
    texts = Texts(
        {"x": ('if s = "t7" then s else coalesce(x.last(), "none")', None)},
        [
            *("distinct[0,9](s)", "first[0,4](s)", "last[2,7](s)"),
            *("s.last(3)", "s.at(-5)", "first[2,*)(s)", "x"),
        ],
    )
    log: list[Row] = [
        (
            time // 3,
            int(random.integers(3)),
            {"i": 0, "f": 0.0, "b": True, "s": f"t{random.integers(time // 2, time // 2 + 20)}"},
        )
        for time in range(600)
    ]
    program = texts.program()
    wanted = evaluated(program, log)
    monkeypatch.setattr(program_module, "_MANY_TEXTS", 10)
    forgetting = texts.program()
    found = []
    for start in range(0, 600, 20):
        found += evaluated(forgetting, log[start : start + 20])
        snapshot = forgetting.snapshot()
        forgetting = texts.program()
        forgetting.restore(snapshot)
    assert found == wanted
    without = Texts({}, ["distinct[0,9](s)"]).program()
    sizes = []
    for start in range(0, 600, 20):
        evaluated(without, log[start : start + 20])
        sizes.append(len(without._texts))
    assert max(sizes) < 100


@pytest.mark.parametrize("interval", ["[0,3]", "[2,5]", "[0,*)"])
def test_texts_keep_their_order_when_others_are_forgotten(
    interval: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "_MANY_TEXTS", 4)
    texts = Texts({}, [f"min{interval}(s)", f"max{interval}(s)"])
    values = ["m", "b", "x", "a", "c", "zz", "k", "b", "q", "é", "d", "", "n", "l"]
    program = texts.program()
    found: list[Any] = []
    for time, value in enumerate(values):
        log: list[Row] = [(time, 0, {"i": None, "f": None, "b": None, "s": value})]
        found += evaluated(program, log)
        program.commit()
        snapshot = program.snapshot()
        program = texts.program()
        program.restore(snapshot)
    log = [
        (time, 0, {"i": None, "f": None, "b": None, "s": value})
        for time, value in enumerate(values)
    ]
    compare(found, expected(texts, log), texts)
