"""Who takes part in a comparison: mtlmon in its modes, the ceiling, and other monitors."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.commands import BenchmarkError
from bench.translate import UntranslatableError, to_reelay, to_rtamt
from mtlmon import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.logs import Log
    from mtlmon import Formula

MODES = ("local", "global", "naive")
# What only scans the log and writes a constant verdict for each line: no monitor is faster.
CEILING = "ceiling"
PEERS = ("reelay", "rtamt")
CONTENDERS = (*MODES, CEILING, *PEERS)


class Contender(Protocol):
    """A monitor that runs as a command."""

    @property
    def name(self) -> str:
        """What its rows in the tables say."""

    @property
    def has_verdicts(self) -> bool:
        """Whether its output is to be checked."""

    def command(self, formula: str, log: Path | str) -> list[str]:
        """The command line that monitors the log.

        Raises UntranslatableError for a formula that it cannot monitor.
        """


def script() -> str:
    """The installed command."""
    return str(Path(sysconfig.get_path("scripts"), "mtlmon"))


@dataclass(frozen=True)
class Mtlmon:
    """The command `mtlmon`, which also reads `-`, standard input.

    Attributes:
        piped: run as `cat LOG | mtlmon ... | cat`.
        options: more of its options.
        redirected: a file that the shell writes the output to.
    """

    mode: str
    piped: bool = False
    has_verdicts: bool = True
    options: tuple[str, ...] = ()
    redirected: Path | None = None

    @property
    def name(self) -> str:
        parts = [self.mode]
        if self.piped:
            parts.append("piped")
        if self.options:
            parts.append(self.options[0])
        if self.redirected:
            parts.append(">")
        return ", ".join(parts)

    def command(self, formula: str, log: Path | str) -> list[str]:
        arguments = [script(), "--mode", self.mode, *self.options, "-e", formula]
        if self.redirected:
            redirection = f"> {shlex.quote(str(self.redirected))}"
            return [_path("sh"), "-c", f"exec {shlex.join([*arguments, str(log)])} {redirection}"]
        if not self.piped:
            return [*arguments, str(log)]
        pipeline = f"cat {shlex.quote(str(log))} | {shlex.join(arguments)} | cat"
        return [_path("sh"), "-c", pipeline]


@dataclass(frozen=True)
class Ceiling:
    """mtlmon's scanner and writer with no monitor between them."""

    name: str = CEILING
    has_verdicts: bool = False

    def command(self, formula: str, log: Path | str) -> list[str]:
        return [sys.executable, "-m", "bench.ceiling", str(log), *parse(formula).atoms]


@dataclass(frozen=True)
class PythonPeer:
    """A monitor from PyPI, run by a program of `bench.peers`."""

    name: str
    translate: Callable[[Formula], str]
    has_verdicts: bool = True

    def command(self, formula: str, log: Path | str) -> list[str]:
        self.translate(parse(formula))
        if importlib.util.find_spec(self.name) is None:
            raise BenchmarkError(
                f"{self.name} is not installed: pip install '.[bench]' brings it where there is a "
                "package for this platform and version of Python"
            )
        return [sys.executable, "-m", f"bench.peers.{self.name}_monitor", formula, str(log)]


@dataclass(frozen=True)
class Binary:
    """Any monitor that reads files of formulas and logs as mtlmon does.

    Attributes:
        template: its command line, with `{formula}` for the formula's file, `{log}` for the log's.
        directory: where files of formulas are written.
    """

    name: str
    template: str
    directory: Path
    has_verdicts: bool = True

    def command(self, formula: str, log: Path | str) -> list[str]:
        file = self.directory / f"{abs(hash(formula))}.mtl"
        file.write_text(f"{formula}\n", encoding="utf-8")
        places = {"formula": str(file), "log": str(log)}
        program, *arguments = [word.format_map(places) for word in shlex.split(self.template)]
        return [_path(program), *arguments]


def binary(text: str) -> Binary:
    """The contender that `NAME=COMMAND` describes.

    Raises ValueError when it names no formula or no log.
    """
    name, _, template = text.partition("=")
    if not name or name in CONTENDERS:
        raise ValueError(f"{text!r} gives no new name: write NAME='COMMAND {{formula}} {{log}}'")
    if "{formula}" not in template or "{log}" not in template:
        raise ValueError(f"the command of {name} must mention {{formula}} and {{log}}")
    return Binary(name, template, Path(tempfile.mkdtemp(prefix="mtlmon-bench-")))


def contender(name: str) -> Contender:
    """One of CONTENDERS."""
    if name in MODES:
        return Mtlmon(name)
    if name == CEILING:
        return Ceiling()
    return PythonPeer(name, {"reelay": to_reelay, "rtamt": to_rtamt}[name])


def reason_against(who: Contender, formula: str, log: Log) -> str | None:
    """Why the contender cannot monitor the formula on the log; None if it can."""
    if isinstance(who, PythonPeer) and not log.counts:
        return "it counts events instead of reading time-stamps"
    try:
        who.command(formula, "-")
    except UntranslatableError as error:
        return str(error)
    return None


def _path(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise BenchmarkError(f"there is no program {program}")
    return found
