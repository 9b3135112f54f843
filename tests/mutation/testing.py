"""Tests on a mutant, within limits: one that loops, eats memory or crashes is killed, no more."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.mutation.switched import VARIABLE

_TREE = Path(__file__).parents[2]
# pytest's exit codes for a run that says something of the code: failures, and errors of imports.
_PASSED, _FAILED, _INTERRUPTED, _INTERNAL = 0, 1, 2, 3
_OPTIONS = ("-x", "-q", "-n0", "-rfE", "--tb=line", "--no-header", "-p", "no:cacheprovider")
# pytest rewrites plugins as it imports them, and the runner has imported some
_WARNINGS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


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


def run_tests(
    root: Path, package: Path, tests: tuple[str, ...], limits: Limits, number: int = 0
) -> Run:
    """Run tests of a tree, up to the first failure, on the package in a directory.

    `tests` may have options of pytest among them, and `number` chooses a mutant where the package
    has several.
    """
    asked = {
        "root": str(root),
        "package": str(package),
        "arguments": [*_OPTIONS, *_WARNINGS, *tests],
        "environment": {
            "PYTHONPATH": str(package),
            "PYTHONSAFEPATH": "1",
            "PYTEST_ADDOPTS": "",
            "HYPOTHESIS_PROFILE": "unshrunk",
            VARIABLE: str(number),
        },
        "seconds": limits.seconds,
        "patience": limits.patience,
    }
    runner = _runner(os.getpid())
    assert runner.stdin is not None
    assert runner.stdout is not None
    runner.stdin.write(json.dumps(asked) + "\n")
    runner.stdin.flush()
    emitted: dict[str, Any] = json.loads(runner.stdout.readline())
    outcome = _outcome(emitted["status"], emitted["is_late"], emitted["output"])
    return Run(outcome, emitted["by"], emitted["used"], emitted["output"])


@cache
def _runner(_process: int) -> subprocess.Popen[str]:
    """That of this process: what is forked needs one of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.mutation.runner"],
        cwd=_TREE,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # an interruption is for the one who asks, who goes on to the end of the tests
        start_new_session=True,
    )

    def end() -> None:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.close()
        started.wait()
        started.stdout.close()

    atexit.register(end)
    return started


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
