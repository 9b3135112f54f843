"""The pages of the documentation and the code on them.

A page is run from top to bottom in a directory of its own:

- a block with a title is a file of that name, written there;
- `console` blocks are run by bash and must show what is printed, standard error included, where
  `...` stands for anything; the variables and the working directory of a block end with it;
- `python` blocks with prompts are doctests, others are executed; they share their variables;
- `sh` blocks are commands that need a network or take long: they are only checked to be bash;
- all other blocks are text.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.forking import command_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Console = Callable[[str, "Block"], Iterator[str]]

DIRECTORY = Path(__file__).parents[2] / "docs"
SECONDS = 60.0

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'\btitle="([^"]+)"')
# Separates what the commands of a block print.
_MARK = "\x1e"


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str | None
    line: int
    text: str


class Command(NamedTuple):
    """A command of a `console` block and what the page says that it prints."""

    line: str
    output: str


def names() -> list[str]:
    """The pages, by their paths within the documentation."""
    return sorted(str(path.relative_to(DIRECTORY)) for path in DIRECTORY.rglob("*.md"))


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = (DIRECTORY / page).read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        language, attributes, content = match.groups()
        title = _TITLE.search(attributes)
        line = text.count("\n", 0, match.start()) + 2
        yield Block(language, title and title[1], line, content)


def run(page: str, without: str | None = None, console: Console | None = None) -> Iterator[str]:
    """Run the blocks of a page in the working directory; complaints about what differs.

    Blocks that contain the text `without` are left out. `console` may run blocks of commands in
    another way.
    """
    variables: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if without is not None and without in block.text:
            continue
        if block.title is not None:
            path = Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "python" and ">>>" in block.text:
            yield from _run_doctest(page, block, variables)
        elif block.language == "python":
            exec(compile(block.text, f"{page}:{block.line}", "exec"), variables)
        elif block.language == "console":
            yield from (console or _run_console)(page, block)
        elif block.language == "sh":
            yield from _check_syntax(page, block)


def _run_doctest(page: str, block: Block, variables: dict[str, object]) -> Iterator[str]:
    test = doctest.DocTestParser().get_doctest(block.text, {}, page, page, block.line - 1)
    # Afterwards, as they are copied by the line above.
    test.globs = variables
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append, clear_globs=False)
    yield from report


def commands(block: Block) -> list[Command]:
    """The commands of a `console` block; further lines of one begin with `> `."""
    found: list[Command] = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
        elif line.startswith("> ") and found and not found[-1].output:
            found[-1] = Command(found[-1].line + line[2:], "")
        elif found:
            found[-1] = found[-1]._replace(output=found[-1].output + line)
        else:
            raise ValueError(f"line {block.line}: output before the first command")
    return found


def outputs(lines: list[str]) -> list[str]:
    """What commands print, one after the other in one shell."""
    # The subshell hands the exit status on, so that the next command may ask for it.
    mark = f'status=$?; printf "{_MARK}"; (exit "$status")\n'
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\n" + "".join(line + mark for line in lines)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
        encoding="utf-8",
        timeout=SECONDS,
        env=_environment(),
    )
    return done.stdout.split(_MARK)[: len(lines)]


def _run_console(page: str, block: Block) -> Iterator[str]:
    shown = commands(block)
    checker = doctest.OutputChecker()
    printed = outputs([command.line for command in shown])
    for command, output in zip(shown, map(_visible, printed), strict=True):
        if not checker.check_output(command.output, output, doctest.ELLIPSIS):
            yield (
                f"{page}, block in line {block.line}: $ {command.line}"
                f"is said to print\n{command.output}\nand prints\n{output}\n"
            )


def _visible(output: str) -> str:
    """Without blanks at the ends of lines and blank lines at the end, which no page shows."""
    lines = [line.rstrip() for line in output.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def _check_syntax(page: str, block: Block) -> Iterator[str]:
    done = subprocess.run(
        ["bash", "-n"], input=block.text, capture_output=True, check=False, encoding="utf-8"
    )
    if done.returncode:
        yield f"{page}, block in line {block.line}: {done.stderr}"


def _environment() -> dict[str, str]:
    """Commands of this environment come first, and no setting of the user matters."""
    server = command_server()
    forked = [] if server is None else [str(server.program.parent)]
    environment = {
        **os.environ,
        "COLUMNS": "100",
        "PATH": os.pathsep.join([*forked, sysconfig.get_path("scripts"), os.environ["PATH"]]),
        "PYTHONUTF8": "1",
    }
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        with contextlib.suppress(KeyError):
            del environment[name]
    return environment
