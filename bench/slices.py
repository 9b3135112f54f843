"""Policies with variables in slices: what a slice costs, and how evenly rows are spread.

The questions are those of J. Schneider, D. Basin, F. Brix, S. Krstić, D. Traytel, "Scalable Online
First-Order Monitoring", figures 7, 7c and 11, for their formulas and logs like theirs. All slices
are run one after the other on one thread, and processor time is taken of each, so that the figures
do not depend on how many processors there are, or on what else they do: the slowest slice says how
fast the monitor can be if each slice has a processor.
"""

from __future__ import annotations

import statistics
import time
from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.relational import CASES, log_file, policy_files
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.atoms import named_rows
from mtlmon.relational.input.native import RowScanner
from mtlmon.relational.native import (
    AnswerBlock,
    Joiner,
    PointBlock,
    RelationalEngine,
    Router,
    SplitBlock,
    Splitter,
    Timeline,
)
from mtlmon.relational.planning import plan
from mtlmon.relational.slicing import RowCounts, Statistics, plan_slices
from mtlmon.relational.slicing.routing import routing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.report import Result, Row
    from bench.settings import Settings

COUNTS = (1, 2, 4, 8, 16)
# Time-points a second, of 10,000 events a second: blocks, lines of some events, and of one each.
RATES = (1, 1000, 10_000)
_FORMULAS = ("star", "linear", "triangle")
_BLOCK_BYTES = 1 << 18
_BLOCK_POINTS = 1 << 14
_ZIPF = 2.0
# Which arguments of B and C are the variable that has frequent values.
_SKEWED = {
    "star": (("B", 0), ("C", 0)),
    "linear": (("B", 0),),
    "triangle": (("B", 0),),
}


class Measured(NamedTuple):
    """Processor time in seconds, unless it says otherwise.

    Attributes:
        reading, splitting, joining: of the whole log.
        slices: of each slice.
        rows: how many rows each slice got.
        held: the largest number of bytes that a slice held.
        latency: the longest time from reading a block to its answers, with a processor each.
    """

    reading: float
    splitting: float
    joining: float
    slices: list[float]
    rows: list[int]
    held: int
    latency: float


def slices(settings: Settings) -> Result:
    """Time per event of reading, splitting, slices and joining, and the fullest slice."""
    rows: list[Row] = []
    for name in _FORMULAS:
        text = policy_files(name, CASES[name])["policy"].read_text(encoding="utf-8")
        for rate in RATES:
            path = log_file(name, CASES[name], rate, settings.events, settings.seed)
            data = path.read_bytes()
            for count in COUNTS:
                runs = [_measured(text, data, count) for _ in range(settings.repeats)]
                rows.append({"policy": name, **_costs(rate, count, settings.events, runs)})
    for name in _FORMULAS:
        text = policy_files(name, CASES[name])["policy"].read_text(encoding="utf-8")
        for count in (4, 16, 64):
            rows += _spread(name, text, count, settings)
    notes = [
        "ns and ms are processor time. 'bound' is the throughput if each slice has a processor and "
        "one more reads, splits and joins.",
        "'fullest' is the part of the rows that the fullest slice gets.",
    ]
    return {"rows": rows, "notes": notes}


def _costs(rate: int, count: int, events: int, runs: list[Measured]) -> Row:
    def per_event(what: Callable[[Measured], float]) -> float:
        return statistics.median(map(what, runs)) / events * 1e9

    slowest = per_event(lambda one: max(one.slices))
    around = per_event(lambda one: one.reading + one.splitting + one.joining)
    return {
        "log": f"{rate} time-point{'' if rate == 1 else 's'} a second",
        "slices": count,
        "read ns": per_event(lambda one: one.reading),
        "split ns": per_event(lambda one: one.splitting),
        "split ns a copy": statistics.median(one.splitting / sum(one.rows) for one in runs) * 1e9,
        "slowest ns": slowest,
        "sum ns": per_event(lambda one: sum(one.slices)),
        "join ns": per_event(lambda one: one.joining),
        "bound M events/s": 1e3 / max(slowest, around),
        "latency ms": max(one.latency for one in runs) * 1e3,
        "MB a slice": max(one.held for one in runs) / 1e6,
        "fullest": max(runs[0].rows) / events,
    }


