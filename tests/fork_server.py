"""A process that has imported what others need, and forks for each of them.

    fork_server.py command DESCRIPTOR
    fork_server.py spark DESCRIPTOR
    fork_server.py alone ARGUMENT...

`tests.forking` starts it with a socket that listens, and it ends once its standard input does. Each
connection has one request: the three standard streams as descriptors, and the arguments, the
environment and the working directory as JSON behind their length. It is for a run of the command,
or of a module of PySpark. The answer is the identifier of the new process.

If the request says that the process is adopted, its first parent has ended by then, so that the
next parent is the process that has started the server. Otherwise a second answer at the end of the
process is its exit status, as `wait` gives it.

`alone` is the command as it is where nothing can be forked.

A run of the command whose environment has `MARK` gets a signal at that mark; see `end_at_mark`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import sys
import threading
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[dict[str, Any], list[int]], NoReturn]

LENGTH = struct.Struct("!I")
# what only some runs need, and nothing that takes part in a run of the command
ARROW = ("compute", "csv", "dataset", "feather", "ipc", "json", "parquet")
MARK = "MTLMON_TESTS_END_AT"
# how many bytes are read at once, and rows, wherever that is said
BLOCKS = ("BLOCK_BYTES", "_BLOCK_BYTES", "FIRST_BLOCK_BYTES", "SMALLEST_BLOCK_BYTES")
ROWS = ("_ROWS", "SMALLEST_STEP_EVENTS")
LEFT_OUT = ("mtlmon.spark", "mtlmon.testing", "mtlmon.__main__")


def load_command() -> None:
    """Import what the command can need."""
    sys.argv[0] = "mtlmon"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import mtlmon
    from mtlmon import _start

    _start.leave_out_what_is_not_needed()
    for found in pkgutil.walk_packages(mtlmon.__path__, "mtlmon.", onerror=lambda _name: None):
        if not found.name.startswith(LEFT_OUT):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
    for name in ARROW:
        with contextlib.suppress(ImportError):
            importlib.import_module(f"pyarrow.{name}")


def load_spark() -> None:
    """Import what processes of PySpark need, and not the modules that they run."""
    from pyspark import worker
    from pyspark.sql.streaming import stateful_processor_api_client, stateful_processor_util

    del worker, stateful_processor_api_client, stateful_processor_util
    import mtlmon.spark

    for found in pkgutil.walk_packages(mtlmon.spark.__path__, "mtlmon.spark."):
        importlib.import_module(found.name)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request and its descriptors, None at the end."""
    head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    if not head:
        return None
    (size,) = LENGTH.unpack(head)
    request = bytearray()
    while len(request) < size:
        request += connection.recv(size - len(request))
    return json.loads(request), streams


def become(asked: dict[str, Any], streams: list[int]) -> None:
    """Take the streams, environment, folder and arguments of a request."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # what Python found out of the streams at its start, as whether they have places, is out of date
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0)), "utf-8", "surrogateescape")
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w")), "utf-8", "surrogateescape")
    error = BufferedWriter(FileIO(2, "w"))
    sys.stderr = TextIOWrapper(error, "utf-8", "backslashreplace", line_buffering=True)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv[1:] = asked["arguments"]


def end_at_mark() -> None:
    """Let this process get a signal once it has come as far as the environment says.

    The mark is "SIGNAL COUNT SECONDS BYTES CHECKPOINT": so long after so many new checkpoints have
    got their name or been appended, and at the latest at the next one. The run cannot outlive that,
    on however busy a machine. It reads blocks of at most so many bytes, and of few rows, so that a
    short log has room for checkpoints.
    """
    mark = os.environ.pop(MARK, None)
    if mark is None:
        return
    number, count, seconds, size, checkpoint = mark.split(" ", 4)
    left = int(count)
    for name, module in [*sys.modules.items()]:
        if name.startswith("mtlmon."):
            for constant in BLOCKS + ROWS:
                if hasattr(module, constant):
                    most = int(size) if constant in BLOCKS else 50
                    setattr(module, constant, min(most, getattr(module, constant)))

    def end() -> None:
        os.kill(os.getpid(), int(number))

    def wait() -> None:
        timer = threading.Timer(float(seconds), end)
        timer.daemon = True
        timer.start()

    def see() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            wait()
        elif left == -1:
            end()

    def rename(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.link", "os.rename") and arguments[1] == checkpoint:
            # it gets its name right after this
            see()

    def append(descriptor: int, wait_for: Callable[[int], None] = os.fdatasync) -> None:
        # nothing but checkpoints is synchronized so
        see()
        wait_for(descriptor)

    sys.addaudithook(rename)
    os.fdatasync = append  # type: ignore[assignment]
    if not left:
        wait()


def run_command(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the command."""
    become(asked, streams)
    be_command()


def be_command() -> NoReturn:
    """Run the command with the arguments of this process."""
    end_at_mark()
    from mtlmon.cli import main

    main()
    raise AssertionError("the command ends its process")


def run_module(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be `python -m MODULE`."""
    become(asked, streams)
    known = set(sys.path)
    sys.path[1:1] = [
        one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one not in known
    ]
    status: object = 0
    try:
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = ended.code
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(status if isinstance(status, int) else status is not None)


def serve(listening: socket.socket, run: Run) -> None:
    """Fork for each connection, until the standard input ends."""
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        with connection:
            received = receive(connection)
            if received is not None:
                fork(*received, listening, connection, run)
                for stream in received[1]:
                    os.close(stream)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def fork(
    asked: dict[str, Any],
    streams: list[int],
    listening: socket.socket,
    connection: socket.socket,
    run: Run,
) -> None:
    """Let a process between start the one that is asked for, and answer."""
    reading, writing = os.pipe()
    between = os.fork()
    if not between:
        os.close(reading)
        listening.close()
        process = os.fork()
        if not process:
            connection.close()
            os.close(writing)
            run(asked, streams)
        if asked.get("is_adopted"):
            os.write(writing, LENGTH.pack(process))
        else:
            # be at no end of the streams meanwhile
            for descriptor in 0, 1, writing, *streams:
                os.close(descriptor)
            # who asked may have been killed
            with contextlib.suppress(OSError):
                connection.sendall(LENGTH.pack(process))
                connection.sendall(LENGTH.pack(os.waitpid(process, 0)[1]))
        os._exit(0)
    os.close(writing)
    if asked.get("is_adopted"):
        os.waitpid(between, 0)
        connection.sendall(os.read(reading, LENGTH.size))
    os.close(reading)


def main() -> None:
    what = sys.argv.pop(1)
    if what == "alone":
        load_command()
        be_command()
    descriptor = sys.argv.pop(1)
    load, run = (load_command, run_command) if what == "command" else (load_spark, run_module)
    load()
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(descriptor)), run)


if __name__ == "__main__":
    main()
