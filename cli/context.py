"""Show the rows around violations, as grep does."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mtlmon.checking import TextLog
from mtlmon.checking.violation_rows import ViolationRows
from mtlmon.cli.failure import Failure, note, say
from mtlmon.cli.parser import STANDARD_STREAM
from mtlmon.cli.report import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtlmon.cli.arguments import Options
    from mtlmon.cli.findings import Findings
    from mtlmon.tables import TableEvents

__all__ = ["check_context", "show_context"]


def check_context(source: TextLog | TableEvents, options: Options) -> None:
    """Fail early if rows around violations cannot be shown.

    Raises:
        Failure: a log is not a file whose rows are text.
    """
    if STANDARD_STREAM in options.logs:
        raise Failure(
            "--context reads the log again: name a file, as standard input cannot be reopened"
        )
    if isinstance(source, TextLog):
        return
    from mtlmon.tables.formats.raw_rows import RAW_FORMATS

    for file in source.files:
        if file.format not in RAW_FORMATS:
            raise Failure(
                f"--context shows rows of text, but {file.name} is read as {file.format}: leave it "
                "out; --rows writes the rows of verdicts"
            )


def show_context(findings: Findings, source: TextLog | TableEvents, options: Options) -> None:
    """Write the rows of the first violations, and those around them, to standard error.

    Args:
        findings: the violations.
        source: the log from its beginning, with its rows tracked.
        options: the options of the command line.
    """
    check, chosen = findings.check, findings.chosen
    rows = ViolationRows(check.partitions.of_policies, check.clocks, chosen)
    for batch in source:
        if rows.is_complete:
            break
        rows.note(batch)
    wanted: dict[str, set[int]] = {}
    for file, row in rows.places:
        wanted.setdefault(file, set()).add(row)
    is_first = True
    for name, texts in texts_of(source):
        if name not in wanted:
            continue
        before, after = options.context
        for line in context_lines(name, texts, wanted[name], before, after, is_first=is_first):
            say(f"{line}\n")
        is_first = False
    ticks = sum(rows.of(violation) is None for violation in chosen)
    if ticks:
        note(f"{plural(ticks, 'violation')} at ticks, which are no rows")
    if findings.total > options.explain_limit:
        shown = plural(options.explain_limit, "violation")
        note(f"the rows above are those of {shown}; there are more (--explain-limit)")


def texts_of(
    source: TextLog | TableEvents,
) -> Iterator[tuple[str, Iterable[tuple[int, bytes]]]]:
    """Yield the name of each file, and its rows with their numbers."""
    if isinstance(source, TextLog):
        with open(source.name, "rb") as lines:
            yield source.name, enumerate(lines, 1)
        return
    from mtlmon.tables.formats.raw_rows import raw_rows

    # a file that is named twice is read twice
    for name, file in {file.name: file for file in source.files}.items():
        yield name, raw_rows(file, source.dialect)


def context_lines(
    name: str,
    rows: Iterable[tuple[int, bytes]],
    wanted: set[int],
    before: int,
    after: int,
    *,
    is_first: bool,
) -> Iterator[str]:
    """Yield the lines that show some rows of a file and those around them.

    Args:
        name: the name of the file.
        rows: all rows with their numbers.
        wanted: the numbers of the rows to show.
        before: how many rows before each of them are shown.
        after: how many rows behind each of them are shown.
        is_first: whether nothing has been shown before.
    """
    last = max(wanted) + after
    waiting: deque[tuple[int, bytes]] = deque(maxlen=before)
    # rows up to here are shown, as they follow a wanted one; and the last row that was shown
    until = shown = None
    for number, text in rows:
        if number > last:
            return
        if number in wanted:
            first = waiting[0][0] if waiting else number
            if not is_first and (shown is None or first > shown + 1):
                yield "--"
            is_first = False
            for one, earlier in waiting:
                yield from _marked(name, one, earlier, "-")
            waiting.clear()
            yield from _marked(name, number, text, ":")
            shown, until = number, number + after
        elif until is not None and number <= until:
            yield from _marked(name, number, text, "-")
            shown = number
        else:
            waiting.append((number, text))


def _marked(name: str, number: int, text: bytes, mark: str) -> Iterator[str]:
    """Yield the lines of a row."""
    for line in text.rstrip(b"\r\n").decode("utf-8", "replace").split("\n"):
        yield f"{name}{mark}{number}{mark}{line}"
