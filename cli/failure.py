"""How the command fails, and how it speaks to people."""

from __future__ import annotations

import contextlib
import os
import sys

from mtlmon._start import SIGNALLED

__all__ = [
    "CANNOT",
    "CLOSED_PIPE",
    "FAULT",
    "SIGNALLED",
    "VIOLATION",
    "ClosedPipe",
    "Failure",
    "Interrupted",
    "WriteFailure",
    "note",
    "say",
    "show",
]

# exit statuses
VIOLATION = 1
CANNOT = 2
FAULT = 70
CLOSED_PIPE = 141


class Failure(Exception):
    """A file that cannot be read or written; the message is one line."""


class WriteFailure(Failure):
    """The verdicts cannot be written."""


class ClosedPipe(Exception):
    """Nobody reads the verdicts any more."""


class Interrupted(BaseException):
    """SIGINT or SIGTERM came.

    Attributes:
        number: the signal's.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


def note(message: str) -> None:
    """Say something on standard error, if that is open."""
    say(f"mtlmon: {message}\n")


def say(text: str) -> None:
    """Write lines to standard error, if that is open, without characters that do not print."""
    if sys.stderr is not None:
        from mtlmon.cli.terminal import on_terminal

        # nobody is left to tell where this fails
        with contextlib.suppress(OSError):
            sys.stderr.write(on_terminal(text))
            sys.stderr.flush()


def show(text: str) -> None:
    """Write text that was asked for to standard output.

    Raises ClosedPipe when nobody reads it, WriteFailure when it cannot be written.
    """
    if sys.stdout is None:
        raise WriteFailure("cannot write standard output: it is closed")
    try:
        # a TextIO to the type checker, a TextIOWrapper in the command's own process
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        if sys.stdout.isatty():
            from mtlmon.cli.terminal import on_terminal

            text = on_terminal(text)
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would try once more at its exit, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ClosedPipe from None
        raise WriteFailure(f"cannot write standard output: {error.strerror}") from None
