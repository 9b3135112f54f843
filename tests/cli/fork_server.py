"""A process that has imported the command, and forks for each run of it.

Started by `tests.cli.forking` with one end of a socket as its argument. Each request has the three
standard streams as descriptors, and the arguments, the environment and the working directory as
JSON behind their length. The answer is the identifier of the new process, whose first parent has
ended by then, so that the process which asks is its parent.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import sys
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import NoReturn

LENGTH = struct.Struct("!I")
# what only some runs need, and nothing that takes part in a run of the command
ARROW = ("compute", "csv", "dataset", "feather", "ipc", "json", "parquet")
LEFT_OUT = ("mtlmon.spark", "mtlmon.testing", "mtlmon.__main__")


def load() -> None:
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


def receive(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    """The next request and its descriptors, None at the end."""
    head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    if not head:
        return None
    (size,) = LENGTH.unpack(head)
    request = bytearray()
    while len(request) < size:
        request += connection.recv(size - len(request))
    return bytes(request), streams


def run(request: bytes, streams: list[int]) -> NoReturn:
    """Be the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # what Python found out of the streams at its start, as whether they have places, is out of date
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0)), "utf-8", "surrogateescape")
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w")), "utf-8", "surrogateescape")
    error = BufferedWriter(FileIO(2, "w"))
    sys.stderr = TextIOWrapper(error, "utf-8", "backslashreplace", line_buffering=True)
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv[1:] = asked["arguments"]
    from mtlmon.cli import main

    main()
    raise AssertionError("the command ends its process")


def serve(connection: socket.socket) -> None:
    while (received := receive(connection)) is not None:
        request, streams = received
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            process = os.fork()
            if not process:
                for descriptor in connection.detach(), reading, writing:
                    os.close(descriptor)
                run(request, streams)
            os.write(writing, LENGTH.pack(process))
            os._exit(0)
        os.waitpid(between, 0)
        connection.sendall(os.read(reading, LENGTH.size))
        for descriptor in reading, writing, *streams:
            os.close(descriptor)


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv.pop())))
