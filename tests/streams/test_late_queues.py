"""Rows that wait, and ticks that were there once: which are named, and which are forgotten."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from tests.doors import Queue, TickChanges, TickRows


def rows(names: list[tuple[int, int, int]]) -> TickRows:
    """Rows with these time-stamps, traces and offsets, and an atom that holds at each."""
    times, traces, offsets = zip(*names, strict=True)
    return TickRows(
        np.array(times, np.int64),
        np.array(traces, np.uint32),
        np.array(offsets, np.uint64),
        np.ones((len(names), 1), np.bool_),
        np.array(times, np.int64),
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_of_a_trace_go_in_their_order(seed: int) -> None:
    """Against a queue for each trace, with many rows of few traces."""
    source = np.random.default_rng(seed)
    count = 500
    traces = source.integers(0, 4, count).astype(np.uint32)
    times = np.sort(source.integers(0, 50, count))
    offsets = source.integers(0, 1 << 40, count).astype(np.uint64)
    waiting: dict[int, deque[int]] = {}
    for trace, offset in zip(traces.tolist(), offsets.tolist(), strict=True):
        waiting.setdefault(trace, deque()).append(offset)
    queue = Queue(times, traces, offsets)
    while len(queue.traces):
        goes = source.permutation(queue.traces)[: source.integers(1, 200)]
        expected = [waiting[trace].popleft() for trace in goes.tolist()]
        removed = TickRows(
            np.zeros(len(goes), np.int64),
            goes,
            np.zeros(len(goes), np.uint64),
            np.ones((len(goes), 1), np.bool_),
            np.zeros(len(goes), np.int64),
        )
        named, queue = queue.named(removed)
        assert named.offsets.tolist() == expected
        for trace, left in waiting.items():
            assert queue.offsets[queue.traces == trace].tolist() == list(left)


def test_ticks_are_forgotten_below_the_bound_only() -> None:
    """A tick at the bound itself can be there again, and is no new one then."""
    changes = TickChanges({10: 1})
    ticks = rows([(90, 0, 0), (100, 0, 0)])
    changes.add({10: ticks})
    changes.taken()
    changes.replace([{10: ticks}], [{}])
    changes.taken()
    changes.forget(100)
    changes.add({10: ticks})
    found = changes.taken()[10]
    assert found.new.time_stamps.tolist() == [90]
    assert found.revised.time_stamps.tolist() == [100]
    assert found.is_removed.tolist() == [False]
