"""Retractions, ids and corrections against the reference, and counted intervals."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import EventError, Formula, History, MtlmonError, SnapshotError
from tests.doors import WITHDRAWN
from tests.history.comparing import (
    FORMULAS,
    LATENESS,
    SPACING,
    Batches,
    arrivals,
    compare,
    push,
    with_counts,
)
from tests.traces import MODES, EndTime, Mode

IDS = ("i", "j", "k")


@settings(max_examples=150)
@given(
    FORMULAS,
    st.sampled_from(MODES),
    arrivals(ids=IDS, advances=True),
    LATENESS,
    SPACING,
    st.sampled_from([None, 3, 40, "last", "inf"]),
)
def test_ids(
    formula: Formula,
    mode: Mode,
    batches: Batches,
    lateness: int | None,
    spacing: int,
    end_time: EndTime,
) -> None:
    compare(formula, batches, lateness, mode, end_time=end_time, spacing=spacing)


@settings(max_examples=120)
@given(
    FORMULAS,
    st.sampled_from(MODES),
    arrivals(ids=IDS, advances=True, equality=True, keys=("a", "b")),
    LATENESS,
    SPACING,
    st.integers(0, 8),
)
def test_keys_equality_and_snapshots(
    formula: Formula,
    mode: Mode,
    batches: Batches,
    lateness: int | None,
    spacing: int,
    interrupt: int,
) -> None:
    compare(formula, batches, lateness, mode, is_keyed=True, spacing=spacing, interrupt=interrupt)


@settings(max_examples=60)
@given(
    FORMULAS,
    arrivals(ids=IDS, equality=True, keys=("a", "b")),
    LATENESS,
    SPACING,
    st.integers(0, 8),
)
def test_a_clock_for_each_key(
    formula: Formula, batches: Batches, lateness: int | None, spacing: int, interrupt: int
) -> None:
    compare(
        formula, batches, lateness, is_keyed=True, clock="key", spacing=spacing, interrupt=interrupt
    )


@pytest.mark.parametrize("by_id", [True, False])
def test_a_retraction_that_is_as_late_as_can_be_meets_a_row_that_waits(by_id: bool) -> None:
    """Rationale: it is admitted, and what has waited for all that is admitted never changes."""
    history = History("p IMPLIES EVENTUALLY[0,3] q", lateness=5, wait=5, equality=not by_id)
    for time_stamp, letter in ((10, 0b01), (12, 0b10), (15, 0)):
        history.push([time_stamp], [letter], ids=[f"e{time_stamp}"] if by_id else None)
    assert history.counters["waiting"] == 3
    if by_id:
        history.retract(id="e10")
    else:
        history.retract(10, {"p"})
    emitted = [str(line) for line in [*history.push([30], [0]), *history.finish()]]
    assert [line for line in emitted if "@" not in line] == ["12:0 true", "15:0 true", "30:0 true"]


@settings(max_examples=60)
@given(FORMULAS, arrivals(ids=IDS, advances=True), st.integers(0, 30), st.integers(0, 9), SPACING)
def test_waiting(formula: Formula, batches: Batches, wait: int, more: int, spacing: int) -> None:
    """Events that are retracted while they wait have never come: they take no name."""

    def make() -> History:
        return History(formula, lateness=wait + more, wait=wait, _spacing=spacing)

    history = make()
    lines: list[str] = []
    for batch in batches:
        for arrival in batch:
            lines += push(history, [arrival], False)
            snapshot = history.snapshot()
            history = make()
            history.restore(snapshot)
            assert history.snapshot() == snapshot
    lines += history.finish()
    if more == 0:
        # What has waited as long as any retraction may come late is never wrong.
        bounds = "@" if wait else "@x"
        assert not [line for line in lines if line[0] == "!" and line[1] not in bounds]
    # The same rows in a history without a wait, whose names have gaps.
    plain = History(formula, lateness=wait + more)
    for batch in batches:
        push(plain, batch, False)
    plain.finish()
    assert history.counters["refused"] == plain.counters["refused"]
    assert history.counters["retracted"] == plain.counters["retracted"]
    assert history.counters["duplicates"] == plain.counters["duplicates"]
    times = [getattr(one, "time_stamp", 0) for batch in batches for one in batch]
    if wait + more >= max(times, default=0):
        # Nothing is forgotten.
        assert values_in_order(history) == values_in_order(plain)


def test_an_event_that_is_corrected_while_it_waits_does_not_come_back() -> None:
    """Rationale: 5 waits until 11, as it may be retracted up to 10; it is, so it has never come.

    After its correction is retracted as well, no event with an id is known. That ended the wait of
    such rows, and a snapshot had the event as if nothing had become of it.
    """

    def make() -> History:
        return History("p", lateness=5, wait=5)

    history = make()
    lines = list(history.push([5, 8, 10], [1, 1, 1], ids=["a", None, None]))
    for change in (([9], [0], "+"), ([0], [0], "-")):
        stamps, letters, operation = change
        lines += history.push(stamps, letters, ids=["a"], operations=[operation])
        snapshot = history.snapshot()
        history = make()
        history.restore(snapshot)
    # the next event of time-stamp 5 has the first name
    lines += history.push([5, 30], [0, 1])
    lines += history.finish()
    assert [line for line in lines if "@" not in line] == [
        *("5:0 false", "8:0 true", "10:0 true", "30:0 true")
    ]


def test_a_retracted_event_has_never_come() -> None:
    """Long histories: chunks are many, and replays end early."""
    source = np.random.default_rng(5)
    for formula in ("EVENTUALLY[0,9] p", "p SINCE q", "ONCE[0,9] p", "PREVIOUS NEXT p", "ONCE q"):
        for spacing in (0, 1, 5):
            stamps = np.sort(source.integers(0, 200, 400))
            letters = source.integers(0, 4, 400).astype(np.uint64)
            if formula.count("q") == 0 or formula == "ONCE q":
                letters &= np.uint64(1)
            removed = source.random(400) < 0.2
            kept = History(formula, lateness=None)
            history = History(formula, lateness=None, _spacing=spacing)
            order = np.argsort(stamps + 30 * (source.random(400) < 0.2), kind="stable")
            staying = order[~removed[order]]
            kept.push(stamps[staying], letters[staying])
            for start in range(0, 400, 37):
                part = order[start : start + 37]
                history.push(stamps[part], letters[part], ids=part)
            emitted = {str(verdict).split()[0] for verdict in history.latest()}
            withdrawn = set()
            for start in range(0, 400, 50):
                places = np.flatnonzero(removed[start : start + 50]) + start
                changes = history.push(
                    np.zeros(len(places), np.int64),
                    np.zeros(len(places), np.uint64),
                    ids=places,
                    operations=["-"] * len(places),
                )
                withdrawn |= {f"{time}:{offset}" for time, offset in changes.withdrawn}
            assert history.counters["retracted"] == removed.sum()
            assert history.counters["ids"] == 400 - removed.sum()
            assert len(withdrawn) > 50
            assert withdrawn <= emitted
            names = [str(verdict).split()[0] for verdict in history.latest()]
            assert not withdrawn & set(names)
            found = values_in_order(history)
            assert found == values_in_order(kept), (formula, spacing)


def values_in_order(history: History) -> list[tuple[int, bool]]:
    """The time-stamps and values of time-points, in any order among those of one time-stamp."""
    values: dict[tuple[int, int], bool | None] = {}
    references = {}
    for verdict in history.latest():
        name = (verdict.time_stamp, verdict.offset)
        values[name] = verdict.value
        if verdict.ref is not None:
            references[name] = verdict.ref
    found = []
    for name in values:
        last = name
        while last in references:
            last = references[last]
        value = values.get(last)
        if value is not None:
            found.append((name[0], value))
    return sorted(found)


# ---- the interface -----------------------------------------------------------------------------


def test_retracting() -> None:
    history = History("EVENTUALLY[0,5] p", lateness=10, equality=True)
    history.push([1, 3], [0, 1], ids=[None, "r"])
    changes = history.retract(id="r")
    assert sorted(changes) == ["!1:0", "!x3:0"]
    assert (changes.withdrawn, changes.deleted) == ([(3, 0)], [(1, 0)])
    assert WITHDRAWN in changes.operation.tolist()
    assert repr(changes) == "<Changes: 0 inserted, 0 updated, 1 deleted, 1 withdrawn>"
    assert list(history.insert(3, {"p"}, id="r")) == ["!1:0 true", "3:1 true"]
    assert list(history.insert(3, {"p"}, id="r")) == []
    assert sorted(history.insert(4, {"p"}, id="r")) == ["!x3:1", "4:0 true"]
    assert list(history.insert(4, {"p"})) == ["4:1 true"]
    assert list(history.retract(4, {"p"})) == ["!x4:1"]
    assert list(history.retract(4, {"p"})) == []
    counters = history.counters
    assert (counters["duplicates"], counters["retracted"], counters["awaited"]) == (1, 3, 1)


def test_operations_of_a_batch() -> None:
    history = History("EVENTUALLY[0,5] p", lateness=10)
    changes = history.push(
        [1, 9, 2, 20, 3, 0],
        [0, 0, 1, 0, 1, 0],
        ids=["a", "b", "c", None, "d", "b"],
        operations=np.array(["insert", "I", "+", "advance", "+", "D"]),
    )
    assert list(changes) == ["1:0 true", "2:0 true", "9:0 false", "!@5"]
    assert changes.refused.tolist() == [4, 5]
    keyed = History("p", lateness=10)
    rows = ([3, 0, 9], [1, 0, 0])
    keyed.push(*rows, keys=["x", "y", None], ids=["a", "a", None], operations=["+", "-", "advance"])
    assert keyed.keys == ("x",)


def test_retractions_in_vain() -> None:
    history = History("p", lateness=5, unmatched="error")
    history.retract(id="x")
    with pytest.raises(EventError, match="1 retraction has waited for an event in vain"):
        history.insert(6, {"p"})
    # What the event has changed is told by the next call.
    assert list(history.insert(7)) == ["6:0 true", "7:0 false", "!@2"]
    assert history.counters["unmatched"] == 1


def test_wrong_corrections() -> None:
    history = History("p", lateness=5)
    with pytest.raises(EventError, match="no id: make the history with equality=True"):
        history.retract(3, {"p"})
    with pytest.raises(EventError, match="give the id of the event to retract"):
        history.retract()
    with pytest.raises(EventError, match="'delete' at index 1 is none of") as caught:
        history.push([1, 2], [0, 0], operations=["+", "delete"])
    assert caught.value.index == 1
    with pytest.raises(EventError, match="1 ids for 2 time-stamps"):
        history.push([1, 2], [0, 0], ids=["a"])
    with pytest.raises(EventError, match="1 operations for 2 time-stamps"):
        history.push([1, 2], [0, 0], operations=["+"])
    with pytest.raises(MtlmonError, match="unmatched is 'count' or 'error'"):
        History("p", lateness=5, unmatched="warn")  # type: ignore[arg-type]
    assert history.counters["events"] == 0
    history.insert(3, id=("a", 1))
    with pytest.raises(SnapshotError, match=r"the id .* is neither an integer nor a text"):
        history.snapshot()


def test_ids_are_forgotten() -> None:
    history = History("p", lateness=10)
    for start in range(0, 20_000, 100):
        stamps = np.arange(start, start + 100)
        history.push(stamps, np.zeros(100, np.uint64), ids=stamps)
    assert history.counters["ids"] < 3000
    assert history.counters["held_bytes"] < 10_000


# ---- intervals whose events are counted --------------------------------------------------------


def test_the_wait_ends_when_all_have_come() -> None:
    history = History("PREVIOUS p", lateness=60, wait=60)
    assert list(history.complete(0, 10, 3)) == []
    assert list(history.push([5, 1], [0, 1])) == []
    assert list(history.insert(3, id="a")) == ["1:0 false", "3:0 true", "5:0 false", "!@10"]
    # The next interval is complete at once, but nothing is known of what comes before the last one.
    assert list(history.push([12, 25], [0, 0])) == []
    assert list(history.complete(20, 30, 1)) == []
    assert list(history.complete(10, 20, 1)) == ["12:0 false", "25:0 false", "!@30"]
    with pytest.raises(EventError, match="one too many: all events below 30 were there"):
        history.insert(7)
    assert history.retract(id="a").refused.tolist() == [0]


def test_a_count_that_comes_between_its_events() -> None:
    """Retractions before their event, a count, and the last event, as in the paper's table 5."""
    history = History("p", lateness=None)
    history.retract(id="a")
    assert list(history.insert(0, {"p"}, id="a")) == []
    assert list(history.insert(2, {"p"}, id="b")) == ["2:0 true"]
    assert list(history.complete(0, 8, 2)) == []
    assert list(history.insert(1, {"p"}, id="c")) == ["1:0 true", "!@8"]
    assert history.retract(id="b").refused.tolist() == [0]


