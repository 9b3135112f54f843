"""The order of rows by time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.doors import order_of

_LARGEST = 2**63 - 1


@pytest.mark.parametrize("spread", [1, 10, 2**40, 2**58])
@pytest.mark.parametrize("odd", [None, _LARGEST, -(2**63)])
def test_the_order_of_rows(spread: int, odd: int | None) -> None:
    """Rows of equal times stay in their order; times may be too far apart for 64 bits."""
    random = np.random.default_rng(spread)
    for count in [0, 1, 2, *random.integers(3, 60, 50).tolist()]:
        times = random.integers(-5, 20, count) * spread
        if odd is not None:
            times[random.random(count) < 0.3] = odd
        found = order_of(times)
        wanted = np.argsort(times, kind="stable")
        if found is None:
            assert wanted.tolist() == list(range(count))
        else:
            assert found.tolist() == wanted.tolist()
            assert wanted.tolist() != list(range(count))
