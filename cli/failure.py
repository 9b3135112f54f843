"""How the command fails, and how it speaks on standard error."""

from __future__ import annotations

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
            pass
