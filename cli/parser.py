"""The parser of arguments: errors, guesses, and the width of help."""

from __future__ import annotations

import argparse
import os

from mtlmon.cli.policy_files import refuse
from mtlmon.cli.terminal import show
from mtlmon.run.option_values import OptionValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn, TypeVar

    Space = TypeVar("Space")


STANDARD_OUTPUT = 1
DEFAULT_COLUMNS = 80
# how alike options are that are guessed; all begin with the same hyphens
_LIKENESS = 0.7


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The formatter of argparse with the width of the terminal.

    PERF: argparse itself imports shutil and its compression modules to find the width, which takes
    4 ms even if nothing is formatted.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_width() - 2)


def terminal_width() -> int:
    """Return the columns of the terminal, from $COLUMNS or the terminal, or else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(STANDARD_OUTPUT).columns or DEFAULT_COLUMNS
    except OSError:
        return DEFAULT_COLUMNS


class ShortHelpAction(argparse.Action):
    """Shows the most used options, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        from mtlmon.cli.short_help import SHORT_HELP

        show(SHORT_HELP[parser.prog].removeprefix("\n"))
        parser.exit()


def add_help_options(group: argparse._ActionsContainer) -> None:
    """Add `-h` and `--help`."""
    group.add_argument(
        "-h", action=ShortHelpAction, nargs=0, help="show the most used options, and examples"
    )
    group.add_argument("--help", action="help", help="show this help, with all options")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `RunError`, and accepts no abbreviated options."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )

    def read(self, arguments: Sequence[str], options: Space) -> Space:
        """Parse the arguments into `options`.

        Raises:
            RunError: an argument is invalid.
            SystemExit: after `-h`, `--help` and `--version`.
        """
        _, unknown = self.parse_known_intermixed_args(list(arguments), options)
        if unknown:
            self.error(f"unrecognized arguments: {', '.join(map(self.with_guess, unknown))}")
        return options

    def with_guess(self, unknown: str) -> str:
        """Return an unknown option, with a guess at the one that was meant."""
        from mtlmon.support.guesses import nearest
        from mtlmon.support.other_words import OPTIONS

        name = unknown.partition("=")[0]
        if not name.startswith("-"):
            return name
        known = [text for action in self._actions for text in action.option_strings]
        bare = name.lstrip("-").lower()
        meant = OPTIONS.get(bare)
        if meant is not None and " " in meant:
            return f"{name} ({meant})"
        if meant not in known:
            whole = f"--{bare.replace('_', '-')}"
            meant = whole if whole in known else nearest(whole, known, _LIKENESS)
        return f"{name} (did you mean {meant}?)" if meant else name

    def error(self, message: str) -> NoReturn:
        refuse(message, self.prog)

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        try:
            return super()._get_value(action, text)
        except OptionValueError as error:
            raise argparse.ArgumentError(action, str(error)) from None

    def _print_message(self, message: str, file: object = None) -> None:
        # argparse would ignore errors of writing
        show(message)
