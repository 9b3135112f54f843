"""What histories remember beside what `mtlmon analyze --lateness` says of it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

from mtlmon import History
from mtlmon.checking.bounds import bounds_of
from mtlmon.policy import parse_policies
from mtlmon.streams.bounds import Kept

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
        ("atom p = x < 5\n", "count[0,5s](x < 5) > 3", "windows and streams"),
    ],
)
def test_why_there_is_no_limit(line: str, formula: str, reason: str) -> None:
    kept = of_history(FILE.replace(line, "").format(formula=formula))
    assert kept.total is None
    assert reason in kept.reason
