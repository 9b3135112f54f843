"""The first violation where policies are on ticks: the log alone decides what it is and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.policy import parse_policies
from tests.checking.logs import opened
from tests.doors import LogCheck
from tests.doors import streams_atoms as stream_atoms
from tests.traces import EndTime

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]
# The time, trace and verdict of a time-point of a policy, and its offset.
Found = tuple[int, int, int, bool]
TEXTS = [
    "policy alive on every 3: count[0,4]() > 0",
    "policy row: NOT q",
    "policy few on every 4: count[0,9](p) < 2",
    "policy chosen on rows where p: NOT q",
]
# Their verdicts need later time-points.
LATER = [
    "policy answered: p IMPLIES EVENTUALLY[0,5] q",
    "policy again on every 3: count[0,2]() = 0 IMPLIES EVENTUALLY[0,7] count[0,2]() > 0",
    "policy by_user per u on every 4: count[0,9]() > 1 IMPLIES EVENTUALLY[0,4] count[0,3]() > 0",
    "policy of_all per none on every 5: any[0,6](q)",
]
# They are on changes of relations of the rows, and the rows wait for others of their time.
CHANGES = [
    "relation many = rows where p valid 5 group select count() as c\n"
    "policy changing on changes of many: coalesce(many[].c, 0) < 3",
    "relation open = rows valid until q select p as p\n"
    "policy opened on changes of open: EVENTUALLY[0,6] NOT exists open[p = true]",
]
OF_KEYS = [
    "relation own = rows valid 4 group k select count() as c\n"
    "policy owned on changes of own: NEXT[0,9] own[k = k.hold()].c < 3"
]
SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.string(),
        "u": pa.string(),
        "p": pa.bool_(),
        "q": pa.bool_(),
        "x": pa.int64(),
    }
)


class Outcome(NamedTuple):
    """The first violation, and the counts at the stop; these are None if there is none."""

    violation: tuple[int, int, int, int] | None
    counts: list[tuple[int, int, int]] | None
    rows: int | None
    keys: list[int] | None


class Cuts(NamedTuple):
    """How a log is cut: rows of a batch and of a slice, ticks at once, steps of time at the end."""

    rows: int
    slices: int
    ticks: int
    steps: list[int]


def outcome_of(
    texts: list[str],
    rows: list[Row],
    cuts: Cuts,
    *,
    key: str,
    saves: bool,
    end_time: EndTime = None,
) -> Outcome:
    """Check a log that is cut into pieces; perhaps go on in a new check after each of them."""
    file = parse_policies(key + "\n".join(texts))

    def new_check() -> LogCheck:
        check = LogCheck(
            file.policies, key=("k",) if key else (), verdicts="first", passes_time=True, threads=1
        )
        check.slice_events = cuts.slices
        return check

    check = new_check()
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(cuts.rows)
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    found: list[tuple[int, int, int, int]] = []

    def take() -> None:
        records, streams, policies = check.verdicts.taken()
        if streams:
            (stream,), (policy,) = memoryview(streams).cast("I"), memoryview(policies).cast("I")
            first = check.first
            assert first is not None
            assert records
            found.append((first.time_stamp, first.offset, policy, stream))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_atoms, "MOST_TICKS", cuts.ticks)
        with opened(check, file, reader) as source:
            for batch in source:
                for _ in check.feed(batch, source):
                    take()
                if check.is_stopped:
                    break
                if saves and not check.is_within_row:
                    snapshot = check.snapshot()
                    check = new_check()
                    check.restore(snapshot)
            for time_stamp in cuts.steps:
                if not check.is_stopped:
                    for _ in check.pass_time(source, time_stamp):
                        take()
                    source.pass_time(time_stamp)
            if not check.is_stopped:
                for _ in check.end(source, end_time):
                    take()
    if not check.is_stopped:
        return Outcome(None, None, None, None)
    counts = [(one.events, one.true, one.false) for one in check.counts]
    assert len(found) == 1
    return Outcome(found[0], counts, check.event_count, check.key_counts)


def points(rows: list[Row], end: int, *, key: str) -> Iterator[tuple[int, list[list[Found]]]]:
    """All steps in order, each a row or the k-th ticks of a time, behind the number of rows."""
    traces: list[str] = []
    before: list[tuple[int, int, bool]] = []
    for index, row in enumerate([*rows, None]):
        clock = before[-1][0] if before else 0
        for time in range(clock, row["ts"] if row else end):
            for trace in range(len(traces)):
                own = [one for one in before if one[1] == trace]
                alive = any(time - one[0] <= 4 for one in own)
                few = sum(one[2] and time - one[0] <= 9 for one in own) < 2
                ticks: list[list[Found]] = [[], [], [], []]
                if time % 3 == 0:
                    ticks[0].append((time, 0, trace, alive))
                if time % 4 == 0:
                    ticks[2].append((time, 0, trace, few))
                if any(ticks):
                    yield index, ticks
        if row is None:
            return
        name = row["k"] if key else ""
        if name not in traces:
            traces.append(name)
        trace = traces.index(name)
        offset = sum(one[:2] == (row["ts"], trace) for one in before)
        point = row["ts"], offset, trace, not row["q"]
        before.append((row["ts"], trace, row["p"]))
        yield index + 1, [[], [point], [], [point] if row["p"] else []]


def wanted_of(rows: list[Row], end: int, *, key: str) -> Outcome:
    """What the policies `TEXTS` say of a log, step by step."""
    counts = [[0, 0, 0] for _ in TEXTS]
    first: tuple[Any, ...] | None = None
    known: tuple[list[tuple[int, ...]], int] | None = None
    has_passed = False
    for count, of_policies in points(rows, end, key=key):
        has_news = False
        for policy, some in enumerate(of_policies):
            for time, offset, trace, verdict in some:
                counts[policy][0] += 1
                counts[policy][1 if verdict else 2] += 1
                order = (time, policy, trace, offset) if key else (time, offset, policy)
                # a time-point that might have been before the violation
                if first is not None and (time <= first[0][0] if key else order < first[0]):
                    has_news = True
                if not verdict and (first is None or order < first[0]):
                    first = order, (time, offset, policy, trace)
                    has_news = True
                needs_time = first is not None and (key or first[1][2] in {1, 3})
                if needs_time and not has_passed and first is not None and time > first[1][0]:
                    has_passed = has_news = True
        if has_news and first is not None:
            known = [tuple(one) for one in counts], count
    if first is None or known is None:
        return Outcome(None, None, None, None)
    keys = len({row["k"] for row in rows[: known[1]]}) if key else min(1, known[1])
    found = [(one[0], one[1], one[2]) for one in known[0]]
    return Outcome(first[1], found, known[1], [keys])


CELLS: st.SearchStrategy[Row] = st.fixed_dictionaries(
    {
        "gap": st.sampled_from([0, 0, 1, 2, 3, 12, 30]),
        "k": st.sampled_from("abc"),
        "u": st.sampled_from("xy"),
        "p": st.booleans(),
        "q": st.sampled_from([False, False, False, True]),
    }
)


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    now = 0
    rows = []
    for cells in draw(st.lists(CELLS, min_size=1, max_size=9)):
        now += cells["gap"]
        rows.append({"ts": now, **{name: cells[name] for name in "kupq"}})
    return rows


@st.composite
def some_cuts(draw: st.DrawFn) -> Cuts:
    sizes = st.sampled_from([1, 2, 3, 100])
    return Cuts(draw(sizes), draw(sizes), draw(st.sampled_from([1, 2, 5, 100_000])), [])


@pytest.mark.parametrize("key", ["", "key k\n"])
@settings(max_examples=60)
@given(logs(), some_cuts(), st.booleans())
def test_the_stop_is_that_of_a_check_step_by_step(
    key: str, rows: list[Row], cuts: Cuts, saves: bool
) -> None:
    wanted = wanted_of(rows, rows[-1]["ts"], key=key)
    assert outcome_of(TEXTS, rows, cuts, key=key, saves=saves) == wanted


@pytest.mark.parametrize("key", ["", "key k\n"])
@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([*TEXTS, *LATER]), min_size=1, max_size=4, unique=True),
    logs(),
    some_cuts(),
    st.lists(st.integers(1, 9), max_size=4),
    st.booleans(),
    st.lists(st.sampled_from(CHANGES), max_size=2, unique=True),
)
def test_the_stop_does_not_depend_on_how_silences_are_cut(
    key: str,
    texts: list[str],
    rows: list[Row],
    cuts: Cuts,
    steps: list[int],
    saves: bool,
    changes: list[str],
) -> None:
    now = end = rows[-1]["ts"] + 20
    if not key:
        texts = [one for one in texts if " per " not in one] or TEXTS
    texts = [*texts, *(OF_KEYS[: len(changes)] if key else changes)]
    now = rows[-1]["ts"]
    times = []
    for step in steps:
        now += step
        times.append(min(now, end))
    cuts = cuts._replace(steps=sorted({*times, end}))
    whole = Cuts(100, 100, 100_000, [end])
    wanted = outcome_of(texts, rows, whole, key=key, saves=False)
    assert outcome_of(texts, rows, cuts, key=key, saves=saves) == wanted


def test_a_tick_comes_before_a_later_row_of_its_time() -> None:
    """The row 6:1 is the first violation to come, but the tick 6:0 behind it is earlier."""
    rows: list[Row] = [{"ts": 6, "k": "a", "p": True, "q": place == 1} for place in range(2)]
    rows += [{"ts": 6, "k": "a", "p": True, "q": False}, {"ts": 9, "k": "a", "p": False}]
    texts = ["policy few on every 6: count[0,9](p) < 2", "policy row: NOT q"]
    for size in (1, 100):
        found = outcome_of(texts, rows, Cuts(size, 100, 100, []), key="", saves=False)
        assert found == Outcome((6, 0, 0, 0), [(1, 0, 1), (3, 2, 1)], 3, [1])
