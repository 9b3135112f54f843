"""Changes of relations of tables where rows come late: verdicts are those of the order of time."""

from __future__ import annotations

import random
from pathlib import Path

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
from tests.checking.test_late_ticks import ENDS, STREAMS
from tests.doors import streams_late_computing as late_computing
from tests.reference import policies as reference
from tests.reference.relations import Relation
from tests.sampling import has_all_cases, thinned

RELATIONS = """\
relation posts = table "{path}" valid [from, to)
relation wide  = posts where most > 3
"""
# all of these depend on which rows have come
AT_CHANGES = (
    "count[0,3](ask) > 0",
    "count[0,4]() = 2",
    "sum[0,5](amount, or: 0) > 9",
    "amount.hold(or: 0) > 4",
    "total.hold(or: 0) > 20",
    "asked.hold(or: 0) > 1",
    "often.at(-3, or: 0) > 0",
    "exists posts[user = user.hold(), host = host.hold()]",
    "of_host[host.hold()] > 1",
)
FORMULAS = (
    "{a}",
    "NOT {a}",
    "{b} AND PREVIOUS {a}",
    "{a} IMPLIES EVENTUALLY[0,3] {b}",
    "NEXT[0,5] {a}",
    "{a} IMPLIES EVENTUALLY {b}",
)
CLOCKS = (" on changes of posts", " on changes of posts", " on changes of wide", " on every 4", "")


def program(source: random.Random, folder: Path, rows: list[Row]) -> PolicyFile:
    """Policies on changes of a random table, and on ticks and rows, with the names of `KEYS`."""
    path = folder / "posts.csv"
    times = [row.ts for row in rows]
    lines = ["from,to,user,host,most"]
    for _ in range(source.choice([3, 60, 90])):
        begin = source.randrange(min(times) - 9, max(times) + 9)
        end = source.choice(["", begin + 1 + source.randrange(20)])
        row = source.choice(rows)
        user = source.choice([row.user, "nobody"])
        lines.append(f"{begin},{end},{user},{row.host},{source.randrange(7)}")
    path.write_text("\n".join([*lines, ""]))
    policies = ""
    for place, (name, key) in enumerate(KEYS.items()):
        clock = source.choice(CLOCKS) if place else CLOCKS[0]
        first, second = (f"({source.choice(AT_CHANGES)})" for _ in "ab")
        formula = source.choice(FORMULAS).format(a=first, b=second)
        policies += f"policy {name}{key}{clock}: {formula}\n"
    return parse_policies(STREAMS + RELATIONS.format(path=path) + policies)


def records_of(folder: Path) -> dict[str, tuple[Relation, pa.Schema]]:
    """The records of the table, as the reference takes them."""
    path = folder / "posts.csv"
    return {str(path): reference.records_of(path.read_text(), "from", "to", integers=["most"])}


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_the_latest_verdicts_are_those_of_the_order_of_time(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if first >= 8:
        # ticks are computed few at once
        monkeypatch.setattr(late_computing, "_MOST_TICKS", 3)
    revised = 0
    for seed in thinned(range(first, first + 4)):
        source = random.Random(seed)
        rows = list(late_rows(seed, source.choice([8, 30, 40])))
        file = program(source, tmp_path, rows)
        end = ENDS[seed % len(ENDS)]
        run = compare_with_order(
            file, rows, source, end, is_live=seed % 3 > 0, records=records_of(tmp_path)
        )
        revised += sum("!" in line and "!@" not in line for line in run.lines)
    assert revised > 0 or not has_all_cases()


def test_changes_of_keys_whose_rows_are_taken_back(tmp_path: Path) -> None:
    removed = back = 0
    for seed in thinned(range(5)):
        source = random.Random(seed)
        rows = list(late_rows(seed, 24))
        file = program(source, tmp_path, rows)
        left: dict[str, Row] = {}
        batches: list[pa.Table] = []
        for row in rows:
            batches.append(with_operation(row, left, source))
        every = compare_with_rows_left(
            file, batches, left, source, 500, restores=not seed % 3, records=records_of(tmp_path)
        )
        withdrawn, returned = withdrawn_and_back(every)
        removed += withdrawn
        back += returned
    assert removed > 5 or not has_all_cases()
    assert back > 0 or not has_all_cases()
