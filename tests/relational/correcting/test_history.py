"""`RelationalHistory`, which takes batches of late and corrected events with rows."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from mtlmon import (
    EventError,
    EventTypeError,
    History,
    MtlmonError,
    PolicyError,
    RelationalHistory,
    RelationalMonitor,
    SnapshotError,
    TimeStampError,
)

POLICY = "FORALL u, f. publish(u, f) IMPLIES ONCE[0,10] approve(f)"


def published(time_stamp: int, *rows: tuple[str, str]) -> tuple[int, dict[str, Any]]:
    return time_stamp, {"publish": rows}


def approved(time_stamp: int, file: str) -> tuple[int, dict[str, Any]]:
    return time_stamp, {"approve": [(file,)]}


def test_events_are_taken_back_by_their_ids() -> None:
    history = RelationalHistory(POLICY, lateness=60, ids=True)
    batch = [approved(100, "f1"), published(105, ("ann", "f1"))]
    assert history.push(batch, ids=["a", "b"]).lines == ["!@45"]
    changes = history.push([(0, {})], ids=["a"], operations=["-"])
    assert changes.lines == ["105:0 false (u=ann, f=f1)"]
    assert [one.operation for one in changes] == ["insert"]
    again = RelationalHistory(POLICY, lateness=60, ids=True)
    again.restore(history.snapshot())
    assert again.snapshot() == history.snapshot()
    for one in (history, again):
        # the event with this id is another one now
        changes = one.push([published(105, ("ann", "f2"))], ids=["b"])
        assert changes.lines == ["!x105:0 false (u=ann, f=f1)", "105:1 false (u=ann, f=f2)"]
        assert [(a.time_stamp, a.offset, a.valuation) for a in one.latest()] == [
            (105, 1, {"u": "ann", "f": "f2"})
        ]
        assert one.counters["retracted"] == 2
        assert one.advance(300).lines == ["!@240"]
        assert one.push([approved(200, "f2")]).refused == [0]
        assert one.final_below() == 240


def test_an_event_that_can_be_taken_back_makes_nothing_final() -> None:
    """Where answers wait for what follows, only what is too late shows that time has passed."""
    history = RelationalHistory(
        "atom p(x: int)\natom q(x: int)\nfind f: p(x) AND EVENTUALLY[0,0] q(x)\n",
        lateness=5,
        ids=True,
    )
    assert history.push([(10, {"p": [(1,)]})], ids=["a"]).lines == []
    assert history.final_below() == 0
    assert history.push([(20, {"q": [(1,)]})], ids=["b"]).lines == ["!@10"]
    assert history.push([(0, {})], ids=["b"], operations=["-"]).lines == []
    assert history.final_below() == 10


def test_answers_are_in_the_order_of_policies_and_time_points() -> None:
    """However late the events come, and whichever time-point is answered again."""
    history = RelationalHistory(
        "policy first: p(x) IMPLIES PREVIOUS q(x)\npolicy second: NOT p(x)\n", lateness=60
    )
    for time_stamp, database in (
        (109, {"p": [("b",)]}),
        (104, {"q": [("d",)]}),
        (105, {"p": [("d",)]}),
        (105, {"p": [("a",)]}),
        (100, {"p": [("e",)]}),
        # from here on, the first one of its time violates a policy, too
        (104, {}),
    ):
        history.push([(time_stamp, database)])
    names = [(100, 0, "e"), (105, 0, "d"), (105, 1, "a"), (109, 0, "b")]
    found = [(a.policy, a.time_stamp, a.offset, a.valuation["x"]) for a in history.latest()]
    assert found == [(policy, *name) for policy in ("first", "second") for name in names]


def test_a_snapshot_of_a_policy_that_names_texts() -> None:
    """Its constants have their numbers before it is restored."""
    policy = 'publish(u, f) AND NOT u = "ann" IMPLIES ONCE[0,9] approve(f)'
    history = RelationalHistory(policy, lateness=60)
    history.push([published(105, ("ann", "f1"), ("bob", "f2"))])
    again = RelationalHistory(policy, lateness=60)
    again.restore(history.snapshot())
    for one in (history, again):
        assert one.push([approved(100, "f2")]).lines == ["!x105:0 false (u=bob, f=f2)"]
        lines = one.push([published(106, ("bob", "f3"))]).lines
        assert lines == ["106:0 false (u=bob, f=f3)", "!@46"]
    assert again.snapshot() == history.snapshot()


def test_events_are_taken_back_by_equality() -> None:
    history = RelationalHistory(POLICY, lateness=60, equality=True, verdicts="all")
    history.push([approved(100, "f1"), approved(100, "f1"), published(105, ("ann", "f1"))])
    for lines in (
        ["!x100:1 true"],
        ["!x100:0 true", "!x105:0 true", "105:0 false (u=ann, f=f1)"],
    ):
        assert history.push([approved(100, "f1")], operations=["D"]).lines == lines
    assert history.finish("inf").lines == []


@pytest.mark.parametrize("given", [5.5, 5.0, np.float64(5), "5", None, True, Decimal(5)])
def test_time_stamps_are_integers(given: Any) -> None:
    """A fraction is not cut off; another time-stamp of the batch does not come either."""
    history, monitor = RelationalHistory(POLICY, lateness=60), RelationalMonitor(POLICY)
    wrong = re.escape(f"time-stamps are integers, not {given!r}")
    for call in (
        lambda: history.push([approved(3, "f"), approved(given, "f")]),
        lambda: history.advance(given),
        lambda: history.complete(given, 9, 2),
        lambda: history.complete(3, given, 2),
        lambda: monitor.step(*approved(given, "f")),
        lambda: monitor.advance(given),
    ):
        with pytest.raises(EventTypeError, match=wrong):
            call()
    assert history.finish("inf").lines == []
    numbers: list[Any] = [np.int64(5), np.uint8(5)]
    for time_stamp in numbers:
        later = RelationalHistory(POLICY, lateness=60)
        assert later.push([(time_stamp, {"publish": [("ann", "f1")]})]).lines[0].startswith("5:0")
        assert monitor.step(time_stamp, {"publish": [("ann", "f1")]})[0].time_stamp == 5


def test_what_is_refused() -> None:
    history = RelationalHistory(POLICY, lateness=60)
    with pytest.raises(EventError, match="has no id"):
        history.push([approved(1, "f")], operations=["-"])
    with pytest.raises(EventError, match="ids=True"):
        history.push([approved(1, "f")], ids=["a"])
    with pytest.raises(EventError, match="2 ids for 1 events"):
        history.push([approved(1, "f")], ids=["a", "b"])
    for time_stamp in (-1, 2**63):
        with pytest.raises(TimeStampError, match=f"{time_stamp} is not between 0"):
            history.push([approved(time_stamp, "f")])
    with pytest.raises(TypeError):
        history.push([approved(1, "f"), (2, {"approve": [(1,)]})])
    assert history.push([]).lines == []
    with pytest.raises(PolicyError, match="without variables"):
        RelationalHistory("p IMPLIES q", lateness=1)
    with pytest.raises(MtlmonError, match="wait is at most lateness"):
        RelationalHistory(POLICY, lateness=1, wait=2)
    with pytest.raises(SnapshotError):
        history.restore(b"nothing")
    with pytest.raises(SnapshotError):
        history.restore(History("p", lateness=1).snapshot())
    other = RelationalHistory("p(u) IMPLIES q(u)", lateness=60)
    with pytest.raises(SnapshotError, match="other policies"):
        other.restore(RelationalHistory(POLICY, lateness=60).snapshot())
    strict = RelationalHistory(POLICY, lateness=5, ids=True, unmatched="error")
    strict.push([(0, {})], ids=["x"], operations=["-"])
    with pytest.raises(EventError, match="in vain"):
        strict.push([approved(50, "f")])
