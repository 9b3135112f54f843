"""Irregular clocks: the same events, with gaps between time-stamps that are equal or vary.

Bounds and gaps are a hundred times those of the workloads, so that gaps can vary. The base is f0,
the formula `p`, on the same text: what another formula takes more is the engine's share.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from bench.compare import Case, Comparison
from bench.formulas import scaled
from bench.logs import CLOCKS, random_log
from bench.workloads import PAIR, WORKLOADS
from mtlmon import parse

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

BASE = "f0"
SCALE = 100
SHARE = "CPU ns above f0"


def clocks(settings: Settings) -> Result:
    """The workloads on each clock, and the time of the processors that each takes more than f0."""
    comparison = Comparison(settings.all_contenders(), settings.repeats, settings.limit)
    return {"rows": with_shares(comparison.rows(clock_cases(settings))), "notes": comparison.notes}


def clock_cases(settings: Settings) -> list[Case]:
    """The workloads with scaled bounds, on each clock, with f0 first wherever there is a log."""
    names = (BASE, *(name for name in settings.workloads if name != BASE))
    return [
        Case(
            {"density": density, "rate": rate, "clock": clock, "workload": name},
            str(scaled(parse(WORKLOADS[name].formula), SCALE)),
            random_log(
                PAIR,
                density,
                rate,
                settings.events,
                settings.seed,
                time_scale=SCALE,
                clock=clock,
            ),
        )
        for density, rate, clock, name in product(settings.densities, settings.rates, CLOCKS, names)
    ]


def with_shares(rows: list[Row]) -> list[Row]:
    """The rows with the engine's share: the CPU time per event above that of f0 on the same log."""

    def log_of(row: Row) -> tuple[str | int | float, ...]:
        return row["density"], row["rate"], row["clock"], row["contender"]

    bases = {
        log_of(row): float(row["CPU ns per event"])
        for row in rows
        if row["workload"] == BASE and "CPU ns per event" in row
    }
    return [
        {**row, SHARE: float(row["CPU ns per event"]) - bases[log_of(row)]}
        if "CPU ns per event" in row and log_of(row) in bases
        else row
        for row in rows
    ]
