"""Whole commands beside another monitor: flat formulas, irregular clocks, deep nests.

Each formula is written with the operators that the other monitor has, and with all parentheses, and
both read the same text.
The time of the processors counts, the least of the repeats.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from bench.compare import Case, Comparison
from bench.formulas import alternation, scaled, without_implications
from bench.logs import CLOCKS, random_log
from bench.workloads import PAIR, PLAIN_DENSITIES, WORKLOADS
from mtlmon import parse
from mtlmon.syntax.printer import to_text

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

RATES = (1, 1000)
DEPTHS = (7, 8)
NESTED_WINDOWS = "EVENTUALLY[50,300] ALWAYS[10,50] p"

# Bounds and gaps of the irregular clocks, by those of the workloads.
_SCALE = 100


def beside(settings: Settings) -> Result:
    """For each case the seconds of each contender, and the time of each peer by that of the first.

    `by equal clock` is the time on an irregular clock by that on the equal one, of the first
    contender.
    """
    contenders = settings.all_contenders()
    comparison = Comparison(contenders, settings.repeats, settings.limit)
    rows: list[Row] = []
    on_equal_clock: dict[str, float] = {}
    for case in beside_cases(settings):
        seconds = comparison.cpu_seconds(case)
        row: Row = {**case.labels, **{f"{name} s": seconds[name] for name in seconds}}
        first = contenders[0].name
        if first in seconds:
            own = seconds[first]
            row |= {f"{n} by {first}": seconds[n] / own for n in seconds if n != first}
            base = on_equal_clock.setdefault(str(case.labels["formula"]), own)
            if case.labels["clock"] != CLOCKS[0]:
                row["by equal clock"] = own / base
        rows.append(row)
    return {"rows": rows, "notes": comparison.notes}


def beside_cases(settings: Settings) -> list[Case]:
    """The workloads that are wanted, at each rate and on each clock, then the deep nests."""
    texts = {name: WORKLOADS[name].formula for name in settings.workloads}
    cases = [
        _case(name, texts[name], settings, rate=rate)
        for rate, name in product(settings.rates, texts)
        if WORKLOADS[name].has_shape("dense", rate)
    ]
    cases += [
        _case(f"{name} × {_SCALE}", texts[name], settings, clock=clock)
        for clock, name in product(CLOCKS, texts)
    ]
    nests = {f"alternation {depth}": str(alternation(depth)) for depth in DEPTHS}
    nests["nested windows"] = NESTED_WINDOWS
    cases += [
        _case(name, nests[name], settings, density=density)
        for name, density in product(nests, PLAIN_DENSITIES)
    ]
    return cases


def _case(
    name: str,
    text: str,
    settings: Settings,
    *,
    density: str = "dense",
    rate: int = 1,
    clock: str | None = None,
) -> Case:
    scale = 1 if clock is None else _SCALE
    log = random_log(
        PAIR,
        density,
        rate,
        settings.events,
        settings.seed,
        time_scale=scale,
        clock=clock or CLOCKS[0],
    )
    labels: Row = {"formula": name, "density": density, "rate": rate, "clock": clock or CLOCKS[0]}
    formula = without_implications(scaled(parse(text), scale))
    return Case(labels, to_text(formula, all_parentheses=True), log)
