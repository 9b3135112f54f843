"""Values of later rows where rows come late: verdicts are those of the rows in order of time."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from mtlmon.checking import late_partitions
from mtlmon.checking.history_check import Bounds
from mtlmon.policy import PolicyFile, parse_policies
from tests.checking.late_streams import KEYS, corrected, ordered, random_run, table
from tests.checking.test_history_check import Row, admitted, collapsed, late_rows
from tests.traces import EndTime

STREAMS = """\
key user
stream big = amount on amount > 4
stream asked = count[0,6](ask) every 4
atom plain = amount > 5
"""
WAITING = (
    "amount.next() > amount",
    "amount.next(3, or: 0) < amount",
    "big.next() > 6",
    "big.next(2, or: 9) > amount.next()",
    "count[0,9](ask).next() > 1",
    "amount.next(or: 0) > asked.hold(or: 0)",
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
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if first % 12:
        # most traces share their chunks with others
        monkeypatch.setattr(late_partitions, "_GROUPS", 2)
    for seed in range(first, first + 6):
        source = random.Random(seed)
        file = program(source)
        rows = late_rows(seed, source.choice([4, 20, 50]))
        end = ENDS[seed % len(ENDS)]
        run = random_run(file, rows, source, end, is_live=seed % 3 > 0)
        mode, lateness, found = run.mode, run.bounds.lateness, run.found
        so_far: list[str] = []
        count = 0
        for batch, more in zip(run.batches, found.lines[:-1], strict=True):
            so_far += more
            count += len(batch)
            if run.bounds.wait == 0 and source.random() < 0.1:
                known = table(admitted(rows[:count], lateness, ()))
                assert collapsed(so_far) == ordered(file, known, mode, None, ends=False).lines
        every = [*so_far, *found.lines[-1]]
        in_order = ordered(file, table(admitted(rows, lateness, ())), mode, end)
        assert collapsed(every) == in_order.lines
        if mode == "naive":
            assert found.check.counts == in_order.check.counts


def test_later_values_of_corrected_rows() -> None:
    """Each row has a time of its own, so names are those of the rows that are left."""
    gone = 0
    for seed in range(12):
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
            name = source.choice("ijklmnop")
            is_retraction = source.random() < 0.3 and name in left
            if is_retraction:
                del left[name]
            else:
                left[name] = row._replace(ts=stamp)
            one = table([row._replace(ts=stamp)])
            for column, value in (("op", "-" if is_retraction else "+"), ("id", name)):
                one = one.append_column(column, pa.array([value]))
            batches.append(one)
        end: EndTime = 500 if seed % 2 else "inf"
        found = corrected(
            file,
            batches,
            Bounds(1000, source.choice([0, 3])),
            end=end,
            spacing=source.choice([0, 1, 5]),
            operation="op",
            id="id",
            restores=seed % 3 == 0,
        )
        every = [line for more in found.lines for line in more]
        gone += sum("!x" in line for line in every)
        ordered_rows = sorted(left.values(), key=lambda row: row.ts)
        assert collapsed(every) == ordered(file, table(ordered_rows), "local", end).lines
    assert gone > 20
