"""Signal handling while the command starts: end the process at once, as no result exists yet.

Python's own handler of SIGINT raises an exception wherever the program is. While modules are
imported, that exception ends in a traceback, or is lost where Python ignores exceptions, as in
callbacks. Any handler in Python waits until the interpreter has control: if a signal comes just
before a read, this may be as late as the first byte of a log. So the system itself ends the
process.

This module is imported before everything else, and imports only modules that are built into the
interpreter. In the command's own process that is enough: the handlers stay until the process exits,
except while it has something to write at the end.
"""

from __future__ import annotations

import sys
from _signal import SIG_DFL, SIGINT, SIGTERM, default_int_handler, getsignal, signal  # type: ignore[import-not-found]
from gc import set_threshold
from posix import _exit, environ, getpid, putenv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = [
    "IS_COMMAND",
    "SIGNALLED",
    "give_back_signals",
    "leave",
    "leave_out_what_is_not_needed",
    "take_signals",
]

SIGNALLED = 128
# the first process of a container, which signals without a handler do not end
INIT = 1


def is_command() -> bool:
    """Whether this process is the command: `python -m mtlmon`, or the script of this name."""
    name = sys.argv[0] if sys.argv else ""
    if name == "-m":
        # Python is still looking for the module or script to run
        return ("-m", "mtlmon") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return name.rpartition("/")[2] == "mtlmon"


def leave_out_what_is_not_needed() -> None:
    """Keep modules that are not loaded yet from loading what the command never uses.

    PERF: on two cores, a command on a table took 0.61 s of processor time. Without the threads of
    numpy for linear algebra, which wait for work in a loop, it takes 0.51 s. Arrow imports pandas,
    where that is installed, when it first converts a value of Python; without that, the command
    takes 0.33 s. Arrow's own allocator keeps what it has freed: with that of the system, 700,000
    rows of CSV take 116 MB instead of 155, of Parquet 111 instead of 142, of JSON 103 instead of
    140, in the same time.
    """
    for name, value in (b"OPENBLAS_NUM_THREADS", b"1"), (b"ARROW_DEFAULT_MEMORY_POOL", b"system"):
        if name not in environ:
            putenv(name, value)
    from mtlmon._lean_imports import LeanFinder

    sys.meta_path.insert(0, LeanFinder)


def take_signals() -> list[tuple[int, object]]:
    """Let SIGINT and SIGTERM end the process at once, unless other code has handlers for them.

    Signals that are ignored stay ignored, as SIGINT is in a process that was started in the
    background. Returns the signals whose handler has changed, each with its handler before.
    """
    taken: list[tuple[int, object]] = []
    end = SIG_DFL if getpid() != INIT else _end
    try:
        for number, default in (SIGINT, default_int_handler), (SIGTERM, SIG_DFL):
            if default != end and getsignal(number) == default:
                signal(number, end)
                taken.append((number, default))
    except ValueError:
        # not the main thread, which receives the signals
        pass
    return taken


def give_back_signals(taken: list[tuple[int, object]]) -> None:
    """Undo `take_signals`, which has returned these signals."""
    for number, before in taken:
        signal(number, before)


def leave(status: int) -> NoReturn:
    """End the process without waiting for other threads."""
    for stream in sys.stdout, sys.stderr:
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
    _exit(status)


def _end(number: int, _frame: object) -> None:
    _exit(SIGNALLED + number)


IS_COMMAND = is_command()
"""Whether this process runs only the command."""

if IS_COMMAND:
    take_signals()
    # PERF: at the default of 700 objects, the garbage collector takes 2 ms of every start; at
    # 20,000, it takes 10 ms while 1,000 policies are read.
    set_threshold(100_000)
