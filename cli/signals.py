"""Handles signals that end the command, after it has written the verdicts found so far.

After a signal, the command has little time, whatever it is doing:

- Python code, and native loops that check for signals, end with an exception at once. While signals
  are held for a last checkpoint, this happens after `HELD_SECONDS` unless the work has come to a
  place where a checkpoint can be made.
- The verdicts are then written, as long as their reader takes them within `GRACE_SECONDS`.
- If Python does not get control for `HARD_SECONDS`, as within an operation on a large BDD,
  `drive/last_resort` writes the verdicts and ends the process.
"""

from __future__ import annotations

import os
import time

# PERF: `signal` itself takes 0.4 ms, for its enumerations
from _signal import (  # type: ignore[import-not-found]
    SIG_IGN,
    SIGALRM,
    SIGINT,
    SIGTERM,
    getsignal,
    set_wakeup_fd,
    signal,
)

from mtlmon._start import IS_COMMAND, leave
from mtlmon.drive.native import (
    extend_last_resort,
    install_last_resort,
    uninstall_last_resort,
)
from mtlmon.run.failure import SIGNALLED, Interrupted
from mtlmon.run.host import HELD_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from mtlmon.run.files import VerdictFile
    from mtlmon.text.native import Writer

__all__ = ["Interrupted", "Signals"]

# how long a reader that takes nothing can delay the end
GRACE_SECONDS = 1.0
# how long Python can be without control
HARD_SECONDS = 1.0
# `timeout` sends its signal twice, to the process and to its group, which counts as one signal
SAME_SECONDS = 0.3
NEVER = float("inf")


class Signals:
    """Turns SIGINT and SIGTERM into `Interrupted`; the first one ends a log that is followed.

    A signal can arrive between the last check and a system call that waits. So `wait` must be used
    for waiting: it also watches a pipe that signals are written to.

    Args:
        verdicts: the file for the verdicts.
        writer: the buffer of verdicts, or None if it is not known.

    Attributes:
        is_held: whether to raise `Interrupted` only in `check`, unless the next check is too late.
        is_forced: whether `Interrupted` was raised elsewhere.
    """

    # ends the log of this process if it follows a file; returns False if that was done before
    end_log: Callable[[], bool] | None = None

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
        set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        self.handlers = {number: getsignal(number) for number in (SIGINT, SIGTERM, SIGALRM)}
        for number, before in self.handlers.items():
            # signals can be ignored in a process that was started in the background
            if number == SIGALRM or before != SIG_IGN:
                signal(number, self.receive if number != SIGALRM else self.tick)
        install_last_resort(self.verdicts.descriptor, self.writer, HARD_SECONDS)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self.number is not None and IS_COMMAND and isinstance(error, Interrupted | None):
            # leave now, because destroying large objects takes time
            leave(SIGNALLED + self.number)
        uninstall_last_resort()
        for number, handler in self.handlers.items():
            signal(number, handler)
        set_wakeup_fd(-1)
        os.close(self.wakeup)
        os.close(self.waker)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM; a second one ends the program at once."""
        if self.number is None and self.end_log is not None and self.end_log():
            # The run ends as at the end of a pipe.
            uninstall_last_resort()
            install_last_resort(self.verdicts.descriptor, self.writer, HARD_SECONDS)
            return
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
        """Raise `Interrupted` again from time to time after a signal.

        The exception can get lost where Python ignores exceptions.
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
        """Wait until a file can be read or a signal is held.

        Args:
            descriptor: the file.
            seconds: how long to wait; None means without limit.

        Returns:
            False if the time has passed.
        """
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.wakeup, select.POLLIN)
        return bool(poll.poll(None if seconds is None else 1000 * seconds))

    def at_last(self, write: Callable[[], None], seconds: float = GRACE_SECONDS) -> bool:
        """Do remaining work after a signal, unless it takes too long.

        Args:
            write: the work.
            seconds: how long it can take.

        Returns:
            Whether the work was completed.
        """
        try:
            # leave some time for the steps that follow
            extend_last_resort(seconds + HARD_SECONDS)
            self.deadline = time.monotonic() + seconds
            write()
            self.deadline = NEVER
        except Interrupted:
            self.deadline = NEVER
            return False
        return True
