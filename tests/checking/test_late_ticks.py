"""Ticks where rows come late: verdicts are those of the rows in order of time."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from mtlmon.policy import PolicyFile, parse_policies
from tests.checking.late_streams import (
    KEYS,
    compare_with_order,
    compare_with_rows_left,
    with_operation,
    withdrawn_and_back,
)
from tests.checking.test_history_check import Row, late_rows
from tests.doors import streams_late_computing as late_computing
from tests.sampling import has_all_cases, thinned
from tests.traces import EndTime

STREAMS = """\
key user
stream total = total.last(or: 0) + amount
stream asked = count[0,6](ask) every 2
stream often = max[0,12](asked) every 4
stream step  = step.last(or: 0) + sum[0,4](amount, or: 0) - count[1,9](ask) every 5
stream of_host = count[0,9](ask) per host as h every 5
stream pace = count[0,9](ask) per host as h every 3 from its beginning until pace = 0
stream born = born.last(or: 0) + max[0,8](asked) per often as n every 2 until age() > 9 or born > 7
atom plain = amount > 5
"""
AT_TICKS = (
    "count[0,6](ask) > 0",
    "count[0,inf]() > 3",
    "asked.hold() > 1",
    "often > 1",
    "max[0,9](amount) = 8",
    "total.hold(or: 0) > 20",
    "avg[0,7](amount, or: 0) > 4",
    "asked.last(or: 0) < asked",
    "amount.hold(1, or: 0) > 4",
    "often.hold(1, or: 0) < often.hold(or: 0)",
    "any(of_host > 1 over of_host)",
    "any(pace > 1 over pace)",
    "any(born > 1 over born)",
    "born[2] > 1",
)
AT_ROWS = (
    "asked.hold(or: 0) > 1",
    "often.at(-3, or: 0) > 1",
    "often.hold(1, or: 0) > 1",
    "step.hold(or: 0) > amount",
    "max[0,9](often) > 1",
    "count[0,7](ask) >= 2",
    "any(of_host > 1 over of_host)",
    "sum(pace over pace) > 1",
    "sum(born over born by n = 1) > 2",
)
FORMULAS = (
    "{a} IMPLIES EVENTUALLY[0,9] {b}",
    "ALWAYS[0,8] ({a} IMPLIES ONCE[0,9] {b})",
    "({a} SINCE[0,8] {b}) OR PREVIOUS {a}",
    "{a} IMPLIES EVENTUALLY {b}",
    "NEXT[0,5] {a}",
    "NOT {a}",
)


EVERY = (" on every 4", " on every 4", " on every 12")


def program(source: random.Random, clocks: Sequence[str] = ("", *EVERY)) -> PolicyFile:
    """Policies on ticks, and on rows that read streams on ticks, with the names of `KEYS`."""
    policies = ""
    for name, key in KEYS.items():
        clock = source.choice(clocks)
        conditions = AT_TICKS if clock else AT_ROWS
        chosen = [source.choice(conditions) for _ in "ab"]
        if clock == " on every 12":
            # asked is on other ticks
            chosen = [one.replace("asked.last(or: 0) < asked", "often > 0") for one in chosen]
        first, second = (f"({one})" for one in chosen)
        formula = source.choice(FORMULAS).format(a=first, b=second)
        lasts = source.choice(("", "", " for 4", " for 9"))
        policies += f"policy {name}{key}{clock}{lasts}: {formula}\n"
    return parse_policies(STREAMS + policies)


ENDS: tuple[EndTime, ...] = (None, "last", "inf", 260)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_the_latest_verdicts_are_those_of_the_order_of_time(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if first >= 12:
        # ticks are computed few at once
        monkeypatch.setattr(late_computing, "_MOST_TICKS", 3)
    for seed in thinned(range(first, first + 6)):
        source = random.Random(seed)
        file = program(source)
        rows = late_rows(seed, source.choice([4, 20, 50]))
        end = ENDS[seed % len(ENDS)]
        compare_with_order(file, rows, source, end, is_live=seed % 3 > 0)


def test_ticks_of_corrected_rows() -> None:
    """Ticks have names of their own, so they are those of the rows that are left."""
    removed = back = 0
    for seed in thinned(range(12)):
        source = random.Random(seed)
        file = program(source, EVERY)
        rows = late_rows(seed, 30)
        left: dict[str, Row] = {}
        batches: list[pa.Table] = []
        for row in rows:
            one = with_operation(row, left, source)
            if source.random() < 0.3 and batches:
                one = pa.concat_tables([batches.pop(), one])
            batches.append(one)
        every = compare_with_rows_left(file, batches, left, source, 500, restores=seed % 3 == 0)
        withdrawn, returned = withdrawn_and_back(every)
        removed += withdrawn
        back += returned
    assert removed > 5 or not has_all_cases()
    assert back > 0 or not has_all_cases()
