"""Monitor a text log for a single policy; native code converts text to lines of verdicts."""

from __future__ import annotations

from mtlmon._core import Monitor
from mtlmon.drive.native import TextMonitor, policy_label
from mtlmon.engine.native import MemoryLimit
from mtlmon.run.files import LogFile, VerdictFile, open_log, open_verdicts
from mtlmon.run.pump import MonitoredText, Pump
from mtlmon.run.report import (
    name_list,
    note_mode,
    note_slow,
    note_unit,
    report_end,
    summary,
)
from mtlmon.run.running import run_to_end
from mtlmon.text.head import LogHead
from mtlmon.text.native import MAX_LABEL_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mtlmon.policy.limits import PolicyCounts
    from mtlmon.run.host import Signals
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.syntax.formula import Formula

__all__ = ["can_monitor", "monitor_log"]

# With less, a second thread does not get the memory for events that it scans ahead.
PLENTY_OF_MEMORY = 64 << 20


def can_monitor(name: str | None, formula: Formula, options: RunSpec) -> bool:
    """Whether `monitor_log` supports the options; otherwise use `check_logs`.

    Args:
        name: the name of the policy, if it has one.
        formula: the formula of the policy.
        options: the options of the run.
    """
    if (
        options.reporting.needs_violations
        or options.output.rows
        or options.output.for_people
        or options.output.time_stamps
    ):
        return False
    if options.judging.fail_on_vacuous or options.judging.fail_on is not None:
        return False
    if (
        name is not None
        and options.checkpoint.path is None
        and options.host.wants_summary(options.reporting.summary)
    ):
        # The summary of a named policy says how often the left side of an implication held.
        from mtlmon.analysis.antecedent import antecedent_of

        if antecedent_of(formula) is not None:
            return False
    return name is None or len(policy_label(name, line_format(options))) <= MAX_LABEL_BYTES


def line_format(options: RunSpec) -> Literal["text", "jsonl"]:
    """Return the format of the lines of verdicts."""
    return "jsonl" if options.output.format == "jsonl" else "text"


def monitor_log(name: str | None, formula: Formula, options: RunSpec) -> Steps:
    """Monitor the log; return the exit status.

    Args:
        name: the name of the policy, with which every line begins, or None.
        formula: the formula of the policy.
        options: options that `can_monitor` accepts.

    Raises:
        RunError: a file cannot be read or written.
        ClosedPipe: the reader of the verdicts has closed the pipe.
        MtlmonError: a line cannot be read, or the engine has reached a limit.
    """
    monitor = Monitor(formula, options.judging.mode, bdd=options.judging.bdd)
    if monitor.mode != options.judging.mode:
        what = f"the future of {name_list((name,))}" if name is not None else "the formula's future"
        note_mode(what, [formula], options, monitor.mode)
    note_slow([(name, formula)], options)
    order = None
    if options.times.reorders or options.times.sort:
        from mtlmon.run.late_rows import text_order

        order = text_order(options)
    log = open_log(options.log.path, options.log.input, order)
    verdicts = open_verdicts(
        options.output.path,
        {log.name: log.status},
        options.policies.files,
        keeps=options.checkpoint.path is not None,
    )
    text_monitor = TextMonitor(
        monitor,
        path=log.name,
        verdicts=options.judging.verdicts,
        resolve=options.judging.resolve,
        skip_errors=options.log.on_error == "skip",
        label=policy_label(name, line_format(options)),
        format=line_format(options),
        memory=memory_limit(formula, options),
    )
    if order is not None:
        text_monitor.scanner.order = order.lines
        order.memory = text_monitor.memory
    signals = options.host.signals(
        verdicts, writer=text_monitor.writer, is_held=options.checkpoint.path is not None
    )
    options.host.take_judging(Counted(name, text_monitor))
    pump, work = make_pump(text_monitor, log, verdicts, signals, options)
    work.head = LogHead(log.name, monitor.atoms)

    def report(_status: int, _seconds: float) -> None:
        if order is not None:
            order.note_refused(options)
        note_unit(text_monitor.scanner.last_time_stamp, options.times.unit, options.host)
        report_end(
            text_monitor,
            work.head,
            options.host,
            is_complete=work.is_complete,
            is_resolved=options.judging.resolve,
        )

    return (
        yield from run_to_end(
            pump,
            host=options.host,
            has_violation=lambda: text_monitor.false_count > 0,
            report=report,
            summary=lambda seconds: summary(
                text_monitor, seconds, pump.events_before, 0 if order is None else order.refused
            ),
            wants_summary=options.reporting.summary,
            end_time=options.times.end_time,
        )
    )


class Counted:
    """Counts the time-points of the policy."""

    def __init__(self, name: str | None, monitor: TextMonitor) -> None:
        self.name = name
        self.monitor = monitor

    @property
    def counts(self) -> dict[str | None, PolicyCounts]:
        from mtlmon.policy.limits import PolicyCounts

        monitor = self.monitor
        true, false = monitor.true_count, monitor.false_count
        return {self.name: PolicyCounts(true + false + monitor.undecided_count, true, false)}


def memory_limit(formula: Formula, options: RunSpec) -> MemoryLimit:
    """Return the memory limit of the run, in which the formula is already counted."""
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    if options.limits.max_memory is not None:
        from mtlmon.engine.memory_limit import formula_bytes

        memory.note("formula", formula_bytes(formula))
    return memory


def make_pump(
    monitor: TextMonitor,
    log: LogFile,
    verdicts: VerdictFile,
    signals: Signals,
    options: RunSpec,
) -> tuple[Pump, MonitoredText]:
    """Return a pump with or without checkpoints, as the options require, and its work.

    Raises:
        RunError: the files are not suitable for checkpoints.
    """
    progress = options.host.progress(log.size, verdicts, options)
    if options.checkpoint.path is None:
        work = MonitoredText(monitor, log, threads(options))
        return Pump(work, verdicts, signals, progress), work
    from mtlmon.run.checkpointing import CheckpointingPump
    from mtlmon.run.text_checkpoints import CheckpointedText

    checkpointed = CheckpointedText(monitor, log, threads(options))
    return CheckpointingPump(checkpointed, verdicts, signals, progress, options), checkpointed


def threads(options: RunSpec) -> int | None:
    """Return how many threads may be used; None means two if a processor is idle."""
    if options.limits.threads is None and options.limits.max_memory is not None:
        return 1 if options.limits.max_memory < PLENTY_OF_MEMORY else None
    return options.limits.threads
