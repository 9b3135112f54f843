"""Signals that end the command once what is earned has been written."""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

__all__ = ["Interrupted", "Signals"]

# how long a reader that takes nothing may hold up the end
GRACE_SECONDS = 1.0


class Interrupted(BaseException):
    """SIGINT or SIGTERM came.

    Attributes:
        number: the signal's.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Signals:
    """Turns SIGINT and SIGTERM into `Interrupted`.

    A signal may come between the last look at it and the system call that waits; so waiting is
    done by `wait`, which also watches a pipe that signals are written to.

    is_held: raise `Interrupted` in `check` only, not wherever a signal finds the program.
    """

    def __init__(self, *, is_held: bool = False) -> None:
        self.is_held = is_held
        self.held: int | None = None

    def __enter__(self) -> Signals:
        self.wakeup, self.waker = os.pipe()
        os.set_blocking(self.waker, False)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        self.handlers = {
            number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
        }
        self.set_handlers(self.receive)
        return self

    def __exit__(self, *_error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self.wakeup)
        os.close(self.waker)

    def set_handlers(self, handler: Callable[[int, FrameType | None], object] | int) -> None:
        for number, before in self.handlers.items():
            # a process started in the background may be told to ignore them
            if before != signal.SIG_IGN:
                signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None) -> None:
        if not self.is_held:
            interrupt(number, frame)
        self.held = number

    def check(self) -> None:
        """Raise `Interrupted` if a signal is held."""
        if self.held is not None:
            raise Interrupted(self.held)

    def wait(self, descriptor: int, seconds: float | None) -> bool:
        """Wait until a file can be read; False if it cannot after these seconds (None: forever).

        True also when a signal is held.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.wakeup, select.POLLIN)
        return bool(poll.poll(None if seconds is None else 1000 * seconds))

    def at_last(self, write: Callable[[], None]) -> None:
        """After a signal: write what is earned, if its reader takes it soon.

        A second signal ends the program at once.
        """
        try:
            self.set_handlers(signal.SIG_DFL)
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
            write()
        except Interrupted:
            return


def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)
