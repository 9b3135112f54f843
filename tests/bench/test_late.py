"""Logs whose rows come late are as the benchmark says."""

from __future__ import annotations

import numpy as np
import pytest

from bench.late import Case, arrivals, cases


@pytest.mark.parametrize("case", cases("csv"), ids=str)
def test_rows_come_late(case: Case) -> None:
    # enough for some bursts
    order = arrivals(case, 1_000_000, 1)
    assert (np.sort(order) == np.arange(len(order))).all()
    lateness = np.maximum.accumulate(order) - order
    limit = {"1s": 1000, "5s": 5000, "1m": 60_000}[case.delay]
    assert lateness.max() < limit
    assert case.share / 2 <= float((lateness > 0).mean()) <= case.share * 1.2
    if case.share:
        assert lateness.max() > limit * 0.8
