"""The errors of the command, and its messages to the user."""

from __future__ import annotations

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
    "reason",
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
    """The reader of the verdicts has closed the pipe."""


class Interrupted(BaseException):
    """The command has received SIGINT or SIGTERM.

    Attributes:
        number: the number of the signal.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


def reason(error: OSError | ValueError) -> str:
    """Return why a file could not be used; a ValueError means a null byte in its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def note(message: str) -> None:
    """Write a message to standard error, if that is open."""
    say(f"mtlmon: {message}\n")


def say(text: str) -> None:
    """Write lines to standard error, if that is open; characters that do not print are escaped."""
    if sys.stderr is not None:
        from mtlmon.run.terminal import on_terminal

        try:
            sys.stderr.write(on_terminal(text))
            sys.stderr.flush()
        except OSError:
            # it cannot be reported anywhere
            return


def show(text: str, *, is_safe: bool = False) -> None:
    """Write text that the user has asked for to standard output.

    Args:
        text: the text.
        is_safe: whether a terminal may get it as it is, as for colours.

    Raises:
        ClosedPipe: the reader has closed the pipe.
        WriteFailure: the text cannot be written.
    """
    if sys.stdout is None:
        raise WriteFailure("cannot write standard output: it is closed")
    try:
        # declared as a TextIO, but a TextIOWrapper in the command's own process
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        if not is_safe and sys.stdout.isatty():
            from mtlmon.run.terminal import on_terminal

            text = on_terminal(text)
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # otherwise Python would try again when it exits, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ClosedPipe from None
        raise WriteFailure(f"cannot write standard output: {error.strerror}") from None
