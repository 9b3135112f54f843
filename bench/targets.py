"""The figures aimed at on a machine with two cores, and what is reached on this one."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.commands import BenchmarkError
from bench.figures import HIGH_RATES, Figures
from bench.library import FEED, STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.figures import Values
    from bench.report import Result, Row
    from bench.settings import Settings

# Million events per second of HYDRA, the fastest monitor published for the same logic, on a
# machine with two cores: dense logs of 5,000,000 events, 1000 or 1 of them to a time-stamp.
_HYDRA_1000 = {
    "f0": 12.0, "f1": 8.1, "f2": 8.1, "f3": 5.4, "f4a": 9.1, "f4b": 8.3, "f5": 5.7,
}  # fmt: skip
_HYDRA_1 = {"f1": 7.3, "f2": 7.0, "f4a": 8.3, "f4b": 8.0, "f5": 5.1}
_HYDRA_1_F3 = {"f3": 4.6}

_CASE_WIDTH = 60


@dataclass(frozen=True)
class Target:
    """A figure aimed at.

    Attributes:
        what: in words.
        bound: the least that is aimed at, or the most.
        at_least: which of the two.
        unit: of the bound.
        values: measures it.
        by_median: the median of the cases counts, and not the worst.
    """

    what: str
    bound: float
    at_least: bool
    unit: str
    values: Callable[[Figures], Values]
    by_median: bool = False

    def row(self, figures: Figures) -> Row:
        """Measure, and compare; what cannot be measured is not met."""
        relation = "at least" if self.at_least else "at most"
        row: Row = {"target": self.what, "aim": f"{relation} {self.bound:g} {self.unit}".strip()}
        try:
            values = self.values(figures)
        except BenchmarkError as error:
            figures.notes.append(f"{self.what}: {error}")
            values = {}
        if not values:
            return {**row, "measured": "-", "met": "not measured", "worst case": ""}
        worst = (min if self.at_least else max)(values, key=values.__getitem__)
        measured = statistics.median(values.values()) if self.by_median else values[worst]
        met = measured >= self.bound if self.at_least else measured <= self.bound
        return {
            **row,
            "measured": f"{measured:.3g}",
            "met": "yes" if met else "no",
            "worst case": "median" if self.by_median else _shortened(worst),
        }


TARGETS = (
    Target(
        "r = 1000 and 100,000, f0 f1 f2 f4a f4b: part of the ceiling", 0.65, True, "",
        lambda m: m.of_ceiling("f0 f1 f2 f4a f4b", "dense sparse", HIGH_RATES),
    ),
    Target(
        "r = 1000 and 100,000, f3 f5 dense: part of the ceiling", 0.55, True, "",
        lambda m: m.of_ceiling("f3 f5", "dense", HIGH_RATES),
    ),
    Target(
        "r = 1000 and 100,000, f3 f5 sparse: part of the ceiling", 0.50, True, "",
        lambda m: m.of_ceiling("f3 f5", "sparse", HIGH_RATES),
    ),
    Target(
        "r = 1, f1 f2 f4a f4b: part of the ceiling", 0.50, True, "",
        lambda m: m.of_ceiling("f1 f2 f4a f4b", "dense sparse", (1,)),
    ),
    Target(
        "r = 1, f5: part of the ceiling", 0.33, True, "",
        lambda m: m.of_ceiling("f5", "dense sparse", (1,)),
    ),
    Target(
        "r = 1, f3: part of the ceiling", 0.25, True, "",
        lambda m: m.of_ceiling("f3", "dense sparse", (1,)),
    ),
    Target(
        "r = 1000 dense, throughput by HYDRA's", 3, True, "",
        lambda m: m.times_published(_HYDRA_1000, 1000),
    ),
    Target(
        "r = 1 dense, throughput by HYDRA's", 2, True, "",
        lambda m: m.times_published(_HYDRA_1, 1),
    ),
    Target(
        "r = 1 dense f3, throughput by HYDRA's", 1.6, True, "",
        lambda m: m.times_published(_HYDRA_1_F3, 1),
    ),
    Target(
        "cat log | mtlmon | cat, throughput by that of file to null device", 0.75, True, "",
        lambda m: m.piped(),
    ),
    Target(
        "Timescales families, without the start", 12, True, "M events/s", lambda m: m.families()
    ),
    Target(
        "Timescales families, time with bound 1000 by that with bound 10, without the start",
        1.3, False, "",
        lambda m: m.families_slowdown(),
    ),
    Target(
        "bounds and time-stamps × 100,000, arrays of the same events: the engine's time by that of "
        "the small ones", 1.2, False, "",
        lambda m: m.scaled_slowdown(),
    ),
    Target("n1 dense", 12, True, "M events/s", lambda m: m.nested("n1", "dense")),
    Target("n1, p 0.5 and q 0.02", 12, True, "M events/s", lambda m: m.nested("n1", "p50-q2")),
    Target("n1, p 0.9 and q 0.1", 12, True, "M events/s", lambda m: m.nested("n1", "p90-q10")),
    Target("n2 dense", 3, True, "M events/s", lambda m: m.nested("n2", "dense")),
    Target(
        "n1 and n2, time by that with bounds ÷ 60", 1.5, False, "", lambda m: m.nested_slowdown()
    ),
    Target(
        "60 random nested formulas, r = 10, median", 4, True, "M events/s",
        lambda m: m.random(10), by_median=True,
    ),
    Target(
        "60 random nested formulas, r = 1, median", 3, True, "M events/s",
        lambda m: m.random(1), by_median=True,
    ),
    Target(
        "60 random nested formulas, r = 30, median", 3, True, "M events/s",
        lambda m: m.random(30), by_median=True,
    ),
    Target(
        "60 random nested formulas, r = 1000, median", 3, True, "M events/s",
        lambda m: m.random(1000), by_median=True,
    ),
    Target(
        "60 random nested formulas, r = 1, 10, 30, 1000, the slowest", 1, True, "M events/s",
        lambda m: {case: s for rate in (1, 10, 30, 1000) for case, s in m.random(rate).items()},
    ),
    Target("n1, throughput by HYDRA's", 4, True, "", lambda m: m.piles_by_hydra("n1")),
    Target(
        "closed windows, pair of windows, bounds 100 to 10,000", 3, True, "M events/s",
        lambda m: m.piles("closed windows, pair of windows"),
    ),
    Target(
        "windows since windows, outage, bounds to 10,000", 1, True, "M events/s",
        lambda m: m.piles("windows since windows, outage"),
    ),
    Target(
        "these piles, time with bounds × 100 by that without", 1.3, False, "",
        lambda m: m.piles_slowdown(
            "closed windows, pair of windows, windows since windows, outage"
        ),
    ),
    Target(
        "nests of 2 to 8 operators, r = 1, 30, 1000: throughput by HYDRA's", 1, True, "",
        lambda m: m.piles_by_hydra("alternation, mixed nest, until nest"),
    ),
    Target(
        "the same, median", 1.5, True, "",
        lambda m: m.piles_by_hydra("alternation, mixed nest, until nest"), by_median=True,
    ),
    Target(
        "nests of 2 to 8 operators, r = 1, 30, 1000", 1, True, "M events/s",
        lambda m: m.piles("alternation, mixed nest, until nest"),
    ),
    Target("333 rules with ONCE", 500, False, "ns", lambda m: m.pile_cpu("rules")),
    Target(
        "irregular gaps of time, bounds × 100, f1 to f5, n1: above f0", 60, False, "ns",
        lambda m: m.clock_shares(),
    ),
    Target(
        "irregular gaps of time, bounds × 100, f1 to f5", 10, True, "M events/s",
        lambda m: m.clocks("f1 f2 f3 f4a f4b f5"),
    ),
    Target("irregular gaps of time, f0", 25, True, "M events/s", lambda m: m.clocks("f0")),
    Target(
        "p IMPLIES EVENTUALLY[0,c] q, c from 1 to 10^7: part of the ceiling", 0.6, True, "",
        lambda m: m.constants(),
    ),
    Target(
        "--resolve, throughput by that of the default", 0.8, True, "", lambda m: m.resolved()
    ),
    Target("-o FILE, throughput by that of > FILE", 1, True, "", lambda m: m.written()),
    Target(
        "table of 1,000 keys, irregular milliseconds, a window of 300 s, a row", 120, False, "ns",
        lambda m: m.keyed(),
    ),
    Target(
        "arrays, sparse r = 1000: f1 f2 f4a", 50, True, "M events/s",
        lambda m: m.library(FEED, "f1 f2 f4a", "sparse", 1000, "M events/s"),
    ),
    Target(
        "arrays, dense r = 1000: f3 f5", 25, True, "M events/s",
        lambda m: m.library(FEED, "f3 f5", "dense", 1000, "M events/s"),
    ),
    Target(
        "Monitor.step, dense r = 1000: f1 f2 f4a", 250, False, "ns",
        lambda m: m.library(STEP, "f1 f2 f4a", "dense", 1000, "ns per event"),
    ),
    Target("relations, groups over windows", 10, True, "M rows/s", lambda m: m.relations("groups")),
    Target("relations, joins by a key", 3, True, "M rows/s", lambda m: m.relations("join")),
    Target("relations, throughput of DuckDB by ours", 1.5, False, "",
           lambda m: m.relations_by_duckdb()),
    Target("Timescales families, past: time of reelay by ours", 10, True, "",
           lambda m: m.times_reelay()),
    Target("peak at r = 100,000 against r = 100, local and global", 1, False, "MB",
           lambda m: m.memory_difference()),
    Target("peak above an empty log, every workload", 5, False, "MB",
           lambda m: m.memory_above_empty()),
    Target("whole process without BDDs", 20, False, "MB",
           lambda m: m.whole_process(with_bdds=False)),
    Target("whole process with BDDs", 50, False, "MB",
           lambda m: m.whole_process(with_bdds=True)),
    Target("a log 100 times as long, distinct time-stamps: more memory", 1, False, "MB",
           lambda m: m.length_memory()),
    Target("its last tenth: time by that of the first", 1.1, False, "",
           lambda m: m.length_slowdown()),
    Target("whole command on an empty log", 40, False, "ms", lambda m: m.empty_log()),
    Target("start to first verdict", 50, False, "ms",
           lambda m: m.first_verdict(with_bdds=False)),
    Target("start to first verdict, with BDDs", 250, False, "ms",
           lambda m: m.first_verdict(with_bdds=True)),
)  # fmt: skip


def _shortened(case: str) -> str:
    return case if len(case) <= _CASE_WIDTH else f"{case[: _CASE_WIDTH - 1]}…"


def targets(settings: Settings) -> Result:
    """A row for each target whose name has the wanted words.

    All rows that they rest on are in the JSON file's `details`.
    """
    figures = Figures(settings)
    rows = [target.row(figures) for target in TARGETS if settings.match in target.what]
    return {"rows": rows, "notes": figures.notes, "details": figures.rows}
