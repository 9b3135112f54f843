"""Ends of records that retractions move, in whatever order these come."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doors import Corrections, EndChains

INSERT, RETRACT = 0, 1
_ENDS = st.sampled_from([None, 9, 8, 7, 6, 5, 4, 3])


class Row(NamedTuple):
    """A row of a record, or a retraction that moves its end."""

    operation: int
    id: str
    end: int | None
    new_end: int | None = None


@st.composite
def logs(draw: Any) -> list[Row]:
    """Inserts of a few records, and links of their chains, some of which lead from nowhere."""
    found: list[Row] = []
    for name in "ab":
        end = draw(_ENDS)
        found.append(Row(INSERT, name, end))
        for _ in range(draw(st.integers(0, 3))):
            new = draw(st.integers(1, 9))
            found.append(Row(RETRACT, name, end, new))
            end = draw(st.sampled_from([new, new, new, 2]))
    rows: list[Row] = draw(st.permutations(found))
    return rows


def ends_of(rows: list[Row]) -> tuple[dict[str, int | None], int]:
    """The ends of the records that have come, from the beginning, and how many links are broken."""
    links: dict[tuple[str, int | None], int] = {}
    broken = 0
    moved: dict[str, int | None] = {}
    inserted: dict[str, bool] = {}
    for row in rows:
        if row.operation == INSERT:
            inserted[row.id], moved[row.id] = True, row.end
        else:
            assert row.new_end is not None
            is_later = row.end is not None and row.new_end >= row.end
            if is_later or (row.id, row.end) in links:
                broken += 1
                continue
            links[row.id, row.end] = row.new_end
        for name in inserted:
            while (name, moved[name]) in links:
                moved[name] = links.pop((name, moved[name]))
    return moved, broken + len(links)


def batch_of(rows: list[Row], kind: pa.DataType) -> pa.RecordBatch:
    columns = [pa.array([one[place] for one in rows], pa.int64()) for place in (2, 3)]
    return pa.RecordBatch.from_arrays([one.view(kind) for one in columns], ["till", "new"])


@settings(max_examples=200)
@given(logs(), st.integers(1, 5), st.sampled_from([pa.int64(), pa.timestamp("us")]), st.data())
def test_chains(rows: list[Row], size: int, kind: pa.DataType, data: Any) -> None:
    chains = EndChains("till", "new")
    known: dict[str, int | None] = {}
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        corrections = Corrections(
            np.array([one.operation for one in some], np.uint8), [one.id for one in some]
        )
        left, inputs, found = chains.take(
            np.full(len(some), 5, np.int64), batch_of(some, kind), corrections
        )
        assert inputs.schema.field("till").type == kind
        assert found.operations is not None
        assert found.ids is not None
        assert found.operations.tolist() == [INSERT] * len(left)
        assert found.ids == [some[place].id for place in left.tolist()]
        # each is a row that replaces the one with its id
        known |= zip(found.ids, inputs.column("till").view(pa.int64()).to_pylist(), strict=True)
        assert known == ends_of(rows[: first + size])[0]
        if data.draw(st.booleans()):
            snapshot, chains = chains.snapshot(), EndChains("till", "new")
            chains.restore(snapshot)
    chains.forget(5)
    chains.forget(6)
    assert chains.broken == ends_of(rows)[1]
    assert not chains.byte_count


def test_rows_without_ids_have_no_chains() -> None:
    chains = EndChains("till", "new")
    rows = [Row(RETRACT, "a", 9, 5), Row(INSERT, "a", 9)]
    corrections = Corrections(np.array([RETRACT, INSERT], np.uint8), [None, None])
    left, inputs, _ = chains.take(np.full(2, 5, np.int64), batch_of(rows, pa.int64()), corrections)
    assert (left.tolist(), inputs.column("till").to_pylist(), chains.broken) == ([1], [9], 1)


def test_a_record_is_taken_back_as_a_whole() -> None:
    chains = EndChains("till", "new")
    rows = [Row(INSERT, "a", 9), Row(RETRACT, "a", 9, 5), Row(RETRACT, "a", 5)]
    corrections = Corrections(np.array([INSERT, RETRACT, RETRACT], np.uint8), ["a"] * 3)
    left, inputs, found = chains.take(
        np.full(3, 5, np.int64), batch_of(rows, pa.int64()), corrections
    )
    assert left.tolist() == [0, 1, 2]
    assert inputs.column("till").to_pylist()[:2] == [9, 5]
    assert found.operations is not None
    assert found.operations.tolist() == [INSERT, INSERT, RETRACT]


@pytest.mark.parametrize("damaged", [b"", b"[]", b'[1, [["a"]]]'])
def test_damaged_snapshots(damaged: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        EndChains("till", "new").restore(damaged)
