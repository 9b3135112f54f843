"""Check policies with variables on text logs and tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol, cast

from mtlmon.drive.native import policy_label
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy.limits import PolicyCounts, tallies_of
from mtlmon.relational.analysis import valid_analysis, valid_keyed_file
from mtlmon.relational.atoms import (
    cell_word,
    key_fields,
    used_atoms,
)
from mtlmon.relational.input.native import DEFAULT_POINTS
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.output.native import AnswerLines
from mtlmon.relational.planning import plan
from mtlmon.relational.running import RelationalRun
from mtlmon.relational.vacuity import matched_by_policy, uncounted
from mtlmon.run.endings import note_untriggered
from mtlmon.run.failure import RunError
from mtlmon.run.policies import wants_triggered
from mtlmon.run.recognition import format_advice
from mtlmon.run.report import plural
from mtlmon.run.table_output import answer_output
from mtlmon.run.time_stamps import TimedAnswers, iso_times, time_texts
from mtlmon.support.snapshot_parts import damaged
from mtlmon.syntax.joined_text import source_at
from mtlmon.syntax.printer import written_name
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.checking.sources import EventBatch
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Tally
    from mtlmon.relational import Analysis
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.output.native import AnswerQueue
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.running import AnswerOutput
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.relational.slicing.statistics import Statistics
    from mtlmon.run.files import Writer
    from mtlmon.run.found_values import FoundValues
    from mtlmon.run.spec import Judging, Log, RunSpec
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.outputs import BatchOutput
    from mtlmon.tables.relation_traces import RelationTraces
    from mtlmon.tables.relations import RelationRows
    from mtlmon.tables.valuations import ValuationTable
    from mtlmon.tables.violations import Judged

    class Output(Protocol):
        """Takes answers and converts them to bytes."""

        @property
        def writer(self) -> Writer: ...
        def put(self, answers: AnswerBlock, /) -> None: ...
        def close(self) -> None: ...


__all__ = ["Check", "evaluable"]

# How many time-points are taken in at once in slices: waking up a thread takes 50 µs.
SLICED_POINTS = 1 << 14
STATE_PARTS = 5
"""How many parts the state of a check has."""


def evaluable(file: PolicyFile, options: RunSpec) -> tuple[PolicyFile, Analysis]:
    """Return the policies with those that have variables as the engine evaluates them.

    Also return what is known of these before a log is read.

    Args:
        file: the policies, at least one of which has variables.
        options: the options of the run.

    Raises:
        RunError: an option does not work with variables.
        MtlmonError: a policy cannot be evaluated.
    """
    check_options(file, options)
    # what is wrong whatever the log is, is said before it is opened
    if not options.log.is_table:
        require_no_key(file, options.log)
    file = valid_keyed_file(file, options.log.key_columns)
    analysis = valid_analysis(file, None)
    if options.judging.reports_vacuous:
        require_counted(analysis, plan(file, analysis, counts_triggered=True), options)
    return file, analysis


def check_options(file: PolicyFile, options: RunSpec) -> None:
    """Raise RunError if an option does not work with variables."""
    if options.judging.mode != "local":
        raise RunError(
            f"--mode {options.judging.mode} is for policies without variables: leave it out, as "
            "there are no equivalences between valuations"
        )


def require_no_key(file: PolicyFile, log: Log) -> None:
    """Raise RunError if a policy has a key, whose columns a text log does not have."""
    for policy in file.policies:
        if policy.is_first_order and policy.key:
            raise RunError(
                f"policy {policy.name} is per {', '.join(policy.key)}, but the log is read as "
                f"text: {format_advice(log)}"
            )


def require_no_conditions(file: PolicyFile, options: RunSpec) -> None:
    """Raise RunError if policies need the columns of a table, which a text log does not have."""
    if file.columns:
        from mtlmon.run.option_rules import require_no_columns

        require_no_columns(file, options)
    for name in used_atoms(file):
        relation = file.relations.get(name)
        if relation is not None and relation.condition is not None:
            where = source_at(file.text, relation.place, options.policies.name)
            raise RunError(
                f"{where} says which rows of a table are rows of {written_name(name)}, but the "
                f"log is read as text: {format_advice(options.log)}, or leave out the condition"
            )


def counts_left_sides(file: PolicyFile, options: RunSpec) -> bool:
    """Whether anything depends on how often left sides are matched in the whole log."""
    if options.judging.verdicts == "first":
        return False
    if options.log.signature is not None and not options.judging.negate:
        # the formula asks for valuations
        return False
    policies = [policy for policy in file.policies if policy.is_first_order]
    return wants_triggered(policies, options)


def require_counted(analysis: Analysis, made: Plan, options: RunSpec) -> None:
    """Raise RunError if a left side is not counted, as it cannot be evaluated by itself."""
    words = uncounted(analysis, made) if options.judging.reports_vacuous else None
    if words is not None:
        given = options.judging.vacuous_option
        raise RunError(
            f"{given} {words}, leave the option out, or write the policy in a file of its own"
        )


def engine_for(file: PolicyFile, analysis: Analysis, options: RunSpec) -> Engine:
    """Return the engine for the policies, in slices if the options ask for them.

    Raises:
        MtlmonError: a policy cannot be evaluated, or there are too many slices.
    """
    counts = counts_left_sides(file, options)
    goes_on = options.checkpoint.resume or (counts and options.checkpoint.path is not None)
    needs_slices = goes_on or options.judging.write_statistics is not None
    if (options.judging.slices or 1) == 1 and not (options.judging.slices and needs_slices):
        # slices can go on from any other number of them, one engine only from one engine
        made = plan(file, analysis, counts_triggered=counts)
        require_counted(analysis, made, options)
        return RelationalEngine(made, made.texts)
    from mtlmon.relational.slicing import plan_slices
    from mtlmon.relational.slicing.engine import SlicedEngine

    assert options.judging.slices is not None
    slicing = plan_slices(
        file,
        analysis,
        options.judging.slices,
        seed=options.judging.slice_seed or 0,
        counts_triggered=counts,
        statistics=known_statistics(options),
    )
    for one in slicing.policies[: slicing.policy_count]:
        if one.remark is not None:
            name = "" if one.name is None else f" {visible(one.name)}"
            options.host.note(
                f"{'find' if one.is_find else 'policy'}{name} runs in one slice: {one.remark}"
            )
    engine = SlicedEngine(
        file,
        analysis,
        slicing,
        options.limits.threads,
        # with a lateness, states from different times are compared
        rebalances=options.times.lateness is None,
    )
    require_counted(analysis, engine.plan, options)
    if options.judging.write_statistics is not None:
        from mtlmon.relational.slicing.statistics import RowSample

        engine.sample = RowSample()
    return engine


def known_statistics(options: RunSpec) -> Statistics | None:
    """Return what is known of the log before it is read, or None.

    Raises:
        RunError, MtlmonError: the file cannot be read, or has no statistics.
    """
    path, slices = options.judging.statistics, options.judging.slices
    if path is None:
        return None
    from mtlmon.relational.slicing.statistics import read_statistics

    try:
        return read_statistics(path, slices or 1)
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from None


def write_sample(engine: object, options: RunSpec) -> None:
    """Write the statistics of the log that an engine with slices has read, if they are wanted.

    Raises:
        RunError: the file cannot be written.
    """
    path = options.judging.write_statistics
    sample = getattr(engine, "sample", None)
    if path is None or sample is None:
        return
    try:
        sample.write(path)
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from None


def limit_engine(options: RunSpec, engine: Engine) -> None:
    """Let an engine keep the limits that the options set."""
    engine.skips_overflows = options.log.on_error == "skip"
    if options.limits.max_rows is not None:
        engine.most_rows = options.limits.max_rows
        engine.limit_name = "--max-rows"


def points_at_once(judging: Judging) -> int:
    """How many time-points are read at once; more if threads wait for each other then."""
    return SLICED_POINTS if (judging.slices or 1) > 1 else DEFAULT_POINTS


class Check:
    """The run of an engine, and what its answers are written to.

    Args:
        engine: evaluates the policies.
        options: the options of the run.
        memory: the memory limit of the run.
        times: the log's notation of times, or None if it has the time-stamps.
        find: returns what takes the answers and keeps violations, if these are wanted.
        queue: takes the answers instead of the output, until the verdicts of policies without
            variables have come as far.
        output: the output, which others write to as well; by default, one of its own.
        key_columns: the columns of keys that lines have; by default, those of the policies.
        analysis: what is known of the policies.

    Attributes:
        taker: what takes the answers at last: the output, or what keeps violations before it.
    """

    def __init__(
        self,
        engine: Engine,
        options: RunSpec,
        memory: MemoryLimit,
        analysis: Analysis,
        times: Times | None,
        find: Callable[[Check], FoundValues],
        queue: AnswerQueue | None = None,
        output: Output | None = None,
        key_columns: Sequence[str] | None = None,
    ) -> None:
        self.plan = engine.plan
        self.engine = engine
        self.analysis = analysis
        self.has_others = queue is not None
        self.key_columns = key_columns
        self.options = options
        self.point_rows: PointRows | None = None
        # lines of MonPoly's logs are no time-points
        has_rows = options.log.signature is None
        if has_rows and (options.tracks_rows or options.output.for_people):
            from mtlmon.checking.point_rows import PointRows

            self.point_rows = PointRows(by_stamp=options.log.time_points == "stamp")
        self.queue = queue
        limit_engine(options, engine)
        if output is None and options.output.for_people:
            from mtlmon.run.people import PeopleAnswers

            texts, policies = time_texts(options, times), [one.policy for one in analysis.policies]
            output = PeopleAnswers(self.plan, policies, texts, options, self.point_rows)
        if output is None:
            output = self.make_output(options, times)
        self.output = output
        self.found: FoundValues | None = None
        self.taker: AnswerOutput = self.output
        if options.reporting.needs_violations:
            self.taker = self.found = find(self)
        self.run = RelationalRun(
            self.engine,
            self.taker if queue is None else queue,
            verdicts=options.judging.verdicts,
            memory=memory,
            has_others=self.has_others,
        )

    @property
    def key_fields(self) -> list[list[int | None]]:
        """For each policy and each column of keys, the variable that is in its field, or None."""
        return key_fields(self.plan, self.key_columns)

    def make_output(self, options: RunSpec, times: Times | None) -> Output:
        """Return what takes the answers, in the format that the options ask for."""
        if options.output.taker is not None:
            return options.output.taker
        names = [one.name for one in self.plan.named_policies]
        variables = [
            tuple(zip(one.variables, map(cell_word, one.kinds), strict=True))
            for one in self.plan.named_policies
        ]
        # The run itself finds the first ones.
        verdicts = "all" if options.judging.verdicts == "first" else options.judging.verdicts
        if options.output.make_batches is None and (
            options.output.format == "text" or verdicts == "none"
        ):
            labels = [b"" if name is None else policy_label(name) for name in names]
            lines = AnswerLines(
                labels, variables, self.plan.texts, self.key_fields, verdicts=verdicts
            )
            output: Output = lines
            if options.output.rows and verdicts != "none":
                from mtlmon.run.row_lines import RowLines

                assert self.point_rows is not None
                output = RowLines(lines, self.point_rows)
            texts = iso_times(options, times)
            if texts is None:
                return output
            return TimedAnswers(output, (names[0] is not None) + len(self.key_fields[0]), texts)
        from mtlmon.tables.valuations import valuation_table

        tracked = self.point_rows if options.output.rows else None
        return answer_output(
            valuation_table(self.plan, times, options.judging.verdicts, tracked), options.output
        )

    def rows_of(self, traces: RelationTraces, tables: Sequence[KeyTable | None]) -> RelationRows:
        """Return what makes time-points of batches, whose keys have numbers in tables."""
        rows, self.run.names = traces.rows(
            self.plan,
            self.engine.points,
            tables,
            by_stamp=self.options.log.time_points == "stamp",
        )
        return rows

    def note_rows(self, batch: EventBatch) -> None:
        """If rows are wanted, note those of a batch before its time-points are checked."""
        if self.point_rows is not None:
            self.point_rows.note(batch)
            if not self.has_others:
                # the others note what they keep of the same rows
                self.run.memory.note("pending", self.point_rows.held_bytes)

    def forget_rows(self) -> None:
        """Forget the rows that no answer is about any more, once all answers have been taken."""
        if self.point_rows is not None and not (self.queue is not None and len(self.queue)):
            self.point_rows.forget(self.run.settled_points)

    def report_end(self) -> None:
        """Mention what the answers do not show, and write statistics."""
        write_sample(self.engine, self.options)
        note_untriggered(self, self.options)
        if self.engine.overflows:
            self.options.host.note(
                f"{plural(self.engine.overflows, 'value')} left out, as integers overflow"
            )
        if self.run.open_first is not None and not self.has_others:
            time_stamp, offset = self.run.open_first
            self.options.host.note(
                f"{time_stamp}:{offset} is violated, but a time-point before it is undecided at "
                "the end of the log (see --end-time)"
            )

    @property
    def tallies(self) -> list[Tally]:
        """What is counted of each policy so far."""
        run, policies = self.run, [one.policy for one in self.analysis.policies]
        counts = []
        for policy, answered, found in zip(
            policies, run.answered_points, run.found_points, strict=True
        ):
            others = answered - found
            true, false = (found, others) if policy.is_find else (others, found)
            counts.append(PolicyCounts(run.point_count, true, false))
        matched = matched_by_policy(self.engine)
        triggered = [matched.get(number) for number in range(len(policies))]
        return tallies_of(policies, counts, triggered, of_decided=True)

    def judged(self) -> Judged:
        """Return what the rows of its table are about."""
        from mtlmon.tables.violations import Judged

        table = cast("ValuationTable", cast("BatchOutput[AnswerBlock]", self.output).table)
        return Judged([one.policy for one in self.analysis.policies], None, table)

    def snapshot(self) -> list[bytes]:
        """Return the state for `restore`; all time-points have been taken in."""
        found = None if self.found is None else self.found.snapshot()
        rows = b"" if self.point_rows is None else self.point_rows.snapshot()
        return [*self.run.snapshot(), json.dumps(found).encode(), rows]

    def restore(self, state: Sequence[bytes]) -> None:
        """Go on from the state of another check.

        Raises:
            SnapshotError: it is of other policies, or none.
        """
        if len(state) != STATE_PARTS:
            raise damaged()
        *run, found, rows = state
        self.run.restore(run)
        if self.point_rows is not None:
            self.point_rows.restore(rows)
        if self.found is not None:
            self.found.restore(json.loads(found))
