"""Which events are below the largest time-stamp of their trace so far."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.doors import LateEvents


@pytest.mark.parametrize("traces", [None, 1, 4])
def test_late_events(traces: int | None) -> None:
    """The same as one looks at each event by itself."""
    source = random.Random(traces)
    for _ in range(200):
        late = LateEvents()
        latest: dict[int, int] = {}
        for _ in range(4):
            stamps = [source.randrange(6) for _ in range(source.randrange(1, 9))]
            numbers = [source.randrange(traces or 1) for _ in stamps]
            wanted = []
            for stamp, number in zip(stamps, numbers, strict=True):
                wanted.append(stamp < latest.get(number, 0))
                latest[number] = max(stamp, latest.get(number, 0))
            given = None if traces is None else np.array(numbers, np.uint32)
            assert late.take(np.array(stamps, np.int64), given).tolist() == wanted
