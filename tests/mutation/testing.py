"""Tests on a mutant, within limits: one that loops, eats memory or crashes is killed, no more."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_MEMORY = 3 << 30
# pytest's exit codes for a run that says something of the code: failures, and errors of imports.
_PASSED, _FAILED, _INTERRUPTED, _INTERNAL = 0, 1, 2, 3
_OPTIONS = ("-x", "-q", "-n0", "-rfE", "--tb=line", "--no-header", "-p", "no:cacheprovider")
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Limits:
    """seconds: of the processor, for one process; `patience` bounds the time that passes."""

    seconds: float
    patience: float

    @classmethod
    def after(cls, used: float) -> Limits:
        """For tests that take so many seconds of the processor on the original."""
        return cls(4 * used + 10, 30 * used + 300)


@dataclass(frozen=True)
class Run:
    """outcome: "passed", "failed", "crashed" or "timeout"; used: seconds of the processor."""

    outcome: str
    by: str
    used: float
    output: str


def run_tests(root: Path, package: Path, tests: tuple[str, ...], limits: Limits) -> Run:
    """Run tests of a tree, up to the first failure, on the package in a directory."""
    command = [sys.executable, "-m", "pytest", *_OPTIONS, *tests]
    environment = os.environ | {
        "PYTHONPATH": str(package),
        "PYTEST_ADDOPTS": "",
        "HYPOTHESIS_PROFILE": "unshrunk",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    seconds = int(limits.seconds) + 1
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
    is_late = False
    try:
        output = process.communicate(timeout=limits.patience)[0]
    except subprocess.TimeoutExpired:
        is_late = True
    finally:
        # Also what the tests themselves have started.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if is_late:
        output = process.communicate()[0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = output.decode(errors="replace")
    failure = _FAILURE.search(text)
    by = failure[1] if failure else ""
    return Run(_outcome(process.returncode, is_late, text), by, used, text)


def _outcome(status: int, is_late: bool, output: str) -> str:
    if is_late or status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout"
    if status < 0:
        return "crashed"
    if status == _PASSED:
        return "passed"
    if status in (_FAILED, _INTERRUPTED, _INTERNAL):
        return "failed"
    raise SystemExit(f"pytest could not be run (status {status}):\n{output}")
