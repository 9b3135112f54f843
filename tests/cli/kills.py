"""Starts processes, kills them anywhere, and compares what they write with an undisturbed run."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli import process
from tests.cli.process import Ended

KILLS = 4


def feed(running: subprocess.Popen[bytes], log: bytes, source: random.Random) -> None:
    assert running.stdin is not None
    with contextlib.suppress(BrokenPipeError), running.stdin as pipe:
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
    running = process.Process(
        [*process.COMMAND, *arguments, *([] if is_piped else [str(log)])],
        stdin=subprocess.PIPE if is_piped else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=process.environment(),
    )
    if not is_piped:
        return running, None
    feeder = threading.Thread(
        target=feed, args=(running, log.read_bytes(), random.Random(source.random()))
    )
    feeder.start()
    return running, feeder


def kill_somewhere(
    running: subprocess.Popen[bytes], checkpoint: Path, source: random.Random
) -> None:
    """At any time after the start, or soon after a new checkpoint, or a few of them."""

    def stamp() -> int:
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

    deadline = time.monotonic() + process.SECONDS
    for _ in range(source.choice([0, 1, 1, 2, 5])):
        before = stamp()
        while running.poll() is None and stamp() == before and time.monotonic() < deadline:
            time.sleep(0.001)
    time.sleep(source.random() * source.choice([0.001, 0.01, 0.2]))
    running.send_signal(source.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))


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
        running, feeder = start([*more(), *arguments], log, source, can_pipe)
        if left > 0:
            kill_somewhere(running, checkpoint, source)
        assert running.stderr is not None
        with running.stderr:
            errors = running.stderr.read().decode()
        status = running.wait(process.SECONDS)
        if feeder is not None:
            feeder.join()
        assert status in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM, 0, 1), errors
    return Ended(status, "", errors)


def without_speed(errors: str) -> list[str]:
    """The lines without how long it took, how much memory keys took, and what was triggered.

    A run with checkpoints does not count what was triggered for a summary.
    """
    return [
        line.partition("in memory")[0] if line.startswith("keys") else line
        for line in errors.splitlines()
        if line and not line.startswith(("seconds", "peak")) and " triggered, " not in line
    ]


def check_killed_runs(
    arguments: list[str],
    log: Path,
    output: Path,
    source: random.Random,
    *,
    every: str,
    kills: tuple[int, ...] = (KILLS - 1, 1),
    can_pipe: bool = True,
    undisturbed: tuple[str, ...] = (),
    killed: tuple[str, ...] = (),
) -> tuple[Ended, bytes]:
    """Compare runs that are killed with one that is not: output, status, errors and files.

    Args:
        arguments: those of the command, without the log.
        log: the log.
        output: the file that the arguments name as output.
        source: where and how often runs are killed.
        every: how often they write a checkpoint, beside the output.
        kills: how often they are killed; each time, the last one goes on from the checkpoint.
        can_pipe: whether the command can read the log from a pipe.
        undisturbed: more arguments of the run that is not killed.
        killed: more arguments of the others.

    Returns:
        How the undisturbed run ended, and what it wrote.
    """
    expected = process.mtlmon(*undisturbed, *arguments, str(log))
    assert expected.status in (0, 1), expected.errors
    written = output.read_bytes()
    files = {*output.parent.iterdir()}
    output.unlink()
    checkpoint = output.with_name("checkpoint")
    resumed = ["--resume", "--checkpoint", str(checkpoint), "--checkpoint-every", every]
    for count in kills:
        done = run_killed(
            [*resumed, *killed, *arguments], log, checkpoint, count, source, can_pipe=can_pipe
        )
        assert output.read_bytes() == written
        assert done.status == expected.status
        assert without_speed(done.errors) == without_speed(expected.errors)
        assert {*output.parent.iterdir()} == {*files, checkpoint}
    return expected, written
