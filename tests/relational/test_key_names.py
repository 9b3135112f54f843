"""The names of time-points among those of their key are what counting says, however they come."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mtlmon.errors import SnapshotError
from tests.doors import KeyNames

Keys = tuple[tuple[str], ...]
Named = list[tuple[int, int, Keys]]


def _counted(rows: Named, place: int, name: tuple[int, int]) -> dict[tuple[str], int]:
    """The keys of a time-point, each with the number of its time-points before this one."""
    time, offset = name
    found = {keys[place] for stamp, own, keys in rows if (stamp, own) == name}
    return {
        key: len({own for stamp, own, keys in rows if stamp == time and own < offset
                  and keys[place] == key})
        for key in found
    }  # fmt: skip


def _batches(source: random.Random, *, by_stamp: bool) -> list[Named]:
    """Batches whose rows are at few times, also at earlier ones, with keys of two kinds."""
    counts: dict[int, int] = {}
    batches: list[Named] = []
    for _ in range(source.randrange(1, 6)):
        batch: Named = []
        for _ in range(source.randrange(8)):
            time = source.randrange(5)
            keys = (source.choice("ab"),), (source.choice("xyz"),)
            batch.append((time, 0 if by_stamp else counts.get(time, 0), keys))
            counts[time] = counts.get(time, 0) + 1
        batches.append(batch)
    return batches


@pytest.mark.parametrize("by_stamp", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_names_are_counted(seed: int, by_stamp: bool) -> None:
    source = random.Random(seed)
    together = KeyNames([0, None, 1])
    alone = KeyNames([0, None, 1])
    rows: Named = []
    for batch in _batches(source, by_stamp=by_stamp):
        rows += batch
        together.add_placed(
            np.array([time for time, _, _ in batch], np.int64),
            np.array([offset for _, offset, _ in batch], np.uint64),
            [keys for *_, keys in batch],
        )
        for one in batch:
            alone.add(*one)
        for time, offset, _ in source.sample(rows, min(3, len(rows))):
            for policy, place in (0, 0), (2, 1):
                expected = _counted(rows, place, (time, offset))
                assert together.at(policy, time, offset) == expected
                assert alone.at(policy, time, offset) == expected
            assert together.at(1, time, offset) is None
    assert together.held_bytes == alone.held_bytes
    again: KeyNames[int] = KeyNames([0, None, 1])
    again.restore(together.snapshot())
    for time, offset, _ in rows:
        assert again.at(0, time, offset) == together.at(0, time, offset)
    with pytest.raises(SnapshotError):
        together.at(0, 9, 0)
