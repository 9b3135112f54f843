"""Check a log of MonPoly against a formula of its language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.cli.failure import Failure, note, show
from mtlmon.cli.files import open_log, open_verdicts, read_formula
from mtlmon.cli.pump import Pump
from mtlmon.cli.relations import Check, RowLoop, RowWork, engine_for, valid_analysis
from mtlmon.cli.report import plural, progress_for
from mtlmon.cli.running import run_to_end
from mtlmon.cli.signals import Signals
from mtlmon.engine.native import MemoryLimit
from mtlmon.monpoly import LogReader, read_policy, read_signature
from mtlmon.monpoly.plain import PlainLines
from mtlmon.monpoly.points import PointFeeder, PointReader
from mtlmon.monpoly.writing import MonPolyOutput
from mtlmon.support.option_names import COMMAND

if TYPE_CHECKING:
    from mtlmon.cli.arguments import Options
    from mtlmon.cli.pump import EndTime
    from mtlmon.cli.relations import Output
    from mtlmon.monpoly import MonPolyPolicy
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.tables.columns.times import Times

__all__ = ["check_monpoly"]


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
    analysis = valid_analysis(policy.file, None)
    if options.explain_formula:
        from mtlmon.cli.checking import explanation

        seed = options.slice_seed or 0
        show(explanation(policy.file, None, slices=options.slices, slice_seed=seed))
        return 0
    check = MonPolyCheck(engine_for(policy.file, analysis, options), policy, options)
    log = open_log(options.log)
    skips = options.on_error == "skip"
    reader = LogReader(signature, policy.relations, log.name, skip_errors=skips)
    plain = PlainLines(signature, policy.relations, check.engine)
    rows = PointReader(reader, PointFeeder(check.engine), plain)
    work = RowWork(MonPolyLoop(rows, check, adds_last=not options.nonewlastts), log)
    verdicts = open_verdicts(options.output, {log.name: log.status}, options.formula_files)
    pump = Pump(work, verdicts, Signals(verdicts), progress_for(log.size, verdicts, options))

    def report(_status: int, _seconds: float) -> None:
        if reader.skipped:
            note(f"skipped {plural(reader.skipped, 'time-point')} that could not be read")
        check.report_end()
        log.close()

    def summary(seconds: float) -> str:
        counts = [("time-points", rows.point_count, "")]
        if reader.skipped:
            counts.append(("skipped", reader.skipped, "that cannot be read"))
        return check.summary(counts, "time-points", seconds)

    return run_to_end(
        pump,
        has_violation=lambda: options.negate and any(check.run.found_points),
        report=report,
        summary=summary,
        wants_summary=options.summary,
    )


def refuse_others(options: Options) -> None:
    """Raise Failure if an option does not work on MonPoly's files."""
    refused = {
        "--unit": options.unit not in (None, "s"),
        "--set": options.constants,
        "--end-time": options.end_time is not None,
        "--mode": options.mode != "local",
        "--explain": options.explain,
        "--report": options.report is not None,
        "--checkpoint": options.checkpoint is not None,
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


class MonPolyCheck(Check):
    """The run of an engine on a log of MonPoly.

    Args:
        engine: evaluates the formula.
        policy: the formula.
        options: the options of the command line.
    """

    def __init__(self, engine: Engine, policy: MonPolyPolicy, options: Options) -> None:
        self.columns = policy.columns
        super().__init__(engine, options, MemoryLimit(options.max_memory, COMMAND))

    def make_output(self, options: Options, times: Times | None) -> Output:
        if options.output_format == "monpoly" and options.verdicts != "none":
            return MonPolyOutput(self.plan, self.columns)
        return super().make_output(options, times)


class MonPolyLoop(RowLoop):
    """A loop that reads blocks of a log of MonPoly.

    Args:
        rows: reads the log.
        check: takes the time-points.
        adds_last: whether a last time-point follows the log.
    """

    def __init__(self, rows: PointReader, check: Check, *, adds_last: bool) -> None:
        super().__init__(rows, check)
        self.adds_last = adds_last

    def end(self, end_time: EndTime = None) -> None:
        if self.adds_last:
            self.check.run.end_with_point()
