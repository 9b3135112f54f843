"""Policies on changes of relations, against the bags at every instant and in named cases."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon.policy import parse_policies
from tests.doors import NOTHING, ROWS, Plans
from tests.reference import relations as reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.policy import PolicyFile

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "n": pa.int64(), "p": pa.bool_()})
Row = tuple[int, str, int, bool]

RELATIONS = """
relation opened = rows valid until p per k where n > 0 select k as k, n as n
relation total  = opened group select count() as n
relation recent = rows valid 5 group k select count() as n
relation whole  = rows valid 3 where n > 0
relation steps  = rows valid 4 select k as k, 1 as one
relation calm   = steps select k as k distinct minus all few
relation few    = recent where n > 1 select k as k
stream lately = count[0,3]() every 2
"""

POLICIES = """
policy whole on changes of total: coalesce(total[].n, 0) < 2
policy keyed per k on changes of opened: exists opened[k = k.hold()]
policy two per k, n on changes of opened: exists opened[k = k.hold(), n = n.hold()]
policy rows per k on changes of whole: count[0,2](p) > 0
policy next per k on changes of steps: NEXT[0,2] true
policy before on changes of calm: PREVIOUS[1,3] count[0,4]() > 1
policy mixed on changes of recent: lately.hold(or: 0) > 1
policy tick on every 3: exists total
policy row per k: p
"""


Answers = dict[tuple[str, str], list[tuple[int, bool | None]]]


def expected(rows: Sequence[Row], *, is_last_included: bool) -> Answers:
    """The verdicts on changes for each policy and trace, from the bags at every instant."""
    file = parse_policies(RELATIONS, needs_policy=False)
    plans = Plans(file, {ROWS: SCHEMA}, NOTHING)
    table = reference.relation(SCHEMA.names, [(row[0], row[0] + 1, row) for row in rows])
    bags = {name: reference.evaluate(plans.of(name), {ROWS: table}) for name in file.intervals}
    found: Answers = {}

    def trace(policy: str, relation: str, key: Callable[[Row], tuple[Any, ...]]) -> None:
        for values in dict.fromkeys(map(key, rows)):
            own = [row for row in rows if key(row) == values]
            names = ("k", "n")[: len(values)]
            times = [
                time
                for time in reference.change_times(bags[relation], names, values)
                if own[0][0] <= time < rows[-1][0] + is_last_included
            ]
            answers = []
            for place, time in enumerate(times):
                now = [row for row in own if row[0] <= time]
                answers.append((time, value(policy, time, now, times, place, values)))
            if answers:
                found[policy, "".join(map(str, values))] = answers

    def value(
        policy: str,
        time: int,
        now: list[Row],
        times: list[int],
        place: int,
        values: tuple[Any, ...],
    ) -> bool | None:
        if policy == "whole":
            counts = [row[0] for row in bags["total"].snapshot(time).elements()]
            return bool(sum(counts) < 2)
        if policy in {"keyed", "two"}:
            opened = bags["opened"].snapshot(time).elements()
            return bool([row for row in opened if row[: len(values)] == values])
        if policy == "rows":
            return any(row[3] for row in now if time - row[0] <= 2)
        if policy == "next":
            # without a later change, the verdict is not known
            return None if place + 1 == len(times) else times[place + 1] - time <= 2
        if policy == "before":
            if not place or not 1 <= time - times[place - 1] <= 3:
                return False
            before = times[place - 1]
            return sum(0 <= before - row[0] <= 4 for row in now) > 1
        assert policy == "mixed"
        ticks = range(-(-rows[0][0] // 2) * 2, time + 1, 2)
        last = ticks[-1] if ticks else None
        return last is not None and sum(0 <= last - row[0] <= 3 for row in now) > 1

    if rows:
        trace("whole", "total", lambda row: ())
        trace("keyed", "opened", lambda row: row[1:2])
        trace("two", "opened", lambda row: row[1:3])
        trace("rows", "whole", lambda row: row[1:2])
        trace("next", "steps", lambda row: row[1:2])
        trace("before", "calm", lambda row: ())
        trace("mixed", "recent", lambda row: ())
    return found


def verdicts(file: PolicyFile, batches: Sequence[pa.RecordBatch], **options: Any) -> Answers:
    """The verdicts of the policies on changes, which are in order of time for each trace."""
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    found: Answers = {}
    for batch in mtlmon.check(file, reader, **options).batches():
        for one in batch.to_pylist():
            if one["policy"] not in {"tick", "row"}:
                assert one["offset"] == 0
                trace = f"{one.get('k') or ''}{'' if one.get('n') is None else one['n']}"
                answers = found.setdefault((one["policy"], trace), [])
                answers.append((one["time"], one["verdict"]))
    return found


LOGS = st.lists(
    st.tuples(st.integers(0, 14), st.sampled_from("xyz"), st.integers(-1, 2), st.booleans()),
    max_size=14,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


def test_time_passes_up_to_the_largest_one() -> None:
    file = parse_policies("relation r = rows valid 5\npolicy p on changes of r: exists r")
    batch = pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, (3, "x", 1, True), strict=True))])
    found = verdicts(file, [batch], end_time=2**63 - 1)
    assert found == {("p", ""): [(3, True), (8, False)]}


@settings(max_examples=40, deadline=None)
@given(
    LOGS,
    st.lists(st.integers(0, 14), max_size=4),
    st.booleans(),
    st.sampled_from([None, "last", 20]),
    st.sampled_from(["all", "false"]),
)
@example([(0, "x", 1, False), (5, "x", 1, False), (9, "y", 1, True)], [1, 2], False, None, "all")
@example([(0, "x", 1, True), (3, "x", 1, True), (6, "x", 1, True)], [1], False, "last", "false")
@example([(2, "x", 1, False), (2, "y", 1, True), (2, "x", 2, True)], [2], False, "last", "all")
def test_random_logs(
    rows: list[Row], cuts: list[int], is_sorted: bool, end_time: Any, wanted: Any
) -> None:
    file = parse_policies(RELATIONS + POLICIES)
    places = sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})
    batches = [
        pa.RecordBatch.from_pylist(
            [dict(zip(SCHEMA.names, row, strict=True)) for row in rows[start:end]], SCHEMA
        )
        for start, end in pairwise(places)
    ]
    options = {"sort": is_sorted, "end_time": end_time, "verdicts": wanted}
    if end_time == 20 and rows:
        # changes up to the end time, as if a row came behind it
        answers = expected([*rows, (21, "other", -1, False)], is_last_included=False)
        answers = {key: one for key, one in answers.items() if "other" not in key[1]}
    else:
        answers = expected(rows, is_last_included=end_time == "last")
    # no later row is below this time
    clock = rows[-1][0] if rows else 0
    clock = clock if end_time is None else max(clock, 20 if end_time == 20 else 0) + 1
    for own in answers.values():
        if own[-1][1] is None and clock - own[-1][0] > 2:
            own[-1] = own[-1][0], False
    kept = {
        key: [one for one in own if one[1] is not None and (wanted == "all" or not one[1])]
        for key, own in answers.items()
    }
    found = verdicts(file, batches, **options)
    assert found == {key: own for key, own in kept.items() if own}
