"""Starts processes, kills them anywhere, and compares what they write with an undisturbed run."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests import fork_server, forking
from tests.cli import process
from tests.cli.process import Ended
from tests.doors import CheckpointFile
from tests.forking import command_server

KILLS = 4


def wait_for_checkpoint(path: Path, output_size: int = 1) -> None:
    """Wait for a checkpoint that counts on so many bytes of verdicts."""
    file = CheckpointFile(str(path))
    process.wait_until(
        lambda: (found := file.read()) is not None and found.verdicts.size >= output_size
    )


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
    arguments: list[str], log: Path, source: random.Random, can_pipe: bool, mark: str = ""
) -> tuple[subprocess.Popen[bytes], threading.Thread | None]:
    """Start the command on the log as a file, or on a pipe that is fed with it.

    mark: where it gets a signal, for `end_at_mark`.
    """
    is_piped = can_pipe and source.random() < 0.5
    command = process.COMMAND
    if mark and command == forking.COMMAND and command_server() is None:
        command = [sys.executable, fork_server.__file__, "alone"]
    running = process.Process(
        [*command, *arguments, *([] if is_piped else [str(log)])],
        stdin=subprocess.PIPE if is_piped else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=process.environment(**({fork_server.MARK: mark} if mark else {})),
    )
    if not is_piped:
        return running, None
    feeder = threading.Thread(
        target=feed, args=(running, log.read_bytes(), random.Random(source.random()))
    )
    feeder.start()
    return running, feeder


def run(
    arguments: list[str], log: Path, source: random.Random, can_pipe: bool, mark: str = ""
) -> Ended:
    """Run the command to its end, or to the mark."""
    running, feeder = start(arguments, log, source, can_pipe, mark)
    assert running.stderr is not None
    with running.stderr:
        errors = running.stderr.read().decode()
    status = running.wait(process.SECONDS)
    if feeder is not None:
        feeder.join()
    assert mark or status in (0, 1), errors
    return Ended(status, "", errors)


def kill_somewhere(
    arguments: list[str],
    log: Path,
    checkpoint: Path,
    source: random.Random,
    number: signal.Signals = signal.SIGKILL,
    *,
    can_pipe: bool = True,
    most: int = 4,
) -> None:
    """Start the command, and kill it while it is at work.

    It is killed at any time between two checkpoints. The log is to be long enough for `most` new
    ones.
    """
    # a run that begins afresh has one before it is at work
    count = source.randrange(most) + (not checkpoint.exists())
    seconds = source.random() * source.choice([0.001, 0.01, 0.2])
    size = log.stat().st_size // source.choice([25, 50, 100])
    mark = f"{number:d} {count} {seconds} {size} {os.path.realpath(checkpoint)}"
    done = run(arguments, log, source, can_pipe, mark)
    if number == signal.SIGKILL:
        assert done.status == -number, f"the run ended before the mark {mark}: {done.errors[-500:]}"
    else:
        # which may have come at its very end
        assert done.status in (-number, 128 + number, 0, 1), done.errors


def run_killed(
    arguments: list[str],
    log: Path,
    checkpoint: Path,
    kills: int,
    source: random.Random,
    *,
    can_pipe: bool = True,
    more: Callable[[], list[str]] = list,
    most: int = 4,
) -> Ended:
    """Start and kill the command so many times, then let it come to its end.

    Every kill lands while the run is at work, so the log is to be long enough for them all.

    Args:
        arguments: those of the command, without the log.
        log: the log.
        checkpoint: the checkpoint that the arguments name.
        kills: how often it is killed; the last time it may be told to end instead.
        source: where it is killed.
        can_pipe: whether the command can read the log from a pipe.
        more: returns the arguments that change from one start to the next.
        most: how many new checkpoints a run needs for a kill.

    Returns:
        How the last run ended.
    """
    for left in range(kills, -1, -1):
        given = [*more(), *arguments]
        if left:
            number = signal.SIGKILL
            if left == 1 < kills:
                number = source.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
            kill_somewhere(given, log, checkpoint, source, number, can_pipe=can_pipe, most=most)
    return run(given, log, source, can_pipe)


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
    kills: int = KILLS,
    can_pipe: bool = True,
    most: int = 4,
    undisturbed: tuple[str, ...] = (),
    killed: tuple[str, ...] = (),
) -> tuple[Ended, bytes]:
    """Compare runs that are killed with one that is not: output, status, errors and files.

    A run of what has been read to its end has nothing to add.

    Args:
        arguments: those of the command, without the log.
        log: the log.
        output: the file that the arguments name as output.
        source: where and how often runs are killed.
        every: how often they write a checkpoint, beside the output.
        kills: how often they are killed; the last one comes to its end.
        can_pipe: whether the command can read the log from a pipe.
        most: how many new checkpoints a run needs for a kill.
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
    for count in (kills, 0):
        done = run_killed(
            [*resumed, *killed, *arguments],
            log,
            checkpoint,
            count,
            source,
            can_pipe=can_pipe,
            most=most,
        )
        assert output.read_bytes() == written
        assert done.status == expected.status
        assert without_speed(done.errors) == without_speed(expected.errors)
        assert {*output.parent.iterdir()} == {*files, checkpoint}
    return expected, written
