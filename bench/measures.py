"""The measures: throughput, first verdict, memory. Each makes rows for the report."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from bench import commands, logs
from bench.commands import CEILING
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.commands import Run
    from bench.report import Row

# Settles the first time-point of every workload: all its atoms, then an event beyond every bound.
_OPENING = b"@0 p q request response\n@4000000000\n"


@dataclass(frozen=True)
class Settings:
    """What to measure. Names are keys of WORKLOADS, CONTENDERS and DENSITIES."""

    workloads: list[str]
    contenders: list[str]
    densities: list[str]
    rates: list[int]
    events: int
    repeats: int
    seed: int


def throughput(settings: Settings) -> list[Row]:
    """Whole commands on whole logs, the contenders in turn so that they share good and bad times.

    Seconds are the median over the repeats, `ceiling` is the part reached of the ceiling's
    throughput, `peak MB` the highest peak above that of the same command on an empty log.
    """
    rows: list[Row] = []
    for name, density, rate in _shapes(settings):
        runs = _in_turn(settings, name, density, rate)
        medians = {c: statistics.median(run.seconds for run in runs[c]) for c in runs}
        for contender, seconds in medians.items():
            row: Row = {
                "workload": name,
                "density": density,
                "rate": rate,
                "contender": contender,
                "seconds": seconds,
                "M events/s": settings.events / seconds / 1e6,
            }
            if CEILING in medians:
                row["ceiling"] = medians[CEILING] / seconds
            row["peak MB"] = _megabytes_above_empty(contender, name, runs[contender])
            rows.append(row)
    return rows


def memory(settings: Settings) -> list[Row]:
    """Peak memory of each contender above an empty log, one column per event rate, in MB."""
    rows: list[Row] = []
    for name, density, contender in product(
        settings.workloads, settings.densities, settings.contenders
    ):
        row: Row = {"workload": name, "density": density, "contender": contender}
        for rate in settings.rates:
            if WORKLOADS[name].has_shape(density, rate):
                only = Settings(
                    [name], [contender], [density], [rate],
                    settings.events, settings.repeats, settings.seed,
                )  # fmt: skip
                runs = _in_turn(only, name, density, rate)[contender]
                row[f"r={rate}"] = _megabytes_above_empty(contender, name, runs)
        rows.append(row)
    return rows


def first_verdict(settings: Settings) -> list[Row]:
    """Milliseconds from the start of the command to its first verdict on a live pipe."""
    rows: list[Row] = []
    for name, contender in product(settings.workloads, settings.contenders):
        arguments = commands.command(contender, WORKLOADS[name].formula, "-")
        times = [
            1e3 * commands.seconds_to_first_output(arguments, _OPENING)
            for _ in _progress(settings.repeats, f"{name} {contender}")
        ]
        rows.append(
            {
                "workload": name,
                "contender": contender,
                "least ms": min(times),
                "median ms": statistics.median(times),
                "most ms": max(times),
            }
        )
    return rows


def _shapes(settings: Settings) -> Iterator[tuple[str, str, int]]:
    for name, density, rate in product(settings.workloads, settings.densities, settings.rates):
        if WORKLOADS[name].has_shape(density, rate):
            yield name, density, rate


def _in_turn(settings: Settings, name: str, density: str, rate: int) -> dict[str, list[Run]]:
    workload = WORKLOADS[name]
    log = logs.log(workload, density, rate, settings.events, settings.seed)
    runs: dict[str, list[Run]] = {contender: [] for contender in settings.contenders}
    for _ in _progress(settings.repeats, f"{name} {density} r={rate}"):
        for contender in settings.contenders:
            runs[contender].append(commands.run(commands.command(contender, workload.formula, log)))
    return runs


def _megabytes_above_empty(contender: str, name: str, runs: list[Run]) -> float:
    empty = commands.run(commands.command(contender, WORKLOADS[name].formula, logs.empty_log()))
    return (max(run.peak_bytes for run in runs) - empty.peak_bytes) / 1e6


def _progress(repeats: int, what: str) -> Iterator[int]:
    """Count the repeats, and show them where someone watches."""
    for repeat in range(repeats):
        if sys.stderr.isatty():
            print(f"\r\033[K{what} {repeat + 1}/{repeats}", end="", file=sys.stderr, flush=True)
        yield repeat
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
