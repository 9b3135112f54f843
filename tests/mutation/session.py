"""A process of pytest that collects tests once, and runs some of them again for each mutant.

    python -m tests.mutation.session KIND DIRECTORY ARGUMENT...

`tests.mutation.testing` starts it, with numbers of what there is to do on its standard input and
answers, in lines of JSON, on its output; the arguments are pytest's. KIND is one of:

- record: the numbers are files of tests. The answers say how long each test takes, and which
  mutants it reaches.
- test: the numbers are mutants, each of which has a file in the directory that says with which
  tests. They run in a fork of this process, so a mutant costs no start of Python, and no
  collection.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.mutation.switched import CHOSEN, STATE
from tests.mutation.testing import NUMBER, queue, start

MEMORY = 3 << 30
_OPTIONS = (
    *("-q", "-n0", "--tb=line", "--no-header", "--capture=no", "-p", "no:cacheprovider"),
    # pytest rewrites plugins as it imports them, and this module has imported some
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class _Session:
    """The part that all kinds have: what fails is noted, and the loop is another."""

    def __init__(self, directory: Path, numbers: int, answers: int) -> None:
        self.directory = directory
        self._numbers = numbers
        self._answers = answers
        self.failed: list[str] = []

    def numbers(self) -> Iterator[int]:
        """What there is to do; others take from it, too."""
        while number := os.read(self._numbers, NUMBER):
            yield int.from_bytes(number, "little")

    def answer(self, **values: object) -> None:
        os.write(self._answers, json.dumps(values).encode() + b"\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


class Recording(_Session):
    """Runs all tests, and tells of each which mutants it reaches."""

    def __init__(self, directory: Path, numbers: int, answers: int) -> None:
        super().__init__(directory, numbers, answers)
        self._seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        super().pytest_runtest_logreport(report)
        self._seconds += report.duration

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        files: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            files.setdefault(item.location[0], []).append(item)
        self.answer(name="", seconds=0, reached=self._reached())
        shares = [*files.values()]
        for number in self.numbers():
            if number < len(shares):
                self._run(shares[number])
        return True

    def _run(self, items: list[pytest.Item]) -> None:
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._seconds, before = 0.0, len(self.failed)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            reached = self._reached()
            if len(self.failed) > before:
                self.answer(name=item.nodeid, failed=True)
            elif reached:
                self.answer(name=item.nodeid, seconds=self._seconds, reached=reached)

    @staticmethod
    def _reached() -> list[int]:
        """Which mutants have been reached since this was asked."""
        reached = sys.modules[STATE].reached
        found = [place for place, one in enumerate(reached[:]) if one]
        for place in found:
            reached[place] = 0
        return found


class Testing(_Session):
    """Runs the tests of one mutant after the other."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.failed:
            return None  # what was not collected; pytest says so, and there are no answers
        items = {item.nodeid: item for item in session.items}
        for number in self.numbers():
            asked = json.loads((self.directory / f"{number}.json").read_text())
            some = [items[name] for name in asked["tests"]]
            if asked["is_alone"]:
                # what a module does when it is imported needs another process
                self._alone(number, some, asked)
                continue
            self.answer(number=number, **self._tested(number, some, asked))
        return True

    def _tested(
        self, number: int, items: list[pytest.Item], asked: dict[str, Any]
    ) -> dict[str, str]:
        directory = Path(tempfile.mkdtemp())
        read, write = os.pipe()
        process = os.fork()
        if not process:
            os.close(read)
            self._be_tested(number, items, asked["seconds"], directory, write)
        os.close(write)
        waiting = os.pidfd_open(process)
        is_late = not select.select([waiting], [], [], asked["patience"])[0]
        os.close(waiting)
        # also what the tests themselves have started
        try:
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
        _, status = os.waitpid(process, 0)
        with open(read) as noted:
            by = noted.read()
        shutil.rmtree(directory, ignore_errors=True)
        return {"outcome": _outcome(os.waitstatus_to_exitcode(status), is_late=is_late), "by": by}

    def _be_tested(
        self, number: int, items: list[pytest.Item], seconds: float, directory: Path, noted: int
    ) -> NoReturn:
        status = 3
        try:
            os.setsid()
            output = os.open(directory / "output", os.O_RDWR | os.O_CREAT)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for place, stream in enumerate((nothing, output, output)):
                os.dup2(stream, place)
            for kind, most in (
                (resource.RLIMIT_CPU, int(seconds) + 1),
                (resource.RLIMIT_DATA, MEMORY),
                (resource.RLIMIT_CORE, 0),
            ):
                resource.setrlimit(kind, (most, most))
            os.environ[CHOSEN] = str(number)
            if STATE in sys.modules:
                sys.modules[STATE].chosen.value = number
            if forking := sys.modules.get("tests.forking"):
                # a server that was started while tests were collected has no mutant
                forking.command_server.cache_clear()
            if items:
                # nothing of other mutants is in its way, and nothing of it stays
                items[0].config._tmp_path_factory._basetemp = directory  # type: ignore[attr-defined]
            status = 0
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    os.write(noted, self.failed[0].encode())
                    status = 1
                    break
        finally:
            os._exit(status)

    def _alone(self, number: int, items: list[pytest.Item], asked: dict[str, Any]) -> None:
        """Have a mutant tested by a process that imports everything with it."""
        files = sorted({str(item.path) for item in items})
        asked["is_alone"] = False
        (self.directory / f"{number}.json").write_text(json.dumps(asked))
        options = [one for one in sys.argv[3:] if one.startswith("-")]
        process = start("test", self.directory, [*options, *files], queue([number]), number)
        seconds = int(asked["seconds"]) + 60
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))
        told, _ = process.communicate()
        status = process.returncode
        # what can no longer be imported, or not be collected, is noticed as well
        answered = json.loads(told) if told else {"outcome": _outcome(status or 1, is_late=False)}
        self.answer(**{"number": number, "by": items[0].location[0], **answered})


def _outcome(status: int, *, is_late: bool) -> str:
    if is_late or status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout"
    if status < 0:
        return "crashed"
    return "failed" if status else "passed"


def main() -> int:
    kind, directory, *arguments = sys.argv[1:]
    # what there is to do and answers have descriptors of their own, nothing else uses them
    numbers, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    plugin = {"record": Recording, "test": Testing}[kind](Path(directory), numbers, answers)
    return int(pytest.main([*_OPTIONS, *arguments], plugins=[plugin]))


if __name__ == "__main__":
    # tests import it by its name, and the tree is not on the path then
    here = Path(__file__).parents[2]
    sys.path[:] = [one for one in sys.path if Path(one).resolve() != here]
    os.environ["PYTHONSAFEPATH"] = "1"
    raise SystemExit(main())
