"""Runs commands in directories of their own, and records what they write."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from pytest import MonkeyPatch

from tests.cli import kills, process
from tests.cli.process import Ended
from tests.docs import pages

# All that is not recorded as it is: how long a run takes, how much memory it needs, and when and
# where it was made. Of a checkpoint, whose bytes only matter to the build that wrote it, it is
# recorded that there is one.
VARYING = [
    (re.compile(r"^(seconds|peak memory) .*", re.MULTILINE), r"\1 ..."),
    (re.compile(r"^(keys .* in memory).*", re.MULTILINE), r"\1 ..."),
    (re.compile(r"(<dt>(?:Started|Duration|Peak memory)</dt><dd>)[^<]*"), r"\1..."),
]
CHECKPOINT = b"mtlmon checkpoint"
# for a shell: print the status of the command before, and leave it as it is
STATUS = 'printf %s "$status"; (exit "$status")\n'

Files = dict[str, bytes]
Outputs = dict[str, str]


class Entry(NamedTuple):
    """A command, and what it wrote: its status and streams, and the files that it changed."""

    name: str
    arguments: list[str]
    inputs: str
    outputs: Outputs


class Recorder:
    """Records commands.

    Args:
        scratch: where cases have their directories, which are left there.

    Attributes:
        entries: what has been recorded.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch.resolve()
        self.entries: list[Entry] = []
        self._case = ""
        self._folder = self.scratch
        self._counts: dict[str, int] = {}
        self._made: Files = {}

    @contextmanager
    def case(self, name: str) -> Iterator[Path]:
        """Make a working directory, and record commands under this name.

        Where helpers of tests find that a build does something wrong, the case ends, and that is
        recorded.
        """
        self._case, self._made = name, {}
        self._folder = self.scratch / re.sub(r"[^\w.-]", "+", name)
        self._folder.mkdir(parents=True)
        before = Path.cwd()
        os.chdir(self._folder)
        try:
            yield self._folder
        except AssertionError as error:
            self._add("stopped", [], "", {"error": str(error)})
        finally:
            os.chdir(before)

    def command(self, *arguments: object) -> Ended:
        """Run the command and record it; this is what tests call `command`."""
        given = [str(one) for one in arguments]
        return self._record(given, lambda: process.mtlmon(*given))

    def console(self, _page: str, block: pages.Block) -> Iterator[str]:
        """Run a block of commands of a page, and record it if it has some of mtlmon."""
        lines = [one.line for one in pages.commands(block)]
        before = self._files()
        printed = iter(pages.outputs([part for line in lines for part in (line, STATUS)]))
        if any("mtlmon" in line for line in lines):
            outputs = {
                f"$ {line.rstrip()}": f"{output}[status {status}]\n"
                for line, output, status in zip(lines, printed, printed, strict=True)
            }
            self._compare(lines[0].strip(), lines, before, outputs)
        return iter(())

    @contextmanager
    def killed_runs(self) -> Iterator[None]:
        """Record what `kills.run_killed` comes to in tests, which compare it with other runs."""
        run = kills.run_killed

        def run_killed(arguments: list[str], log: Path, *more: Any, **options: Any) -> Ended:
            given = ["(killed)", *arguments, str(log)]
            return self._record(given, lambda: run(arguments, log, *more, **options))

        with MonkeyPatch.context() as patch:
            patch.setattr(kills, "run_killed", run_killed)
            yield

    def _record(self, arguments: list[str], run: Callable[[], Ended]) -> Ended:
        before = self._files()
        done = run()
        outputs = {"status": str(done.status), "output": done.output, "errors": done.errors}
        self._compare("", arguments, before, outputs)
        return done

    def _compare(self, name: str, given: Iterable[str], before: Files, outputs: Outputs) -> None:
        """Record a command, with the files that have changed since these."""
        # what a command has made is recorded as its output
        inputs = [one for one in sorted(before.items()) if self._made.get(one[0]) != one[1]]
        digest = hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]
        changed = {path: data for path, data in self._files().items() if before.get(path) != data}
        self._made |= changed
        files = {f"file {path}": _shown(data) for path, data in sorted(changed.items())}
        self._add(name, given, digest, outputs | files)

    def _add(self, name: str, arguments: Iterable[str], inputs: str, outputs: Outputs) -> None:
        name = f"{self._case}/{name}"
        count = self._counts[name] = self._counts.get(name, 0) + 1
        given = [self._normal(one) for one in arguments]
        written = {self._normal(key): self._normal(text) for key, text in outputs.items()}
        self.entries.append(Entry(f"{name}#{count}", given, inputs, written))

    def _files(self) -> Files:
        return {
            path.relative_to(self._folder).as_posix(): path.read_bytes()
            for path in self._folder.rglob("*")
            if path.is_file()
        }

    def _normal(self, text: str) -> str:
        text = text.replace(str(self._folder), "DIR")
        for pattern, replacement in VARYING:
            text = pattern.sub(replacement, text)
        return text


def _shown(data: bytes) -> str:
    """A file as text; a Parquet file by its rows."""
    if data.startswith(CHECKPOINT):
        return "a checkpoint"
    if data.startswith(b"PAR1"):
        table = pq.read_table(BytesIO(data))
        rows = [json.dumps(row, default=str) for row in table.to_pylist()]
        return "\n".join([table.schema.to_string(), *rows, ""])
    return data.decode(errors="backslashreplace")


def write(path: Path, entries: Sequence[Entry]) -> None:
    """Write the commands of a group."""
    path.write_text("".join(f"{json.dumps(entry._asdict())}\n" for entry in entries))


def read(path: Path) -> dict[str, Entry]:
    """The commands of a group by their names; none if there is no such file."""
    if not path.exists():
        return {}
    entries = [Entry(**json.loads(line)) for line in path.read_text().splitlines()]
    return {entry.name: entry for entry in entries}
