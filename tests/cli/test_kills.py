"""Processes killed at any moment and started again write what an undisturbed one writes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.process import COMMAND, SECONDS, Ended, environment, mtlmon

if TYPE_CHECKING:
    from collections.abc import Callable

KILLS = 4
EVENTS = 40_000
MIXED = "EVENTUALLY[0,6] ((EVENTUALLY[1,4] p) EQUIV (q UNTIL[0,5] NEXT[0,2] p))"

# options, events of the log, and one line in how many cannot be read
RUNS = {
    "local": (["-e", "ALWAYS[0,30] (p IMPLIES EVENTUALLY[0,20] q)"], EVENTS, 0),
    "global": (["--mode", "global", "-e", "p UNTIL[2,9] (q SINCE[0,4] NEXT p)"], EVENTS, 0),
    "naive": (["--mode", "naive", "--end-time", "inf", "-e", "EVENTUALLY[5,25] r"], EVENTS, 0),
    "unbounded": (["--mode", "global", "-e", "p IMPLIES EVENTUALLY r"], EVENTS, 0),
    "mixed": (["-e", MIXED], 2_000, 0),
    "resolve": (["--resolve", "-e", "ALWAYS[0,50] (p IMPLIES EVENTUALLY[0,90] r)"], EVENTS, 0),
    "resolve-global": (["--resolve", "--mode", "global", "-e", "EVENTUALLY r"], EVENTS, 0),
    "first": (["--verdicts", "first", "-e", "EVENTUALLY[0,30] (last OR q)"], EVENTS, 0),
    "false": (["--verdicts", "false", "-e", "ONCE[0,10] p"], EVENTS, 0),
    "none": (["--verdicts", "none", "-e", "ONCE[0,10] p"], EVENTS, 0),
    "skip": (["--on-error", "skip", "-e", "p SINCE[2,8] q"], EVENTS, 7),
}


def make_log(source: random.Random, events: int, bad: int) -> bytes:
    """Atoms of which some are rare; `q` is not there for a while before the end."""
    time_stamp = 0
    lines = []
    for number in range(events):
        time_stamp += source.random() < 0.3
        line = f"@{time_stamp}"
        for name, chance in ("p", 0.3), ("q", 0.2), ("r", 0.001):
            if source.random() < chance and not (name == "q" and 0.85 < number / events < 0.95):
                line += f" {name}"
        if bad and source.randrange(bad) == 0:
            line = source.choice(["nothing", f"@{time_stamp} p,q", "@-1", "@0 p" if number else ""])
        lines.append(line)
    # a log that a writer left in the middle of a line
    return "\n".join(lines).encode()


def feed(process: subprocess.Popen[bytes], log: bytes, source: random.Random) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        place = 0
        while place < len(log):
            size = source.choice([1, 100, 5_000, 100_000])
            pipe.write(log[place : place + size])
            pipe.flush()
            place += size


def start(
    arguments: list[str], log: Path, source: random.Random, can_pipe: bool
) -> tuple[subprocess.Popen[bytes], threading.Thread | None]:
    """Start the command on the log as a file, or on a pipe that is fed with it."""
    is_piped = can_pipe and source.random() < 0.5
    process = subprocess.Popen(
        [*COMMAND, *arguments, *([] if is_piped else [str(log)])],
        stdin=subprocess.PIPE if is_piped else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    if not is_piped:
        return process, None
    feeder = threading.Thread(
        target=feed, args=(process, log.read_bytes(), random.Random(source.random()))
    )
    feeder.start()
    return process, feeder


def kill_somewhere(
    process: subprocess.Popen[bytes], checkpoint: Path, source: random.Random
) -> None:
    """At any time after the start, or soon after a new checkpoint, or a few of them."""

    def stamp() -> int:
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

    deadline = time.monotonic() + SECONDS
    for _ in range(source.choice([0, 1, 1, 2, 5])):
        before = stamp()
        while process.poll() is None and stamp() == before and time.monotonic() < deadline:
            time.sleep(0.001)
    time.sleep(source.random() * source.choice([0.001, 0.01, 0.2]))
    process.send_signal(source.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))


def run_killed(
    arguments: list[str],
    log: Path,
    checkpoint: Path,
    kills: int,
    source: random.Random,
    *,
    can_pipe: bool = True,
    more: Callable[[], list[str]] = list,
) -> Ended:
    """Start and kill the command so many times, then let it come to its end.

    more: returns the arguments that change from one start to the next.
    """
    for left in range(kills, -1, -1):
        process, feeder = start([*more(), *arguments], log, source, can_pipe)
        if left > 0:
            kill_somewhere(process, checkpoint, source)
        assert process.stderr is not None
        with process.stderr:
            errors = process.stderr.read().decode()
        status = process.wait(SECONDS)
        if feeder is not None:
            feeder.join()
        assert status in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM, 0, 1), errors
    return Ended(status, "", errors)


def without_speed(errors: str) -> list[str]:
    return [line for line in errors.splitlines() if not line.startswith(("seconds", "peak"))]


@pytest.mark.parametrize("name", RUNS)
def test_killed_runs_write_what_an_undisturbed_one_does(name: str, tmp_path: Path) -> None:
    options, events, bad = RUNS[name]
    source = random.Random(name)
    log, output, checkpoint = (tmp_path / name for name in ("log", "output", "checkpoint"))
    log.write_bytes(make_log(source, events, bad))
    arguments = [*options, "--summary", "-o", str(output)]
    expected = mtlmon(*arguments, str(log))
    verdicts = output.read_bytes()
    assert expected.status in (0, 1)
    output.unlink()
    arguments += ["--resume", "--checkpoint", str(checkpoint)]
    arguments += ["--checkpoint-every", str(events // 20)]
    # once more, from the last checkpoint
    for kills in KILLS, 1:
        done = run_killed(arguments, log, checkpoint, kills, source)
        assert output.read_bytes() == verdicts
        assert done.status == expected.status
        assert without_speed(done.errors) == without_speed(expected.errors)
        assert sorted(tmp_path.iterdir()) == [checkpoint, log, output]


def test_a_log_that_grows_while_processes_are_killed(tmp_path: Path) -> None:
    source = random.Random(5)
    log = make_log(source, EVENTS, 0)
    whole, growing, output = (tmp_path / name for name in ("whole", "growing", "output"))
    whole.write_bytes(log)
    formula = ["-e", "ALWAYS[0,30] (p IMPLIES EVENTUALLY[0,20] q)", "--resolve"]
    mtlmon(*formula, str(whole), "-o", str(output))
    verdicts = output.read_bytes()
    checkpoint = tmp_path / "checkpoint"
    arguments = [*formula, str(growing), "-o", str(output), "--resume"]
    arguments += ["--checkpoint", str(checkpoint), "--checkpoint-every", "0.01s"]
    size = 0
    while size < len(log):
        size += source.randrange(len(log) // 5)
        with growing.open("ab") as file:
            file.write(log[os.path.getsize(growing) : size])
        process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE)
        if source.random() < 0.5:
            kill_somewhere(process, checkpoint, source)
        process.communicate(timeout=SECONDS)
    assert mtlmon(*arguments).status == 1
    assert output.read_bytes() == verdicts
