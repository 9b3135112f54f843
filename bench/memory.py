"""The paper's figure: peak memory against event rate, by formula and mode."""

from __future__ import annotations

import statistics
from itertools import product
from typing import TYPE_CHECKING

from bench import commands
from bench.compare import progress, start_up
from bench.contenders import Mtlmon
from bench.logs import random_log
from bench.workloads import PAIR, WORKLOADS

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

TIME_STAMPS = 100

FORMULAS = (
    "EVENTUALLY[2,5] p",
    "p IMPLIES EVENTUALLY[2,5] q",
    WORKLOADS["f3"].formula,
    WORKLOADS["f5"].formula,
)
"""Formulas that leave time-points undecided until later time-stamps, however many there are."""


def memory(settings: Settings) -> Result:
    """Megabytes above the same command on an empty log, the mean over as many logs as repeats.

    Logs are dense and have 100 time-stamps, and so as many events more as the rate is higher. They
    are removed when they have been used.
    """
    peaks: dict[tuple[str, str, int], list[float]] = {}
    empty = {
        (formula, mode): start_up(Mtlmon(mode), formula, settings.repeats).peak_bytes
        for formula, mode in product(FORMULAS, settings.contenders)
    }
    for rate in settings.rates:
        for repeat in progress(settings.repeats, f"memory r={rate}"):
            log = random_log(PAIR, "dense", rate, TIME_STAMPS * rate, settings.seed + repeat)
            path = log.path()
            for formula, mode in product(FORMULAS, settings.contenders):
                arguments = Mtlmon(mode).command(formula, path)
                peak = commands.run(arguments, settings.limit).peak_bytes - empty[formula, mode]
                peaks.setdefault((formula, mode, rate), []).append(peak / 1e6)
            log.remove()
    rows: list[Row] = []
    for formula, mode in product(FORMULAS, settings.contenders):
        row: Row = {"formula": formula, "mode": mode}
        row.update(
            {f"r={rate}": statistics.mean(peaks[formula, mode, rate]) for rate in settings.rates}
        )
        rows.append(row)
    return {"rows": rows, "notes": []}
