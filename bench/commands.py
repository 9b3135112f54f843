"""The commands that are measured, and how one is run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

from bench import ROOT
from mtlmon import parse
from mtlmon.analysis import atoms

MODES = ("local", "global", "naive")
# What only scans the log and writes a constant verdict for each line: no monitor is faster.
CEILING = "ceiling"
CONTENDERS = (*MODES, CEILING)

_LAUNCHER = str(Path(__file__).with_name("launch.py"))


class BenchmarkError(Exception):
    """A measured command failed."""


@dataclass(frozen=True)
class Run:
    """One run of a command: wall-clock seconds and peak resident bytes."""

    seconds: float
    peak_bytes: int


def command(contender: str, formula: str, log: Path | str) -> list[str]:
    """The command line of a contender on a log (`-` for standard input)."""
    if contender == CEILING:
        return [sys.executable, "-m", "bench.ceiling", str(log), *atoms(parse(formula))]
    script = str(Path(sysconfig.get_path("scripts"), "mtlmon"))
    return [script, "--mode", contender, "-e", formula, str(log)]


def run(arguments: list[str]) -> Run:
    """Run the command with its output to the null device.

    Raises BenchmarkError unless it ends with status 0 or 1 (a violation was found).
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", _LAUNCHER, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    fields = done.stdout.split()
    if done.returncode or len(fields) != 3 or fields[2] not in ("0", "1"):
        raise BenchmarkError(f"{' '.join(arguments)}\n{done.stderr or done.stdout}")
    return Run(float(fields[0]), int(fields[1]))


def seconds_to_first_output(arguments: list[str], text: bytes) -> float:
    """Seconds from the start of the command to its first byte of output, fed by a live pipe."""
    start = time.perf_counter()
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text)
        process.stdin.flush()
        first = os.read(process.stdout.fileno(), 1)
        seconds = time.perf_counter() - start
        process.stdin.close()
        process.stdout.read()
    if not first:
        raise BenchmarkError(f"{' '.join(arguments)}\nended without output")
    return seconds
