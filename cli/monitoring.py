"""Monitoring a log: blocks in, verdicts out, in time for whoever waits for them."""

from __future__ import annotations

import os
import sys
import time

from mtlmon._core import Monitor
from mtlmon._text import TextMonitor
from mtlmon.cli.failure import SIGNALLED, VIOLATION, ClosedPipe, WriteFailure, note
from mtlmon.cli.files import LogFile, VerdictFile, open_log, open_verdicts
from mtlmon.cli.report import Progress, report_end, summary
from mtlmon.cli.signals import Interrupted, Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TextIO

    from mtlmon.cli.arguments import Options
    from mtlmon.syntax.formula import Formula

__all__ = ["monitor_log"]

BLOCK_BYTES = 1 << 18
# verdicts are written when there are so many bytes of them, or after so many seconds
FLUSH_BYTES = 1 << 16
FLUSH_SECONDS = 0.1


def monitor_log(formula: Formula, options: Options) -> int:
    """Monitor the log; return the exit status.

    Raises:
        Failure: a file cannot be read or written.
        ClosedPipe: nobody reads the verdicts.
        MtlmonError: a line cannot be read, or the engine is at a limit.
    """
    monitor = Monitor(formula, options.mode, bdd=options.bdd)
    if monitor.mode != options.mode:
        note(f"the formula's future is unbounded: mode {options.mode} works as {monitor.mode} here")
    log = open_log(options.log)
    if options.explain:
        from mtlmon.cli.explaining import check_options

        check_options(options, log)
    verdicts = open_verdicts(options.output, log, options.formula_file)
    text_monitor = TextMonitor(
        monitor,
        path=log.name,
        verdicts=options.verdicts,
        resolve=options.resolve,
        skip_errors=options.on_error == "skip",
    )
    signals = Signals()
    pump = Pump(text_monitor, log, verdicts, signals, progress_for(log, verdicts, options))
    start = time.perf_counter()
    status = None
    try:
        with signals:
            pump.run(options.end_time)
    except Interrupted as signal:
        status = SIGNALLED + signal.number
    if status is None:
        status = VIOLATION if text_monitor.false_count else 0
    verdicts.close()
    report_end(text_monitor, is_complete=pump.is_complete, is_resolved=options.resolve)
    if options.explain and status == VIOLATION:
        from mtlmon.cli.explaining import explain_violations

        explain_violations(formula, options, log, pump.bytes_read)
    log.close()
    wants_summary = options.summary
    if wants_summary is None:
        wants_summary = is_terminal(sys.stderr)
    if wants_summary and sys.stderr is not None:
        print(summary(text_monitor, time.perf_counter() - start), file=sys.stderr)
    return status


def progress_for(log: LogFile, verdicts: VerdictFile, options: Options) -> Progress:
    """The progress line, if it is wanted, can be shown and does not break up verdicts."""
    is_shown = (
        options.progress
        and is_terminal(sys.stderr)
        and (options.verdicts == "none" or not os.isatty(verdicts.descriptor))
    )
    return Progress(log.size if is_shown else 0)


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


class Pump:
    """Moves the log through the monitor to the file of verdicts.

    Attributes:
        is_complete: the log was read to its end.
    """

    def __init__(
        self,
        monitor: TextMonitor,
        log: LogFile,
        verdicts: VerdictFile,
        signals: Signals,
        progress: Progress,
    ) -> None:
        self.monitor = monitor
        self.log = log
        self.verdicts = verdicts
        self.signals = signals
        self.is_complete = False
        self.bytes_read = 0
        self.flushed_at = time.monotonic()
        self.progress = progress

    def run(self, end_time: int | Literal["last", "inf"] | None) -> None:
        """Read the log to its end.

        Whatever ends it before, the verdicts earned are written. Raises `Interrupted` on a signal.
        """
        try:
            self.read_log()
            if self.is_complete:
                self.monitor.end(end_time)
                self.work()
            self.flush()
        except Interrupted:
            self.flush_at_last()
            raise
        except (WriteFailure, ClosedPipe):
            raise
        except Exception:
            self.flush()
            raise
        finally:
            self.monitor.unload()
            self.progress.erase()

    def read_log(self) -> None:
        block = memoryview(bytearray(BLOCK_BYTES))
        while not self.monitor.is_stopped:
            size = self.read_block(block)
            if size == 0:
                self.monitor.load_end()
                self.work()
                self.is_complete = not self.monitor.is_stopped
                return
            self.bytes_read += size
            self.monitor.load(block[:size])
            self.work()

    def read_block(self, block: memoryview) -> int:
        """Read a block; before that waits, what is earned is written."""
        if self.log.is_regular:
            return self.log.read_into(block) or 0
        while True:
            if not self.signals.wait(self.log.descriptor, 0):
                self.flush()
                self.signals.wait(self.log.descriptor, None)
            size = self.log.read_into(block)
            if size is not None:
                return size

    def work(self) -> None:
        """Monitor what is loaded."""
        more = True
        while more:
            more = self.monitor.run()
            if len(self.monitor.writer) >= FLUSH_BYTES or (
                time.monotonic() - self.flushed_at > FLUSH_SECONDS
            ):
                self.flush()
            self.progress.show(self.bytes_read, self.monitor.event_count)

    def flush_at_last(self) -> None:
        """After a signal: write what is earned, if its reader takes it soon."""
        try:
            self.signals.limit_grace()
            self.flush()
        except Interrupted:
            return

    def flush(self) -> None:
        self.verdicts.flush(self.monitor.writer)
        self.flushed_at = time.monotonic()
