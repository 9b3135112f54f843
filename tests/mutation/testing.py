"""What tests reach which mutants, and what becomes of mutants with these tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

from tests.mutation.switched import CHOSEN, REACHED

_TREE = Path(__file__).parents[2]
_MOST_FILES = 4000
NUMBER = 8
"""How many bytes a number of work has."""


@dataclass
class Recording:
    """What the tests do where no mutant is chosen.

    seconds: what each test takes that reaches a mutant. reached: the tests of each mutant.
    at_import: the mutants that are reached before any test. failing: tests that are of no use.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    reached: dict[int, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    at_import: set[int] = field(default_factory=set)
    failing: list[str] = field(default_factory=list)

    def add(self, answer: Mapping[str, Any]) -> None:
        name = answer["name"]
        if answer.get("failed"):
            self.failing.append(name)
        elif not name:
            self.at_import.update(answer["reached"])
        else:
            self.seconds[name] = answer["seconds"]
            self.counts[name] = len(answer["reached"])
            for number in answer["reached"]:
                self.reached.setdefault(number, []).append(name)

    def tests_of(
        self, numbers: Iterable[int], seconds: float, most_files: int | None = None
    ) -> list[str]:
        """Those that reach any of some mutants, the likeliest first, as many as there is time for.

        A test that is short, and that reaches little else, is likely to notice. The first case of
        each test comes before the second of any, and those of a file stay together: they may share
        what is dear to set up.
        """
        ranked = sorted(
            {name for number in numbers for name in self.reached.get(number, ())},
            key=lambda name: ((self.seconds[name] + 0.01) * self.counts[name], name),
        )
        cases: dict[str, int] = {}
        rounds: dict[str, int] = {}
        for name in ranked:
            function = name.partition("[")[0]
            rounds[name] = cases[function] = cases.get(function, 0) + 1
        taken: dict[str, list[str]] = {}
        used = 0.0
        for name in sorted(ranked, key=lambda name: rounds[name]):
            file = name.partition("::")[0]
            is_late = used + self.seconds[name] > seconds
            if taken and (is_late or (file not in taken and len(taken) == most_files)):
                continue
            used += self.seconds[name]
            taken.setdefault(file, []).append(name)
        return [name for names in taken.values() for name in names]


def record(directory: Path, arguments: Sequence[str], count: int, processes: int) -> Recording:
    """Run tests on the package in a directory, which has mutants with numbers up to `count`."""
    recording = Recording()
    work = queue(range(_MOST_FILES))
    started = []
    for place in range(processes):
        reached = directory / f"reached.{place}"
        reached.write_bytes(bytes(count + 1))
        started.append(start("record", directory, arguments, work, reached=reached))
    os.close(work)
    for answer in _answers(started):
        recording.add(answer)
    if not recording.reached:
        raise SystemExit(f"no test reaches a mutant; see {directory / 'log'}")
    return recording


def outcomes(
    directory: Path,
    arguments: Sequence[str],
    tests: Mapping[int, Mapping[str, Any]],
    processes: int,
) -> Iterator[dict[str, Any]]:
    """The number, the outcome and the test that failed, for each mutant, in any order."""
    for number, asked in tests.items():
        (directory / f"{number}.json").write_text(json.dumps(asked))
    work = queue(tests)
    started = [start("test", directory, arguments, work) for _ in range(min(processes, len(tests)))]
    os.close(work)
    left = set(tests)
    for answer in _answers(started):
        left.discard(answer["number"])
        yield answer
    if left:
        raise SystemExit(f"{len(left)} mutants were not tested; see {directory / 'log'}")


def queue(numbers: Iterable[int]) -> int:
    """A descriptor from which processes take numbers, each from the others."""
    read, write = os.pipe()

    def put() -> None:
        with open(write, "wb", buffering=0) as to:
            try:
                for number in numbers:
                    to.write(number.to_bytes(NUMBER, "little"))
            except BrokenPipeError:
                pass

    Thread(target=put, daemon=True).start()
    return read


def start(
    kind: str,
    directory: Path,
    arguments: Sequence[str],
    work: int,
    chosen: int = 0,
    reached: Path | None = None,
) -> subprocess.Popen[str]:
    """A process of `tests.mutation.session`."""
    own = ("PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {key: value for key, value in os.environ.items() if key not in own}
    environment |= {
        "PYTHONPATH": str(directory / "package"),
        "PYTEST_ADDOPTS": "",
        "HYPOTHESIS_PROFILE": "unshrunk",
        CHOSEN: str(chosen),
    }
    if reached is not None:
        environment[REACHED] = str(reached)
    with open(directory / "log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.session", kind, str(directory), *arguments],
            cwd=_TREE,
            env=environment,
            stdin=work,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # an interruption is for the one who asks
            start_new_session=True,
        )


def _answers(started: Sequence[subprocess.Popen[str]]) -> Iterator[dict[str, Any]]:
    """The answers of all processes, as they come; they are ended if nobody asks any more."""
    found: Queue[str | None] = Queue()

    def read(process: subprocess.Popen[str]) -> None:
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                found.put(line)
        found.put(None)

    for process in started:
        Thread(target=read, args=(process,), daemon=True).start()
    ended = 0
    try:
        while ended < len(started):
            line = found.get()
            if line is None:
                ended += 1
            else:
                yield json.loads(line)
    finally:
        for process in started:
            process.terminate()
            process.wait()
