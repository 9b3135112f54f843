"""Who has asked for a run: it is told what happens, and can interrupt it."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TextIO

    from mtlmon.policy.limits import PolicyCounts
    from mtlmon.run.files import VerdictFile
    from mtlmon.run.pump import Work
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.outputs import BatchOutput, RowTable
    from mtlmon.tables.violations import Judged
    from mtlmon.text.native import Writer

    class Counting(Protocol):
        """The policies of a run, and what is counted so far."""

        @property
        def counts(self) -> dict[str | None, PolicyCounts]:
            """How many time-points are true, false and undecided, by the name of the policy."""

    class Judging(Counting, Protocol):
        """The policies of a run whose answers are batches, and what is known of them so far."""

        def judged(self) -> Judged:
            """Return what batches of answers are about."""

        def require_violations(self) -> None:
            """Raise RunError if batches of answers do not have every violation."""

    class Signals(Protocol):
        """What can interrupt a run, which handles it for as long as it is in this context.

        Attributes:
            is_held: whether to raise `Interrupted` only in `check`, unless the next check is too
                late.
            is_forced: whether `Interrupted` was raised elsewhere.
        """

        is_held: bool
        is_forced: bool

        def __enter__(self) -> object: ...
        def __exit__(self, kind: object, error: BaseException | None, trace: object, /) -> None: ...

        def check(self) -> None:
            """Raise `Interrupted` if a signal is held."""

        def wait(self, descriptor: int, seconds: float | None) -> bool:
            """Wait until a file can be read or a signal is held; return False after so long."""

        def at_last(self, write: Callable[[], None], seconds: float = ...) -> bool:
            """Do remaining work after a signal; return False if it took longer than that."""


__all__ = [
    "HELD_SECONDS",
    "REPORT_SECONDS",
    "WIDTH",
    "Host",
    "Progress",
    "is_terminal",
    "quantity",
]

REFRESH_SECONDS = 0.1
BAR_WIDTH = 24

WIDTH = 100
"""The width of lines of explanations in a file or a program; a terminal has its own."""

HELD_SECONDS = 0.5
"""How long work can continue after a signal, to come to a place for a checkpoint."""
REPORT_SECONDS = 1.0
"""How long the final report can take after a signal."""


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


class Progress:
    """A line on the terminal that shows how far the log is read.

    Args:
        size: the number of bytes to read; with 0, nothing is shown.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.width = 0
        self.start = self.shown_at = time.monotonic()

    def show(self, done: int, events: int) -> None:
        """Show how many bytes and events are done, unless that was shown just before."""
        now = time.monotonic()
        if self.size == 0 or now - self.shown_at < REFRESH_SECONDS:
            return
        self.shown_at = now
        share = min(1.0, done / self.size)
        bar = ("#" * round(share * BAR_WIDTH)).ljust(BAR_WIDTH, ".")
        line = (
            f"[{bar}] {share:4.0%} of {quantity(self.size)}B, "
            f"{quantity(events / (now - self.start))} events/s"
        )
        self.write("\r" + line.ljust(self.width))
        self.width = len(line)

    def erase(self) -> None:
        """Erase the line from the terminal."""
        if self.width > 0:
            self.write("\r" + " " * self.width + "\r")
            self.width = 0

    def write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self.size = self.width = 0


def quantity(number: float) -> str:
    """Format a number with about three digits and a decimal prefix, as in 1.23 M."""
    for prefix in ("", " k", " M", " G"):
        if number < 999.5 or prefix == " G":
            break
        number /= 1000
    digits = 0 if number >= 99.95 or prefix == "" else 1 if number >= 9.995 else 2
    return f"{number:.{digits}f}{prefix or ' '}"


class Uninterrupted:
    """Takes the place of signals for a program, which sees to its own."""

    is_held = False
    is_forced = False

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """Nothing is held."""

    def wait(self, descriptor: int, seconds: float | None) -> bool:
        """Wait until a file can be read; return False after so many seconds."""
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(None if seconds is None else 1000 * seconds))

    def at_last(self, write: Callable[[], None], seconds: float = 0) -> bool:
        """Do the work; nothing interrupts it."""
        write()
        return True


class Host:
    """A program, for which what is told is collected.

    Attributes:
        messages: what the run has remarked, a sentence each, as the command writes it to standard
            error.
        output: keeps the answers of a run that does not write them, until they are taken; None
            before the first ones.
        keeps_answers: whether answers are kept.
        takes_signals: whether signals are the run's business, and not Arrow's while it reads.
        shows_undecided: whether it shows what is undecided at the end, so that no remark says so.
    """

    takes_signals = False
    shows_undecided = False

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.output: BatchOutput[Any] | None = None
        self.keeps_answers = True

    @property
    def width(self) -> int:
        """How wide lines of explanations are."""
        return WIDTH

    @property
    def shows_marks(self) -> bool:
        """Whether the marks of explanations can be written."""
        return True

    def note(self, message: str) -> None:
        """Take a remark."""
        self.messages.append(message)

    def say(self, text: str) -> None:
        """Take lines for a person, which a program has in other forms."""

    def show(self, text: str) -> None:
        """Take the last line of what is written for a person."""

    def batch_output(self, table: RowTable[Any]) -> BatchOutput[Any]:
        """Return what keeps the answers of a run."""
        from mtlmon.tables.outputs import BatchOutput

        self.output = BatchOutput(table, is_wanted=self.keeps_answers)
        return self.output

    def begin(
        self, work: Work, summary: Callable[[float], str], has_violation: Callable[[], bool]
    ) -> None:
        """Get to know the work of a run before it begins.

        Args:
            work: the work.
            summary: makes the summary, from the seconds of the run.
            has_violation: tells whether the work has found a violation.
        """

    def wants_summary(self, wanted: bool | None) -> bool:
        """Whether the summary is told, by the option."""
        return bool(wanted)

    def take_summary(self, make: Callable[[], str], *, is_wanted: bool | None) -> None:
        """Take what makes the summary; `is_wanted` as for `wants_summary`."""
        if self.wants_summary(is_wanted):
            self.say(f"{make()}\n")

    def take_judging(self, judging: Counting | Judging) -> None:
        """Take the policies, once the log is open."""

    def is_for_people(self, options: RunSpec) -> bool:
        """Whether violations are written for a person."""
        return False

    def signals(
        self, verdicts: VerdictFile, *, writer: Writer | None = None, is_held: bool = False
    ) -> Signals:
        """Return what can interrupt a run; `writer` has verdicts that are not in the file yet."""
        return Uninterrupted()

    def progress(self, size: int, verdicts: VerdictFile, options: RunSpec) -> Progress:
        """Return what shows how far a run of so many bytes has come."""
        return Progress(0)
