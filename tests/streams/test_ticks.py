"""Streams at the ticks of periods, against the reference and in named cases."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon.errors import PolicyError
from tests.streams.programs import (
    Referable,
    Row,
    StreamText,
    Texts,
    Tick,
    evaluated,
    recursive_ticking_programs,
    rows,
    ticking_programs,
)
from tests.streams.test_kernels import same


def expected(
    texts: Referable, log: list[Row], until: int
) -> tuple[list[dict[str, Any] | None], list[Tick]]:
    """What the reference computes on each row and at each tick."""
    program = texts.reference()
    found = [program.row(*row) for row in log]
    if program.clock is not None:
        program.tick(until)
    ticks = [
        (time, trace, place, name, value)
        for time, trace, place, values in program.ticks
        for name, value in values.items()
    ]
    return found, ticks


def by_name(ticks: list[Tick]) -> dict[str, list[tuple[int, int, int, Any]]]:
    """The ticks of each expression, in order."""
    found: dict[str, list[tuple[int, int, int, Any]]] = {}
    for time, trace, place, name, value in ticks:
        found.setdefault(name, []).append((time, trace, place, value))
    return found


def require_same(
    found: tuple[list[dict[str, Any] | None], list[Tick]],
    wanted: tuple[list[dict[str, Any] | None], list[Tick]],
    what: object,
) -> None:
    assert len(found[0]) == len(wanted[0])
    for row, (one, other) in enumerate(zip(found[0], wanted[0], strict=True)):
        assert (one is None) == (other is None), (row, one, other, what)
        for name in one or ():
            assert one is not None
            assert other is not None
            assert same(one[name], other[name]), (row, name, one[name], other[name], what)
    own, others = by_name(found[1]), by_name(wanted[1])
    assert own.keys() == others.keys(), what
    for name, ticks in own.items():
        assert [tick[:3] for tick in ticks] == [tick[:3] for tick in others[name]], (name, what)
        for tick, other_tick in zip(ticks, others[name], strict=True):
            assert same(tick[3], other_tick[3]), (name, tick, other_tick, what)


def in_batches(
    texts: Texts,
    log: list[Row],
    cuts: list[int],
    saved: int,
    until: int,
    *,
    only_due: bool = False,
    can_leave_out: bool = False,
) -> tuple[list[dict[str, Any] | None], list[Tick]]:
    """What a program computes, batch after batch, and saved and restored before one of them."""
    program = texts.program(only_due=only_due, can_leave_out=can_leave_out)
    found: list[dict[str, Any] | None] = []
    ticks: list[Tick] = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved:
            snapshot = program.snapshot()
            program = texts.program(only_due=only_due, can_leave_out=can_leave_out)
            program.restore(snapshot)
            assert program.snapshot() == snapshot
        is_last = batch == len(edges) - 2
        found += evaluated(
            program,
            log[start:end],
            periods=texts.periods,
            ticks=ticks,
            first=sum(one is not None for one in found),
            until=until if is_last else None,
        )
    return found, ticks


CUTS = st.lists(st.integers(0, 30), max_size=3)


@given(ticking_programs(), rows(), CUTS, st.integers(0, 3))
def test_programs_are_those_of_the_reference(
    texts: Texts, log: list[Row], cuts: list[int], saved: int
) -> None:
    until = log[-1][0] + 7 if log else 7
    wanted = expected(texts, log, until)
    require_same(in_batches(texts, log, cuts, saved, until), wanted, texts)


@given(recursive_ticking_programs(), rows(), CUTS, st.integers(0, 3))
def test_recursive_programs_are_those_of_the_reference(
    texts: Texts, log: list[Row], cuts: list[int], saved: int
) -> None:
    try:
        texts.program()
    except PolicyError as error:
        # the type of a stream that reads itself is not always found
        assume("both must have the same type" not in str(error))
        raise
    until = log[-1][0] + 7 if log else 7
    wanted = expected(texts, log, until)
    require_same(in_batches(texts, log, cuts, saved, until), wanted, texts)


ROW = {"i": None, "f": None, "b": None, "s": None}


def both(texts: Texts, log: list[Row], until: int) -> list[Tick]:
    """The ticks of a program, which are those of the reference, as are its rows."""
    wanted = expected(texts, log, until)
    for cuts in ([], [2], [1, 3, 4]):
        require_same(in_batches(texts, log, cuts, 1, until), wanted, texts)
    return wanted[1]


def log_of(*cells: tuple[int, int]) -> list[Row]:
    return [(time, 0, {**ROW, "i": value}) for time, value in cells]


def test_rows_and_ticks_read_each_other() -> None:
    """A row sees the ticks below its time, and a tick the rows up to its own."""
    streams: dict[str, StreamText] = {
        "x": ("i + y.hold(or: 0)", None),
        "y": ("x.hold(or: 0) * 10", None, 2),
    }
    ticks = both(Texts(streams, ["x", ("y", 2)]), log_of((0, 1), (2, 2), (2, 3), (3, 4)), 5)
    assert [(time, value) for time, *_, value in ticks] == [(0, 10), (2, 130), (4, 1340)]


def test_ticks_of_two_periods_read_each_other() -> None:
    streams: dict[str, StreamText] = {
        "x": ("y.last(or: 0) + 1", None, 2),
        "y": ("x * 10 + z.hold(or: 0)", None, 6),
        "z": ("i + y.at(-1, or: 0)", None),
    }
    texts = Texts(streams, [("x", 2), ("y", 6), "z"])
    ticks = both(texts, log_of((0, 1), (5, 2), (7, 3), (12, 1)), 15)
    found: dict[str, list[tuple[int, Any]]] = {"x every 2": [], "y every 6": []}
    for time, _, _, name, value in ticks:
        found[name].append((time, value))
    assert found["y every 6"] == [(0, 11), (6, 133), (12, 1474)]


def test_a_window_over_rows_with_the_stream_itself() -> None:
    streams: dict[str, StreamText] = {"x": ("sum[0,4](i + x.hold(or: 1))", None, 2)}
    ticks = both(Texts(streams, [("x", 2)]), log_of((0, 1), (1, 2), (3, 3)), 9)
    assert [value for *_, value in ticks] == [2, 6, 15, 9, None]


def test_streams_of_two_periods_that_need_each_other_at_a_tick() -> None:
    streams: dict[str, StreamText] = {"x": ("y.hold()", None, 4), "y": ("x.hold()", None, 6)}
    with pytest.raises(PolicyError, match="streams x, y need each other at the same tick"):
        Texts(streams, [("x", 4)]).program()
    # one of the two is enough
    streams["y"] = ("coalesce(x.last(), 0) + i.hold(or: 5)", None, 6)
    both(Texts(streams, [("x", 4), ("y", 6)]), log_of((0, 1), (5, 2), (20, 3)), 30)


def test_an_overflow_in_one_of_two_clocks() -> None:
    streams: dict[str, StreamText] = {
        "x": ("i + y.hold(or: 0)", None),
        "y": ("x.hold(or: 0) + y.last(or: 0)", None, 2),
    }
    texts = Texts(streams, ["x", ("y", 2)])
    most = 2**63 - 1
    both(texts, log_of((0, most - 3), (1, 9), (2, 1), (3, 1), (7, -most), (9, 3)), 12)
