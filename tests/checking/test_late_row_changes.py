"""Changes of relations of rows, and ticks beside such relations, where rows come late."""

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
    corrected,
    with_operation,
    withdrawn_and_back,
)
from tests.checking.test_history_check import Row, collapsed, late_rows
from tests.checking.test_late_changes import FORMULAS
from tests.checking.test_late_ticks import ENDS
from tests.doors import Bounds
from tests.doors import relations_revised as revised_relations
from tests.doors import streams_late_computing as late_computing
from tests.sampling import has_all_cases, thinned

RELATIONS = """\
key user
relation open  = rows where ask valid until reply or ask per user select user as user, host as host
relation busy  = rows where amount > 3 valid 6 select user as user, host as host distinct
relation calls = rows valid 4 select user as user, host as host, amount as amount
relation calm  = rows valid 5 select user as user, host as host minus all busy
relation sums  = rows valid 5 group user, host select sum(amount) as s, count() as n
relation total = rows valid until next 7 group select count() as n
relation ever  = rows valid until false group select max(amount) as most
stream lit   = coalesce(total[].n, 0) every 4
stream grown = grown.last(or: 0) + coalesce(ever[].most, 0) every 6
stream asked = count[0,9](exists busy[user, host])
"""
OF_USERS = ("open", "busy", "calls", "calm", "sums")
AT_TICKS = (
    "exists open[user = user.hold(), host = host.hold()]",
    'exists busy[host = "x"]',
    "coalesce(sums[user = user.hold(), host = host.hold()].s, 0) > 8",
    "coalesce(total[].n, 0) > 3",
    "count[0,3](ask) > 0",
    "count[0,6](exists calm[user, host]) > 1",
    "amount.hold(or: 0) < coalesce(ever[].most, 0)",
    "lit.hold(or: 0) > 2",
    "asked.hold(or: 0) > 1",
)
AT_ROWS = (
    "lit.hold(or: 0) > 2",
    "exists sums[user = user, host = host, n = 2]",
    "grown.hold(or: 0) > 30",
    "asked > 1 AND exists open[user]",
)


def program(source: random.Random) -> PolicyFile:
    """Policies on changes, on ticks and perhaps on rows, with the names of `KEYS`."""
    others = source.choice([[" on every 4"], [" on every 4", ""]])
    policies = ""
    for place, (name, key) in enumerate(KEYS.items()):
        names = [*OF_USERS, "total", "ever"] if key == " per none" else OF_USERS
        changes = f" on changes of {source.choice(names)}"
        clock = source.choice([changes, changes, *others]) if place else changes
        conditions: Sequence[str] = AT_TICKS if clock else AT_ROWS
        if clock == " on every 4":
            conditions = [one.replace("lit.hold(or: 0)", "lit") for one in AT_TICKS]
        first, second = (f"({source.choice(conditions)})" for _ in "ab")
        formula = source.choice(FORMULAS).format(a=first, b=second)
        policies += f"policy {name}{key}{clock}: {formula}\n"
    return parse_policies(RELATIONS + policies)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_the_latest_verdicts_are_those_of_the_order_of_time(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After batches, and at the end."""
    if first % 12:
        # what relations say is told of as one after few batches
        monkeypatch.setattr(revised_relations, "_MOST_SPANS", 1 if first < 12 else 3)
    if first >= 12:
        # ticks are computed few at once
        monkeypatch.setattr(late_computing, "_MOST_TICKS", 3)
    revised = 0
    for seed in thinned(range(first, first + 6)):
        source = random.Random(seed)
        rows = list(late_rows(seed, source.choice([8, 30, 40])))
        file = program(source)
        end = ENDS[seed % len(ENDS)]
        # what looks at rows does not see those of the last time yet, but changes are told
        are_changes = all(one.clock for one in file.policies)
        run = compare_with_order(
            file,
            rows,
            source,
            end,
            is_live=seed % 3 > 0,
            decided=(lambda rows: rows) if are_changes else None,
        )
        revised += sum("!" in line and "!@" not in line for line in run.lines)
    assert revised > 2 or not has_all_cases()


def test_ticks_before_what_was_the_first_row() -> None:
    """A late first row adds them to a chunk, and what changes there later concerns them."""
    file = parse_policies(
        'key user\nrelation near = rows where user = "b" valid 5 select user as user\n'
        "policy p on every 10: exists near\n"
    )
    rows = [(100, "a"), (130, "c"), (50, "a"), (58, "b")]
    batches = [pa.table({"ts": [stamp], "user": [user]}) for stamp, user in rows]
    found = corrected(file, batches, Bounds(90, 0), ends=False)
    of_a = [[line for line in lines if line.startswith("p\ta")] for lines in found.lines]
    assert "p\ta\t60:0 false" in of_a[2]
    assert of_a[3] == ["p\ta\t!60:0 true"]


@pytest.mark.parametrize("end", [2**63 - 2, 2**63 - 1])
def test_time_passes_up_to_the_largest_one(end: int) -> None:
    file = parse_policies("relation r = rows valid 5\npolicy p on changes of r: exists r")
    found = corrected(file, [pa.table({"ts": [8]}), pa.table({"ts": [3]})], Bounds(9, 0), end=end)
    every = [line for lines in found.lines for line in lines]
    assert collapsed(every) == ["p\t13:0 false", "p\t3:0 true", "p\t8:0 true"]


def test_changes_of_rows_that_are_taken_back() -> None:
    removed = back = 0
    for seed in thinned(range(8)):
        source = random.Random(seed)
        rows = list(late_rows(seed, 24))
        file = program(source)
        left: dict[str, Row] = {}
        batches: list[pa.Table] = []
        for row in rows:
            batches.append(with_operation(row, left, source))
        every = compare_with_rows_left(file, batches, left, source, 500, restores=seed % 3 == 0)
        withdrawn, returned = withdrawn_and_back(every)
        removed += withdrawn
        back += returned
    assert removed > 5 or not has_all_cases()
    assert back > 0 or not has_all_cases()
