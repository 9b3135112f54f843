"""How a command is run and what is measured of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench import ROOT

_LAUNCHER = str(Path(__file__).with_name("launch.py"))
_KILLED = "-9"
# What Python writes when it fails, or cannot even begin.
_TRACE = re.compile(r"^Traceback|Error", re.MULTILINE)


class BenchmarkError(Exception):
    """A measured command failed, or did other work than it should."""


class TookTooLong(BenchmarkError):
    """A command did not end within its limit."""


@dataclass(frozen=True)
class Run:
    """One run of a command.

    Attributes:
        seconds: by the clock.
        cpu_seconds: of all its threads and child processes together.
        peak_bytes: resident memory at its peak.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(arguments: list[str], limit: float) -> Run:
    """Run the command with its output to the null device.

    Raises:
        TookTooLong: it was killed after `limit` seconds.
        BenchmarkError: it did not end with status 0 or 1 (a violation was found).
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", _LAUNCHER, str(limit), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    fields = done.stdout.split()
    if done.returncode or len(fields) != 4:
        raise BenchmarkError(f"{' '.join(arguments)}\n{done.stderr or done.stdout}")
    seconds, cpu_seconds = map(float, fields[:2])
    peak, status = int(fields[2]), fields[3]
    if status == _KILLED and seconds >= limit:
        raise TookTooLong(f"{' '.join(arguments)}\ntook more than {limit:g} s")
    _require_success(arguments, int(status), done.stderr)
    return Run(seconds, cpu_seconds, peak)


def output(arguments: list[str], limit: float) -> str:
    """What the command writes to standard output; raises as `run` does."""
    try:
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=environment(),
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise TookTooLong(f"{' '.join(arguments)}\ntook more than {limit:g} s") from None
    _require_success(arguments, done.returncode, done.stderr)
    return done.stdout


def seconds_to_first_output(arguments: list[str], text: bytes) -> float:
    """Seconds from the start of the command to its first byte of output, fed by a live pipe."""
    start = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(text)
        process.stdin.flush()
        first = os.read(process.stdout.fileno(), 1)
        seconds = time.perf_counter() - start
        process.stdin.close()
        process.stdout.read()
        errors = process.stderr.read().decode()
    if not first:
        raise BenchmarkError(f"{' '.join(arguments)}\nended without output\n{errors}")
    return seconds


def environment() -> dict[str, str]:
    """In which `python -m bench.ceiling` finds its module in the working directory."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}


def _require_success(arguments: list[str], status: int, errors: str) -> None:
    """Status 1 is a violation; but Python's own failures have it, too."""
    if status not in (0, 1) or (status == 1 and _TRACE.search(errors)):
        raise BenchmarkError(f"{' '.join(arguments)}\nstatus {status}\n{errors}")
