"""The parsers of the command and its subcommands, for what is made of all of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.cli import analyze, arguments, checking, latest, query, resolving, serving, streams
from mtlmon.cli.parser import HelpFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.cli.parser import Parser

__all__ = ["Option", "Subcommand", "options_of", "subcommands"]

_FILES = {"FILE", "DIRECTORY"}


class Subcommand(NamedTuple):
    """The command, or one of its subcommands.

    Attributes:
        name: the word that it begins with; empty for the command itself.
        parser: the parser of its arguments.
    """

    name: str
    parser: Parser

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return " ".join((self.parser.description or "").partition("\n\n")[0].split()).rstrip(".:")


class Option(NamedTuple):
    """An option.

    Attributes:
        names: how it is written, such as `-V` and `--version`.
        value: how its value is called; None if it has none.
        choices: the values that there are; empty if they are not listed.
        is_file: whether its value is the name of a file.
        is_repeated: whether it may be given several times.
        group: the title of its group.
        text: what it does.
    """

    names: tuple[str, ...]
    value: str | None
    choices: tuple[str, ...]
    is_file: bool
    is_repeated: bool
    group: str
    text: str


def subcommands() -> tuple[Subcommand, ...]:
    """The command itself, and its subcommands."""
    return (
        Subcommand("", arguments.make_parser()),
        Subcommand("resolve", resolving.make_parser()),
        Subcommand("latest", latest.make_parser()),
        Subcommand("check-policy", checking.make_parser()),
        Subcommand("streams", streams.make_parser()),
        Subcommand("query", query.make_parser()),
        Subcommand("analyze", analyze.make_parser()),
        Subcommand("serve", serving.make_parser()),
    )


def options_of(parser: Parser) -> Iterator[Option]:
    """The options of a parser, in the order of its help."""
    formatter = HelpFormatter(parser.prog)
    for group in parser._action_groups:
        for action in group._group_actions:
            if not action.option_strings or action.help is argparse.SUPPRESS:
                continue
            value = None
            if action.nargs != 0:
                value = action.metavar if isinstance(action.metavar, str) else None
                value = value or (action.dest.upper() if action.choices is None else "VALUE")
            yield Option(
                tuple(action.option_strings),
                value,
                tuple(map(str, action.choices or ())),
                value in _FILES,
                isinstance(action, argparse._AppendAction),
                group.title or "options",
                " ".join(formatter._expand_help(action).split()) if action.help else "",
            )
