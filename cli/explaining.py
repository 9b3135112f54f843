"""Explaining violations: the log is read again for the events that they depend on."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from mtlmon._core import Monitor
from mtlmon.analysis.subformulas import atoms
from mtlmon.cli.failure import Failure, WriteFailure, note, say
from mtlmon.cli.files import is_same_file
from mtlmon.cli.report import plural
from mtlmon.drive.native import TextMonitor
from mtlmon.errors import UndecidedError
from mtlmon.explanation.explaining import explain_positions
from mtlmon.explanation.parts import TraceParts
from mtlmon.support.replacing import write_whole
from mtlmon.text.native import Scanner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtlmon.cli.arguments import Options
    from mtlmon.cli.files import LogFile
    from mtlmon.explanation.proof import Proof
    from mtlmon.explanation.trace import Trace
    from mtlmon.syntax.formula import Formula

__all__ = [
    "Explanations",
    "Part",
    "check_file",
    "check_options",
    "events_around",
    "explain_violations",
]

BLOCK_BYTES = 1 << 18
WIDTH = 100
"""Of lines that go to a file; a terminal has its own."""


def check_options(options: Options, log: LogFile) -> None:
    """Say early that explanations are not to be had.

    Raises Failure when the log cannot be read again, or the file for them is another one's.
    """
    if not log.is_regular:
        raise Failure(
            f"cannot explain: {log.name} cannot be read a second time; save the log to a file first"
        )
    if options.explain_output is not None:
        others = [options.log, options.formula_file, options.output]
        check_file(options.explain_output, "the explanations", others, [log.status])


def check_file(
    path: str, what: str, others: Sequence[str | None], logs: Iterable[os.stat_result]
) -> None:
    """Raise Failure when what is to be written would overwrite a log or another file in use."""
    if any(other and os.path.realpath(other) == os.path.realpath(path) for other in others) or (
        os.path.exists(path) and any(is_same_file(os.stat(path), status) for status in logs)
    ):
        raise Failure(f"{path} cannot hold {what}: this run uses it for something else")


class Part(NamedTuple):
    """The bytes of the log that were monitored."""

    log: LogFile
    start: int
    size: int

    @classmethod
    def before_position(cls, log: LogFile, size: int) -> Part:
        """So many bytes up to where reading stands now."""
        return cls(log, os.lseek(log.descriptor, 0, os.SEEK_CUR) - size, size)

    def blocks(self) -> Iterator[bytes]:
        """Its bytes once more.

        Raises Failure when they cannot be read.
        """
        position, end = self.start, self.start + self.size
        while position < end:
            try:
                block = os.pread(self.log.descriptor, min(BLOCK_BYTES, end - position), position)
            except OSError as error:
                raise Failure(f"cannot read {self.log.name}: {error.strerror}") from None
            if not block:
                return
            position += len(block)
            yield block


def explain_violations(formula: Formula, options: Options, log: LogFile, size: int) -> None:
    """Explain the first violations of a log, to standard error or to the file asked for.

    Args:
        formula: as it was written.
        options: of the command.
        log: still open; its end was reached, or what was wanted was found before.
        size: how many bytes of it were monitored, up to the present position.

    Raises:
        Failure: the log cannot be read again, the explanations cannot be written.
    """
    part = Part.before_position(log, size)
    limit = options.explain_limit
    violations = sorted(find_violations(formula, options, part, limit + 1))
    report = Explanations(options.explain_output)
    for names, trace in events_around(formula, options, part, violations[:limit]):
        positions = [trace.position(*name) for name in names]
        for proof in explain_positions(formula, trace, positions):
            if isinstance(proof, UndecidedError):
                report.remark(str(proof))
            else:
                report.add(proof)
    if len(violations) > limit:
        report.remark(f"explained {plural(limit, 'violation')}, there are more (--explain-limit)")
    report.write()


def find_violations(
    formula: Formula, options: Options, part: Part, count: int
) -> list[tuple[int, int]]:
    """The names of the first violations that are decided, at most so many."""
    monitor = TextMonitor(
        Monitor(formula, options.mode, bdd=options.bdd),
        path=part.log.name,
        verdicts="first" if options.verdicts == "first" else "false",
        resolve=True,
        skip_errors=options.on_error == "skip",
    )
    lines: list[bytes] = []

    def work() -> None:
        more = True
        while more and len(lines) < count:
            more = monitor.run()
            lines.extend(monitor.writer.take().splitlines())

    for block in part.blocks():
        monitor.load(block)
        work()
        if monitor.is_stopped or len(lines) >= count:
            break
    else:
        monitor.load_end()
        work()
        monitor.end(options.end_time)
        work()
    monitor.unload()
    return [_name_of(line) for line in lines[:count]]


def _name_of(line: bytes) -> tuple[int, int]:
    time_stamp, _, offset = line.partition(b" ")[0].partition(b":")
    return int(time_stamp), int(offset)


def events_around(
    formula: Formula, options: Options, part: Part, names: list[tuple[int, int]]
) -> Iterator[tuple[list[tuple[int, int]], Trace]]:
    """For the time-points, in order, the parts of the trace that their values depend on.

    Memory goes with that part, not with the log. A trace changes when the next one is asked for.
    """
    scanner = Scanner(atoms(formula), path=part.log.name, skip_errors=options.on_error == "skip")
    parts = TraceParts(formula, names, scanner.atoms)
    for events in _scanned(scanner, part):
        for time_stamp, letter in events:
            yield from parts.add(time_stamp, letter)
        if parts.is_done:
            return
        parts.drop()
    yield from parts.end(options.end_time)


def _scanned(scanner: Scanner, part: Part) -> Iterator[list[tuple[int, int]]]:
    for block in part.blocks():
        yield scanner.feed(block)
    yield scanner.finish()


class Explanations:
    """The explanations, as text as they come or as a page when all are there.

    path: a file, a page if its name ends in .html; None for standard error.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.is_page = path is not None and path.lower().endswith((".html", ".htm"))
        self.sections: list[str] = []
        self.remarks: list[str] = []

    def add(self, proof: Proof, title: str | None = None) -> None:
        """Add an explanation; title: what it is about, where that is not clear."""
        if self.is_page:
            from mtlmon.explanation.html import section

            self.sections.append(section(proof, len(self.sections) + 1, title))
        elif self.path is not None:
            self.sections.append(f"{heading(title)}{proof.to_text(width=WIDTH)}\n\n")
        else:
            self.show(proof, title)

    def remark(self, text: str) -> None:
        if self.path is None:
            note(text)
        else:
            self.remarks.append(text)

    def show(self, proof: Proof, title: str | None) -> None:
        """Write to standard error, if that is open."""
        if sys.stderr is None:
            return
        width = WIDTH
        if sys.stderr.isatty():
            width = os.get_terminal_size(sys.stderr.fileno()).columns
        shown = proof.to_text(width=width, ascii_only=not _shows_marks(sys.stderr.encoding))
        say(f"{heading(title)}{shown}\n\n")

    def write(self) -> None:
        """Write the file, if one is asked for.

        Raises WriteFailure.
        """
        if self.path is None:
            return
        if self.is_page:
            from mtlmon.explanation.html import page

            text = page(self.sections, self.remarks)
        else:
            text = "".join([*self.sections, *(f"{remark}\n" for remark in self.remarks)])
        try:
            write_whole(self.path, text.encode("utf-8", "backslashreplace"))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise WriteFailure(f"cannot write {self.path}: {reason}") from None


def heading(title: str | None) -> str:
    return "" if title is None else f"{title}\n"


def _shows_marks(encoding: str) -> bool:
    try:
        "✓✗└─…".encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
