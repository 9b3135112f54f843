"""How the command fails, and how it speaks to people."""

from __future__ import annotations

import os
import sys

__all__ = [
    "CANNOT",
    "CLOSED_PIPE",
    "FAULT",
    "SIGNALLED",
    "VIOLATION",
    "ClosedPipe",
    "Failure",
    "WriteFailure",
    "note",
    "show",
]

# exit statuses
VIOLATION = 1
CANNOT = 2
FAULT = 70
CLOSED_PIPE = 141
SIGNALLED = 128


class Failure(Exception):
    """A file that cannot be read or written; the message is one line."""


class WriteFailure(Failure):
    """The verdicts cannot be written."""


class ClosedPipe(Exception):
    """Nobody reads the verdicts any more."""


def note(message: str) -> None:
    """Say something on standard error, if that is open."""
    if sys.stderr is not None:
        try:
            print(f"mtlmon: {message}", file=sys.stderr, flush=True)
        except OSError:
            # there is nobody left to tell
            return


def show(text: str) -> None:
    """Write text that was asked for to standard output.

    Raises ClosedPipe when nobody reads it, WriteFailure when it cannot be written.
    """
    if sys.stdout is None:
        raise WriteFailure("cannot write standard output: it is closed")
    try:
        # a TextIO to the type checker, a TextIOWrapper in the command's own process
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would try once more at its exit, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ClosedPipe from None
        raise WriteFailure(f"cannot write standard output: {error.strerror}") from None
