"""How far a monitor gets within some seconds, for runs that do not end in time.

    python -m bench.pace MODE FORMULA LOG SECONDS

It says when it has started, reads the log as the command does, a few lines at a time, and after
each piece prints how many events it has done, and the seconds they took by the clock and of the
processor. Verdicts are written to memory and dropped.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from bench import ROOT
from bench.commands import BenchmarkError, environment
from mtlmon import Monitor
from mtlmon.drive.native import TextMonitor

if TYPE_CHECKING:
    from pathlib import Path

# A piece takes between these, as far as the number of its lines can see to that.
_LEAST_SECONDS, _MOST_SECONDS = 0.02, 0.1
# The first piece, and the part of the seconds that a piece may exceed them by.
_FIRST_LINES = 4
_GRACE = 0.5


@dataclass(frozen=True)
class Pace:
    """How many events were done, in how many seconds by the clock and of the processor."""

    events: int
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"stopped after {self.events:,} events in {self.seconds:.1f} s"


def measured(mode: str, formula: str, log: Path, seconds: float) -> Pace:
    """Run a monitor for so many seconds, in a process of its own.

    It is killed when a piece of the log takes far too long, which then does not count. The time in
    which it starts is not one of the seconds.
    """
    arguments = [sys.executable, "-m", "bench.pace", mode, formula, str(log), str(seconds)]
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # no more than the first line is read before the others
        bufsize=0,
        cwd=ROOT,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            output, errors = process.communicate(timeout=seconds * (1 + _GRACE) + 1)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        else:
            if process.returncode:
                raise BenchmarkError(f"{' '.join(arguments)}\n{errors.decode()}")
    lines = output.splitlines()
    if not lines:
        return Pace(0, seconds, seconds)
    events, *spent = lines[-1].split()
    return Pace(int(events), *map(float, spent))


def main() -> None:
    mode, formula, log, limit = sys.argv[1:]
    text = TextMonitor(Monitor(formula, cast("Any", mode)))
    lines = _FIRST_LINES
    print("started", flush=True)
    start = before = time.perf_counter()
    cpu_start = time.process_time()
    with open(log, "rb") as file:
        while piece := b"".join(islice(file, lines)):
            text.load(piece)
            while text.run():
                text.writer.take()
            text.writer.take()
            now = time.perf_counter()
            print(text.event_count, now - start, time.process_time() - cpu_start, flush=True)
            if now - start >= float(limit):
                break
            if now - before < _LEAST_SECONDS:
                lines *= 2
            elif now - before > _MOST_SECONDS:
                lines = max(1, lines // 4)
            before = now


if __name__ == "__main__":
    main()
