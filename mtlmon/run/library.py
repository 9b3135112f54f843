"""`mtlmon.check`: runs for programs."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Unpack, cast
from weakref import finalize

from mtlmon.engine.guarding import Guard, guarded
from mtlmon.errors import FormulaError, LogError, MtlmonError, RunError
from mtlmon.run.answers import Answer, Frames, one_table
from mtlmon.run.explaining import Explanations
from mtlmon.run.failure import VIOLATION, ClosedPipe
from mtlmon.run.host import Host
from mtlmon.run.keywords import in_python, is_path, require_consistent, spec_of
from mtlmon.run.preparing import adopted, prepared
from mtlmon.run.recognition import line_advice
from mtlmon.run.steps import require_runnable, steps_of
from mtlmon.support.copies import NotCopied
from mtlmon.support.html_tables import html_table
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.syntax.conditions import written_with_conditions
from mtlmon.syntax.formula import Formula

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import PolicyCounts
    from mtlmon.policy.predicates.own_machines import Machine
    from mtlmon.run.followed_file import Follower
    from mtlmon.run.host import Counting, Judging
    from mtlmon.run.keywords import CheckOptions
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.first_violations import FirstViolations
    from mtlmon.tables.formats.files import Tables
    from mtlmon.tables.violations import Judged

    Policies = (
        PolicyFile
        | Formula
        | str
        | os.PathLike[str]
        | Sequence[str | os.PathLike[str]]
        | Mapping[str, type[Machine]]
    )

__all__ = ["Program", "Run", "advised", "check", "run_of", "started", "with_events"]


class Program(Host):
    """Collects what a run tells a program, with options as keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.summary: Callable[[], str] | None = None
        # the policies, once the log is open; None before
        self.judging: Counting | Judging | None = None
        # what follows the log; None if that is not followed
        self.follower: Follower | None = None

    def note(self, message: str) -> None:
        super().note(in_python(message))

    def take_summary(self, make: Callable[[], str], *, is_wanted: bool | None) -> None:
        # not that of a second look at the log, for explanations
        self.summary = self.summary or make

    def take_judging(self, judging: Counting | Judging) -> None:
        self.judging = judging


class _Found(Explanations):
    """Collects explanations as facts."""

    def __init__(self, host: Host) -> None:
        super().__init__(None, host)
        self.is_json = True
        self.facts: list[dict[str, Any]] = []

    def add_facts(self, facts: Any) -> None:
        self.facts.append(dict(facts))


class _End:
    """How a run has ended: with an exit status, or an error; with neither, it has not.

    Attributes:
        first: keeps the first violations; None before the first answers.
    """

    status: int | None = None
    error: BaseException | None = None
    first: FirstViolations | None = None


def _answers(
    steps: Steps, spec: RunSpec, host: Program, end: _End
) -> Generator[pa.RecordBatch, None, None]:
    """Take the steps of a run, and hand over its answers.

    This knows nothing of the `Run`, which closes its files once nobody has it any more: it would
    have to wait for the garbage collector if they knew each other.
    """

    def taken() -> Iterator[pa.RecordBatch]:
        for batch in () if host.output is None else host.output.take():
            # violations that are corrected may go
            if host.judging is not None and spec.times.lateness is None:
                if end.first is None:
                    from mtlmon.tables.first_violations import FirstViolations

                    end.first = FirstViolations()
                end.first.note(batch)
            yield batch

    try:
        while end.status is None:
            try:
                with advised(spec):
                    next(steps)
            except StopIteration as stop:
                end.status = stop.value
            except BaseException as error:
                end.error = error
                if isinstance(error, Exception):
                    # what was decided before the error
                    yield from taken()
                raise
            yield from taken()
    finally:
        steps.close()
        if host.follower is not None:
            host.follower.close()


