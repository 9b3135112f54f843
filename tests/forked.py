"""A program that is forked: `mtlmon`, or what Spark starts as its Python.

`tests.forking` writes it beside the socket of a server. It needs nothing but the standard library,
and starts with `-IS`. The process that is forked has the streams of this one, which passes on
signals that end it, and ends as it does. What the server does not have is started as usual.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys

LENGTH = struct.Struct("!I")


def main() -> None:
    folder, name = os.path.split(os.path.abspath(__file__))
    arguments = sys.argv[1:]
    if name == "python":
        if arguments[:1] != ["-m"] or not arguments[1].startswith("pyspark."):
            os.execv(sys.executable, [sys.executable, *arguments])
        arguments = arguments[1:]
    asked = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    request = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(folder, "socket"))
        socket.send_fds(connection, [LENGTH.pack(len(request))], [0, 1, 2])
        connection.sendall(request)
        (process,) = LENGTH.unpack(connection.recv(LENGTH.size))
        for passed in signal.SIGTERM, signal.SIGINT:
            signal.signal(passed, lambda number, _frame: os.kill(process, number))
        # only the process that was forked is at the other ends of the streams
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        emitted = connection.recv(LENGTH.size)
    status = os.waitstatus_to_exitcode(LENGTH.unpack(emitted)[0]) if emitted else 1
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
