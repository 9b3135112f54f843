"""What the command writes beside verdicts: messages, on the terminal or what is in its place."""

from __future__ import annotations

import os
import sys

from mtlmon.cli.signals import Signals
from mtlmon.run.failure import ClosedPipe, WriteFailure
from mtlmon.run.host import WIDTH, Host, Progress, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.run.files import VerdictFile
    from mtlmon.run.spec import RunSpec
    from mtlmon.text.native import Writer

__all__ = ["TERMINAL", "TerminalHost", "note", "say", "show"]


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


class TerminalHost(Host):
    """Writes what is told to standard error, and gives signals to the run."""

    takes_signals = True

    @property
    def width(self) -> int:
        """The columns of the terminal, if standard error is one."""
        if is_terminal(sys.stderr):
            return os.get_terminal_size(sys.stderr.fileno()).columns
        return WIDTH

    @property
    def shows_marks(self) -> bool:
        """Whether the encoding of standard error has the marks."""
        if sys.stderr is None:
            return False
        try:
            "✓✗└─…".encode(sys.stderr.encoding)
        except (LookupError, UnicodeEncodeError):
            return False
        return True

    def note(self, message: str) -> None:
        note(message)

    def say(self, text: str) -> None:
        say(text)

    def show(self, text: str) -> None:
        show(text, is_safe=True)

    def wants_summary(self, wanted: bool | None) -> bool:
        """Whether a summary is printed; if that is not given, only on a terminal."""
        if sys.stderr is None:
            return False
        return is_terminal(sys.stderr) if wanted is None else wanted

    def is_for_people(self, options: RunSpec) -> bool:
        """Whether to write violations for people: on a terminal, if nothing else is asked for.

        With `--color always`, another program shows the lines on a terminal.
        """
        if options.judging.given_verdicts is not None or options.output.given_format is not None:
            return False
        if (
            options.output.path is not None
            or options.judging.resolve
            or options.log.signature is not None
        ):
            return False
        return options.output.color == "always" or is_terminal(sys.stdout)

    def signals(
        self, verdicts: VerdictFile, *, writer: Writer | None = None, is_held: bool = False
    ) -> Signals:
        return Signals(verdicts, writer, is_held=is_held)

    def progress(self, size: int, verdicts: VerdictFile, options: RunSpec) -> Progress:
        """Show it only on a terminal without verdicts, and on request."""
        is_shown = (
            options.reporting.progress
            and is_terminal(sys.stderr)
            and (options.judging.verdicts == "none" or not os.isatty(verdicts.descriptor))
        )
        return Progress(size if is_shown else 0)


TERMINAL = TerminalHost()
"""The terminal of this process."""
