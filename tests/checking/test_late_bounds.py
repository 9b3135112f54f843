"""What histories remember beside what `mtlmon analyze --lateness` says of it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from mtlmon import History
from mtlmon.policy import parse_policies
from tests.checking.logs import opened
from tests.doors import (
    Bounds,
    FileBounds,
    HistoryCheck,
    Kept,
    LateChecks,
    MemoryLimit,
    bounds_of,
    relations_with_columns,
)
from tests.doors import streams_bounds as stream_bounds

FILE = """\
unit ms
key k
assume rate per key <= 10/s
assume rate <= 1000/s
assume keys <= 100
atom p = x < 5
atom q = x > 50
policy one: {formula}
"""
SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
KEYS, RATE, SECONDS, LATENESS = 100, 1000, 100, 20_000


def of_history(text: str) -> Kept:
    bounds = bounds_of(parse_policies(text), SCHEMA, None, LATENESS)
    (kept,) = (
        one for bound in bounds.bounds for one in bound.kept if one.expression == "--lateness"
    )
    return kept


@pytest.mark.parametrize(
    "formula",
    [
        "p IMPLIES EVENTUALLY[0,10s] q",
        "p SINCE[0,10s] q",
        "ALWAYS[0,10s] (p IMPLIES EVENTUALLY[0,2s] q)",
        "p",
    ],
)
def test_histories_take_about_as_much(formula: str) -> None:
    """At most 1.2 times as much, and not much less, even if few time-points are pending."""
    source = np.random.default_rng(3)
    history = History(formula, lateness=LATENESS, unit="ms")
    count = RATE * SECONDS
    stamps = np.arange(count) * 1000 // RATE
    letters = source.random((count, len(history.atoms))) < 0.05
    keys = source.permuted(np.tile(np.arange(KEYS), (count // KEYS, 1)), axis=1).ravel()
    most = 0
    for start in range(0, count, 1000):
        part = slice(start, start + 1000)
        history.push(stamps[part], letters[part], keys=keys[part])
        most = max(most, history.counters["held_bytes"])
    total = of_history(FILE.format(formula=formula)).total
    assert total is not None
    assert total / 3 < most < 1.2 * total


@pytest.mark.parametrize(
    ("line", "formula", "reason"),
    [
        ("assume keys <= 100\n", "p", "nothing limits the keys"),
        ("assume rate per key <= 10/s\nassume rate <= 1000/s\n", "p", "nothing limits the rows"),
        ("", "EVENTUALLY p", "nothing limits how long verdicts wait"),
    ],
)
def test_why_there_is_no_limit(line: str, formula: str, reason: str) -> None:
    kept = of_history(FILE.replace(line, "").format(formula=formula))
    assert kept.total is None
    assert reason in kept.reason


STREAMS = """\
unit ms
key k
assume rate per key <= 10/s
assume rate <= 1000/s
assume keys <= 100
stream few = count[0,5s](x < 5)
"""
POLICIES = {
    "the row before": "policy one: x > x.last(or: 0)\n",
    "windows": "policy one: few < 9 IMPLIES EVENTUALLY[0,3s] x > 50\n",
    "values of all time": (
        "stream total = total.last(or: 0) + x\npolicy one: total > few\n"
        "policy two on rows where x > 9: few > 1\n"
    ),
    "changes": (
        "relation recent = rows where x > 50 valid 1s group k select count() as n\n"
        "policy one on changes of recent: max[0,2s](x, or: 0) > 95\n"
        "policy two: coalesce(recent[k].n, 0) < 9\n"
    ),
    "ticks": "policy one on every 100ms: max[0,2s](x, or: 0) > 50\npolicy two: x < 9\n",
}


def late_totals(bounds: FileBounds, name: str = "--lateness") -> int:
    totals = [one.total for bound in bounds.bounds for one in bound.kept if one.expression == name]
    assert totals
    return sum(total for total in totals if total is not None)


@pytest.mark.parametrize("kind", POLICIES)
def test_rows_for_streams_take_about_as_much(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = parse_policies(STREAMS + POLICIES[kind])
    source = np.random.default_rng(3)
    # rows count for more than states if many are remembered
    lateness, count = (20_000 if kind == "the row before" else 5_000), 30 * RATE
    # chunks have room for a batch
    monkeypatch.setattr(stream_bounds, "LARGEST_BATCH", 3_000)
    if kind == "changes":
        lateness, count = 2_000, 6 * RATE
    table = pa.table(
        {
            "ts": np.arange(count) * 1000 // RATE,
            "k": source.permuted(np.tile(np.arange(KEYS), (count // KEYS, 1)), axis=1)
            .ravel()
            .astype(str),
            "x": source.integers(0, 100, count),
        }
    )
    check = HistoryCheck(
        file.policies, "local", lambda: Bounds(lateness, 0), memory=MemoryLimit(), key=("k",)
    )
    log = opened(
        check,
        file,
        [table.slice(start, 3000) for start in range(0, count, 3000)],
        in_any_order=True,
    )
    check.streams, check.inputs = log.streams, lambda batch: batch.inputs
    check.relations = log.relations
    checks = LateChecks(check, None)
    most = 0
    with log:
        for batch in log:
            for _ in checks.feed(batch, log):
                checks.taken()
            most = max(most, check.held_bytes)
    total = late_totals(bounds_of(file, SCHEMA, relations_with_columns(file, SCHEMA), lateness))
    # how many records a relation has is only known roughly
    assert total / (40 if kind == "changes" else 5) < most < total


@pytest.mark.parametrize("policy", ["policy one: x < 9\n", "policy one: few < 9\n"])
def test_ids_take_about_as_much(policy: str) -> None:
    """As Python counts what it keeps for a history that admits rows by ids."""
    file = parse_policies(STREAMS + policy)
    lateness, count = 2_000, 8 * RATE
    total = late_totals(bounds_of(file, SCHEMA, None, lateness, has_ids=True), "--id")
    history = History("p", lateness=lateness)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    most = 0
    for start in range(0, count, 500):
        stamps = np.arange(start, start + 500) * 1000 // RATE
        names = [f"order number {number}" for number in range(start, start + 500)]
        history.push(stamps, np.zeros((500, 1), np.bool_), ids=names)
        most = max(most, tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    assert total / 8 < most < 1.2 * total


def test_ids_of_a_key_are_those_of_its_rate() -> None:
    """A hundredth of what all keys have, as their rows come in a hundredth of the rate."""
    bounds = bounds_of(
        parse_policies(STREAMS + "policy one: x < 9"), SCHEMA, None, 2_000, has_ids=True
    )
    (kept,) = (one for bound in bounds.bounds for one in bound.kept if one.expression == "--id")
    assert kept.total is not None
    assert kept.per_key is not None
    assert 90 < kept.total / kept.per_key < 110


def test_why_there_is_no_limit_for_streams() -> None:
    text = STREAMS + "stream mid = median[0,inf](x)\npolicy one: mid > 5\n"
    bounds = bounds_of(parse_policies(text), SCHEMA, None, LATENESS)
    (kept,) = (
        one
        for bound in bounds.bounds
        for one in bound.kept
        if one.expression == "--lateness" and one.total is None
    )
    assert "median keeps all values" in kept.reason
