"""From Python: events that are objects or arrays already, no text. One process, libraries in turn.

mtlmon is measured by `Monitor.step`, which takes one event with a set of atoms, and by
`Monitor.feed`, which takes arrays of time-stamps and letters (atom i of the monitor is bit i). The
peers get what they take, made beforehand: reelay a dictionary per event, rtamt a list per atom.
They count events, and so only take part where each event has a time-stamp of its own.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.compare import progress
from bench.measures import workload_log
from bench.translate import UntranslatableError
from bench.workloads import WORKLOADS
from mtlmon import Monitor, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.logs import Log, Piece
    from bench.report import Result, Row
    from bench.settings import Settings
    from mtlmon import Formula

    # Prepares one run, which then has nothing left to do but to monitor.
    Preparation = Callable[[], Callable[[], object]]

FEED = "feed"
STEP = "step"


def library(settings: Settings) -> Result:
    """Nanoseconds per event, the median over the repeats, without a first run: what is asked of the
    system for the first time, such as memory, takes it several times as long.
    """
    rows: list[Row] = []
    notes: list[str] = []
    for name, density, rate in product(settings.workloads, settings.densities, settings.rates):
        if not WORKLOADS[name].has_shape(density, rate):
            continue
        formula = parse(WORKLOADS[name].formula)
        log = workload_log(name, density, rate, settings)
        prepared = _preparations(formula, log, rate, notes)
        seconds: dict[str, list[float]] = {who: [] for who in prepared}
        for prepare in prepared.values():
            prepare()()
        for _ in progress(settings.repeats, f"{name} {density} {rate}"):
            for who, prepare in prepared.items():
                run = prepare()
                start = time.perf_counter()
                run()
                seconds[who].append(time.perf_counter() - start)
        for who, times in seconds.items():
            nanoseconds = 1e9 * statistics.median(times) / log.events
            rows.append(
                {
                    "workload": name,
                    "density": density,
                    "rate": rate,
                    "call": who,
                    "ns per event": nanoseconds,
                    "M events/s": 1e3 / nanoseconds,
                }
            )
    return {"rows": rows, "notes": notes}


def seconds_to_feed(
    sides: dict[str, tuple[str, Log]], repeats: int, title: str
) -> dict[str, float]:
    """Seconds that `Monitor.feed` takes for formulas on logs, in turn, without a first run.

    They are medians over the repeats, of the time of the processors.
    """
    prepared: dict[str, Preparation] = {}
    for side, (text, log) in sides.items():
        formula = parse(text)
        prepared[side] = partial(_feeder, formula, *arrays(log, formula.atoms))
        prepared[side]()()
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in progress(repeats, title):
        for side, prepare in prepared.items():
            run = prepare()
            start = time.process_time()
            run()
            seconds[side].append(time.process_time() - start)
    return {side: statistics.median(times) for side, times in seconds.items()}


def arrays(log: Log, atoms: tuple[str, ...]) -> tuple[Any, Any]:
    """The log as an array of time-stamps (int64) and one of letters (uint64) over these atoms."""
    pieces: list[Piece] = list(log.pieces())
    holds = np.concatenate([piece[1] for piece in pieces])
    letters = np.zeros(len(holds), np.uint64)
    for bit, atom in enumerate(atoms):
        letters |= holds[:, log.atoms.index(atom)].astype(np.uint64) << np.uint64(bit)
    return np.concatenate([piece[0] for piece in pieces]), letters


def _preparations(
    formula: Formula, log: Log, rate: int, notes: list[str]
) -> dict[str, Preparation]:
    """The ways into a monitor that there are for the formula."""
    monitor = Monitor(formula)
    time_stamps, letters = arrays(log, monitor.atoms)
    sets = [
        {atom for bit, atom in enumerate(monitor.atoms) if letter >> bit & 1}
        for letter in range(1 << len(monitor.atoms))
    ]
    indices = letters.tolist()
    events = [(stamp, sets[i]) for stamp, i in zip(time_stamps.tolist(), indices, strict=True)]
    prepared: dict[str, Preparation] = {STEP: lambda: _stepper(formula, events)}
    if hasattr(monitor, FEED):
        prepared[FEED] = lambda: _feeder(formula, time_stamps, letters)
    else:
        notes.append(f"this version of mtlmon has no Monitor.{FEED}")
    if rate == 1:
        for peer, prepare in (("reelay", _reelay), ("rtamt", _rtamt)):
            try:
                if importlib.util.find_spec(peer) is None:
                    notes.append(f"{peer} is not installed")
                else:
                    prepared[peer] = prepare(formula, [sets[i] for i in indices])
            except UntranslatableError as error:
                notes.append(f"{peer} left out of some rows: {error}")
    return prepared


def _stepper(formula: Formula, events: list[tuple[int, set[str]]]) -> Callable[[], object]:
    step = Monitor(formula).step

    def run() -> None:
        for time_stamp, atoms in events:
            step(time_stamp, atoms)

    return run


def _feeder(formula: Formula, time_stamps: Any, letters: Any) -> Callable[[], object]:
    feed: Callable[[Any, Any], object] = getattr(Monitor(formula), FEED)
    return lambda: feed(time_stamps, letters)


def _reelay(formula: Formula, letters: list[set[str]]) -> Preparation:
    from bench.peers import reelay_monitor

    # One dictionary for equal letters: the monitor only reads it.
    made = {frozenset(letter): reelay_monitor.record(formula)(letter) for letter in letters[:1000]}
    records = [
        made.get(frozenset(letter)) or reelay_monitor.record(formula)(letter) for letter in letters
    ]
    reelay_monitor.updater(formula)

    def prepare() -> Callable[[], object]:
        update = reelay_monitor.updater(formula)

        def run() -> None:
            for record in records:
                update(record)

        return run

    return prepare


def _rtamt(formula: Formula, letters: list[set[str]]) -> Preparation:
    from bench.peers import rtamt_monitor

    signals = rtamt_monitor.signals(formula, letters)
    rtamt_monitor.evaluator(formula)

    def prepare() -> Callable[[], object]:
        evaluate = rtamt_monitor.evaluator(formula)
        return lambda: evaluate(signals)

    return prepare