def test_one_event_more_than_counted() -> None:
    history = History("p", lateness=60)
    history.complete(5, 10, 2)
    with pytest.raises(EventError, match=r"is one more than the 2 that lie in \[5, 10\)") as caught:
        history.push([1, 6, 5, 7, 8], [1, 1, 1, 1, 1], ids=["a", "b", "c", "d", "e"])
    assert caught.value.index == 3
    assert list(history.insert(6, {"p"}, id="b")) == ["1:0 true", "5:0 true", "6:0 true"]
    # Another one in place of the first, and one that is retracted by what came before.
    assert sorted(history.insert(7, {"p"}, id="b")) == ["!x6:0", "7:0 true"]
    history.retract(id="f")
    history.insert(8, {"p"}, id="f")
    with pytest.raises(EventError, match="one more"):
        history.insert(8, {"p"}, id="g")
    history.retract(id="c")
    assert list(history.insert(8, id="g")) == ["8:1 false"]
    with pytest.raises(EventError, match=r"there are 2 events in \[5, 10\) already"):
        history.complete(5, 10, 1)


def test_intervals_without_lateness_and_snapshots() -> None:
    history = History("EVENTUALLY[0,2] p", lateness=None)
    history.complete(0, 5, 2)
    history.complete(5, 9, 2)
    history.push([6, 1], [0, 1])
    snapshot = history.snapshot()
    other = History("EVENTUALLY[0,2] p", lateness=None)
    other.restore(snapshot)
    for each in (history, other):
        assert list(each.push([4, 8], [0, 0])) == ["4:0 false", "6:0 false", "!@7"]
        assert each.final_below() == 7


