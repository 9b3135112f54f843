"""Values of later rows where rows come late: verdicts are those of the rows in order of time."""

from __future__ import annotations

import random

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
from tests.sampling import has_all_cases, thinned
from tests.traces import EndTime

STREAMS = """\
key user
stream big = amount on amount > 4
stream asked = count[0,6](ask) every 4
stream soon = amount.at(+4) per host
stream turn = amount.at(+6, or: 1) - amount per host until silence() > 5 or amount > 8
stream after = amount.next(2, or: 1) - amount per host until silence() > 5 or amount > 8
stream share = amount / (count[0,5](ask) - 1)
atom plain = amount > 5
"""
WAITING = (
    "amount.next() > amount",
    "amount.next(3, or: 0) < amount",
    "big.next() > 6",
    "big.next(2, or: 9) > amount.next()",
    "count[0,9](ask).next() > 1",
    "amount.next(or: 0) > asked.hold(or: 0)",
    "amount.at(+3) > amount",
    "big.at(+0, or: 2) > amount.at(+5)",
    # has no value where a late row is the first one: what had its verdict waits again
    "share.next() > 1",
    "count[0,9](ask).at(+4) > 2 or amount.next(2, or: 0) > 6",
    "soon[host] > amount",
    'soon["x"] > amount.at(+2)',
    'turn[host] > 1 or turn["x"] > soon["x"]',
    "after[host] > 1",
    'after["x"] > amount.next(or: 3)',
)
OTHERS = ("plain", "reply", "count[0,7](ask) >= 2")
FORMULAS = (
    "{a} IMPLIES EVENTUALLY[0,9] {b}",
    "ALWAYS[0,8] ({a} IMPLIES ONCE[0,9] {b})",
    "({a} SINCE[0,8] {b}) OR PREVIOUS {a}",
    "{a} IMPLIES EVENTUALLY {b}",
    "NEXT[0,5] {a}",
    "NOT {a}",
)
ENDS: tuple[EndTime, ...] = (None, "last", "inf", 260)


def program(source: random.Random) -> PolicyFile:
    """Policies on rows that wait, and others, with the names of `KEYS`."""
    policies = ""
    for name, key in KEYS.items():
        first = source.choice(WAITING if source.random() < 0.8 else OTHERS)
        second = source.choice([*WAITING, *OTHERS])
        formula = source.choice(FORMULAS).format(a=f"({first})", b=f"({second})")
        policies += f"policy {name}{key}: {formula}\n"
    return parse_policies(STREAMS + policies)


@pytest.mark.parametrize("first", range(0, 18, 6))
def test_the_latest_verdicts_are_those_of_the_order_of_time(
    first: int,
) -> None:
    for seed in thinned(range(first, first + 6)):
        source = random.Random(seed)
        file = program(source)
        rows = late_rows(seed, source.choice([4, 20, 50]))
        end = ENDS[seed % len(ENDS)]
        compare_with_order(file, rows, source, end, is_live=seed % 3 > 0)


def test_later_values_of_corrected_rows() -> None:
    """Each row has a time of its own, so names are those of the rows that are left."""
    removed = 0
    for seed in thinned(range(12)):
        source = random.Random(seed)
        file = program(source)
        rows = late_rows(seed, 30)
        stamps = source.sample(range(100, 200), len(rows))
        left: dict[str, Row] = {}
        batches = []
        for number, row in enumerate(rows):
            now = 100 + 3 * number
            stamp = min(stamps, key=lambda one: abs(one - now + source.choice([0, 0, 9])))
            stamps.remove(stamp)
            batches.append(with_operation(row._replace(ts=stamp), left, source))
        end: EndTime = 500 if seed % 2 else "inf"
        every = compare_with_rows_left(file, batches, left, source, end, restores=seed % 3 == 0)
        removed += withdrawn_and_back(every)[0]
    assert removed > 20 or not has_all_cases()
