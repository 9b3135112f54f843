"""Ends of records that retractions move, in whatever order these come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doors import EndChains
from tests.reference.moved_ends import Row, settled

_CODES = {"+": 0, "-": 1, "advance": 2}
_ENDS = st.sampled_from([None, 9, 8, 7, 6, 5, 4, 3])


@st.composite
def logs(draw: Any) -> list[Row]:
    """Rows of a few records, and links of their chains, some of which lead from nowhere."""
    found: list[Row] = []
    for name in (*"abc", None):
        stamp, end = draw(st.integers(1, 9)), draw(_ENDS)
        found += [Row(stamp, "+", name, end)] * draw(st.sampled_from([1, 1, 1, 0, 2]))
        for _ in range(draw(st.integers(0, 3))):
            new = draw(st.integers(1, 9))
            found.append(Row(stamp, "-", name, end, new))
            end = draw(st.sampled_from([new, new, new, 2]))
        if draw(st.sampled_from([False, False, True])):
            found.append(Row(draw(st.sampled_from([stamp, 0])), "-", name, end))
            found.append(Row(draw(st.sampled_from([stamp, 7])), "+", name, end))
    found += [Row(draw(st.integers(1, 20)), "advance", None, None)] * draw(st.integers(0, 1))
    rows: list[Row] = draw(st.permutations(found))
    return rows


@settings(max_examples=500)
@given(logs(), st.integers(1, 5), st.sampled_from([0, 1, 3, 9, 99]), st.data())
def test_chains(rows: list[Row], size: int, lateness: int, data: Any) -> None:
    """However rows are cut into batches, and wherever a snapshot goes on."""
    chains = EndChains(lateness)
    found = []
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        operations = np.array([_CODES[one.operation] for one in some], np.uint8)
        ends = [one.end for one in some]
        left = chains.take(
            [one.time_stamp for one in some],
            operations,
            [one.id for one in some],
            ends,
            [one.new_end for one in some],
        )
        words = [[*_CODES][code] for code in operations]
        found += [
            some[place]._replace(operation=words[place], end=ends[place], new_end=None)
            for place in np.flatnonzero(left)
        ]
        if data.draw(st.booleans()):
            snapshot, chains = chains.snapshot(), EndChains(lateness)
            chains.restore(snapshot)
    chains.end()
    assert (found, chains.broken) == settled(rows, lateness)
    assert not chains.byte_count


def test_a_redelivered_retraction_waits_in_vain() -> None:
    rows = [Row(5, "+", "a", 9), Row(5, "-", "a", 9, 7), Row(5, "-", "a", 9, 7)]
    assert settled(rows, 3) == ([Row(5, "+", "a", 9), Row(5, "+", "a", 7)], 1)


@pytest.mark.parametrize("damaged", [b"", b"[]", b'[1, 0, [["a"]]]'])
def test_damaged_snapshots(damaged: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        EndChains(0).restore(damaged)
