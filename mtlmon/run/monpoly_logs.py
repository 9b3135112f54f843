"""Check a log of MonPoly against a formula of its language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.engine.native import MemoryLimit
from mtlmon.monpoly import LogReader, read_policy, read_signature
from mtlmon.monpoly.plain import PlainLines
from mtlmon.monpoly.points import PointFeeder, PointReader
from mtlmon.monpoly.policies import UNIT
from mtlmon.monpoly.writing import MonPolyOutput
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.analysis import valid_analysis
from mtlmon.run.failure import RunError
from mtlmon.run.files import open_log, position_of_input, read_formula, verdicts_of
from mtlmon.run.late_rows import text_order
from mtlmon.run.preparing import formula_texts, with_contents
from mtlmon.run.relations import Check, engine_for, tell_findings
from mtlmon.run.report import plural
from mtlmon.run.row_work import RowLoop, row_pump
from mtlmon.run.running import run_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.monpoly import MonPolyPolicy
    from mtlmon.relational import Analysis
    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.evidence import Known, Reader
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.run.late_rows import TextOrder
    from mtlmon.run.pump import EndTime
    from mtlmon.run.relations import Output
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.columns.times import Times

__all__ = ["check_monpoly", "prepared_monpoly"]


def prepared_monpoly(options: RunSpec) -> tuple[MonPolyPolicy, Analysis, RunSpec]:
    """Read the formula and the signature of its log, and settle what MonPoly's files mean.

    Args:
        options: what is asked for, with a signature and the formula or its file.

    Returns:
        The formula, what is known of it, and the options.

    Raises:
        RunError: a file cannot be read, or an option does not work here.
        MtlmonError: the formula or the signature is invalid.
    """
    path = options.log.signature
    assert path is not None
    refuse_others(options)
    options = with_contents(
        options.having(unit=UNIT, verdicts=options.judging.given_verdicts or "false")
    )
    ((text, source),) = formula_texts(options.policies)
    signature = read_signature(read_formula(path), path)
    policy = read_policy(text, signature, source, negate=options.judging.negate)
    return policy, valid_analysis(policy.file, None), options


def check_monpoly(policy: MonPolyPolicy, analysis: Analysis, options: RunSpec) -> Steps:
    """Check the log; return the exit status.

    Args:
        policy: the formula.
        analysis: what is known of it.
        options: what is asked for, as `prepared_monpoly` returns it.

    Raises:
        RunError: a file cannot be read or written.
        ClosedPipe: the reader of the verdicts has closed the pipe.
        MtlmonError: the formula or the log is invalid.
    """
    engine = engine_for(policy.file, analysis, options)
    check = MonPolyCheck(engine, policy, options)
    options.host.take_judging(check)
    start_of_input = position_of_input(options.log)
    order = text_order(options)
    if order is not None:
        order.memory = check.run.memory
    log = open_log(options.log.path, order)
    logs = {log.name: log.status}
    if check.findings is not None:
        from mtlmon.run.findings import check_told

        check_told(options, logs)
    made, points = check.engine.plan, check.engine.points
    reader = log_reader(policy, log.name, options, order)
    rows = point_reader(policy, reader, made, points)
    keeps = options.checkpoint.path is not None
    verdicts = verdicts_of(options, logs, keeps=keeps)
    signals = options.host.signals(verdicts, is_held=keeps)
    progress = options.host.progress(log.size, verdicts, options)
    loop = MonPolyLoop(rows, check, adds_last=not options.log.nonewlastts)
    _, pump = row_pump(loop, log, rows, verdicts, signals, progress, options)

    def report(status: int, seconds: float) -> None:
        if reader.skipped:
            count = plural(reader.skipped, "time-point")
            options.host.note(f"skipped {count} that could not be read")
        if order is not None:
            order.note_refused(options)
        check.report_end()
        if check.findings is None:
            return
        from mtlmon.run.relation_readers import block_reader

        def rows_for(made: Plan, points: PointBlock, name: str) -> PointReader:
            return point_reader(policy, log_reader(policy, name, options, order), made, points)

        read = block_reader(rows_for, options, rows.point_count, start_of_input)
        if not options.log.nonewlastts:
            read = with_last_point(read)
        facts = rows.point_count, reader.skipped
        end = status, seconds, signals
        tell_findings(check, policy.file, analysis, read, options, logs, facts, end)

    def summary(seconds: float) -> str:
        counts = [("time-points", rows.point_count, "")]
        if reader.skipped:
            counts.append(("skipped", reader.skipped, "that cannot be read"))
        if order is not None and order.refused:
            counts.append(("too late", order.refused, "lines that were not checked"))
        return check.summary(counts, "time-points", seconds)

    return (
        yield from run_to_end(
            pump,
            host=options.host,
            has_violation=lambda: options.judging.negate and any(check.run.found_points),
            report=report,
            summary=summary,
            wants_summary=options.reporting.summary,
        )
    )


def log_reader(
    policy: MonPolyPolicy, name: str, options: RunSpec, order: TextOrder | None
) -> LogReader:
    """Return what reads the log of this name, whose lines may be put into the order of time."""
    skips = options.log.on_error == "skip"
    lines = None if order is None else order.lines
    return LogReader(policy.signature, policy.relations, name, skip_errors=skips, order=lines)


def point_reader(
    policy: MonPolyPolicy, reader: LogReader, made: Plan, points: PointBlock
) -> PointReader:
    """Return what fills the time-points of a plan."""
    plain = PlainLines(policy.signature, policy.relations, made, points)
    return PointReader(reader, PointFeeder(made, points), plain)


def with_last_point(read: Reader) -> Reader:
    """Let a last time-point without rows follow what is read."""

    def read_all(made: Plan, points: PointBlock) -> Iterator[Known | None]:
        yield from read(made, points)
        points.add(LARGEST, ())
        yield None

    return read_all


def refuse_others(options: RunSpec) -> None:
    """Raise RunError if an option does not work on MonPoly's files; their unit is the second."""
    refused = {
        "--unit": options.times.unit not in (None, "s"),
        "--set": options.policies.constants,
        "--end-time": options.times.end_time is not None,
        "--mode": options.judging.mode != "local",
        "--idle": options.times.idle is not None,
        "--rows": options.output.rows,
        "--context": options.reporting.has_context,
    }
    reasons = {
        "--unit": "time-stamps are seconds there",
        "--end-time": "--nonewlastts leaves the end of the log open",
        "--idle": "a time-point ends where the next one begins, so that a line with a time-stamp "
        "alone, @TS, lets time pass",
    }
    for name, is_given in refused.items():
        if is_given:
            reason = f": {reasons[name]}" if name in reasons else ""
            raise RunError(f"{name} does not work with --signature{reason}")
    if options.reporting.explain and not options.judging.negate:
        raise RunError("--explain explains violations: add --negate if the formula is a policy")
    if options.log.is_table:
        raise RunError("--signature is for text logs of MonPoly, not for tables")
    if len(options.log.paths) > 1:
        raise RunError(f"several text logs ({', '.join(options.log.paths)}): name one at a time")


class MonPolyCheck(Check):
    """The run of an engine on a log of MonPoly.

    Args:
        engine: evaluates the formula.
        policy: the formula.
        options: the options of the run.
    """

    def __init__(self, engine: Engine, policy: MonPolyPolicy, options: RunSpec) -> None:
        self.columns = policy.columns
        memory = MemoryLimit(options.limits.max_memory, options.option_names)
        super().__init__(engine, options, memory)

    def make_output(self, options: RunSpec, times: Times | None) -> Output:
        if options.output.format == "monpoly" and options.judging.verdicts != "none":
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
