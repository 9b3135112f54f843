"""Histories compared with their reference after every batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast

import numpy as np
from hypothesis import strategies as st

from mtlmon import EventError, Formula, History, parse
from tests import strategies
from tests.doors import ChangesChanges as Changes
from tests.reference.changelog import holds
from tests.reference.history import (
    AnyArrival,
    Arrival,
    Clock,
    Count,
    EqualRetraction,
    Insert,
    Retraction,
    monitored,
    states_of,
)
from tests.traces import Advance, EndTime, Mode

Batches = Sequence[Sequence[AnyArrival]]
_Arrival = TypeVar("_Arrival", bound=AnyArrival)


def push(history: History, batch: Sequence[AnyArrival], is_keyed: bool) -> Changes:
    """Gives a batch to a history: with ids and operations only if it needs them."""
    letters = np.zeros((len(batch), len(history.atoms)), np.bool_)
    stamps = np.zeros(len(batch), np.int64)
    operations: list[str] = []
    ids: list[str | None] = []
    keys: list[str] = []
    for place, arrival in enumerate(batch):
        assert not isinstance(arrival, Count), "see `pushed`"
        ids.append(arrival.id if isinstance(arrival, Insert | Retraction) else None)
        keys.append(arrival.key if isinstance(arrival, Insert | EqualRetraction) else "nobody")
        if isinstance(arrival, Insert | EqualRetraction):
            letters[place] = [name in arrival.letter for name in history.atoms]
        if not isinstance(arrival, Retraction):
            stamps[place] = arrival.time_stamp
        if isinstance(arrival, Advance):
            operations.append("advance")
        else:
            operations.append("+" if isinstance(arrival, Insert) else "D")
    is_plain = set(operations) <= {"+"}
    return history.push(
        stamps,
        letters,
        keys=keys if is_keyed else None,
        ids=None if is_plain and not any(ids) else ids,
        operations=None if is_plain else operations,
    )


class Pushed(NamedTuple):
    """What a history says of a batch."""

    lines: list[str]
    refused: list[int]
    rejected: list[int]


def pushed(history: History, batch: Sequence[AnyArrival], is_keyed: bool) -> Pushed:
    """Gives a batch to a history, which may have counts, and what contradicts them."""
    found = Pushed([], [], [])
    first = 0
    while first < len(batch):
        arrival, rows = batch[first], list[Arrival]()
        for one in batch[first:]:
            if isinstance(one, Count):
                break
            rows.append(one)
        last = first + max(1, len(rows))
        try:
            if isinstance(arrival, Count):
                changes = history.complete(*arrival)
            else:
                changes = push(history, rows, is_keyed)
        except EventError as error:
            is_late = "may be forgotten" in error.args[0]
            last = first + 1 + (error.index or 0)
            (found.refused if is_late else found.rejected).append(last - 1)
            changes = history.push([], [])
        found.lines.extend(changes)
        found.refused.extend(first + place for place in changes.refused.tolist())
        first = last
    return found


def as_read(batches: Sequence[Sequence[_Arrival]], atoms: Sequence[str]) -> list[list[_Arrival]]:
    """The same with these atoms alone: rows are equal if what the formula reads is."""
    return [
        [
            cast("_Arrival", arrival._replace(letter=arrival.letter.intersection(atoms)))
            if isinstance(arrival, Insert | EqualRetraction)
            else arrival
            for arrival in batch
        ]
        for batch in batches
    ]


def compare(
    formula: Formula,
    batches: Batches,
    lateness: int | None,
    mode: Mode = "local",
    *,
    end_time: EndTime = None,
    is_keyed: bool = False,
    clock: Clock = "all",
    spacing: int = 0,
    interrupt: int | None = None,
) -> History:
    """Checks a history after every batch, equivalences included.

    Args:
        interrupt: the number of the batch after which another history goes on from a snapshot.
    """
    equality = any(isinstance(a, EqualRetraction) for batch in batches for a in batch)

    def make() -> History:
        return History(
            formula, mode, lateness=lateness, clock=clock, equality=equality, _spacing=spacing
        )

    history = make()
    batches = as_read(batches, history.atoms)
    changelog: list[list[str]] = []
    refused: list[int] = []
    rejected: list[int] = []
    place = 0
    states = states_of(
        batches, lateness, monitored(formula, mode), clock, end_time, equality=equality
    )
    for number, batch in enumerate(batches):
        changes = pushed(history, batch, is_keyed)
        changelog.append(changes.lines)
        refused += [place + k for k in changes.refused]
        rejected += [place + k for k in changes.rejected]
        place += len(batch)
        if number == interrupt:
            snapshot = history.snapshot()
            history = make()
            history.restore(snapshot)
            assert history.snapshot() == snapshot
        keys = history.keys if is_keyed else [None]
        for key in keys:
            bound = history.final_below(key)
            assert (bound or 0) <= states[number].final_below.get(str(key or ""), bound or 0)
            known = {(v.time_stamp, v.offset): str(v) for v in history.latest(key)}
            for (name, point), verdict in states[number].verdicts.items():
                if name == (key or "") and point[0] >= (bound or 0):
                    assert known.pop(point, None) == (None if verdict is None else str(verdict))
            assert not [point for point in known if point[0] >= (bound or 0)]
    if end_time is not None:
        changelog.append(list(history.finish(end_time)))
    holds(changelog, states, exactly=True)
    counters = history.counters
    last = states[-1]
    assert (tuple(refused), tuple(rejected)) == (last.refused, last.rejected)
    names = ("duplicates", "unmatched", "incomplete")
    assert [counters[one] for one in names] == [getattr(last, one) for one in names]
    return history


@st.composite
def arrivals(
    draw: st.DrawFn,
    *,
    keys: Sequence[str] = ("",),
    advances: bool = False,
    ids: Sequence[str] = (),
    equality: bool = False,
) -> list[list[Arrival]]:
    """Batches of events, some of which come later than their time.

    Args:
        keys: the keys they can have.
        advances: whether time can pass without events.
        ids: the ids they can have; then there are retractions, too.
        equality: whether events without ids are retracted.
    """
    clock = draw(st.integers(0, 3))
    increments = st.sampled_from([0, 0, 1, 1, 2, 3, 5, 12])
    batches: list[list[Arrival]] = [[]]
    rows: list[Insert] = []
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.integers(0, 8))
        clock += draw(increments)
        late = draw(st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8, 20]))
        letter = draw(st.frozensets(st.sampled_from(strategies.ATOMS)))
        row = Insert(max(0, clock - late), letter, draw(st.sampled_from(keys)))
        if advances and kind == 8:
            # perhaps less far than an event that is taken back later
            batches[-1].append(Advance(draw(st.sampled_from([clock, row.time_stamp]))))
        elif ids and kind in (5, 6):
            batches[-1].append(Retraction(draw(st.sampled_from(ids))))
        elif equality and kind == 7:
            wanted = draw(st.sampled_from([row, *rows]))
            batches[-1].append(EqualRetraction(*wanted[:3]))
        else:
            if rows and kind == 4:
                row = draw(st.sampled_from(rows))
            row = row._replace(id=draw(st.sampled_from([None, *ids])))
            batches[-1].append(row)
            rows.append(row)
        if draw(st.booleans()):
            batches.append([])
    return batches


@st.composite
def with_counts(draw: st.DrawFn, plain: st.SearchStrategy[list[list[Arrival]]]) -> Batches:
    """Batches with counts of the events of intervals, most of which are right."""
    batches: list[list[AnyArrival]] = [[*batch] for batch in draw(plain)]
    times = [row.time_stamp for batch in batches for row in batch if isinstance(row, Insert)]
    start = 0
    for _ in range(draw(st.integers(1, 4))):
        end = start + draw(st.integers(1, 9))
        number = sum(start <= time < end for time in times) + draw(
            st.sampled_from([0, 0, 0, 1, -1])
        )
        batch = draw(st.sampled_from(batches))
        batch.insert(draw(st.integers(0, len(batch))), Count(start, end, max(0, number)))
        start = draw(st.sampled_from([end, end, end, start, end + 1]))
    return batches


FORMULAS = st.one_of(
    strategies.formulas(), strategies.compounds(), strategies.sandwiches(), st.just(parse("p"))
)
LATENESS = st.sampled_from([None, 0, 1, 4, 9, 30])
SPACING = st.sampled_from([0, 1, 2, 3, 8, 32])
