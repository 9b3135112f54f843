"""Starts programs by a fork of a process that has imported them.

A run is a process of its own with streams, signals and an exit status as any other. What it saves
is the start of Python and the imports, which are most of the time of a short run: 0.7 of 0.8 s for
a table, and two fifths of the processor time of Spark's tests, where each query of a stream has a
daemon and workers of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "Process", "Server", "command_server"]

# tests.goldens puts the Python of another build there
COMMAND = [sys.executable, "-m", "mtlmon"]
LENGTH = struct.Struct("!I")
PR_SET_CHILD_SUBREAPER = 36
HERE = Path(__file__).parent


class Server:
    """A process that forks.

    Args:
        kind: `command` for the command, `spark` for modules of PySpark.

    Attributes:
        program: what can be started from anywhere, and is forked: `mtlmon`, or a `python`.
    """

    def __init__(self, kind: str) -> None:
        self._prctl = ctypes.CDLL(None).prctl
        self._lock = threading.Lock()
        python = COMMAND[0] if kind == "command" else sys.executable
        # in a folder with a short name, as names of sockets are short
        folder = Path(tempfile.mkdtemp(prefix="mtlmon-forks-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._address = str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen(64)
            self._process = subprocess.Popen(
                [python, str(HERE / "fork_server.py"), kind, str(listening.fileno())],
                # its end is that of the server
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
                env={**os.environ, "PYTHONUTF8": "1"},
            )
        atexit.register(self.close)
        self.program = folder / ("mtlmon" if kind == "command" else "python")
        self.program.write_text(f"#!{sys.executable} -IS\n{(HERE / 'forked.py').read_text()}")
        self.program.chmod(0o755)

    def start(self, streams: list[int], **asked: Any) -> int:
        """Start a process with these standard streams; return its identifier."""
        request = json.dumps({**asked, "is_adopted": True}).encode()
        with self._lock, socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._address)
            # This process is the next parent of one whose own parent ends. Not for longer: others
            # that lose theirs, as those of Spark, belong to the system.
            self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            socket.send_fds(connection, [LENGTH.pack(len(request))], streams)
            connection.sendall(request)
            answer = connection.recv(LENGTH.size)
            self._prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        (process,) = LENGTH.unpack(answer)
        return int(process)

    def close(self) -> None:
        """End the server; what it has forked goes on."""
        atexit.unregister(self.close)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@cache
def command_server() -> Server | None:
    """The server of the command, None where a process cannot take in those of others."""
    return Server("command") if sys.platform == "linux" else None


class Process(subprocess.Popen[bytes]):
    """A process, which is forked if it runs `COMMAND`, and started as usual otherwise."""

    def _execute_child(self, *arguments: Any) -> None:
        usual = super()._execute_child  # type: ignore[misc]
        asked = inspect.signature(usual).bind(*arguments).arguments
        line, environment = asked["args"], asked["env"]
        server = command_server() if list(line[: len(COMMAND)]) == COMMAND else None
        if server is None or environment is None or _is_for_python(environment):
            usual(*arguments)
            return
        streams = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        self.pid = server.start(
            [k if stream == -1 else stream for k, stream in enumerate(streams)],
            arguments=[os.fsdecode(one) for one in line[len(COMMAND) :]],
            environment=environment,
            folder=os.fspath(asked["cwd"] or os.getcwd()),
        )
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in ends))  # type: ignore[attr-defined]


def _is_for_python(environment: dict[str, str]) -> bool:
    """Whether variables change how Python itself starts."""
    return any(
        name.startswith("PYTHON") and os.environ.get(name) != value
        for name, value in environment.items()
        if name != "PYTHONUTF8"
    )
