"""The first violation where rows wait for later values: what comes first, not what is known first.

A row that waits is a time-point that is still open. So the first violation is known once all that
is before it has come and is decided, however the log is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.policy import parse_policies
from tests.checking.logs import opened
from tests.checking.test_first_at_ticks import (
    CELLS,
    SCHEMA,
    Cuts,
    Outcome,
    Row,
    outcome_of,
    some_cuts,
)
from tests.checking.test_first_at_ticks import TEXTS as ON_TICKS
from tests.doors import FALSE, LogCheck, verdict_type
from tests.traces import EndTime

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITING = [
    "policy jump: coalesce(x.next() - x, 0) < 2",
    "policy calm: p IMPLIES EVENTUALLY[0,5] coalesce(x.next(2), 2) > 1",
    "policy later: coalesce(x.at(+4), 0) < 3",
    "policy before: (PREVIOUS[0,9] q) IMPLIES coalesce(x.next(), 1) > 0",
]
AT_ROWS = [
    "policy row: NOT q",
    "policy answered: p IMPLIES EVENTUALLY[0,5] q",
    "policy small: coalesce(x, 0) < 3",
]
KEYS = ["", "key k\n"]


class Found(NamedTuple):
    """A verdict: the policy, the trace, the name of the time-point, and whether it is true."""

    policy: int
    trace: int
    time_stamp: int
    offset: int
    verdict: bool

    def place(self, key: str) -> tuple[int, ...]:
        """The place in the order of violations."""
        if key:
            return self.time_stamp, self.policy, self.trace, self.offset
        return self.time_stamp, self.offset, self.policy


def steps_of(
    texts: list[str], rows: list[Row], key: str, end_time: EndTime
) -> Iterator[tuple[list[Found], list[tuple[int, int, int]]]]:
    """What each row brings, and the end, and the counts behind it."""
    file = parse_policies(key + "\n".join(texts))
    check = LogCheck(file.policies, key=("k",) if key else (), resolve=True, keep_keys=True)
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(1)
    true, false = [0] * len(texts), [0] * len(texts)

    def taken() -> tuple[list[Found], list[tuple[int, int, int]]]:
        records, streams, policies = check.verdicts.taken()
        columns = np.frombuffer(records, verdict_type())
        names = zip(columns["time_stamp"].tolist(), columns["offset"].tolist(), strict=True)
        own = zip(memoryview(policies).cast("I"), memoryview(streams).cast("I"), strict=True)
        values = (columns["kind"] != FALSE).tolist()
        found = [
            Found(*whose, *name, value)
            for whose, name, value in zip(own, names, values, strict=True)
        ]
        for one in found:
            (true if one.verdict else false)[one.policy] += 1
        events = [one.events for one in check.counts]
        return found, list(zip(events, true, false, strict=True))

    with opened(check, file, pa.RecordBatchReader.from_batches(SCHEMA, batches)) as source:
        for batch in source:
            for _ in check.feed(batch, source):
                pass
            yield taken()
        for _ in check.end(source, end_time):
            pass
        yield taken()


def wanted_of(texts: list[str], rows: list[Row], key: str, end_time: EndTime) -> Outcome:
    """The first violation, from all verdicts row by row; no counts if only the end brings it."""
    traces: list[str] = []
    points: list[Found] = []
    decided: set[tuple[int, ...]] = set()
    first: Found | None = None
    known: tuple[int, list[tuple[int, int, int]]] | None = None
    has_passed = False
    for step, (found, counts) in enumerate(steps_of(texts, rows, key, end_time)):
        is_end = step == len(rows)
        has_news = False
        if not is_end:
            row = rows[step]
            if (name := row["k"] if key else "") not in traces:
                traces.append(name)
            own = traces.index(name), row["ts"]
            offset = sum(one.policy == 0 and one[1:3] == own for one in points)
            points += [Found(number, *own, offset, False) for number in range(len(texts))]
        for one in found:
            decided.add(one[:4])
            if first is not None:
                is_near = one.time_stamp <= first.time_stamp
                has_news |= is_near if key else one.place(key) <= first.place(key)
            if not one.verdict and (first is None or one.place(key) < first.place(key)):
                first, has_news = one, True
        if first is None:
            continue
        if key and not is_end and not has_passed and rows[step]["ts"] > first.time_stamp:
            has_passed = has_news = True
        if has_news:
            known = step + 1, counts
        is_open = any(
            one[:4] not in decided
            and (one.time_stamp <= first.time_stamp if key else one.place(key) < first.place(key))
            for one in points
        )
        if is_open or (key and not has_passed and not is_end):
            continue
        violation = first.time_stamp, first.offset, first.policy, first.trace
        if is_end:
            return Outcome(violation, None, None, None)
        assert known is not None
        assert known[0] == step + 1
        return Outcome(violation, known[1], known[0], [len(traces)])
    return Outcome(None, None, None, None)


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    now = 0
    rows = []
    value = st.sampled_from([None, 0, 1, 1, 2, 2, 3, 4])
    for cells, x in draw(st.lists(st.tuples(CELLS, value), min_size=1, max_size=12)):
        now += cells["gap"]
        rows.append({"ts": now, **{name: cells[name] for name in "kupq"}, "x": x})
    return rows


def some_of(texts: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(texts), min_size=1, max_size=4, unique=True)


@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=100)
@given(
    some_of(WAITING),
    st.lists(st.sampled_from(AT_ROWS), max_size=2, unique=True),
    logs(),
    some_cuts(),
    st.booleans(),
    st.sampled_from([None, "inf"]),
)
def test_the_first_is_what_comes_first(
    key: str,
    waiting: list[str],
    at_rows: list[str],
    rows: list[Row],
    cuts: Cuts,
    saves: bool,
    end_time: EndTime,
) -> None:
    texts = [*at_rows, *waiting]
    found = outcome_of(texts, rows, cuts, key=key, saves=saves, end_time=end_time)
    wanted = wanted_of(texts, rows, key, end_time)
    if wanted.counts is None:
        found = found._replace(counts=None, rows=None, keys=None)
    assert found == wanted


@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=60)
@given(
    some_of(WAITING),
    st.lists(st.sampled_from([*ON_TICKS, *AT_ROWS]), max_size=3, unique=True),
    logs(),
    some_cuts(),
    st.lists(st.integers(1, 9), max_size=3),
    st.booleans(),
    st.sampled_from([None, "inf"]),
)
def test_the_stop_does_not_depend_on_cuts(
    key: str,
    waiting: list[str],
    others: list[str],
    rows: list[Row],
    cuts: Cuts,
    steps: list[int],
    saves: bool,
    end_time: EndTime,
) -> None:
    """With ticks, and time that passes without rows."""
    end = rows[-1]["ts"] + 20
    times = {min(rows[-1]["ts"] + sum(steps[: k + 1]), end) for k in range(len(steps))}
    cuts = cuts._replace(steps=sorted({*times, end}))
    whole = Cuts(100, 100, 100_000, [end])
    texts = [*waiting, *others]
    wanted = outcome_of(texts, rows, whole, key=key, saves=False, end_time=end_time)
    assert outcome_of(texts, rows, cuts, key=key, saves=saves, end_time=end_time) == wanted
