"""Trace length: whether memory grows or speed falls in a long log of distinct time-stamps."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ROOT, commands
from bench.commands import BenchmarkError
from bench.compare import progress, start_up
from bench.contenders import Mtlmon
from bench.logs import random_log
from bench.workloads import PAIR, WORKLOADS

if TYPE_CHECKING:
    from bench.report import Result, Row
    from bench.settings import Settings

FORMULAS = {
    "f3": WORKLOADS["f3"].formula,
    "unbounded": "ALWAYS (p IMPLIES EVENTUALLY q)",
}

SHORTER = 100
"""How many times shorter the log is that memory is compared with."""

# All time-stamps have as many digits, so that bytes are a measure of events.
_FIRST_TIME_STAMP = 10**9
# Between these parts of the log, the first and the last tenth are timed; the start-up is not.
_TENTHS = ((0.01, 0.11), (0.89, 0.99))
_SECONDS_BETWEEN_LOOKS = 0.002


def length(settings: Settings) -> Result:
    """Peak memory at a hundredth of the events and at all of them; speed at either end."""
    rows: list[Row] = []
    logs = [
        random_log(PAIR, "dense", 1, events, settings.seed, first=_FIRST_TIME_STAMP)
        for events in (settings.events // SHORTER, settings.events)
    ]
    short, long = (log.path() for log in logs)
    who = Mtlmon("local")
    for name, formula in FORMULAS.items():
        empty = start_up(who, formula, settings.repeats).peak_bytes / 1e6
        peaks = [
            commands.run(who.command(formula, path), settings.limit).peak_bytes / 1e6 - empty
            for path in (short, long)
        ]
        tenths = [
            _tenths(who.command(formula, "-"), long)
            for _ in progress(settings.repeats, f"length {name}")
        ]
        first, last = (statistics.median(pair[i] for pair in tenths) for i in (0, 1))
        events = settings.events * (_TENTHS[0][1] - _TENTHS[0][0]) / 1e6
        rows.append(
            {
                "workload": name,
                "formula": formula,
                "events": settings.events,
                "peak MB": peaks[1],
                "peak MB, shorter": peaks[0],
                "M events/s, first tenth": events / first,
                "M events/s, last tenth": events / last,
                "last by first": statistics.median(one / other for one, other in tenths),
            }
        )
    return {"rows": rows, "notes": []}


def _tenths(arguments: list[str], log: Path) -> tuple[float, float]:
    """Seconds for the first and the last tenth: where the command stands in the file, and when."""
    size = log.stat().st_size
    looks: list[tuple[float, int]] = []
    with (
        log.open("rb") as file,
        subprocess.Popen(
            arguments,
            stdin=file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as process,
    ):
        assert process.stderr is not None
        while process.poll() is None:
            # The command shares the position in the file.
            looks.append((time.perf_counter(), os.lseek(file.fileno(), 0, os.SEEK_CUR)))
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        errors = process.stderr.read()
    if process.returncode not in (0, 1):
        raise BenchmarkError(f"{' '.join(arguments)}\nstatus {process.returncode}\n{errors}")
    times = [[_moment(looks, part * size) for part in tenth] for tenth in _TENTHS]
    return times[0][1] - times[0][0], times[1][1] - times[1][0]


def _moment(looks: list[tuple[float, int]], position: float) -> float:
    """When the position was reached, by straight lines between looks."""
    before = looks[0]
    for now in looks:
        if now[1] >= position:
            share = (position - before[1]) / max(1, now[1] - before[1])
            return before[0] + share * (now[0] - before[0])
        before = now
    raise BenchmarkError("the log is too short to time a tenth of it: give more --events")