class Run(Frames, NotCopied):
    """A check of policies on a log: an iterator of answers, which can be read once.

    The log is read as answers are asked for. A run is a context manager; leaving it closes the
    files.
    """

    def __init__(self, spec: RunSpec, steps: Steps, host: Program, found: _Found | None) -> None:
        self._guard = Guard("run")
        self._spec = spec
        self._host = host
        self._found = found
        self._end = _End()
        self._is_closed = False
        self._batches = _answers(steps, spec, host, self._end)
        if host.follower is not None:
            # also if nobody asks for answers
            finalize(self, host.follower.close)
        # of the batch of which answers are taken one by one, those that are left
        self._batch: pa.RecordBatch | None = None
        self._rows: Iterator[dict[str, Any]] = iter(())
        self._place = 0

    @property
    def status(self) -> int | None:
        """The exit status that the command has; None until the run has ended.

        It is 0, or 1 if a policy is violated more often than it may be.
        """
        return self._end.status

    def __iter__(self) -> Run:
        return self

    @guarded
    def __next__(self) -> Answer:
        while (row := next(self._rows, None)) is None:
            self._batch = next(self._batches)
            self._rows, self._place = iter(self._batch.to_pylist()), 0
        self._place += 1
        return Answer(row)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @guarded
    def close(self) -> None:
        """Close all files; no more answers come."""
        self._batches.close()
        if self._host.follower is not None:
            self._host.follower.close()
        self._batch, self._rows = None, iter(())
        self._is_closed = True

    def end_log(self) -> None:
        """Let a log that is followed end with what the file has now; any thread may call this.

        Raises:
            RunError: the log is not followed: add follow=True.
        """
        if self._host.follower is None:
            raise RunError("end_log() is for a log that is followed: add follow=True")
        self._host.follower.end()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the answers that are left as record batches, as they become known."""
        return iter(self._guarded_batch, None)

    @guarded
    def _guarded_batch(self) -> pa.RecordBatch | None:
        return self._next_batch()

    def _next_batch(self) -> pa.RecordBatch | None:
        """Return the next answers that are left; None if there are no more."""
        batch, self._batch, self._rows = self._batch, None, iter(())
        if batch is not None and self._place < batch.num_rows:
            return batch.slice(self._place)
        return next(self._batches, None)

    def finish(self) -> Run:
        """Read the log to its end, and drop the answers that are left; return the run.

        With `output=`, the answers are in that file.

        Raises:
            RunError: the run was closed before its end, or has ended with an error.
        """
        for _ in self.batches():
            pass
        self._require_whole()
        return self

    def _require_whole(self) -> None:
        """Raise RunError if the log has not been read to its end, and never will be."""
        if self.status is not None:
            return
        if (error := self._end.error) is not None:
            what = str(error) or type(error).__name__
            raise RunError(f"the run has ended with an error: {what}") from error
        raise RunError("the run was closed before its end: check the log again to know the rest")

    @property
    @guarded
    def counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, by the name of the policy.

        Equivalents count like the time-point that they are equivalent to. Time-points of policies
        with variables are false if some values violate the policy there; those of a `find` are
        true if some values fulfil it.

        With a lateness, these are the counts as verdicts are now.

        Raises:
            RunError: with a lateness, verdicts may be equivalent to others, unless `resolve=True`.
        """
        judging = self._host.judging
        with advised(self._spec):
            return {} if judging is None else judging.counts

    @property
    @guarded
    def schema(self) -> pa.Schema:
        """The columns of the answers; they are known once some have been read, or all rows.

        Raises:
            RunError: the log has not been read so far, or the answers are in a file.
        """
        output = self._host.output
        if output is None:
            raise RunError("the columns of the answers are known once rows have been read")
        return output.schema or output.table.schema

    @guarded
    def violations(self, frame: Any) -> Any:
        """Return the rows of a table that violate policies, in the order of the verdicts.

        This reads all remaining answers. A row that violates several policies, or one policy for
        several valuations, appears once for each.

        Args:
            frame: the only table that was checked: a data frame of pandas or polars, or a table or
                record batch of pyarrow.

        Returns:
            A table of the same kind, with the columns of the rows and three more: `policy`; `time`,
            the time-stamp; and `reason`, a text: the message of a trigger, or what the policy
            means, or its formula; for policies with variables, with the values that violate it.
            Names that are taken get the prefix `violation_`.

        Raises:
            RunError: the run does not tell the rows of violations, or the table is another one.
        """
        from mtlmon.tables.violations import offending_rows

        spec = self._spec
        if not spec.output.rows:
            raise RunError("violations() needs the rows of verdicts: add rows=True")
        if spec.times.lateness is not None:
            raise RunError("violations() is for rows in order: sort them, and leave out lateness")
        if spec.judging.given_verdicts == "none":
            raise RunError("violations() needs the violations: leave out verdicts='none'")
        if spec.log.time_points == "stamp":
            raise RunError(
                "violations() needs time-points that are rows: leave out time_points='stamp'"
            )
        if len(spec.log.tables) != 1 or spec.log.tables[0] is not frame:
            raise RunError("violations() takes the table that was checked, and only one")

        def judge() -> Judged:
            self._judging.require_violations()
            return self._judged()

        return offending_rows(frame, self._batches, judge)

    @property
    def _judging(self) -> Judging:
        return cast("Judging", self._host.judging)

    def _judged(self) -> Judged:
        return self._judging.judged()

    @property
    def messages(self) -> list[str]:
        """What the run has remarked so far, a sentence each.

        They say what was skipped or left out, which atoms no row has, and what is undecided at the
        end.
        """
        return list(self._host.messages)

    @property
    def explanations(self) -> list[dict[str, Any]]:
        """With `explain=True`, the first violations, once the run has ended.

        Each has the members of a line that the command writes with `--explain-output x.jsonl`.
        """
        return [] if self._found is None else list(self._found.facts)

    @property
    def has_violation(self) -> bool:
        """Whether a policy that matters is violated more often than it may be; ends the run.

        Raises:
            RunError: as for `finish`.
        """
        self.finish()
        return self.status == VIOLATION

    @property
    def summary(self) -> str:
        """Counts, speed and memory of the run, as the command tells with `--summary`; ends it.

        Raises:
            RunError: as for `finish`.
        """
        self.finish()
        make = self._host.summary
        return "" if make is None else make()

    def to_arrow(self) -> pa.Table:
        """Return all answers that are left as one table.

        Raises:
            RunError: a column changes its type, or the answers are in a file, or as for `finish`.
        """
        if self._spec.output.path is not None:
            raise RunError(f"the answers are written to {self._spec.output.path}: leave output out")
        batches = list(self.batches())
        self._require_whole()
        output = self._host.output
        return one_table(batches, None if output is None else output.schema)

    def _repr_html_(self) -> str:
        """The counts of each policy so far and its first violations, which notebooks show.

        If there are no counts, it says why.
        """
        try:
            counts = self.counts
        except RunError as error:
            return f"<p>{escape(str(error))}</p>"
        rows = [
            (
                name or "",
                f"{one.events:,}",
                f"{one.false:,}",
                f"{one.false / one.events:.1%}" if one.events else "",
                f"{one.undecided:,}",
            )
            for name, one in counts.items()
        ]
        table = html_table(("policy", "time-points", "violations", "part", "undecided"), rows)
        if (first := self._end.first) is None:
            return table
        return table + first.to_html(self._judged, sum(one.false for one in counts.values()))

    def __repr__(self) -> str:
        if self.status is not None:
            state = f"status {self.status}"
        elif self._end.error is not None:
            state = "ended with an error"
        else:
            state = "closed" if self._is_closed else "open"
        return f"<{type(self).__name__}, {state}>"


