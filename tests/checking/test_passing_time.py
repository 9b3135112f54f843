"""Time that passes without rows: what it brings does not depend on the steps that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.policy import parse_policies
from tests.checking.logs import opened
from tests.checking.test_policy_monitors import taken
from tests.doors import LogCheck

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

POLICIES = [
    "policy answered: p IMPLIES EVENTUALLY[0,2] q",
    "policy late: EVENTUALLY[3,7] q",
    "policy nested: p IMPLIES EVENTUALLY[0,4] (q AND NEXT[0,1] p)",
    "policy by_user per u: EVENTUALLY[0,5] p",
    "policy alive on every 1: count[0,2]() > 0",
    "policy regular on every 3: any[0,1](q) or count[0,4]() < 2",
    "policy again on every 2: count[0,3]() > 1 IMPLIES EVENTUALLY[0,4] count[0,1]() > 0",
    "policy ticks on every 2: exists recent[u = u.hold()] OR total[].c > 1",
    "policy changes per none on changes of total: coalesce(total[].c, 0) < 2",
    "policy opened on changes of opened: exists opened[k = k.hold()] IMPLIES "
    "EVENTUALLY[0,3] any[0,0](q)",
    "policy ended per u on changes of recent: NEXT[0,4] not exists recent[u = u.hold()]",
    "policy window per none on changes of given: EVENTUALLY[1,6] (exists given OR total[].c > 1)",
    "policy next: p IMPLIES (n.next(or: 0) > 1 OR EVENTUALLY[0,3] q)",
]
RELATIONS = """
relation given  = table "given.csv" valid [from, until)
relation opened = rows valid until q per k where p select k as k
relation total  = opened group select count() as c
relation recent = rows valid 5 group u select count() as c
"""
GIVEN = "from,until\n2,3\n5,9\n7,30\n"
CELLS = st.fixed_dictionaries(
    {
        "gap": st.integers(0, 4),
        "k": st.sampled_from("abc"),
        "u": st.sampled_from("xy"),
        "p": st.booleans(),
        "q": st.booleans(),
        "n": st.integers(0, 3),
    }
)
Verdict = tuple[int, int, str]


def found(
    folder: Path,
    texts: list[str],
    rows: list[dict[str, Any]],
    passes: list[int],
    end_time: int | None = None,
    *,
    repeats: bool,
    before: Sequence[int] = (),
) -> list[Verdict]:
    """The verdicts on a log, in order; behind it, time passes in steps.

    Args:
        folder: has the tables.
        texts: the policies.
        rows: the log.
        passes: the times to which time passes behind it.
        end_time: what is known of the time after that.
        repeats: whether ticks repeat verdicts.
        before: for each row how far time has passed before it comes; all come at once without.
    """
    text = "key k\n" + RELATIONS + "\n".join(texts)
    file = parse_policies(text, str(folder / "p.mtl"))
    check = LogCheck(
        file.policies, key=("k",), passes_time=True, threads=1, gets_all_ticks=not repeats
    )
    schema = {
        "ts": pa.int64(),
        "k": pa.string(),
        "u": pa.string(),
        "p": pa.bool_(),
        "n": pa.int64(),
    }
    table = pa.Table.from_pylist(rows, pa.schema({**schema, "q": pa.bool_()}))
    known: list[Verdict] = []

    def passed(time_stamp: int) -> None:
        """Let time pass while the next rows are waited for, as the command does."""
        batches = list(source.rows_until(time_stamp))
        for batch in batches:
            for _ in check.feed(batch, source):
                known.extend(taken(check._native))
        if source.clock is not None and time_stamp > max(source.clock, source.passed):
            for _ in check.pass_time(source, time_stamp):
                known.extend(taken(check._native))
            source.pass_time(time_stamp)

    def one_by_one() -> Iterator[pa.RecordBatch]:
        for place, time_stamp in enumerate(before):
            passed(time_stamp)
            yield from table.slice(place, 1).to_batches()

    with opened(
        check,
        file,
        pa.RecordBatchReader.from_batches(table.schema, one_by_one()) if before else table,
    ) as source:
        if check.repeats_ticks:
            source.only_due_ticks()
        for batch in source:
            for _ in check.feed(batch, source):
                known.extend(taken(check._native))
        for time_stamp in passes:
            assert check._native.next_due(time_stamp) <= time_stamp
            for _ in check.pass_time(source, time_stamp):
                known.extend(taken(check._native))
            source.pass_time(time_stamp)
        for _ in check.end(source, end_time):
            known.extend(taken(check._native))
    return known


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(POLICIES), min_size=1, max_size=4, unique=True),
    st.lists(CELLS, min_size=1, max_size=8),
    st.lists(st.integers(1, 9), max_size=6),
    st.booleans(),
)
def test_steps_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    cells: list[dict[str, Any]],
    steps: list[int],
    repeats: bool,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "given.csv").write_text(GIVEN)
    rows = []
    now = 0
    for one in cells:
        now += one["gap"]
        rows.append({"ts": now, **{name: one[name] for name in "kupqn"}})
    end = now + 20
    some = []
    for step in steps:
        now += step
        some.append(min(now, end))
    one_by_one = list(range(rows[-1]["ts"] + 1, end + 1))
    wanted = found(folder, texts, rows, one_by_one, repeats=repeats)
    assert found(folder, texts, rows, [end], repeats=repeats) == wanted
    assert found(folder, texts, rows, sorted({*some, end}), repeats=repeats) == wanted
    # the end of the log decides the same, in another order
    at_end = found(folder, texts, rows, [], end - 1, repeats=repeats)
    assert sorted(map(repr, at_end)) == sorted(map(repr, wanted))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(POLICIES), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(CELLS, st.integers(0, 4)), min_size=2, max_size=8),
    st.booleans(),
)
def test_time_passes_between_rows(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    cells: list[tuple[dict[str, Any], int]],
    repeats: bool,
) -> None:
    """What time has decided before a row comes is what the row and those behind it decide."""
    folder = tmp_path_factory.getbasetemp()
    (folder / "given.csv").write_text(GIVEN)
    rows, before = [], []
    now = 0
    for one, early in cells:
        now += 2 * one["gap"]
        rows.append({"ts": now, **{name: one[name] for name in "kupqn"}})
        before.append(max(0, now - early))
    wanted = found(folder, texts, rows, [], now + 9, repeats=repeats)
    answer = found(folder, texts, rows, [], now + 9, repeats=repeats, before=before)
    assert sorted(map(repr, answer)) == sorted(map(repr, wanted))
