"""Relations through `mtlmon.query` and the command, against bags that are computed here."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import mtlmon
from tests.cli.process import mtlmon as command

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RULES = """\
relation recent  = rows valid 4 where v > 1 select door as door, v as v
relation totals  = rows valid 5 group door select count() as n, sum(v) as s, max(v) as m
relation busy    = totals where n >= 2 select door as door
relation pairs   = recent join totals on door = totals_door select door as door, v as v, n as n
relation open    = rows valid until v = 0 per door where v > 0 select door as door, v as v
relation calm    = recent minus all busy_v
relation busy_v  = recent join busy on door = busy_door select door as door, v as v
"""
LAST = 40


class Row(NamedTuple):
    ts: int
    door: str
    v: int


Records = list[tuple[int, int, tuple[object, ...]]]
"""The begin, the end, and the values of records."""

ROWS = st.lists(
    st.builds(Row, st.integers(0, 20), st.sampled_from("ab"), st.integers(0, 3)), max_size=9
).map(lambda rows: sorted(rows, key=lambda row: row.ts))


def at(records: Records, instant: int) -> Counter[tuple[object, ...]]:
    return Counter(values for start, end, values in records if start <= instant < end)


def later_close(rows: list[Row], place: int) -> int:
    """When a row that is valid until one with 0 of its door ends."""
    row = rows[place]
    found = [
        one.ts
        for one in rows[place + 1 :]
        if one.ts > row.ts and one.door == row.door and one.v == 0
    ]
    return found[0] if found else LAST


def expected(rows: list[Row], instant: int) -> dict[str, Counter[tuple[object, ...]]]:
    """What each relation contains at an instant."""
    recent = at([(row.ts, row.ts + 4, (row.door, row.v)) for row in rows if row.v > 1], instant)
    window = [row for row in rows if row.ts <= instant < row.ts + 5]
    groups = {door: [row.v for row in window if row.door == door] for door in "ab"}
    totals = {door: (len(own), sum(own), max(own)) for door, own in groups.items() if own}
    busy = [door for door, (count, _, _) in totals.items() if count >= 2]
    of_busy = Counter({one: n for one, n in recent.items() if one[0] in busy})
    opened: Records = [
        (row.ts, later_close(rows, place), (row.door, row.v))
        for place, row in enumerate(rows)
        if row.v > 0
    ]
    return {
        "recent": recent,
        "totals": Counter((door, *values) for door, values in totals.items()),
        "busy": Counter((door,) for door in busy),
        "pairs": Counter({(*one, totals[str(one[0])][0]): n for one, n in recent.items()}),
        "open": at(opened, instant),
        "calm": recent - of_busy,
        "busy_v": of_busy,
    }


def records_of(found: Iterable[dict[str, object]]) -> Records:
    records: Records = []
    for one in found:
        start, end, *values = one.values()
        assert isinstance(start, int)
        assert end is None or isinstance(end, int)
        records.append((start, LAST if end is None else end, tuple(values)))
    return records


@settings(max_examples=60)
@given(rows=ROWS)
def test_relations_at_every_instant(rows: list[Row]) -> None:
    table = pa.table(
        {
            "ts": pa.array([row.ts for row in rows], pa.int64()),
            "door": pa.array([row.door for row in rows], pa.string()),
            "v": pa.array([row.v for row in rows], pa.int64()),
        }
    )
    found = {
        name: records_of(mtlmon.query(RULES, name, table).to_pylist()) for name in expected(rows, 0)
    }
    for instant in range(LAST):
        assert {name: at(own, instant) for name, own in found.items()} == expected(rows, instant)


def test_the_command_writes_these_records(tmp_path: Path) -> None:
    rows = [Row(1, "a", 2), Row(3, "a", 3), Row(4, "b", 1), Row(6, "a", 0), Row(9, "b", 0)]
    rules = tmp_path / "rules.mtl"
    rules.write_text(RULES)
    log = tmp_path / "log.csv"
    log.write_text("ts,door,v\n" + "".join(f"{row.ts},{row.door},{row.v}\n" for row in rows))
    for name in expected(rows, 0):
        done = command("query", str(rules), name, str(log))
        assert (done.status, done.errors) == (0, "")
        found = records_of(json.loads(line) for line in done.output.splitlines())
        assert found
        for instant in range(LAST):
            assert at(found, instant) == expected(rows, instant)[name]