def test_an_interval_that_never_fills() -> None:
    history = History("p", lateness=5)
    history.complete(0, 3, 2)
    history.push([1, 20], [1, 1])
    assert history.counters["incomplete"] == 1
    history.complete(2, 8, 7)  # over already
    with pytest.raises(EventError, match="may be forgotten already"):
        history.complete(2, 30, 7)
    with pytest.raises(EventError, match="is empty"):
        history.complete(5, 5, 0)
    with pytest.raises(MtlmonError, match=r"^count is an integer, not 5\.5$"):
        history.complete(2, 30, 5.5)  # type: ignore[arg-type]
    keyed = History("p", lateness=5, clock="key")
    with pytest.raises(EventError, match="its own time"):
        keyed.complete(0, 3, 1)


@settings(max_examples=150)
@given(
    FORMULAS,
    st.sampled_from(MODES),
    with_counts(arrivals(ids=IDS, advances=True)),
    LATENESS,
    SPACING,
    st.sampled_from([None, 3, 40, "last", "inf"]),
    st.integers(0, 8),
)
def test_counts(
    formula: Formula,
    mode: Mode,
    batches: Batches,
    lateness: int | None,
    spacing: int,
    end_time: EndTime,
    interrupt: int,
) -> None:
    compare(
        formula,
        batches,
        lateness,
        mode,
        end_time=end_time,
        spacing=spacing,
        interrupt=interrupt,
    )


