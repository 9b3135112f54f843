"""Checks that go on from a snapshot, where ticks are left out: not due, or of sums too large."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.policy import parse_policies
from tests.checking.logs import opened
from tests.checking.test_policy_monitors import taken
from tests.doors import LogCheck
from tests.doors import streams_atoms as stream_atoms

Row = dict[str, Any]
STREAMS = """\
key k
stream s = sum[0,19](x) every 10
stream e = (e.last(or: 0) + x.hold(or: 0)) / 2 every 10
stream n = count[0,9](x > 1) per u as u every 5
"""
POLICIES = [
    "policy small on every 10: coalesce(s < 5, true)",
    "policy steady on every 10: NOT PREVIOUS s > 1",
    "policy again on every 20: s.hold() > 1 IMPLIES EVENTUALLY[0,40] s.hold() < 2",
    "policy all_of_it per none on every 10: sum[0,29](x) < 9",
    "policy quiet on every 5: ts - ts.hold() < 12",
    "policy mean on every 10: e < 3",
    "policy most on every 10: max[0,40](s.hold(or: 0)) < 8",
    "policy each on every 5: any(n > 1 over n)",
    "policy row: x < 4 or s.hold(or: 0) > 3",
]
SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "u": pa.string(), "x": pa.int64()})


def checked(
    texts: list[str],
    rows: list[Row],
    size: int,
    stops: list[int],
    *,
    only_due: bool,
    verdicts: Any,
    most_ticks: int,
) -> tuple[list[tuple[int, int, str]], list[tuple[int, int]]]:
    """The verdicts and counts of a check that goes on in another one after some batches."""
    file = parse_policies(STREAMS + "\n".join(texts))
    found: list[tuple[int, int, str]] = []
    snapshot: bytes | None = None
    tables: list[bytes] = []
    stops = sorted({*stops})
    while True:
        check = LogCheck(file.policies, key=("k",), verdicts=verdicts, threads=1)
        batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(size)
        reader = pa.RecordBatchReader.from_batches(SCHEMA, batches)
        is_cut = False
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stream_atoms, "MOST_TICKS", most_ticks)
            with opened(check, file, reader, on_error="skip") as source:
                if check.repeats_ticks and only_due:
                    source.only_due_ticks()
                if snapshot is not None:
                    check.restore(snapshot)
                    assert check.snapshot() == snapshot
                    if check.needs_all_ticks:
                        source.only_due_ticks(False)
                    for keys, table in zip(source.key_tables, tables, strict=True):
                        if keys is not None:
                            keys.restore(table)
                    for _ in source.skip(check.position):
                        pass
                for batch in source:
                    for _ in check.feed(batch, source):
                        found += taken(check._native)
                    if stops and check.position >= stops[0] and not check.is_within_row:
                        stops = [one for one in stops if one > check.position]
                        snapshot = check.snapshot()
                        tables = [
                            b"" if keys is None else keys.snapshot() for keys in source.key_tables
                        ]
                        is_cut = True
                        break
                if not is_cut:
                    for _ in check.end(source):
                        found += taken(check._native)
                    return found, [(one.true, one.false) for one in check.counts]


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    cells = st.tuples(
        st.sampled_from([0, 1, 4, 9, 30]),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        st.sampled_from([0, 1, 2, 5, 2**62, 2**62]),
    )
    now = 0
    rows = []
    for gap, key, user, value in draw(st.lists(cells, min_size=1, max_size=14)):
        now += gap
        rows.append({"ts": now, "k": key, "u": user, "x": value})
    return rows


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(POLICIES), min_size=1, max_size=4, unique=True),
    logs(),
    st.integers(1, 15),
    st.lists(st.integers(1, 14), max_size=4),
    st.sampled_from(["all", "false"]),
    st.sampled_from([1, 3, 1 << 17]),
)
def test_a_check_goes_on_as_if_it_had_not_been_stopped(
    texts: list[str], rows: list[Row], size: int, stops: list[int], verdicts: Any, most_ticks: int
) -> None:
    whole = checked(texts, rows, 15, [], only_due=False, verdicts=verdicts, most_ticks=1 << 17)
    found = checked(
        texts, rows, size, stops, only_due=True, verdicts=verdicts, most_ticks=most_ticks
    )
    assert found == whole
