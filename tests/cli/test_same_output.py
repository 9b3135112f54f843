"""The output is a function of the log: how it is read, and how much at a time, does not show."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.process import SECONDS, Ended, unread
from tests.doors import checking_log_check as log_check
from tests.doors import checking_text_logs as text_logs
from tests.doors import checking_tick_turns as tick_turns
from tests.doors import formats_rows as table_rows
from tests.doors import streams_atoms as stream_atoms
from tests.doors import tables_events as events
from tests.doors import tables_sorting as sorting

Command = Callable[..., Ended]

HEADER = "ts,k,p,q,x\n"

DECLARED = """\
unit s
key k
stream few = count[0,5](p)
stream sums = sum[0,4](x, or: 0)
stream before = x.last(or: 0)
stream often = count[0,6](q) every 3s
relation open = rows valid until q group select count() as n
relation here = rows valid 4s where p select k as k, x as x
relation table_of = table "t.csv" valid [from, to) key k
"""

# Of each kind of time-points and of operators some.
TEMPLATES = [
    "p IMPLIES EVENTUALLY[0,5] q",
    "NEXT[0,3] q",
    "ALWAYS[1,4] (p OR q)",
    "(q SINCE[0,6] p) OR EVENTUALLY[2,3] p",
    "few < 3",
    "sums > before AND NEXT[0,9] p",
    "x.next() > x",
    "x.next(2) > 3",
    "(x.next() > 0) IMPLIES EVENTUALLY[0,4] q",
    "count[0,9](p) >= n.last(or: 0)",
    "exists table_of[k]",
    "exists here[k] OR x > 2",
    "on every 3s: often < 2",
    "on every 2s: count[0,4](p) < 3",
    "on rows where q: NEXT[0,9] (x > 1)",
    "on rows where p: x > 1",
    "on changes of open: true",
    "on changes of open: EVENTUALLY[0,4] count[0,3](p) > 1",
    "on changes of table_of: true",
    "on changes of table_of: count[0,5](q) > 0",
]
VARIABLES = [
    "FORALL a. e(a) IMPLIES ONCE[0,4] f(a)",
    "e(a) IMPLIES EVENTUALLY[0,3] f(a)",
    "FORALL a. f(a) IMPLIES NEXT[0,2] e(a)",
]
TEXTS = [*TEMPLATES[:5], "on every 3s: often < 2", "on every 2s: count[0,4](p) < 3"]


class Row(NamedTuple):
    """A row of a log, and the line of the same event."""

    time: int
    text: str
    line: str


class Case(NamedTuple):
    """Policies on a log.

    Attributes:
        policies: the policy file.
        rows: the rows in the order of time.
        options: the options of the command.
    """

    policies: str
    rows: list[Row]
    options: list[str]


def rows_of(source: random.Random) -> list[Row]:
    now, keys, found = source.choice([0, 2, 60]), source.choice(["a", "ab", "abcdeg"]), []
    for _ in range(source.randrange(2, 14)):
        now += source.choice([0, 0, 1, 1, 2, 3, source.randrange(9)])
        p, q = source.random() < 0.5, source.random() < 0.4
        key, x = source.choice(keys), source.randrange(6)
        text = f"{now},{key},{p},{q},{x}\n".lower()
        held = [name for name, is_held in (("p", p), ("q", q)) if is_held]
        found.append(Row(now, text, f"@{now} {' '.join(held)}".rstrip() + "\n"))
    return found


def policy_of(source: random.Random, number: int, template: str) -> str:
    template = template.replace("n.last(or: 0)", "before")
    clock = ""
    if template.startswith("on "):
        head, _, template = template.partition(": ")
        clock = f" {head}"
    key = ""
    if "changes of open" in clock:
        # its records have no column of keys
        key = " per none"
    elif source.random() < 0.3:
        key = " per none"
    return f"policy c{number}{key}{clock}: {template}\n"


def case_of(seed: int) -> Case:
    source = random.Random(f"same output {seed}")
    rows = rows_of(source)
    chosen = source.sample(TEMPLATES, source.randrange(1, 5))
    policies = [policy_of(source, number, one) for number, one in enumerate(chosen)]
    text = DECLARED
    if source.random() < 0.25:
        text += "atom e(k) = p\natom f(k) = q\n"
        policies += [f"policy v: {source.choice(VARIABLES)}\n"]
        source.shuffle(policies)
    options = [*source.choice([[], ["--end-time", "inf"], ["--end-time", "last"]])]
    modes = [["--mode", "naive"], ["--mode", "global"]] if text == DECLARED else []
    options += source.choice([[], [], *modes, ["--resolve"]])
    if not any(".next(" in one for one in policies):
        options += source.choice([[], [], ["--advance-every", "4"]])
    return Case(text + "".join(policies), rows, options)


def text_case_of(seed: int) -> Case:
    source = random.Random(f"same output of text {seed}")
    rows = rows_of(source)
    chosen = source.sample(TEXTS, source.randrange(1, 4))
    policies = [
        policy_of(source, number, one).replace(" per none", "").replace("few", "count[0,5](p)")
        for number, one in enumerate(chosen)
    ]
    declared = "unit s\nstream often = count[0,6](q) every 3s\n"
    options = source.choice([[], ["--end-time", "inf"], ["--end-time", "last"], ["--resolve"]])
    return Case(declared + "".join(policies), rows, options)


def late(source: random.Random, rows: Sequence[Row], most: float) -> list[Row]:
    """The rows in another order, up to so much late; those of one time keep their order."""
    delays = {row.time: source.uniform(0, most) for row in rows}
    return sorted(rows, key=lambda row: row.time + delays[row.time])


@contextmanager
def small_steps(monkeypatch: pytest.MonkeyPatch, size: int) -> Iterator[None]:
    """Let everything that goes on in steps take small ones."""
    with monkeypatch.context() as patch:
        patch.setattr(table_rows, "FIRST_BLOCK_BYTES", size)
        patch.setattr(table_rows, "BLOCK_BYTES", size)
        patch.setattr(text_logs, "_BLOCK_BYTES", size)
        patch.setattr(log_check, "_SLICE_EVENTS", size)
        patch.setattr(log_check, "_LEAST_EVENTS", 1 + size % 3)
        patch.setattr(stream_atoms, "MOST_TICKS", 1 + size % 7)
        patch.setattr(events, "LARGEST_BATCH", 1 + size % 5)
        patch.setattr(tick_turns, "_MOST_TICKS", 1 + size % 4)
        patch.setattr(sorting, "_YIELDED_ROWS", 1 + size % 3)
        yield


@contextmanager
def pipe(path: Path, chunks: Sequence[str]) -> Iterator[None]:
    """A named pipe, into which a chunk comes when those before it have been read."""
    os.mkfifo(path)

    def write() -> None:
        # a reader that refuses the log closes its end
        with suppress(BrokenPipeError), path.open("wb", buffering=0) as file:
            for chunk in chunks:
                file.write(chunk.encode())
                deadline = time.monotonic() + SECONDS
                while unread(file.fileno()) and time.monotonic() < deadline:
                    time.sleep(0.0002)
                # Nothing tells that the reader, a thread of this process, waits again. If it
                # finds two chunks at once, the output is the same.
                time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        # if nobody has read it
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        writer.join()
        path.unlink()


class Ways:
    """Runs the command on one case in many ways."""

    def __init__(
        self,
        case: Case,
        is_text: bool,
        directory: Path,
        command: Command,
        patch: pytest.MonkeyPatch,
    ) -> None:
        self.case = case
        self.source = random.Random(case.policies)
        self.command = command
        self.patch = patch
        self.directory = directory
        self.is_text = is_text
        self.name = "log" if is_text else "log.csv"
        self.policies = directory / "p.mtl"
        self.policies.write_text(case.policies)
        (directory / "t.csv").write_text("k,from,to\na,1,4\nb,3,70\na,6,8\nc,62,65\n")

    def parts(self, rows: Sequence[Row]) -> list[str]:
        if self.is_text:
            return [row.line for row in rows]
        return [HEADER, *(row.text for row in rows)]

    def run(self, log: Path, *options: str) -> Ended:
        return self.command(*self.case.options, *options, self.policies, log)

    def of_file(self, rows: Sequence[Row], *options: str) -> Ended:
        log = self.directory / self.name
        log.write_text("".join(self.parts(rows)))
        return self.run(log, *options)

    def of_pipe(self, chunks: Sequence[str], *options: str) -> Ended:
        log = self.directory / "pipe"
        with pipe(log, chunks):
            return self.run(log, *([] if self.is_text else ["--format", "csv"]), *options)

    def all(self) -> Iterator[tuple[str, Ended]]:
        """Yield what comes of each way."""
        source, rows = self.source, self.case.rows
        yield "one thread", self.of_file(rows, "--threads", "1")
        for size in (1, 7, 30, source.randrange(8, 90)):
            with small_steps(self.patch, size):
                yield f"blocks of {size}", self.of_file(rows)
        yield "a pipe by rows", self.of_pipe(self.parts(rows))
        whole = "".join(self.parts(rows))
        cut = source.randrange(len(whole))
        yield f"a pipe cut at {cut}", self.of_pipe([whole[:cut], whole[cut:]])
        shuffled = late(source, rows, 50)
        yield "sorted", self.of_file(shuffled, "--sort")
        with small_steps(self.patch, source.randrange(1, 30)):
            yield "sorted in small steps", self.of_file(shuffled, "--sort")
        few = late(source, rows, 3)
        yield "waiting", self.of_file(few, "--wait", "3s")
        yield "a pipe, waiting", self.of_pipe(self.parts(few), "--wait", "3s")
        if not self.is_text:
            log = self.directory / "log.parquet"
            import pyarrow.parquet as pq
            from pyarrow import csv

            path = self.directory / self.name
            path.write_text("".join(self.parts(rows)))
            pq.write_table(csv.read_csv(path), log, row_group_size=3)
            yield "Parquet", self.run(log)

    def check(self) -> None:
        wanted = self.of_file(self.case.rows)
        assert wanted.status in (0, 1), f"{self.case.policies}\n{wanted.errors}"
        shown = f"{self.case.options}\n{self.case.policies}\n{''.join(self.parts(self.case.rows))}"
        for name, found in self.all():
            same = (found.status, found.output) == (wanted.status, wanted.output)
            assert same, (
                f"{name}: {shown}\n{found.errors}\n{found.output}\ninstead of\n{wanted.output}"
            )


def given(policies: str, rows: str, *options: str) -> Case:
    """A case that is written out; rows have a blank between them."""
    found = []
    for text in rows.split():
        time_stamp, _, p, q, _ = text.split(",")
        atoms = [name for name, held in (("p", p), ("q", q)) if held == "true"]
        found.append(Row(int(time_stamp), f"{text}\n", f"@{time_stamp} {' '.join(atoms)}\n"))
    return Case(f"{DECLARED}{policies}", found, list(options))


# Each by what decides the order of its verdicts.
CASES = {
    # The change at 65 is a tick, and comes before the row of 67, which lets the row of 65 go.
    "ticks before rows that have waited": given(
        "policy later: x.next() > 0\npolicy changed per none on changes of open: true\n",
        "65,a,true,false,0 67,a,true,false,1 68,b,true,false,1",
        "--end-time",
        "inf",
    ),
    # The end of the log brings verdicts key by key, in the order of the keys' first rows in time.
    "keys in the order of time": given(
        "policy next: NEXT[0,1] q\n", "19,a,true,false,0 21,b,true,false,0 24,c,true,true,0"
    ),
    # Time passes between 79 and 80, and the tick at 79 comes before that.
    "ticks before time passes": given(
        "policy changed per none on changes of open: true\npolicy soon: EVENTUALLY[2,3] p\n",
        "70,d,false,false,1 73,e,false,false,0 79,c,true,true,4 80,d,true,false,0",
        "--advance-every",
        "4",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(
    name: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ways(CASES[name], False, tmp_path, command, monkeypatch).check()


@pytest.mark.parametrize(
    ("is_text", "first", "step", "most"),
    [*((False, first, 4, 20) for first in range(4)), *((True, first, 2, 10) for first in range(2))],
)
def test_random_policies(
    is_text: bool,
    first: int,
    step: int,
    most: int,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """On tables and text logs. With `--exhaustive`, thousands of policy files."""
    level: int = pytestconfig.getoption("--exhaustive")
    for seed in range(first, most * 10 ** (level - 1), step):
        directory = tmp_path / str(seed)
        directory.mkdir()
        case = text_case_of(seed) if is_text else case_of(seed)
        Ways(case, is_text, directory, command, monkeypatch).check()
