"""Logs whose rows come late are as the benchmark says."""

from __future__ import annotations

import numpy as np
import pytest

from bench.arrivals import arrivals
from bench.corrections import FILE_BATCH, LIVE_BATCH, Log
from bench.corrections import cases as corrected_cases
from bench.late import Case, cases


@pytest.mark.parametrize("case", cases("csv"), ids=str)
def test_rows_come_late(case: Case) -> None:
    # enough for some bursts
    limit = {"1s": 1000, "5s": 5000, "1m": 60_000}[case.delay]
    order = arrivals(np.arange(1_000_000), case.share, limit, case.way, 1)
    assert (np.sort(order) == np.arange(len(order))).all()
    lateness = np.maximum.accumulate(order) - order
    assert lateness.max() < limit
    assert case.share / 2 <= float((lateness > 0).mean()) <= case.share * 1.2
    if case.share:
        assert lateness.max() > limit * 0.8


@pytest.mark.parametrize("batch", [LIVE_BATCH, FILE_BATCH])
@pytest.mark.parametrize("formula", ["response", "since", "nested"])
def test_histories_end_as_monitors_of_the_sorted_log(formula: str, batch: int) -> None:
    wanted = (formula, 1000, 0.1, "1m", "uniform", batch)
    (case,) = (one for one in corrected_cases() if one == wanted)
    log = Log(case.keys, 20_000, 1)
    arrived = log.arrived(case)
    _, expected = log.monitored(formula, batch, log.ordered(arrived))
    _, history, found = log.corrected(case, arrived)
    assert found == expected > 0
    assert history.counters["late"] > 100