def _spread(name: str, text: str, count: int, settings: Settings) -> Iterator[Row]:
    """How even slices are, with and without statistics, for even and skewed values."""
    for is_skewed in (False, True):
        data = _skewed(name, settings) if is_skewed else _even(name, settings)
        known = _statistics(data, count)
        choices = {"nothing": None, "rates": Statistics(known.rates)}
        if is_skewed:
            choices["rates and frequent values"] = known
        for words, given in choices.items():
            found = _measured(text, data, count, given)
            yield {
                "policy": name,
                "log": "frequent values" if is_skewed else "even values",
                "known": words,
                "slices": count,
                "fullest": max(found.rows) / settings.events,
                "copies": sum(found.rows) / settings.events,
            }


def _measured(text: str, data: bytes, count: int, given: Statistics | None = None) -> Measured:
    """Monitor a log in slices, one after the other."""
    file = parse_policies(text)
    analysis = analyse(file)
    slicing = plan_slices(file, analysis, count, statistics=given)
    made = plan(file, analysis, prepared=slicing.prepared)
    router = Router(routing_of(slicing, made), made.texts)
    timeline = Timeline(made)
    splitter, joiner = Splitter(router, timeline, slicing.whole()), Joiner(router)
    engines = [RelationalEngine(made, made.texts, timeline) for _ in range(count)]
    widths = array("I", made.atoms)
    points, block = PointBlock(widths), SplitBlock(splitter, widths)
    answers = AnswerBlock(array("I", [len(one) for one in made.policies]))
    scanner = RowScanner(named_rows(made), points, made.texts)
    reading = splitting = joining = latency = 0.0
    spent, rows = [0.0] * count, [0] * count
    clock = time.thread_time
    for start in range(0, len(data), _BLOCK_BYTES):
        scanner.load(data[start : start + _BLOCK_BYTES])
        more = True
        while more:
            begun = clock()
            more = scanner.read(_BLOCK_POINTS)
            read = clock()
            splitter.split(points, block)
            splitter.commit(block)
            for number, engine in enumerate(engines):
                block.copy_to(engine.points, number)
            split = clock()
            slowest = 0.0
            for number, engine in enumerate(engines):
                before = clock()
                engine.advance()
                took = clock() - before
                spent[number] += took
                slowest = max(slowest, took)
            run = clock()
            joiner.join(answers, joiner.take(engines))
            joined = clock()
            answers.take()
            rows = [one + got for one, got in zip(rows, block.row_counts, strict=True)]
            reading += read - begun
            splitting += split - read
            joining += joined - run
            latency = max(latency, split - begun + slowest + joined - run)
    held = max(engine.held_bytes for engine in engines)
    return Measured(reading, splitting, joining, spent, rows, held, latency)


def _rows_of(data: bytes) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """The rows of a log by their atoms; names and rows alternate behind the time-stamp."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for line in data.decode().splitlines():
        _, *words = line.rstrip(";").split(" ")
        for name, some in zip(words[::2], words[1::2], strict=True):
            for one in some.strip("()").split(")("):
                found.setdefault(name, []).append(tuple(map(int, one.split(","))))
    yield from found.items()


def _statistics(data: bytes, count: int) -> Statistics:
    counts = RowCounts(count)
    for atom, rows in _rows_of(data):
        counts.add(atom, rows)
    return counts.statistics


def _even(name: str, settings: Settings) -> bytes:
    return log_file(name, CASES[name], 1, settings.events, settings.seed).read_bytes()


def _skewed(name: str, settings: Settings) -> bytes:
    """The log with Zipf's distribution for one variable, in B and C."""
    source = np.random.default_rng(settings.seed)
    lines = []
    for line in _even(name, settings).decode().splitlines():
        stamp, *words = line.rstrip(";").split(" ")
        parts = [stamp]
        for atom, some in zip(words[::2], words[1::2], strict=True):
            values = [one.split(",") for one in some.strip("()").split(")(")]
            for relation, argument in _SKEWED[name]:
                if relation == atom:
                    drawn = source.zipf(_ZIPF, len(values)) % 10**9
                    for row, value in zip(values, drawn.tolist(), strict=True):
                        row[argument] = str(value)
            parts.append(f"{atom} {''.join(f'({a},{b})' for a, b in values)}")
        lines.append(f"{' '.join(parts)};\n")
    return "".join(lines).encode()
