"""Later values, `.next(k)`: rows wait for them, against the reference and in named cases."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon import streams
from mtlmon.errors import MtlmonError, PolicyError, SnapshotError
from tests.doors import StreamProgram, TickError
from tests.reference.later_values import Gone
from tests.streams.programs import (
    LATER,
    SCHEMA,
    LaterTexts,
    Row,
    Tick,
    evaluated,
    later_programs,
    rows,
)
from tests.streams.test_kernels import same

CUTS = st.lists(st.integers(0, 30), max_size=3)


def removed_of(ticks: list[Tick]) -> list[Gone]:
    """The rows that have gone, from the values of each expression at each of them."""
    by_name: dict[str, list[tuple[int, int, int, Any]]] = {}
    for time, trace, place, name, value in ticks:
        by_name.setdefault(name, []).append((place, time, trace, value))
    found = []
    for values in zip(*by_name.values(), strict=True):
        assert len({one[:3] for one in values}) == 1
        columns = {name: one[3] for name, one in zip(by_name, values, strict=True)}
        place, time, trace, _ = values[0]
        found.append(Gone(place, time, trace, columns))
    return found


def at_end(
    program: StreamProgram, names: Iterable[str], count: int, schema: pa.Schema = SCHEMA
) -> list[Tick]:
    """The rows that go at the end of the log."""
    nothing = pa.RecordBatch.from_pylist([], schema)
    empty = np.empty(0, np.int64), np.empty(0, np.uint32)
    while True:
        try:
            found = program.evaluate(nothing, *empty, is_end=True)
        except TickError as error:
            program.leave_out(error)
            continue
        program.forget_left_out()
        break
    ticks: list[Tick] = []
    for name in names:
        own = zip(*(one.tolist() for one in program.ticks_of(LATER)[:3]), strict=True)
        values = found[name].to_pylist()
        ticks += [
            (time, trace, place + count, name, value)
            for (time, trace, place), value in zip(own, values, strict=True)
        ]
    return ticks


def require_same(found: list[Gone], wanted: list[Gone], what: object) -> None:
    assert [one[:3] for one in found] == [one[:3] for one in wanted], what
    for one, other in zip(found, wanted, strict=True):
        assert one.values.keys() == other.values.keys()
        for name, value in one.values.items():
            wanted_value = other.values[name]
            if isinstance(value, float) and type(wanted_value) is int:
                # among floats, constants can be written as integers
                wanted_value = float(wanted_value)
            assert same(value, wanted_value), (one, other, what)


@given(later_programs(), rows(), CUTS, st.integers(0, 3))
def test_rows_wait_as_the_reference_says(
    texts: LaterTexts, log: list[Row], cuts: list[int], saved: int
) -> None:
    reference = texts.later()
    taken = [reference.row(*row) for row in log]
    program = texts.program()
    ticks: list[Tick] = []
    found: list[dict[str, Any] | None] = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved + 1:
            # texts and instances have other numbers from then on
            program.snapshot()
        if batch == saved:
            snapshot = program.snapshot()
            program = texts.program()
            program.restore(snapshot)
            assert program.snapshot() == snapshot
        before = sum(one is not None for one in found)
        found += evaluated(
            program, log[start:end], periods=texts.waiting, ticks=ticks, first=before
        )
    assert [one is not None for one in found] == taken
    require_same(removed_of(ticks), reference.removed(is_end=False), texts)
    ticks += at_end(program, texts.waiting, sum(taken))
    require_same(removed_of(ticks), reference.removed(is_end=True), texts)


@given(later_programs(), rows(), st.integers(0, 30))
def test_a_batch_can_be_undone(texts: LaterTexts, log: list[Row], cut: int) -> None:
    program = texts.program()
    evaluated(program, log[:cut], periods=texts.waiting, ticks=[])

    def rest() -> list[Tick]:
        ticks: list[Tick] = []
        evaluated(program, log[cut:], periods=texts.waiting, ticks=ticks)
        return ticks

    end = at_end(program, texts.waiting, 0)
    program.undo()
    first = rest()
    program.undo()
    require_same(removed_of(at_end(program, texts.waiting, 0)), removed_of(end), texts)
    program.undo()
    require_same(removed_of(rest()), removed_of(first), texts)


def test_states_are_equal_however_many_rows_have_come_before() -> None:
    """Rationale: else no replay of late rows would end before the last row."""
    texts = LaterTexts({}, ["i + (i).next(2)", "(i).at(+1)"])
    log: list[Row] = [(time, time % 2, {"i": time}) for time in range(4, 9)]
    states = set()
    for count in (0, 1, 4):
        program = texts.program()
        before: list[Row] = [(time, 0, {"i": time}) for time in range(count)]
        evaluated(program, before + log, periods=texts.waiting, ticks=[])
        states.add(program.snapshot())
        assert program.waiting_rows == 4
    assert len(states) == 1


def test_traces_can_be_forgotten() -> None:
    texts = LaterTexts({}, ["i + (i).next(2)"])
    program = texts.program()
    log: list[Row] = [(time, time % 3, {"i": time}) for time in range(7)]
    evaluated(program, log, periods=texts.waiting, ticks=[])
    assert program.settled(4).tolist() == [False, False, False, True]
    numbers = np.array([0, 2**32 - 1, 1], np.uint32)
    program.keep(numbers.tobytes())
    ticks: list[Tick] = []
    evaluated(program, [(8, 0, {"i": 8}), (9, 1, {"i": 9})], periods=texts.waiting, ticks=ticks)
    assert ticks == [(3, 0, 0, "i + (i).next(2)", 11), (2, 1, 1, "i + (i).next(2)", 11)]


def test_traces_keep_their_latest_values_when_others_are_forgotten() -> None:
    texts = LaterTexts({}, ["(i).at(+3)", "(s).at(+3)"])
    program = texts.program()
    log: list[Row] = [(time, time % 3, {"i": time, "s": f"s{time}"}) for time in range(6)]
    evaluated(program, log, periods=texts.waiting, ticks=[])
    program.keep(np.array([0, 2**32 - 1, 1], np.uint32).tobytes())
    ticks: list[Tick] = []
    evaluated(program, [(9, 1, {})], periods=texts.waiting, ticks=ticks)
    numbers = [one for one in ticks if one[3] == "(i).at(+3)"]
    assert numbers == [(2, 1, 0, "(i).at(+3)", 5), (5, 1, 0, "(i).at(+3)", 5)]
    assert [one[4] for one in ticks if one[3] == "(s).at(+3)"] == ["s5", "s5"]


@pytest.mark.parametrize(
    ("expression", "known", "at_end"),
    [
        # up to 3 later: the row at 3 is within that for the one at 0, and the one at 6 for that at
        # 3; those of 7 are both of one time, and wait until the row at 20, which then waits alone
        ("x.at(+3)", [3, 3, 4, 9, 9, 9], [2]),
        # of its own time, rows that follow count, too
        ("x.at(+0)", [1, 1, 3, 4, 9, 9], [2]),
        # no value above 3 comes up to 4; `or:` is for rows that are known, too
        ("large.at(+1, or: 0)", [0, 0, 0, 9, 9, 9], [9]),
        # the row at 1 waits for that at 20, though its next value but one is known at 6; the second
        # one at 7 waits for its own, though 9 is known
        ("x.at(+6) - x.next(2)", [0, 5, 0, 7, 7], [None, None]),
    ],
)
def test_the_last_value_up_to_a_later_time(
    expression: str, known: list[int], at_end: list[int | None]
) -> None:
    rows_of = pa.record_batch(
        {"ts": [0, 1, 3, 6, 7, 7, 20], "x": [1, None, 3, 4, None, 9, 2]},
    )
    text = f"stream large = x on x > 3\nstream y = {expression}"
    compiled = streams.compile(text, rows_of.schema)
    found = compiled.evaluate(rows_of)
    assert found["y"].to_pylist() == known
    assert compiled.finish()["y"].to_pylist() == at_end


def test_forged_snapshots_are_refused() -> None:
    texts = LaterTexts({}, ["s.next()", "i.next(2) + i", "s.at(+2)"])
    program = texts.program()
    log: list[Row] = [(time, time % 2, {"i": time, "s": "abc"[time % 3]}) for time in range(9)]
    evaluated(program, log, periods=texts.waiting, ticks=[])
    (holding,) = program.holdings.values()
    snapshot = holding.native.snapshot()
    for size in range(len(snapshot)):
        with pytest.raises(SnapshotError):
            holding.native.restore(snapshot[:size])
    for place in range(len(snapshot)):
        for byte in (0, 1, 0x7F, 0xFF, snapshot[place] ^ 1):
            forged = snapshot[:place] + bytes([byte]) + snapshot[place + 1 :]
            try:
                holding.native.restore(forged)
            except SnapshotError:
                continue
            assert holding.native.held_bytes < 1 << 20
    holding.native.restore(snapshot)
    assert holding.native.snapshot() == snapshot


CASES = [
    ("avg[0,5](x.next())", "avg cannot be of a value that waits for later rows"),
    ("x.next().last()", "last cannot be of a value that waits for later rows"),
    ("avg[0,5](x.at(+3))", "avg cannot be of a value that waits for later rows"),
    ("x.at(+3).at(-3)", "at cannot be of a value that waits for later rows"),
    ("x.next().next()", "next cannot be of a value that waits for later rows"),
    ("x.next(2000000)", r"next\(2000000\) looks further than 1000000 values"),
    ("s", "policy p is evaluated at rows, but s is every 10"),
    ("t.hold()", "hold cannot be of a value that waits for later rows"),
    ("r", "r needs its own value at the same row"),
]
STREAMS = """\
stream s = t.hold() + x.next() every 10
stream t = x.next()
stream r = x.next() + r
"""
ROWS = pa.table({"ts": [1, 2, 3], "k": ["a", "b", "a"], "x": [1, 2, 5]})


@pytest.mark.parametrize(("text", "message"), CASES)
def test_what_cannot_look_at_later_values(text: str, message: str) -> None:
    declared = "\n".join(
        line for line in STREAMS.splitlines() if text[0] == line[7] or text[0] == "s"
    )
    with pytest.raises(PolicyError, match=message):
        mtlmon.check(f"{declared}\npolicy p: {text} > 3", ROWS).to_arrow()


@pytest.mark.parametrize(
    ("value", "reads", "message"),
    [
        ("x per k from x.next() > 1", "s[k] > 3", "instances of s begin and end with rows"),
        ("x per k until x.at(+3) > 1", "s[k] > 3", "instances of s begin and end with rows"),
        ("t per k", "max(s over s) > 3", "over does not work yet with a stream that looks at"),
        ("x.at(+3) per k as p on x = p", "s[k] > 3", "s has values at rows of other instances"),
        ("x.at(+3) per k every 5", "s[k] > 3", "s has every, so it cannot look at later rows"),
        ("x.at(+3) per k", "s[k].last() > 3", "last cannot be of a value that waits"),
        ("x.at(+3) + s[x] per k", "s[k] > 3", "s needs its own value at the same row"),
    ],
)
def test_what_instances_cannot_wait_for(value: str, reads: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        mtlmon.check(f"stream t = x.next()\nstream s = {value}\npolicy p: {reads}", ROWS).to_arrow()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy p on every 10: x.next() > 3", "policy p is on every 10, but x.next.. looks at"),
        ("policy p on rows where x > 1: x.next() > 3", "is on rows where x > 1, but"),
        ("stream s = x.next()\npolicy p on rows where s > 1: x > 3", "but x.next.. looks at later"),
    ],
)
def test_clocks_that_cannot_wait(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        mtlmon.check(text, ROWS).to_arrow()


def test_what_is_about_the_time_of_the_whole_log() -> None:
    text = "policy p: x.next() > 3"
    with pytest.raises(MtlmonError, match="advance_every does not work with next"):
        mtlmon.check(text, ROWS, advance_every=3).finish()
