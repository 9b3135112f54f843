"""The playground as a process of its own."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from tests.cli.process import COMMAND, SECONDS, Ended, environment

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Serve"]


class Serve:
    """A run of `mtlmon serve`, which is ended at last.

    Attributes:
        address: the address of the page, which the command has shown.
    """

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def end(self, number: signal.Signals = signal.SIGINT) -> Ended:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=SECONDS)
        return Ended(self.process.returncode, output, errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
