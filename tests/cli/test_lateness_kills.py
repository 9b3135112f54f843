"""Runs that correct verdicts, killed at any moment and started again, come to the same verdicts."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.kills import wait_for_checkpoint
from tests.cli.process import COMMAND, Ended, Process, environment, mtlmon
from tests.doors import CheckpointFile

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.cli.test_lateness import read_table

Command = Callable[..., Ended]

ROWS = 1_500
# of logs for streams
FEW_ROWS = 800
POLICIES = """\
key user
atom big = v > 6
policy one: a IMPLIES EVENTUALLY[0,40] (b OR big)
policy two per host: ALWAYS[0,9] (a IMPLIES EVENTUALLY[0,6] b)
policy three per none: big IMPLIES ONCE[0,50] a
"""
TEXT = """\
policy one: a IMPLIES EVENTUALLY[0,40] b
policy two: ALWAYS[0,9] (a IMPLIES EVENTUALLY[0,6] b)
"""
STREAMS = """\
key user
stream asked = count[0,30](a)
stream total = total.last(or: 0) + v
atom many = max[0,20](asked) > 3
policy one: a IMPLIES EVENTUALLY[0,40] (b OR many)
policy two per host on rows where avg[0,9](v) > 4: PREVIOUS (v.last(or: 0) > 5)
policy three per none: total < 9000
policy four: b IMPLIES ONCE[0,9] a
"""
STREAMS_OF_TEXT = """\
policy one: count[0,20](a) < 4 OR EVENTUALLY[0,9] b
policy two on rows where count[0,9](b) > 1: NEXT[0,5] a
"""

RELATIONS = """\
key user
relation busy  = rows valid 20 group host select sum(v) as total, count() as n
relation asked = rows valid until b or a per host where a select host as host
relation ever  = rows valid until next 300 group select max(v) as most
policy one: a IMPLIES EVENTUALLY[0,40] (b OR busy[host].total > 30)
policy two per host on rows where exists asked[host]: PREVIOUS (busy[host].n > 3)
policy three per none: count[0,30](ever[].most > 8) < 20
"""


def make_log(path: Path, source: random.Random, count: int, users: int = 500) -> None:
    now = 100
    with path.open("w") as file:
        if path.suffix == ".csv":
            file.write("ts,user,host,a,b,v\n")
        for _ in range(count):
            now += source.random() < 0.4
            stamp = now - (source.randrange(60) if source.random() < 0.05 else 0)
            a, b = source.random() < 0.3, source.random() < 0.3
            if path.suffix == ".csv":
                user = source.choice([source.randrange(9), source.randrange(users)])
                held = f"{a},{b},{source.randrange(10)}".lower()
                file.write(f"{stamp},u{user},{source.choice('xyz')},{held}\n")
            else:
                file.write(f"@{stamp}{' a' * a}{' b' * b}\n")


def latest(output: Path, form: str) -> object:
    """The latest verdicts; which revisions come before depends on what is read at once."""
    if form == "text":
        # what is below the bound of a key is written first, and so in an order of its own
        return sorted(mtlmon("latest", str(output)).output.splitlines())
    columns = ["policy", "user", "host", "time", "offset", "verdict", "reference"]
    last = {}
    finals: dict[tuple[object, ...], int] = {}
    revision = 0
    for row in read_table(output, form).to_pylist():
        assert row["revision"] >= revision
        revision = row["revision"]
        key = row["policy"], row["user"], row["host"]
        assert (row["final"] or 0) >= finals.get(key, 0)
        finals[key] = row["final"] or 0
        last[tuple(row[name] for name in columns[:5])] = row
    return {
        name: (row["verdict"], row["reference"])
        for name, row in last.items()
        if row["op"] != "delete"
    }


BY_KEY = ["--clock", "key", "--end-time", "last"]
# the policies, the log, options, the format of the output
RUNS: dict[str, tuple[str, str, list[str], str]] = {
    "table": (POLICIES, "log.csv", ["--wait", "3"], "text"),
    "csv": (POLICIES, "log.csv", [*BY_KEY, "--mode", "global"], "csv"),
    "text": (TEXT, "log.txt", ["--max-memory", "200M"], "text"),
    "streams": (STREAMS, "log.csv", [*BY_KEY, "--wait", "3"], "text"),
    "streams of relations": (RELATIONS, "log.csv", ["--wait", "2"], "text"),
    "streams of text": (STREAMS_OF_TEXT, "log.txt", [], "text"),
}


def kill_after(arguments: list[str], text: bytes, checkpoint: Path, written: int) -> int:
    """Let a pipe bring the text, wait for a checkpoint with more output, and kill the command.

    Returns:
        The size of the output that the checkpoint counts on.
    """
    with Process(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    ) as running:
        assert running.stdin is not None
        running.stdin.write(text)
        running.stdin.flush()
        wait_for_checkpoint(checkpoint, written + 1)
        running.send_signal(signal.SIGKILL)
        running.stdin.close()
    # it cannot end before its pipe does
    assert running.returncode == -signal.SIGKILL
    found = CheckpointFile(str(checkpoint)).read()
    assert found is not None
    return found.verdicts.size


def compare_with_kills(
    arguments: list[str],
    log: Path,
    output: Path,
    late: Path,
    latest: Callable[[Path], object],
    command: Command = mtlmon,
) -> tuple[object, list[str]]:
    """Compare a run that is killed twice, in the middle of lines, with one that is not.

    Args:
        arguments: those of the run, without the log.
        log: the log.
        output: the file that the run writes.
        late: the file of what comes too late.
        latest: reads the latest verdicts from the output.
        command: runs the command where it is not killed.

    Returns:
        The latest verdicts, and the options of a run that goes on.
    """
    checkpoint = output.with_name("checkpoint")
    wanted = command(*arguments, str(log))
    assert wanted.status == 1, wanted.errors
    refused, verdicts = late.read_text(), latest(output)
    assert refused
    output.unlink()
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", "0.05s"]
    piped = [*resumed, *arguments, *(["--format", "csv"] if log.suffix == ".csv" else [])]
    text = log.read_bytes()
    written = 0
    for share in (0.3, 0.7):
        cut = text.index(b"\n", int(share * len(text))) + 3
        written = kill_after(piped, text[:cut], checkpoint, written)
    done = command(*resumed, *arguments, str(log))
    assert done.status == 1, done.errors
    assert latest(output) == verdicts
    assert late.read_text() == refused
    assert done.errors == wanted.errors
    return verdicts, resumed


def check_killed_run(folder: Path, policies: str, seed: int, command: Command) -> None:
    """Compare a run that is killed with one of the rows in order of time."""
    file, log = folder / "p.mtl", folder / "log.csv"
    output, late = folder / "out", folder / "late.csv"
    file.write_text(policies)
    # what is computed again at each checkpoint is by groups of users
    make_log(log, random.Random(seed), 700, users=25)
    arguments = ["--lateness", "40", "--late", str(late), "--wait", "2", "-o", str(output)]

    def latest_lines(path: Path) -> list[str]:
        return sorted(command("latest", path).output.splitlines())

    arguments = [*arguments, str(file)]
    found, _ = compare_with_kills(arguments, log, output, late, latest_lines, command)
    in_order = command("--wait", "40", "--late", str(folder / "x"), str(file), str(log))
    assert found == sorted(in_order.output.splitlines())


@pytest.mark.parametrize("name", RUNS)
def test_latest_verdicts_survive_kills(name: str, tmp_path: Path) -> None:
    text_of_policies, log_name, options, form = RUNS[name]
    source = random.Random(name)
    log, policies, late = tmp_path / log_name, tmp_path / "p.mtl", tmp_path / "late"
    make_log(log, source, FEW_ROWS if name.startswith("streams") else ROWS)
    policies.write_text(text_of_policies)
    output = tmp_path / "out"
    arguments = ["--lateness", "50", "--late", str(late), "--output-format", form, *options]
    arguments += ["-o", str(output), str(policies)]
    verdicts, resumed = compare_with_kills(
        arguments, log, output, late, lambda output: latest(output, form)
    )
    if name != "text":
        return
    # another run of the same log has nothing to add, and one with other options does not go on
    again = mtlmon(*resumed, *arguments, str(log))
    assert (again.status, latest(output, form)) == (1, verdicts)
    other = mtlmon(*resumed, *arguments, "--lateness", "51", str(log))
    assert other.status == 2
    assert "it was made with another --lateness" in other.errors
