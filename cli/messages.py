"""What the command writes to standard error, and what a user has asked for to standard output."""

from __future__ import annotations

import os
import sys

from mtlmon.run.failure import ClosedPipe, WriteFailure

__all__ = ["note", "say", "show"]


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
