"""Check a log of MonPoly against a formula of its language."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from mtlmon.engine.native import MemoryLimit
from mtlmon.monpoly import LogReader, read_policy, read_signature
from mtlmon.monpoly.plain import PlainLines
from mtlmon.monpoly.points import PointFeeder, PointReader
from mtlmon.monpoly.policies import UNIT
from mtlmon.monpoly.writing import verdict_lines
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.input.native import DEFAULT_POINTS
from mtlmon.relational.native import PointBlock
from mtlmon.run.failure import RunError
from mtlmon.run.files import position_of_input, read_formula
from mtlmon.run.policies import check_source
from mtlmon.run.preparing import formula_texts, with_contents
from mtlmon.run.relation_judge import RelationJudge
from mtlmon.support.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import stat_result

    from mtlmon.checking.text_logs import TextLog
    from mtlmon.monpoly import MonPolyPolicy
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.evidence import Known, Reader
    from mtlmon.run.correcting_relations import LateRelations
    from mtlmon.run.pump import EndTime
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents

__all__ = ["check_monpoly", "prepared_monpoly"]


def prepared_monpoly(options: RunSpec) -> tuple[MonPolyPolicy, RunSpec]:
    """Read the formula and the signature of its log, and settle what MonPoly's files mean.

    Args:
        options: what is asked for, with a signature and the formula or its file.

    Returns:
        The formula and the options.

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
    valid_analysis(policy.file, None)
    return policy, options


def check_monpoly(policy: MonPolyPolicy, options: RunSpec) -> Steps:
    """Check the log; return the exit status.

    Args:
        policy: the formula.
        options: what is asked for, as `prepared_monpoly` returns it.

    Raises:
        RunError: a file cannot be read or written.
        ClosedPipe: the reader of the verdicts has closed the pipe.
        MtlmonError: the formula or the log is invalid.
    """
    if options.times.lateness is not None:
        from mtlmon.run.correcting import correct, require_correctable

        require_correctable(policy.file, options)
        return correct(
            policy.file,
            options,
            lambda memory: late_relations(policy, options, memory),
            lambda again: check_monpoly(policy, again),
        )
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    return check_source(None, policy.file, options, memory, MonPolyJudge(policy, options, memory))


def late_relations(policy: MonPolyPolicy, options: RunSpec, memory: MemoryLimit) -> LateRelations:
    """Return what checks a formula on a log of MonPoly whose time-points may come late."""
    from mtlmon.run.correcting_relations import LateRelations

    class LateMonPoly(LateRelations):
        """Reads the time-points of such a log, whose end is one more."""

        ends_with_point = not options.log.nonewlastts

        def read_text(self, name: str, marks: Sequence[str]) -> MonPolyEvents:
            skips = options.log.on_error == "skip"
            self.points = PointBlock(array("I", self.made.atoms))
            found = MonPolyEvents(policy, name, self.made, self.points, skips=skips, is_late=True)
            found.rows.keeps_text = options.log.given is not None
            return found

    return LateMonPoly(policy.file, options, memory)


class MonPolyEvents:
    """Reads events as `RowEvents` does, without letters.

    Args:
        policy: the formula.
        name: the name of the log in messages.
        made: the plan of the formula.
        points: gets the time-points.
        skips: whether time-points that cannot be read are left out.
        is_late: whether time-points may come in any order.

    Attributes:
        rows: reads the log into time-points.
        scanner: what knows what was read: this object.
        most_events: how many events are read at once.
    """

    atoms = absent = ()
    lines = b""
    held_bytes = 0
    most_events = DEFAULT_POINTS

    def __init__(
        self,
        policy: MonPolyPolicy,
        name: str,
        made: Plan,
        points: PointBlock,
        *,
        skips: bool,
        is_late: bool = False,
    ) -> None:
        given = policy.signature, policy.relations
        self._log = LogReader(*given, name, skip_errors=skips)
        self._points = points
        # lines that native code reads are in the order of time
        plain = None if is_late else PlainLines(*given, made, points)
        self.rows = PointReader(self._log, PointFeeder(made, points), plain)
        self.scanner = self
        self.load = self.rows.load
        self.load_end = self.rows.load_end
        self.snapshot = self.rows.snapshot
        self.restore = self.rows.restore

    @property
    def last_time_stamp(self) -> int:
        """The last time-stamp that was read."""
        return self.rows.last_time_stamp

    @property
    def skipped_count(self) -> int:
        """The number of time-points that were left out."""
        return self._log.skipped

    def number_lines(self) -> None:
        """Do nothing: time-points are no lines."""

    def pass_time(self, time_stamp: int) -> None:
        """Do nothing: a time-point ends where the next one begins."""

    def read(self) -> tuple[bytes, bytes]:
        """Return the time-stamps of the next time-points of the block, and no letters.

        Raises:
            LogError: the next time-point cannot be read.
        """
        while self.rows.read(self.most_events) and not len(self._points):
            pass
        return self._points.time_stamps(), b""


def with_last_point(read: Reader) -> Reader:
    """Let a last time-point without rows follow what is read."""

    def read_all(made: Plan, points: PointBlock) -> Iterator[Known | None]:
        yield from read(made, points)
        points.add(LARGEST, ())
        yield None

    return read_all


def refuse_others(options: RunSpec) -> None:
    """Raise RunError if an option does not work on MonPoly's files; their unit is the second."""
    given = {
        "unit": options.times.unit not in (None, "s"),
        "set": options.policies.constants,
        "end-time": options.times.end_time is not None,
        "mode": options.judging.mode != "local",
        "idle": options.times.idle is not None,
        "rows": options.output.rows,
        "context": options.reporting.has_context,
    }
    for name, is_given in given.items():
        if is_given:
            raise RunError(refused(f"{name}, signature"))
    if options.reporting.explain and not options.judging.negate:
        raise RunError("--explain explains violations: add --negate if the formula is a policy")
    if options.judging.reports_vacuous and not options.judging.negate:
        option = options.judging.vacuous_option
        raise RunError(f"{option} is about policies: add --negate if the formula is one")
    if options.log.is_table:
        raise RunError("--signature is for text logs of MonPoly, not for tables")
    if len(options.log.paths) > 1:
        raise RunError(f"several text logs ({', '.join(options.log.paths)}): name one at a time")


class MonPolyJudge(RelationJudge):
    """Checks a formula on a log of MonPoly.

    Args:
        policy: the formula.
        options: the options of the run.
        memory: the memory limit of the run.
    """

    def __init__(self, policy: MonPolyPolicy, options: RunSpec, memory: MemoryLimit) -> None:
        super().__init__(policy.file, options, memory, position_of_input(options.log), None)
        self.policy = policy

    def open(self, source: TextLog | TableEvents, logs: Mapping[str, stat_result]) -> None:
        source.row_name = "time-point"
        if self.options.output.format == "monpoly" and self.options.judging.verdicts != "none":
            self.output = verdict_lines(self.prepared().plan, self.policy.columns)
        super().open(source, logs)

    def events_for(
        self, made: Plan, points: PointBlock, name: str, marks: Sequence[str] | None = None
    ) -> MonPolyEvents:
        skips = self.options.log.on_error == "skip"
        found = MonPolyEvents(self.policy, name, made, points, skips=skips)
        found.rows.keeps_text = self.options.log.given is not None
        return found

    def reader(self) -> Reader:
        read = super().reader()
        return read if self.options.log.nonewlastts else with_last_point(read)

    def end(self, end_time: EndTime) -> Iterator[None]:
        if not (self.is_stopped or self.options.log.nonewlastts):
            self.known().run.end_with_point()
            yield
