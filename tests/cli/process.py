"""The command as a process of its own."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.forking import COMMAND, Process, command_server

__all__ = [
    "COMMAND",
    "SECONDS",
    "Ended",
    "Live",
    "Process",
    "environment",
    "is_working",
    "mtlmon",
    "piped",
    "shell",
    "unread",
    "wait_until",
]

# How long anything may take on a busy machine; nothing is asserted about how long it does take.
SECONDS = 120.0
PAGE = 4096


class Ended(NamedTuple):
    """How a process ended."""

    status: int
    output: str
    errors: str


def mtlmon(*arguments: str, log: str | bytes = b"", **variables: str) -> Ended:
    """Run the command to its end, with `log` as standard input."""
    with Process(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**variables),
    ) as started:
        try:
            output, errors = started.communicate(
                log.encode() if isinstance(log, str) else log, timeout=SECONDS
            )
        except BaseException:
            started.kill()
            raise
    return Ended(started.returncode, output.decode(), errors.decode())


def shell(script: str, *arguments: str) -> Ended:
    """Run a shell script in which $M is the command; its arguments are $1, $2, ...

    The command is forked, unless the shell says what a process inherits, or runs another with its
    Python.
    """
    is_started = re.search(r"\b(ulimit|trap)\b|&-|[$][{]M", script)
    server = None if is_started else command_server()
    done = subprocess.run(
        ["bash", "-c", script, "bash", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=SECONDS,
        env=environment(M=" ".join(COMMAND) if server is None else str(server.program)),
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100", "PYTHONUTF8": "1", **variables}


def unread(descriptor: int) -> int:
    """The number of bytes in a pipe."""
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return int(count)


def is_working(process: int) -> bool:
    """Whether a thread of a process has something to do; not on systems that do not tell."""
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    return any(_state_of(thread) not in ("S", None) for thread in threads)


def _state_of(thread: Path) -> str | None:
    """The letter that Linux has for what a thread does, none if it has ended meanwhile."""
    try:
        return thread.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def wait_until(holds: Callable[[], object], process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for something to hold, while a process runs."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert process is None or process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


def piped(*arguments: str, pieces: Sequence[str]) -> Ended:
    """Run the command to its end on a pipe, from which it takes each piece before the next one."""
    with Live(*arguments) as live:
        for piece in pieces:
            live.send(piece)
            live.wait_until_read()
        return live.end()


class Live:
    """The command with pipes that stay open.

    ignored: names of signals that it is told to ignore, as by the shell that starts it.
    """

    def __init__(self, *arguments: str, ignored: str = "") -> None:
        shell = ["sh", "-c", f"trap '' {ignored}; exec \"$@\"", "sh"] if ignored else []
        self.process = Process(
            [*shell, *COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        self.unread = b""

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def wait_until_read(self) -> None:
        """Wait until the command has taken all that was sent."""
        pipe = self.process.stdin
        assert pipe is not None
        wait_until(lambda: not unread(pipe.fileno()), self.process)

    def wait_until_blocked(self) -> None:
        """Wait until the command has written as much as its pipe holds and nobody reads."""
        pipe = self.process.stdout
        assert pipe is not None
        room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        # pages of a pipe may be filled in part, the last one of each write
        least = room - room // 16 - PAGE
        wait_until(
            lambda: unread(pipe.fileno()) > least and not is_working(self.process.pid),
            self.process,
        )

    def read_line(self, seconds: float = SECONDS) -> str | None:
        """The next line of output, None if it does not come within these seconds."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        # a process that runs many tests can have more descriptors than `select.select` takes
        output = select.poll()
        output.register(self.process.stdout, select.POLLIN)
        while b"\n" not in self.unread:
            left = deadline - time.monotonic()
            if left <= 0 or not output.poll(left * 1000):
                return None
            block = os.read(self.process.stdout.fileno(), 1 << 16)
            if not block:
                return None
            self.unread += block
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode()

    def read_error(self) -> str:
        """The next line on standard error, whenever it comes."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().decode().rstrip("\n")

    def end(self) -> Ended:
        """Close the pipe to the command and wait for its end."""
        output, errors = self.process.communicate(timeout=SECONDS)
        return Ended(self.process.returncode, (self.unread + output).decode(), errors.decode())
