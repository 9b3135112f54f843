"""Check a log of MonPoly against a formula of its language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.cli.failure import Failure, note, show
from mtlmon.cli.files import open_log, open_verdicts, read_formula
from mtlmon.cli.pump import BLOCK_BYTES, Pump
from mtlmon.cli.report import plural, progress_for, table
from mtlmon.cli.running import run_to_end
from mtlmon.cli.signals import Signals
from mtlmon.monpoly import read_policy, read_signature
from mtlmon.monpoly.logs import LogReader
from mtlmon.monpoly.monitoring import MonPolyMonitor
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mtlmon.cli.arguments import Options
    from mtlmon.cli.files import LogFile
    from mtlmon.cli.pump import EndTime
    from mtlmon.monpoly import MonPolyPolicy
    from mtlmon.monpoly.logs import TimePoint

__all__ = ["check_monpoly"]

# How many time-points are monitored before verdicts may be written.
STEP_POINTS = 64


def check_monpoly(text: str, source: str, options: Options) -> int:
    """Check the log; return the exit status.

    Args:
        text: the formula.
        source: its name in errors.
        options: the options of the command line, with a signature.

    Raises:
        Failure: a file cannot be read or written, or an option does not work here.
        ClosedPipe: the reader of the verdicts has closed the pipe.
        MtlmonError: the formula, the signature or the log is invalid.
    """
    assert options.signature is not None
    refuse_others(options)
    signature = read_signature(read_formula(options.signature), options.signature)
    policy = read_policy(text, signature, source, negate=options.negate)
    from mtlmon.relational import analyse

    errors = analyse(policy.file).errors
    if errors:
        raise errors[0]
    if options.explain_formula:
        from mtlmon.cli.checking import explanation

        show(explanation(policy.file, None))
        return 0
    if options.output_format != "monpoly":
        raise Failure(
            f"--output-format {options.output_format} does not work with --signature yet: add "
            "--output-format monpoly"
        )
    monitor = MonPolyMonitor(policy, adds_last=not options.nonewlastts)
    log = open_log(options.log)
    verdicts = open_verdicts(options.output, {log.name: log.status}, options.formula_file)
    work = MonPolyWork(policy, monitor, log, options)
    signals = Signals(verdicts)
    pump = Pump(work, verdicts, signals, progress_for(log.size, verdicts, options))

    def report(_status: int, _seconds: float) -> None:
        if work.reader.skipped:
            note(f"skipped {plural(work.reader.skipped, 'time-point')} that could not be read")
        log.close()

    return run_to_end(
        pump,
        has_violation=lambda: options.negate and monitor.row_count > 0,
        report=report,
        summary=work.summary,
        wants_summary=options.summary,
    )


def refuse_others(options: Options) -> None:
    """Raise Failure if an option does not work on MonPoly's files."""
    refused = {
        "--unit": options.unit not in (None, "s"),
        "--set": options.constants,
        "--end-time": options.end_time is not None,
        "--mode": options.mode != "local",
        "--resolve": options.resolve,
        "--explain": options.explain,
        "--report": options.report is not None,
        "--checkpoint": options.checkpoint is not None,
        "--max-memory": options.max_memory is not None,
    }
    reasons = {
        "--unit": "time-stamps are seconds there",
        "--end-time": "--nonewlastts leaves the end of the log open",
    }
    for name, is_given in refused.items():
        if is_given:
            reason = f": {reasons[name]}" if name in reasons else ""
            raise Failure(f"{name} does not work with --signature{reason}")
    if options.is_table:
        raise Failure("--signature is for text logs of MonPoly, not for tables")
    if len(options.logs) > 1:
        raise Failure(f"several text logs ({', '.join(options.logs)}): name one at a time")


class MonPolyWork:
    """Reads a log, monitors it, and writes lines.

    Args:
        policy: the formula.
        monitor: monitors it.
        log: the open log.
        options: the options of the command line.

    Attributes:
        wait: the function to call before reading from a log that may have nothing to read yet.
        is_complete: whether the log has been read to its end.
        is_stopped: whether the first violation is found, and only that is wanted.
        bytes_read: the number of bytes of the log that have been read.
    """

    wait: Callable[[int], None]

    def __init__(
        self, policy: MonPolyPolicy, monitor: MonPolyMonitor, log: LogFile, options: Options
    ) -> None:
        self.reader = LogReader(
            policy.signature,
            policy.relations,
            log.name,
            skip_errors=options.on_error == "skip",
        )
        self.monitor = monitor
        self.log = log
        self.verdicts = options.verdicts
        self.writer = ByteWriter()
        self.is_complete = False
        self.is_stopped = False
        self.bytes_read = 0

    @property
    def event_count(self) -> int:
        return self.monitor.point_count

    def read(self) -> Iterator[None]:
        """Monitor the time-points that are complete; yield now and then."""
        block = memoryview(bytearray(BLOCK_BYTES))
        while not self.is_stopped:
            if not self.log.is_regular:
                self.wait(self.log.descriptor)
            size = self.log.read_into(block)
            if size == 0:
                return
            if size is not None:
                self.bytes_read += size
                yield from self.take(self.reader.feed(bytes(block[:size])))

    def take(self, points: Iterable[TimePoint]) -> Iterator[None]:
        """Monitor time-points."""
        for number, point in enumerate(points):
            self.write(self.monitor.step(point))
            if self.is_stopped:
                return
            if number % STEP_POINTS == 0:
                yield
        yield

    def write(self, lines: Iterator[str]) -> None:
        for line in lines:
            if self.verdicts != "none":
                self.writer.write(line.encode())
            if self.verdicts == "first":
                self.is_stopped = True
                return

    def end(self, _end_time: EndTime) -> Iterator[None]:
        """Monitor the last time-point, and end the log."""
        yield from self.take(self.reader.finish())
        if not self.is_stopped:
            self.is_complete = True
            self.write(self.monitor.finish())
        yield

    def finish(self) -> None:
        """Do nothing: the writer has all lines already."""

    def close(self) -> None:
        """Do nothing: the log is closed at the end."""

    def summary(self, seconds: float) -> str:
        """Return counts and speed, aligned."""
        rows = [("time-points", self.event_count, "")]
        if self.reader.skipped:
            rows.append(("skipped", self.reader.skipped, "that cannot be read"))
        rows.append(("valuations", self.monitor.row_count, ""))
        return table(rows, self.event_count, "time-points", seconds)
