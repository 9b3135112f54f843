"""Show the rows around violations, as grep does."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mtlmon.checking.text_logs import TextLog
from mtlmon.run.failure import RunError
from mtlmon.run.report import plural
from mtlmon.support.inputs import STANDARD_STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtlmon.checking.row_files import RowPlace
    from mtlmon.run.spec import Log, RunSpec
    from mtlmon.tables import TableEvents

    # the name of a file, and its rows with the lines that they begin on
    FileRows = tuple[str, Iterable[tuple[int, bytes]]]

__all__ = [
    "check_context",
    "show_rows",
    "texts_of",
    "texts_of_log",
]


def check_context(source: TextLog | TableEvents | None, log: Log) -> None:
    """Fail early if rows around violations cannot be shown.

    Args:
        source: the log; None for a text log.
        log: how the log is read.

    Raises:
        RunError: a log is not a file whose rows are text.
    """
    if STANDARD_STREAM in log.paths:
        raise RunError(
            "--context reads the log again: name a file, as standard input cannot be reopened"
        )
    if source is None or isinstance(source, TextLog):
        return
    from mtlmon.tables.formats.raw_rows import RAW_FORMATS

    for file in source.files:
        if file.format not in RAW_FORMATS:
            raise RunError(
                f"--context shows rows of text, but {file.name} is read as {file.format}: leave it "
                "out; --rows writes the rows of verdicts"
            )


def show_rows(
    places: Iterable[RowPlace],
    files: Iterable[FileRows],
    options: RunSpec,
    total: int,
    ticks: int = 0,
) -> None:
    """Write rows and those around them to standard error.

    Args:
        places: the rows.
        files: the name of each file, and its rows.
        options: the options of the run.
        total: how many violations there are.
        ticks: how many of those that are shown have no row.
    """
    wanted: dict[str, set[int]] = {}
    for file, row in places:
        assert file.name is not None
        wanted.setdefault(file.name, set()).add(row)
    is_first = True
    for name, texts in files:
        if name not in wanted:
            continue
        before, after = options.reporting.context
        for line in context_lines(name, texts, wanted[name], before, after, is_first=is_first):
            options.host.say(f"{line}\n")
        is_first = False
    if ticks:
        options.host.note(f"{plural(ticks, 'violation')} at ticks, which are no rows")
    if total > options.reporting.explain_limit:
        shown = plural(options.reporting.explain_limit, "violation")
        options.host.note(f"the rows above are those of {shown}; there are more (--explain-limit)")


def texts_of_log(name: str) -> Iterator[FileRows]:
    """Yield the name of a text log, and its lines with their numbers."""
    with open(name, "rb") as lines:
        yield name, enumerate(lines, 1)


def texts_of(source: TextLog | TableEvents) -> Iterator[FileRows]:
    """Yield the name of each file, and its rows with the lines that they begin on."""
    if isinstance(source, TextLog):
        yield from texts_of_log(source.name)
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
        rows: all rows with the lines that they begin on.
        wanted: the lines of the rows to show.
        before: how many rows before each of them are shown.
        after: how many rows behind each of them are shown.
        is_first: whether nothing has been shown before.
    """
    last = max(wanted)
    waiting: deque[tuple[int, bytes]] = deque(maxlen=before)
    # how many more rows are shown, as they follow a wanted one
    following = 0
    # whether rows have been left out since the last one that was shown
    has_gap = not is_first
    for line, text in rows:
        if line > last and not following:
            return
        if line in wanted:
            if has_gap:
                yield "--"
            is_first = has_gap = False
            for one, earlier in waiting:
                yield from _marked(name, one, earlier, "-")
            waiting.clear()
            yield from _marked(name, line, text, ":")
            following = after
        elif following:
            yield from _marked(name, line, text, "-")
            following -= 1
        else:
            has_gap = has_gap or (not is_first and len(waiting) == before)
            waiting.append((line, text))


def _marked(name: str, first: int, text: bytes, mark: str) -> Iterator[str]:
    """Yield the lines of a row, which begins on the first of them."""
    lines = text.rstrip(b"\r\n").decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, first):
        yield f"{name}{mark}{number}{mark}{line}"
