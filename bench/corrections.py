"""Histories that correct verdicts when events come late, beside a monitor of the sorted log.

Both take the same batches in one process, and their verdicts at the end are compared: a thousand
events of many keys, as a live log brings them, or about as many as the command reads of a file at
once. In a batch, events that are a little late are in order, and cost nothing. Each key has ten
events a second, but a hundred thousand keys have as many events together as a thousand keys.
"""

from __future__ import annotations

import statistics
import time
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.arrivals import WAYS, arrivals
from bench.commands import BenchmarkError
from bench.compare import progress
from mtlmon import History
from mtlmon.arrays.native import EventColumns
from mtlmon.drive.feeding import event_columns
from mtlmon.drive.native import KeyedMonitors
from mtlmon.verdicts.arrays import FALSE, verdict_type

if TYPE_CHECKING:
    from bench.arrivals import Integers
    from bench.report import Result, Row
    from bench.settings import Settings

FORMULAS = {
    "response": "p IMPLIES EVENTUALLY[0,60s] q",
    "since": "p SINCE[0,60s] q",
    "nested": "ALWAYS[0,60s] (p IMPLIES EVENTUALLY[0,10s] q)",
}
SHARES = (0.001, 0.01, 0.1)
DELAYS = {"1s": 1000, "1m": 60_000, "1h": 3_600_000}
KEYS = (1, 1000, 100_000)
LIVE_BATCH = 1000
FILE_BATCH = 1 << 14
_RATES = {1: 10, 1000: 10_000, 100_000: 10_000}
"""Events a second of all keys together."""


class Case(NamedTuple):
    """What is measured.

    Attributes:
        formula: one of `FORMULAS`.
        keys: how many there are.
        share: how many of the events are late.
        delay: by how much at most.
        way: one of `WAYS`.
        batch: how many events come at once.
    """

    formula: str
    keys: int
    share: float
    delay: str
    way: str
    batch: int = LIVE_BATCH


def cases() -> list[Case]:
    """Return all cases: every way of being late for responses, and some for other formulas."""
    found = []
    for formula, keys in product(FORMULAS, KEYS):
        found.append(Case(formula, keys, 0.0, "1m", "uniform"))
        for share, delay, way in product(SHARES, DELAYS, WAYS):
            if formula == "response" or (keys == KEYS[1] and way == "uniform"):
                found.append(Case(formula, keys, share, delay, way))
    for formula, share in product(FORMULAS, (0.0, *SHARES)):
        found.append(Case(formula, KEYS[1], share, "1m", "uniform", FILE_BATCH))
    return found


def corrections(settings: Settings) -> Result:
    """Processor seconds of both, medians over the repeats, and how much was judged again."""
    rows: list[Row] = []
    notes: list[str] = []
    ordered: dict[tuple[str, int, int], float] = {}
    for case in cases():
        log = Log(case.keys, settings.events, settings.seed)
        if DELAYS[case.delay] > log.length:
            notes.append(
                f"{case.keys:,} keys, up to {case.delay} late: the log takes only "
                f"{log.length // 1000:,} s; give more --events."
            )
            continue
        which = case.formula, case.keys, case.batch
        if which not in ordered:
            runs = [log.monitored(case.formula, case.batch)[0] for _ in range(settings.repeats)]
            ordered[which] = statistics.median(runs)
        arrived = log.arrived(case)
        _, wanted = log.monitored(case.formula, case.batch, log.ordered(arrived))
        seconds = []
        for _ in progress(settings.repeats, " ".join(map(str, case))):
            passed, history, false_count = log.corrected(case, arrived)
            if false_count != wanted:
                raise BenchmarkError(f"{case}: {false_count} violations, not {wanted}")
            seconds.append(passed)
        counters = history.counters
        rows.append(
            {
                "formula": case.formula,
                "keys": case.keys,
                "events a batch": case.batch,
                "late": f"{case.share:.1%}",
                "by up to": case.delay if case.share else "",
                "way": case.way if case.share else "",
                "ordered, CPU s": ordered[which],
                "history, CPU s": statistics.median(seconds),
                "part of the speed": ordered[which] / statistics.median(seconds),
                "judged again per event": counters["replayed_events"] / settings.events,
                "MB held": counters["held_bytes"] / 1e6,
            }
        )
    return {"rows": rows, "notes": list(dict.fromkeys(notes))}


class Log:
    """Random events in the order of time, in milliseconds.

    Args:
        keys: the number of keys.
        count: the number of events.
        seed: of the random numbers.
    """

    def __init__(self, keys: int, count: int, seed: int) -> None:
        source = np.random.default_rng(seed)
        gaps = source.geometric(_RATES[keys] / (_RATES[keys] + 1000), count) - 1
        self.stamps: Integers = np.cumsum(gaps)
        self.numbers = source.integers(0, keys, count).astype(np.uint32)
        self.letters = (source.random(count) < 0.05) + 2 * (source.random(count) < 0.01)
        self.key_count = keys
        self.seed = seed
        self.length = int(self.stamps[-1])

    def arrived(self, case: Case) -> Integers:
        """Return the places of the events in the order in which they come."""
        return arrivals(self.stamps, case.share, DELAYS[case.delay], case.way, self.seed)

    def ordered(self, arrived: Integers) -> Integers:
        """Return the places of events in order of time; at one time, as they come."""
        found: Integers = arrived[self.stamps[arrived].argsort(kind="stable")]
        return found

    def monitored(
        self, formula: str, batch: int, order: Integers | None = None
    ) -> tuple[float, int]:
        """Return the seconds that monitors need for the events in order, and the violations.

        Args:
            formula: one of `FORMULAS`.
            batch: how many events come at once.
            order: the places of the events in order of time, if not that of the log.
        """
        places = np.arange(len(self.stamps)) if order is None else order
        monitors = KeyedMonitors(FORMULAS[formula], unit="ms", own_clocks=True)
        monitors.add(self.key_count)
        false_count = 0
        start = time.process_time()
        for place in range(0, len(self.stamps), batch):
            part = places[place : place + batch]
            records, _ = monitors.feed(self._columns(monitors.atoms, part), self.numbers[part])
            false_count += _false_count(records)
        passed = time.process_time() - start
        for number in range(self.key_count):
            false_count += _false_count(monitors.finish(number, "inf"))
        return passed, false_count

    def corrected(self, case: Case, order: Integers) -> tuple[float, History, int]:
        """Return the seconds that a history needs, the history, and the violations at the end."""
        history = History(FORMULAS[case.formula], lateness=DELAYS[case.delay], unit="ms")
        false_count = 0

        def count(records: np.ndarray[tuple[int], np.dtype[np.void]]) -> int:
            # 3: there was no verdict, or is none any more
            return int((records["kind"] == FALSE).sum()) - int((records["former"] == FALSE).sum())

        start = time.process_time()
        for place in range(0, len(order), case.batch):
            part = order[place : place + case.batch]
            columns = self._columns(history.atoms, part)
            false_count += count(history.push_columns(columns, self.numbers[part]).records)
        passed = time.process_time() - start
        false_count += count(history.finish("inf").records)
        return passed, history, false_count

    def _columns(self, atoms: tuple[str, ...], part: Integers) -> EventColumns:
        # bit 0 is p, bit 1 is q, in the order of the alphabet as in the formulas
        return event_columns(atoms, self.stamps[part], self.letters[part], ("p", "q"), True)


def _false_count(records: bytes) -> int:
    return int((np.frombuffer(records, verdict_type())["kind"] == FALSE).sum())
