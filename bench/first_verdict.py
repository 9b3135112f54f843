"""From the start of the command to its first verdict, and to the end of an empty log."""

from __future__ import annotations

import statistics
from itertools import product
from typing import TYPE_CHECKING

from bench import commands
from bench.compare import progress
from bench.contenders import Mtlmon
from bench.logs import empty_log
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

BDD_WORKLOAD = "bdd"
# After an event without atoms, its expression is neither a cube nor a clause.
BDD_FORMULA = "(EVENTUALLY p) EQUIV EVENTUALLY[0,6] q"

# Settles the first time-point of every workload: an event beyond every bound.
OPENING = b"@0\n@4000000000\n"


def first_verdict(settings: Settings) -> Result:
    """Milliseconds on a live pipe, for the workloads and for a formula that needs BDDs.

    `empty log ms` is the median time of the whole command on an empty log.
    """
    rows: list[Row] = []
    formulas = {name: WORKLOADS[name].formula for name in settings.workloads}
    formulas[BDD_WORKLOAD] = BDD_FORMULA
    for (name, formula), mode in product(formulas.items(), settings.contenders):
        live, empty = (Mtlmon(mode).command(formula, log) for log in ("-", empty_log()))
        times = []
        empty_times = []
        for _ in progress(settings.repeats, f"{name} {mode}"):
            times.append(1e3 * commands.seconds_to_first_output(live, OPENING))
            empty_times.append(1e3 * commands.run(empty, settings.limit).seconds)
        rows.append(
            {
                "workload": name,
                "contender": mode,
                "least ms": min(times),
                "median ms": statistics.median(times),
                "most ms": max(times),
                "empty log ms": statistics.median(empty_times),
            }
        )
    return {"rows": rows, "notes": []}
