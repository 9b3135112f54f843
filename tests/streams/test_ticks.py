"""Streams at the ticks of periods, against the reference and in named cases."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon.errors import PolicyError
from tests.streams.programs import (
    Referable,
    Row,
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
) -> tuple[list[dict[str, Any] | None], list[Tick]]:
    """What a program computes, batch after batch, and saved and restored before one of them."""
    program = texts.program(only_due=only_due)
    found: list[dict[str, Any] | None] = []
    ticks: list[Tick] = []
    edges = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log), len(log)]
    for batch, (start, end) in enumerate(pairwise(edges)):
        if batch == saved:
            snapshot = program.snapshot()
            program = texts.program(only_due=only_due)
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
        assume("reads the stream itself" not in str(error))
        assume("they read each other" not in str(error))
        # the type of a stream that reads itself is not always found
        assume("both must have the same type" not in str(error))
        raise
    until = log[-1][0] + 7 if log else 7
    wanted = expected(texts, log, until)
    require_same(in_batches(texts, log, cuts, saved, until), wanted, texts)
