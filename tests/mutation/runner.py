"""Runs pytest by a fork of a process that has imported it: a mutant costs no start of Python.

    python -m tests.mutation.runner

`tests.mutation.testing` starts it. A line of its input is a request, a line of its output the
answer, both in JSON. Nothing of the package is imported here: it is another for each mutant.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pytest

MEMORY = 3 << 30
# what the tests themselves import, and no part of pytest's own plugins
PRELOADED = ("hypothesis", "hypothesis.strategies", "numpy", "pandas", "pyarrow")


class _FirstFailure:
    """Notes which test has failed."""

    by = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.by:
            self.by = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.by:
            self.by = report.nodeid


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Run the tests that are asked for in a process of their own, within limits."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as noted:
        process = os.fork()
        if not process:
            _be_pytest(asked, output, noted)
        waiting = os.pidfd_open(process)
        is_late = not select.select([waiting], [], [], asked["patience"])[0]
        os.close(waiting)
        # also what the tests themselves have started
        try:
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
        _, status, used = os.wait4(process, 0)
        output.seek(0)
        noted.seek(0)
        return {
            "status": os.waitstatus_to_exitcode(status),
            "is_late": is_late,
            "used": used.ru_utime + used.ru_stime,
            "by": noted.read().decode(),
            "output": output.read()[-100_000:].decode(errors="replace"),
        }


def _be_pytest(asked: dict[str, Any], output: BinaryIO, noted: BinaryIO) -> NoReturn:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, stream in enumerate((nothing, output.fileno(), output.fileno())):
        os.dup2(stream, number)
    seconds = int(asked["seconds"]) + 1
    for kind, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    os.chdir(asked["root"])
    os.environ.update(asked["environment"])
    sys.path.insert(0, asked["package"])
    failure = _FirstFailure()
    status = 3
    try:
        status = int(pytest.main(asked["arguments"], plugins=[failure]))
    finally:
        noted.write(failure.by.encode())
        noted.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    for name in PRELOADED:
        try:
            __import__(name)
        except ImportError:
            pass
    # answers have a descriptor of their own, nothing else writes there
    with open(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            answers.write(json.dumps(answer(json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    # tests import it by its name, and the tree is not on the path then
    sys.path[:] = [one for one in sys.path if Path(one).resolve() != Path(__file__).parents[2]]
    main()