@settings(max_examples=80)
@given(
    FORMULAS,
    with_counts(arrivals(keys=("a", "b"), advances=True, equality=True)),
    LATENESS,
)
def test_counts_with_keys(formula: Formula, batches: Batches, lateness: int | None) -> None:
    compare(formula, batches, lateness, is_keyed=True)


@pytest.mark.parametrize("order", ["up", "down", "any"])
def test_retractions_of_one_batch_come_in_any_order(order: str) -> None:
    """They are far apart in a long history, each of them changes what is near it."""
    source = random.Random(order)
    letters = [source.choice([0b00, 0b01, 0b01, 0b10]) for _ in range(400)]
    stamps = list(range(400))
    names = [f"i{stamp}" for stamp in stamps]
    removed = source.sample(stamps, 40)
    if order != "any":
        removed.sort(reverse=order == "down")
    history = History("p IMPLIES EVENTUALLY[0,2] q", lateness=1000)
    history.push(stamps, letters, ids=names)
    history.push(
        [0] * len(removed),
        [0] * len(removed),
        ids=[names[k] for k in removed],
        operations=["-"] * len(removed),
    )
    kept = [stamp for stamp in stamps if stamp not in removed]
    ordered = History("p IMPLIES EVENTUALLY[0,2] q", lateness=1000)
    ordered.push(kept, [letters[stamp] for stamp in kept])
    assert list(map(str, history.latest())) == list(map(str, ordered.latest()))
    assert len(ordered.latest()) > 350
