"""Starts the command by a fork of a process that has imported it.

A run is a process of its own with streams, signals and an exit status as any other, and has all
that `subprocess.Popen` offers. What it saves is the start of Python and the imports, which are most
of the time of a short run: 0.7 of 0.8 s for a table.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "Process"]

COMMAND = [sys.executable, "-m", "mtlmon"]
LENGTH = struct.Struct("!I")
PR_SET_CHILD_SUBREAPER = 36
SERVER = Path(__file__).with_name("fork_server.py")


class Process(subprocess.Popen[bytes]):
    """A process, which is forked if it runs `COMMAND`, and started as usual otherwise."""

    def _execute_child(self, *arguments: Any) -> None:
        usual = super()._execute_child  # type: ignore[misc]
        asked = inspect.signature(usual).bind(*arguments).arguments
        line, environment = asked["args"], asked["env"]
        server = _server() if list(line[: len(COMMAND)]) == COMMAND else None
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


class _Server:
    """The process that forks."""

    def __init__(self) -> None:
        self._prctl = ctypes.CDLL(None).prctl
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER), str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env={**os.environ, "PYTHONUTF8": "1"},
            )

    def start(self, streams: list[int], **asked: Any) -> int:
        """Start the command with these standard streams; return the identifier of the process."""
        request = json.dumps(asked).encode()
        with self._lock:
            # This process is the next parent of one whose own parent ends. Not for longer: others
            # that lose theirs, as those of Spark, belong to the system.
            self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            socket.send_fds(self._socket, [LENGTH.pack(len(request))], streams)
            self._socket.sendall(request)
            answer = self._socket.recv(LENGTH.size)
            self._prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        (process,) = LENGTH.unpack(answer)
        return int(process)


@cache
def _server() -> _Server | None:
    """The server of this process, None where a process cannot take in those of others."""
    return _Server() if sys.platform == "linux" else None