@contextmanager
def advised(spec: RunSpec) -> Iterator[None]:
    """Let errors of a run name its options as keywords."""
    try:
        yield
    except ClosedPipe:
        raise RunError(f"cannot write {spec.output.path}: its reader has closed the pipe") from None
    except FormulaError:
        # its text is the user's
        raise
    except MtlmonError as error:
        if isinstance(error, LogError):
            error.args = (f"{error}{line_advice(error, spec.option_names)}",)
        error.args = tuple(in_python(one) if isinstance(one, str) else one for one in error.args)
        raise


def check(
    policies: Policies,
    events: Tables | Sequence[Tables],
    **options: Unpack[CheckOptions],
) -> Run:
    """Check policies on a log, as the command does, with its options by the same words.

    Args:
        policies: the text of a policy file or a formula, a `Formula`, a `PolicyFile`, the path of
            a file as a `pathlib.Path`, a list of paths, or a dictionary of machines by the names of
            policies: see `mtlmon.streams.register_machine`.
        events: the log: a path, a pattern of paths, a directory, or `-` for standard input, which
            may be text, CSV, JSON lines, Parquet or Arrow, as the command reads them; a table or
            data frame of pyarrow, pandas or polars, or what else has `__arrow_c_stream__`; or a
            list of these.
        options: the options of the command, with underscores in place of hyphens: `key="user"`,
            `lateness="5m"`, `explain=True`, `report="r.html"`, `checkpoint="state"`; and `set`, a
            dictionary of constants. With `output`, answers are written to that file instead. With
            `follow=True`, the run goes on with what is appended to the file, until `end_log` is
            called.

    Returns:
        The run, from which answers are read.

    Raises:
        TypeError: there is no such option, or it takes values of another type.
        RunError: options contradict each other, or a policy file cannot be read.
        MtlmonError: a policy is not valid.

    Iterating raises MtlmonError for a log or an output that cannot be opened, for rows that cannot
    be read, and when limits are reached; the answers of the rows before come first.

    >>> import pyarrow as pa
    >>> users, names = ["ann", "bob", "ann"], ["in", "in", "out"]
    >>> rows = pa.table({"ts": [1, 2, 9], "user": users, "what": names})
    >>> run = check(
    ...     "policy leave: in IMPLIES EVENTUALLY[0,5] out", rows, event="what", key="user",
    ...     end_time="inf", verdicts="false",
    ... )
    >>> for answer in run:
    ...     print(answer.policy, answer["user"], answer.time, answer.verdict)
    leave ann 1 False
    leave bob 2 False
    >>> run.status
    1
    """
    return Run(*started("check", policies, events, options))


