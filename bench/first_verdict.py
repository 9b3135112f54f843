"""From the start of the command to its first verdict."""

from __future__ import annotations

import statistics
from itertools import product
from typing import TYPE_CHECKING

from bench.commands import seconds_to_first_output
from bench.compare import progress
from bench.contenders import Mtlmon
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

BDD_WORKLOAD = "bdd"
# After an event without atoms, its expression is neither a cube nor a clause.
BDD_FORMULA = "((EVENTUALLY[0,5] p) AND EVENTUALLY[0,6] q) OR EVENTUALLY[0,7] (p AND q)"

# Settles the first time-point of every workload: an event beyond every bound.
OPENING = b"@0\n@4000000000\n"


def first_verdict(settings: Settings) -> Result:
    """Milliseconds on a live pipe, for the workloads and for a formula that needs BDDs."""
    rows: list[Row] = []
    formulas = {name: WORKLOADS[name].formula for name in settings.workloads}
    formulas[BDD_WORKLOAD] = BDD_FORMULA
    for (name, formula), mode in product(formulas.items(), settings.contenders):
        arguments = Mtlmon(mode).command(formula, "-")
        times = [
            1e3 * seconds_to_first_output(arguments, OPENING)
            for _ in progress(settings.repeats, f"{name} {mode}")
        ]
        rows.append(
            {
                "workload": name,
                "contender": mode,
                "least ms": min(times),
                "median ms": statistics.median(times),
                "most ms": max(times),
            }
        )
    return {"rows": rows, "notes": []}
