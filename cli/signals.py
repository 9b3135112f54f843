"""Signals that end the command once what is earned has been written.

From a signal on the command has little time, whatever it is at:

- Python code, and native loops that look at signals, are left by an exception at once. Where
  signals are held, for a last checkpoint, that happens after `HELD_SECONDS` unless the work has
  come to a place where one can be made.
- What is earned is then written, as long as its reader takes it within `GRACE_SECONDS`.
- Where Python does not get control for `HARD_SECONDS`, as within one operation on a large BDD,
  `drive/last_resort` writes what is earned and ends the process.
"""

from __future__ import annotations

import os
import select
import signal
import time

from mtlmon._start import IS_COMMAND, leave
from mtlmon.cli.failure import SIGNALLED, Interrupted
from mtlmon.drive.native import (
    extend_last_resort,
    install_last_resort,
    uninstall_last_resort,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from mtlmon.cli.files import VerdictFile
    from mtlmon.text.native import Writer

__all__ = ["HELD_SECONDS", "REPORT_SECONDS", "Interrupted", "Signals"]

# how long work may go on after a signal, to come to where a checkpoint can be made
HELD_SECONDS = 0.5
# how long a reader that takes nothing may hold up the end
GRACE_SECONDS = 1.0
# how long a report on what was done may take
REPORT_SECONDS = 1.0
# how long Python may be without control
HARD_SECONDS = 1.0
# `timeout` sends its signal twice, to the process and to its group: that is not asking once more
SAME_SECONDS = 0.3
NEVER = float("inf")


class Signals:
    """Turns SIGINT and SIGTERM into `Interrupted`.

    A signal may come between the last look at it and the system call that waits; so waiting is
    done by `wait`, which also watches a pipe that signals are written to.

    verdicts: where what is earned goes.
    writer: what it waits in, None if that is not known.

    Attributes:
        is_held: raise `Interrupted` in `check`, not wherever a signal finds the program, unless it
            takes too long to come to a check.
        is_forced: `Interrupted` was raised anywhere.
    """

    def __init__(
        self, verdicts: VerdictFile, writer: Writer | None = None, *, is_held: bool = False
    ) -> None:
        self.verdicts = verdicts
        self.writer = writer
        self.is_held = is_held
        self.is_forced = False
        self.number: int | None = None
        self.came_at = 0.0
        # when `Interrupted` is raised, wherever the program is
        self.deadline = NEVER

    def __enter__(self) -> Signals:
        self.wakeup, self.waker = os.pipe()
        os.set_blocking(self.waker, False)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        self.handlers = {
            number: signal.getsignal(number)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
        }
        for number, before in self.handlers.items():
            # a process started in the background may be told to ignore them
            if number == signal.SIGALRM or before != signal.SIG_IGN:
                signal.signal(number, self.receive if number != signal.SIGALRM else self.tick)
        install_last_resort(self.verdicts.descriptor, self.writer, HARD_SECONDS)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self.number is not None and IS_COMMAND and isinstance(error, Interrupted | None):
            # while everything is still there: to take apart what is large takes time
            leave(SIGNALLED + self.number)
        uninstall_last_resort()
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self.wakeup)
        os.close(self.waker)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """SIGINT or SIGTERM came; a second one ends the program at once."""
        now = time.monotonic()
        if self.number is not None:
            if now - self.came_at > SAME_SECONDS:
                os._exit(SIGNALLED + number)
            return
        self.number = number
        self.came_at = now
        self.deadline = now + HELD_SECONDS
        if not self.is_held:
            self.force()

    def tick(self, _number: int, _frame: FrameType | None) -> None:
        """Every now and then after a signal.

        What was raised may have been lost, where Python passes over exceptions.
        """
        if time.monotonic() >= self.deadline:
            self.deadline = time.monotonic() + HELD_SECONDS
            self.force()

    def force(self) -> None:
        assert self.number is not None
        self.is_forced = True
        raise Interrupted(self.number)

    def check(self) -> None:
        """Raise `Interrupted` if a signal is held."""
        if self.number is not None:
            raise Interrupted(self.number)

    def wait(self, descriptor: int, seconds: float | None) -> bool:
        """Wait until a file can be read; False if it cannot after these seconds (None: forever).

        True also when a signal is held.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.wakeup, select.POLLIN)
        return bool(poll.poll(None if seconds is None else 1000 * seconds))

    def at_last(self, write: Callable[[], None], seconds: float = GRACE_SECONDS) -> bool:
        """After a signal: do what is still to be done, if that does not take too long.

        Returns whether it was done to its end.
        """
        try:
            # for the little that comes after it, too, there must be time
            extend_last_resort(seconds + HARD_SECONDS)
            self.deadline = time.monotonic() + seconds
            write()
            self.deadline = NEVER
        except Interrupted:
            self.deadline = NEVER
            return False
        return True
