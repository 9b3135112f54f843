"""The paper's figure: peak memory against event rate, by formula and mode."""

from __future__ import annotations

import statistics
from itertools import product
from typing import TYPE_CHECKING

from bench import commands
from bench.compare import empty_megabytes, progress
from bench.contenders import Mtlmon
from bench.logs import random_log
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

TIME_STAMPS = 100


def memory(settings: Settings) -> Result:
    """Megabytes above the same command on an empty log, the mean over as many logs as repeats.

    Logs have 100 time-stamps, and so as many events more as the rate is higher. They are removed
    when they have been used.
    """
    peaks: dict[tuple[str, str, int], list[float]] = {}
    for rate in settings.rates:
        for repeat in progress(settings.repeats, f"memory r={rate}"):
            seed = settings.seed + repeat
            for density in settings.densities:
                _one_log(settings, density, rate, seed, peaks)
    rows: list[Row] = []
    for name, mode in product(settings.workloads, settings.contenders):
        row: Row = {"workload": name, "formula": WORKLOADS[name].formula, "mode": mode}
        row.update(
            {f"r={rate}": statistics.mean(peaks[name, mode, rate]) for rate in settings.rates}
        )
        rows.append(row)
    return {"rows": rows, "notes": []}


def _one_log(
    settings: Settings,
    density: str,
    rate: int,
    seed: int,
    peaks: dict[tuple[str, str, int], list[float]],
) -> None:
    atoms = WORKLOADS[settings.workloads[0]].atoms
    log = random_log(atoms, density, rate, TIME_STAMPS * rate, seed)
    path = log.path()
    for name, mode in product(settings.workloads, settings.contenders):
        formula, who = WORKLOADS[name].formula, Mtlmon(mode)
        peak = commands.run(who.command(formula, path), settings.limit).peak_bytes / 1e6
        peaks.setdefault((name, mode, rate), []).append(peak - empty_megabytes(who, formula))
    log.remove()
