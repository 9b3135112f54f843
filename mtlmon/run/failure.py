"""Why a run could not be carried out, and the exit statuses of the command."""

from __future__ import annotations

from mtlmon._start import SIGNALLED
from mtlmon.errors import RunError

__all__ = [
    "CANNOT",
    "CLOSED_PIPE",
    "FAULT",
    "SIGNALLED",
    "VIOLATION",
    "ClosedPipe",
    "Interrupted",
    "RunError",
    "WriteFailure",
    "reason",
]

# exit statuses
VIOLATION = 1
CANNOT = 2
FAULT = 70
CLOSED_PIPE = 141


class WriteFailure(RunError):
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
