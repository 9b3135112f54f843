"""The manual page of the command, for `man`."""

from __future__ import annotations

from itertools import groupby
from textwrap import dedent
from typing import TYPE_CHECKING

from mtlmon._version import __version__
from mtlmon.cli.command_line import Option, options_of, subcommands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtlmon.cli.command_line import Subcommand

__all__ = ["manual"]


def manual() -> str:
    """The manual page in roff, with the man macros."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    main, *others = subcommands()
    yield f'.TH MTLMON 1 "" "mtlmon {__version__}" "User Commands"'
    yield from (".SH NAME", r"mtlmon \- check logs against policies in metric temporal logic")
    yield ".SH SYNOPSIS"
    yield from _verbatim(_usage(main))
    yield ".SH DESCRIPTION"
    yield from _verbatim(main.parser.description or "")
    yield ".SH OPTIONS"
    for group, options in groupby(options_of(main.parser), key=lambda option: option.group):
        yield f".SS {_escaped(group)}"
        yield from _options(options)
    for title, body in _sections(main):
        yield f".SH {_escaped(title.upper())}"
        yield from _verbatim(body)
    yield ".SH SUBCOMMANDS"
    for one in others:
        yield f".SS {_escaped(f'mtlmon {one.name}')}"
        yield from _verbatim(f"{_usage(one)}\n\n{one.parser.description}")
        yield from _options(options_of(one.parser))
        for title, body in _sections(one):
            yield ".PP"
            yield from _verbatim(f"{title}:\n{body}")


def _usage(one: Subcommand) -> str:
    return "\n".join(line.strip() for line in (one.parser.usage or "").splitlines())


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        yield from (".TP", _option(option), _escaped(option.text))


def _option(option: Option) -> str:
    value = "" if option.value is None else rf" \fI{_escaped(option.value)}\fR"
    if option.choices:
        value = rf" {{{_escaped(','.join(option.choices))}}}"
    return ", ".join(rf"\fB{_escaped(name)}\fR{value}" for name in option.names)


def _sections(one: Subcommand) -> Iterator[tuple[str, str]]:
    """The titles and bodies of what follows the options in the help."""
    for block in (one.parser.epilog or "").strip("\n").split("\n\n"):
        title, _, body = block.partition(":")
        if body:
            yield title, dedent(body.strip("\n")).strip()


def _verbatim(text: str) -> Iterator[str]:
    yield ".nf"
    for line in text.strip("\n").splitlines():
        yield _escaped(line) or r"\&"
    yield ".fi"


def _escaped(text: str) -> str:
    """Text that roff shows as it is."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("^", r"\(ha").replace("~", r"\(ti")
    text = text.replace("'", r"\(aq").replace("`", r"\(ga")
    return r"\&" + text if text.startswith(".") else text
