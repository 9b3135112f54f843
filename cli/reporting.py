"""The report on a run: a second loop beside the one that writes verdicts, and the page at the end.

What the user asked to be written need not have every violation in it, so the report's own loop
resolves verdicts and keeps the false ones. It takes the same blocks, and so works on pipes.
"""

from __future__ import annotations

import os
import resource
import shlex
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from mtlmon._core import Monitor
from mtlmon.cli.explaining import Part, check_file, events_around
from mtlmon.cli.failure import Failure, WriteFailure
from mtlmon.cli.report import plural
from mtlmon.drive.native import TextMonitor
from mtlmon.errors import ReportError
from mtlmon.explanation.explaining import explain_positions
from mtlmon.reporting import Collector, ReportData, Run, write_report
from mtlmon.support.extras import load_extra
from mtlmon.text.native import Scanner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mtlmon.cli.arguments import Options
    from mtlmon.cli.files import LogFile
    from mtlmon.cli.pump import EndTime
    from mtlmon.syntax.formula import Formula
    from mtlmon.text.native import Writer

__all__ = ["ReportingLoop", "check_report"]

STOPPED_EARLY = (
    "The log was read up to the earliest violation, and only that is shown (--verdicts first)."
)
INTERRUPTED = "The run was interrupted: the log may go on."
NOT_EXPLAINED = "Nothing is explained, as the log could not be read a second time."

# The first event is looked for in pieces of the log of that size.
FIRST_BYTES = 1 << 13


class ReportingLoop:
    """The loop from log to verdicts, with a collector of violations listening.

    It is a loop for `Pump` like the one it contains.
    """

    def __init__(self, loop: TextMonitor, formula: Formula, options: Options, log: LogFile) -> None:
        assert options.report is not None
        self.path = options.report
        self.loop = loop
        self.formula = formula
        self.options = options
        self.log = log
        self.monitor = Monitor(formula, options.mode, bdd=options.bdd)
        self.second = TextMonitor(
            self.monitor,
            path=log.name,
            verdicts="first" if options.verdicts == "first" else "false",
            resolve=True,
            skip_errors=options.on_error == "skip",
        )
        self.collector = Collector(formula, unit=options.unit)
        self.opening = Scanner((), path=log.name, skip_errors=True)
        self.first: int | None = None
        self.started = datetime.now(UTC)
        self.clock = time.perf_counter()

    @property
    def writer(self) -> Writer:
        return self.loop.writer

    @property
    def is_stopped(self) -> bool:
        return self.loop.is_stopped

    @property
    def event_count(self) -> int:
        return self.loop.event_count

    def load(self, block: memoryview) -> None:
        if self.first is None:
            self.look_for_first(block)
        self.loop.load(block)
        self.second.load(block)

    def load_end(self) -> None:
        self.loop.load_end()
        self.second.load_end()

    def unload(self) -> None:
        self.loop.unload()
        self.second.unload()

    def run(self) -> bool:
        # The verdicts come first: somebody may be waiting for them.
        return self.loop.run() or self.run_second()

    def run_second(self) -> bool:
        more = self.second.run()
        lines = self.second.writer.take()
        if lines:
            self.collector.add_violations(*names_of(lines))
        return more

    def end(self, end_time: EndTime = None) -> None:
        self.loop.end(end_time)
        self.second.end(end_time)

    def look_for_first(self, block: memoryview) -> None:
        """Note the time-stamp of the first event, which has no verdict of interest."""
        for start in range(0, len(block), FIRST_BYTES):
            events = self.opening.feed(block[start : start + FIRST_BYTES])
            if events:
                self.first = events[0][0]
                return

    def write(self, size: int, *, is_interrupted: bool) -> None:
        """Write the report.

        size: how many bytes of the log were monitored, up to the present position.

        Raises:
            Failure: the log cannot be read again, the report cannot be written.
        """
        seconds = time.perf_counter() - self.clock
        # Events are scanned ahead, so where monitoring stopped is not known.
        last = None if self.is_stopped else self.second.scanner.last_time_stamp
        first = last if self.first is None else self.first
        if first is not None and last is not None:
            self.collector.cover(first, last)
        self.collector.add_true(self.second.true_count)
        self.collector.add_pending(self.monitor.pending)
        remarks = list(self.remarks(is_interrupted=is_interrupted))
        if self.collector.false and self.log.is_regular:
            self.explain(Part.before_position(self.log, size))
        run = Run(
            inputs=[self.log.name],
            rows=self.second.event_count,
            skipped=self.second.scanner.skipped_count,
            seconds=seconds,
            peak_memory=peak_memory(),
            mode=self.monitor.mode,
            command=shlex.join(["mtlmon", *self.options.arguments]),
            started=self.started,
            end_time=self.options.end_time,
            unit=self.options.unit,
            first=first,
            last=last,
            remarks=remarks,
        )
        try:
            write_report(ReportData([self.collector.report()], run), self.path)
        except ReportError as error:
            raise WriteFailure(str(error)) from None

    def remarks(self, *, is_interrupted: bool) -> Iterator[str]:
        if is_interrupted:
            yield INTERRUPTED
        if self.is_stopped:
            yield STOPPED_EARLY
        if self.second.scanner.skipped_count:
            lines = plural(self.second.scanner.skipped_count, "line")
            yield f"Skipped {lines} that could not be read."
        if self.collector.false and not self.log.is_regular:
            yield NOT_EXPLAINED

    def explain(self, part: Part) -> None:
        """Explain the first violations."""
        violations = self.collector.first_violations(self.options.explain_limit)
        names = [(time_stamp, offset) for time_stamp, offset, _ in violations]
        for found, trace in events_around(self.formula, self.options, part, names):
            positions = [trace.position(*name) for name in found]
            proofs = explain_positions(self.formula, trace, positions)
            for (time_stamp, offset), proof in zip(found, proofs, strict=True):
                self.collector.explain(time_stamp, offset, None, proof)


def check_report(path: str, options: Options, log: LogFile) -> None:
    """Say early that a report cannot be written.

    Raises:
        Failure: its file is another one's, or has no directory.
        MtlmonError: what reports need is not installed.
    """
    load_extra("jinja2", "report")
    others = [options.log, options.formula_file, options.output, options.explain_output]
    check_file(path, "the report", others, [log.status])
    check_place(path)


def check_place(path: str) -> None:
    """Raise Failure when a file cannot be written for where it is."""
    directory = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(directory):
        raise Failure(f"cannot write {path}: there is no directory {directory}")
    if os.path.isdir(path):
        raise Failure(f"cannot write {path}: it is a directory")


def names_of(lines: bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Time-stamps and offsets of lines of false verdicts, `TIME-STAMP:OFFSET false`."""
    numbers = lines.replace(b" false\n", b" ").replace(b":", b" ").decode("ascii")
    names = np.fromstring(numbers, dtype=np.uint64, sep=" ").reshape(-1, 2)
    return names[:, 0], names[:, 1]


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