def started(
    function: str,
    policies: Policies,
    events: Tables | Sequence[Tables],
    options: CheckOptions,
) -> tuple[RunSpec, Steps, Program, _Found | None]:
    """Return what a `Run` is made of; `function` is what was called, in errors."""
    host = Program()
    spec = spec_of(function, options, host)
    return run_of(policies, with_events(spec, events), host)


def run_of(
    policies: Policies, spec: RunSpec, host: Program
) -> tuple[RunSpec, Steps, Program, _Found | None]:
    """Return what a `Run` is made of: policies on the log of the options.

    Raises:
        RunError: options contradict each other, or a policy file cannot be read.
        MtlmonError: a policy is not valid.
    """
    with advised(spec):
        known, spec = _given_policies(policies, spec)
        spec = require_consistent(spec)
        spec, found = _for_program(spec, host)
        if spec.log.follow is not None:
            from mtlmon.run.followed_file import following

            spec, host.follower = following(spec)
        try:
            spec, steps = _ready_steps(known, spec)
        except BaseException:
            if host.follower is not None:
                # no run has it
                host.follower.close()
            raise
        return spec, steps, host, found


def _ready_steps(known: Formula | PolicyFile | None, spec: RunSpec) -> tuple[RunSpec, Steps]:
    """Return the steps of a run that can be run, and what it is asked to do."""
    if spec.log.signature is None:
        file, spec = prepared(spec) if known is None else adopted(known, spec)
        require_runnable(file, spec)
        return spec, steps_of(file, spec)
    if known is not None:
        raise RunError("signature is for a formula of MonPoly: give its text or its file")
    from mtlmon.run.monpoly_logs import check_monpoly, prepared_monpoly

    formula, spec = prepared_monpoly(spec)
    return spec, check_monpoly(formula, spec)


def _for_program(spec: RunSpec, host: Program) -> tuple[RunSpec, _Found | None]:
    """Let a program take what is not written; return also what takes explanations."""
    found = None
    if spec.reporting.explain and spec.reporting.explain_output is None:
        found = _Found(host)
        spec = spec.having(explanations=found)
    if spec.output.path is None:
        require_no_idle(spec)
        host.keeps_answers = spec.judging.given_verdicts != "none"
        spec = spec.having(output_format="batches", batch_output=host.batch_output)
    return spec, found


def require_no_idle(spec: RunSpec) -> None:
    """Raise RunError if a program would get answers while the log brings nothing."""
    if spec.times.idle is not None and (spec.log.follow is not None or spec.log.has_pipe):
        # a program gets answers between rows only
        raise RunError(
            "idle is for answers in a file, as they come while the log brings nothing: add "
            "output=PATH, or use mtlmon.live, which has pass_time()"
        )


def with_events(spec: RunSpec, events: Tables | Sequence[Tables]) -> RunSpec:
    """Let the events be the log of a run."""
    several = isinstance(events, Sequence) and not isinstance(events, str | bytes)
    logs = list(cast("Sequence[Tables]", events)) if several else [cast("Tables", events)]
    if not logs:
        raise RunError("no log: name one, or give a table")
    paths = [os.fspath(one) for one in logs if is_path(one)]
    if spec.log.follow:
        if len(logs) != 1 or not paths:
            raise RunError("follow=True is for one log: give the path of a file")
        return spec.having(follow=paths[0], logs=[STANDARD_STREAM])
    spec = spec.having(follow=None)
    return spec.having(logs=paths) if len(paths) == len(logs) else spec.having(tables=logs)


def _given_policies(
    policies: Policies, spec: RunSpec
) -> tuple[Formula | PolicyFile | None, RunSpec]:
    """Return policies that have been parsed, or else None and the options with their texts."""
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.several import require_different, require_no_path

    if isinstance(policies, Mapping):
        from mtlmon.policy.predicates.own_machines import machine_policies

        return None, spec.having(formula=machine_policies(policies))
    if isinstance(policies, Formula) and (text := written_with_conditions(policies)):
        return None, spec.having(formula=text)
    if isinstance(policies, Formula | PolicyFile):
        return policies, spec
    if isinstance(policies, str):
        require_no_path(policies)
        return None, spec.having(formula=policies)
    paths: Sequence[Any] = policies if isinstance(policies, Sequence) else [policies]
    if isinstance(policies, bytes) or not all(map(is_path, paths)):
        wrong = next((one for one in paths if not is_path(one)), policies)
        raise TypeError(
            "policies are a text, a Formula, a PolicyFile, the path of a file as a pathlib.Path, "
            f"a list of paths, or a dictionary of machines; not {wrong!r}"
        )
    if not paths:
        raise RunError("no policies: name a file")
    files = [os.fspath(one) for one in paths]
    require_different(files)
    return None, spec.having(formula_files=files)
