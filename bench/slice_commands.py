"""Whole commands with policies with variables in slices: what a second slice saves."""

from __future__ import annotations

import os
import statistics
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from bench.compare import in_turn
from bench.relational import CASES, log_file, policy_files

if TYPE_CHECKING:
    from bench.commands import Run
    from bench.report import Result, Row
    from bench.settings import Settings


def slice_commands(settings: Settings) -> Result:
    """Seconds by the clock above the start, with one slice and with two, medians."""
    script = str(Path(sysconfig.get_path("scripts"), "mtlmon"))
    rows: list[Row] = []
    notes = [
        "Seconds by the clock, without those that the command takes for a log of one event, and "
        "processor seconds likewise. They depend on how many processors are idle."
    ]
    for name, case in CASES.items():
        policy = str(policy_files(name, case)["policy"])
        for rate in sorted({case.rates[0], case.rates[-1]}):
            commands = {
                f"{slices} {events}": [
                    *(script, "--slices", str(slices), policy, "-o", os.devnull),
                    str(log_file(name, case, rate, events, settings.seed)),
                ]
                for slices in (1, 2)
                for events in (1, settings.events)
            }
            runs = in_turn(commands, settings.repeats, settings.limit, notes, f"{name} {rate}")
            if len(runs) == len(commands):
                (one, one_cpu), (two, two_cpu) = (
                    _above(runs[f"{slices} {settings.events}"], runs[f"{slices} 1"])
                    for slices in (1, 2)
                )
                rows.append(
                    {
                        "policy": name,
                        "time-points a second": rate or "one an event",
                        "1 slice s": one,
                        "2 slices s": two,
                        "times as fast": one / two,
                        "1 slice CPU s": one_cpu,
                        "2 slices CPU s": two_cpu,
                    }
                )
    return {"rows": rows, "notes": notes}


def _above(whole: list[Run], start: list[Run]) -> tuple[float, float]:
    """Seconds by the clock, and of processors, without those of the start."""
    seconds = statistics.median(run.seconds for run in whole)
    cpu_seconds = statistics.median(run.cpu_seconds for run in whole)
    seconds -= statistics.median(run.seconds for run in start)
    return seconds, cpu_seconds - statistics.median(run.cpu_seconds for run in start)
