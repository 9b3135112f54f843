"""The figures that targets are compared with, each measured once, when it is first asked for."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from bench import measures
from bench.clocks import BASE, SHARE, clock_cases, with_shares
from bench.commands import BenchmarkError, run
from bench.compare import Comparison, in_turn, start_up
from bench.contenders import Ceiling, Mtlmon, contender
from bench.families import BOUNDS, FAMILIES, FORMS
from bench.first_verdict import BDD_WORKLOAD, first_verdict
from bench.keyed import FORMULAS as KEYED_FORMULAS
from bench.keyed import keyed
from bench.length import length
from bench.library import library, seconds_to_feed
from bench.logs import random_log
from bench.memory import FORMULAS, TIME_STAMPS
from bench.piles import BOUNDS as PILE_BOUNDS
from bench.piles import PILES, RATES, pile_cases
from bench.relations import relations
from bench.workloads import PAIR, PLAIN_DENSITIES, SCALED, WORKLOADS

if TYPE_CHECKING:
    from bench.compare import Case
    from bench.contenders import Contender
    from bench.report import Row
    from bench.settings import Settings

    # The value of a figure in each case that it was measured in.
    Values = dict[str, float]

PLAIN = ("f0", "f1", "f2", "f3", "f4a", "f4b", "f5")
HIGH_RATES = (1000, 100_000)
# What takes longer in a pile or a random formula has missed every target.
_MOST_SECONDS = 10.0
# Runs of arrays are short, and so there are more of them.
_LEAST_FEEDS = 9
HYDRA = "hydra"
_MODES_OF_BOUNDED_MEMORY = ("local", "global")
_NESTED = (("n1", "dense"), ("n1", "p50-q2"), ("n1", "p90-q10"), ("n2", "dense"))


class Figures:
    """Measures on demand, with the settings' events, repeats, seed, limit and peers.

    Attributes:
        rows: every row measured so far, by measure.
        notes: what is missing, and why.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rows: dict[str, list[Row]] = {}
        self.notes: list[str] = []

    def of_ceiling(self, names: str, densities: str, rates: tuple[int, ...]) -> Values:
        """The part of the ceiling's throughput that is reached."""
        return self._plain(names, densities, rates, "of ceiling")

    def times_published(self, published: dict[str, float], rate: int) -> Values:
        """Dense logs: our throughput by that of HYDRA, measured if there is a peer named hydra.

        Args:
            published: million events per second where it is not measured.
        """
        ours = self._plain(" ".join(published), "dense", (rate,), "M events/s")
        theirs = self._plain(" ".join(published), "dense", (rate,), "M events/s", who=HYDRA)
        return {
            case: speed / theirs.get(case, published[case.split()[0]])
            for case, speed in ours.items()
        }

    def nested(self, name: str, density: str) -> Values:
        """Million events per second of n1 or n2."""
        return self._speeds(self._nested_rows, f"{name} {density}", ("workload", "density"))

    def nested_slowdown(self) -> Values:
        """Time of n1 and n2 by that with bounds 60 times smaller, the start left out."""
        return {
            f"{name} {density}": self._ratio(
                *(self._workload_case(workload, density, 1) for workload in (name, f"{name}/60"))
            )
            for name, density in _NESTED
        }

    def families(self) -> Values:
        """Million events per second of each family, form and bound, the start left out."""
        return {
            self._title(row, ("family", "form", "bound")): 1e3 / float(row["ns per event"])
            for row in self._family_rows
            if row["contender"] == "local"
        }

    def families_slowdown(self) -> Values:
        """Time with bound 1000 by that with bound 10, the start left out."""
        cases = {case.title: case for case in measures.family_cases(self.settings)}
        least, most = min(BOUNDS), max(BOUNDS)
        return {
            f"{name} {form}": self._ratio(
                cases[f"{name} {form} {most}"], cases[f"{name} {form} {least}"]
            )
            for name in FAMILIES
            for form in FORMS
        }

    def times_reelay(self) -> Values:
        """Time of reelay by ours on the past forms, on the same logs, the starts left out."""
        settings = replace(self.settings, events=max(1, self.settings.events // 10))
        cases = [c for c in measures.family_cases(settings) if c.labels["form"] == "past"]
        peers = [Mtlmon("local"), contender("reelay")]
        times: dict[str, dict[str, float]] = {peer.name: {} for peer in peers}
        for row in self._compared("reelay", peers, cases):
            if "ns per event" in row:
                title = self._title(row, ("family", "bound"))
                times[str(row["contender"])][title] = float(row["ns per event"])
        ours, theirs = (times[peer.name] for peer in peers)
        return {title: theirs[title] / ours[title] for title in theirs if title in ours}

    def scaled_slowdown(self) -> Values:
        """The engine's time with bounds and time-stamps 100,000 times larger.

        The events come as arrays, which are as large for large time-stamps as for small ones; text
        is not.
        """
        settings = replace(self.settings, events=max(1, self.settings.events // 10))
        values: Values = {}
        for (large, small), density, rate in product(SCALED.items(), PLAIN_DENSITIES, (1, 1000)):
            sides = {
                name: (
                    WORKLOADS[name].formula,
                    measures.workload_log(name, density, rate, settings),
                )
                for name in (large, small)
            }
            title = f"{large} {density} {rate}"
            seconds = seconds_to_feed(sides, max(_LEAST_FEEDS, settings.repeats), title)
            values[title] = seconds[large] / seconds[small]
        return values

    def clocks(self, names: str) -> Values:
        """Million events per second with irregular gaps of time."""
        return {
            self._title(row, ("workload", "clock", "rate")): float(row["M events/s"])
            for row in self._clock_rows
            if row["clock"] != "equal" and row["workload"] in names.split()
        }

    def clock_shares(self) -> Values:
        """Nanoseconds per event that formulas take more than f0, with irregular gaps of time."""
        return {
            self._title(row, ("workload", "clock", "rate")): float(row.get(SHARE, math.inf))
            for row in self._clock_rows
            if row["clock"] != "equal" and row["workload"] != BASE
        }

    def piles(self, names: str) -> Values:
        """Million events per second of piles, whose names are given with commas."""
        return {
            self._title(row, ("pile", "size", "density", "rate")): float(row["M events/s"])
            for row in self._rows_of_piles(names)
            if row["contender"] == "local"
        }

    def piles_slowdown(self, names: str) -> Values:
        """Time of piles with the largest bound by that with the smallest, the start left out."""
        times: dict[str, dict[float, float]] = {}
        for row in self._rows_of_piles(names):
            if row["contender"] == "local":
                title = self._title(row, ("pile", "density", "rate"))
                times.setdefault(title, {})[float(row["size"])] = float(row["ns per event"])
        least, most = min(PILE_BOUNDS), max(PILE_BOUNDS)
        return {title: of_size[most] / of_size[least] for title, of_size in times.items()}

    def pile_cpu(self, name: str) -> Values:
        """Nanoseconds of the processors per event of a pile."""
        return {
            self._title(row, ("pile", "size", "density", "rate")): float(
                row.get("CPU ns per event", math.inf)
            )
            for row in self._rows_of_piles(name)
            if row["contender"] == "local"
        }

    def piles_by_hydra(self, names: str) -> Values:
        """Throughput by that of the peer named hydra, if there is one."""
        if not any(peer.name == HYDRA for peer in self.settings.peers):
            return {}
        speeds: dict[str, dict[str, float]] = {}
        for row in self._rows_of_piles(names):
            title = self._title(row, ("pile", "size", "density", "rate"))
            speeds.setdefault(title, {})[str(row["contender"])] = float(row["M events/s"])
        return {
            title: speed["local"] / speed[HYDRA]
            for title, speed in speeds.items()
            if speed.get(HYDRA)
        }

    def constants(self) -> Values:
        """The part of the ceiling's throughput that `p IMPLIES EVENTUALLY[0,c] q` reaches."""
        return {
            f"c = {row['c']}": float(row.get("of ceiling", 0))
            for row in self._constant_rows
            if row["contender"] == "local"
        }

    def resolved(self) -> Values:
        """Throughput with `--resolve` by that of the default."""
        return self._outputs(measures.RESOLVED.name, "local")

    def written(self) -> Values:
        """Throughput with `-o FILE` by that with `> FILE`."""
        return self._outputs("local, -o", "local, >")

    def keyed(self) -> Values:
        """Nanoseconds of the processors per row of a table with keys."""
        result = keyed(replace(self.settings, events=max(1, self.settings.events // 5)))
        self._keep("keyed", result["rows"], result["notes"])
        return {
            str(row["formula"]): float(row["CPU ns per row"])
            for row in result["rows"]
            if row["formula"] == KEYED_FORMULAS["response"]
        }

    def relations(self, words: str) -> Values:
        """Million rows per second of relations over validity intervals."""
        return {
            str(row["relation"]): float(row["mtlmon M rows/s"])
            for row in self._relation_rows
            if words in str(row["relation"])
        }

    def relations_by_duckdb(self) -> Values:
        """Throughput of DuckDB by ours, for relations."""
        return {
            str(row["relation"]): float(row["DuckDB M rows/s"]) / float(row["mtlmon M rows/s"])
            for row in self._relation_rows
            if "DuckDB M rows/s" in row
        }

    def empty_log(self) -> Values:
        """Milliseconds of the whole command on an empty log."""
        return {
            str(row["workload"]): float(row["empty log ms"])
            for row in self._first_verdict_rows
            if row["workload"] != BDD_WORKLOAD
        }

    def random(self, rate: int) -> Values:
        """Million events per second of the random formulas."""
        return {
            case: speed
            for case, speed in self._speeds(self._random_rows, "", ("rate", "formula")).items()
            if case.split()[0] == str(rate)
        }

    def piped(self) -> Values:
        """Throughput through two pipes by that from file to null device."""
        settings = replace(
            self.settings, workloads=("f1", "f3"), densities=("dense",), rates=(1, 1000)
        )
        result = measures.pipes(settings)
        self._keep("pipes", result["rows"], result["notes"])
        return {
            self._title(row, ("workload", "density", "rate")): 1 / float(row["time by local"])
            for row in result["rows"]
            if row["contender"] == Mtlmon("local", piped=True).name
        }

    def library(self, call: str, names: str, density: str, rate: int, column: str) -> Values:
        """A call of the library, by workload."""
        return {
            str(row["workload"]): float(row[column])
            for row in self._library_rows
            if (row["call"], row["density"], row["rate"]) == (call, density, rate)
            and row["workload"] in names.split()
        }

    def memory_difference(self) -> Values:
        """Megabytes that the peak at rate 100,000 is above that at rate 100."""
        values: Values = {}
        settings = self.settings
        logs = [
            random_log(PAIR, "dense", rate, TIME_STAMPS * rate, settings.seed)
            for rate in (100, 100_000)
        ]
        for formula, mode in product(
            [*FORMULAS, WORKLOADS["f1"].formula, WORKLOADS["f2"].formula],
            _MODES_OF_BOUNDED_MEMORY,
        ):
            peaks = [
                statistics.median(
                    run(Mtlmon(mode).command(formula, log.path()), settings.limit).peak_bytes / 1e6
                    for _ in range(settings.repeats)
                )
                for log in logs
            ]
            values[f"{mode} {formula}"] = abs(peaks[1] - peaks[0])
        return values

    def memory_above_empty(self) -> Values:
        """Megabytes above the empty log: every workload measured for its speed."""
        rows = self._plain_rows + self._nested_rows + self._family_rows + self._small_window_rows
        return {
            self._title(row, ("workload", "family", "form", "bound", "density", "rate")): float(
                row.get("peak MB", math.inf)
            )
            for row in rows
            if row["contender"] == "local" and "h1" not in row.values()
        }

    def whole_process(self, *, with_bdds: bool) -> Values:
        """Megabytes of the whole process on f1, and on a nested formula that needs BDDs."""
        name = "bdd" if with_bdds else "f1"
        formula = (
            "ALWAYS[0,8] (p IMPLIES EVENTUALLY[0,5] ((ONCE[0,3] q) UNTIL[1,6] (p AND q)))"
            if with_bdds
            else WORKLOADS["f1"].formula
        )
        log = measures.workload_log("f1", "dense", 1000, self.settings)
        peak = run(Mtlmon("local").command(formula, log.path()), self.settings.limit).peak_bytes
        return {name: peak / 1e6}

    def length_memory(self) -> Values:
        """Megabytes that a log a hundred times as long takes more."""
        return {
            str(row["workload"]): abs(float(row["peak MB"]) - float(row["peak MB, shorter"]))
            for row in self._length_rows
        }

    def length_slowdown(self) -> Values:
        """Time of the last tenth of a long log by that of the first."""
        return {str(row["workload"]): float(row["last by first"]) for row in self._length_rows}

    def first_verdict(self, *, with_bdds: bool) -> Values:
        """Milliseconds from the start to the first verdict."""
        return {
            str(row["workload"]): float(row["median ms"])
            for row in self._first_verdict_rows
            if (row["workload"] == BDD_WORKLOAD) is with_bdds
        }

    @cached_property
    def _plain_rows(self) -> list[Row]:
        settings = replace(
            self.settings, workloads=PLAIN, densities=PLAIN_DENSITIES, rates=(1, *HIGH_RATES)
        )
        who: list[Contender] = [Mtlmon("local"), Ceiling(), *settings.peers]
        return self._compared("throughput", who, measures.workload_cases(settings))

    @cached_property
    def _nested_rows(self) -> list[Row]:
        cases = [self._workload_case(name, density, 1) for name, density in _NESTED]
        return self._compared("nested", [Mtlmon("local"), *self.settings.peers], cases)

    @cached_property
    def _family_rows(self) -> list[Row]:
        return self._compared("families", [Mtlmon("local")], measures.family_cases(self.settings))

    @cached_property
    def _small_window_rows(self) -> list[Row]:
        """Scaled workloads, whose windows have few time-stamps though long ones."""
        settings = replace(
            self.settings, workloads=tuple(SCALED), densities=("dense",), rates=(1,), repeats=1
        )
        return self._compared("scaled", [Mtlmon("local")], measures.workload_cases(settings))

    @cached_property
    def _random_rows(self) -> list[Row]:
        events = max(1, self.settings.events // 5)
        settings = replace(self.settings, rates=(1, 10, 30, 1000), events=events)
        cases = measures.random_cases(settings)
        # Once is enough for so many.
        comparison = Comparison([Mtlmon("local")], 1, self._short_limit)
        return self._keep("random", comparison.rows(cases), comparison.notes)

    @cached_property
    def _clock_rows(self) -> list[Row]:
        settings = replace(
            self.settings,
            workloads=(*PLAIN, "n1"),
            densities=("dense",),
            rates=(1, 30),
        )
        comparison = Comparison([Mtlmon("local")], settings.repeats, self._short_limit)
        rows = with_shares(comparison.rows(clock_cases(settings)))
        return self._keep("clocks", rows, comparison.notes)

    @cached_property
    def _pile_rows(self) -> dict[str, list[Row]]:
        """The rows of each pile measured so far."""
        return {}

    def _rows_of_piles(self, names: str) -> list[Row]:
        """The rows of these piles, whose names are given with commas."""
        rows: list[Row] = []
        for name in names.split(", "):
            if name not in self._pile_rows:
                settings = replace(
                    self.settings,
                    match=name,
                    densities=PILES[name].densities,
                    rates=RATES,
                    events=max(1, self.settings.events // 5),
                )
                comparison = Comparison(
                    [Mtlmon("local"), *settings.peers], settings.repeats, self._short_limit
                )
                found = [case for case in pile_cases(settings) if case.labels["pile"] == name]
                self._pile_rows[name] = self._keep(name, comparison.rows(found), comparison.notes)
            rows += self._pile_rows[name]
        return rows

    @cached_property
    def _constant_rows(self) -> list[Row]:
        settings = replace(self.settings, events=max(1, self.settings.events // 5))
        cases = [
            case
            for case in measures.constant_cases(settings)
            if case.labels["formula"] == measures.RESPONSE.format("c")
        ]
        return self._compared("constants", [Mtlmon("local"), Ceiling()], cases)

    @cached_property
    def _output_rows(self) -> list[Row]:
        result = measures.outputs(
            replace(
                self.settings,
                workloads=PLAIN,
                densities=PLAIN_DENSITIES,
                rates=(1, 1000),
                events=max(1, self.settings.events // 2),
            )
        )
        return self._keep("outputs", result["rows"], result["notes"])

    def _outputs(self, ours: str, other: str) -> Values:
        seconds: dict[str, dict[str, float]] = {}
        for row in self._output_rows:
            title = self._title(row, ("workload", "density", "rate"))
            seconds.setdefault(title, {})[str(row["contender"])] = float(
                row.get("seconds", math.inf)
            )
        return {title: times[other] / times[ours] for title, times in seconds.items()}

    @property
    def _short_limit(self) -> float:
        return min(self.settings.limit, _MOST_SECONDS)

    @cached_property
    def _library_rows(self) -> list[Row]:
        settings = replace(
            self.settings,
            workloads=("f1", "f2", "f3", "f4a", "f5"),
            densities=PLAIN_DENSITIES,
            rates=(1000,),
            events=max(1, self.settings.events // 10),
        )
        result = library(settings)
        return self._keep("library", result["rows"], result["notes"])

    @cached_property
    def _relation_rows(self) -> list[Row]:
        result = relations(self.settings)
        return self._keep("relations", result["rows"], result["notes"])

    @cached_property
    def _length_rows(self) -> list[Row]:
        result = length(replace(self.settings, events=10 * self.settings.events))
        return self._keep("length", result["rows"], result["notes"])

    @cached_property
    def _first_verdict_rows(self) -> list[Row]:
        result = first_verdict(
            replace(self.settings, workloads=("f0", "f1", "f3"), contenders=("local",), repeats=20)
        )
        return self._keep("first-verdict", result["rows"], result["notes"])

    def _plain(
        self, names: str, densities: str, rates: tuple[int, ...], column: str, who: str = "local"
    ) -> Values:
        return {
            self._title(row, ("workload", "density", "rate")): float(row.get(column, 0))
            for row in self._plain_rows
            if row["workload"] in names.split()
            and row["density"] in densities.split()
            and row["rate"] in rates
            and row["contender"] == who
        }

    def _speeds(self, rows: list[Row], beginning: str, labels: tuple[str, ...]) -> Values:
        titled = {
            self._title(row, labels): float(row["M events/s"])
            for row in rows
            if row["contender"] == "local"
        }
        return {case: speed for case, speed in titled.items() if case.startswith(beginning)}

    def _workload_case(self, name: str, density: str, rate: int) -> Case:
        settings = replace(self.settings, workloads=(name,), densities=(density,), rates=(rate,))
        (case,) = measures.workload_cases(settings)
        return case

    def _ratio(self, slower: Case, faster: Case) -> float:
        """Time per event of one case by that of another, the two run in turn, without the start."""
        who = Mtlmon("local")
        runs = in_turn(
            {
                side: who.command(case.formula, case.log.path())
                for side, case in (("slower", slower), ("faster", faster))
            },
            self.settings.repeats,
            self.settings.limit,
            self.notes,
            slower.title,
        )
        if len(runs) < 2:
            raise BenchmarkError(f"{slower.title} takes more than {self.settings.limit:g} s")
        times = [
            statistics.median(run.seconds for run in runs[side])
            - start_up(who, case.formula, self.settings.repeats).seconds
            for side, case in (("slower", slower), ("faster", faster))
        ]
        return times[0] / times[1]

    def _compared(self, name: str, who: list[Contender], cases: list[Case]) -> list[Row]:
        comparison = Comparison(who, self.settings.repeats, self.settings.limit)
        rows = comparison.rows(cases)
        return self._keep(name, rows, comparison.notes)

    def _keep(self, name: str, rows: list[Row], notes: list[str]) -> list[Row]:
        self.rows[name] = rows
        self.notes += notes
        return rows

    @staticmethod
    def _title(row: Row, labels: tuple[str, ...]) -> str:
        return " ".join(str(row[label]) for label in labels if label in row)
